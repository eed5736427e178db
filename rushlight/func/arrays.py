"""Functions of NumPy arrays as functions of tensors."""
import functools

from numpy import generic, ndarray

from ..core.pytree import tree_map
from ..ops.creation import as_tensor
from ..tensor import Tensor


def wrap_numpy(fn):
    """A function of NumPy arrays as one of tensors. In compiled code it is part of the graph, as far as its calls have ops.

    >>> import numpy as np
    >>> import rushlight as torch
    >>> torch.compiler.wrap_numpy(lambda a: np.sum(a * 2))(torch.ones(3))
    tensor(6.)
    """
    @functools.wraps(fn)
    def wrapped(*args, **kwargs):
        args, kwargs = tree_map(lambda leaf: leaf.numpy() if isinstance(leaf, Tensor) else leaf, (args, kwargs))
        return tree_map(lambda leaf: as_tensor(leaf) if isinstance(leaf, (ndarray, generic)) else leaf, fn(*args, **kwargs))
    return wrapped
