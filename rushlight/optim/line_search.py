"""The line search of LBFGS: a step length that meets the strong Wolfe conditions, by bracketing and cubic steps.

After Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6, with the safeguards PyTorch uses, so that
the same losses are evaluated at the same points. Read `strong_wolfe` first.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..tensor import Tensor

ENOUGH = 1e-4  # share of the first slope's decrease that counts as progress
CURVATURE = 0.9  # share of the first slope that may remain


class Point(NamedTuple):
    """A step length with the loss there, its gradient and its slope along the direction."""

    length: Any
    loss: float
    gradient: Tensor
    slope: Any


def cubic_minimum(one: Point, other: Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """Where the cubic through two points with these slopes is least, kept within bounds; their middle if nowhere."""
    x1, f1, g1, x2, f2, g2 = one.length, one.loss, one.slope, other.length, other.loss, other.slope
    low, high = bounds if bounds is not None else (x1, x2) if x1 <= x2 else (x2, x1)
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 ** 2 - g1 * g2
    if not square >= 0:
        return (low + high) / 2.0
    d2 = square.sqrt()
    if x1 <= x2:
        least = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        least = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(least, low), high)


def strong_wolfe(evaluate: Callable[[Any], tuple[float, Tensor]], length: Any, direction: Tensor, loss: float, gradient: Tensor,
                 slope: Any, most_evaluations: int, tolerance_change: float = 1e-9) -> tuple[float, Tensor, Any, int]:
    """(loss, gradient, length, evaluations) at a length where the loss fell enough and the slope flattened enough.

    `evaluate(length)` gives loss and gradient; `slope` is the gradient along the direction at length 0.
    """
    size = direction.abs().max()

    def at(length: Any) -> Point:
        loss, gradient = evaluate(length)
        return Point(length, loss, gradient, gradient.dot(direction))

    start = Point(0, loss, gradient.clone(), slope)
    previous, point, evaluations, rounds = start, at(length), 1, 0
    bracket, done = None, False
    while rounds < most_evaluations:
        if point.loss > loss + ENOUGH * point.length * slope or rounds > 1 and point.loss >= previous.loss:
            bracket = [previous, point]
        elif abs(point.slope) <= -CURVATURE * slope:
            bracket, done = [point], True
        elif point.slope >= 0:
            bracket = [previous, point]
        if bracket is not None:
            break
        nearest, farthest = point.length + 0.01 * (point.length - previous.length), point.length * 10
        following = cubic_minimum(previous, point, (nearest, farthest))
        previous, point = point, at(following)
        evaluations += 1
        rounds += 1
    if bracket is None or rounds == most_evaluations:
        bracket = [start, point]
    low, high = (0, 1) if bracket[0].loss <= bracket[-1].loss else (1, 0)
    stalled = False
    while not done and rounds < most_evaluations:
        if abs(bracket[1].length - bracket[0].length) * size < tolerance_change:
            break
        length = cubic_minimum(bracket[0], bracket[1])
        least, most = (pick(bracket[0].length, bracket[1].length) for pick in (min, max))
        margin = 0.1 * (most - least)
        if min(most - length, length - least) < margin:  # too near an end: once is allowed, twice is no progress
            if stalled or length >= most or length <= least:
                length = most - margin if abs(length - most) < abs(length - least) else least + margin
                stalled = False
            else:
                stalled = True
        else:
            stalled = False
        point = at(length)
        evaluations += 1
        rounds += 1
        if point.loss > loss + ENOUGH * length * slope or point.loss >= bracket[low].loss:
            bracket[high] = point
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
        else:
            if abs(point.slope) <= -CURVATURE * slope:
                done = True
            elif point.slope * (bracket[high].length - bracket[low].length) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = point
    best = bracket[low]
    return best.loss, best.gradient, best.length, evaluations
