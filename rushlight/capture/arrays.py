"""NumPy's arrays while translating: tensors of the graph that are arrays wherever Python gets them.

What a call gives (its dtype, and whether an array or one of NumPy's numbers) is asked of NumPy itself, with arrays of ones of
the same dtypes and ranks.  The ops are ours, on operands brought to the dtype in which NumPy computes.  Whatever has no exact
counterpart among them is a break: then NumPy does it, between two graphs.  Read `Arrays.ufunc` first.
"""

import operator
import warnings
from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np

from .. import ops
from ..core import dtypes
from ..ops import asarray
from ..ops.creation import as_tensor, from_numpy, tensor
from ..tensor import Tensor, wrap
from .faults import runs_natively
from .loading import SCALARS, is_library
from .machine import BINARY as OPERATORS
from .machine import Break
from .sources import LOADERS, Source
from .traced import Traced, TracedArray

LISTED = 4096  # so many numbers of an array that is made of plain ones are written into the graph
SAME_NAMES = ("sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh exp exp2 expm1 log log2 log10 log1p sqrt square "
              "negative positive absolute floor ceil trunc isnan isinf isfinite signbit logical_not logical_and logical_or "
              "logical_xor bitwise_and bitwise_or bitwise_xor add subtract multiply maximum minimum fmax fmin arctan2 hypot copysign "
              "logaddexp logaddexp2 greater greater_equal less less_equal deg2rad rad2deg matmul")
# NumPy's function -> the name of ours.
UFUNCS: dict[Any, str] = {getattr(np, name): name for name in SAME_NAMES.split()} | {
    np.divide: "div", np.invert: "bitwise_not", np.conjugate: "conj_physical", np.rint: "round",
    np.equal: "eq", np.not_equal: "ne"}
OF_FLOATS = {np.power: "pow", np.floor_divide: "floor_divide", np.remainder: "remainder", np.fmod: "fmod", np.reciprocal: "reciprocal", np.fabs: "abs"}
BINARY = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "//": np.floor_divide, "%": np.remainder, "**": np.power,
          "@": np.matmul, "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}
