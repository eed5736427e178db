"""Initialisation: functions that fill a tensor in place, and return it.

Each consumes random numbers in PyTorch's order, so a seeded model starts with PyTorch's weights. On the meta device
there is nothing to fill, and every function returns at once.
"""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from rushlight import ops
from rushlight.core.modes import no_grad
from rushlight.nn import linear_algebra as linalg
from rushlight.tensor import Tensor

_GAIN_ONE = frozenset(
    ["linear", "sigmoid"] + [f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3)]
)


def calculate_gain(nonlinearity: str, param: int | float | None = None) -> float:
    """The recommended gain for a nonlinearity; `param` is the slope of `leaky_relu`.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.init.calculate_gain("tanh")
        1.6666666666666667
    """
    if nonlinearity in _GAIN_ONE:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Number of inputs and outputs of a weight: sizes of dims 1 and 0, times the window."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    window = math.prod(tensor.shape[2:])
    return tensor.shape[1] * window, tensor.shape[0] * window


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """The fan that `mode` names: fan_in or fan_out."""
    mode = mode.lower()
    modes = ["fan_in", "fan_out"]
    if mode not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode)]


_skipping: ContextVar[bool] = ContextVar("skipping", default=False)


@contextlib.contextmanager
def skipped() -> Iterator[None]:
    """Inside the block no function here fills anything: what `skip_init` uses."""
    token = _skipping.set(True)
    try:
        yield
    finally:
        _skipping.reset(token)


def _fills(function: Callable) -> Callable:
    """Make `function` run without recording, and do nothing on the meta device."""

    @functools.wraps(function)
    def filled(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if tensor.device.type == "meta" or _skipping.get():
            return tensor
        with no_grad():
            function(tensor, *args, **kwargs)
        return tensor

    return filled


@_fills
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with values uniform in [a, b)."""
    return tensor.uniform_(a, b, generator=generator)


@_fills
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with normal values."""
    return tensor.normal_(mean, std, generator=generator)


@_fills
def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Fill with normal values that lie within [a, b], drawing anew what falls outside.

    Where the normal distribution has less than 0.3 of its mass in [a, b], uniform proposals are accepted in
    proportion to the density instead, so that narrow or far intervals take few rounds too.
    """

    def below(x: float) -> float:
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=3,
        )
    if below((b - mean) / std) - below((a - mean) / std) > 0.3:
        return _redraw_outside(tensor, mean, std, a, b, generator)
    return _accept_by_density(tensor, mean, std, a, b, generator)


def _redraw_outside(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    # The bounds as the tensor's dtype rounds them.
    low, high = (ops.full((), bound, dtype=tensor.dtype).item() for bound in (a, b))
    tensor.normal_(mean, std, generator=generator)
    while True:
        outside = (tensor < low) | (tensor > high)
        if not outside.any():
            return tensor
        tensor.copy_(ops.where(outside, ops.empty_like(tensor).normal_(mean, std, generator=generator), tensor))


def _accept_by_density(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    log_peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    pending = None
    while True:
        proposal = ops.empty_like(tensor).uniform_(a, b, generator=generator)
        tensor.copy_(proposal if pending is None else ops.where(pending, proposal, tensor))
        log_density = proposal.sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(log_peak)
        rejected = ops.empty_like(tensor).uniform_(generator=generator).log_().gt(log_density)
        pending = rejected if pending is None else pending & rejected
        if not pending.any():
            return tensor


@_fills
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with `val`.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.init.constant_(torch.empty(2), 0.5)
        tensor([0.5000, 0.5000])
    """
    return tensor.fill_(val)


@_fills
def ones_(tensor: Tensor) -> Tensor:
    """Fill with 1."""
    return tensor.fill_(1.0)


@_fills
def zeros_(tensor: Tensor) -> Tensor:
    """Fill with 0."""
    return tensor.zero_()


@_fills
def eye_(tensor: Tensor) -> Tensor:
    """Make a matrix the identity; ValueError for other than 2 dims."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return tensor.copy_(ops.eye(tensor.shape[0], tensor.shape[1], dtype=tensor.dtype))


@_fills
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Make a convolution weight (3, 4 or 5 dims) pass its input channels through, in each of `groups` groups."""
    dimensions = tensor.ndimension()
    if dimensions not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    sizes = tensor.size()
    if sizes[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = sizes[0] // groups
    middle = tuple(size // 2 for size in sizes[2:])
    tensor.zero_()
    for group in range(groups):
        for channel in range(min(per_group, sizes[1])):
            tensor[(group * per_group + channel, channel, *middle)] = 1
    return tensor


@_fills
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill uniformly in +-gain * sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    std = gain * math.sqrt(2.0 / float(fan_in + fan_out))
    bound = math.sqrt(3.0) * std
    return tensor.uniform_(-bound, bound, generator=generator)


@_fills
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with normal values of deviation gain * sqrt(2 / (fan_in + fan_out))."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return tensor.normal_(0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator=generator)


def _is_empty(tensor: Tensor) -> bool:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=4)
        return True
    return False


@_fills
def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Fill uniformly in +-gain * sqrt(3 / fan) (He et al. 2015); `a` is the slope of `leaky_relu`."""
    if _is_empty(tensor):
        return tensor
    fan = _calculate_correct_fan(tensor, mode)
    std = calculate_gain(nonlinearity, a) / math.sqrt(fan)
    bound = math.sqrt(3.0) * std
    return tensor.uniform_(-bound, bound, generator=generator)


@_fills
def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Fill with normal values of deviation gain / sqrt(fan); `a` is the slope of `leaky_relu`."""
    if _is_empty(tensor):
        return tensor
    fan = _calculate_correct_fan(tensor, mode)
    return tensor.normal_(0, calculate_gain(nonlinearity, a) / math.sqrt(fan), generator=generator)


@_fills
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Make the rows (or columns, if there are more rows) orthonormal, times `gain` (Saxe et al. 2013)."""
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    flat = ops.empty((rows, columns), dtype=tensor.dtype).normal_(0, 1, generator=generator)
    if rows < columns:
        flat = flat.t()
    q, r = linalg.qr(flat)
    q = q * ops.diagonal(r, 0).sign()  # makes the distribution uniform over orthogonal matrices
    if rows < columns:
        q = q.t()
    return tensor.copy_(q.reshape(tensor.shape)).mul_(gain)


@_fills
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a matrix with normal values, and set the share `sparsity` of each column to 0 (Martens 2010)."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        chosen = ops.randperm(rows)[:zeros]
        tensor[chosen, column] = 0
    return tensor


def _no_grad_uniform_(tensor: Tensor, a: float, b: float, generator: Any = None) -> Tensor:
    return uniform_(tensor, a, b, generator)


def _no_grad_normal_(tensor: Tensor, mean: float, std: float, generator: Any = None) -> Tensor:
    return normal_(tensor, mean, std, generator)


def _no_grad_trunc_normal_(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any = None
) -> Tensor:
    return trunc_normal_(tensor, mean, std, a, b, generator)


def _no_grad_fill_(tensor: Tensor, val: float) -> Tensor:
    return constant_(tensor, val)


def _no_grad_zero_(tensor: Tensor) -> Tensor:
    return zeros_(tensor)


def _deprecated(function: Callable) -> Callable:
    """The old name of `function`, without the underscore: it warns and calls the new one."""
    new = function.__name__
    old = new[:-1]

    def renamed(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning, stacklevel=2
        )
        return function(*args, **kwargs)

    renamed.__name__ = old
    renamed.__doc__ = f"The deprecated name of `{new}`."
    return renamed


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
