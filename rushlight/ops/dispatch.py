"""The general path of every op: whatever is not plain tensors of one fast dtype in an ordinary mode.

Scalars and mixed dtypes are promoted; half types are widened, computed and rounded once; tensor subclasses and
proxies are handed to their type; in-place and `out=` forms are made from the plain form.  Called by generated
functions only (ops/generate.py).  Read `general` first.
"""
import numbers
import operator
from functools import partial

import numpy as np

from ..autograd.function import rebase_hook
from ..autograd.node import Packed, alias, rare_of
from ..core import dtypes, modes, quiet
from ..core.errors import type_name
from ..core.memory import destination
from ..core.promotion import can_cast, check_word, result_dtype
from ..core.size import broadcast_shapes
from ..tensor import (
    PLAIN,
    InferenceTensor,
    OutputEdge,
    Parameter,
    Tensor,
    as_view,
    asarray,
    bump,
    counter_of,
    ndarray,
    new,
    tick,
    user_frame,
    wrap,
)
from . import overriding
from .generate import CANDIDATES, ELEMENTWISE, NAMES, make_classes
from .graph_node import WORTH, recast
from .halves import MOVES
from .rebase import IN_NO_GRAD, SEVERAL, copy_slices, view_node

ORDINARY = (Tensor, Parameter)
NUMBERS = (int, float, complex, bool, numbers.Number, np.generic)


def general(op, values, out=None):
    """Run `op` on bound values (in the order of `op.params`)."""
    if op.halves is not None and out is None and type(values[0]) in ORDINARY and values[0]._dtype.half and not modes.flags["special"]:
        result = op.halves(*values)
        if result is not NotImplemented:
            return result
    bound = dict(zip(op.params, values))
    override = None
    for name in op.tensors:
        value = bound[name]
        kind = type(value)
        if kind in PLAIN:
            continue
        if isinstance(value, Tensor):
            override = foremost(override, kind)
        elif value is None:
            if op.defaults.get(name, 0) is not None:
                raise not_a_tensor(op, name, value)
        elif hasattr(kind, "__torch_function__"):  # no tensor, but says what an op means
            override = kind
        elif op.family != "pointwise" or not isinstance(value, NUMBERS):
            raise not_a_tensor(op, name, value)
        elif isinstance(value, np.generic):
            bound[name] = value.item()
    for name in op.lists:
        items = bound[name]
        if not isinstance(items, (list, tuple)):
            raise TypeError(f"{op.name}(): argument '{name}' must be tuple of Tensors, not {type_name(items)}")
        for at, item in enumerate(items):
            if isinstance(item, Tensor):
                if type(item) not in PLAIN:
                    override = foremost(override, type(item))
            elif hasattr(type(item), "__torch_function__"):
                override = type(item)
            elif item is not None or op.name in ("cat", "stack"):
                raise TypeError(f"expected Tensor as element {at} in argument 0, but got {type(item).__name__}")
    if override is not None:
        own = getattr(override, "__dispatch__", None)
        if own is not None:
            return own(op, bound, out)
    if modes.flags["special"] and overriding.MODES.get():
        return overriding.call_mode(op, bound, out)
    if override is not None:
        if not overriding.disabled.get():
            return overriding.call(override, op, bound, out)
    if modes.flags["special"]:
        half = modes.AUTOCAST.get()
        if half is not None and op.family in ("contraction", "convolution"):
            for name in op.tensors:
                if bound[name] is not None and bound[name]._dtype is dtypes.float32:
                    bound[name] = bound[name].to(half)
    if op.family == "pointwise":
        result = general_pointwise(op, bound)
    elif op.view:
        result = general_view(op, bound)
    else:
        result = general_primitive(op, bound)
    if out is not None:
        return write_out(out, result)
    return result


def general_operator(op, values, out=None):
    """`general` for operators: NotImplemented for operands that are neither tensors nor numbers."""
    if not isinstance(values[0], Tensor):
        raise TypeError(f"descriptor '__{op.name.strip('_')}__' requires a 'torch.Tensor' object but received a '{type(values[0]).__name__}'")
    for value in values:
        if not isinstance(value, (Tensor, *NUMBERS)):
            if type(value) is ndarray:
                value = wrap(value)
                values = tuple(value if v is not value and type(v) is ndarray else v for v in values)
                continue
            return NotImplemented
    return general(op, values, out)


def foremost(current, kind):
    """Which of two tensor subclasses decides: the more derived, else the first."""
    return kind if current is None or issubclass(kind, current) else current


