"""class Tensor: an ndarray, its place in the recorded graph, and what views of one storage share.

Ops, operators and `backward` are attached by the rows above.  Read `Tensor.__slots__` first.  `_meta` is None
for nearly every tensor; it holds rare state (version counter, view base, hooks), so that making one stays cheap.  `_shape` is
None, or the array's shape where a recorded op of few elements has asked for it (ops/generate.py): who gives a tensor
another array sets it to None.
"""
import warnings
from sys import _getframe as getframe
from weakref import ref as weakref

import numpy as np

from .core import devices, dtypes, modes
from .core.clock import LOG, Counter, tick, user_frame  # noqa: F401  (the rows above take them from here)
from .core.size import Size

ndarray, asarray = np.ndarray, np.asarray
new = object.__new__
new_size = tuple.__new__
grad_enabled = modes.grad_enabled


class Meta:
    """Rare state of a tensor. Defaults stand on the class, so an instance holds only what differs."""

    counter = None  # version counter, on roots and on detached tensors
    base = None  # the root tensor that this one is a view of
    views = None  # weak references to the differentiable views of this root
    views_limit = 32
    multi = None  # made by an op that returns several views: the op's name
    made_in_no_grad = False
    made_in_function = False
    hooks = None  # tensor hooks, by id
    post_hooks = None  # post-accumulate-grad hooks, by id
    retains_grad = False
    accumulator = None  # weak reference to the leaf's AccumulateGrad node
    name = None
    gradient_dtype = None
    owner = None  # what must stay alive with the array (DLPack exporter, shared memory)


class OutputEdge:
    """Output `number` of a node that has several outputs."""

    __slots__ = ("node", "number")

    def __init__(self, node, number):
        self.node, self.number = node, number

    def watch_output(self, counter):
        """The output's storage got a version counter."""
        self.node.watch_output(counter, self.number)


def wrap(array, dtype=None):
    """A Tensor around an ndarray, sharing its memory, without history."""
    tensor = new(InferenceTensor if modes.flags["special"] and modes.inference_enabled() else Tensor)
    tensor._array = array
    tensor._dtype = dtypes.BY_NUMPY[array.dtype] if dtype is None else dtype
    tensor._requires_grad = False
    tensor._node = tensor._grad = tensor._meta = tensor._shape = None
    return tensor


def meta_of(tensor):
    """The tensor's rare state, made if there is none."""
    meta = tensor._meta
    if meta is None:
        meta = tensor._meta = Meta()
    return meta


def root_of(tensor):
    """The tensor that owns the history of this storage: the base of a view, else the tensor itself."""
    meta = tensor._meta
    return tensor if meta is None or meta.base is None else meta.base


def counter_of(tensor):
    """The version counter of the tensor's storage, made if there is none."""
    root = root_of(tensor)
    meta = meta_of(root)
    counter = meta.counter
    if counter is None:
        counter = meta.counter = Counter()
        node = root._node
        if node is not None:
            node.watch_output(counter)
    return counter


