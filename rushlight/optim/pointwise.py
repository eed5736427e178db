"""PointwiseOptimizer: what the optimizers share whose rule treats each element of a parameter alike.

A subclass gives `_layout` (what it keeps), `_coefficients` (numbers of a step) and `_rule` (the update, written
once, in the words of `arithmetic.py`). `step` reads all gradients first and writes nothing if one is unusable.
With `differentiable=True`, and for tensors that are not plain (a tracer's, a subclass's), the rule runs on tensors
and is recorded. Read `PointwiseOptimizer.step` first.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import modes
from ..ops import full_like, tensor, view_as_complex, view_as_real
from ..tensor import PLAIN, Tensor
from .arithmetic import TENSORS
from .blocks import Layout, Plan, check_state, is_first
from .hyperparameters import number, scalar, scalar_dtype
from .optimizer import Optimizer, caller, evaluate

CAPTURABLE_DEVICES = ["cuda", "xpu", "hpu", "privateuseone", "xla"]


class PointwiseOptimizer(Optimizer):
    """The base of optimizers whose rule is elementwise; see the module."""

    def _layout(self, group: dict[str, Any]) -> Layout:
        """What is kept for a parameter of this group."""
        raise NotImplementedError

    def _coefficients(self, group: dict[str, Any], numbers: dict[str, Any], first: bool) -> tuple[Any, dict[str, Any]]:
        """What the rule needs besides arrays, and the new values of the kept numbers."""
        raise NotImplementedError

    @staticmethod
    def _rule(k: Any, p: Any, g: Any, s: dict[str, Any], c: Any) -> Any:
        """The new parameter from the parameter, the gradient, the state's slots and the coefficients."""
        raise NotImplementedError

    def _plain_factor(self, group: dict[str, Any]) -> float | None:
        """f, if all that the rule does in this group is p + f * g."""
        return None

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.pop("_plans", None)
        for group in self.param_groups:
            for name, default in self._later_options.items():
                group.setdefault(name, default)
            numbers = self._layout(group).numbers
            for param in group["params"]:
                kept = self.state.get(param)
                for name in numbers:
                    if kept and not isinstance(kept[name], Tensor):  # written by a PyTorch that kept Python numbers
                        kept[name] = tensor(float(kept[name]), dtype=scalar_dtype(group.get("fused")))

    _traceable = True  # whether the rule is the same at every step
    _later_options: dict[str, Any] = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; returns what `closure` returned, if one was given.

        RuntimeError if a gradient's shape or dtype is not its parameter's; then nothing was updated.
        """
        loss = evaluate(closure)
        plans: list[Any] | None = self.__dict__.get("_plans")
        groups = self.param_groups
        if plans is None or len(plans) != len(groups):
            plans = self._plans = list[Any]([None] * len(groups))
            self._pool: dict[Any, Any] = {}
        ready: list[tuple[dict[str, Any], Any]] = []
        for index, group in enumerate(groups):
            params = group["params"]
            if group.get("capturable") or group.get("fused"):
                check_devices(group)
            plan = plans[index]
            if plan is None or not plan.fits(params):
                plan = plans[index] = Plan(params)
            if not plan.plain or group["differentiable"]:
                ready.append((group, None))
            else:
                ready += [(group, block) for block in plan.collect(self.state, self._layout(group), self._pool)]
        if ready:
            frame = caller()
            with np.errstate(all="ignore"):
                for group, block in ready:
                    if block is None:
                        self._step_on_tensors(group)
                    else:
                        block.run(self, group, frame)
            for _, block in ready:
                if block is not None and block.direct:
                    block.grads = None  # it is the parameter's own, which may be large
        return loss

    def _step_on_tensors(self, group: dict[str, Any]) -> None:
        """The rule on tensors: recorded if the group is differentiable, traced if the parameters are a tracer's."""
        recorded = bool(group.get("differentiable"))
        layout = self._layout(group)
        previous = modes.grad_enabled()
        modes.GRAD.set(recorded)
        try:
            for param in group["params"]:
                grad = param.grad
                if grad is None:
                    continue
                state = self.state[param] if layout.names else {}
                first = is_first(state, layout)
                self._make_state(param, state, layout)
                # a tracer's numbers stay tensors, so that the trace holds for every step
                numbers = {name: state[name].item() if type(state[name]) is Tensor else state[name] for name in layout.numbers}
                coefficients, numbers = self._coefficients(group, numbers, first)
                slots = {name: state.get(name) for name in layout.slots}
                if not recorded:
                    for name, slot in slots.items():
                        check_state(name, slot, param)
                value, grad = real(param), real(-grad if group["maximize"] else grad)
                live = {name: None if slot is None else real(slot) for name, slot in slots.items()}
                value = self._rule(TENSORS, value, grad, live, coefficients)
                param.copy_(view_as_complex(value) if param.is_complex() else value)
                for name, slot in live.items():
                    slot = view_as_complex(slot) if param.is_complex() else slot
                    if recorded or state.get(name) is None:
                        state[name] = slot
                    else:
                        state[name].copy_(slot)
                for name, value in numbers.items():
                    state[name].copy_(value) if isinstance(value, Tensor) else state[name].fill_(value)
        finally:
            modes.GRAD.set(previous)

    def _make_state(self, param: Tensor, state: dict[str, Any], layout: Layout) -> None:
        """Enter the first values of what is missing into a parameter's state."""
        for name, value in layout.numbers.items():
            if name not in state:
                state[name] = tensor(value, dtype=layout.number_dtype)
        for name, fill in layout.slots.items():
            if name not in state and fill is not None:
                state[name] = full_like(param.detach(), complex(fill, fill) if param.is_complex() else fill)


def apply_rule(optimizer: Any, group: Any, param: Any, grad: Any, state: dict, layout: Any, k: Any) -> None:
    """One parameter's step, as `_step_on_tensors` has it, for a trace: real numbers, and a state that is complete."""
    coefficients, numbers = optimizer._coefficients(group, {name: state[name] for name in layout.numbers}, False)
    live = {name: state[name] for name in layout.slots}
    value = optimizer._rule(k, param, -grad if group["maximize"] else grad, live, coefficients)
    param.copy_(value)
    for name, slot in live.items():
        state[name].copy_(slot)
    for name, value in numbers.items():
        state[name].copy_(value)


def real(value: Tensor) -> Tensor:
    """Complex numbers as pairs of real ones."""
    return view_as_real(value) if value.is_complex() else value


def rate(group: dict[str, Any], name: str = "lr") -> Any:
    """An option as the rule wants it: a number, or a 0-d tensor if gradients may flow to it."""
    value = group[name]
    if not isinstance(value, Tensor):
        return value
    return scalar(value) if group.get("differentiable") else number(value)


def check_devices(group: dict[str, Any]) -> None:
    """The errors PyTorch raises for `capturable` and `fused` where parameters don't allow them."""
    for param in group["params"]:
        if param._grad is None or type(param) not in PLAIN:
            continue
        if group.get("capturable"):
            raise AssertionError(f"If capturable=True, params and state_steps must be on supported devices: {CAPTURABLE_DEVICES}.")
        if group.get("fused") and not param.is_floating_point():
            raise RuntimeError("`fused=True` requires all the params to be floating point Tensors of supported devices: "
                               f"['mps', 'cuda', 'xpu', 'hpu', 'cpu', 'mtia', 'privateuseone'] but {param.dtype} and cpu")
