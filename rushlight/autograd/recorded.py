"""`leaf_gradients`: a backward pass as one function of tensors, so that a graph can hold it as one node."""
from collections.abc import Sequence
from typing import Any

from .api import grad


def leaf_gradients(outputs: Sequence[Any], gradients: Sequence[Any], leaves: Sequence[Any], keep: bool = False) -> tuple:
    """The gradients of `outputs` with respect to `leaves`, which all get one; `keep` keeps the history.

    >>> import rushlight as torch
    >>> from rushlight.autograd.recorded import leaf_gradients
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> leaf_gradients([x * x], [None], [x])
    (tensor(6.),)
    """
    return grad(list(outputs), list(leaves), list(gradients), retain_graph=keep)
