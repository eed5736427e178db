"""The hook methods of Module: registering forward, backward and state hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.hooks import RemovableHandle


class HookMethods:
    """The part of Module that registers hooks."""

    _is_full_backward_hook: bool | None = None

    def _add_hook(self, table: str, hook: Any, prepend: bool = False, flags: dict[str, bool] | None = None) -> Any:
        hooks = getattr(self, table)
        flags = flags or {}
        handle = RemovableHandle(hooks, extra_dict=[getattr(self, name) for name in flags])
        hooks[handle.id] = hook
        for name, on in flags.items():
            if on:
                getattr(self, name)[handle.id] = True
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def register_forward_pre_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Run `hook(module, args)` before forward; a result replaces the arguments.

        With `with_kwargs`, `hook(module, args, kwargs)` returns None or `(args, kwargs)`. `prepend` puts it first.

        Example:
            >>> import rushlight as torch
            >>> layer = torch.nn.Identity()
            >>> handle = layer.register_forward_pre_hook(lambda module, args: args[0] + 1)
            >>> layer(torch.zeros(1))
            tensor([1.])
        """
        return self._add_hook("_forward_pre_hooks", hook, prepend, {"_forward_pre_hooks_with_kwargs": with_kwargs})

    def register_forward_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Run `hook(module, args, output)` after forward; a result replaces the output.

        With `with_kwargs` the call is `hook(module, args, kwargs, output)`. `always_call` runs it after an exception
        in forward too. Returns a handle whose `remove()` takes the hook out.
        """
        flags = {"_forward_hooks_with_kwargs": with_kwargs, "_forward_hooks_always_called": always_call}
        return self._add_hook("_forward_hooks", hook, prepend, flags)

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Run `hook(module, grad_output)` before the gradients enter the module; a result replaces them."""
        return self._add_hook("_backward_pre_hooks", hook, prepend)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Run `hook(module, grad_input, grad_output)` when the gradients of the inputs are known.

        A result, a tuple as long as the positional inputs, replaces `grad_input`.

        Raises:
            RuntimeError: the module already has hooks of the legacy `register_backward_hook`.
        """
        if self._is_full_backward_hook is False:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a "
                "single Module. Please use only one of them."
            )
        self._is_full_backward_hook = True
        return self._add_hook("_backward_hooks", hook, prepend)

    def register_backward_hook(self, hook: Callable) -> RemovableHandle:
        """Run `hook(module, grad_input, grad_output)` on the module's last node: legacy, see the full hook."""
        if self._is_full_backward_hook is True:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a "
                "single Module. Please use only one of them."
            )
        self._is_full_backward_hook = False
        return self._add_hook("_backward_hooks", hook)

    def register_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Run `hook(module, prefix, keep_vars)` before `state_dict` collects this module."""
        return self._add_hook("_state_dict_pre_hooks", hook)

    def register_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Run `hook(module, state_dict, prefix, local_metadata)` after `state_dict` collected this module, in place."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return self._add_hook("_state_dict_hooks", hook)

    def _register_state_dict_hook(self, hook: Callable) -> RemovableHandle:
        """As the public post hook, but a result replaces the state dict."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was "
                "previously registered via register_state_dict_post_hook"
            )
        return self._add_hook("_state_dict_hooks", hook)

    def register_load_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Run `hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors)` before loading."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook: Callable, with_module: bool = False) -> RemovableHandle:
        return self._add_hook("_load_state_dict_pre_hooks", LoadHook(hook, self if with_module else None))

    def register_load_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Run `hook(module, incompatible_keys)` after loading; it may change the lists in place."""
        return self._add_hook("_load_state_dict_post_hooks", hook)


class LoadHook:
    """A load pre-hook, called with the module in front if it was registered so."""

    def __init__(self, hook: Callable, module: Any = None) -> None:
        self.hook = hook
        self.with_module = module is not None

    def __call__(self, module: Any, *args: Any) -> Any:
        return self.hook(module, *args) if self.with_module else self.hook(*args)


# Tables that `Module.__getattr__` makes when first asked for; the first group decides whether a call takes the detour.
CALL_TABLES = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
HOOK_TABLES = frozenset(
    CALL_TABLES
    + (
        "_forward_hooks_with_kwargs",
        "_forward_hooks_always_called",
        "_forward_pre_hooks_with_kwargs",
        "_state_dict_hooks",
        "_state_dict_pre_hooks",
        "_load_state_dict_pre_hooks",
        "_load_state_dict_post_hooks",
    )
)
