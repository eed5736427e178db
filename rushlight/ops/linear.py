"""linear, bilinear, and their kernels. On a 2-d input with a bias, linear is one node (PyTorch's AddmmBackward0)."""
import numpy as np

from ..core import dtypes, modes
from ..core.busy import Busy
from ..core.memory import untouched
from ..core.outline import outline
from ..core.parallel import Threads
from ..core.size import product
from ..tensor import Tensor
from .arguments import need_tensors
from .contraction import need_product
from .record import composite, primitive

ONES = {}  # (count, dtype) -> a vector of ones: a product with it sums rows, in half the time of a reduction of a small matrix
FEW_ROWS = 256


def raw_sum_rows(g, shape):
    """The gradient of a bias of this shape: g summed over all dims but the last."""
    if len(shape) != 1 or shape[0] != g.shape[-1]:
        extra = g.ndim - len(shape)
        axes = tuple(range(extra)) + tuple(at + extra for at, size in enumerate(shape) if size == 1)
        return np.add.reduce(g, axis=axes, keepdims=True).reshape(shape)
    rows = g if g.ndim == 2 else rows_of(g)
    count = rows.shape[0]
    if count > FEW_ROWS:
        return np.add.reduce(rows, axis=0)
    key = count, rows.dtype
    ones = ONES.get(key)
    if ones is None:
        ones = ONES[key] = np.ones(count, rows.dtype)
    return ones.dot(rows)


@composite("", raw=raw_sum_rows)
def sum_rows(g, shape):
    return sum_to_size(g, shape)


def plain_product(a, b, bias=None):
    result = a.dot(b)  # for small matrices 0.4 us less than np.matmul
    if bias is not None:
        result += bias
    return result


SMALL = 1 << 21  # multiplications, up to which NumPy's product is as fast as a compiled one
products = Busy("products", plain_product, 1 << 34)  # multiplications


def multiplied(a, b, bias=None):
    """a @ b + bias of matrices, by compiled code where the same sizes have been multiplied many times."""
    work = a.size * b.shape[-1]
    if work < SMALL or a.dtype.char not in "fd" or a.dtype is not b.dtype or bias is not None and (bias.ndim != 1 or bias.dtype is not a.dtype):
        return plain_product(a, b, bias)
    if outline.enough and a.shape[1] == b.shape[0] and (bias is None or bias.shape[0] in (1, b.shape[1])):
        outline.given = True
        return untouched((a.shape[0], b.shape[1]), a.dtype)
    arrays = (a, b) if bias is None else (a, b, bias)
    return products.choose((a.dtype.char, Threads.count, *[(array.shape, array.strides) for array in arrays]), work)(*arrays)


@composite("", raw=multiplied)
def matrix_dot(a, b):
    return a @ b


def check_linear(bias, input, weight):
    """Say in PyTorch's words what is wrong with the operands of a 2-d linear."""
    if input.dtype != weight.dtype:
        names = [dtypes.BY_NUMPY[array.dtype].tensor_name.removesuffix("Tensor") for array in (input, weight)]
        raise RuntimeError(f"mat1 and mat2 must have the same dtype, but got {names[0]} and {names[1]}")
    if bias.dtype != weight.dtype:
        names = [dtypes.BY_NUMPY[array.dtype].tensor_name.removesuffix("Tensor") for array in (bias, weight)]
        raise RuntimeError(f"self and mat2 must have the same dtype, but got {names[0]} and {names[1]}")
    if weight.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {weight.ndim}D")
    if weight.ndim == 2 and input.shape[-1] != weight.shape[1]:
        rows = product(input.shape[:-1])
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({rows}x{input.shape[-1]} and {weight.shape[1]}x{weight.shape[0]})")
    if weight.ndim == 2 and bias.ndim and bias.shape[-1] not in (1, weight.shape[0]):
        size = [*input.shape[:-1], weight.shape[0]]
        raise RuntimeError(f"The expanded size of the tensor ({size[-1]}) must match the existing size ({bias.shape[-1]}) at non-singleton "
                           f"dimension {len(size) - 1}.  Target sizes: {size}.  Tensor sizes: {list(bias.shape)}")
    need_product("addmm_impl_cpu_", input, weight)


@primitive(tensors=("bias", "input", "weight"), where="", family="contraction", node="AddmmBackward0", check=check_linear,
           grad=dict(bias=lambda g, bias_shape: sum_rows(g, bias_shape), input=lambda g, weight: matrix_dot(g, weight),
                     weight=lambda g, input: matrix_dot(g.mT, input)))