def not_a_tensor(op, name, value):
    shown = "other" if name == "other" else name
    position = op.params.index(name) + 1
    return TypeError(f"{op.name.lstrip('_')}(): argument '{shown}' (position {position}) must be Tensor, not {type_name(value)}")


def general_pointwise(op, bound):
    operands = [bound[name] for name in op.tensors]
    if not any(isinstance(operand, Tensor) for operand in operands):
        raise TypeError(f"{op.name}(): argument '{op.tensors[0]}' (position 1) must be Tensor, not {type_name(operands[0])}")
    if op.numbers != "both":
        for name in op.tensors[:2 if op.numbers == "none" else 1]:
            if not isinstance(bound[name], Tensor):
                raise not_a_tensor(op, name, bound[name])
    if op.refuse is not None:
        op.refuse(*operands)
    dtype = result_dtype([bound[name] for name in op.tensors if bound[name] is not None and name not in op.masks])
    if op.no_complex and dtype.category == dtypes.COMPLEX:
        raise NotImplementedError(op.no_complex.format(scalar_name(dtype)))
    if op.promote == "float" and dtype.category < dtypes.FLOAT:
        dtype = modes.Defaults.dtype
    if not dtype.native and any_large(operands) and HALF_POINTS and op.name in ELEMENTWISE and op.params == op.positional:
        result = HALF_POINTS[0](op, *(raw(bound[name]) if isinstance(bound[name], Tensor) or name not in op.tensors else np.array(bound[name], np.float32)
                                      for name in op.params)) if all_of(op, bound, dtype) else None
        if result is not None:
            return finished_pointwise(op, bound, result, dtype, dtype)
    numpy_dtype = dtype.compute.numpy
    arrays = [bound[name]._array if name in op.masks else operand_array(bound[name], numpy_dtype, dtype) for name in op.tensors]
    extra = [bound[name] for name in op.positional if name not in op.tensors]
    named = {name: bound[name] for name in op.params if name not in op.positional}
    kernel = op.kernel
    if op.name in CANDIDATES and not named and arrays[0].size >= NAMES["LARGE"]:
        kernel = partial(NAMES["on_all_cores"], op)
    try:
        if quiet.holds():
            result = kernel(*arrays, *extra, **named)
        else:
            with np.errstate(all="ignore"):
                result = kernel(*arrays, *extra, **named)
    except (ValueError, TypeError) as error:
        broadcast_shapes(*(array.shape for array in arrays if array is not None))
        if isinstance(error, TypeError) and dtype.category == dtypes.COMPLEX or "ufunc" in str(error):
            raise NotImplementedError(f'"{op.name}_cpu" not implemented for \'{scalar_name(dtype)}\'') from None
        raise
    result = asarray(result)
    final = dtypes.bool if op.promote == "bool" else dtype
    if result.dtype != final.numpy:
        real = final.to_real()  # abs, angle and the like of complex numbers are real
        final = real if result.dtype.kind == "f" and final.is_complex else final
        result = recast(result, final.numpy)
    return finished_pointwise(op, bound, result, final, dtype)


def finished_pointwise(op, bound, result, final, dtype):
    """The tensor of a result, with its node."""
    tensor = plain(result, final)
    if op.grad and modes.grad_enabled() and final.category >= dtypes.FLOAT:
        record(op, bound, (tensor,), dtype)
    return tensor


def any_large(operands):
    """Whether kernels for large arrays are worth asking about."""
    for operand in operands:  # `any` takes twice as long
        if isinstance(operand, Tensor) and operand._array.size >= WORTH:
            return True
    return False


def all_of(op, bound, dtype):
    """Whether the operands are tensors of one dtype, or numbers."""
    operands = [bound[name] for name in op.tensors]
    return all([operand._dtype is dtype if isinstance(operand, Tensor) else type(operand) in (int, float) for operand in operands])


# (op, arguments) -> an elementwise op's result for large arrays of half types, or None where they are to be widened (rushlight/__init__.py).
HALF_POINTS = []


def operand_array(operand, numpy_dtype, dtype):
    if isinstance(operand, Tensor):
        array = operand._array
        return array if array.dtype == numpy_dtype else recast(array, numpy_dtype)
    if operand is None:
        return None
    if dtype.category == dtypes.INTEGER and isinstance(operand, int):
        info = np.iinfo(numpy_dtype)
        if not info.min <= operand <= info.max:
            check_word(operand)
            return np.array(operand - (operand >> 63 << 64) if operand > 0 else operand, np.int64).astype(numpy_dtype)
    return np.array(operand, numpy_dtype)


