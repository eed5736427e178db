"""Ops that give several views: split, chunk, unbind and their kind. An in-place op on such a view is an error."""
import operator

from ..core import modes
from ..core.size import wrap_dim
from ..tensor import OutputEdge, Parameter, Tensor, as_view, tick
from .dispatch import node_outputs
from .generate import make_classes
from .record import composite, primitive
from .view import _slice

flags, grad_enabled = modes.flags, modes.grad_enabled

builtin_sum = __builtins__["sum"] if isinstance(__builtins__, dict) else __builtins__.sum


def multi_view(grad, node, where="", outputs=2):
    """A view op whose kernel gives a list of views; the number of outputs is that of each call."""
    return primitive(grad=dict(input=grad), node=node, where=where, view=True, family="view", outputs=outputs)


def several(function, pieces, input, *values):
    """The views `pieces` of input as a multi-view op gives them: straight where input is plain, else by the op itself."""
    op, kind, dtype = function.op_record, type(input), input._dtype
    if flags["special"] or kind is not Tensor and kind is not Parameter or not dtype.fast:
        return function(input, *values)
    array = input._array
    name = VIEWS[op.name]
    tensors = [as_view(piece, input, dtype, name) for piece in pieces(array, *values)]
    if input._requires_grad and grad_enabled():
        make_classes(op)
        node = op.classes[1]()
        node.edges, node.metas, node.compute = (input._node or input,), [(array.shape, array.dtype)], dtype
        node.input_shape, node.rare = array.shape, None
        for field, value in zip(op.params[1:], values):
            setattr(node, field, value)
        node.seq = tick()
        for number, tensor in enumerate(tensors):
            tensor._requires_grad, tensor._node = True, OutputEdge(node, number)
        node_outputs(node, len(tensors))
    return tuple(tensors)


VIEWS = {"_split": "Split", "_split_with_sizes": "SplitWithSizes", "_unbind": "Unbind"}


@composite("")
def parts_or_zeros(gs, shape, sizes, dim):
    """The gradients of the parts, zeros for those that got none."""
    known = [g for g in gs if g is not None][0]
    return [zeros((*shape[:dim], size, *shape[dim + 1:]), dtype=known.dtype) if g is None else g for g, size in zip(gs, sizes)]


@composite("")
def split_backward(gs, shape, sizes, dim):
    return cat(parts_or_zeros(gs, shape, sizes, dim), dim) if isinstance(gs, (list, tuple)) else gs


def parts(input, sizes, dim):
    pieces, at, before = [], 0, (slice(None),) * dim
    for size in sizes:
        pieces.append(input[(*before, slice(at, at + size))])
        at += size
    return pieces


@multi_view(lambda gs, input_shape, sizes, dim: split_backward(gs, input_shape, sizes, dim), "SplitBackward0")
def _split(input, sizes, dim):
    return parts(input, sizes, dim)


@multi_view(lambda gs, input_shape, sizes, dim: split_backward(gs, input_shape, sizes, dim), "SplitWithSizesBackward0")
def _split_with_sizes(input, sizes, dim):
    return parts(input, sizes, dim)


