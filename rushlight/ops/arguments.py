"""Checks of arguments that several functions of nn.functional share, in PyTorch's words."""
import operator

from ..core.errors import type_name
from ..tensor import Tensor


def need_tensors(function, **tensors):
    """TypeError for the first argument that is no tensor; arguments are given in the order of the signature."""
    for position, (name, value) in enumerate(tensors.items(), 1):
        if not isinstance(value, Tensor):
            raise TypeError(f"{function}(): argument '{name}' (position {position}) must be Tensor, not {type_name(value)}")


def whole_numbers(value, function, name):
    """An int, or a sequence of ints, as a tuple; TypeError for anything else."""
    try:
        return (operator.index(value),) if not isinstance(value, (tuple, list)) else tuple(operator.index(item) for item in value)
    except TypeError:
        shown = next((item for item in value if not hasattr(item, "__index__")), value) if isinstance(value, (tuple, list)) else value
        raise TypeError(f"{function}(): argument '{name}' must be tuple of ints, not {type_name(shown)}") from None
