"""Matrix products and what is made of them: mm, bmm, matmul, addmm, einsum, tensordot, ..."""

import numpy as np

from ..core import dtypes
from ..core.errors import type_name
from ..core.size import broadcast_shapes as joint_shape
from ..core.size import product, wrap_dim
from ..tensor import PLAIN, Tensor
from .arguments import remembered
from .pointwise import in_common
from .record import composite, primitive
from .view import _permute, reshape


def scalar_names(*arrays):
    """The names of the arrays' types in PyTorch's messages: Float, Half, ..."""
    return [dtypes.BY_NUMPY[array.dtype].tensor_name.removesuffix("Tensor") for array in arrays]


def check_same_dtype(a, b):
    if a.dtype != b.dtype:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {dtypes.BY_NUMPY[a.dtype].c_name} != {dtypes.BY_NUMPY[b.dtype].c_name}")
    need_product("addmm_impl_cpu_", a, b)


def need_product(kernel, *arrays):
    """Refuse the types that PyTorch has no matrix product for; nothing is refused where nothing is computed."""
    dtype = dtypes.BY_NUMPY[arrays[0].dtype]
    if not dtype.fast_product and dtype.category < dtypes.FLOAT and all(array.size for array in arrays):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{scalar_names(arrays[0])[0]}'")


def check_mm(input, mat2):
    if input.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError("self must be a matrix" if input.ndim != 2 else "mat2 must be a matrix")
    if input.shape[1] != mat2.shape[0]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({input.shape[0]}x{input.shape[1]} and {mat2.shape[0]}x{mat2.shape[1]})")
    check_same_dtype(input, mat2)


# ndarray.dot takes a third of matmul's time on small matrices, and the same BLAS on large ones.
@primitive(tensors=("input", "mat2"), family="contraction", node="MmBackward0", kernel=np.ndarray.dot, check=check_mm, where="",
           grad=dict(input=lambda g, mat2: _mm(g, mat2.T), mat2=lambda g, input: _mm(input.T, g)))
def _mm(input, mat2): ...


@composite("torch method out", raw=np.ndarray.dot)
def mm(input, mat2, *, out=None):
    """The product of two matrices.

    >>> import rushlight as torch
    >>> torch.mm(torch.eye(2), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[1., 2.],
            [3., 4.]])
    """
    if input.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError("self must be a matrix" if input.ndim != 2 else "mat2 must be a matrix")
    return _mm(input, mat2) if out is None else out.copy_checked(_mm(input, mat2))


def check_mv(input, vec):
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {input.ndim}, {vec.ndim}")
    if input.shape[1] != vec.shape[0]:
        raise RuntimeError(f"size mismatch, got input ({input.shape[0]}), mat ({input.shape[0]}x{input.shape[1]}), vec ({vec.shape[0]})")
    check_addmv_dtypes(vec, input, vec)


def check_addmv_dtypes(input, mat, vec):
    if not input.dtype == mat.dtype == vec.dtype:
        names = scalar_names(vec, mat, input)
        raise RuntimeError(f"addmv input tensors must have the same dtype, but got {names[0]}, {names[1]}, and {names[2]}")
    need_product("addmv_impl_cpu", mat, vec)


@primitive(tensors=("input", "vec"), family="contraction", node="MvBackward0", check=check_mv,
           grad=dict(input=lambda g, vec: outer(g, vec), vec=lambda g, input: input.mT @ g))
