"""Lazy layers: they learn their input's size at the first call, and then become the ordinary layer."""

from __future__ import annotations

import itertools
from typing import Any

from rushlight import ops
from rushlight.core import dtypes
from rushlight.core.modes import no_grad
from rushlight.core.tracing import runs_once
from rushlight.nn.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d, _BatchNorm, _NormBase
from rushlight.nn.conv import Conv1d, Conv2d, Conv3d
from rushlight.nn.conv_transpose import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from rushlight.nn.instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, _InstanceNorm
from rushlight.nn.linear import Linear
from rushlight.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from rushlight.tensor import Tensor


class LazyModuleMixin:
    """For a layer whose parameters get their shapes at the first call.

    A subclass sets `cls_to_become` and defines `initialize_parameters(*args, **kwargs)`, which sees the call's
    arguments and materialises every uninitialised parameter and buffer.
    """

    cls_to_become: type | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)  # type: ignore[attr-defined]
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)  # type: ignore[attr-defined]

    def _lazy_load_hook(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: Any,
        unexpected_keys: Any,
        error_msgs: Any,
    ) -> None:
        """Give each uninitialised entry the shape that the state has for it."""
        members = itertools.chain(self._parameters.items(), self._buffers.items())  # type: ignore[attr-defined]
        for name, member in list(members):
            saved = state_dict.get(prefix + name)
            if is_lazy(member) and saved is not None and not is_lazy(saved):
                with no_grad():
                    member.materialize(saved.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialise the parameters for a call with these arguments."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer has no shape yet."""
        return any(
            is_lazy(member)
            for member in itertools.chain(self._parameters.values(), self._buffers.values())  # type: ignore[attr-defined]
        )

    @runs_once("a lazy module learns its sizes")
    def _infer_parameters(self, module: Any, args: tuple, kwargs: dict[str, Any] | None = None) -> None:
        """The pre-hook of the first call."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")  # type: ignore[attr-defined]
        module._initialize_hook.remove()
        module._load_hook.remove()
        delattr(module, "_initialize_hook")
        delattr(module, "_load_hook")
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


class LazyLinear(LazyModuleMixin, Linear):
    """Linear whose `in_features` is the last size of its first input.

    Example:
        >>> import rushlight as torch
        >>> layer = torch.nn.LazyLinear(4)
        >>> layer(torch.randn(2, 3)).shape, layer
        (torch.Size([2, 4]), Linear(in_features=3, out_features=4, bias=True))
    """

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False, device, dtype)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw the values anew, once there are shapes."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take `in_features` from the input."""
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:
            if input.shape[-1] != self.weight.shape[-1]:
                raise AssertionError(
                    f"The in_features inferred from input: {input.shape[-1]} "
                    f"is not equal to in_features from self.weight: {self.weight.shape[-1]}"
                )
            self.in_features = input.shape[-1]


class _LazyConv(LazyModuleMixin):
    """What the lazy convolutions share; the class behind it in the bases is the convolution."""

    spatial_dims: int

    def _make_lazy(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw the values anew, once there are shapes."""
        if not self.has_uninitialized_params() and self.in_channels != 0:  # type: ignore[has-type]
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Take `in_channels` from the input."""
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups != 0:  # type: ignore[attr-defined]
            raise ValueError("in_channels must be divisible by groups")
        outer = (self.in_channels, self.out_channels // self.groups)  # type: ignore[attr-defined]
        if not self.transposed:  # type: ignore[attr-defined]
            outer = (self.out_channels, self.in_channels // self.groups)  # type: ignore[attr-defined]
        self.weight.materialize((*outer, *self.kernel_size))  # type: ignore[attr-defined]
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input: Tensor) -> int:
        unbatched = self.spatial_dims + 1
        if input.dim() not in (unbatched, unbatched + 1):
            raise RuntimeError(
                f"Expected {unbatched}D (unbatched) or {unbatched + 1}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        return input.shape[1] if input.dim() == unbatched + 1 else input.shape[0]


def _lazy_conv(base: type, dims: int) -> type:
    """The lazy form of a convolution, whose signature has no `in_channels`."""

    def __init__(
        self: Any,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super(made, self).__init__(  # type: ignore[arg-type]
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype
        )
        self._make_lazy(out_channels, bias, device, dtype)

    made = _lazy_class(base, dims, __init__)
    return made


def _lazy_conv_transpose(base: type, dims: int) -> type:
    """The lazy form of a transposed convolution, whose signature has no `in_channels`."""

    def __init__(
        self: Any,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super(made, self).__init__(  # type: ignore[arg-type]
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype
        )
        self._make_lazy(out_channels, bias, device, dtype)

    made = _lazy_class(base, dims, __init__)
    return made


def _lazy_class(base: type, dims: int, init: Any) -> type:
    name = f"Lazy{base.__name__}"
    doc = f"""{base.__name__} whose `in_channels` is that of its first input.

    >>> import rushlight as torch
    >>> layer = torch.nn.{name}(5, 2)
    >>> layer(torch.ones(2, 3{', 4' * dims})).shape[:2], layer.in_channels
    (torch.Size([2, 5]), 3)
    """
    names = {
        "__init__": init,
        "__doc__": doc,
        "__module__": __name__,
        "cls_to_become": base,
        "spatial_dims": dims,
    }
    return type(name, (_LazyConv, base), names)


LazyConv1d = _lazy_conv(Conv1d, 1)
LazyConv2d = _lazy_conv(Conv2d, 2)
LazyConv3d = _lazy_conv(Conv3d, 3)
LazyConvTranspose1d = _lazy_conv_transpose(ConvTranspose1d, 1)
LazyConvTranspose2d = _lazy_conv_transpose(ConvTranspose2d, 2)
LazyConvTranspose3d = _lazy_conv_transpose(ConvTranspose3d, 3)


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """What the lazy norms share: parameters and statistics without shape."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype)  # type: ignore[misc]
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = ops.tensor(0, dtype=dtypes.long, device=device)

    def reset_parameters(self) -> None:
        """Set weight to 1, bias to 0 and the statistics to their start, once there are shapes."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take `num_features` from dim 1 of the input."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        for member in (self.weight, self.bias, self.running_mean, self.running_var):
            if is_lazy(member):
                member.materialize((self.num_features,))  # type: ignore[union-attr]
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """BatchNorm1d whose `num_features` is dim 1 of its first input.

    >>> import rushlight as torch
    >>> layer = torch.nn.LazyBatchNorm1d()
    >>> layer(torch.ones(2, 3)).shape, layer.num_features
    (torch.Size([2, 3]), 3)
    """

    cls_to_become = BatchNorm1d
    _check_input_dim = BatchNorm1d._check_input_dim


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """BatchNorm2d whose `num_features` is dim 1 of its first input.

    >>> import rushlight as torch
    >>> layer = torch.nn.LazyBatchNorm2d()
    >>> layer(torch.ones(2, 3, 4, 4)).shape, layer.num_features
    (torch.Size([2, 3, 4, 4]), 3)
    """

    cls_to_become = BatchNorm2d
    _check_input_dim = BatchNorm2d._check_input_dim


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """BatchNorm3d whose `num_features` is dim 1 of its first input.

    >>> import rushlight as torch
    >>> layer = torch.nn.LazyBatchNorm3d()
    >>> layer(torch.ones(2, 3, 4, 4, 4)).shape, layer.num_features
    (torch.Size([2, 3, 4, 4, 4]), 3)
    """

    cls_to_become = BatchNorm3d
    _check_input_dim = BatchNorm3d._check_input_dim


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """InstanceNorm1d whose `num_features` is dim 1 of its first input.

    >>> import rushlight as torch
    >>> layer = torch.nn.LazyInstanceNorm1d()
    >>> layer(torch.ones(2, 3, 4)).shape, layer.num_features
    (torch.Size([2, 3, 4]), 3)
    """

    cls_to_become = InstanceNorm1d
    _check_input_dim = InstanceNorm1d._check_input_dim
    _get_no_batch_dim = InstanceNorm1d._get_no_batch_dim


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """InstanceNorm2d whose `num_features` is dim 1 of its first input.

    >>> import rushlight as torch
    >>> layer = torch.nn.LazyInstanceNorm2d()
    >>> layer(torch.ones(2, 3, 4, 4)).shape, layer.num_features
    (torch.Size([2, 3, 4, 4]), 3)
    """

    cls_to_become = InstanceNorm2d
    _check_input_dim = InstanceNorm2d._check_input_dim
    _get_no_batch_dim = InstanceNorm2d._get_no_batch_dim


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """InstanceNorm3d whose `num_features` is dim 1 of its first input.

    >>> import rushlight as torch
    >>> layer = torch.nn.LazyInstanceNorm3d()
    >>> layer(torch.ones(2, 3, 4, 4, 4)).shape, layer.num_features
    (torch.Size([2, 3, 4, 4, 4]), 3)
    """

    cls_to_become = InstanceNorm3d
    _check_input_dim = InstanceNorm3d._check_input_dim
    _get_no_batch_dim = InstanceNorm3d._get_no_batch_dim
