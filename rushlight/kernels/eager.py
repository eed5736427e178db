"""Eager ops on large arrays: the ops' own rules as kernels that run on all cores.

The generated eager functions (ops/generate.py) ask here when an array has `LARGE` elements or more.  On its first use an op
gets a kernel whose number of rows (or blocks of elements) is an argument, so one serves every size; making it takes 10 to
30 ms, once.  Who computes never changes later, since that would change bits, but for two: convolutions and operands that do not lie
alike (opened.py) are left to NumPy for a few uses, which are counted, and what takes LLVM longer (special functions) is made on a thread
while NumPy serves (later.py).  Elementwise ops take arrays in any order of memory, broadcasting, of half types too, and numbers; what
else does not fit stays with NumPy.  Their gradients' rules become kernels in the same way (`gradient`).  Read `run` first.
"""

import ctypes
import math
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import memory
from ..core.dtypes import BY_NUMPY
from ..core.outline import outline
from ..core.parallel import Threads, free_in_child
from ..ops import generate, record
from ..tensor import PLAIN
from . import along, fuse, later, llvm, matmul_half, opened, pool, program, runtime, structs
from .arrays import Source, contiguous
from .emit import BLOCK, emit
from .folds import FOLDS, Fold
from .ir import Module
from .make import Maker, Unsupported
from .rules import RULES
from .rules_primitive import composite_rule, gradient_rule
from .scan import PLACES, SCANS, Places, Scan
from .sizes import Fixed
from .windows import MaxPoolGradient

LARGE = 1 << 17
USES = 2  # of a convolution, or of operands that do not lie alike, by NumPy, before a program is made
WIDTHS = 64  # of rows that kernels are made for, an op; others stay with NumPy
ENDLESS = 1 << 40  # rows of the shape that a kernel is made for; how many there are is said at each call
POINTS = generate.ELEMENTWISE | frozenset(
    "gelu_backward elu_backward leaky_backward softplus_backward mish_backward hardswish_backward hardsigmoid_backward shrink_backward "
    "log_sigmoid_backward silu_backward clamp_backward".split())
ROWS = frozenset("_softmax _log_softmax _layer_norm softmax_backward log_softmax_backward layer_norm_backward".split())
PRODUCTS = ("_mm", "bmm", "_bmm_batch")
# Acts of along.py: (which, whether the index stands for whole slices, where the dim, the index and the values stand among the arguments,
# where what it begins with: an array that is copied, or the shape of zeros).
ALONG = {"_gather": ("gather", False, 1, 2, None, None), "gather": ("gather", False, 1, 2, None, None),
         "gather_backward": ("add", False, 2, 3, 0, 1), "scatter_src": ("put", False, 1, 2, 3, 0), "scatter_value": ("put", False, 1, 2, 3, 0),
         "_scatter_add": ("add", False, 1, 2, 3, 0),
         "_cummax": ("gather", False, 2, 1, None, None), "_cummin": ("gather", False, 2, 1, None, None),
         "_index_copy": ("put", True, 1, 2, 3, 0), "_index_add": ("add", True, 1, 2, 3, 0),
         "index_select_backward": ("add", True, 2, 3, 0, 1)}
# Ops whose rule, for arrays in C's order, is a program of open sizes.
OPENED = generate.OPENED | frozenset("glu_backward huber_backward smooth_l1_backward layer_norm_weight cross_entropy_backward _batch_statistics "
                                     "batch_norm_gradients".split())
WHOLE = frozenset(("_convolution", "conv_input", "conv_weight", "_conv_transpose", *PRODUCTS))  # a program for each set of sizes
LINEAR = ("_linear_rows", "_linear_batch")  # likewise, of half types
CASTS = ("float16", "bfloat16", "float32", "float64")
MOST = 512  # kernels, and uses that are counted
_kernels: dict[tuple, Any] = {}  # by use; None where there is none
_uses: dict[tuple, int] = {}  # how often those came that have none yet
_widths: Counter[str] = Counter()  # of the kernels of each op on rows
_lock = threading.Lock()
free_in_child(_lock)


