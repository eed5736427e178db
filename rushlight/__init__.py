"""Rushlight: a PyTorch-shaped deep-learning framework in Python."""
from .core import dtypes, modes
from .core.dtypes import *
from .core.dtypes import dtype, finfo, iinfo, bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64, complex64, complex128
from .core.modes import no_grad, enable_grad, set_grad_enabled, inference_mode, get_default_dtype, set_default_dtype
from .core.size import Size
from .core.devices import device
from .tensor import Tensor
from .autograd import api
from . import ops
from .ops import TORCH

is_grad_enabled = modes.grad_enabled
globals().update(TORCH)