def bump(tensor):
    """Note that the tensor's storage was written: what `Counter.bump` does, without its calls (0.3 us of each write)."""
    meta = tensor._meta
    counter = meta.counter if meta is not None and meta.base is None else None
    if counter is None:
        if type(tensor) is InferenceTensor:
            return
        counter = counter_of(tensor)
    counter.value += 1
    counter.last = at = tick()
    frame = getframe(1)
    while frame.f_globals.get("__name__", "").startswith("rushlight") and frame.f_back is not None:
        frame = frame.f_back
    log = counter.log
    log.append((at, frame.f_code, frame.f_lasti))
    if len(log) > LOG:
        del log[:LOG // 2]


def note_writes(tensors, frame):
    """What `bump` does, for many tensors written by the one line at which `frame` stands."""
    at = tick()
    write = at, frame.f_code, frame.f_lasti
    for tensor in tensors:
        if type(tensor) is InferenceTensor:
            continue
        meta = tensor._meta
        counter = (meta.counter if meta is not None and meta.base is None else None) or counter_of(tensor)
        counter.value += 1
        counter.last = at
        log = counter.log
        log.append(write)
        if len(log) > LOG:
            del log[:LOG // 2]


def as_view(array, source, dtype=None, kind=None):
    """A Tensor over `array`, which shares memory with `source`: one version counter, one root, no node yet."""
    tensor = new(InferenceTensor if type(source) is InferenceTensor else Tensor)
    tensor._array = array
    tensor._dtype = source._dtype if dtype is None else dtype
    tensor._requires_grad = False
    tensor._node = tensor._grad = tensor._shape = None
    tensor._meta = meta = Meta()
    above = source._meta
    root = source
    if above is not None:
        if above.base is not None:
            root = above.base
            meta.made_in_no_grad, meta.multi, meta.made_in_function = above.made_in_no_grad, above.multi, above.made_in_function
    meta.base = root
    if kind is not None:
        meta.multi = kind
    if not grad_enabled():
        meta.made_in_no_grad = True
        tensor._requires_grad = root._requires_grad and tensor._dtype.category >= dtypes.FLOAT  # a view says what its base says
    if root._node is not None or not root._requires_grad:  # a leaf that requires grad never gets new history
        root_meta = root._meta
        if root_meta is None:
            root_meta = root._meta = Meta()
        views = root_meta.views
        if views is None:
            root_meta.views = [weakref(tensor)]
        else:
            if len(views) >= root_meta.views_limit:  # twice what was alive: looking for dead ones stays cheap however many live
                views[:] = [view for view in views if view() is not None]
                root_meta.views_limit = 2 * len(views) + 32
            views.append(weakref(tensor))
    return tensor


class Tensor:
    """An n-dimensional array that takes part in a recorded graph.

    >>> import rushlight as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __slots__ = ("_array", "_dtype", "_requires_grad", "_node", "_grad", "_meta", "_shape", "__dict__", "__weakref__")
    __array_priority__ = 1000
    __hash__ = object.__hash__

    def __new__(cls, *args, **kwargs):
        return construct(cls, args, kwargs)

    # What it is.

    @property
    def dtype(self):
        """The element type."""
        return self._dtype

    @property
    def device(self):
        """Always `device('cpu')`."""
        return devices.CPU

    @property
    def shape(self):
        """The sizes, as a `Size`."""
        return new_size(Size, self._array.shape)

    @property
    def ndim(self):
        """The number of dims."""
        return self._array.ndim

    def dim(self):
        """The number of dims."""
        return self._array.ndim

    ndimension = dim

    def size(self, dim=None):
        """The sizes, or the size of one dim."""
        if dim is None:
            return new_size(Size, self._array.shape)
        shape = self._array.shape
        if not -len(shape) <= dim < len(shape):
            span = max(len(shape), 1)
            if not shape:
                raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
            raise IndexError(f"Dimension out of range (expected to be in range of [{-span}, {span - 1}], but got {dim})")
        return shape[dim]

    def stride(self, dim=None):
        """Steps between neighbours in elements, for all dims or one."""
        array = self._array
        shape = array.shape
        if 0 in shape:
            strides, step = [], 1
            for size in reversed(shape):
                strides.append(step)
                step *= max(size, 1)
            strides = tuple(reversed(strides))
        else:
            item = array.itemsize
            strides = tuple([step // item for step in array.strides])
            if 1 in shape and 0 in strides:  # NumPy's new dims have stride 0, PyTorch's the one that keeps order
                filled, step = [], 1
                for size, own in zip(reversed(shape), reversed(strides)):
                    own = step if size == 1 and own == 0 else own
                    filled.append(own)
                    step = size * own
                strides = tuple(reversed(filled))
        if dim is None:
            return strides
        return strides[dim if -len(strides) <= dim < len(strides) else self.size(dim)]

    def numel(self):
        """The number of elements."""
        return self._array.size

    nelement = numel

    def element_size(self):
        """Bytes per element."""
        return self._array.itemsize

    @property
    def itemsize(self):
        """Bytes per element."""
        return self._array.itemsize

    @property
    def nbytes(self):
        """Bytes that the elements take."""
        return self._array.nbytes

    def storage_offset(self):
        """Where the first element stands in the storage, in elements."""
        from_start = self._array.__array_interface__["data"][0] - storage_array(self).__array_interface__["data"][0]
        return from_start // self._array.itemsize if self._array.size else 0

    def data_ptr(self):
        """The address of the first element."""
        return self._array.__array_interface__["data"][0]

    def is_contiguous(self, memory_format=None):
        """Whether the elements lie in C order (or in channels-last order, if asked for)."""
        if memory_format is not None and memory_format.name.startswith("channels_last"):
            array = self._array
            spatial = 2 if memory_format.name == "channels_last" else 3
            return array.ndim == spatial + 2 and np.moveaxis(array, 1, -1).flags.c_contiguous
        return self._array.flags.c_contiguous

    def is_floating_point(self):
        """Whether the dtype is a floating point one."""
        return self._dtype.is_floating_point

    def is_complex(self):
        """Whether the dtype is complex."""
        return self._dtype.is_complex

    def is_signed(self):
        """Whether the dtype can hold negative numbers."""
        return self._dtype.is_signed

    is_cuda = is_sparse = is_quantized = is_mkldnn = is_mps = is_meta = is_nested = is_xpu = is_sparse_csr = is_vulkan = False
    is_cpu = True
    names = property(lambda self: (None,) * self.ndim)

    def get_device(self):
        """-1, as for every CPU tensor."""
        return -1

    def is_conj(self):
        """False: conjugates are computed at once."""
        return False

    is_neg = is_conj

    # Its place in the graph.

    @property
    def requires_grad(self):
        """Whether gradients are computed for this tensor."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value):
        if type(value) is not bool:
            raise RuntimeError(f"requires_grad must be a bool, got {type(value).__name__}")
        if self._node is not None and not value:
            raise RuntimeError("you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
                               "subgraph that doesn't require differentiation use var_no_grad = var.detach().")
        if value and self._dtype.category < dtypes.FLOAT:
            raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
        if value and type(self) is InferenceTensor and not modes.inference_enabled():
            raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
        self._requires_grad = value

    def requires_grad_(self, requires_grad=True):
        """Set `requires_grad` of a leaf; returns the tensor."""
        if self._node is not None and not requires_grad:
            self.requires_grad = False
        if requires_grad != self._requires_grad:
            if requires_grad and self._dtype.category < dtypes.FLOAT:
                raise RuntimeError("only Tensors of floating point dtype can require gradients")
            self.requires_grad = True if requires_grad else False
        return self

    @property
    def grad_fn(self):
        """The node that made this tensor, or None for a leaf."""
        node = self._node
        return node.node if type(node) is OutputEdge else node

    @property
    def output_nr(self):
        """Which output of its node this tensor is."""
        return self._node.number if type(self._node) is OutputEdge else 0

    @property
    def is_leaf(self):
        """Whether the tensor was made by the user and not by a recorded op."""
        return self._node is None

    @property
    def grad(self):
        """The accumulated gradient of a leaf, or None."""
        grad = self._grad
        if grad is None and self._node is not None and not (self._meta is not None and self._meta.retains_grad):
            warnings.warn("The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
                          "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
                          "Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure "
                          "you access the leaf Tensor instead. See github.com/pytorch/pytorch/pull/30531 for more informations.",
                          UserWarning, stacklevel=2)
        return grad

    @grad.setter
    def grad(self, value):
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}")
            if value is self:
                raise RuntimeError("can't assign Variable as its own grad")
            if value.shape != self.shape:
                raise RuntimeError(f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size "
                                   f"'{list(self.shape)}'. Please ensure that the gradient and the tensor are the same size "
                                   "(assigned grad has data of a different size)")
            if value._dtype is not self._dtype and self._dtype is not (self._meta and self._meta.gradient_dtype):
                raise RuntimeError(f"attempting to assign a gradient with dtype '{value._dtype.c_name}' to a tensor with grad_dtype "
                                   f"'{self._dtype.tensor_name.removesuffix('Tensor')}'. The gradient must match the tensor's grad_dtype "
                                   "(defaults to the tensor's dtype).")
        self._grad = value

    @grad.deleter
    def grad(self):
        self._grad = None

    @property
    def data(self):
        """The values without history; writes through it are not seen by autograd."""
        tensor = new(Tensor if type(self) is Parameter else type(self))
        tensor._array, tensor._dtype, tensor._requires_grad = self._array, self._dtype, False
        tensor._node = tensor._grad = tensor._meta = tensor._shape = None
        return tensor

    @data.setter
    def data(self, value):
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if self._requires_grad and value._dtype.category < dtypes.FLOAT:
            raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
        self._array, self._dtype, self._shape = value._array, value._dtype, None

    @property
    def _version(self):
        """How often the storage was written in place."""
        meta = root_of(self)._meta
        if type(self) is InferenceTensor:
            raise RuntimeError("Inference tensors do not track version counter.")
        return 0 if meta is None or meta.counter is None else meta.counter.value

    @property
    def _base(self):
        """The tensor that this one is a view of, or None."""
        return None if self._meta is None else self._meta.base

    def _is_view(self):
        """Whether the tensor is a view of another."""
        return self._base is not None

    def is_inference(self):
        """Whether the tensor was made in inference mode."""
        return type(self) is InferenceTensor

    @property
    def retains_grad(self):
        """Whether a non-leaf keeps its gradient."""
        return self._meta is not None and self._meta.retains_grad

    @property
    def name(self):
        """A name for debugging, or None."""
        return None if self._meta is None else self._meta.name

    @name.setter
    def name(self, value):
        meta_of(self).name = value

    # Values out of it.

    def item(self):
        """The one element as a Python number."""
        array = self._array
        if array.size != 1:
            raise RuntimeError(f"a Tensor with {array.size} elements cannot be converted to Scalar")
        value = array.item()
        return float(value) if self._dtype is dtypes.bfloat16 else value

    def tolist(self):
        """The elements as nested lists of Python numbers (a number for a 0-d tensor)."""
        array = self._array
        return (array.astype(np.float32) if self._dtype is dtypes.bfloat16 else array).tolist()

    def numpy(self, *, force=False):
        """The values as an ndarray that shares memory with the tensor."""
        if force:
            return self.detach().resolve_conj()._array
        if self._requires_grad and grad_enabled():
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        if self._dtype is dtypes.bfloat16:
            raise TypeError("Got unsupported ScalarType BFloat16: NumPy has no bfloat16; use tensor.float().numpy()")
        return self._array

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_wrap__(self, array, context=None, return_scalar=False):
        if array.dtype == bool:
            array = array.astype(np.uint8)
        return wrap(asarray(array))

    def __bool__(self):
        if self._array.size != 1:
            if self._array.size == 0:
                raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(self._array.item())

    def __float__(self):
        return float(real_element(self, "double"))

    def __int__(self):
        return int(real_element(self, "int64_t"))

    def __complex__(self):
        return complex(only_element(self))

    def __index__(self):
        if self._dtype.category >= dtypes.FLOAT or self._array.size != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self._array.item())

    def __len__(self):
        if not self._array.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self._array.shape[0]

    def __contains__(self, element):
        if isinstance(element, (Tensor, int, float, complex)):
            return bool((self == element).any())
        raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if self._requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if self._dtype is dtypes.bfloat16:
            raise BufferError("Can't export a bfloat16 tensor through NumPy's DLPack; use tensor.float()")
        return self._array.__dlpack__(stream=None, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self):
        return (1, 0)

    def __repr__(self, *, tensor_contents=None):
        from .tensor_repr import format_tensor  # printing is rare and its module costs import time
        return format_tensor(self)

    def __format__(self, spec):
        if self.ndim == 0 and type(self) is Tensor:
            return self.item().__format__(spec)
        return object.__format__(self, spec)

    # Copies.

    def __deepcopy__(self, memo):
        if self._node is not None:
            raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
                               "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
                               "see https://github.com/pytorch/pytorch/pull/103001")
        if id(self) in memo:
            return memo[id(self)]
        twin = new(type(self))
        owner = storage_array(self)
        key = ("storage", id(owner))
        if key not in memo:
            memo[key] = owner.copy(), owner
        copied = memo[key][0]
        offset = self._array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
        if owner is self._array:
            twin._array = copied
        else:
            flat = copied.reshape(-1).view(np.uint8) if copied.size else copied.reshape(-1)
            twin._array = (np.ndarray(self._array.shape, self._array.dtype, flat.data, offset, self._array.strides)
                           if self._array.size else self._array.copy())
        twin._dtype, twin._requires_grad, twin._node = self._dtype, self._requires_grad, None
        twin._meta = twin._shape = None
        memo[id(self)] = twin
        import copy
        # PyTorch copies the gradient of a tensor, but not of a parameter.
        twin._grad = None if self._grad is None or isinstance(self, Parameter) else copy.deepcopy(self._grad, memo)
        if self.__dict__:
            twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return twin

    def __copy__(self):
        twin = new(type(self))
        twin._array, twin._dtype, twin._requires_grad, twin._node = self._array, self._dtype, self._requires_grad, self._node
        twin._grad, twin._meta, twin._shape = self._grad, None, None
        twin.__dict__.update(self.__dict__)
        return twin

    def __reduce_ex__(self, protocol):
        if self._node is not None:
            raise RuntimeError("Cannot pickle a tensor that has a grad_fn (a non-leaf): pickle tensor.detach() instead")
        array = self._array.view(np.uint16) if self._dtype is dtypes.bfloat16 else self._array
        return rebuild, (type(self), np.array(array, order="K"), self._dtype, self._requires_grad, dict(self.__dict__))


