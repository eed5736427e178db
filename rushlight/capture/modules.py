"""Calls of modules while translating: one guard says that there are no hooks, instead of one for each table."""

from typing import Any

from ..nn.hooks import GLOBAL, call_with_hooks
from ..nn.module_hooks import CALL_TABLES


def no_hooks(module: Any) -> bool:
    """Whether a call of the module is its `forward` and nothing else.

    >>> import rushlight as torch
    >>> from rushlight.capture.modules import no_hooks
    >>> layer = torch.nn.Identity()
    >>> no_hooks(layer), bool(layer.register_forward_hook(print)), no_hooks(layer)
    (True, True, False)
    """
    state = module.__dict__
    return not GLOBAL.detour and not any(state.get(table) for table in CALL_TABLES)


def call_module(self: Any, args: tuple, kwargs: dict) -> Any:
    module = self.value(args[0])
    source = self.source_of(module)
    if source is None or kwargs or not no_hooks(module):
        return self.follow(call_with_hooks, args, kwargs)
    self.guards.add("hooks", source, "no_hooks({v})", words=f"{source.name} has no hooks")
    return self.call(self.getattr(module, "forward"), tuple(self.value(args[1])), dict(self.value(args[2])))


MODULES = {call_with_hooks: call_module}