def mv(input, vec):
    """The product of a matrix and a vector.

    >>> import rushlight as torch
    >>> torch.mv(torch.eye(2), torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    check_mv(input, vec)
    return np.matmul(input, vec)


def check_dot(input, tensor):
    if input.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {input.ndim}D and {tensor.ndim}D tensors")
    if input.dtype != tensor.dtype:
        names = scalar_names(input, tensor)
        raise RuntimeError(f"dot : expected both vectors to have same dtype, but found {names[0]} and {names[1]}")
    if input.shape != tensor.shape:
        raise RuntimeError(f"inconsistent tensor size, expected tensor [{input.size}] and src [{tensor.size}] to have the same number of elements, "
                           f"but got {input.size} and {tensor.size} elements respectively")
    need_product("dot", input, tensor)


@primitive(tensors=("input", "tensor"), family="contraction", node="DotBackward0", check=check_dot,
           grad=dict(input=lambda g, tensor: g * tensor, tensor=lambda g, input: g * input))
def dot(input, tensor):
    """The inner product of two vectors.

    >>> import rushlight as torch
    >>> torch.dot(torch.tensor([2, 3]), torch.tensor([2, 1]))
    tensor(7)
    """
    check_dot(input, tensor)
    return np.dot(input, tensor)


@composite("torch method out")
def vdot(input, other, *, out=None):
    """The inner product of two vectors, the first conjugated.

    >>> import rushlight as torch
    >>> torch.vdot(torch.tensor([2, 3]), torch.tensor([2, 1]))
    tensor(7)
    """
    result = dot(input.conj() if input._dtype.is_complex else input, other)
    return result if out is None else out.copy_checked(result)


def check_bmm(input, mat2):
    for name, array in (("batch1", input), ("batch2", mat2)):
        if array.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    if mat2.shape[:2] != (input.shape[0], input.shape[2]):
        raise RuntimeError(f"Expected size for first two dimensions of batch2 tensor to be: [{input.shape[0]}, {input.shape[2]}] but got: "
                           f"[{mat2.shape[0]}, {mat2.shape[1]}].")
    if input.dtype != mat2.dtype:
        names = scalar_names(input, mat2)
        raise RuntimeError(f"expected scalar type {names[0]} but found {names[1]}")
    need_product("bmm", input, mat2)


@primitive(tensors=("input", "mat2"), family="contraction", node="BmmBackward0", check=check_bmm,
           grad=dict(input=lambda g, mat2: g @ mat2.mT, mat2=lambda g, input: input.mT @ g))
def bmm(input, mat2):
    """The products of two batches of matrices.

    >>> import rushlight as torch
    >>> torch.bmm(torch.ones(2, 1, 3), torch.ones(2, 3, 4)).shape
    torch.Size([2, 1, 4])
    """
    check_bmm(input, mat2)
    return np.matmul(input, mat2)


# What matmul makes of batches: PyTorch's node is that of the view it takes of the product.
@primitive(tensors=("input", "mat2"), family="contraction", node="UnsafeViewBackward0", kernel=np.matmul, check=check_bmm, where="",
           grad=dict(input=lambda g, mat2: g @ mat2.mT, mat2=lambda g, input: input.mT @ g))
def _bmm_batch(input, mat2): ...


@composite("torch method out", raw=np.matmul)
def matmul(input, other, *, out=None):
    """The matrix product, with PyTorch's rules for vectors and batches.

    >>> import rushlight as torch
    >>> torch.matmul(torch.ones(2, 3), torch.ones(3))
    tensor([3., 3.])
    """
    result = matrix_product(input, other)
    return result if out is None else out.copy_checked(result)


@composite("")
def matrix_product(input, other):
    if not isinstance(other, Tensor):
        raise TypeError(f"matmul(): argument 'other' (position 2) must be Tensor, not {type_name(other)}")
    a, b = input.ndim, other.ndim
    if a == 2 and b == 2:
        return _mm(input, other)
    if not a or not b:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {a}D and {b}D")
    if a == 1 and b == 1:
        return dot(input, other)
    if a == 2 and b == 1:
        return mv(input, other)
    if a == 1 and b == 2:
        return mm(input.unsqueeze(0), other).squeeze(0)
    if b <= 2 and a >= 3:
        return fold_batch(input, other)
    return batch_product(input, other)


@composite("")
def fold_batch(input, other):
    """(..., n, k) @ (k, m): one product of all rows."""
    shape = tuple(input.shape)
    columns = tuple(other.shape)
    if shape[-1] != columns[0]:
        rows = product(shape[:-1])
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({rows}x{shape[-1]} and {columns[0]}x{columns[1]})" if len(columns) == 2 else
                           f"size mismatch, got input ({rows}), mat ({rows}x{shape[-1]}), vec ({columns[0]})")
    rows = input.reshape((product(shape[:-1]), shape[-1]))
    result = mm(rows, other) if len(columns) == 2 else mv(rows, other)
    return _unsafe_view(result, (*shape[:-1], *columns[1:]))


@composite("")
def batch_product(input, other):
    """Batches on the right (or both sides): broadcast them, multiply as one batch."""
    a, b = tuple(input.shape), tuple(other.shape)
    row, column = len(a) == 1, len(b) == 1
    if row:
        input, a = input.unsqueeze(0), (1, *a)
    if column:
        other, b = other.unsqueeze(-1), (*b, 1)
    batch = joint_shape(a[:-2], b[:-2])
    if a[-1] != b[-2]:
        if len(a) == len(b) == 3 and a[0] == b[0]:
            raise RuntimeError(f"Expected size for first two dimensions of batch2 tensor to be: [{b[0]}, {a[-1]}] but got: [{b[0]}, {b[-2]}].")
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({product(a[:-1])}x{a[-1]} and {b[-2]}x{product(b[:-2]) * b[-1]})")
    count = product(batch)
    left = input if a[:-2] == batch else input.expand((*batch, *a[-2:]))
    right = other if b[:-2] == batch else other.expand((*batch, *b[-2:]))
    if len(batch) != 1:
        left, right = left.reshape((count, *a[-2:])), right.reshape((count, *b[-2:]))
    result = _bmm_batch(left, right)
    final = (*batch, *(() if row else a[-2:-1]), *(() if column else b[-1:]))
    return result if tuple(result.shape) == final else _unsafe_view(result, final)


def scaled_sum(input, product_, beta, alpha):
    """beta * input + alpha * product, where beta 0 ignores input (also its NaN)."""
    result = product_ if alpha == 1 else product_ * np.asarray(alpha).astype(product_.dtype)
    if beta == 0:
        return result if input.shape == result.shape else np.broadcast_to(result, np.broadcast_shapes(input.shape, result.shape))
    return np.add(input if beta == 1 else input * np.asarray(beta).astype(input.dtype), result)


def check_addmm(input, mat1, mat2, beta=1, alpha=1):
    if mat1.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError(f"mat{1 if mat1.ndim != 2 else 2} must be a matrix, got {(mat1 if mat1.ndim != 2 else mat2).ndim}-D tensor")
    if mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({mat1.shape[0]}x{mat1.shape[1]} and {mat2.shape[0]}x{mat2.shape[1]})")
    if mat1.dtype != mat2.dtype:
        names = scalar_names(mat1, mat2)
        raise RuntimeError(f"mat1 and mat2 must have the same dtype, but got {names[0]} and {names[1]}")
    if input.dtype != mat1.dtype:
        names = scalar_names(input, mat1)
        raise RuntimeError(f"self and mat2 must have the same dtype, but got {names[0]} and {names[1]}")
    need_product("addmm_impl_cpu_", mat1, mat2)


def check_expand(input, shape):
    try:
        np.broadcast_to(input, shape)
    except ValueError:
        own = input.shape
        at = next((d for d in range(1, min(len(own), len(shape)) + 1) if own[-d] not in (1, shape[-d])), 1)
        raise RuntimeError(f"The expanded size of the tensor ({shape[-at]}) must match the existing size ({own[-at]}) at non-singleton dimension "
                           f"{len(shape) - at}.  Target sizes: {list(shape)}.  Tensor sizes: {list(own)}") from None


@primitive(tensors=("input", "mat1", "mat2"), where="torch method inplace", family="contraction", node="AddmmBackward0", check=check_addmm,
           grad=dict(input=lambda g, input_shape, beta: sum_to_size(g if beta == 1 else g * beta, input_shape),
                     mat1=lambda g, mat2, alpha: g @ mat2.mT if alpha == 1 else (g @ mat2.mT) * alpha,
                     mat2=lambda g, mat1, alpha: mat1.mT @ g if alpha == 1 else (mat1.mT @ g) * alpha))
def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    """beta * input + alpha * (mat1 @ mat2).

    >>> import rushlight as torch
    >>> torch.addmm(torch.ones(2), torch.eye(2), torch.eye(2))
    tensor([[2., 1.],
            [1., 2.]])
    """
    check_addmm(input, mat1, mat2)
    check_expand(input, (mat1.shape[0], mat2.shape[1]))
    return scaled_sum(input, np.matmul(mat1, mat2), beta, alpha)


def check_addmv(input, mat, vec, beta=1, alpha=1):
    if mat.ndim != 2 or vec.ndim != 1 or input.ndim > 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {input.ndim}, {mat.ndim}, {vec.ndim}")
    if mat.shape[1] != vec.shape[0] or input.ndim and input.shape[0] not in (1, mat.shape[0]):
        raise RuntimeError(f"size mismatch, got input ({input.shape[0] if input.ndim else 1}), mat ({mat.shape[0]}x{mat.shape[1]}), vec "
                           f"({vec.shape[0]})")
    check_addmv_dtypes(input, mat, vec)


@primitive(tensors=("input", "mat", "vec"), where="torch method inplace", family="contraction", node="AddmvBackward0", check=check_addmv,
           grad=dict(input=lambda g, input_shape, beta: sum_to_size(g * beta, input_shape), mat=lambda g, vec, alpha: outer(g, vec) * alpha,
                     vec=lambda g, mat, alpha: (mat.mT @ g) * alpha))
def addmv(input, mat, vec, *, beta=1, alpha=1):
    """beta * input + alpha * (mat @ vec).

    >>> import rushlight as torch
    >>> torch.addmv(torch.ones(2), torch.eye(2), torch.ones(2))
    tensor([2., 2.])
    """
    check_addmv(input, mat, vec)
    return scaled_sum(input, np.matmul(mat, vec), beta, alpha)


def number_as(value, input):
    """alpha or beta in the kind of number that the input holds: it does not promote."""
    category = input._dtype.category
    return bool(value) if category == 0 else int(value) if category == 1 else value


@composite("torch method inplace out")
def addr(input, vec1, vec2, *, beta=1, alpha=1, out=None):
    """beta * input + alpha * outer(vec1, vec2).

    >>> import rushlight as torch
    >>> torch.addr(torch.zeros(2, 2), torch.ones(2), torch.ones(2))
    tensor([[1., 1.],
            [1., 1.]])
    """
    if vec1.ndim != 1 or vec2.ndim != 1:
        raise RuntimeError(f"addr: Expected 1-D argument vec{1 if vec1.ndim != 1 else 2}, but got {(vec1 if vec1.ndim != 1 else vec2).ndim}-D")
    shape = (vec1.shape[0], vec2.shape[0])
    check_expand(input._array, shape)
    alpha, beta = number_as(alpha, input), number_as(beta, input)
    result = outer(*in_common(input, vec1, vec2))
    result = result if type(alpha) is int and alpha == 1 else result * alpha
    result = (input if type(beta) is int and beta == 1 else input * beta) + result if beta != 0 else result
    return result if out is None else out.copy_checked(result)


def check_baddbmm(input, batch1, batch2, beta=1, alpha=1):
    for name, array in (("batch1", batch1), ("batch2", batch2)):
        if array.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    if batch2.shape[:2] != (batch1.shape[0], batch1.shape[2]):
        raise RuntimeError(f"Expected size for first two dimensions of batch2 tensor to be: [{batch1.shape[0]}, {batch1.shape[2]}] but got: "
                           f"[{batch2.shape[0]}, {batch2.shape[1]}].")
    if not input.dtype == batch1.dtype == batch2.dtype:
        names = [dtypes.BY_NUMPY[array.dtype].c_name for array in (input, batch1, batch2)]
        raise RuntimeError(f"Input dtypes must be the same, got: input {names[0]}, batch1: {names[1]}, batch2: {names[2]}")
    need_product("baddbmm", batch1, batch2)


@primitive(tensors=("input", "batch1", "batch2"), where="torch method inplace", family="contraction", node="BaddbmmBackward0", check=check_baddbmm,
           grad=dict(input=lambda g, input_shape, beta: sum_to_size(g * beta, input_shape),
                     batch1=lambda g, batch2, alpha: (g @ batch2.mT) * alpha, batch2=lambda g, batch1, alpha: (batch1.mT @ g) * alpha))
def baddbmm(input, batch1, batch2, *, beta=1, alpha=1):
    """beta * input + alpha * bmm(batch1, batch2).

    >>> import rushlight as torch
    >>> torch.baddbmm(torch.ones(1), torch.ones(1, 1, 2), torch.ones(1, 2, 1))
    tensor([[[3.]]])
    """
    check_baddbmm(input, batch1, batch2)
    check_expand(input, (batch1.shape[0], batch1.shape[1], batch2.shape[2]))
    return scaled_sum(input, np.matmul(batch1, batch2), beta, alpha)


@composite("torch method inplace out")
def addbmm(input, batch1, batch2, *, beta=1, alpha=1, out=None):
    """beta * input + alpha * the sum of bmm(batch1, batch2) over the batch.

    >>> import rushlight as torch
    >>> torch.addbmm(torch.ones(1), torch.ones(2, 1, 2), torch.ones(2, 2, 1))
    tensor([[5.]])
    """
    alpha, beta = number_as(alpha, input), number_as(beta, input)
    total = bmm(batch1, batch2).sum(0, dtype=batch1._dtype)
    check_expand(input._array, tuple(total.shape))
    if input._dtype is not total._dtype:
        raise RuntimeError("expected input and batches to have the same dtype")
    result = (total if alpha == 1 else total * alpha) if beta == 0 else (input if beta == 1 else input * beta) + (total if alpha == 1 else total * alpha)
    return result if out is None else out.copy_checked(result)


@composite("torch method out", raw=np.multiply.outer)
def outer(input, vec2, *, out=None):
    """All products of the elements of two vectors.

    >>> import rushlight as torch
    >>> torch.outer(torch.tensor([1, 2]), torch.tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    if input.ndim != 1 or vec2.ndim != 1:
        raise RuntimeError(f"outer: Expected 1-D argument {'self' if input.ndim != 1 else 'vec2'}, but got {(input if input.ndim != 1 else vec2).ndim}-D")
    result = input.reshape((input.shape[0], 1)) * vec2
    return result if out is None else out.copy_checked(result)


@composite("torch method out")
def ger(input, vec2, *, out=None):
    """The old name of `outer`.

    >>> import rushlight as torch
    >>> torch.ger(torch.tensor([1]), torch.tensor([3, 4]))
    tensor([[3, 4]])
    """
    return outer(input, vec2, out=out)


@composite("torch method out")
def inner(input, other, *, out=None):
    """The sum of products along the last dims.

    >>> import rushlight as torch
    >>> torch.inner(torch.tensor([1, 2]), torch.tensor([3, 4]))
    tensor(11)
    """
    if not input.ndim or not other.ndim:
        result = input * other
    else:
        if input.shape[-1] != other.shape[-1]:
            raise RuntimeError(f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} and "
                               f"{list(other.shape)}")
        result = tensordot(input, other, dims=([-1], [-1]))
    return result if out is None else out.copy_checked(result)


