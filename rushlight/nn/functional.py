"""rushlight.nn.functional is the module rushlight.ops.functional, under the name PyTorch gives it."""
import sys

from rushlight.ops import functional

sys.modules[__name__] = functional
