"""Optimizer: parameter groups, per-parameter state, the state dict in PyTorch's format, hooks around `step`.

It owns no update rule: `pointwise.py` holds what the elementwise optimizers share, and each rule has its own file.
State dicts travel between Rushlight and PyTorch. Read `Optimizer.add_param_group` and `load_state_dict` first.
"""
from __future__ import annotations

import functools
import sys
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from ..core import dtypes, modes
from ..core.hooks import RemovableHandle
from ..tensor import PLAIN, Tensor, bump

Hooks = OrderedDict[int, Callable]
ParamsT = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
StateDict = dict[str, Any]

global_step_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
global_step_post_hooks: OrderedDict[int, Callable] = OrderedDict()


class RequiredParameter:
    """The default of an option that every parameter group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = RequiredParameter()


def _register(hooks: OrderedDict[int, Callable], hook: Callable, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before every optimizer's step; it may return new `(args, kwargs)`."""
    return _register(global_step_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after every optimizer's step."""
    return _register(global_step_post_hooks, hook)


def type_name(value: Any) -> str:
    """What PyTorch calls the type of a value in messages: `torch.FloatTensor`, `str`, `mypackage.Thing`."""
    if type(value) in PLAIN:
        return "torch." + value._dtype.tensor_name.removeprefix("torch.")
    kind = type(value)
    return kind.__name__ if kind.__module__ in ("builtins", "") else f"{kind.__module__}.{kind.__name__}"


class Optimizer:
    """The base of all optimizers: a list of parameter groups, each with its options, and a state per parameter.

    `params` is an iterable of tensors, of `(name, tensor)` pairs, or of dicts with a `params` entry and options of
    their own; `defaults` are the options of groups that don't give them. A subclass writes `step`.
    TypeError if `params` is one tensor or holds something else; ValueError if it is empty or holds a non-leaf.

    >>> import rushlight as torch
    >>> class Descent(torch.optim.Optimizer):
    ...     def __init__(self, params, lr):
    ...         super().__init__(params, dict(lr=lr))
    ...     @torch.no_grad()
    ...     def step(self):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p -= group["lr"] * p.grad
    >>> w = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> Descent([w], lr=0.5).step()
    >>> w.tolist()
    [0.0, 0.0]
    """

    _optimizer_step_pre_hooks: Hooks
    _optimizer_step_post_hooks: Hooks
    _optimizer_state_dict_pre_hooks: Hooks
    _optimizer_state_dict_post_hooks: Hooks
    _optimizer_load_state_dict_pre_hooks: Hooks
    _optimizer_load_state_dict_post_hooks: Hooks

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._make_hook_tables()
        if isinstance(params, Tensor):
            raise TypeError("params argument given to the optimizer should be an iterable of Tensors or dicts, "
                            f"but got {type_name(params)}")
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        given: list[Any] = list(params)
        if not given:
            raise ValueError("optimizer got an empty parameter list")
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    def _make_hook_tables(self) -> None:
        for table in ("step_pre", "step_post", "state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post"):
            self.__dict__.setdefault(f"_optimizer_{table}_hooks", OrderedDict())
        self._patch_step_function()

    def _patch_step_function(self) -> None:
        """Have the class's `step` run the hooks; once per class, also when `step` was assigned to it later."""
        kind = type(self)
        if not getattr(kind.step, "hooked", False):
            kind.step = run_with_hooks(kind.step)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_hook_tables()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines += [""] * (number > 0) + [f"Parameter Group {number}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join(lines) + "\n)"

    # Groups.

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group: a dict with `params` and any options; the rest come from the defaults.

        TypeError if it is no dict, holds a set or something that is no tensor; ValueError for a non-leaf, a missing
        required option, names given for some parameters only, or a parameter that another group holds.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError("optimizer parameters need to be organized in ordered collections, but "
                            "the ordering of tensors in sets will change between runs. Please use a list instead.")
        entries = [params] if isinstance(params, Tensor) else list(params)
        names = [entry[0] for entry in entries if isinstance(entry, tuple)]
        tensors = [entry[1] if isinstance(entry, tuple) else entry for entry in entries]
        param_group["params"] = tensors
        if names:
            if len(names) != len(tensors):
                raise ValueError("all optimizer params should be with/without names. Some param names are missing")
            param_group["param_names"] = names
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type_name(tensor)}")
            if not (self.defaults.get("differentiable") or tensor.is_leaf or tensor.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if len(set(tensors)) != len(tensors):
            warnings.warn("optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                          "see github.com/pytorch/pytorch/issues/40967 for more information", stacklevel=3)
        held: set[Tensor] = set()
        for group in self.param_groups:
            held.update(group["params"])
            if ("param_names" in param_group) != ("param_names" in group):
                kind = "with names" if "param_names" in param_group else "without names"
                raise ValueError("all optimizer param groups should be with/without names. "
                                 f"cannot add param group {kind} to the optimizer")
        if not held.isdisjoint(tensors):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or, with `set_to_none=False`, set them to zero in place."""
        for group in self.param_groups:
            for param in group["params"]:
                grad = param._grad
                if grad is None:
                    continue
                if set_to_none:
                    param._grad = None
                else:
                    grad._node, grad._requires_grad = None, False
                    grad._array[...] = 0
                    bump(grad)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters from their gradients. `closure`, if given, computes the loss again and returns it."""
        raise NotImplementedError

    # State.

    def state_dict(self) -> StateDict:
        """The options and the state, with parameters replaced by their numbers; tensors are shared, not copied."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        groups, start = [], 0
        for group in self.param_groups:
            for number, param in enumerate(group["params"], start):
                numbers.setdefault(id(param), number)
            start += len(group["params"])
            packed = {key: value for key, value in group.items() if key != "params"}
            groups.append({**packed, "params": [numbers[id(param)] for param in group["params"]]})
        state = {numbers[id(key)] if isinstance(key, Tensor) else key: value for key, value in self.state.items()}
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            if changed is not None:
                result = changed
        return result

    @staticmethod
    def _process_value_according_to_param_policy(param: Tensor, value: Tensor, param_id: Any, param_groups: list[dict[str, Any]],
                                                 key: Any = None) -> Tensor:
        """A loaded state tensor in the dtype that the parameter asks for; `step` keeps its own."""
        if key == "step":
            flagged = any(param_id in group["params"] and (group.get("fused") or group.get("capturable")) for group in param_groups)
            return value.to(dtype=dtypes.float32) if flagged else value
        return value.to(dtype=param.dtype) if param.is_floating_point() else value

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Take over options and state from what `state_dict` gave, here or in PyTorch.

        Parameters are matched by their order. ValueError if the number or the sizes of the groups differ.
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        saved_groups = deepcopy(state_dict["param_groups"])
        if len(self.param_groups) != len(saved_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(group["params"]) != len(saved["params"]) for group, saved in zip(self.param_groups, saved_groups)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's group")
        saved_ids = chain.from_iterable(saved["params"] for saved in saved_groups)
        by_id = dict(zip(saved_ids, chain.from_iterable(group["params"] for group in self.param_groups)))

        def cast(param: Tensor, value: Any, number: Any, key: Any = None) -> Any:
            if isinstance(value, Tensor):
                return self._process_value_according_to_param_policy(param, value, number, state_dict["param_groups"], key)
            if isinstance(value, dict):
                return {name: cast(param, entry, number, name) for name, entry in value.items()}
            if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
                return type(value)(cast(param, entry, number) for entry in value)  # type: ignore[call-arg]
            return value

        state: defaultdict[Any, Any] = defaultdict(dict)
        for number, entry in state_dict["state"].items():
            if number in by_id:
                state[by_id[number]] = cast(by_id[number], entry, number)
            else:
                state[number] = entry
        for group, saved in zip(self.param_groups, saved_groups):
            saved["params"] = group["params"]
            if "param_names" in group:
                saved.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": state, "param_groups": saved_groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    # Hooks.

    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return new `(args, kwargs)`."""
        return _register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before a state dict is made."""
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` on each state dict made; it may return another."""
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before one is loaded; it may return another."""
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` after a state dict was loaded."""
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)


def run_with_hooks(step: Callable) -> Callable:
    """`step` with the pre-hooks before it and the post-hooks after it; without hooks it costs one more call."""

    @functools.wraps(step)
    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        before, after = self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks
        if not (before or after or global_step_pre_hooks or global_step_post_hooks):
            return step(self, *args, **kwargs)
        args = (self, *args)  # PyTorch's hooks see the optimizer among the arguments
        for hook in chain(global_step_pre_hooks.values(), before.values()):
            changed = hook(self, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(f"{step} must return None or a tuple of (new_args, new_kwargs), but got {changed}.")
                args, kwargs = changed
        result = step(*args, **kwargs)
        for hook in chain(after.values(), global_step_post_hooks.values()):
            hook(self, args, kwargs)
        return result

    hooked.hooked = True  # type: ignore[attr-defined]
    return hooked


def evaluate(closure: Callable[[], Any] | None) -> Any:
    """The loss that a closure computes, with a graph recorded whatever the mode; None without a closure."""
    if closure is None:
        return None
    with modes.enable_grad():
        return closure()


def caller() -> Any:
    """The innermost frame that is not this package's: the line that called `step`."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("rushlight."):
        frame = frame.f_back
    return frame
