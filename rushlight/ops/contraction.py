"""Matrix products and what is made of them: mm, bmm, matmul, linear, addmm, einsum, ..."""
import numpy as np

from ..tensor import Tensor
from .record import composite, primitive


def check_same_dtype(a, b):
    if a.dtype != b.dtype:
        from_names = {"float32": "float", "float64": "double", "int64": "long", "int32": "int", "bfloat16": "c10::BFloat16"}
        names = [from_names.get(x.dtype.name, x.dtype.name) for x in (a, b)]
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {names[0]} != {names[1]}")


@primitive(tensors=("input", "mat2"), family="contraction",
           grad=dict(input=lambda g, mat2: g @ mat2.mT, mat2=lambda g, input: input.mT @ g), node="MmBackward0")
def mm(input, mat2):
    """The product of two matrices.

    >>> import rushlight as torch
    >>> torch.mm(torch.eye(2), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[1., 2.],
            [3., 4.]])
    """
    if input.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError("self must be a matrix" if input.ndim != 2 else "mat2 must be a matrix")
    if input.shape[1] != mat2.shape[0]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({input.shape[0]}x{input.shape[1]} and {mat2.shape[0]}x{mat2.shape[1]})")
    check_same_dtype(input, mat2)
    return np.matmul(input, mat2)


@primitive(tensors=("input", "weight", "bias"), where="nn", family="contraction", node="AddmmBackward0",
           grad=dict(input=lambda g, weight: g @ weight, weight=lambda g, input: g.mT @ input, bias=lambda g: sum(g, 0)))
def _linear_rows(input, weight, bias):
    result = np.matmul(input, weight.T)
    result += bias
    return result


@composite("method torch", raw=np.matmul)
def matmul(input, other, *, out=None):
    """The matrix product, with PyTorch's rules for vectors and batches.

    >>> import rushlight as torch
    >>> torch.matmul(torch.ones(2, 3), torch.ones(3))
    tensor([3., 3.])
    """
    if input.ndim == 2 and other.ndim == 2:
        return mm(input, other)
    raise NotImplementedError("matmul of these ranks")
