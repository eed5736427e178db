"""`torch.utils`: data, checkpoint, and what else programs import from there; each loads on first use."""
import importlib

from ..core.absent import refuser


def __getattr__(name):
    if not name.startswith("_") or name == "_pytree":
        try:
            return importlib.import_module("." + name, __name__)
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    return refuser(__name__)(name)