def scalar_name(dtype):
    """The C++-style name of a dtype that PyTorch's messages use: Float, Long, ..."""
    return dtype.tensor_name.removesuffix("Tensor") or dtype.name


def plain(array, dtype):
    """A result tensor; in inference mode, an inference tensor."""
    tensor = new(InferenceTensor if modes.inference_enabled() else Tensor)
    tensor._array, tensor._dtype, tensor._requires_grad = array, dtype, False
    tensor._node = tensor._grad = tensor._meta = tensor._shape = None
    return tensor


# By op: (name, arrays of a half type) -> their product or cast, rounded once, or None where they are to be widened (rushlight/__init__.py).
HALF_PRODUCTS = {}


def general_primitive(op, bound):
    first = next((bound[name] for name in op.tensors if bound[name] is not None), None)
    if first is None and op.lists:
        first = next((item for item in bound[op.lists[0]] if item is not None), None)
    compute = None if first is None else first._dtype
    widen = compute is not None and not compute.native and op.name not in MOVES
    if op.check is not None:  # it sees the types as they are, before half types are widened
        op.check(*(raw(bound[name]) for name in op.params))
    results = HALF_PRODUCTS[op.name](op.name, *(raw(bound[name]) for name in op.params)) if widen and op.name in HALF_PRODUCTS else None
    if results is None and widen and HALF_POINTS and op.name in ELEMENTWISE and first._array.size >= WORTH and len(op.tensors) == 1 and op.params == op.positional:
        results = HALF_POINTS[0](op, *(raw(bound[name]) for name in op.params))
    if results is None:
        arguments = {}
        for name in op.params:
            value = bound[name]
            if name in op.tensors:
                value = None if value is None else widened(value, widen)
            elif name in op.lists:
                value = [None if item is None else widened(item, widen) for item in value]
            arguments[name] = value
        positional = [arguments[name] for name in op.positional]
        named = {name: arguments[name] for name in op.params[len(positional):]}
        if quiet.holds():
            results = op.kernel(*positional, **named)
        else:
            with np.errstate(all="ignore"):
                results = op.kernel(*positional, **named)
    if op.outputs == 1 and type(results) is not tuple:
        results = (results,)
    declared = op.dtype if type(op.dtype) is tuple else (op.dtype,) * len(results)
    tensors = []
    for result, rule in zip(results, declared):
        result = asarray(result)
        if rule == "first":
            dtype = compute
        elif rule == "kernel":
            kept = widen and result.dtype == np.float32 and op.family != "cast"  # a cast of a half type may want float32
            dtype = compute if kept else dtypes.BY_NUMPY[result.dtype]
        else:
            dtype = rule
        if result.dtype != dtype.numpy:
            result = recast(result, dtype.numpy)
        tensors.append(plain(result, dtype))
    if op.grad and modes.grad_enabled():
        record(op, bound, tensors, compute)
    return tensors[0] if op.outputs == 1 else pack_results(op, tensors)


