"""What linear algebra asks of its matrices, in PyTorch's words: shapes, dtypes, and errors of failed factorizations."""
import numpy as np

from ..core import dtypes
from ..core.errors import LinAlgError, type_name
from ..tensor import Tensor
from .dispatch import result_type_of, scalar_name
from .record import composite
from .triangular import flat_batch


@composite("")
def mh(x):
    """The conjugate transpose of each matrix."""
    return conj(x).mT


def quiet(kernel):
    """The kernel without NumPy's warnings, which come from NumPy's own frames here."""
    def silent(*arguments):
        with np.errstate(all="ignore"):
            return kernel(*arguments)
    return silent


def counting(start, stop, step):
    """Python's range, in rules, where that name means the op."""
    return range(start, stop, step)


def named(name, fields, tensors, out=None):
    """A named tuple of results, stored in `out` if there is one."""
    if out is not None:
        for target, tensor in zip(out, tensors):
            target.copy_checked(tensor)
        tensors = out
    return result_type_of(name, fields)(tuple(tensors))


def need_tensor(value, name, argument, position=1):
    if not isinstance(value, Tensor):
        raise TypeError(f"{name.removeprefix('torch.').replace('.', '_')}(): argument '{argument}' (position {position}) must be Tensor, not "
                        f"{type_name(value)}")


def need_matrix(input, name, argument="A"):
    need_tensor(input, name, argument, 1 if argument in ("A", "LU", "LD", "input") else 2)
    if input.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")


def need_square(input, name, argument="A"):
    need_matrix(input, name, argument)
    rows, columns = input.shape[-2:]
    if rows != columns:
        raise RuntimeError(f"{name}: {argument} must be batches of square matrices, but they are {rows} by {columns} matrices")


def need_float(input, name, kernel=None):
    """Refuse integers, and half types: by name of the kernel that lacks them, or as too low a precision."""
    need_tensor(input, name, "input")
    dtype = input._dtype
    if dtype.category < dtypes.FLOAT:
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {scalar_name(dtype)}")
    if not dtype.native:
        if kernel:
            raise NotImplementedError(f"\"{kernel}\" not implemented for '{scalar_name(dtype)}'")
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {scalar_name(dtype)}")


def need_same_dtype(a, b, name, names="AB"):
    need_tensor(a, name, names[0])
    need_tensor(b, name, names[1], 2)
    if a._dtype is not b._dtype:
        raise RuntimeError(f"{name}: Expected {names[0]} and {names[1]} to have the same dtype, but found {names[0]} of type {scalar_name(a._dtype)} "
                           f"and {names[1]} of type {scalar_name(b._dtype)} instead")


SINGULAR = {
    "inv": "The diagonal element {0} is zero, the inversion could not be completed because the input matrix is singular.",
    "solve": "The solver failed because the input matrix is singular.",
    "cholesky": "The factorization could not be completed because the input is not positive-definite (the leading minor of order {0} is not "
                "positive-definite).",
    "lu": "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero. If you still want to perform the factorization, "
          "consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)",
    "ldl": "D[{0},{0}] is zero and using it on ldl_solve would result in a division by zero. If you still want to perform the factorization, "
           "consider calling linalg.ldl_factor_ex",
    "finite": "The algorithm failed to converge because the input matrix contained non-finite values.",
    "converge": "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated {0}.",
}


def refuse(name, kind, info):
    """Raise for the first matrix of a batch whose `info` (an int array) is not 0."""
    info = np.asarray(info)
    if info.any():
        at = int(np.flatnonzero(info)[0])
        where_at = f": (Batch element {at}): " if info.ndim else ": "
        raise LinAlgError(name + where_at + SINGULAR[kind].format(int(info.reshape(-1)[at])))


def each(function, arrays, count):
    """`function` on each matrix of broadcast batches where the whole batch failed; results stacked. ndarrays."""
    batch = np.broadcast_shapes(*(array.shape[:-2] for array in arrays))
    flat = [flat_batch(np.broadcast_to(array, batch + array.shape[-2:]), 2) for array in arrays]
    results = [function(*matrices) for matrices in zip(*flat)]
    if count == 1:
        return np.stack(results).reshape(batch + results[0].shape)
    return tuple(np.stack(parts).reshape(batch + parts[0].shape) for parts in zip(*results))
