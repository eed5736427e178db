"""Comparisons, logic, bits, and choices by a condition: where, lerp."""
import numpy as np

from ..core import dtypes, modes
from ..core.errors import type_name
from ..core.promotion import checked_number, number_dtype, promote_types
from ..tensor import Parameter, Tensor, new, tick, wrap
from .dispatch import scalar_name
from .generate import make_classes
from .pointwise import _add, _div, in_common, mul
from .record import composite, pointwise

flags, grad_enabled = modes.flags, modes.grad_enabled

# Choice, blends.


@pointwise(np.where, where="", node="WhereBackward0", masks=("condition",),
           grad=dict(input=lambda g, condition: where(condition, g, 0), other=lambda g, condition: where(condition, 0, g)))
def _where(condition, input, other): ...


WORDS = {np.dtype(np.float32): np.dtype(np.int32), np.dtype(np.float64): np.dtype(np.int64)}
FEW = 1 << 10  # elements up to which a masked write is faster than arithmetic on words


def picked(values, mask):
    """values where the mask holds, zeros elsewhere, of raw arrays of one shape: unlike a product it leaves NaN and infinity out."""
    if mask.size <= FEW or values.dtype not in WORDS or values.shape != mask.shape:
        result = np.array(np.broadcast_to(values, mask.shape))
        np.putmask(result, ~mask, result.dtype.type(0))
        return result
    word = WORDS[values.dtype]
    bits = mask.astype(word)
    np.negative(bits, out=bits)  # all bits, or none
    return np.bitwise_and(values.view(word), bits, out=bits).view(values.dtype)


@composite("torch out", raw=np.where)
def where(condition, input=None, other=None, *, out=None):
    """input where the condition holds, else other; with the condition alone, the indices where it holds.

    >>> import rushlight as torch
    >>> torch.where(torch.tensor([True, False]), torch.tensor([1, 2]), 0)
    tensor([1, 0])
    """
    if not isinstance(condition, Tensor):
        raise TypeError(f"where(): argument 'condition' (position 1) must be Tensor, not {type_name(condition)}")
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if condition.dtype is not dtypes.bool:
        if condition.dtype is not dtypes.uint8:
            raise RuntimeError(f"where expected condition to be a boolean tensor, but got a tensor with dtype "
                               f"{condition.dtype.tensor_name.removesuffix('Tensor')}")
        condition = condition != 0
    if type(input) is int and not -128 <= input <= 127 or type(other) is int and not -128 <= other <= 127:  # smaller ones fit all dtypes
        for value, beside in ((input, other), (other, input)):
            if type(value) is int:
                checked_number(value, beside._dtype if isinstance(beside, Tensor) and beside._dtype.category == dtypes.INTEGER else dtypes.int64)
    if not isinstance(input, Tensor) and not isinstance(other, Tensor):
        dtype = promote_types(number_dtype(input), number_dtype(other))
        input, other = wrap(np.array(input, dtype.numpy)), wrap(np.array(other, dtype.numpy))
    result = chosen(condition, input, other)
    return result if out is None else out.copy_checked(result)


def chosen(condition, input, other):
    """`_where`: straight where all operands are plain tensors of one fast dtype, or numbers, else by the general path."""
    dtype, values, edges, shapes, recording, numbers = None, [], [None], [condition._array.shape], False, False
    if flags["special"] or type(condition) is not Tensor:
        return _where(condition, input, other)
    for operand in (input, other):
        kind = type(operand)
        if kind is Tensor or kind is Parameter:
            if dtype is None:
                dtype = operand._dtype
            elif dtype is not operand._dtype:
                return _where(condition, input, other)
            values.append(operand._array)
            shapes.append(operand._array.shape)
            recording = recording or operand._requires_grad
            edges.append((operand._node or operand) if operand._requires_grad else None)
        elif kind is float or kind is int:
            values.append(operand)
            shapes.append(())
            edges.append(None)
            numbers = True
        else:
            return _where(condition, input, other)
    if dtype is None or not dtype.fast_float and (numbers or dtype.category > dtypes.FLOAT):
        return _where(condition, input, other)
    try:
        array = np.where(condition._array, *values)
    except ValueError:
        return _where(condition, input, other)  # raises with PyTorch's words
    result = new(Tensor)
    result._array, result._dtype, result._requires_grad = array, dtype, False
    result._node = result._grad = result._meta = result._shape = None
    if recording and grad_enabled() and dtype.category >= dtypes.FLOAT:
        op = _where.op_record
        make_classes(op)
        node = op.classes[dtype.half]()
        node.condition, node.edges, node.rare = condition, tuple(edges), None
        if dtype.half:
            node.fix, node.compute, node.metas = None, dtype, [None if edge is None else (shape, dtype.numpy) for edge, shape in zip(edges, shapes)]
        else:
            node.fix = None if shapes[0] == shapes[1] == shapes[2] else tuple(shapes)
        node.seq = tick()
        result._node, result._requires_grad = node, True
    return result


