"""Size: the tuple of ints that `Tensor.shape` is, and shape arithmetic shared by all rows."""
import operator

from .errors import function_name


class Size(tuple):
    """The shape of a tensor: a tuple with `numel()`.

    >>> import rushlight as torch
    >>> torch.Size([2, 3]).numel()
    6
    """

    __slots__ = ()

    def __new__(cls, sizes=()):
        return tuple.__new__(cls, [operator.index(size) for size in sizes])

    def numel(self):
        """The product of the sizes."""
        return product(self)

    def __repr__(self):
        return f"torch.Size([{', '.join(map(str, self))}])"

    __str__ = __repr__

    def __getitem__(self, index):
        part = tuple.__getitem__(self, index)
        return tuple.__new__(Size, part) if type(index) is slice else part

    def __add__(self, other):
        return tuple.__new__(Size, tuple.__add__(self, tuple(other)))

    def __radd__(self, other):
        return tuple.__new__(Size, tuple(other) + tuple(self))

    def __mul__(self, times):
        return tuple.__new__(Size, tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __reduce__(self):
        return Size, (tuple(self),)


def product(sizes):
    """The product of the sizes; 1 for none."""
    result = 1
    for size in sizes:
        result *= size
    return result


def wrap_dim(dim, ndim, scalar_ok=True):
    """A dim as 0 <= dim < ndim; IndexError with PyTorch's words otherwise. A 0-d tensor counts as 1-d."""
    span = ndim if ndim or not scalar_ok else 1
    if span == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    if not -span <= dim < span:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-span}, {span - 1}], but got {dim})")
    return dim + span if dim < 0 else dim


def wrap_dims(dims, ndim):
    """Several dims, each as 0 <= dim < ndim; all of them for None; RuntimeError where one appears twice."""
    if dims is None:
        return tuple(range(ndim))
    if isinstance(dims, int):
        return (wrap_dim(dims, ndim),)
    wrapped = tuple(wrap_dim(operator.index(dim), ndim) for dim in dims)
    for dim in wrapped:
        if wrapped.count(dim) > 1:
            raise RuntimeError(f"dim {dim} appears multiple times in the list of dims")
    return wrapped


def broadcast_shapes(*shapes):
    """The shape that all shapes broadcast to; RuntimeError with PyTorch's words, and its choice of dim, where they do not."""
    result = []
    for shape in shapes:
        ndim = max(len(result), len(shape))
        for back in range(1, len(shape) + 1):  # from the last dim on
            size = shape[-back]
            if back > len(result):
                result.insert(0, size)
            elif result[-back] != size and size != 1:
                if result[-back] != 1:
                    raise RuntimeError(f"The size of tensor a ({result[-back]}) must match the size of tensor b ({size}) at "
                                       f"non-singleton dimension {ndim - back}")
                result[-back] = size
    return tuple(result)


def infer_size(shape, numel):
    """`shape` with its one -1 filled in so that it holds `numel` elements."""
    shape = tuple(operator.index(size) for size in shape)
    known, unknown = 1, None
    for dim, size in enumerate(shape):
        if size == -1:
            if unknown is not None:
                raise RuntimeError("only one dimension can be inferred")
            unknown = dim
        elif size < 0:
            raise RuntimeError(f"invalid shape dimension {size} at index {dim} of shape {list(shape)}")
        else:
            known *= size
    if unknown is None:
        if known != numel:
            raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
        return shape
    if known == 0:
        raise RuntimeError(f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension size "
                           "-1 can be any value and is ambiguous")
    if numel % known:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    return (*shape[:unknown], numel // known, *shape[unknown + 1:])


def sizes_from(args):
    """The sizes of `f(2, 3)`, `f((2, 3))` or `f(size)` as a tuple of ints."""
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = args[0]
    for size in args:
        if type(size) is not int:
            break
    else:
        return args if type(args) is tuple else tuple(args)
    try:
        return tuple(map(operator.index, args))
    except TypeError:
        return tuple(int(size) if getattr(size, "ndim", None) == 0 else size_given(size, at, args) for at, size in enumerate(args))


def size_given(size, at, args):
    """One size as an int, or PyTorch's complaint, which names the function that was called."""
    if hasattr(size, "__index__"):
        return operator.index(size)
    function, kind = function_name(), type(size).__name__
    shown = {"repeat": "repeats", "permute": "dims", "tile": "dims", "reshape": "shape"}.get(function, "size")
    if len(args) == 1:
        raise TypeError(f"{function}(): argument '{shown}' (position 1) must be tuple of ints, not {kind}")
    raise TypeError(f"{function}(): argument '{shown}' failed to unpack the object at pos {at + 1} with error \"type must be tuple of ints,but got {kind}\"")
