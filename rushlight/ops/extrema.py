"""Largest and smallest: max, min, amax, amin, aminmax, argmax, argmin."""
import numpy as np

from ..core import dtypes
from ..core.size import wrap_dim, wrap_dims
from ..tensor import Tensor
from .bounds import maximum, minimum
from .dispatch import result_type_of, scalar_name, write_out
from .gathering import along, taken
from .record import composite, primitive


def refuse_complex(name, input):
    if input._dtype.is_complex:
        raise NotImplementedError(f"\"{name}\" not implemented for '{scalar_name(input._dtype)}'")


def check_not_empty(name, input, dim=None, kind=IndexError):
    """A reduction without identity needs elements."""
    if dim is None:
        if not input._array.size:
            raise kind(f"{name}(): Expected reduction dim to be specified for input.numel() == 0."
                       + (" Specify the reduction dim with the 'dim' argument." if kind is RuntimeError else ""))
    elif input.ndim and not input._array.shape[dim]:
        raise IndexError(f"{name}(): Expected reduction dim {dim} to have non-zero size.")


@composite("")
def share_evenly(g, input, out, dims, keepdim, single):
    """The gradient of an extremum to all elements that attain it, in equal parts; NaN attains a NaN one where it is `single`."""
    if not keepdim and dims:
        shape = tuple(1 if at in dims else size for at, size in enumerate(input.shape))
        g, out = reshape(g, shape), reshape(out, shape)
    mask = (input == out) | ((input != input) & (out != out)) if single else input == out
    if single:
        return where(mask, g / sum(mask * ones_like(out), dims, True) if dims else g, 0)
    return g * mask / sum(mask * ones_like(out), dims, True) if dims else g * mask  # all NaN where none attains it, as in PyTorch


FEW = 1 << 12  # elements of which the place of the largest is found, vector by vector, faster than a reduction starts


def extremum_all(name, ufunc, place):
    def _all(input):
        if input.size <= FEW and input.flags.c_contiguous and input.size:
            return input.reshape(-1)[place(input)]  # the first NaN where there is one, as a reduction gives NaN
        return ufunc.reduce(input, None)
    _all.__name__ = f"_{name}_all"
    return primitive(grad=dict(input=lambda g, input, out: share_evenly(g, input, out, tuple(range(input.ndim)), False, True)), where="",
                     node=f"{name.capitalize()}Backward1", family="reduction")(_all)


def extremum_dims(name, ufunc):
    def _dims(input, dim, keepdim):
        return ufunc.reduce(input, dim, None, None, keepdim)
    _dims.__name__ = f"_a{name}"
    return primitive(grad=dict(input=lambda g, input, out, dim, keepdim: share_evenly(g, input, out, dim, keepdim, False)), where="",
                     node=f"A{name}Backward0", family="reduction")(_dims)


_max_all, _min_all = extremum_all("max", np.maximum, np.ndarray.argmax), extremum_all("min", np.minimum, np.ndarray.argmin)
_amax, _amin = extremum_dims("max", np.maximum), extremum_dims("min", np.minimum)


@composite("")
def pick_backward(g, shape, indices, dim, keepdim):
    """The gradient of picking one element along a dim, put back at its place."""
    if not shape:
        return reshape(g, shape)
    if not keepdim:
        g, indices = unsqueeze(g, dim), unsqueeze(indices, dim)
    return scatter_zeros(g, shape, dim, indices)


@primitive(grad=dict(input=lambda g, dim, index: gather(g, dim, index)), tensors=("input", "index"), where="", family="scatter")
def scatter_zeros(input, shape, dim, index):
    """Zeros with `input` at the places that `index` names along a dim; no place twice."""
    result = np.zeros(shape, input.dtype)
    result[along(dim, index)] = input
    return result


def picker(name, node):
    """An op that picks, along a dim, the elements at indices which were found before; its node has the name of the search."""
    def _pick(input, indices, dim, keepdim):
        if not input.ndim:
            return input.copy()
        if keepdim:
            return taken(input, indices, dim)
        return taken(input, indices[(slice(None),) * dim + (None,)], dim).squeeze(dim)
    _pick.__name__ = name
    return primitive(grad=dict(input=lambda g, input_shape, indices, dim, keepdim: pick_backward(g, input_shape, indices, dim, keepdim)),
                     tensors=("input", "indices"), where="", node=node, family="gather")(_pick)


_max_pick, _min_pick = picker("_max_pick", "MaxBackward0"), picker("_min_pick", "MinBackward0")


def position_op(name, kernel):
    def _position(input, dim, keepdim):
        if not input.ndim:
            return np.zeros((), np.int64)
        return kernel(input, axis=dim, keepdims=keepdim)
    _position.__name__ = name
    return primitive(dtype=dtypes.int64, where="", family="reduction")(_position)


_argmax, _argmin = position_op("_argmax", np.argmax), position_op("_argmin", np.argmin)