@composite("torch")
def tensordot(a, b, dims=2, out=None):
    """Products summed over several dims of both tensors.

    >>> import rushlight as torch
    >>> torch.tensordot(torch.ones(2, 3), torch.ones(3, 4), dims=1).shape
    torch.Size([2, 4])
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        left, right = list(range(-dims, 0)), list(range(dims))
    else:
        left, right = ([d] if isinstance(d, int) else list(d) for d in dims)
        if len(left) != len(right):
            raise RuntimeError("both dimension lists should have same length")
        left, right = [wrap_dim(d, a.ndim) for d in left], [wrap_dim(d, b.ndim) for d in right]
    for d, e in zip(left, right):
        if a.shape[d] != b.shape[e]:
            if a.shape[d] != 1 and b.shape[e] != 1:
                raise RuntimeError(f"contracted dimensions need to match, but first has size {a.shape[d]} in dim {d} and second has size "
                                   f"{b.shape[e]} in dim {e}")
            a, b = (a.sum(d, keepdim=True), b) if b.shape[e] == 1 else (a, b.sum(e, keepdim=True))
    left = [wrap_dim(d, a.ndim) for d in left]
    free_a = [d for d in range(a.ndim) if d not in left]
    free_b = [d for d in range(b.ndim) if d not in right]
    shape = [a.shape[d] for d in free_a] + [b.shape[d] for d in free_b]
    size = product(a.shape[d] for d in left)
    rows, columns = product(a.shape[d] for d in free_a), product(b.shape[d] for d in free_b)
    result = mm(a.permute(*free_a, *left).reshape((rows, size)), b.permute(*right, *free_b).reshape((size, columns))).reshape(shape)
    return result if out is None else out.copy_checked(result)


@composite("torch")
def chain_matmul(*matrices, out=None):
    """The product of several matrices.

    >>> import rushlight as torch
    >>> torch.chain_matmul(torch.eye(2), torch.eye(2), torch.eye(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    result = matrices[0]
    for matrix in matrices[1:]:
        result = mm(result, matrix)
    return result if out is None else out.copy_checked(result)


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@composite("torch")
def einsum(*args):
    """Einstein summation: products of tensors by named dims, summed over the names that the output lacks.

    >>> import rushlight as torch
    >>> torch.einsum("ij,jk->ik", torch.ones(2, 3), torch.ones(3, 4)).shape
    torch.Size([2, 4])
    """
    if len(args) < 2:
        raise ValueError("einsum(): must specify the equation string and at least one operand, or at least one operand and its subscripts list")
    if not isinstance(args[0], str):  # (tensor, dims, tensor, dims, ..., [output dims])
        pairs = list(zip(args[0::2], args[1::2]))
        names = [",".join("".join("..." if d is Ellipsis else LETTERS[d] for d in dims) for _, dims in pairs)]
        if len(args) % 2:
            names.append("".join("..." if d is Ellipsis else LETTERS[d] for d in args[-1]))
        return einsum("->".join(names), *(tensor for tensor, _ in pairs))
    equation, operands = args[0], args[1:]
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    if not operands:
        raise RuntimeError("einsum(): must provide at least one operand")
    if len(operands) == 2 and type(operands[0]) in PLAIN and type(operands[1]) in PLAIN:
        plan = pair_plan(equation, operands[0]._array.shape, operands[1]._array.shape)
        if plan:
            return by_plan(plan, *operands)
    terms, output, sizes = parse_equation(equation.replace(" ", ""), [operand.shape for operand in operands])
    current = [prepare_operand(operand, term) for operand, term in zip(operands, terms)]
    tensor, names = current[0]
    rest = current[1:]
    for at, (other, other_names) in enumerate(rest):
        later = set(output).union(*(n for _, n in rest[at + 1:])) if rest[at + 1:] else set(output)
        tensor, names = contract_pair(tensor, names, other, other_names, later)
    drop = [at for at, name in enumerate(names) if name not in output]
    if drop:
        tensor = tensor.sum(drop)
        names = [name for name in names if name in output]
    missing = [name for name in output if name not in names]
    for name in missing:
        tensor, names = tensor.unsqueeze(-1), [*names, name]
    order = [names.index(name) for name in output]
    if order != list(range(len(order))):
        tensor = tensor.permute(*order)
    shape = [sizes[name] for name in output]
    return tensor.expand(shape) if list(tensor.shape) != shape else tensor


@remembered
def pair_plan(equation, *shapes):
    """How two operands become one product of matrices: the permutation and shape of each, whether there is a batch, the result's shape and permutation.

    () where more is to be done: diagonals, sums of one operand, sizes of 1 that broadcast, names that nobody shares.
    """
    terms, output, sizes = parse_equation(equation.replace(" ", ""), shapes)
    a, b = terms
    if len(set(a)) < len(a) or len(set(b)) < len(b) or any(
            shape[at] != sizes[name] for names, shape in zip(terms, shapes) for at, name in enumerate(names)):
        return ()
    batch = [name for name in a if name in b and name in output]
    summed = [name for name in a if name in b and name not in output]
    only_a, only_b = ([name for name in names if name not in batch and name not in summed] for names in (a, b))
    order = [*batch, *only_a, *only_b]
    if not summed or set(order) != set(output):
        return ()

    def turned(names, wanted):
        permutation = tuple([names.index(name) for name in wanted])
        return None if permutation == tuple(range(len(names))) else permutation

    def size(names):
        return product(sizes[name] for name in names)
    lead = (size(batch),) if batch else ()
    return (turned(a, [*batch, *only_a, *summed]), (*lead, size(only_a), size(summed)), turned(b, [*batch, *summed, *only_b]),
            (*lead, size(summed), size(only_b)), tuple([sizes[name] for name in order]), turned(order, output))


def by_plan(plan, left, right):
    """The product of two operands that `pair_plan` describes."""
    left_order, left_shape, right_order, right_shape, shape, order = plan
    left = reshape(left if left_order is None else _permute(left, left_order), left_shape)
    right = reshape(right if right_order is None else _permute(right, right_order), right_shape)
    result = reshape((bmm if len(left_shape) == 3 else mm)(left, right), shape)
    return result if order is None else _permute(result, order)


def parse_equation(equation, shapes):
    """The names of each operand's dims (ellipsis dims as ints), of the output's, and the size of each name."""
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    if len(parts) < len(shapes):
        raise RuntimeError("einsum(): fewer operands were provided than specified in the equation" if len(parts) > len(shapes) else
                           "einsum(): more operands were provided than specified in the equation")
    if len(parts) > len(shapes):
        raise RuntimeError("einsum(): fewer operands were provided than specified in the equation")
    terms, sizes, widest = [], {}, 0
    for at, (part, shape) in enumerate(zip(parts, shapes)):
        before, dots, after = part.partition("...")
        for letter in before + after:
            if letter not in LETTERS:
                raise RuntimeError(f"einsum(): invalid subscript given at index {equation.index(letter)} in the equation string, subscripts must be "
                                   "in [a-zA-Z]")
        covered = len(shape) - len(before) - len(after)
        if covered < 0 or not dots and covered:
            raise RuntimeError(f"einsum(): the number of subscripts in the equation ({len(before + after)}) {'is more than' if dots else 'does not match'} "
                               f"the number of dimensions ({len(shape)}) for operand {at}" + (
                                   "" if dots else " and no ellipsis was given"))
        widest = max(widest, covered if dots else 0)
        names = [*before, *range(-covered, 0), *after] if dots else list(before)
        for dim, name in enumerate(names):
            size = shape[dim]
            if sizes.get(name, 1) == 1:
                sizes[name] = size
            elif size != 1 and sizes[name] != size:
                raise RuntimeError(f"einsum(): subscript {name} has size {size} for operand {at} which does not broadcast with previously seen size {sizes[name]}")
        terms.append(names)
    dots = list(range(-widest, 0))
    if arrow:
        before, has_dots, after = right.partition("...")
        output = [*before, *(dots if has_dots else []), *after]
        for name in before + after:
            if name not in sizes:
                raise RuntimeError(f"einsum(): output subscript {name} does not appear in the equation for any input operand")
            if (before + after).count(name) > 1:
                raise RuntimeError(f"einsum(): output subscript {name} appears more than once in the output")
    else:
        letters = [name for names in terms for name in names if isinstance(name, str)]
        output = dots + sorted(name for name in set(letters) if letters.count(name) == 1)
    return terms, output, sizes


def prepare_operand(operand, names):
    """Repeated names become a diagonal."""
    names = list(names)
    for name in set(names):
        while names.count(name) > 1:
            first = names.index(name)
            second = names.index(name, first + 1)
            if operand.shape[first] != operand.shape[second]:
                raise RuntimeError(f"einsum(): subscript {name} is repeated for operand but the sizes don't match, {operand.shape[second]} != "
                                   f"{operand.shape[first]}")
            operand = operand.diagonal(0, first, second)
            names = [n for at, n in enumerate(names) if at not in (first, second)] + [name]
    return operand, names


def contract_pair(a, a_names, b, b_names, later):
    """The product of two operands, summed over names that nobody needs later: one batched matrix product."""
    shared = [n for n in a_names if n in b_names]
    for operand_names, other_names in ((a_names, b_names), (b_names, a_names)):
        drop = [n for n in operand_names if n not in other_names and n not in later]
        if drop:
            dims = [operand_names.index(n) for n in drop]
            if operand_names is a_names:
                a = a.sum(dims)
            else:
                b = b.sum(dims)
    a_names = [n for n in a_names if n in b_names or n in later]
    b_names = [n for n in b_names if n in shared or n in later]
    a_size, b_size = dict(zip(a_names, a.shape)), dict(zip(b_names, b.shape))
    summed = [n for n in shared if n not in later]
    for n in list(summed):  # a size of 1 broadcasts against the other's
        if a_size[n] != b_size[n]:
            if a_size[n] == 1:
                b, b_names = b.sum(b_names.index(n)), [m for m in b_names if m != n]
                a, a_names = a.squeeze(a_names.index(n)), [m for m in a_names if m != n]
            else:
                a, a_names = a.sum(a_names.index(n)), [m for m in a_names if m != n]
                b, b_names = b.squeeze(b_names.index(n)), [m for m in b_names if m != n]
            summed.remove(n)
    a_size, b_size = dict(zip(a_names, a.shape)), dict(zip(b_names, b.shape))
    batch = [n for n in shared if n in later]
    only_a = [n for n in a_names if n not in batch and n not in summed]
    only_b = [n for n in b_names if n not in batch and n not in summed]
    if not summed:
        left = a.permute(*(a_names.index(n) for n in (*batch, *only_a))).reshape([*(a_size[n] for n in (*batch, *only_a)), *[1] * len(only_b)])
        right = b.permute(*(b_names.index(n) for n in (*batch, *only_b))).reshape(
            [*(b_size[n] for n in batch), *[1] * len(only_a), *(b_size[n] for n in only_b)])
        return left * right, [*batch, *only_a, *only_b]
    sizes = [max(a_size[n], b_size[n]) for n in batch]
    left = a.permute(*(a_names.index(n) for n in (*batch, *only_a, *summed)))
    right = b.permute(*(b_names.index(n) for n in (*batch, *summed, *only_b)))
    left = left.expand([*sizes, *left.shape[len(batch):]]).reshape(
        [product(sizes), product(a_size[n] for n in only_a), product(a_size[n] for n in summed)])
    right = right.expand([*sizes, *right.shape[len(batch):]]).reshape(
        [product(sizes), product(b_size[n] for n in summed), product(b_size[n] for n in only_b)])
    result = bmm(left, right) if batch else mm(left.squeeze(0), right.squeeze(0))
    return result.reshape([*sizes, *(a_size[n] for n in only_a), *(b_size[n] for n in only_b)]), [*batch, *only_a, *only_b]


def matmul_operator(self, other):
    if type(other) in PLAIN and self._array.ndim == 2 and other._array.ndim == 2:
        return _mm(self, other)
    return matmul(self, other) if isinstance(other, Tensor) else NotImplemented


def rmatmul_operator(self, other):
    return matmul(other, self) if isinstance(other, Tensor) else NotImplemented


Tensor.__matmul__, Tensor.__rmatmul__ = matmul_operator, rmatmul_operator
