"""LBFGS: a quasi-Newton method that evaluates the loss several times in a step.

It works on one vector of all parameters, with tensors, since each evaluation costs far more than its arithmetic.
The line search is in `line_search.py`. Read `LBFGS.step` first.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core import modes
from ..ops import cat, view_as_real
from ..tensor import Tensor
from .hyperparameters import check_learning_rate, scalar
from .line_search import strong_wolfe
from .optimizer import Optimizer, ParamsT


class LBFGS(Optimizer):
    """Limited-memory BFGS: the last `history_size` changes of the gradient shape the direction of each move.

    `step(closure)` moves up to `max_iter` times and evaluates up to `max_eval` times (5/4 of `max_iter` by default);
    it ends early when the largest gradient is below `tolerance_grad`, or loss and parameters change by less than
    `tolerance_change`. `line_search_fn` is None (each move has length `lr`) or `"strong_wolfe"`. One group only;
    ValueError for more or for options out of range.

    >>> import rushlight as torch
    >>> w = torch.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((w - torch.tensor([1.0, 2.0])) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure)
    tensor(20., grad_fn=<SumBackward0>)
    >>> torch.allclose(w, torch.tensor([1.0, 2.0]))
    True
    """

    def __init__(self, params: ParamsT, lr: Any = 1, max_iter: int = 20, max_eval: int | None = None, tolerance_grad: float = 1e-7,
                 tolerance_change: float = 1e-9, history_size: int = 100, line_search_fn: str | None = None) -> None:
        check_learning_rate(lr)
        super().__init__(params, dict(lr=lr, max_iter=max_iter, max_eval=max_iter * 5 // 4 if max_eval is None else max_eval,
                                      tolerance_grad=tolerance_grad, tolerance_change=tolerance_change, history_size=history_size,
                                      line_search_fn=line_search_fn))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]

    def _gradient(self) -> Tensor:
        """The gradients of all parameters as one vector; zeros where there is none."""
        pieces = []
        for param in self._params:
            piece = (param.detach() * 0 if param.grad is None else param.grad).reshape(-1)
            pieces.append(view_as_real(piece).reshape(-1) if piece.is_complex() else piece)
        return cat(pieces, 0)

    def _move(self, length: Any, direction: Tensor) -> None:
        """Add `length * direction` to the parameters."""
        offset = 0
        for param in self._params:
            values = view_as_real(param) if param.is_complex() else param
            values.add_(direction[offset:offset + values.numel()].reshape(values.shape), alpha=length)
            offset += values.numel()

    def _evaluate_at(self, closure: Callable[[], Any], start: list[Tensor], direction: Tensor, length: Any) -> tuple[float, Tensor]:
        """Loss and gradient at a distance along the direction; the parameters are put back."""
        self._move(length, direction)
        loss, gradient = float(closure()), self._gradient()
        for param, value in zip(self._params, start):
            param.copy_(value)
        return loss, gradient

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Minimise for up to `max_iter` moves; returns what the first call of `closure` returned."""
        with modes.no_grad():
            return self._minimise(modes.enable_grad()(closure), self.param_groups[0])

    def _minimise(self, closure: Callable[[], Any], group: dict[str, Any]) -> Any:
        search = group["line_search_fn"]
        lr, tolerance = scalar(group["lr"]), group["tolerance_change"]
        state = self.state[self._params[0]]  # of all parameters: load_state_dict then casts it
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss, evaluations = float(first_loss), 1
        state["func_evals"] += 1
        gradient = self._gradient()
        flat = bool(gradient.abs().max() <= group["tolerance_grad"])
        if flat:
            return first_loss
        memory = {name: state.get(name) for name in ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")}
        moves = 0
        while moves < group["max_iter"]:
            moves += 1
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                memory.update(d=-gradient, old_dirs=[], old_stps=[], ro=[], H_diag=1)
            else:
                self._choose_direction(state, memory, gradient, group["history_size"])
            direction = memory["d"]
            if memory["prev_flat_grad"] is None:
                memory["prev_flat_grad"] = gradient.clone()
            else:
                memory["prev_flat_grad"].copy_(gradient)
            memory["prev_loss"] = loss
            memory["t"] = length = min(1.0, 1.0 / gradient.abs().sum()) * lr if state["n_iter"] == 1 else lr
            slope = gradient.dot(direction)
            if slope > -tolerance:
                break
            used = 0
            if search is not None:
                if search != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                evaluate = functools.partial(self._evaluate_at, closure, [param.clone() for param in self._params], direction)
                loss, gradient, length, used = strong_wolfe(evaluate, length, direction, loss, gradient, slope,
                                                            most_evaluations=group["max_eval"] - evaluations)
                memory["t"] = length
                self._move(length, direction)
                flat = bool(gradient.abs().max() <= group["tolerance_grad"])
            else:
                self._move(length, direction)
                if moves != group["max_iter"]:  # after the last move nobody needs the loss
                    loss, gradient, used = float(closure()), self._gradient(), 1
                    flat = bool(gradient.abs().max() <= group["tolerance_grad"])
            evaluations += used
            state["func_evals"] += used
            if evaluations >= group["max_eval"] or flat or (direction * length).abs().max() <= tolerance:
                break
            if abs(loss - memory["prev_loss"]) < tolerance:
                break
        state.update(memory)
        return first_loss

    def _choose_direction(self, state: dict[str, Any], memory: dict[str, Any], gradient: Tensor, history: int) -> None:
        """Remember how the gradient changed over the last move; the direction is minus the gradient, reshaped by all memories."""
        change, move = gradient - memory["prev_flat_grad"], memory["d"] * memory["t"]
        changes, lengths, inverses = memory["old_dirs"], memory["old_stps"], memory["ro"]
        curvature = change.dot(move)
        if curvature > 1e-10:
            if len(changes) == history:
                for remembered in (changes, lengths, inverses):
                    remembered.pop(0)
            changes.append(change)
            lengths.append(move)
            inverses.append(1.0 / curvature)
            memory["H_diag"] = curvature / change.dot(change)
        shares = state.setdefault("al", [None] * history)
        direction = -gradient
        for i in reversed(range(len(changes))):
            shares[i] = lengths[i].dot(direction) * inverses[i]
            direction.add_(changes[i], alpha=-shares[i])
        direction = direction * memory["H_diag"]
        for i in range(len(changes)):
            direction.add_(lengths[i], alpha=shares[i] - changes[i].dot(direction) * inverses[i])
        memory["d"] = direction
