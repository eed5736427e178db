"""The conversion methods of Module: dtypes and devices, train and eval, requires_grad and zero_grad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from rushlight import ops
from rushlight.core import dtypes
from rushlight.core.devices import device as Device
from rushlight.core.modes import no_grad
from rushlight.nn.parameter import Parameter, is_lazy
from rushlight.tensor import Tensor


class CastMethods:
    """The part of Module that converts what it holds, in place."""

    training: bool
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]

    def _apply(self, fn: Callable, recurse: bool = True) -> Self:
        """Replace every parameter, its gradient and every buffer by `fn` of it; parameters stay the same objects."""
        if recurse:
            for module in self.children():  # type: ignore[attr-defined]
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is None:
                continue
            with no_grad():
                # A lazy parameter has no shape to work on: its empty stand-in takes the new dtype.
                changed = fn(ops.empty(0, dtype=parameter.dtype) if is_lazy(parameter) else parameter)
                grad = parameter.grad
                changed_grad = None if grad is None else fn(grad)
            if changed.device == parameter.device:
                if changed is not parameter:
                    # A gradient of the old dtype would contradict the new data.
                    parameter.grad = None
                    parameter.data = changed
            else:
                parameter = Parameter(changed, parameter.requires_grad)
                self._parameters[name] = parameter
            if changed_grad is not None:
                parameter.grad = changed_grad.requires_grad_(grad.requires_grad)
        for name, buffer in self._buffers.items():
            if is_lazy(buffer):
                buffer.data = fn(ops.empty(0, dtype=buffer.dtype))
            elif buffer is not None:
                self._buffers[name] = fn(buffer)
        self.__dict__["_epoch"] += 1
        return self

    def apply(self, fn: Callable[[Any], None]) -> Self:
        """Call `fn` on every submodule, children first, then on this module.

        Example:
            >>> import rushlight as torch
            >>> seen = []
            >>> _ = torch.nn.Sequential(torch.nn.ReLU()).apply(lambda m: seen.append(type(m).__name__))
            >>> seen
            ['ReLU', 'Sequential']
        """
        for module in self.children():  # type: ignore[attr-defined]
            module.apply(fn)
        fn(self)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Convert parameters and buffers in place: `to(device)`, `to(dtype)`, `to(device, dtype)`, `to(tensor)`.

        A dtype converts what is floating point; integer buffers keep theirs.

        Raises:
            TypeError: a dtype that is neither floating point nor complex.

        Example:
            >>> import rushlight as torch
            >>> torch.nn.Linear(2, 1).to(torch.float64).weight.dtype
            torch.float64
        """
        device, dtype, _ = _conversion(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}")

        def convert(tensor: Tensor) -> Tensor:
            wanted = dtype if tensor.is_floating_point() or tensor.is_complex() else None
            options = {k: v for k, v in (("device", device), ("dtype", wanted)) if v is not None}
            if device is not None and device.type == "meta":
                return ops.empty_like(tensor, **options)  # no values to keep
            return tensor.to(**options) if options else tensor

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move to `device` without copying values: memory is left unset."""
        return self._apply(lambda t: ops.empty_like(t, device=device), recurse=recurse)

    def type(self, dst_type: Any) -> Self:
        """Convert all parameters and buffers to `dst_type`."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self) -> Self:
        """Convert floating-point parameters and buffers to float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> Self:
        """Convert floating-point parameters and buffers to float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self) -> Self:
        """Convert floating-point parameters and buffers to float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self) -> Self:
        """Convert floating-point parameters and buffers to bfloat16."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def cpu(self) -> Self:
        """Nothing to move: everything lives on the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: int | Any = None) -> Self:
        """Raise: there is no CUDA device here."""
        return self._apply(lambda t: t.to("cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device))

    def xpu(self, device: int | Any = None) -> Self:
        """Raise: there is no XPU device here."""
        return self._apply(lambda t: t.to("xpu" if device is None else f"xpu:{device}" if isinstance(device, int) else device))

    def share_memory(self) -> Self:
        """Nothing to do: processes get their own copies."""
        return self

    def train(self, mode: bool = True) -> Self:
        """Set training mode here and in all submodules; ValueError unless `mode` is a bool."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        if self.training is not mode:
            self.training = mode
        for module in self.children():  # type: ignore[attr-defined]
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode: `train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad` of all parameters, in place."""
        for parameter in self.parameters():  # type: ignore[attr-defined]
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or fill them with zeros if `set_to_none` is false."""
        for parameter in self.parameters():  # type: ignore[attr-defined]
            grad = parameter.grad
            if grad is None:
                continue
            if set_to_none:
                parameter.grad = None
                continue
            if grad.grad_fn is not None:
                grad.detach_()
            else:
                grad.requires_grad_(False)
            grad.zero_()


def _conversion(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
    """The (device, dtype, non_blocking) that the arguments of `to` mean."""
    device, dtype, non_blocking = kwargs.pop("device", None), kwargs.pop("dtype", None), kwargs.pop("non_blocking", False)
    tensor = kwargs.pop("tensor", kwargs.pop("other", None))
    kwargs.pop("copy", None)
    kwargs.pop("memory_format", None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    for arg in args:
        if isinstance(arg, Tensor):
            tensor = arg
        elif dtypes.meant(arg) is not None:
            dtype = dtypes.meant(arg)
        elif isinstance(arg, bool):
            non_blocking = arg
        elif isinstance(arg, (str, int, Device)):
            device = arg
        elif arg is not None:
            raise TypeError(
                "to() received an invalid combination of arguments - got "
                f"({', '.join(type(a).__name__ for a in args)}), but expected one of:\n"
                " * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False)\n"
                " * (torch.dtype dtype, bool non_blocking = False)\n"
                " * (Tensor tensor, bool non_blocking = False)"
            )
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    return Device(device) if isinstance(device, (str, int)) else device, dtypes.ARGUMENTS.get(dtype, dtype), non_blocking
