"""x[...] and x[...] = value: basic indexing gives a view by one op, tensors as indices give a copy (IndexBackward0).

Also index_put and the accumulation of rows that gradients of indexing need (`add_rows`).  Indices are always
checked.  Read `getitem` first: what an ordinary index costs is decided there.
"""
import operator
import warnings

import numpy as np

from ..core import dtypes, modes
from ..core.errors import type_name
from ..core.promotion import checked_number
from ..tensor import PLAIN, Parameter, Tensor, as_view, asarray, bump, new, tick, wrap
from .dispatch import check_overlap, check_written, inplace, refuse_one_of_many
from .generate import make_classes
from .record import composite, primitive
from .repeated import acted
from .runs import reduced, runs_of
from .view import view_op

NONE, ELLIPSIS = type(None), type(...)
BASIC = frozenset((int, slice, NONE, ELLIPSIS))
flags, grad_enabled = modes.flags, modes.grad_enabled


def indexed(array, index):
    """The view that a basic index (a tuple that holds an Ellipsis) gives; IndexError with PyTorch's words."""
    try:
        return array[index]
    except IndexError:
        raise index_error(array, index) from None


def index_error(array, index):
    """What is wrong with a basic index."""
    items = [item for item in index if item is not None and item is not ...]
    if not array.ndim and len(items) == 1:
        return IndexError("invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim "
                          "tensor to a number")
    if len(items) > array.ndim:
        return IndexError(f"too many indices for tensor of dimension {array.ndim}")
    dim = 0
    for position, item in enumerate(index):
        if item is ...:
            dim = array.ndim - len(items)
        elif item is not None:
            items.pop(0)
            if type(item) is int and not -array.shape[dim] <= item < array.shape[dim]:  # PyTorch names the place in the index
                return IndexError(f"index {item} is out of bounds for dimension {position} with size {array.shape[dim]}")
            dim += 1
    return IndexError(f"the index {index} does not fit a tensor of size {list(array.shape)}")


def basic(name, node):
    """A view op on a basic index; only the node's name differs between the four."""
    def _indexed(input, index):
        return indexed(input, index)
    _indexed.__name__ = name
    return view_op(lambda g, input_shape, index: unindex(g, input_shape, index), node=node, where="")(_indexed)


BY_LAST = {int: basic("_select_index", "SelectBackward0"), slice: basic("_slice_index", "SliceBackward0"),
           NONE: basic("_unsqueeze_index", "UnsqueezeBackward0"), ELLIPSIS: basic("_alias_index", "AliasBackward0")}
NODES = {}  # kind of the last index -> node class


@primitive(grad=dict(input=lambda g, index: _slice_index(g, index)), where="", family="scatter")
def unindex(input, shape, index):
    """Zeros of a shape, with `input` at a basic index."""
    result = np.zeros(shape, input.dtype)
    result[index] = input
    return result


def node_of(kind):
    op = BY_LAST[kind].op_record
    make_classes(op)
    node = NODES[kind] = op.classes[0]
    return node


def getitem(self, index):
    """`self[index]`: ints, slices, None and Ellipsis give a view; tensors, lists and bools a copy."""
    kind = type(index)
    if kind is int:
        last, index = int, (index, ...)
    elif kind is slice:
        if index.step is not None and index.step < 1:
            raise ValueError("step must be greater than zero" if index.step else "slice step cannot be zero")
        last, index = slice, (index, ...)
    elif kind is tuple:
        last, open_end = ELLIPSIS, True
        for item in index:
            kind = type(item)
            if kind is slice:
                if item.step is not None and item.step < 1:
                    raise ValueError("step must be greater than zero" if item.step else "slice step cannot be zero")
                if item.start is None and item.stop is None and item.step is None and last is not ELLIPSIS:
                    continue
            elif kind is ELLIPSIS:
                if not open_end:
                    return advanced(self, index)
                open_end = False
                continue
            elif kind is not int and kind is not NONE:
                return advanced(self, index)
            last = kind
        if open_end:
            index = (*index, ...)
    elif kind is NONE or kind is ELLIPSIS:
        last, index = kind, (index, ...) if index is None else (...,)
    else:
        return advanced(self, index)
    if type(self) not in PLAIN or flags["special"]:
        return BY_LAST[last](self, index)
    array = self._array
    try:
        part = array[index]
    except IndexError:
        raise index_error(array, index) from None
    tensor = as_view(part, self)
    if self._requires_grad and grad_enabled():
        node = new(NODES.get(last) or node_of(last))
        node.input_shape, node.index = array.shape, index
        node.edges, node.rare, node.seq = (self._node or self,), None, tick()
        tensor._node, tensor._requires_grad = node, True
    return tensor


