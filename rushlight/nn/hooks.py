"""Hooks of modules: the global tables, and how a call runs hooks.

`Module.__call__` is `forward` unless `_detour` is set on the module or on `GLOBAL`; then `call_with_hooks` here runs,
in order: global and own forward pre-hooks, the input side of full backward hooks, `forward`, forward hooks, the
output side of the backward hooks. Hooks of the legacy `register_backward_hook` sit on the result's node.
Read `call_with_hooks` first.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from rushlight.autograd.function import Function
from rushlight.core.hooks import RemovableHandle
from rushlight.nn.registry import HookTable
from rushlight.tensor import Tensor


class GlobalHooks:
    """Hooks that run for every module. `epoch` rises with every change; `detour` says whether there are any."""

    def __init__(self) -> None:
        self.epoch = 0
        self.detour = False
        self.forward = HookTable(self.changed)
        self.forward_with_kwargs = HookTable(self.changed)
        self.forward_always_called = HookTable(self.changed)
        self.forward_pre = HookTable(self.changed)
        self.backward = HookTable(self.changed)
        self.backward_pre = HookTable(self.changed)
        self.full_backward: bool | None = None
        self.parameter_registration = HookTable(self.changed)
        self.buffer_registration = HookTable(self.changed)
        self.module_registration = HookTable(self.changed)

    def changed(self) -> None:
        self.epoch += 1
        self.detour = bool(self.forward or self.forward_pre or self.backward or self.backward_pre)


GLOBAL = GlobalHooks()
_EMPTY: OrderedDict = OrderedDict()


def call_with_hooks(module: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Call `module.forward` with every hook that applies."""
    tables = module.__dict__
    called_always: set[int] = set()
    always = tables.get("_forward_hooks_always_called", _EMPTY)
    if not always and not GLOBAL.forward_always_called:
        return _run(module, tables, args, kwargs, called_always)
    result = None
    try:
        return _run(module, tables, args, kwargs, called_always)
    except Exception:
        for identity, hook in [*GLOBAL.forward.items(), *tables.get("_forward_hooks", _EMPTY).items()]:
            if identity in called_always or identity not in always and identity not in GLOBAL.forward_always_called:
                continue
            try:
                changed = _forward_hook(module, tables, identity, hook, args, kwargs, result)
                result = result if changed is None else changed
            except Exception as error:
                warnings.warn(
                    "module forward hook with ``always_call=True`` raised an exception "
                    f"that was silenced as another error was raised in forward: {error}",
                    stacklevel=3,
                )
        raise


def _forward_hook(
    module: Any, tables: dict, identity: int, hook: Callable, args: tuple, kwargs: dict, result: Any
) -> Any:
    if identity in tables.get("_forward_hooks_with_kwargs", _EMPTY) or identity in GLOBAL.forward_with_kwargs:
        return hook(module, args, kwargs, result)
    return hook(module, args, result)