def raw(value):
    """The array behind a tensor, or the arrays behind a list of them."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(raw, value)) if type(value) in (list, tuple) else value
    return value._array if isinstance(value, Tensor) else value


def widened(tensor, widen):
    array = tensor._array
    return recast(array, np.float32) if widen and not tensor._dtype.native else array


def general_view(op, bound):
    source = bound[op.tensors[0]]
    arguments = [source._array if name in op.tensors else bound[name] for name in op.positional]
    result = op.kernel(*arguments, **{name: bound[name] for name in op.params if name not in op.positional})
    several = type(result) in (list, tuple)
    results = result if several else (result,)
    kind = camel_of(op) if several else None
    tensors = [as_view(array, source, dtypes.BY_NUMPY[array.dtype], kind) for array in results]
    if op.grad and modes.grad_enabled():
        record(op, bound, tensors, source._dtype, several)
    return tuple(tensors) if several else tensors[0]


def camel_of(op):
    return op.node_name.rstrip("0123456789").removesuffix("Backward")


def record(op, bound, tensors, compute, several=False):
    """Make the general node of a call and put it under the results."""
    differentiable = [name for name in (*op.tensors, *op.lists) if name in op.grad]
    needy = [name for name in differentiable if needs_grad(bound[name])]
    if not needy:
        return
    make_classes(op)
    node = new(op.classes[1])
    node.rare, node.compute = None, compute
    if "fix" in op.classes[0].__slots__:
        node.fix = None
    edges, metas = [], []
    for name in (*op.tensors, *op.lists):
        for item in (bound[name] if name in op.lists else [bound[name]]):
            wanted = name in op.grad and isinstance(item, Tensor) and item._requires_grad
            edges.append((item._node or item) if wanted else None)
            metas.append((item._array.shape, item._array.dtype) if wanted else None)
    node.edges, node.metas = tuple(edges), metas
    special = modes.flags["special"]
    hooks = modes.SAVED_HOOKS.get() if special else ()
    for name in needy:
        for want in op.wants[name]:
            if want in ("g", "gs"):
                continue
            if want == "out":
                kept = [Packed(tensor, hooks[-1], True) if hooks else tensor._array for tensor in tensors]
                node.out = kept[0] if op.outputs == 1 else tuple(kept)
                node.guard = True if hooks and op.outputs == 1 else None
                continue
            if want in op.params:
                value = bound[want]
                if want in op.tensors and isinstance(value, Tensor):
                    check_savable(value)
                    if hooks:
                        value = Packed(value, hooks[-1])
                elif want in op.lists and hooks:
                    value = [Packed(item, hooks[-1]) if isinstance(item, Tensor) else item for item in value]
            else:
                value = shape_of(bound[want.removesuffix("_shape")])
            setattr(node, want, value)
    node.seq = tick()
    for number in range(len(tensors)) if several else op.differentiable:
        tensor = tensors[number]
        if tensor._dtype.category >= dtypes.FLOAT:
            tensor._requires_grad = True
            tensor._node = OutputEdge(node, number) if several or op.outputs > 1 else node
    if several:
        node_outputs(node, len(tensors))
    if special:
        note_line(node)


def node_outputs(node, count):
    """A node with as many outputs as this call had (unbind, split): the class for that count."""
    kind = type(node)
    counted = COUNTED.get((kind, count))
    if counted is None:
        counted = COUNTED[kind, count] = type(kind.__name__, (kind,), {"__slots__": (), "_outputs": count, "variadic": True,
                                                                          "__module__": kind.__module__})
    node.__class__ = counted


COUNTED = {}


def note_line(node):
    """Remember which of the user's lines recorded a node, when somebody asked for it."""
    anomaly = modes.ANOMALY.get()
    if modes.LINES.get() or anomaly is not None:
        frame = user_frame(2)
        rare = rare_of(node)
        rare.line = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
        if anomaly is not None:
            import traceback
            rare.stack = "".join(traceback.format_stack(frame))


def needs_grad(value):
    if isinstance(value, Tensor):
        return value._requires_grad
    return type(value) in (list, tuple) and any(isinstance(item, Tensor) and item._requires_grad for item in value)


def shape_of(value):
    if isinstance(value, (list, tuple)):
        return [item._array.shape if isinstance(item, Tensor) else None for item in value]
    return value._array.shape if isinstance(value, Tensor) else ()


def check_savable(tensor):
    if type(tensor) is InferenceTensor and not modes.inference_enabled():
        raise RuntimeError("Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
                           "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it "
                           "in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`.")


class Result(tuple):
    """Base of named results, such as `torch.return_types.max`."""

    __slots__ = ()
    _fields = ()

    def __new__(cls, items):
        return tuple.__new__(cls, items)

    def __repr__(self):
        parts = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self))
        return f"torch.return_types.{type(self).__name__}(\n{parts})"

    def __reduce__(self):
        return tuple, (tuple(self),)


RESULTS = {}


def result_type_of(name, fields):
    """The named tuple class of an op's result."""
    kind = RESULTS.get((name, fields))
    if kind is None:
        getters = {field: property(operator.itemgetter(at)) for at, field in enumerate(fields)}
        kind = RESULTS[name, fields] = type(name, (Result,), {"__slots__": (), "_fields": fields, "__module__": "torch.return_types",
                                                              "__match_args__": fields, "n_fields": len(fields), **getters})
    return kind


def pack_results(op, tensors):
    if op.returns is None:
        return tuple(tensors)
    return result_type_of(op.name.strip("_").removesuffix("_dim"), op.returns)(tensors)


def recover(op, values, error):
    """A kernel failed on the straight-line path: say why in PyTorch's words, or run with NumPy's warnings off."""
    if isinstance(error, RuntimeWarning):
        return general(op, values)
    if op.family == "pointwise" or op.check is not None:
        return general(op, values)
    raise error