Tensor.__getitem__ = getitem


def index_tensor(item):
    """One index that is no int, slice, None or Ellipsis, as an int, a bool tensor or an integer tensor."""
    if isinstance(item, Tensor):
        if item._dtype.category >= dtypes.FLOAT:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        if item._dtype is dtypes.uint8:
            warnings.warn("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.", UserWarning, stacklevel=4)
            return item.to(dtypes.bool)
        if not item.ndim and item._dtype is not dtypes.bool and type(item) is Tensor:
            return item._array.item()
        return item
    if isinstance(item, bool):
        return wrap(asarray(item))
    if isinstance(item, np.bool_):
        return wrap(asarray(item))
    if isinstance(item, np.integer) or hasattr(item, "__index__") and not isinstance(item, np.ndarray):
        return operator.index(item)
    if isinstance(item, np.ndarray):
        return index_tensor(wrap(item))
    if isinstance(item, (list, tuple, range)):
        array = np.array([np.asarray(part) if isinstance(part, Tensor) else part for part in item]) if len(item) else np.zeros(0, np.int64)
        if array.dtype.kind not in "biu":
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        return wrap(array)
    if isinstance(item, str):
        raise TypeError("new(): invalid data type 'str'")
    raise IndexError("only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got "
                     f"{type(item).__name__})")


def as_tuple(index):
    """The index as a tuple of items; a list that holds sequences, slices or tensors counts as one (PyTorch's old rule)."""
    if type(index) is tuple:
        return index
    if isinstance(index, (list, range)) and len(index) < 32 and any(
            item is None or item is ... or isinstance(item, (slice, list, tuple, Tensor)) for item in index):
        return tuple(index)
    return (index,)


def resolve(self, index):
    """Split an index: (basic index, kind of its last item or None, index tensors by dim of the basic result or None)."""
    items = [item if type(item) in BASIC else index_tensor(item) for item in as_tuple(index)]
    used = 0
    for item in items:
        if isinstance(item, Tensor):
            used += item.ndim if item._dtype is dtypes.bool else 1
        elif item is not None and item is not ...:
            used += 1
    ndim = self.ndim
    if used > ndim:
        if not ndim and used == 1 and len(items) == 1:
            raise index_error(self._array, (0,))
        raise IndexError(f"too many indices for tensor of dimension {ndim}")
    plain, tensors, last, seen = [], [], None, False
    for item in items:
        if isinstance(item, Tensor):
            if item._dtype is dtypes.bool and not item.ndim:
                plain.append(None)
                last = NONE
                tensors.append(item.reshape(1))
                continue
            span = item.ndim if item._dtype is dtypes.bool else 1
            plain += [slice(None)] * span
            tensors += [item] + ["follows"] * (span - 1)
        elif item is ...:
            if not seen:
                plain += [slice(None)] * (ndim - used)
                tensors += [None] * (ndim - used)
                seen = True
        else:
            if type(item) is slice:
                if item.step is not None and item.step < 1:
                    raise ValueError("step must be greater than zero" if item.step else "slice step cannot be zero")
                if item != slice(None):
                    last = slice
            else:
                last = type(item)
            plain.append(item)
            if type(item) is not int:
                tensors.append(None)
    while tensors and tensors[-1] is None:
        tensors.pop()
    return (*plain, ...), last, [item for item in tensors if not isinstance(item, str)]


def advanced(self, index):
    if type(index) is Tensor and (index._dtype is dtypes.int64 or index._dtype is dtypes.bool) and index._array.ndim and self._array.ndim:
        return picked(self, [index])
    plain, last, tensors = resolve(self, index)
    if last is not None or not tensors:
        self = BY_LAST[last or ELLIPSIS](self, plain)
    return picked(self, tensors) if tensors else self


