"""A backward pass as one function of tensors, so that a graph can hold it as one node: `leaf_gradients` and `gradients`."""
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..tensor import wrap
from .api import grad


def leaf_gradients(outputs: Sequence[Any], gradients: Sequence[Any], leaves: Sequence[Any], keep: bool = False) -> tuple:
    """The gradients of `outputs` with respect to `leaves`, which all get one; `keep` keeps the history.

    They become the leaves' `.grad`: dense, in memory that neither another one nor what was given shares.

    >>> import rushlight as torch
    >>> from rushlight.autograd.recorded import leaf_gradients
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> leaf_gradients([x * x], [None], [x])
    (tensor(6.),)
    """
    found = grad(list(outputs), list(leaves), list(gradients), retain_graph=keep)
    others = [given._array for given in gradients if given is not None]
    own = []
    for tensor in found:
        array = tensor._array
        if 0 in array.strides or any(np.may_share_memory(array, other) for other in others):
            tensor = wrap(array.copy(), tensor._dtype)
        others.append(tensor._array)
        own.append(tensor)
    return tuple(own)


def gradients(outputs: Sequence[Any], inputs: Sequence[Any], given: Sequence[Any], keep: bool = False, create: bool = False,
              unused: bool = False) -> tuple:
    """`autograd.grad`: `keep` keeps the history, `create` records the pass itself, `unused` allows inputs that get None.

    >>> import rushlight as torch
    >>> from rushlight.autograd.recorded import gradients
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> gradients([x * x], [x], [None], True, True)
    (tensor(6., grad_fn=<AddBackward0>),)
    """
    return grad(list(outputs), list(inputs), list(given), retain_graph=keep, create_graph=create, allow_unused=unused)