class ParameterType(type):
    """Makes `isinstance(x, Parameter)` true also for tensors of other classes marked with `_is_param`."""

    def __instancecheck__(cls, instance):
        return type(instance) is cls or type.__instancecheck__(cls, instance) or (
            cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False))


class Parameter(Tensor, metaclass=ParameterType):
    """A tensor that is a module's parameter: it requires grad by default and is found by `Module.parameters()`.

    data: the values, whose memory is shared, without their history; None makes an empty tensor.
    Every fast path that asks for a plain Tensor also takes this class, so parameters cost no more than tensors.

    >>> import rushlight as torch
    >>> p = torch.nn.Parameter(torch.zeros(2))
    >>> p.requires_grad, isinstance(p, torch.nn.Parameter), isinstance(torch.zeros(2), torch.nn.Parameter)
    (True, True, False)
    """

    __slots__ = ()

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = wrap(np.empty(0, modes.Defaults.dtype.numpy))
        if not isinstance(data, Tensor):
            raise TypeError(f"Parameter data has to be a tensor, but got {type(data).__name__}")
        parameter = new(MetaParameter if isinstance(data, MetaTensor) and cls is Parameter else cls)
        parameter._array, parameter._dtype, parameter._requires_grad = data._array, data._dtype, False
        parameter._node = parameter._grad = parameter._meta = parameter._shape = None
        if requires_grad:
            if data._dtype.category < dtypes.FLOAT:
                raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
            parameter.requires_grad = True
        return parameter

    def __init__(self, *args, **kwargs):
        pass


