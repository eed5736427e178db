"""Copies and casts: clone, contiguous, detach, to, type changes, copy_, fill_."""
import numpy as np

from ..core import dtypes, memory, modes
from ..core.devices import device as Device
from ..core.devices import require_cpu
from ..core.errors import type_name
from ..core.promotion import checked_number, filling_number
from ..core.size import broadcast_shapes as shape_of_both
from ..tensor import PLAIN, InferenceTensor, Meta, Parameter, Tensor, bump, counter_of
from .dispatch import check_overlap, check_written, inplace, refuse_one_of_many, write_out
from .record import composite, primitive
from .written import open_to

flags, grad_enabled = modes.flags, modes.grad_enabled
copyto = np.copyto


TURNED = 1 << 16  # elements from which a transposed copy is made by slabs
COLUMNS = 16  # of a slab: one cache line of float32
APART = 1024  # bytes: columns that lie a multiple of it apart share few sets of the cache


@primitive(grad=dict(input=lambda g: g), where="", node="CloneBackward0", family="pointwise_scalar")
def _clone(input, memory_format=None):
    if memory_format is None:
        return np.array(input, order="K") if 0 not in input.strides else copied_as(input, input.dtype)
    return laid_out(input, memory_format)


def laid_out(array, memory_format):
    """A copy in a memory format: "contiguous_format", "preserve_format", "channels_last" or "channels_last_3d"."""
    name = memory_format.name
    if name.startswith("channels_last"):
        rank = 4 if name == "channels_last" else 5
        if array.ndim != rank:
            raise RuntimeError(f"required rank {rank} tensor to use {name} format")
        return np.moveaxis(np.array(np.moveaxis(array, 1, -1), order="C"), -1, 1)
    return copied_as(array, array.dtype) if name == "preserve_format" else np.array(array, order="C")


def copied_as(array, dtype):
    """A copy in a dtype, whose dims lie as the array's do."""
    result = memory.alike(array, dtype)
    np.copyto(result, array, casting="unsafe")
    return result


@composite("torch method")
def clone(input, *, memory_format=None):
    """A copy with the same history.

    >>> import rushlight as torch
    >>> torch.tensor([1, 2]).clone()
    tensor([1, 2])
    """
    return _clone(input) if memory_format is None else _clone(input, memory_format)


@primitive(grad=dict(input=lambda g: g), where="", node="CloneBackward0", family="pointwise_scalar")
def _contiguous(input):
    return in_c_order(input)


def in_c_order(array):
    """A copy in C's order."""
    if array.ndim != 2 or array.size < TURNED or not array.strides[-1] or array.strides[-1] % APART or array.strides[0] != array.itemsize or array.shape[1] < 128:
        return np.array(array, order="C")
    # A transposed matrix whose rows fall on the same sets of the cache: a few columns at a time, since NumPy would go down
    # whole columns, which drive one another out (a third of its time).
    result = np.empty(array.shape, array.dtype)
    for at in range(0, array.shape[-1], COLUMNS):
        result[..., at:at + COLUMNS] = array[..., at:at + COLUMNS]
    return result


@composite("method")
def contiguous(input, memory_format=None):
    """The tensor itself if its elements lie in C order, else a copy that does.

    >>> import rushlight as torch
    >>> torch.zeros(2, 3).t().contiguous().stride()
    (2, 1)
    """
    if memory_format is not None and memory_format.name.startswith("channels_last"):
        return input if input.is_contiguous(memory_format) else _clone(input, memory_format)
    return input if input._array.flags.c_contiguous else _contiguous(input)


@primitive(grad=dict(input=lambda g, source: cast_back(g, source)), where="", node="ToCopyBackward0", dtype="kernel", family="cast")
def _cast(input, dtype, source):
    if input.dtype.kind == "c" and dtype.category < dtypes.COMPLEX:
        input = input.real if dtype is not dtypes.bool else input != 0
    if input.dtype.kind == "f" and dtype.category == dtypes.INTEGER and dtype.itemsize < 4:
        return input.astype(np.int64).astype(dtype.numpy)  # wraps around as C does, through the widest type
    return input.astype(dtype.numpy) if 0 not in input.strides else copied_as(input, dtype.numpy)


@composite("method")
def detach(input):
    """The same memory without history; writes are seen by both, and by version checks.

    >>> import rushlight as torch
    >>> torch.ones(2, requires_grad=True).detach().requires_grad
    False
    """
    kind = type(input)
    if kind not in PLAIN and hasattr(kind, "__detach__"):
        return kind.__detach__(input)
    tensor = input.data
    if kind is not InferenceTensor:
        tensor._meta = meta = Meta()
        above = input._meta
        meta.counter = counter_of(input) if above is None or above.base is not None or above.counter is None else above.counter
    return tensor


def cast(input, dtype, copy=False):
    if input._dtype is dtype:
        return _clone(input) if copy else input
    return _cast(input, dtype, input._dtype)


@composite("", raw=lambda g, source: (g.real if g.dtype.kind == "c" and not source.is_complex else g).astype(source.numpy))
def cast_back(g, source):
    """The gradient of a cast, in the dtype before it."""
    return cast(real(g) if g._dtype.is_complex and not source.is_complex else g, source)