def _run(module: Any, tables: dict, args: tuple, kwargs: dict, called_always: set[int]) -> Any:
    full, legacy = backward_hooks(module, tables)
    before = [*GLOBAL.backward_pre.values(), *tables.get("_backward_pre_hooks", _EMPTY).values()]
    with_kwargs = tables.get("_forward_pre_hooks_with_kwargs", _EMPTY)
    for identity, hook in [*GLOBAL.forward_pre.items(), *tables.get("_forward_pre_hooks", _EMPTY).items()]:
        if identity in with_kwargs:
            changed = hook(module, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(
                        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                    )
                args, kwargs = changed
        else:
            changed = hook(module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
    boundary = None
    if full or before:
        boundary = BackwardBoundary(module, full, before)
        args = boundary.mark_inputs(args)
    result = module.forward(*args, **kwargs)
    for identity, hook in [*GLOBAL.forward.items(), *tables.get("_forward_hooks", _EMPTY).items()]:
        called_always.add(identity)
        changed = _forward_hook(module, tables, identity, hook, args, kwargs, result)
        result = result if changed is None else changed
    if boundary is not None:
        if not isinstance(result, (Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors "
                f"but received {type(result)}",
                stacklevel=3,
            )
        result = boundary.mark_outputs(result)
    if legacy:
        _attach_legacy(module, legacy, result)
    return result


def backward_hooks(module: Any, tables: dict) -> tuple[list[Callable], list[Callable]]:
    """The backward hooks that apply to `module`: (full, legacy)."""
    full: list[Callable] = []
    legacy: list[Callable] = []
    if GLOBAL.backward:
        (full if GLOBAL.full_backward else legacy).extend(GLOBAL.backward.values())
    own = tables.get("_backward_hooks", _EMPTY)
    if own:
        (full if module._is_full_backward_hook else legacy).extend(own.values())
    return full, legacy


def _attach_legacy(module: Any, hooks: list[Callable], result: Any) -> None:
    found = result
    while not isinstance(found, Tensor):
        found = next(v for v in found.values() if isinstance(v, Tensor)) if isinstance(found, dict) else found[0]
    node = found.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(lambda grad_input, grad_output, hook=hook: hook(module, grad_input, grad_output))


class BackwardHookFunction(Function):
    """Passes tensors through unchanged: the node at a module's border, on which the hooks hang."""

    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> Any:
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


class BackwardBoundary:
    """The two borders of one call of one module, which tell the user's full backward hooks what flowed across them."""

    def __init__(self, module: Any, hooks: list[Callable], pre_hooks: list[Callable]) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_outputs: tuple | None = None
        self.inputs: list[int] | None = None
        self.input_count = -1

    def mark_inputs(self, args: tuple) -> tuple:
        """The arguments, their tensors passed through a node that runs the user's hooks last."""
        positions, args = self._pass_through(args, self._at_inputs)
        self.inputs = positions
        self.input_count = len(args)
        return args

    def mark_outputs(self, result: Any) -> Any:
        """The result, its tensors passed through a node that records what arrives from above."""
        outputs = result if isinstance(result, tuple) else (result,)
        count = len(outputs)
        self.outputs: list[int] | None = None

        def arrive(_: Any, grads: tuple) -> Any:
            return self._at_outputs(grads, count)

        self.outputs, marked = self._pass_through(outputs, arrive)
        return marked if isinstance(result, tuple) else marked[0]

    def _pass_through(self, values: tuple, hook: Callable) -> tuple[list[int] | None, tuple]:
        positions = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
        if not any(values[i].requires_grad for i in positions):
            return None, values
        passed = BackwardHookFunction.apply(*[values[i] for i in positions])
        nodes = [t.grad_fn for t in passed if t.grad_fn is not None]
        if not nodes:
            return None, values  # grad mode is off: nothing will flow back
        nodes[0].register_hook(hook)
        changed = list(values)
        for i, tensor in zip(positions, passed):
            changed[i] = tensor
        # A named tuple stays what it is.
        return positions, type(values)(*changed) if hasattr(values, "_fields") else tuple(changed)

    @staticmethod
    def _spread(positions: list[int], grads: tuple, count: int) -> tuple:
        spread: list[Any] = [None] * count
        for i, grad in zip(positions, grads):
            spread[i] = grad
        return tuple(spread)

    def _at_outputs(self, grads: tuple, count: int) -> Any:
        assert self.outputs is not None
        self.grad_outputs = self._spread(self.outputs, grads, count)
        for hook in self.pre_hooks:
            changed = hook(self.module, self.grad_outputs)
            if changed is None:
                continue
            changed = changed if isinstance(changed, tuple) else (changed,)
            if len(changed) != count:
                raise RuntimeError(
                    "Backward pre hook returned an invalid number of grad_output, "
                    f"got {len(changed)}, but expected {count}"
                )
            self.grad_outputs = changed
        passed = tuple(self.grad_outputs[i] for i in self.outputs) if self.pre_hooks else None
        if self.inputs is None:
            # No input requires grad, so nothing flows past the module: the hooks run here.
            nothing = (None,) * self.input_count
            for hook in self.hooks:
                changed = hook(self.module, nothing, self.grad_outputs)
                if changed is not None and not (isinstance(changed, tuple) and all(g is None for g in changed)):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient "
                        "should always return None or None for all gradients."
                    )
            self.grad_outputs = None
        return passed

    def _at_inputs(self, grads: tuple, _: Any) -> Any:
        if self.grad_outputs is None:
            return None  # this backward did not come through the module's outputs
        assert self.inputs is not None
        current = self._spread(self.inputs, grads, self.input_count)
        for hook in self.hooks:
            changed = hook(self.module, current, self.grad_outputs)
            if changed is None:
                continue
            changed = changed if isinstance(changed, tuple) else (changed,)
            if len(changed) != self.input_count:
                raise RuntimeError(
                    "Backward hook returned an invalid number of grad_input, "
                    f"got {len(changed)}, but expected {self.input_count}"
                )
            current = changed
        self.grad_outputs = None
        return tuple(current[i] for i in self.inputs)


def _register(table: HookTable, hook: Callable) -> RemovableHandle:
    handle = RemovableHandle(table)
    table[handle.id] = hook
    return handle


def register_module_forward_pre_hook(hook: Callable) -> RemovableHandle:
    """Run `hook(module, args)` before the forward of every module."""
    return _register(GLOBAL.forward_pre, hook)


def register_module_forward_hook(
    hook: Callable, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Run `hook(module, args, output)` after the forward of every module."""
    handle = RemovableHandle(GLOBAL.forward, extra_dict=[GLOBAL.forward_with_kwargs, GLOBAL.forward_always_called])
    GLOBAL.forward[handle.id] = hook
    if with_kwargs:
        GLOBAL.forward_with_kwargs[handle.id] = True
    if always_call:
        GLOBAL.forward_always_called[handle.id] = True
    return handle


def register_module_backward_hook(hook: Callable) -> RemovableHandle:
    """Run the legacy `hook(module, grad_input, grad_output)` of the last node of every module."""
    if GLOBAL.full_backward is True:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a "
            "global Module hook. Please use only one of them."
        )
    GLOBAL.full_backward = False
    return _register(GLOBAL.backward, hook)


def register_module_full_backward_pre_hook(hook: Callable) -> RemovableHandle:
    """Run `hook(module, grad_output)` before the backward of every module."""
    return _register(GLOBAL.backward_pre, hook)


def register_module_full_backward_hook(hook: Callable) -> RemovableHandle:
    """Run `hook(module, grad_input, grad_output)` after the backward of every module."""
    if GLOBAL.full_backward is False:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a "
            "global Module hook. Please use only one of them."
        )
    GLOBAL.full_backward = True
    return _register(GLOBAL.backward, hook)


def register_module_parameter_registration_hook(hook: Callable) -> RemovableHandle:
    """Run `hook(module, name, parameter)` whenever a module registers a parameter; a result replaces it."""
    return _register(GLOBAL.parameter_registration, hook)


def register_module_buffer_registration_hook(hook: Callable) -> RemovableHandle:
    """Run `hook(module, name, buffer)` whenever a module registers a buffer; a result replaces it."""
    return _register(GLOBAL.buffer_registration, hook)


def register_module_module_registration_hook(hook: Callable) -> RemovableHandle:
    """Run `hook(module, name, submodule)` whenever a module registers a submodule; a result replaces it."""
    return _register(GLOBAL.module_registration, hook)
