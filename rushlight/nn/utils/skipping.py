"""Making a module without spending time on its first values."""

from __future__ import annotations

import inspect
from typing import Any

from rushlight.nn import init
from rushlight.nn.module import Module


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """Make a module whose parameters are left as memory was found, for values that are loaded next.

    Raises:
        RuntimeError: the class is no Module, or takes no `device`.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.utils.skip_init(torch.nn.Linear, 5, 1).weight.shape
        torch.Size([1, 5])
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    with init.skipped():
        return module_cls(*args, **kwargs)
