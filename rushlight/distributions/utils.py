"""What distributions share: parameters broadcast against each other, probabilities and logits, lazy properties."""
import functools
from numbers import Number

from .. import ops
from ..core import modes
from ..core.dtypes import finfo
from ..tensor import Tensor

euler_constant = 0.57721566490153286060

__all__ = ["broadcast_all", "logits_to_probs", "clamp_probs", "probs_to_logits", "lazy_property", "tril_matrix_to_vec", "vec_to_tril_matrix"]


def as_tensor_like(value, like):
    """A number as a 0-d tensor of the dtype of `like`, or of the default dtype."""
    if isinstance(value, Tensor):
        return value
    return ops.tensor(value, dtype=modes.get_default_dtype() if like is None else like.dtype)


def broadcast_all(*values):
    """Tensors and numbers as tensors of one shape; numbers take the first tensor's dtype.

    >>> import rushlight as torch
    >>> [t.shape for t in torch.distributions.utils.broadcast_all(torch.zeros(2), 1.0)]
    [torch.Size([2]), torch.Size([2])]
    """
    if not all(isinstance(value, (Tensor, Number)) for value in values):
        raise ValueError("Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__.")
    like = next((value for value in values if isinstance(value, Tensor)), None)
    return ops.broadcast_tensors(*(as_tensor_like(value, like) for value in values))


def logits_to_probs(logits, is_binary=False):
    """Probabilities: the sigmoid, or the softmax along the last dim."""
    return ops.sigmoid(logits) if is_binary else logits.softmax(-1)


def clamp_probs(probs):
    """Probabilities kept away from 0 and 1 by the dtype's epsilon."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs, is_binary=False):
    """Logits, from probabilities kept away from 0 and 1."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


class lazy_property:
    """A property computed once, and then an attribute of the instance."""

    def __init__(self, wrapped):
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        with modes.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat, diag=0):
    """The lower triangles of matrices as vectors, row by row."""
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise ValueError(f"diag ({diag}) provided is outside [{-size}, {size - 1}].")
    rows, columns = ops.tril_indices(size, size, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec, diag=0):
    """The inverse of `tril_matrix_to_vec`: zeros above the diagonal `diag`."""
    length = vec.shape[-1]
    size = round((-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * length + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2)
    rows, columns = ops.tril_indices(size, size, diag)
    flat = rows * size + columns
    blank = vec.new_zeros(*vec.shape[:-1], size * size)
    return blank.index_copy(-1, flat, vec).reshape(*vec.shape[:-1], size, size)
