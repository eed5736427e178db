"""Half types in rules of several steps: widen, compute, round once, as eager mode does. (A rule of one step does so by itself.)"""

import functools
from collections.abc import Callable
from typing import Any

from . import rules_losses, rules_nn, rules_records  # noqa: F401 (they enter the rules that are wrapped here)
from .arrays import Array
from .make import Maker
from .rules import RULES

HALF = ("float16", "bfloat16")
SEVERAL_STEPS = (
    "gelu _gelu silu _silu mish _mish elu _elu _celu selu _selu softplus _softplus logsigmoid _logsigmoid hardswish _hardswish hardsigmoid _hardsigmoid "
    "logaddexp logaddexp2 mean _mean _mean_all _mean_dims std _std var _var mse_loss _mse_loss l1_loss _l1_loss smooth_l1_loss _smooth_l1_loss huber_loss _huber_loss "
    "hinge_embedding_loss _hinge_embedding_loss soft_margin_loss").split()


def rounded_once(function: Callable) -> Callable:
    @functools.wraps(function)
    def apply(make: Maker, *args: Any, **named: Any) -> Any:
        kinds = {value.dtype for value in (*args, *named.values()) if isinstance(value, Array) and value.dtype.startswith(("float", "bfloat"))}
        if len(kinds) != 1 or not kinds <= set(HALF):  # beside a wider type the result is of that type
            return function(make, *args, **named)
        half, = kinds

        def wide(value: Any) -> Any:
            return make.cast(value, "float32") if isinstance(value, Array) and value.dtype == half else value

        result = function(make, *map(wide, args), **{name: wide(value) for name, value in named.items()})
        return make.cast(result, half) if isinstance(result, Array) and result.dtype == "float32" else result
    return apply


for _name in SEVERAL_STEPS:
    if _name in RULES:
        RULES[_name] = rounded_once(RULES[_name])
