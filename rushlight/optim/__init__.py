"""Optimizers, learning-rate schedules (`lr_scheduler`) and weight averaging (`swa_utils`), with PyTorch's names.

An optimizer loads when its name is first used. `__init__.pyi`, which tools/stubs.py writes, tells type checkers.
"""
from importlib import import_module

from ..core.absent import refuser

# The names by the file that has them.
FAMILIES = {
    "adadelta": "Adadelta", "adafactor": "Adafactor", "adagrad": "Adagrad", "adam": "Adam", "adamax": "Adamax", "adamw": "AdamW",
    "asgd": "ASGD", "lbfgs": "LBFGS", "muon": "Muon", "nadam": "NAdam", "optimizer": "Optimizer", "radam": "RAdam", "rmsprop": "RMSprop",
    "rprop": "Rprop", "sgd": "SGD", "sparse_adam": "SparseAdam",
}
PLACES = ("lr_scheduler", "swa_utils")
WHERE = {name: family for family, names in FAMILIES.items() for name in names.split()}

__all__ = sorted([*WHERE, *PLACES])


def __getattr__(name: str) -> object:
    if name in WHERE:
        globals()[name] = value = getattr(import_module("." + WHERE[name], __name__), name)
        return value
    if name in FAMILIES or name in PLACES:
        return import_module("." + name, __name__)
    return refuser(__name__)(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *FAMILIES, *__all__})