def blend(input, end, weight):
    """From the nearer end, as PyTorch computes it."""
    way = end - input
    if np.ndim(weight) == 0:
        return input + weight * way if np.abs(weight) < 0.5 else end - way * (1 - weight)
    return np.where(np.abs(weight) < 0.5, input + weight * way, end - way * (1 - weight))


@pointwise(blend, where="", node="LerpBackward0",
           grad=dict(input=lambda g, weight: g * (1 - weight), end=lambda g, weight: g * weight,
                     weight=lambda g, input, end: g * (end - input)))
def _lerp(input, end, weight): ...


@composite("torch method inplace out")
def lerp(input, end, weight, *, out=None):
    """input + weight * (end - input).

    >>> import rushlight as torch
    >>> torch.lerp(torch.tensor([0.0]), torch.tensor([10.0]), 0.3)
    tensor([3.])
    """
    if input.dtype is not end.dtype:
        raise RuntimeError(f"expected dtype {input.dtype.c_name} for `end` but got dtype {end.dtype.c_name}")
    if input.dtype.category < dtypes.FLOAT:
        raise NotImplementedError(f"\"lerp_kernel_{'tensor' if isinstance(weight, Tensor) else 'scalar'}\" not implemented for '{scalar_name(input.dtype)}'")
    result = _lerp(input, end, weight)
    return result if out is None else out.copy_checked(result)


@composite("torch method inplace out")
def addcmul(input, tensor1, tensor2, *, value=1, out=None):
    """input + value * tensor1 * tensor2.

    >>> import rushlight as torch
    >>> torch.addcmul(torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([3.0]), value=0.5)
    tensor([4.])
    """
    product = mul(*in_common(input, tensor1, tensor2))
    if type(value) is int and product.dtype.category == dtypes.INTEGER:
        checked_number(value, product.dtype)
    result = _add(input, product if value == 1 else mul(product, value))
    return result if out is None else out.copy_checked(result)


@composite("torch method inplace out")
def addcdiv(input, tensor1, tensor2, *, value=1, out=None):
    """input + value * tensor1 / tensor2.

    >>> import rushlight as torch
    >>> torch.addcdiv(torch.tensor([1.0]), torch.tensor([6.0]), torch.tensor([3.0]), value=0.5)
    tensor([2.])
    """
    if tensor1.dtype.category < dtypes.FLOAT and tensor2.dtype.category < dtypes.FLOAT:
        raise RuntimeError("Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true "
                           "division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * "
                           "torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) "
                           "for float inputs. The future addcdiv behavior is just the latter implementation: (input + value * tensor1 / "
                           "tensor2), for all dtypes.")
    quotient = _div(*in_common(input, tensor1, tensor2))
    result = _add(input, quotient if value == 1 else mul(quotient, value))
    return result if out is None else out.copy_checked(result)


# Comparisons and logic.


def comparison(kernel, name, sign):
    """A comparison op: no gradient, a bool result."""
    def declared(input, other): ...
    declared.__name__ = declared.__qualname__ = name
    declared.__doc__ = f"""Elementwise input {sign} other, as a bool tensor.

    >>> import rushlight as torch
    >>> torch.{name}(torch.tensor([1, 2, 3]), 2)
    tensor({EXAMPLES[sign]})
    """
    no_complex = "" if sign in ("==", "!=") else f"\"{name}_cpu\" not implemented for '{{}}'"
    return pointwise(kernel, promote="bool", dunder=name, numbers="other", no_complex=no_complex)(declared)


EXAMPLES = {"==": "[False,  True, False]", "!=": "[ True, False,  True]", "<": "[ True, False, False]",
            "<=": "[ True,  True, False]", ">": "[False, False,  True]", ">=": "[False,  True,  True]"}