class InferenceTensor(Tensor):
    """A tensor made in inference mode. A class of its own, so that the straight-line paths need not ask; named Tensor."""

    __slots__ = ()


class MetaTensor(Tensor):
    """A tensor of the meta device: shape and dtype, no values. Its array is one element repeated; see ops/meta.py for its ops."""

    __slots__ = ()
    is_meta, is_cpu = True, False

    @property
    def device(self):
        """`device('meta')`."""
        return META

    def refuse(self, *args, **kwargs):
        raise NotImplementedError("Cannot copy out of meta tensor; no data! Use Tensor.to_empty() on the module, or make the tensor on the CPU")

    item = tolist = numpy = __array__ = __bool__ = __float__ = __int__ = __index__ = refuse

    def __repr__(self, *, tensor_contents=None):
        kind = "" if self._dtype is modes.Defaults.dtype else f", dtype={self._dtype!r}"
        text = f"tensor(..., device='meta', size={tuple(self.shape)}{kind}{', requires_grad=True' if self._requires_grad else ''})"
        return "Parameter containing:\n" + text if isinstance(self, Parameter) else text


class MetaParameter(MetaTensor, Parameter):
    """A parameter of the meta device."""

    __slots__ = ()


META = devices.device("meta")
MetaTensor.__name__ = MetaTensor.__qualname__ = "Tensor"
MetaParameter.__name__ = MetaParameter.__qualname__ = "Parameter"
InferenceTensor.__name__ = InferenceTensor.__qualname__ = "Tensor"
PLAIN = (Tensor, Parameter, InferenceTensor)