def write_out(out, result):
    """The `out=` form: store a result in a given tensor (or several)."""
    if isinstance(result, tuple):
        if not isinstance(out, (tuple, list)) or len(out) != len(result):
            raise TypeError(f"argument 'out' must be tuple of {len(result)} Tensors, not {type(out).__name__}")
        written = [write_out(target, part) for target, part in zip(out, result)]
        return type(result)(written) if isinstance(result, Result) else tuple(written)
    if not isinstance(out, Tensor):
        raise TypeError(f"argument 'out' must be Tensor, not {type_name(out)}")
    if modes.grad_enabled() and (out._requires_grad or result._requires_grad):
        raise RuntimeError("out=... functions don't support automatic differentiation, but one of the arguments requires grad.")
    if not can_cast(result._dtype, out._dtype):
        raise RuntimeError(f"result type {scalar_name(result._dtype)} can't be cast to the desired output type {scalar_name(out._dtype)}")
    if out._array.shape != result._array.shape:
        if out._array.size or (out._meta is not None and out._meta.base is not None):
            raise RuntimeError(f"out= has shape {list(out.shape)} and the result shape {list(result.shape)}: no silent resize; pass a tensor of "
                             "the result's shape, or an empty one")
        out._array, out._shape = np.empty(result._array.shape, out._array.dtype), None
    check_written(out)
    out._array[...] = result._array.astype(out._array.dtype, copy=False)
    bump(out)
    return out


def check_written(tensor):
    """Called before each write: refuse it where several elements share memory, or into read-only or inference memory."""
    array = tensor._array
    if 0 in array.strides and any(step == 0 and size > 1 for step, size in zip(array.strides, array.shape)) and array.size:
        raise RuntimeError("unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
                           "Please clone() the tensor before performing the operation.")
    if not array.flags.writeable:
        raise RuntimeError("the tensor's memory is read-only (it came from a read-only NumPy array or buffer): clone() it before writing")
    if type(tensor) is InferenceTensor and not modes.inference_enabled():
        raise RuntimeError("Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal "
                           "tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details.")
    meta = tensor._meta
    creator = tensor._node if meta is None or meta.base is None else meta.base._node
    if creator is not None and type(creator) is not OutputEdge and creator.private_out:
        creator.unshare_out()


def check_overlap(written, read):
    """Refuse a write into memory that is read at the same time at other places: which comes first would decide the result.

    As PyTorch, only for arrays that fill their memory: a stride that leaves gaps makes the question too hard.
    """
    if written is read or written.base is None and read.base is None:  # each has its own
        return
    if (written.flags.forc and read.flags.forc and np.may_share_memory(written, read)
            and (written.strides != read.strides or written.shape != read.shape
                 or written.__array_interface__["data"] != read.__array_interface__["data"])):
        raise RuntimeError("unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
                           "location. Please clone() the tensor before performing the operation.")


def check_inplace(tensor, others=()):
    """Refuse in-place ops that would break recorded history (PyTorch's rules). Returns whether history is to be recorded."""
    check_written(tensor)
    if not modes.grad_enabled():
        return False
    meta = tensor._meta
    base = None if meta is None else meta.base
    recording = tensor._requires_grad or any(isinstance(other, Tensor) and other._requires_grad for other in others)
    if not recording and (base is None or not base._requires_grad or not meta.made_in_no_grad):
        return False
    if base is None:
        if tensor._node is None and tensor._requires_grad:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        return True
    if meta.multi and not meta.made_in_no_grad and tensor._requires_grad:
        number = tensor._node.number if type(tensor._node) is OutputEdge else 0
        raise RuntimeError(f"Output {number} of {meta.multi} is a view and is being modified inplace. {SEVERAL}")
    if meta.made_in_function:
        raise RuntimeError(f"Output 0 of {meta.made_in_function} is a view and is being modified inplace. This view was created inside a custom "
                           "Function (or because an input was returned as-is) and the autograd logic to handle view+inplace would override "
                           "the custom backward associated with the custom Function, leading to incorrect gradients. This behavior is "
                           "forbidden. You can fix this by cloning the output of the custom Function.")
    if meta.made_in_no_grad or meta.multi:  # PyTorch says this of several views without history too
        raise RuntimeError("A view was created in no_grad mode and is being modified inplace with grad mode enabled. "
                           f"{SEVERAL if meta.multi and not meta.made_in_no_grad else IN_NO_GRAD}")
    if base._node is None and base._requires_grad:
        raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    return True