def extremum(name, whole, pick, find, elementwise):
    """max or min: of all, along a dim (with indices), or of two tensors."""
    fields = ("values", "indices")

    def function(input, *args, out=None, **kwargs):
        other = args[0] if args else kwargs.get("other")
        if isinstance(other, Tensor) and (other.ndim or len(args) < 2) and "dim" not in kwargs:
            return elementwise(input, other) if out is None else elementwise(input, other, out=out)
        refuse_complex(f"{name}_all", input)
        if not args and not kwargs:
            check_not_empty(name, input, None, RuntimeError)
            return whole(input) if out is None else out.copy_checked(whole(input))
        dim, keepdim = bind(name, args, kwargs)
        dim = wrap_dim(dim, input.ndim)
        check_not_empty(name, input, dim)
        indices = find(input, dim, keepdim)
        result = result_type_of(name, fields)((pick(input, indices, dim, keepdim), indices))
        return result if out is None else write_out(out, result)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The {'largest' if name == 'max' else 'smallest'} element; with `dim`, values and indices; with a tensor, elementwise. NaN wins.

    >>> import rushlight as torch
    >>> torch.{name}(torch.tensor([[1.0, 5.0], [4.0, 2.0]]), 1).indices
    tensor([{'1, 0' if name == 'max' else '0, 1'}])
    """
    return function


def bind(name, args, kwargs):
    """(dim, keepdim) of `max(dim, keepdim)`."""
    known = {"dim", "keepdim"}
    if len(args) > 2 or not set(kwargs) <= known or args and "dim" in kwargs:
        raise TypeError(f"{name}() received an invalid combination of arguments - got (Tensor, {', '.join(type(arg).__name__ for arg in args)}"
                        f"{', '.join(kwargs)})")
    dim = args[0] if args else kwargs.get("dim")
    keepdim = args[1] if len(args) > 1 else kwargs.get("keepdim", False)
    if type(dim) is bool or not hasattr(dim, "__index__"):
        raise TypeError(f"{name}() received an invalid combination of arguments - got (Tensor, dim={type(dim).__name__}), but expected one of: "
                        "(Tensor input), (Tensor input, Tensor other), (Tensor input, int dim, bool keepdim)")
    return dim, keepdim


max = composite("torch method out", raw=np.max)(extremum("max", _max_all, _max_pick, _argmax, maximum))
min = composite("torch method out", raw=np.min)(extremum("min", _min_all, _min_pick, _argmin, minimum))


def dims_extremum(name, reduce):
    def function(input, dim=(), keepdim=False, *, out=None):
        refuse_complex(f"{name}_cpu", input)
        dims = wrap_dims(dim if dim != () and dim != [] else None, input.ndim)
        if dim == () or dim == []:
            check_not_empty(name, input, None, RuntimeError)
        for d in dims:
            check_not_empty(name, input, d)
        result = reduce(input, dims if input.ndim else (), keepdim)
        return result if out is None else out.copy_checked(result)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The {'largest' if name == 'amax' else 'smallest'} elements along dims (all dims if none are given); ties share the gradient.

    >>> import rushlight as torch
    >>> torch.{name}(torch.tensor([[1, 5], [4, 2]]), 1)
    tensor([{'5, 4' if name == 'amax' else '1, 2'}])
    """
    return composite("torch method out", raw=lambda input, dim=None, keepdim=False: getattr(np, name)(
        input, axis=dim if dim is None or isinstance(dim, int) else tuple(dim), keepdims=keepdim))(function)


amax, amin = dims_extremum("amax", _amax), dims_extremum("amin", _amin)


@composite("torch method")
def aminmax(input, *, dim=None, keepdim=False, out=None):
    """The smallest and the largest elements, of all or along one dim.

    >>> import rushlight as torch
    >>> torch.aminmax(torch.tensor([3, 1, 2])).max
    tensor(3)
    """
    if dim is None:
        if not input._array.size:
            raise RuntimeError("aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.")
        dims = tuple(range(input.ndim))
    else:
        dim = wrap_dim(dim, input.ndim)
        check_not_empty("aminmax", input, dim)
        dims = (dim,) if input.ndim else ()
    result = result_type_of("aminmax", ("min", "max"))((_amin(input, dims, keepdim), _amax(input, dims, keepdim)))
    for part in out or ():
        if part._dtype is not input._dtype:
            raise RuntimeError(f"Expected out tensor to have dtype {input._dtype.name}, but got {part._dtype.name} instead")
    return result if out is None else write_out(out, result)


def positions(name, find):
    def function(input, dim=None, keepdim=False, *, out=None):
        refuse_complex(f"{name}_cpu", input)
        if input._dtype is dtypes.bool:
            raise RuntimeError(f"{name}(): does not support bool input")
        if dim is not None:
            dim = wrap_dim(dim, input.ndim)
        check_not_empty(name, input, dim)
        result = find(input, dim, keepdim)
        return result if out is None else out.copy_checked(result)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Where the {'largest' if name == 'argmax' else 'smallest'} element stands (the first of equal ones): in the flat tensor, or along a dim.

    >>> import rushlight as torch
    >>> torch.{name}(torch.tensor([1, 9, 4]))
    tensor({'1' if name == 'argmax' else '0'})
    """
    return composite("torch method out")(function)


argmax, argmin = positions("argmax", _argmax), positions("argmin", _argmin)