def picked(self, tensors):
    """`_index`: straight where all is plain, else by the general path."""
    kind, dtype = type(self), self._dtype
    if flags["special"] or kind is not Tensor and kind is not Parameter or not dtype.fast:
        return _index(self, tensors)
    arrays = []
    for tensor in tensors:
        if tensor is None:
            arrays.append(None)
        elif type(tensor) is Tensor:
            arrays.append(tensor._array)
        else:
            return _index(self, tensors)
    op, array = _index.op_record, self._array
    result = new(Tensor)
    result._array, result._dtype, result._grad, result._meta, result._shape = op.kernel(array, arrays), dtype, None, None, None
    if self._requires_grad and grad_enabled():
        make_classes(op)
        node = op.classes[1]()
        node.edges = (self._node or self, *[None] * len(tensors))
        node.metas = [(array.shape, array.dtype), *[None] * len(tensors)]
        node.input_shape, node.indices, node.compute = array.shape, tensors, dtype
        node.rare, node.seq = None, tick()
        result._node, result._requires_grad = node, True
    else:
        result._node, result._requires_grad = None, False
    return result


def fancy(array, indices):
    """The indices as a tuple for NumPy, checked: masks must fit, index tensors must broadcast, be in bounds."""
    dim, shapes, result = 0, [], []
    for index in indices:
        if index is None:
            result.append(slice(None))
            dim += 1
            continue
        if index.dtype == np.bool_:
            for at in range(index.ndim):
                if index.shape[at] != array.shape[dim + at]:
                    raise IndexError(f"The shape of the mask {list(index.shape)} at index {at} does not match the shape of the indexed tensor "
                                     f"{list(array.shape)} at index {dim + at}")
            dim += index.ndim
            if len(indices) > 1:
                parts = index.nonzero()
                shapes.append(parts[0].shape)
                result += parts
            else:
                result.append(index)
        else:
            if index.size:
                low, high, size = index.min(), index.max(), array.shape[dim]
                if high >= size or low < -size:
                    raise IndexError(f"index {high if high >= size else low} is out of bounds for dimension {dim} with size {size}")
            dim += 1
            shapes.append(index.shape)
            result.append(index)
    if len(shapes) > 1:
        try:
            np.broadcast_shapes(*shapes)
        except ValueError:
            raise IndexError("shape mismatch: indexing tensors could not be broadcast together with shapes "
                             f"{', '.join(str(list(shape)) for shape in shapes)}") from None
    return tuple(result)


@primitive(grad=dict(input=lambda g, input_shape, indices: index_backward(g, input_shape, indices)), lists=("indices",), where="",
           node="IndexBackward0", family="gather")
def _index(input, indices):
    if len(indices) == 1 and indices[0] is not None and indices[0].dtype == np.int64:
        index = indices[0]
        try:
            return input.take(index, 0)
        except IndexError:
            pass
    return input[fancy(input, indices)]


@primitive(grad=dict(input=lambda g, indices: _index(g, indices)), lists=("indices",), where="", family="scatter")
def index_backward(input, shape, indices):
    result = np.zeros(shape, input.dtype)
    accumulate_at(result, fancy(result, indices), input)
    return result


def accumulate_at(result, index, values):
    """result[index] += values, where an element may be met many times."""
    if all(part.dtype == np.bool_ for part in index if type(part) is not slice):
        result[index] += values
        return
    whole = [type(part) is slice for part in index]
    first = whole.index(False)
    arrays = index[first:]
    if True in whole[first:]:
        np.add.at(result, index, values)
        return
    arrays = np.broadcast_arrays(*arrays) if len(arrays) > 1 else arrays
    shape, count = arrays[0].shape, len(arrays)
    sizes = result.shape[first:first + count]
    flat = 0
    for part, size in zip(arrays, sizes):
        flat = flat * size + np.where(part < 0, part + size, part)
    values = np.broadcast_to(values, (*result.shape[:first], *shape, *result.shape[first + count:]))
    if not values.size:
        return
    if first:
        values = np.moveaxis(values, tuple(range(first, first + len(shape))), tuple(range(len(shape))))
        rest = values.shape[len(shape):]
        rows = np.zeros((int(np.prod(sizes)), *rest), result.dtype)
        add_rows(rows.reshape(rows.shape[0], -1), flat.reshape(-1), values.reshape(flat.size, -1))
        result += np.moveaxis(rows.reshape(*sizes, *rest), tuple(range(count)), tuple(range(first, first + count)))
        return
    if not result.flags.c_contiguous:
        np.add.at(result, index, values)
        return
    rows = int(np.prod(sizes))
    add_rows(result.reshape(rows, -1) if result.size else result.reshape(rows, 0), flat.reshape(-1),
             values.reshape(flat.size, -1) if values.size else values.reshape(flat.size, 0))