READ_FIRST = frozenset(("masked_fill", "index_fill"))  # they read their value, a single number, before they write


def inplace(function, tensor, args, kwargs):
    """`tensor.op_(...)` made of `op`: compute, store, and give the tensor the result's history."""
    if type(tensor) not in PLAIN:
        if hasattr(type(tensor), "__dispatch_inplace__"):
            return type(tensor).__dispatch_inplace__(function, tensor, args, kwargs)
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{function.__name__}_(): argument 'input' (position 1) must be Tensor, not {type_name(tensor)}")
    others = (*args, *kwargs.values())
    recording = check_inplace(tensor, others)
    if function.__name__ not in READ_FIRST:
        for other in others:
            if isinstance(other, Tensor) and (other._meta is not None or tensor._meta is not None):  # a view of something
                check_overlap(tensor._array, other._array)
    if not recording:
        large, done = tensor._array.size >= NAMES["LARGE"], None
        destination.array = tensor._array if large else None
        recorded = modes.grad_enabled()
        modes.switch_grad(False)
        try:
            if large and not modes.flags["special"]:
                done = NAMES["fused_on_all_cores"](function, (tensor, *args), kwargs)
            if done is None:
                destination.array = tensor._array if large and is_single(function, kwargs) else None
            result = function(tensor, *args, **kwargs) if done is None else plain(done, tensor._dtype)
        finally:
            destination.array = None
            modes.switch_grad(recorded)
        store(tensor, result)
        bump(tensor)
        return tensor
    before = alias(tensor)
    result = function(before, *args, **kwargs)
    check_storable(tensor, result)
    node = result._node
    if node is not None and saves(node, before):
        before._array, before._meta = before._array.copy(), None
    store(tensor, result)
    bump(tensor)
    if node is not None:
        rebase(tensor, node, result)
    return tensor


def is_single(function, kwargs):
    """Whether all that a function computes is one op of its first tensor, whose result may replace that at once."""
    op = getattr(function, "op_record", None)
    return op is not None and (op.kind == "op" or op.name in ("add", "sub", "div", "lerp") and not kwargs or op.name == "clamp")


def saves(node, tensor):
    return any(getattr(node, field, None) is tensor for field in getattr(node, "saved", ()))


def refuse_one_of_many(tensor, value):
    """Under vmap, what all samples share cannot take the value of one."""
    if getattr(type(value), "one_of_many", False) and type(tensor) in PLAIN:
        raise RuntimeError("vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that has more "
                           "elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped over in a vmap. Please "
                           "try to use out-of-place operators instead of inplace arithmetic.")


def check_storable(tensor, result):
    if type(result) not in PLAIN:
        refuse_one_of_many(tensor, result)
    if not can_cast(result._dtype, tensor._dtype):
        raise RuntimeError(f"result type {scalar_name(result._dtype)} can't be cast to the desired output type {scalar_name(tensor._dtype)}")
    if result._array.shape != tensor._array.shape:
        raise RuntimeError(f"output with shape {list(tensor.shape)} doesn't match the broadcast shape {list(result.shape)}")


def store(tensor, result):
    check_storable(tensor, result)
    array, values = tensor._array, result._array
    if values is not array:
        array[...] = values if values.dtype == array.dtype else values.astype(array.dtype)


def rebase(tensor, node, result=None):
    """Give `tensor` the history `node` after it was written in place; a view's base gets it, and all views follow."""
    meta = tensor._meta
    if type(node) is not OutputEdge and getattr(type(node), "saves_out", False) and result is not None:
        if type(node.out) is ndarray and result._array is not None and node.out is result._array:
            node.out, node.guard = tensor._array, counter_of(tensor)
        node.seq = tick()
    base = None if meta is None else meta.base
    if base is None:
        tensor._node, tensor._requires_grad = node, True
        refresh_views(tensor)
        return
    base._node, base._requires_grad = copy_slices(base, tensor, node), True
    refresh_views(base)
    if tensor._node is None or tensor._node is node:
        refresh_view(tensor, base)


def refresh_views(base):
    """After the base got new history, its views read from it."""
    views = None if base._meta is None else base._meta.views
    if views:
        for reference in views:
            view = reference()
            if view is not None and view is not base:
                refresh_view(view, base)


def refresh_view(view, base):
    view._node, view._requires_grad = view_node(base, view), True


NAMES["general"], NAMES["recover"], NAMES["general_operator"] = general, recover, general_operator
NAMES["as_view"] = as_view
rebase_hook.append(rebase)
