"""`torch.cuda.amp`: the names that programs used before `torch.amp`; without CUDA they warn and do nothing, as PyTorch's do.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     GradScaler().is_enabled()
    False
"""
import warnings

from .. import amp
from ..amp import custom_bwd, custom_fwd
from ..core import dtypes

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


def deprecated(name):
    warnings.warn(f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('cuda', args...)` instead.", FutureWarning, stacklevel=3)


class autocast(amp.autocast):  # noqa: N801
    """`torch.amp.autocast("cuda", ...)`."""

    def __init__(self, enabled=True, dtype=dtypes.float16, cache_enabled=True):
        deprecated("autocast")
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """`torch.amp.GradScaler("cuda", ...)`."""

    def __init__(self, init_scale=2.0 ** 16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        deprecated("GradScaler")
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