@composite("method")
def to(input, *args, dtype=None, device=None, other=None, copy=False, non_blocking=False, memory_format=None):
    """With another dtype (or the dtype of another tensor); the device can only be the CPU.

    >>> import rushlight as torch
    >>> torch.tensor([1.7]).to(torch.int64)
    tensor([1])
    """
    for at, arg in enumerate(args):
        if isinstance(arg, dtypes.dtype):
            dtype = arg
        elif isinstance(arg, (str, Device)) or type(arg) is int:
            device = arg
        elif isinstance(arg, Tensor):
            dtype = arg._dtype
        elif isinstance(arg, bool) and at >= 2:
            copy = copy or (at == len(args) - 1 and arg)
        elif arg is not None and not isinstance(arg, bool):
            dtype = dtypes.meant(arg)
            if dtype is None:
                raise TypeError(f"to() received an invalid combination of arguments - got {type(arg).__name__}")
    if other is not None:
        dtype = other._dtype
    if device is not None:
        require_cpu(device)
    if type(dtype) is type:
        dtype = dtypes.ARGUMENTS.get(dtype, dtype)
    result = input if (dtype is None or dtype is input._dtype) and not copy else cast(input, input._dtype if dtype is None else dtype, copy)
    if memory_format is not None and memory_format.name != "preserve_format" and not result.is_contiguous(memory_format):
        return _clone(result, memory_format)
    return result


def caster(name, dtype):
    def function(input, memory_format=None):
        return cast(input, dtype)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The tensor as {dtype.name}.

    >>> import rushlight as torch
    >>> torch.tensor([1]).{name}().dtype
    torch.{dtype.name}
    """
    return composite("method")(function)


for _name, _dtype in {**dtypes.ALIASES, "bool": dtypes.bool, "byte": dtypes.uint8, "char": dtypes.int8, "bfloat16": dtypes.bfloat16}.items():
    caster(_name, _dtype)


@composite("method")
def type_as(input, other):
    """The tensor in the dtype of another.

    >>> import rushlight as torch
    >>> torch.tensor([1]).type_as(torch.tensor([1.0])).dtype
    torch.float32
    """
    return cast(input, other._dtype)


@primitive(grad=dict(input=lambda g: zeros_like(g), src=lambda g, src_shape: sum_to_size(g, src_shape)), tensors=("input", "src"), where="", node="CopyBackwards", family="cast")
def _copied(input, src):
    return np.broadcast_to(src, input.shape).astype(input.dtype)


@composite("")
def copied(input, src):
    """`src` in the shape and dtype of `input`: what `copy_` stores."""
    shape = input._array.shape
    if shape != src._array.shape:
        both = shape_of_both(shape, src._array.shape)
        if both != shape:
            raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(both)}")
    return _copied(input, src if src._dtype is input._dtype else cast(src, input._dtype))


@composite("method")
def copy_(input, src, non_blocking=False):
    """Write the values of `src` (broadcast, cast) into this tensor; returns it.

    >>> import rushlight as torch
    >>> torch.zeros(2).copy_(torch.tensor([1, 2]))
    tensor([1., 2.])
    """
    array, kind = open_to(input), type(src)
    if array is None or kind is not Tensor and kind is not Parameter or src._requires_grad and grad_enabled():
        if not isinstance(src, Tensor):
            raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {type_name(src)}")
        refuse_one_of_many(input, src)
        array = input._array if unrecorded(input, src) else None
    if array is not None and src._dtype is input._dtype and src._array.ndim <= array.ndim:  # NumPy would also leave out dims of one element
        if input._meta is not None or src._meta is not None:
            check_overlap(array, src._array)
        try:
            copyto(array, src._array)
        except ValueError:
            pass  # `inplace` says it in PyTorch's words
        else:
            bump(input)
            return input
    return inplace(copied, input, (src,), {})


def unrecorded(input, src):
    """Whether nothing is recorded of a copy, also where `open_to` looks no closer: tensors with a history under `no_grad`. Raises where it is forbidden."""
    if type(input) not in PLAIN or type(src) not in PLAIN or flags["special"] or grad_enabled() and (input._requires_grad or src._requires_grad):
        return False
    check_written(input)
    return True


@composite("method")
def copy_checked(input, result):
    """Store a result in an `out=` tensor."""
    return write_out(input, result)


@primitive(grad=dict(input=lambda g: zeros_like(g)), where="", node="FillBackward2", family="pointwise_scalar")
def _filled(input, value):
    return np.full(input.shape, np.asarray(value).astype(input.dtype) if not isinstance(value, complex) else value, input.dtype)


@composite("method torch")
def fill_(input, value):
    """Set every element to one number (or 0-d tensor).

    >>> import rushlight as torch
    >>> torch.zeros(2).fill_(7)
    tensor([7., 7.])
    """
    if type(value) is float or type(value) is int:
        array = open_to(input)
        if array is not None and input._dtype.fast_float:
            number = value if -128 <= value <= 127 else checked_number(value, input._dtype)  # smaller ones fit all dtypes
            try:
                array.fill(number)
            except ValueError:
                pass  # `inplace` says it in PyTorch's words
            else:
                bump(input)
                return input
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
        return inplace(copied, input, (value,), {})
    return inplace(_filled, input, (filling_number(value, input._dtype, input.numel()),), {})


@primitive(grad=dict(input=lambda g: zeros_like(g)), where="", node="ZeroBackward0", family="pointwise_scalar")
def _zeroed(input):
    return np.zeros(input.shape, input.dtype)


@composite("method torch")
def zero_(input):
    """Set every element to 0.

    >>> import rushlight as torch
    >>> torch.ones(2).zero_()
    tensor([0., 0.])
    """
    array = open_to(input)
    if array is not None:
        try:
            array.fill(0)
        except ValueError:
            pass  # `inplace` says it in PyTorch's words
        else:
            bump(input)
            return input
    return inplace(_zeroed, input, (), {})