def add_rows(target, rows, values):
    """target[rows[i]] += values[i] for every i; target and values are matrices, rows in bounds and not negative."""
    if not values.size or acted("add", target, 0, rows, values, True):
        return
    if target.shape[1] == 1:
        np.add.at(target[:, 0], rows, values[:, 0])
        return
    order, starts, distinct = runs_of(rows, target.shape[0])
    if starts.size == rows.size:
        target[rows] += values
    else:
        target[distinct] += reduced(np.add, values.astype(target.dtype, copy=False), order, starts)


def store_at(array, index, values, accumulate=False):
    """array[index] = values (or +=), with PyTorch's words where shapes do not fit."""
    try:
        if accumulate:
            accumulate_at(array, index, values)
        else:
            array[index] = values
    except (ValueError, TypeError):  # TypeError: a mask, and values of more than one dim
        shape = array[index].shape
        raise RuntimeError(f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of shape "
                           f"{list(shape)}") from None


@primitive(tensors=("input", "values"), lists=("indices",), where="", node="IndexPutBackward0", family="scatter",
           grad=dict(input=lambda g, indices, accumulate: g if accumulate else index_zero(g, indices),
                     values=lambda g, indices, values_shape: sum_to_size(_index(g, indices), values_shape)))
def _index_put(input, values, indices, accumulate):
    result = np.array(input, order="C")
    store_at(result, fancy(result, indices), values, accumulate)
    return result


@primitive(grad=dict(input=lambda g, indices: index_zero(g, indices)), lists=("indices",), where="", family="scatter")
def index_zero(input, indices):
    result = np.array(input)
    result[fancy(result, indices)] = 0
    return result


def put_arguments(input, indices, values):
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"index_put_(): argument 'indices' (position 1) must be tuple of Tensors, not {type_name(indices)}")
    if not isinstance(values, Tensor):
        raise TypeError(f"index_put_(): argument 'values' (position 2) must be Tensor, not {type_name(values)}")
    indices = [index if index is None else index_tensor_kept(index) for index in indices]
    if values._dtype is not input._dtype:
        names = [x._dtype.tensor_name.removesuffix("Tensor") for x in (input, values)]
        raise RuntimeError(f"Index put requires the source and destination dtypes match, got {names[0]} for the destination and {names[1]} for "
                           "the source.")
    return indices


def index_tensor_kept(index):
    if index._dtype.category >= dtypes.FLOAT:
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    return index.to(dtypes.bool) if index._dtype is dtypes.uint8 else index


@composite("torch method")
def index_put(input, indices, values, accumulate=False):
    """input with `values` stored (or added) at index tensors, one for each leading dim.

    >>> import rushlight as torch
    >>> torch.zeros(3).index_put((torch.tensor([0, 2]),), torch.tensor(1.0))
    tensor([1., 0., 1.])
    """
    return _index_put(input, values, put_arguments(input, indices, values), accumulate)


@composite("torch method")
def index_put_(input, indices, values, accumulate=False):
    """In-place version of `index_put`.

    >>> import rushlight as torch
    >>> torch.zeros(3).index_put_((torch.tensor([0, 2]),), torch.tensor(1.0))
    tensor([1., 0., 1.])
    """
    indices = put_arguments(input, indices, values)
    if type(input) is Tensor and not (grad_enabled() and (input._requires_grad or values._requires_grad)) and type(values) is Tensor:
        check_written(input)
        array = input._array
        store_at(array, fancy(array, [None if index is None else index._array for index in indices]), values._array, accumulate)
        bump(input)
        return input
    return inplace(_put_reordered, input, (indices, values, accumulate), {})


def _put_reordered(input, indices, values, accumulate):
    return _index_put(input, values, indices, accumulate)


def assigned(self, value):
    """The right side of an assignment as a tensor; a number becomes a 0-d tensor of self's dtype."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, (bool, int, float, complex)):
        raise TypeError(f"can't assign a {type(value).__name__} to a torch.{self._dtype.tensor_name}")
    if type(value) is int and not -2 ** 63 <= value < 2 ** 63:
        raise ValueError(f"Overflow when unpacking long long: {value} does not fit 64 bits")
    if self._dtype.itemsize == 2 and self._dtype.is_floating_point:
        return wrap(np.array(value, np.float64).astype(self._dtype.numpy))  # what is too large becomes infinite, unlike elsewhere
    return wrap(number_for(self, value))


def number_for(self, value):
    """A Python number as a 0-d array of self's dtype; RuntimeError where it does not fit."""
    return np.array(checked_number(value, self._dtype), self._dtype.numpy)


def without_leading_ones(value, ndim):
    """The value without the leading dims of size 1 that it has in excess."""
    while value.ndim > ndim and value.shape[0] == 1:
        value = value[0]
    return value