UNARY = {"-": np.negative, "+": np.positive, "~": np.invert}
COMPARISONS = {"<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal, ">": np.greater, ">=": np.greater_equal}
# Reductions: the name of ours, and what may follow the array by place.
WITH_DTYPE, PLAIN, WITH_DDOF = ("axis", "dtype", "out", "keepdims"), ("axis", "out", "keepdims"), ("axis", "dtype", "out", "ddof", "keepdims")
REDUCTIONS: dict[Any, tuple[str, tuple]] = {
    np.sum: ("sum", WITH_DTYPE), np.prod: ("prod", WITH_DTYPE), np.mean: ("mean", WITH_DTYPE), np.std: ("std", WITH_DDOF),
    np.var: ("var", WITH_DDOF), np.max: ("amax", PLAIN), np.min: ("amin", PLAIN), np.amax: ("amax", PLAIN), np.amin: ("amin", PLAIN),
    np.any: ("any", PLAIN), np.all: ("all", PLAIN), np.argmax: ("argmax", PLAIN), np.argmin: ("argmin", PLAIN)}
TAKE_NUMBERS = frozenset({"add", "subtract", "multiply", "div", "pow", "floor_divide", "remainder", "fmod", "greater", "greater_equal", "less", "less_equal",
                          "eq", "ne"})  # ops of ours for an array and a plain number
FACTS = frozenset({"ndim", "itemsize", "dtype"})


def array_tensor(array: np.ndarray) -> Tensor:
    """The tensor with an array's memory, for an array that is guarded to be fit for one."""
    return wrap(array, dtypes.BY_NUMPY[array.dtype])


LOADERS["array_tensor"] = array_tensor


def order(value: Traced) -> list[int]:
    """The dims of more than one item, the one with the largest steps first."""
    array = value.stand_in._array
    return sorted([dim for dim, size in enumerate(array.shape) if size > 1], key=lambda dim: -array.strides[dim])


def turned(value: Any) -> bool:
    """Whether an array's dims do not lie in their order. What NumPy makes of such ones may lie so too, which a later reshape shows."""
    return type(value) is Traced and order(value) != sorted(order(value))


class Arrays:
    """The arrays of one trace, and the numbers that NumPy makes of them."""

    def __init__(self, tracer: Any):
        self.tracer = tracer

    # -- what comes in and goes out ----------------------------------------------------------------------------------

    def load(self, source: Source, raw: np.ndarray) -> Any:
        dtype = dtypes.BY_NUMPY.get(raw.dtype)
        if not self.tracer.policy.traces_numpy or type(raw) is not np.ndarray or dtype is None or not raw.flags.writeable or not raw.flags.aligned or any(
                step < 0 or step % raw.itemsize for step in raw.strides):
            return self.tracer.load_object(source, raw)
        self.tracer.guards.add("array", source, "type({v}) is {0} and {v}.dtype == {1} and {v}.flags.writeable and {v}.flags.aligned", np.ndarray, raw.dtype,
                        words=f"{source.name} is an array of {raw.dtype}")
        traced = self.tracer.load_tensor(self.tracer.sources.step("array", source, ()), array_tensor(raw))
        return self.tracer.register(raw, TracedArray(traced, False), source)

    def of_tensor(self, value: Traced) -> TracedArray:
        """`Tensor.numpy()`: the same memory."""
        if not self.tracer.policy.traces_numpy or value.stand_in._requires_grad or value.stand_in._dtype.numpy not in dtypes.BY_NUMPY or value.stand_in.is_conj() or value.stand_in.is_neg():
            raise Break("Unsupported Tensor.numpy() call", "NumPy has no such array, or the tensor has a history")
        return TracedArray(self.tracer.call_op(Tensor.detach, (value,), {}), False)

    def to_tensor(self, function: Any, value: TracedArray, given: dict) -> Any:
        """`from_numpy` and its like."""
        if function not in (from_numpy, as_tensor, asarray, tensor) or set(given) - {"dtype"} or value.scalar and function is from_numpy:
            raise Break("NumPy array", f"{function.__name__} of an array")
        result = self.tracer.call_op(Tensor.detach, (value.tensor,), {})
        if function is tensor or value.scalar:
            result = self.tracer.call_op(Tensor.clone, (result,), {})
        dtype = self.tracer.value(given.get("dtype"))
        return result if dtype is None else self.tracer.call_op(Tensor.to, (result, dtype), {})

    def sample(self, value: Any) -> Any:
        """What NumPy is asked with: ones of the same dtype and rank; other values as they are."""
        if type(value) in (tuple, list):
            return type(value)(map(self.sample, value))
        if type(value) is not TracedArray:
            return value.hint if self.tracer.is_symbol(value) else value
        dtype = value.tensor.stand_in._array.dtype
        return dtype.type(1) if value.scalar else np.ones((1,) * value.tensor.stand_in._array.ndim, dtype)

    def tell(self, function: Callable, *args: Any, **kwargs: Any) -> tuple[np.dtype, bool]:
        """The dtype of what NumPy's function gives, and whether that is a number."""
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
                found = function(*map(self.sample, args), **kwargs)
        except Exception as error:
            raise Break("NumPy call", f"NumPy refuses it, perhaps: {error}") from None
        if not isinstance(found, (np.ndarray, np.generic)):
            raise Break("NumPy call", f"{function.__name__} gives a {type(found).__name__}")
        return found.dtype, isinstance(found, np.generic)

    def op(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """One op of ours. What it refuses, NumPy may take, or refuses in other words."""
        if type(function) is str:
            function = getattr(ops, function)
        try:
            return self.tracer.call_op(function, args, kwargs)
        except Exception as error:
            raise Break("NumPy call", f"no op for it: {error}") from None

    def made(self, found: Any, dtype: np.dtype, scalar: bool) -> TracedArray:
        if type(found) is not Traced or found.stand_in._array.dtype != dtype or scalar and found.stand_in._array.ndim:
            raise Break("NumPy call", "an op of ours gives another dtype")
        return TracedArray(found, scalar)

    def need_order(self, *values: Any) -> None:
        if any(map(turned, values)):
            raise Break("NumPy call", "the order of dims in memory that NumPy gives an array")

    def cast(self, value: Traced, dtype: np.dtype) -> Traced:
        now = value.stand_in._array.dtype
        if now == dtype:
            return value
        if dtype not in dtypes.BY_NUMPY or now.kind == "c" != dtype.kind or now.kind == "f" and dtype.kind == "u":
            raise Break("NumPy call", f"no exact cast from {now} to {dtype}")
        found = self.op(Tensor.to, value, dtypes.BY_NUMPY[dtype])
        if order(found) != order(value):
            self.need_order(value, found)
        return found

    def operand(self, value: Any) -> Any:
        """An array, or a plain number."""
        value = self.tracer.resolve(value)
        if type(value) in (list, tuple):
            return self.of_items(value, None)
        if type(value) is TracedArray or type(value) in (bool, int, float, complex) or isinstance(value, np.generic) or self.tracer.is_symbol(value):
            return value
        raise Break("NumPy array", f"an array together with a {type(value).__name__}")

    def number(self, value: Any, dtype: np.dtype) -> Any:
        """A plain number as NumPy brings it to a dtype."""
        if self.tracer.is_symbol(value):
            if dtype.kind not in "if" or dtype.itemsize < 8:
                value = value.concrete()
            else:
                return value
        try:
            return dtype.type(value).item()
        except (OverflowError, TypeError, ValueError) as error:
            raise Break("NumPy call", f"NumPy refuses it: {error}") from None

    def dtype(self, value: Any) -> np.dtype:
        try:
            return np.dtype(value)
        except TypeError as error:
            raise Break("NumPy call", f"NumPy refuses it: {error}") from None

    def axis(self, value: Any) -> Any:
        value = self.tracer.resolve(value)
        if value is not None and type(value) is not int and not (type(value) is tuple and all(type(one) is int for one in value)):
            raise Break("NumPy call", "an axis that varies")
        if value == ():
            raise Break("NumPy call", "a reduction along no axis")
        return value

    def arguments(self, function: Any, args: tuple, kwargs: dict, names: tuple) -> dict:
        """What follows the array, by name."""
        given = {**dict(zip(names, args)), **kwargs}
        if len(args) > len(names) or set(given) - set(names) or self.tracer.value(given.pop("out", None)) is not None:
            raise Break("NumPy call", f"{getattr(function, '__name__', function)} with these arguments")
        return {key: self.tracer.resolve(item) for key, item in given.items()}

    # -- functions of elements, reductions ---------------------------------------------------------------------------

    def ufunc(self, function: Any, args: tuple, kwargs: dict) -> Any:
        if kwargs or len(args) != function.nin:
            raise Break("NumPy call", f"{function.__name__} with these arguments")
        given = [self.operand(arg) for arg in args]
        kinds = [arg.tensor.stand_in._array.dtype if type(arg) is TracedArray else arg.dtype if isinstance(arg, np.generic) else
                 np.dtype(bool) if type(arg) is bool else type(arg.hint) if self.tracer.is_symbol(arg) else type(arg) for arg in given]
        try:
            *loop, dtype = function.resolve_dtypes((*kinds, None))
        except TypeError as error:
            raise Break("NumPy call", f"NumPy refuses it: {error}") from None
        if any(one != loop[0] for one in loop):
            raise Break("NumPy call", f"{function.__name__} of several dtypes")
        name = UFUNCS.get(function)
        if name is None:
            counts = function is np.power and type(given[1]) is int and given[1] >= 0 and loop[0].kind == "i"
            if loop[0].kind != "f" and not counts:
                raise Break("NumPy call", f"{function.__name__} of {loop[0]}")
            name = OF_FLOATS[function]
        operands = [self.cast(arg.tensor, loop[0]) if type(arg) is TracedArray else self.number(arg, loop[0]) for arg in given]
        if name not in TAKE_NUMBERS:
            operands = [one if type(one) is Traced else self.op("full", (), one, dtype=dtypes.BY_NUMPY[loop[0]]) for one in operands]
        found = self.op(name, *operands)
        if name in ("positive", "conj_physical"):
            found = self.op("clone", found)
        if name == "remainder":  # NumPy's zero has the sign of the divisor, PyTorch's that of the dividend
            divisor = operands[1] if type(operands[1]) is Traced else self.op("full", (), operands[1], dtype=dtypes.BY_NUMPY[loop[0]])
            found = self.op("where", self.op("eq", found, 0), self.op("copysign", found, divisor), found)
        if function is np.matmul:
            self.need_order(found)
        elif any(type(one) is Traced and one.stand_in._array.ndim > 1 and order(one) != order(found) for one in operands):
            self.need_order(found, *operands)
        return self.made(found, dtype, not found.stand_in._array.ndim)

    def reduction(self, function: Any, args: tuple, kwargs: dict) -> Any:
        name, names = REDUCTIONS[function]
        array = self.operand(args[0])
        given = self.arguments(function, args[1:], kwargs, names)
        if type(array) is not TracedArray:
            raise Break("NumPy call", f"{function.__name__} of a number")
        if array.tensor.stand_in._array.ndim > 2:
            self.need_order(array.tensor)
        axis, keep, dtype, less = self.axis(given.get("axis")), bool(given.get("keepdims", False)), given.get("dtype"), given.get("ddof", 0)
        wanted, scalar = self.tell(function, array, **given)
        value, dims = array.tensor, axis
        if axis is None:
            dims = tuple(range(value.stand_in._array.ndim))
        if name in ("argmax", "argmin"):
            if keep and axis is None:
                raise Break("NumPy call", f"{function.__name__} of all that keeps its dims")
            found = self.op(name, value, axis, keep)
        elif name in ("amax", "amin", "any", "all"):
            found = self.op(name, value, dims, keep)
        elif name == "sum":
            found = self.op(name, value, dims, keep, dtype=dtypes.BY_NUMPY.get(wanted))
        elif name == "prod":
            value = self.cast(value, wanted)
            found = self.op(name, value) if axis is None and not keep else self.op(name, value, axis, keep)
        else:
            if wanted.kind != "f" or dtype is not None or less not in (0, 1):
                raise Break("NumPy call", f"{function.__name__} as {wanted}")
            value = self.cast(value, wanted)
            found = self.op(name, value, dims, keepdim=keep, **({} if name == "mean" else {"correction": less}))
        return self.made(found, wanted, scalar)

    def running(self, function: Any, args: tuple, kwargs: dict) -> Any:
        """`cumsum` and `cumprod`."""
        array, given = self.operand(args[0]), self.arguments(function, args[1:], kwargs, ("axis", "dtype", "out"))
        axis = self.axis(given.get("axis"))
        dtype, scalar = self.tell(function, array, **given)
        self.need_order(array.tensor)
        value = self.cast(array.tensor, dtype)
        value = self.op("reshape", value, (-1,)) if axis is None else value
        return self.made(self.op(function.__name__, value, 0 if axis is None else axis), dtype, scalar)

    def binary(self, op: str, left: Any, right: Any) -> Any:
        function = BINARY.get(op.removesuffix("="))
        if function is None:
            raise Break("NumPy call", f"{op} of arrays")
        found = self.ufunc(function, (left, right), {})
        if op[-1] != "=" or type(left) is not TracedArray or left.scalar:
            dtype, scalar = self.tell(OPERATORS[op], left, right)  # which for some powers is that of another function
            return self.made(found.tensor, dtype, scalar)
        dtype, now = found.tensor.stand_in._array, left.tensor.stand_in._array
        if not np.can_cast(dtype.dtype, now.dtype, "same_kind") or dtype.shape != now.shape:
            raise Break("NumPy call", f"{op} to an array of another kind")
        self.op(Tensor.copy_, left.tensor, self.cast(found.tensor, now.dtype))
        return left

    def unary(self, op: str, value: TracedArray) -> Any:
        return self.ufunc(UNARY[op], (value,), {})

    def compare(self, op: str, left: Any, right: Any) -> Any:
        return self.ufunc(COMPARISONS[op], (left, right), {})

    def clip(self, function: Any, args: tuple, kwargs: dict) -> Any:
        given = self.arguments(function, args[1:], kwargs, ("a_min", "a_max", "out"))
        if given.get("a_min") is None and given.get("a_max") is None:
            raise Break("NumPy call", "clip without limits")
        found = args[0]
        for limit, one in ((given.get("a_min"), np.maximum), (given.get("a_max"), np.minimum)):
            found = found if limit is None else self.ufunc(one, (found, limit), {})
        return found

    def conjugate(self, function: Any, args: tuple, kwargs: dict) -> Any:
        """The method gives an array of real numbers itself."""
        if args[0].tensor.stand_in._array.dtype.kind != "c":
            raise Break("NumPy call", "the conjugate of real numbers by a method")
        return self.ufunc(np.conjugate, args, kwargs)

    def where(self, function: Any, args: tuple, kwargs: dict) -> Any:
        if kwargs or len(args) != 3:
            raise Break("Dynamic shape operator", "the shape of the result of where depends on values")
        test, *given = [self.operand(arg) for arg in args]
        dtype, scalar = self.tell(function, test, *given)
        if type(test) is not TracedArray:
            raise Break("NumPy call", "where of a number")
        if test.tensor.stand_in._array.dtype != bool:
            test = self.ufunc(np.not_equal, (test, 0), {})
        self.need_order(test.tensor, *[one.tensor for one in given if type(one) is TracedArray])
        values = [self.cast(one.tensor, dtype) if type(one) is TracedArray else
                  self.op("full", (), self.number(one, dtype), dtype=dtypes.BY_NUMPY.get(dtype)) for one in given]
        return self.made(self.op("where", test.tensor, *values), dtype, scalar)

    def dot(self, function: Any, args: tuple, kwargs: dict) -> Any:
        given = [self.operand(arg) for arg in args]
        ranks = [one.tensor.stand_in._array.ndim for one in given if type(one) is TracedArray]
        plain = any(type(one) is not TracedArray for one in given)  # here Python's numbers count as float64 or int64
        if kwargs or plain or len(given) != 2 or max(ranks) > (1 if function is np.inner else 2):
            raise Break("NumPy call", f"{function.__name__} with these arguments")
        if function is np.outer:
            rows, columns = [self.op("reshape", one.tensor, (-1,)) for one in given]
            return self.ufunc(np.multiply, (TracedArray(self.op("unsqueeze", rows, 1), False), TracedArray(columns, False)), {})
        return self.ufunc(np.matmul if min(ranks) else np.multiply, tuple(given), {})

    # -- shapes ------------------------------------------------------------------------------------------------------

    def shaped(self, function: Any, args: tuple, kwargs: dict) -> Any:
        """What moves items about and computes nothing."""
        array, rest = self.operand(args[0]), [self.tracer.resolve(arg) for arg in args[1:]]
        named = {key: self.tracer.resolve(item) for key, item in kwargs.items()}
        arrange, names = SHAPING[function]
        if type(array) is not TracedArray or array.scalar:
            raise Break("NumPy call", f"{function.__name__} of a number")
        value, given = array.tensor, self.arguments(function, tuple(rest), named, names)
        if given.pop("order", "C") not in ("C", "K"):
            raise Break("NumPy call", "another order of items")
        return TracedArray(arrange(self, value, **given), False)

    def joined(self, function: Any, args: tuple, kwargs: dict) -> Any:
        arrays = [self.operand(one) for one in self.tracer.unpack(args[0])]
        given = self.arguments(function, args[1:], kwargs, ("axis",))
        dtype, scalar = self.tell(function, tuple(arrays), **given)
        if not all(type(one) is TracedArray for one in arrays) or self.axis(given.get("axis", 0)) is None:
            raise Break("NumPy call", f"{function.__name__} of numbers")
        self.need_order(*[one.tensor for one in arrays])
        values = [self.cast(one.tensor, dtype) for one in arrays]
        return self.made(self.op("cat" if function is np.concatenate else function.__name__, values, *given.values()), dtype, scalar)

    def as_type(self, function: Any, args: tuple, kwargs: dict) -> Any:
        array, given = self.operand(args[0]), self.arguments(function, args[1:], kwargs, ("dtype",))
        dtype, scalar = self.tell(np.ndarray.astype if not array.scalar else np.generic.astype, array, given.get("dtype"))
        found = self.cast(array.tensor, dtype)
        return TracedArray(self.op("clone", found) if found is array.tensor else found, scalar)

    def plain_item(self, function: Any, args: tuple, kwargs: dict) -> Any:
        """`item()`: a number of Python's, read when the graph has run."""
        array = self.operand(args[0])
        if len(args) > 1 or kwargs or array.tensor.stand_in._array.size != 1:
            raise Break("NumPy call", "an item of an array at a place")
        return self.tracer.tensor_number(array.tensor, None)

    # -- making ------------------------------------------------------------------------------------------------------

    def make(self, function: Any, args: tuple, kwargs: dict) -> Any:
        """`array`, `asarray` and `copy`."""
        value, given = self.tracer.resolve(args[0]), self.arguments(function, args[1:], kwargs, ("dtype",))
        dtype = given.get("dtype")
        if type(value) is Traced:
            value = self.of_tensor(value)
        elif type(value) in (list, tuple):
            return self.of_items(value, dtype)
        if type(value) is not TracedArray:
            return self.of_numbers(function, (value,), given)
        wanted = self.dtype(dtype) if dtype is not None else value.tensor.stand_in._array.dtype
        found = self.cast(value.tensor, wanted)
        if found is value.tensor and function is np.asarray and not value.scalar:
            return value
        return TracedArray(self.op("clone", found) if found is value.tensor else found, False)

    def of_items(self, items: Any, dtype: Any) -> Any:
        """An array of a list: of numbers, or of arrays of one shape."""
        items = [self.operand(item) if type(item) in (list, tuple, TracedArray) else item for item in map(self.tracer.resolve, items)]
        arrays = [item for item in items if type(item) is TracedArray]
        if not arrays:
            return self.of_numbers(np.array, (items,), {} if dtype is None else {"dtype": dtype})
        if len(arrays) < len(items) or len({item.tensor.stand_in._array.ndim for item in arrays}) > 1:
            raise Break("NumPy array", "an array of arrays and numbers")
        self.need_order(*[item.tensor for item in items])
        wanted, _ = self.tell(np.array, items, **({} if dtype is None else {"dtype": dtype}))
        return TracedArray(self.op("stack", [self.cast(item.tensor, wanted) for item in arrays]), False)

    def of_numbers(self, function: Any, args: tuple, kwargs: dict) -> Any:
        """An array made of plain numbers, and so the same on each run."""
        plain = [self.tracer.known_value(self.tracer.resolve(arg)) for arg in args]
        named = {key: self.tracer.resolve(item) for key, item in kwargs.items()}
        for item in (*plain, *named.values()):
            for one in item if type(item) in (list, tuple) else (item,):
                if type(one) not in SCALARS and not isinstance(one, (np.generic, np.dtype)) and not is_library(one):
                    raise Break("NumPy call", f"{function.__name__} of a {type(one).__name__}")
        try:
            array = function(*plain, **named)
        except Exception as error:
            raise Break("NumPy call", f"NumPy refuses it: {error}") from None
        if type(array) is not np.ndarray or array.size > LISTED or array.dtype not in dtypes.BY_NUMPY:
            raise Break("NumPy call", f"{function.__name__} gives no array, or a long one")
        dtype = dtypes.BY_NUMPY[array.dtype]
        return TracedArray(self.op(tensor, array.tolist(), dtype=dtype) if array.size else self.op("zeros", array.shape, dtype=dtype), False)

    def filled(self, function: Any, args: tuple, kwargs: dict) -> Any:
        """`zeros`, `ones`, `full` and the like of an array, of any size."""
        name, names = FILLED[function]
        given = self.arguments(function, args, kwargs, names)
        like, shape, dtype = given.get("a"), given.get("shape"), given.get("dtype")
        if "a" in names:
            if type(like) is not TracedArray:
                raise Break("NumPy call", f"{function.__name__} of what is no array")
            self.need_order(like.tensor)
            shape, dtype = self.attribute(like, "shape"), like.tensor.stand_in._array.dtype if dtype is None else dtype
        value = given.get("fill_value", 0 if name == "zeros" else 1)
        if type(value) not in (bool, int, float, complex):
            raise Break("NumPy call", "filled with what is no plain number")
        dtype = self.dtype(dtype) if dtype is not None or name != "full" else np.array(value).dtype
        sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        if dtype not in dtypes.BY_NUMPY or not all(type(size) is int or self.tracer.is_symbol(size) for size in sizes):
            raise Break("NumPy call", f"{function.__name__} with these arguments")
        return TracedArray(self.op("full", sizes, self.number(value, dtype), dtype=dtypes.BY_NUMPY[dtype]), False)

    # -- items and attributes ----------------------------------------------------------------------------------------

    def key(self, array: TracedArray, key: Any) -> tuple[Any, bool | None]:
        """The key for the tensor, and whether the item is a number (None: if it has no dims)."""
        key, ndim = self.tracer.resolve(key), array.tensor.stand_in._array.ndim
        parts, numbers, by_array = [], True, False
        for part in key if type(key) is tuple else (key,):
            if type(part) is list:
                part = self.of_items(part, None)
            if type(part) is TracedArray:
                kind = part.tensor.stand_in._array.dtype.kind
                if kind not in "bi":
                    raise Break("NumPy call", f"an index of {part.tensor.stand_in._array.dtype}")
                by_array = True
                parts.append(part.tensor if kind == "b" else self.cast(part.tensor, np.dtype(np.int64)))
                continue
            if isinstance(part, np.integer):
                part = int(part)
            if type(part) is not int and not self.tracer.is_symbol(part):
                if part is not None and part is not Ellipsis and type(part) is not slice:
                    raise Break("NumPy call", f"an index of type {type(part).__name__}")
                numbers = False
            parts.append(part)
        self.need_together(parts)
        whole = tuple(parts) if type(key) is tuple else parts[0]
        return whole, None if by_array and numbers else numbers and not by_array and len(parts) == ndim

    def need_together(self, parts: list) -> None:
        """NumPy counts numbers as indices by arrays where there are such; PyTorch takes them first. Together in one place both are the same."""
        if sum(part is Ellipsis for part in parts) > 1:
            raise Break("NumPy call", "an index with two ellipses")
        kinds = ["slice" if part is None or part is Ellipsis or type(part) is slice else "array" if type(part) is Traced else "number" for part in parts]
        places = [at for at, kind in enumerate(kinds) if kind != "slice"]
        if "array" in kinds and "number" in kinds and places[-1] - places[0] >= len(places):
            raise Break("NumPy call", "an index with numbers and arrays that stand apart")

    def item(self, array: TracedArray, key: Any) -> Any:
        place, scalar = self.key(array, key)
        if array.scalar:
            raise Break("NumPy call", "an item of a number")
        if any(type(part) is Traced for part in (place if type(place) is tuple else (place,))):
            self.need_order(array.tensor)
        found = self.op(operator.getitem, array.tensor, place)
        by_number = any(type(part) is Traced and not part.stand_in._array.ndim for part in (place if type(place) is tuple else (place,)))
        if by_number and found.stand_in._array.ndim:
            raise Break("NumPy call", "a part of an array by a number that is computed: in NumPy it shares memory")
        if not found.stand_in._array.ndim if scalar is None else scalar:
            return TracedArray(self.op("clone", found), True)  # a number does not change with its array
        return TracedArray(found, False)

    def set_item(self, array: TracedArray, key: Any, value: Any) -> None:
        if array.scalar:
            raise Break("NumPy call", "storing an item of a number")
        place, scalar = self.key(array, key)
        value, dtype = self.operand(value), array.tensor.stand_in._array.dtype
        if scalar is not False and type(value) is TracedArray and value.tensor.stand_in._array.ndim:
            raise Break("NumPy call", "an array as one item")
        self.op(operator.setitem, array.tensor, place, self.cast(value.tensor, dtype) if type(value) is TracedArray else self.number(value, dtype))

    @runs_natively
    def attribute(self, array: TracedArray, name: str) -> Any:
        if name in ("shape", "size"):
            shape = tuple(self.tracer.symbolic_shape(array.tensor) if self.tracer.policy.any_dynamic else array.tensor.stand_in._array.shape)
            if name == "shape":
                return shape
            size: Any = 1
            for one in shape:
                size = self.tracer.binary("*", size, one)
            return size
        if name in FACTS:
            return getattr(array.tensor.stand_in._array, name)
        if name in ("T", "mT") and not array.scalar:
            return TracedArray(self.op(getattr, array.tensor, name) if name == "mT" else transposed(self, array.tensor), False)
        if name == "__class__":
            return type(self.sample(array))
        found: Any = getattr(np.generic if array.scalar else np.ndarray, name, None)
        if found in self.tracer.special:
            return MethodType(found, array)
        if found is None:
            getattr(self.sample(array), name)  # raises
        raise Break("NumPy array", f"the attribute {name} of an array")

    def length(self, array: TracedArray) -> int:
        if not array.tensor.stand_in._array.ndim:
            raise Break("NumPy call", "the length of an array without dims")
        return self.attribute(array, "shape")[0]

    def iterate(self, array: TracedArray) -> Any:
        if not array.tensor.stand_in._array.ndim:
            raise TypeError("iteration over a 0-d array")
        size = self.tracer.known_value(self.attribute(array, "shape")[0])
        return iter([self.item(array, at) for at in range(size)])

    def truth(self, array: TracedArray) -> bool:
        if array.tensor.stand_in._array.size != 1:
            raise Break("NumPy call", "the truth of an array")
        return self.tracer.tensor_truth(array.tensor)


# -- how shapes change -----------------------------------------------------------------------------------------------

def transposed(self: Arrays, value: Traced, axes: Any = None) -> Traced:
    return self.op("permute", value, tuple(range(value.stand_in._array.ndim))[::-1] if axes is None else tuple(axes))


def reshaped(self: Arrays, value: Traced, shape: Any) -> Traced:
    return self.op("reshape", value, shape if type(shape) in (tuple, list) else (shape,))


def flattened(self: Arrays, value: Traced) -> Traced:
    return self.op("clone", self.op("reshape", value, (-1,)))


def squeezed(self: Arrays, value: Traced, axis: Any = None) -> Traced:
    sizes = value.stand_in._array.shape
    if axis is not None and any(not -len(sizes) <= one < len(sizes) or sizes[one] != 1 for one in (axis if type(axis) is tuple else (axis,))):
        raise Break("NumPy call", "squeeze of an axis that is longer than 1")
    return self.op("squeeze", value) if axis is None else self.op("squeeze", value, axis)


def copied(self: Arrays, value: Traced) -> Traced:
    self.need_order(value)
    return self.op("clone", value)


def moved(name: str) -> Callable:
    """An op with the arguments of NumPy's function, in a new array."""
    def arrange(self: Arrays, value: Traced, *args: Any) -> Traced:
        self.need_order(value)
        return self.op(name, value, *args)
    return arrange


def repeated(self: Arrays, value: Traced, repeats: Any, axis: Any = None) -> Traced:
    if type(repeats) is not int:
        raise Break("NumPy call", "repeat by several numbers")
    return moved("repeat_interleave")(self, value, repeats, axis)


SHAPING: dict[Any, tuple[Callable, tuple]] = {
    np.transpose: (transposed, ("axes",)), np.reshape: (reshaped, ("shape", "order")), np.ravel: (lambda self, value: reshaped(self, value, -1), ("order",)),
    np.squeeze: (squeezed, ("axis",)), np.expand_dims: (lambda self, value, axis: self.op("unsqueeze", value, self.axis(axis)), ("axis",)),
    np.swapaxes: (lambda self, value, axis1, axis2: self.op("transpose", value, axis1, axis2), ("axis1", "axis2")),
    np.moveaxis: (lambda self, value, source, destination: self.op("movedim", value, source, destination), ("source", "destination")),
    np.roll: (lambda self, value, shift, axis=None: moved("roll")(self, value, shift, axis), ("shift", "axis")),
    np.tile: (lambda self, value, reps: moved("tile")(self, value, reps if type(reps) is tuple else (reps,)), ("reps",)),
    np.repeat: (repeated, ("repeats", "axis")), np.copy: (copied, ("order",)), np.ndarray.flatten: (flattened, ("order",)),
    np.ndarray.copy: (copied, ("order",)),
}
FILLED: dict[Any, tuple[str, tuple]] = {
    np.zeros: ("zeros", ("shape", "dtype")), np.ones: ("ones", ("shape", "dtype")), np.full: ("full", ("shape", "fill_value", "dtype")),
    np.zeros_like: ("zeros", ("a", "dtype")), np.ones_like: ("ones", ("a", "dtype")), np.full_like: ("full", ("a", "fill_value", "dtype")),
}
METHODS = {name: getattr(np, name) for name in "sum prod mean std var max min any all argmax argmin cumsum cumprod clip squeeze ravel swapaxes repeat".split()}


def handled(function: Any, method: Callable) -> Callable:
    """What the tracer does for a function of NumPy: with arrays of the trace; of plain numbers it is NumPy that is called."""
    always = method in (Arrays.make, Arrays.filled, Arrays.of_numbers)

    def call(self: Any, args: tuple, kwargs: dict) -> Any:
        known = args, kwargs = tuple(map(self.value, args)), {key: self.value(item) for key, item in kwargs.items()}
        if always and self.policy.traces_numpy or any(type(one) is TracedArray for arg in (*args, *kwargs.values())
                         for one in (map(self.value, arg) if type(arg) in (list, tuple) else (arg,))):
            return method(self.arrays, function, *known)
        found = self.number_of_numpy(function, args, kwargs)
        if found is None:
            raise Break("NumPy call", f"{getattr(function, '__name__', function)} of what is no array of the trace")
        return found
    return call


def spread(function: Any) -> Callable:
    """A method that takes a shape or an order of axes as one argument or as several."""
    def call(self: Any, args: tuple, kwargs: dict) -> Any:
        rest = tuple(map(self.value, args[1:]))
        return self.arrays.shaped(function, (args[0], rest[0] if len(rest) == 1 else rest) if rest else args, kwargs)
    return call


def array_calls() -> dict:
    found: dict[Any, Callable] = {}
    for group, method in ((UFUNCS, Arrays.ufunc), (OF_FLOATS, Arrays.ufunc), (REDUCTIONS, Arrays.reduction), (SHAPING, Arrays.shaped),
                          ((np.cumsum, np.cumprod), Arrays.running), ((np.clip,), Arrays.clip), ((np.where,), Arrays.where),
                          ((np.dot, np.inner, np.outer), Arrays.dot), ((np.concatenate, np.stack, np.vstack, np.hstack), Arrays.joined),
                          ((np.array, np.asarray), Arrays.make), (FILLED, Arrays.filled), ((np.ndarray.astype, np.generic.astype), Arrays.as_type),
                          ((np.ndarray.item, np.generic.item), Arrays.plain_item),
                          ((np.arange, np.linspace, np.eye, np.identity), Arrays.of_numbers)):
        found.update({function: handled(function, method) for function in group})
    for kind in (np.ndarray, np.generic):
        found.update({getattr(kind, name): found[function] for name, function in METHODS.items()})
        found[kind.reshape], found[kind.transpose] = spread(np.reshape), spread(np.transpose)
    found[np.ndarray.dot] = found[np.dot]
    found[np.ndarray.conj] = found[np.ndarray.conjugate] = handled(np.conjugate, Arrays.conjugate)
    return found


ARRAYS = array_calls()
