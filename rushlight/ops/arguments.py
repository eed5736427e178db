"""Checks of arguments that several functions of nn.functional share, in PyTorch's words."""
import operator

from ..core.errors import type_name
from ..tensor import Tensor


def need_tensors(function, **tensors):
    """TypeError for the first argument that is no tensor; arguments are given in the order of the signature."""
    for position, (name, value) in enumerate(tensors.items(), 1):
        if not isinstance(value, Tensor):
            raise TypeError(f"{function}(): argument '{name}' (position {position}) must be Tensor, not {type_name(value)}")


KNOWN, HELD = 512, 1 << 22  # results that a function remembers, and bytes of them


def remembered(function):
    """A function of ints, strings and tuples of ints, whose results are kept: what small calls would find out again each time.

    Only what is exactly an int counts as one: 2.0 and True are equal to ints, and mean something else.
    """
    results, held = {}, [0]

    def call(*arguments):
        for argument in arguments:
            kind = type(argument)
            if kind is tuple:
                for item in argument:
                    if type(item) is not int:
                        return function(*arguments)
            elif kind is not int and kind is not str and argument is not None and argument is not True and argument is not False:
                return function(*arguments)
        key = (*arguments, *map(type, arguments))
        result = results.get(key)
        if result is None:
            result = function(*arguments)
            held[0] += weight(result)
            if len(results) >= KNOWN or held[0] > HELD:
                results.clear()
                held[0] = weight(result)
            if held[0] <= HELD:
                results[key] = result
        return result

    call.__name__, call.__doc__, call.__wrapped__ = function.__name__, function.__doc__, function
    return call


def weight(result):
    """About how many bytes a result takes: arrays may be as long as an input."""
    return 64 + (sum(map(weight, result)) if type(result) is tuple else getattr(result, "nbytes", 0))


def whole_numbers(value, function, name):
    """An int, or a sequence of ints, as a tuple; TypeError for anything else."""
    try:
        return (operator.index(value),) if not isinstance(value, (tuple, list)) else tuple(operator.index(item) for item in value)
    except TypeError:
        shown = next((item for item in value if not hasattr(item, "__index__")), value) if isinstance(value, (tuple, list)) else value
        raise TypeError(f"{function}(): argument '{name}' must be tuple of ints, not {type_name(shown)}") from None