def check_expands(value, shape):
    """Refuse, in PyTorch's words, to assign a value to a place of another shape."""
    have = value._array.shape
    if have == shape:
        return
    at = next((d for d in range(1, min(len(shape), len(have)) + 1) if have[-d] not in (1, shape[-d])), None)
    if at is not None:
        raise RuntimeError(f"The expanded size of the tensor ({shape[-at]}) must match the existing size ({have[-at]}) at non-singleton "
                           f"dimension {len(shape) - at}.  Target sizes: {list(shape)}.  Tensor sizes: {list(have)}")
    if len(have) > len(shape):
        raise RuntimeError(f"expand(torch.{value._dtype.tensor_name}{{{list(have)}}}, size={list(shape)}): the number of sizes provided ({len(shape)}) must "
                           f"be greater or equal to the number of dimensions in the tensor ({len(have)})")


def setitem(self, index, value):
    """`self[index] = value`: broadcast, cast, written in place; history goes to self and, through views, to its base."""
    if (type(value) is float or type(value) is int) and not self._requires_grad and type(self) is Tensor and self._dtype.fast_float and not (
            flags["special"]):
        kind = type(index)
        if kind is int or (kind is slice and index.step is None) or kind is Tensor and (
                index._dtype is dtypes.bool and index.shape == self.shape or index._dtype is dtypes.int64 and index._array.ndim and self._array.ndim):
            check_written(self)
            try:
                self._array[index._array if kind is Tensor else index] = value
            except IndexError:
                if kind is Tensor:
                    fancy(self._array, [index._array])  # raises with PyTorch's words
                raise index_error(self._array, (index,)) from None
            bump(self)
            return
    refuse_one_of_many(self, value)
    value = assigned(self, value)
    items = index if type(index) is tuple else (index,)
    open_end = True
    for item in items:
        kind = type(item)
        if kind not in BASIC:
            plain, last, tensors = resolve(self, index)
            break
        if kind is slice:
            if item.step is not None and item.step < 1:
                raise ValueError("step must be greater than zero" if item.step else "slice step cannot be zero")
        elif kind is ELLIPSIS:
            if not open_end:
                plain, last, tensors = resolve(self, index)
                break
            open_end = False
    else:
        plain, last, tensors = ((*items, ...) if open_end else items), slice, None
    if type(self) is Tensor and type(value) is Tensor and not flags["special"] and not (
            grad_enabled() and (self._requires_grad or value._requires_grad)):
        write(self, plain, tensors, value)
        return
    target = getitem(self, plain) if last is not None or not tensors else self
    if not tensors:
        value = without_leading_ones(value, target.ndim)
        check_expands(value, target._array.shape)
        target.copy_(value)
        return
    if value._dtype is not self._dtype and not value.ndim:
        value = value.to(self._dtype)
    target.index_put_(tensors, fitted(value, target, tensors))


def fitted(value, target, tensors):
    """The value without leading ones beyond the rank of target[tensors]."""
    if not value.ndim or value.shape[0] != 1:
        return value
    shapes = [(1,) if part._dtype is dtypes.bool else part._array.shape for part in tensors if part is not None]
    used = sum_of((part.ndim if part._dtype is dtypes.bool else 1) for part in tensors if part is not None)
    return without_leading_ones(value, target.ndim - used + max(len(shape) for shape in shapes))


def sum_of(numbers):
    total = 0
    for number in numbers:
        total += number
    return total


def write(self, plain, tensors, value):
    """The assignment where no history is recorded: straight into the memory."""
    check_written(self)
    part, values = indexed(self._array, plain), value._array
    if tensors:
        if value._dtype is not self._dtype:
            if value.ndim:
                put_arguments(self, tensors, value)
            values = values.astype(part.dtype)
        index = fancy(part, [None if tensor is None else tensor._array for tensor in tensors])
        store_at(part, index, fitted(value, wrap(part), tensors)._array if values is value._array else values)
        bump(self)
        return
    while values.ndim > part.ndim and values.shape[0] == 1:
        values = values[0]
    if values.shape != part.shape and values.ndim:
        check_expands(wrap(values), part.shape)
    if values.dtype is not part.dtype and values.dtype != part.dtype:
        values = value.to(self._dtype)._array.reshape(values.shape)
    elif value._meta is not None and values.ndim:
        check_overlap(part, values)
    part[...] = values
    bump(self)


Tensor.__setitem__ = setitem