def _linear_rows(bias, input, weight):
    return multiplied(input, weight.T, bias)


def rows_of(array):
    return array.reshape(product(array.shape[:-1]), array.shape[-1])


def row_product(g, weight, bias=None):
    return multiplied(rows_of(g), weight, bias).reshape(*g.shape[:-1], weight.shape[1])


@composite("", raw=row_product)
def rows_times(g, weight):
    return g @ weight


@composite("", raw=lambda g, input: multiplied(rows_of(g).T, rows_of(input)))
def weight_gradient(g, input):
    return reshape(g, (-1, g.shape[-1])).mT @ reshape(input, (-1, input.shape[-1]))


@primitive(tensors=("bias", "input", "weight"), where="", family="contraction", node="ViewBackward0", check=check_linear,
           grad=dict(bias=lambda g, bias_shape: sum_rows(g, bias_shape), input=lambda g, weight: rows_times(g, weight),
                     weight=lambda g, input: weight_gradient(g, input)))
def _linear_batch(bias, input, weight):
    """linear for an input of another rank than 2, as one product of all rows."""
    return row_product(input, weight.T, bias)


def raw_linear(input, weight, bias=None, out=None):
    result = np.matmul(input, weight.T)
    return result if bias is None else result + bias


@composite("nn", raw=raw_linear)
def linear(input, weight, bias=None, *, out=None):
    """input @ weight.T + bias.

    Shapes: input (*, in), weight (out, in) or (in,), bias (out,) -> (*, out). RuntimeError where they or the dtypes differ.

    >>> import rushlight as torch
    >>> torch.nn.functional.linear(torch.ones(1, 2), torch.eye(2), torch.tensor([0.5, 1.0]))
    tensor([[1.5000, 2.0000]])
    """
    if bias is not None and out is None and isinstance(input, Tensor):
        ndim = input._array.ndim
        if ndim == 2 and weight.ndim == 2:
            return _linear_rows(bias, input, weight)
        if ndim and weight.ndim == 2 and (input._dtype is weight._dtype or modes.AUTOCAST.get() is not None):
            return _linear_batch(bias, input, weight)
    need_tensors("linear", input=input, weight=weight)
    if not input.ndim or not weight.ndim:
        raise RuntimeError(f"both arguments to linear need to be at least 1D, but they are {input.ndim}D and {weight.ndim}D")
    if bias is not None and input._dtype is not weight._dtype and modes.AUTOCAST.get() is None:
        check_linear(bias._array, input._array, weight._array)
    result = input.matmul(weight.t())
    if bias is not None:
        result = result + bias
    return result if out is None else out.copy_checked(result)


def check_bilinear(input1, input2, weight):
    if input1.ndim != input2.ndim:
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {input1.ndim} and {input2.ndim}")
    for at in range(input1.ndim - 1):
        if input1.shape[at] != input2.shape[at]:
            raise RuntimeError(f"bilinear(): input batch dimensions do not match at dim {at}: got {input1.shape[at]} and {input2.shape[at]}")
    for position, (value, dim) in enumerate(((input1, 1), (input2, 2)), 1):
        if value.shape[-1] != weight.shape[dim]:
            raise RuntimeError(f"bilinear(): input{position} size does not match weight size: got {value.shape[-1]} but expected "
                               f"{weight.shape[dim]}")


@composite("torch")
def bilinear(input1, input2, weight, bias=None):
    """input1 @ weight[k] @ input2 + bias[k] for each output k.

    Shapes: (*, in1), (*, in2), weight (out, in1, in2) -> (*, out).

    >>> import rushlight as torch
    >>> torch.nn.functional.bilinear(torch.ones(1, 2), torch.ones(1, 3), torch.ones(1, 2, 3))
    tensor([[6.]])
    """
    need_tensors("bilinear", input1=input1, input2=input2, weight=weight)
    check_bilinear(input1, input2, weight)
    batch = tuple(input1.shape[:-1])
    rows1, rows2 = input1.reshape(product(batch), input1.shape[-1]), input2.reshape(product(batch), input2.shape[-1])
    # (n, 1, in1) @ (out, in1, in2) -> (out, n, in2), times input2, summed
    result = (rows1.unsqueeze(0).matmul(weight) * rows2.unsqueeze(0)).sum(-1).t().reshape(*batch, weight.shape[0])
    return result if bias is None else result + bias