def only_element(tensor):
    """The one element, for Python's own conversions."""
    if tensor._array.size != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return tensor.item()


def real_element(tensor, kind):
    """The one element, refused where it has an imaginary part that would be lost."""
    value = only_element(tensor)
    if type(value) is complex:
        if value.imag:
            raise RuntimeError(f"value cannot be converted to type {kind} without overflow: {value} has an imaginary part")
        return value.real
    return value


def rebuild(kind, array, dtype, requires_grad, attributes):
    """What pickle calls: a leaf with these values. As in PyTorch, views pickled together no longer share memory."""
    tensor = new(kind)
    tensor._array = array.view(dtype.numpy) if dtype is dtypes.bfloat16 else array
    tensor._dtype, tensor._requires_grad = dtype, requires_grad
    tensor._node = tensor._grad = tensor._meta = tensor._shape = None
    if attributes:
        tensor.__dict__.update(attributes)
    return tensor


def storage_array(tensor):
    """The ndarray that owns the memory under a tensor (the end of NumPy's chain of bases that are arrays)."""
    array = tensor._array
    while type(array.base) is ndarray:
        array = array.base
    return array


def construct(cls, args, kwargs):
    """`Tensor(...)`, the legacy constructor: sizes make an uninitialised tensor, a sequence is copied, a tensor's memory is shared."""
    kwargs.pop("device", None)
    default = modes.Defaults.dtype
    if not args:
        array = np.empty((0,), default.numpy)
    elif len(args) == 1 and isinstance(args[0], Tensor):
        array = args[0]._array
        if cls is Tensor and args[0]._dtype is not default:
            raise TypeError(f"expected {default.tensor_name} (got {args[0]._dtype.tensor_name})")
    elif len(args) == 1 and not isinstance(args[0], (int, Size)):
        array = np.array(args[0], dtype=default.numpy)
    else:
        sizes = args[0] if isinstance(args[0], Size) else args
        if any(not hasattr(size, "__index__") for size in sizes):
            raise TypeError(f"new(): data must be a sequence or sizes must be integers (got {', '.join(type(s).__name__ for s in sizes)})")
        array = np.empty(tuple(int(size) for size in sizes), default.numpy)
    tensor = new(cls)
    tensor._array, tensor._dtype, tensor._requires_grad = array, dtypes.BY_NUMPY[array.dtype], False
    tensor._node = tensor._grad = tensor._meta = tensor._shape = None
    return tensor