eq = comparison(np.equal, "eq", "==")
ne = comparison(np.not_equal, "ne", "!=")
lt = comparison(np.less, "lt", "<")
le = comparison(np.less_equal, "le", "<=")
gt = comparison(np.greater, "gt", ">")
ge = comparison(np.greater_equal, "ge", ">=")


@pointwise(np.logical_not, promote="bool")
def logical_not(input):
    """Whether each element is zero.

    >>> import rushlight as torch
    >>> torch.logical_not(torch.tensor([0, 2]))
    tensor([ True, False])
    """


@pointwise(np.logical_and, numbers="none", promote="bool")
def logical_and(input, other):
    """Whether both are nonzero.

    >>> import rushlight as torch
    >>> torch.logical_and(torch.tensor([0, 2]), torch.tensor([1, 1]))
    tensor([False,  True])
    """


@pointwise(np.logical_or, numbers="none", promote="bool")
def logical_or(input, other):
    """Whether one is nonzero.

    >>> import rushlight as torch
    >>> torch.logical_or(torch.tensor([0, 2]), torch.tensor([0, 0]))
    tensor([False,  True])
    """


@pointwise(np.logical_xor, numbers="none", promote="bool")
def logical_xor(input, other):
    """Whether exactly one is nonzero.

    >>> import rushlight as torch
    >>> torch.logical_xor(torch.tensor([0, 2]), torch.tensor([0, 0]))
    tensor([False,  True])
    """


def integers_only(kernel, symbol):
    def checked(*operands):
        if operands[0].dtype.kind in ("fcVb" if "shift" in symbol else "fcV"):
            name = dtypes.BY_NUMPY[operands[0].dtype].tensor_name.removesuffix("Tensor")
            raise NotImplementedError(f"\"{symbol}_cpu\" not implemented for '{name}'")
        return kernel(*operands)
    return checked


@pointwise(integers_only(np.bitwise_and, "bitwise_and"), dunder="and rand")
def bitwise_and(input, other):
    """Bitwise and, of integers or bools.

    >>> import rushlight as torch
    >>> torch.tensor([6]) & 3
    tensor([2])
    """


@pointwise(integers_only(np.bitwise_or, "bitwise_or"), dunder="or ror")
def bitwise_or(input, other):
    """Bitwise or, of integers or bools.

    >>> import rushlight as torch
    >>> torch.tensor([6]) | 3
    tensor([7])
    """


@pointwise(integers_only(np.bitwise_xor, "bitwise_xor"), dunder="xor rxor")
def bitwise_xor(input, other):
    """Bitwise exclusive or, of integers or bools.

    >>> import rushlight as torch
    >>> torch.tensor([6]) ^ 3
    tensor([5])
    """


@pointwise(integers_only(np.invert, "bitwise_not"))
def bitwise_not(input):
    """Bitwise not; logical not for bools.

    >>> import rushlight as torch
    >>> ~torch.tensor([True, False])
    tensor([False,  True])
    """


def invert_operator(self):
    if self._dtype.category >= dtypes.FLOAT:
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return bitwise_not(self)


Tensor.__invert__ = invert_operator


def shift_left(input, other):
    wide = too_far(input, other)
    return np.where(wide, 0, np.left_shift(input, np.where(wide, 0, other))).astype(input.dtype)


def shift_right(input, other):
    wide = too_far(input, other)
    shifted = np.right_shift(input, np.where(wide, input.dtype.itemsize * 8 - 1, other)).astype(input.dtype)
    return shifted if input.dtype.kind == "i" else np.where(wide, 0, shifted).astype(input.dtype)


def too_far(input, other):
    """Where no bit stays: negative counts too, as in PyTorch."""
    other = np.asarray(other)
    return (other < 0) | (other >= input.dtype.itemsize * 8)


@pointwise(integers_only(shift_left, "lshift"), dunder="lshift")
def bitwise_left_shift(input, other):
    """input shifted left by `other` bits; 0 where that is all of them.

    >>> import rushlight as torch
    >>> torch.tensor([1]) << 3
    tensor([8])
    """


@pointwise(integers_only(shift_right, "rshift"), dunder="rshift")
def bitwise_right_shift(input, other):
    """input shifted right by `other` bits, keeping the sign.

    >>> import rushlight as torch
    >>> torch.tensor([8]) >> 3
    tensor([1])
    """
