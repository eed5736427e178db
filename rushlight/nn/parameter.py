"""Parameters and buffers: tensors that a Module registers when they are assigned to it. The class Parameter itself is in tensor.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import ops
from rushlight.tensor import Parameter, Tensor


def is_parameter(value: object) -> bool:
    """Whether `value` is a parameter."""
    return isinstance(value, Parameter)


class BufferType(type(Tensor)):  # type: ignore[misc]
    """Makes `isinstance(x, Buffer)` read the mark that Buffer leaves on a tensor."""

    def __instancecheck__(cls, instance: object) -> bool:
        if cls is Buffer:
            return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)
        return type.__instancecheck__(cls, instance)


class Buffer(Tensor, metaclass=BufferType):
    """A tensor that a Module registers as a buffer when it is assigned: part of the state, not a parameter.

    Args:
        data: the values; storage is shared.
        persistent: whether it belongs to `state_dict()`.

    Example:
        >>> import rushlight as torch
        >>> module = torch.nn.Module()
        >>> module.steps = torch.nn.Buffer(torch.zeros(1))
        >>> list(module.state_dict())
        ['steps']
    """

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Any:
        source = ops.empty(0) if data is None else data
        buffer = source.detach().requires_grad_(source.requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass


_NO_SHAPE = (
    "Can't access the shape of an uninitialized parameter or buffer. "
    "This error usually happens in `load_state_dict` when trying to load "
    "an uninitialized parameter into an initialized one. "
    "Call `forward` to initialize the parameters before accessing their attributes."
)
_NO_OPERATION = (
    "Attempted to use an uninitialized parameter in {}. "
    "This error happens when you are using a `LazyModule` or explicitly manipulating `torch.nn.parameter.{}` objects. "
    "When using LazyModules Call `forward` with a dummy batch to initialize the parameters "
    "before calling torch functions"
)


class UninitializedTensor(Tensor):
    """What the uninitialised parameter and buffer share: no shape until `materialize` gives them one."""

    @property
    def shape(self) -> Any:
        raise RuntimeError(_NO_SHAPE)

    def materialize(self, shape: Sequence[int], device: Any = None, dtype: Any = None) -> None:
        """Give the tensor its shape, with unset values, in place: every holder of it sees the change."""
        dtype = super().dtype if dtype is None else dtype
        made = ops.empty(shape, dtype=dtype, device=super().device if device is None else device)
        self.__class__ = Parameter if isinstance(self, Parameter) else Tensor  # type: ignore[assignment]
        self.data = made

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise ValueError(_NO_OPERATION.format("an operation", type(self).__name__))

    __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __matmul__ = __rmatmul__ = __truediv__ = _refuse
    __getitem__ = numel = tolist = item = view = reshape = sum = mean = _refuse

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. "
            "Call `forward` to initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = type(self)(device=self.device, dtype=self.dtype, requires_grad=self.requires_grad)
        memo[id(self)] = copied
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _remake, (type(self), self.requires_grad, self.dtype)


def _remake(cls: type, requires_grad: bool, dtype: Any) -> Any:
    """What unpickles an uninitialised tensor."""
    return cls(requires_grad=requires_grad, dtype=dtype)


class UninitializedParameter(UninitializedTensor, Parameter):
    """A parameter whose shape is not known yet, as lazy modules hold before their first call."""

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        parameter = ops.empty(0, device=device, dtype=dtype)
        parameter.__class__ = cls
        return parameter.requires_grad_(requires_grad)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass


class UninitializedBuffer(UninitializedTensor):
    """A buffer whose shape is not known yet."""

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> Any:
        buffer = ops.empty(0, device=device, dtype=dtype)
        buffer.__class__ = cls
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer.requires_grad_(requires_grad)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass


def is_lazy(value: object) -> bool:
    """Whether `value` is a parameter or buffer that has no shape yet."""
    return isinstance(value, UninitializedTensor)
