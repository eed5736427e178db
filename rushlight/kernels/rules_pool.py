"""Rules of average pooling and group norm, with their gradients."""

import builtins
import math
from typing import Any

from .arrays import Array
from .make import Maker, Unsupported
from .rules import RULES, floating, rule
from .rules_nn import channels, windows


def divisor(spatial: Any, size: Any, kernel: Any, stride: Any, padding: Any, count_include_pad: bool, override: Any) -> Any:
    """What every window's sum is divided by; Unsupported where windows differ."""
    if override is not None:
        return override
    ends = [(o - 1) * s + k for o, s, k in zip(size, stride, kernel)]
    room = [n + 2 * p if count_include_pad else n for n, p in zip(spatial, padding)]
    if builtins.any(end > n for end, n in zip(ends, room)) or builtins.any(padding) and not count_include_pad:
        raise Unsupported("windows of several sizes")
    return math.prod(kernel)


@rule("_avg_pool2d", "_avg_pool3d")
def avg_pool(make: Maker, input: Array, size: Any, kernel: Any, stride: Any, padding: Any, count_include_pad: bool, override: Any) -> Array:
    n = len(kernel)
    count = divisor(input.shape[-n:], size, kernel, stride, padding, count_include_pad, override)
    seen = windows(make, floating(make, input), size, kernel, stride, padding, (1,) * n, 0.0)
    return make.float_point("div", make.reduce("sum", seen, tuple(range(seen.ndim - n, seen.ndim))), count)


@rule("avg_pool_backward")
def avg_pool_backward(make: Maker, grad: Array, shape: Any, size: Any, kernel: Any, stride: Any, padding: Any, count_include_pad: bool,
                      override: Any) -> Array:
    lead, shape = len(shape) - len(kernel), tuple(shape)
    if builtins.any(padding) or tuple(kernel) != tuple(stride) or builtins.any(o * k > m for o, k, m in zip(size, kernel, shape[lead:])):
        raise Unsupported("windows that overlap")
    part = make.float_point("div", grad, divisor(shape[lead:], size, kernel, stride, padding, count_include_pad, override))
    ones = make.reshape(part, (*shape[:lead], *[v for o in size for v in (o, 1)]))
    spread = make.expand(ones, (*shape[:lead], *[v for o, k in zip(size, kernel) for v in (o, k)]))
    used = make.reshape(spread, (*shape[:lead], *[o * k for o, k in zip(size, kernel)]))
    return make.pad(used, [0] * len(shape), shape)


@rule("_group_norm")
def group_norm(make: Maker, input: Array, weight: Any = None, bias: Any = None, groups: int = 1, eps: float = 1e-5) -> Array:
    if input.dtype not in ("float32", "float64"):
        raise Unsupported(f"group norm in {input.dtype}")
    rows = make.reshape(input, (input.shape[0] * groups, -1))
    result = make.reshape(RULES["layer_norm"](make, rows, rows.shape[1:], None, None, eps), input.shape)
    if weight is not None:
        result = make.point("mul", result, channels(make, weight, input.ndim))
    return result if bias is None else make.point("add", result, channels(make, bias, input.ndim))