def equal_sizes(total, size):
    count = -(-total // size) if size else 1
    count = 1 if count == 0 else count
    return (size,) * (count - 1) + (total - size * (count - 1),)


@composite("torch method")
def split(tensor, split_size_or_sections=None, dim=0, **named):
    """Views of at most `split_size` slices each, or of the sizes in a list, along a dim.

    >>> import rushlight as torch
    >>> torch.split(torch.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    size = named.get("split_size", named.get("split_sizes", split_size_or_sections))
    if isinstance(size, (list, tuple)):
        return split_with_sizes(tensor, size, dim)
    size = operator.index(size)
    if not tensor.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    dim = wrap_dim(dim, tensor.ndim)
    total = tensor._array.shape[dim]
    if size == 0 and total:
        raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {total}")
    return several(_split, parts, tensor, equal_sizes(total, size), dim)


@composite("torch method")
def split_with_sizes(input, split_sizes, dim=0):
    """Views of the given sizes, one after the other along a dim.

    >>> import rushlight as torch
    >>> torch.split_with_sizes(torch.arange(5), [2, 3])
    (tensor([0, 1]), tensor([2, 3, 4]))
    """
    if not input.ndim:
        raise RuntimeError("split_with_sizes expects at least a 1-dimensional tensor")
    dim = wrap_dim(dim, input.ndim)
    sizes, total = tuple(map(operator.index, split_sizes)), input._array.shape[dim]
    for size in sizes:
        if size < 0:
            raise RuntimeError(f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={list(sizes)}")
    if builtin_sum(sizes) != total:
        raise RuntimeError(f"split_with_sizes expects split_sizes to sum exactly to {total} (input tensor's size at dimension {dim}), but got "
                           f"split_sizes={list(sizes)}")
    return several(_split_with_sizes, parts, input, sizes, dim)


@composite("torch method")
def unsafe_split(input, split_size, dim=0):
    """Like `split`, but in-place ops on the parts are allowed.

    >>> import rushlight as torch
    >>> torch.unsafe_split(torch.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return tuple(part.clone() for part in split(input, split_size, dim))


@composite("torch method")
def unsafe_split_with_sizes(input, split_sizes, dim=0):
    """Like `split_with_sizes`, but in-place ops on the parts are allowed.

    >>> import rushlight as torch
    >>> torch.unsafe_split_with_sizes(torch.arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    return tuple(part.clone() for part in split_with_sizes(input, split_sizes, dim))


@composite("torch method")
def chunk(input, chunks, dim=0):
    """At most `chunks` views of equal size (the last may be smaller) along a dim.

    >>> import rushlight as torch
    >>> torch.chunk(torch.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    if not input.ndim:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    dim = wrap_dim(dim, input.ndim)
    total = input._array.shape[dim]
    size = -(-total // chunks)
    if size == 0:
        return _split_with_sizes(input, (0,) * chunks, dim)
    return several(_split, parts, input, equal_sizes(total, size), dim)


@composite("torch method")
def unsafe_chunk(input, chunks, dim=0):
    """Like `chunk`, but in-place ops on the parts are allowed.

    >>> import rushlight as torch
    >>> torch.unsafe_chunk(torch.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return tuple(part.clone() for part in chunk(input, chunks, dim))


@composite("")
def unbind_backward(gs, shape, dim):
    if not isinstance(gs, (list, tuple)):
        return unsqueeze(gs, dim)
    known = [g for g in gs if g is not None][0]
    return stack([zeros((*shape[:dim], *shape[dim + 1:]), dtype=known.dtype) if g is None else g for g in gs], dim)


@multi_view(lambda gs, input_shape, dim: unbind_backward(gs, input_shape, dim), "UnbindBackward0")
def _unbind(input, dim):
    return slices(input, dim)


def slices(array, dim):
    before = (slice(None),) * dim
    return [array[(*before, at, ...)] for at in range(array.shape[dim])]


@composite("torch method")
def unbind(input, dim=0):
    """All slices along a dim, which goes away, as views.

    >>> import rushlight as torch
    >>> torch.unbind(torch.tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    """
    if not input.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    dim = wrap_dim(dim, input.ndim)
    return several(_unbind, slices, input, dim) if input._array.shape[dim] else ()


def iterate(self):
    """Go over the slices of the first dim."""
    if not self.ndim:
        raise TypeError("iteration over a 0-d tensor")
    return iter(unbind(self, 0))


Tensor.__iter__ = iterate


@composite("torch method")
def tensor_split(input, indices_or_sections=None, dim=0, **named):
    """Views: a number of nearly equal ones, or cut at the given indices, along a dim.

    >>> import rushlight as torch
    >>> torch.tensor_split(torch.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    where = named.get("indices", named.get("sections", named.get("tensor_indices_or_sections", indices_or_sections)))
    if not input.ndim:
        raise RuntimeError(f"tensor_split expected at least a 1-dimensional tensor, but got a tensor with {input.ndim} dims")
    dim = wrap_dim(dim, input.ndim)
    total = input.shape[dim]
    if isinstance(where, Tensor):
        if where.dtype.name != "int64" or where.ndim > 1:
            raise RuntimeError(f"tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor of dtype long, "
                               f"but got a tensor with {where.ndim} dims and dtype {where.dtype.name}")
        where = where.tolist()
    if isinstance(where, int):
        if where <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {where}")
        small, larger = divmod(total, where)
        sizes, at, cuts = [small + 1] * larger + [small] * (where - larger), 0, []
        for size in sizes:
            cuts.append((at, at + size))
            at += size
    else:
        edges = [0, *map(operator.index, where), total]
        cuts = [(start, stop) for start, stop in zip(edges, [*edges[1:-1], total])]
    pieces = []
    for start, stop in cuts:
        low, high, _ = slice(start, stop).indices(total)
        pieces.append(_slice(input, dim, low, high if high > low else low, 1))
    return tuple(pieces)


def named_split(name, needed, dim_of):
    """hsplit, vsplit and dsplit: tensor_split along a fixed dim, where equal parts must come out even."""
    def function(input, indices_or_sections=None, **named):
        where = named.get("indices", named.get("sections", indices_or_sections))
        if input.ndim < needed:
            raise RuntimeError(f"torch.{name} requires a tensor with at least {needed} dimension, but got a tensor with {input.ndim} dimensions!")
        dim = dim_of(input.ndim)
        if isinstance(where, int):
            if where == 0 or input.shape[dim] % where:
                raise RuntimeError(f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension {input.shape[dim]} is not "
                                   f"divisible by the split_size {where}!")
        return tensor_split(input, where, dim)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Like `tensor_split` along {'the last of up to two dims' if name == 'hsplit' else 'rows' if name == 'vsplit' else 'the third dim'}.

    >>> import rushlight as torch
    >>> len(torch.{name}(torch.zeros(2, 2, 2), 2))
    2
    """
    return composite("torch method")(function)


hsplit = named_split("hsplit", 1, lambda ndim: 0 if ndim == 1 else 1)
vsplit = named_split("vsplit", 2, lambda ndim: 0)
dsplit = named_split("dsplit", 3, lambda ndim: 2)