def rule_for(name: str) -> Any:
    return RULES.get(name) or SCALED.get(name) or (gradient_rule(name) if "." in name else composite_rule(name))


class Kernel:
    """Native code over blocks or rows; `unit` is how many elements one item has. A `streamed` result is written past the caches.

    The result has the operands' dtype, or the one that it `gives`.
    """

    def __init__(self, name: str, arguments: tuple, dtype: str, width: int | None, streamed: bool, gives: str | None = None):
        rule, make = rule_for(name), Maker()
        operands, count = [], 0
        for argument in arguments:
            if argument == "array":
                shape = (ENDLESS * BLOCK,) if width is None else (ENDLESS, width)
                operands.append(make.intern(Source, f"in{count}", shape, dtype, (1,) if width is None else (width, 1), 0))
                count += 1
            elif argument == "number":
                operands.append(make.intern(Source, f"in{count}", (), dtype, (), 0))
                count += 1
            elif argument == "row":
                operands.append(make.intern(Source, f"in{count}", (width,), dtype, (1,), 0))
                count += 1
            else:
                operands.append(argument)
        result = rule(make, *operands)
        planner = fuse.plan([result])
        if len(planner.groups) != 1 or not isinstance(planner.groups[0], fuse.Group) or result.dtype != (gives or dtype):
            raise Unsupported("more than one loop nest")
        kernel = fuse.build(planner, 0, {result: "out"})._replace(streamed=("out",) if streamed else ())
        module = Module()
        self.plan = emit(module, kernel, llvm.host().vector_bits)
        self.unit = self.plan.block if width is None else width
        self.order = [-1 if buffer == "out" else int(buffer[2:]) for buffer, _ in kernel.buffers]
        self.library = later.linked(str(module), (kernel.name,))
        self.address = self.library.address(kernel.name)
        self.frame = ctypes.c_void_p * len(self.order)

    def run(self, arrays: list[np.ndarray], out: np.ndarray, items: int) -> None:
        found = pool.pool()
        pointers = [*map(structs.address_of, arrays), structs.address_of(out)]  # the result comes last: -1
        frame = self.frame(*[pointers[i] for i in self.order])
        found.parallel(found.address, self.address, frame, items, max(1, items // 16))


def half_product(name: str, *arrays: np.ndarray) -> np.ndarray | None:
    """The product of large bfloat16 arrays (of a linear layer: with its bias) by the processor's instruction for it; None where they are better widened."""
    if arrays[0].dtype.name != "bfloat16" or not matmul_half.usable():
        return None
    arguments = tuple(("array", array.shape, tuple(stride // 2 for stride in array.strides)) for array in arrays)
    found = kernel((name, arguments, "bfloat16", Threads.count))
    return None if found is None else found.call(*arrays)[0]


def whole(name: str, arguments: tuple, dtype: str, threads: int) -> runtime.Program:
    """A program of one op, with one result or several, for arrays of these sizes, shared out for so many threads.

    An argument is ("array", shape), then strides where they are not row-major, and the dtype where it is another, or what it is.
    """
    make, operands, sources = Maker(), [], []
    for argument in arguments:
        if type(argument) is tuple and argument[:1] == ("array",):
            strides = argument[2] if len(argument) > 2 else contiguous(argument[1])
            sources.append(make.intern(Source, f"in{len(sources)}", argument[1], argument[3] if len(argument) > 3 else dtype, strides, 0))
            operands.append(sources[-1])
        else:
            operands.append(argument)
    results = opened.distinct(rule_for(name)(make, *operands))
    kinds = [program.numpy_dtype(source.dtype) for source in sources]
    layouts = [(s.shape, tuple(n * kind.itemsize for n in s.strides), kind) for s, kind in zip(sources, kinds)]
    return program.compile_arrays(sources, results, layouts)


def attempt_whole(name: str, args: tuple) -> np.ndarray | None:
    dtype, arguments, arrays = args[0].dtype, [], []
    for arg in args:
        if not isinstance(arg, np.ndarray):
            arguments.append(arg)
        elif arg.dtype != dtype or not arg.size:
            return None
        else:
            arguments.append(("array", arg.shape))
            arrays.append(arg)
    try:
        found = kernel((name, tuple(arguments), dtype.name, Threads.count))
    except TypeError:  # an argument that cannot be hashed
        return None
    return None if found is None else found.call(*arrays)[0]


def attempt_scan(name: str, array: np.ndarray, dim: int) -> np.ndarray | None:
    if dim not in (-1, array.ndim - 1) or not array.flags.c_contiguous or not array.size or array.dtype.name not in ("float32", "float64"):
        return None
    if outline.enough:
        outline.given = True
        return memory.untouched(array.shape, array.dtype)
    found = kernel((name, array.dtype.name))
    if found is None:
        return None
    out = memory.empty(array.shape, array.dtype)
    found.run(array, out)
    return out


def attempt_places(name: str, array: np.ndarray, dim: int) -> np.ndarray | None:
    if not array.ndim or not array.flags.c_contiguous or not array.size:
        return None
    if outline.enough:
        outline.given = True
        return memory.untouched(array.shape, np.dtype(np.int64))
    dim %= array.ndim
    inner = math.prod(array.shape[dim + 1:])
    found = kernel((name, inner == 1, array.dtype.name))
    if found is None:
        return None
    out = memory.empty(array.shape, np.dtype(np.int64))
    found.run(array, out, math.prod(array.shape[:dim]), array.shape[dim], inner)
    return out


def attempt_along(name: str, args: tuple) -> np.ndarray | None:
    act, rows, dim_at, index_at, values_at, start_at = ALONG[name]
    dim, index, first = args[dim_at], args[index_at], args[0]
    start = first if start_at is None else args[start_at]
    shape = start if isinstance(start, tuple) else start.shape
    if not isinstance(index, np.ndarray) or index.dtype != np.int64 or not index.ndim or not index.size or not shape:
        return None
    dim %= len(shape)
    wanted = (*shape[:dim], index.shape[0 if rows else dim], *shape[dim + 1:])
    values = None if values_at is None else args[values_at]
    if name == "scatter_value":
        values = np.full(wanted, values, first.dtype)
    if (rows and index.ndim != 1) or not rows and index.shape != wanted or values is not None and (
            values.shape != wanted or values.dtype != first.dtype) or name == "_index_add" and args[4] != 1:
        return None
    index, form, words = along.layout(shape, index, dim, rows)
    found = kernel(("along", act, form, first.dtype.name))
    if found is None:
        return None
    if act == "gather":
        indexed, dense = np.ascontiguousarray(first), memory.empty(wanted, first.dtype)
    else:
        dense = np.ascontiguousarray(values)
        indexed = np.zeros(shape, first.dtype) if isinstance(start, tuple) else np.array(start, order="C")
    if not found.run(indexed, index, dense, words):
        return None  # NumPy's way says which index is out of range
    return dense if act == "gather" else indexed


def act_along(act: str, result: np.ndarray, dim: int, index: np.ndarray, values: np.ndarray, rows: bool) -> bool:
    """Whether result[index along dim] = act(itself, values) was done in place; the indices are in range."""
    if not result.ndim or index.dtype != np.int64 or not index.size or values.dtype != result.dtype or not result.flags.c_contiguous:
        return False
    dim %= result.ndim
    wanted = (*result.shape[:dim], index.shape[0 if rows else dim], *result.shape[dim + 1:])
    if values.shape != wanted or (index.ndim != 1 if rows else index.shape != wanted):
        return False
    index, form, words = along.layout(result.shape, index, dim, rows)
    found = kernel(("along", act, form, result.dtype.name))
    if found is None:
        return False
    if not found.run(result, index, np.ascontiguousarray(values), words):
        raise IndexError("an index changed while it was used")
    return True


def attempt_rows_added(name: str, grad: np.ndarray, first: Any, second: Any, padding: Any = None, by_frequency: bool = False) -> np.ndarray | None:
    """The gradients of whole slices that an index picked, added up: embedding_backward, and index_backward where one tensor is the index."""
    if name == "embedding_backward":
        index, shape, dim = first, (second, grad.shape[-1]), 0
    else:
        given = [at for at, part in enumerate(second) if part is not None]
        if len(given) != 1:
            return None
        dim, shape, index = given[0], first, second[given[0]]
    if by_frequency or index.dtype != np.int64 or not index.size or not grad.size or grad.dtype.itemsize < 4:
        return None
    at, form, words = along.layout(shape, np.ascontiguousarray(index).reshape(-1), dim, True)
    found = kernel(("along", "add", form, grad.dtype.name))
    if found is None:
        return None
    result = np.zeros(shape, grad.dtype)
    if not found.run(result, at, np.ascontiguousarray(grad), words):
        return None  # NumPy's way says which index is out of range, and takes those that count from the end
    if padding is not None and padding >= 0:
        result[padding] = 0
    return result


def attempt_max_pool(name: str, *args: Any) -> np.ndarray | None:
    """max_pool_backward, whose arrays are the gradient, the input and the output."""
    arrays = args[:3]
    if len(args[4]) > 3 or any(not array.size or array.dtype != args[1].dtype for array in arrays):
        return None
    found = kernel((name, args[1].dtype.name))
    return None if found is None else found.run(*map(np.ascontiguousarray, arrays), *args[3:])


def attempt_fold(name: str, array: np.ndarray, *args: Any) -> Any:
    """Sums, products and norms over the dims that lie last in memory, of an array that fills it."""
    ndim, all_of = array.ndim, name.endswith("_all")
    given = args[0] if name == "_prod_dim" else None if all_of else args[-2]
    dims = list(range(ndim)) if all_of else [dim % ndim for dim in ((given,) if isinstance(given, int) else given)]
    shape = tuple([1 if dim in dims else n for dim, n in enumerate(array.shape)])
    if not array.flags.c_contiguous:
        order = memory_order(array)
        left = [dim for dim in order or () if dim not in dims]
        if order is None or left != sorted(left):  # the results would be in another order
            return None
        dims, array = [order.index(dim) for dim in dims], array.transpose(order)
    if not dims or sorted(dims) != list(range(ndim - len(dims), ndim)) or name == "_vector_norm" and args[0] != 2:
        return None
    kept = array.shape[:ndim - len(dims)]
    if all_of or not args[-1]:
        shape = kept
    if outline.enough:
        if not kept:
            return None  # one number is often asked for
        outline.given = True
        return memory.untouched(shape, array.dtype)
    found = kernel((name, array.dtype.name))
    return None if found is None else found.run(array, kept, shape)


def kernel(key: tuple, example: Any = None) -> Any:
    """The kernel for a use, None where NumPy serves. `example`: the sizes of what is open to all."""
    found = _kernels.get(key, _kernels)
    if found is not _kernels:
        return found
    with _lock:
        if key in _kernels:  # another thread has made it meanwhile
            return _kernels[key]
        uses = _uses.get(key, 0)
        if (key[0] in WHOLE and key[0] not in PRODUCTS or key[0] in (opened.OPEN, opened.RULE)) and uses < USES:
            if len(_uses) >= MOST:
                _uses.clear()
            _uses[key] = uses + 1
            return None
        _uses.pop(key, None)
        if len(_kernels) >= MOST or _widths[key[0]] >= WIDTHS:
            return None
        if key[0] in ROWS:
            _widths[key[0]] += 1
        try:
            made = made_for(key, example) if llvm.available() and structs.layout_is_known() else None
        except later.Slow:
            made = _kernels[key] = None
            later.soon(lambda: enter(key, example), lambda: _kernels.pop(key, None))
        except REFUSED:
            made = _kernels[key] = None
        else:
            _kernels[key] = made
    return made


REFUSED = (Unsupported, Fixed, llvm.CompileError, RuntimeError, ValueError, TypeError)  # why there is no kernel for a use


def made_for(key: tuple, example: Any) -> Any:
    if key[0] == opened.RULE:
        return opened.compiled_rule(rule_for(key[1]), key[2], example)
    if key[0] == opened.OPEN:
        return opened.compiled(rule_for(key[1]), key[2], key[3], example)
    if key[0] == "along":  # its acts have names of ops that are something else
        return along.Along(*key[1:])
    kinds = ((WHOLE.union(LINEAR), whole), (SCANS, Scan), (PLACES, Places), (("max_pool_backward",), MaxPoolGradient), (FOLDS, Fold))
    return next((make for names, make in kinds if key[0] in names), Kernel)(*key)


def enter(key: tuple, example: Any) -> None:
    """Make what takes long, on a thread; NumPy has served so far."""
    try:
        _kernels[key] = made_for(key, example)
    except REFUSED:
        pass


def run(op: Any, *args: Any) -> Any:
    """What `op.kernel(*args)` gives, by a kernel on all cores where there is one."""
    result = attempt(op.name, args)
    return op.kernel(*args) if result is None else result


def gradient(op: Any, tensor: str, *values: Any) -> Any:
    """What the op's rule for a tensor gives, by a kernel made of the rule; by NumPy where there is none (`g` as it stands, broadcasting)."""
    g = values[0]
    if isinstance(g, np.ndarray) and g.size >= LARGE and op.wants[tensor][0] == "g" and len(values) > 1:
        saved = [np.array(value, g.dtype) if want in op.tensors and type(value) in (float, int) else value
                 for want, value in zip(op.wants[tensor], values)]
        result = attempt(f"{op.name}.{tensor}", tuple(saved))
        if result is not None:
            return result
    return op.raw_rule[tensor](*values)


def halves(op: Any, *args: Any) -> Any:
    """An elementwise op of half types, where it is large; None where they are better widened."""
    return opened.elementwise(kernel, op.name, args) if max(arg.size for arg in args if isinstance(arg, np.ndarray)) >= LARGE else None


def half_rows(name: str, args: tuple) -> Any:
    """An op on rows of a half type by its rule, rounded once; None where they are better widened."""
    return opened.by_rule(kernel, name, args) if args[0].ndim else None


def half_gradient(op: Any, tensor: str, shape: tuple, values: tuple) -> Any:
    """What an elementwise op's rule gives for half types; in float32 where it will be summed to the shape. None where they are better widened."""
    g = values[0]
    if op.name not in POINTS or op.wants[tensor][0] != "g" or g.size < LARGE:
        return None
    given = [np.array(value, np.float32) if want in op.tensors and type(value) in (float, int) else value for want, value in zip(op.wants[tensor], values)]
    return opened.elementwise(kernel, f"{op.name}.{tensor}", tuple(given), None if shape == g.shape else "float32")


def attempt_cast(array: np.ndarray, dtype: Any, source: Any) -> np.ndarray | None:
    """The array in another floating dtype: NumPy converts to and from the half ones one by one."""
    if source.name not in CASTS or dtype.name not in CASTS or outline.enough:
        return None
    if not array.flags.c_contiguous:
        order = memory_order(array)
        result = None if order is None else attempt_cast(array.transpose(order), dtype, source)
        return None if result is None else result.transpose(np.argsort(order))
    arguments = ("array", dtype, source)
    found = kernel(("_cast", arguments, source.name, None, array.size * dtype.itemsize >= program.STREAMED, dtype.name))
    if found is None:
        return None
    out = memory.empty(array.shape, dtype.numpy)
    fill(found, "_cast", list(arguments), [array], out)
    return out


def attempt(name: str, args: tuple) -> np.ndarray | None:
    first = args[0]
    dtype = first.dtype
    if name == "_cast":
        return attempt_cast(*args)
    if name == "cast_back":
        return attempt_cast(first, args[1], BY_NUMPY[dtype])
    if name in OPENED:
        return opened.by_rule(kernel, name, args)
    if dtype.kind != "f" or dtype.itemsize < 4:
        return None
    if name in ("embedding_backward", "index_backward"):
        return None if outline.enough else attempt_rows_added(name, *args)
    if name == "max_pool_backward":
        return None if outline.enough else attempt_max_pool(name, *args)
    if name in WHOLE:
        return attempt_whole(name, args)
    if name in SCANS:
        return attempt_scan(name, *args)
    if name in PLACES:
        return attempt_places(name, *args)
    if name in ALONG:
        return None if outline.enough else attempt_along(name, args)
    if name in FOLDS:
        return attempt_fold(name, *args)
    if name in ROWS:
        return attempt_rows(name, args)
    order = None if first.flags.c_contiguous else memory_order(first)
    arguments: list = []
    arrays: list[np.ndarray] = []
    for arg in args:
        if not isinstance(arg, np.ndarray):
            arguments.append(arg)
        elif arg.dtype != dtype:
            return None
        elif not arg.ndim:
            arguments.append("number")
            arrays.append(arg)
        elif arg.shape != first.shape or (arg.flags.c_contiguous if order else not arg.flags.c_contiguous):
            return opened.elementwise(kernel, name, args)
        elif order:
            turned = arg.transpose(order)
            if not turned.flags.c_contiguous:
                return opened.elementwise(kernel, name, args)
            arguments.append("array")
            arrays.append(turned)
        else:
            arguments.append("array")
            arrays.append(arg)
    shape = arrays[0].shape
    if outline.enough:
        outline.given = True
        result = memory.untouched(shape, dtype)
        return result.transpose(np.argsort(order)) if order else result
    target = memory.destination.array
    if target is not None:
        target = usable_target(target.transpose(order) if order else target, arrays)
    found = kernel((name, tuple(arguments), dtype.name, None, target is None and first.nbytes >= program.STREAMED))
    if found is None:
        return None
    out = memory.empty(shape, dtype) if target is None else target
    fill(found, name, arguments, arrays, out)
    if target is not None:
        return memory.destination.array
    return out.transpose(np.argsort(order)) if order else out


def fill(found: Kernel, name: str, arguments: list, arrays: list[np.ndarray], out: np.ndarray) -> None:
    """Run a kernel of elements or rows; NumPy does what is left of the last block."""
    size = arrays[0].size
    items = size // found.unit
    if items:
        found.run(arrays, out, items)
    done = items * found.unit
    if done < size:
        rest = iter(arrays)
        parts = [next(rest).reshape(-1)[done:] if a == "array" else next(rest) if a == "number" else a for a in arguments]
        raw = ORIGINAL.get(name) or (raw_rule(name) if "." in name else record.REGISTRY[name].kernel)
        with np.errstate(all="ignore"):
            out.reshape(-1)[done:] = raw(*parts)


def raw_rule(name: str) -> Callable:
    """The rule on ndarrays by the name of its kernels: op.tensor."""
    op, tensor = name.split(".")
    return record.REGISTRY[op].raw_rule[tensor]


def memory_order(array: np.ndarray) -> tuple[int, ...] | None:
    """The dims in the order in which they lie in memory, where the array fills it; else None."""
    order = tuple(sorted(range(array.ndim), key=lambda dim: -array.strides[dim]))
    return order if array.transpose(order).flags.c_contiguous else None


def usable_target(target: np.ndarray, arrays: list[np.ndarray]) -> np.ndarray | None:
    """The array that an in-place op writes, if its elements are read, if at all, in the same places."""
    first, place = arrays[0], target.ctypes.data
    if target.shape != first.shape or target.dtype != first.dtype or not target.flags.c_contiguous or not target.flags.writeable:
        return None
    for array in arrays:
        if (array.ctypes.data != place or array.strides != target.strides) and np.may_share_memory(array, target):
            return None
    return target


def attempt_rows(name: str, args: tuple) -> np.ndarray | None:
    first = args[0]
    shape, dtype, arguments, arrays = first.shape, first.dtype, [], []
    for arg in args:
        if not isinstance(arg, np.ndarray):
            arguments.append(arg)
        elif arg.dtype != dtype or not arg.flags.c_contiguous:
            return None
        elif arg.shape == shape:
            arguments.append("array")
            arrays.append(arg)
        elif arg.shape == shape[-1:]:
            arguments.append("row")
            arrays.append(arg)
        else:
            return None
    width = shape[-1]
    if not suits(name, arguments, len(shape)) or width > 1 << 16 or width < 8:
        return None
    arguments = flattened(name, arguments)
    if outline.enough:
        outline.given = True
        return memory.untouched(shape, dtype)
    found = kernel((name, tuple(arguments), dtype.name, width, first.nbytes >= program.STREAMED))
    if found is None:
        return None
    out = memory.empty(shape, dtype)
    fill(found, name, arguments, arrays, out)
    return out


def suits(name: str, arguments: list, ndim: int) -> bool:
    """True if a row op works along the last dim."""
    if name in ("_layer_norm", "layer_norm_backward"):
        return arguments[3] == 1
    dim = arguments[-1]
    return ndim > 0 and dim in (ndim - 1, -1)


def flattened(name: str, arguments: list) -> list:
    """The arguments for two dims."""
    return arguments if name in ("_layer_norm", "layer_norm_backward") else [*arguments[:-1], 1]


ORIGINAL: dict[str, Any] = {}  # backward kernels on ndarrays, as ops/ made them
# Composites whose in-place forms are one kernel: its name, how many tensors it takes, the keyword of its number, what NumPy has for it.
FUSED: dict[str, tuple[str, int, str, Callable]] = {
    "add": ("add scaled", 2, "alpha", lambda input, other, alpha: input + other * alpha),
    "sub": ("sub scaled", 2, "alpha", lambda input, other, alpha: input - other * alpha),
    "addcmul": ("addcmul scaled", 3, "value", lambda input, one, two, value: input + one * two * value),
    "addcdiv": ("addcdiv scaled", 3, "value", lambda input, one, two, value: input + one / two * value)}
ORIGINAL.update({name: numpys for name, _, _, numpys in FUSED.values()})


def scaled_rule(composite: str, keyword: str) -> Callable:
    """The composite's rule, with its number as the last argument."""
    return lambda make, *operands: RULES[composite](make, *operands[:-1], **{keyword: operands[-1]})


SCALED = {name: scaled_rule(composite, keyword) for composite, (name, _, keyword, _) in FUSED.items()}


def fused(function: Callable, tensors: tuple, named: dict) -> np.ndarray | None:
    """What a composite of `FUSED` gives for large tensors of one dtype, with a number; its place is `memory.destination`."""
    composite = getattr(getattr(function, "op_record", None), "name", "")
    if composite not in FUSED:
        return None
    name, count, keyword, _ = FUSED[composite]
    number = named.get(keyword, 1)
    if named.keys() - {keyword} or len(tensors) != count or type(number) not in (int, float) or any(type(t) not in PLAIN for t in tensors):
        return None
    arrays = [t._array for t in tensors]
    return attempt(name, (*arrays, np.array(number, arrays[0].dtype)))


def asking(name: str) -> Callable:
    """What makes of a named backward of the raw rules one that asks for a kernel."""
    def wrap(original: Callable) -> Callable:
        ORIGINAL[name] = original

        def backward(g: Any, *rest: Any) -> Any:
            if isinstance(g, np.ndarray) and (g.size >= LARGE or name in OPENED and any(isinstance(x, np.ndarray) and x.size >= LARGE for x in rest)):
                result = attempt(name, (g, *rest))
                if result is not None:
                    return result
            return original(g, *rest)

        return backward

    return wrap


BACKWARD = ("cast_back", "conv_input", "conv_weight", "softmax_backward", "log_softmax_backward", "layer_norm_backward", "reversed_cumsum",
            "gather", "gather_backward", "index_select_backward", "scatter_value", "sinh", "cosh",
            "max_pool_backward", "embedding_backward", "index_backward",
            *(name for name in POINTS | OPENED if name.endswith(("_backward", "_weight"))))


def install() -> None:
    """From now on the generated eager functions send large arrays here."""
    generate.NAMES.update(on_all_cores=run, gradient_on_all_cores=gradient, fused_on_all_cores=fused)
    generate.NAMES["LARGE"] = LARGE
    loaded = dict(record.REGISTRY.present())
    for name in BACKWARD:
        if name in loaded and name not in ORIGINAL:
            record.RAW[name] = asking(name)(record.RAW[name])
        elif name not in loaded:
            record.WRAPPED[name] = asking(name)
