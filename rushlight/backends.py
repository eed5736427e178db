"""`torch.backends`: switches that programs set; none of the backends is there, so they change nothing."""
import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

__path__: list[str] = []  # its parts are imported as modules: `import torch.backends.cudnn as cudnn`


def no(*args, **kwargs):
    """False."""
    return False


def flags(*args, **kwargs):
    """A block in which a backend's switches are others: it changes nothing."""
    return nullcontext()


def backend(name, **switches):
    """The module of a backend."""
    module = sys.modules[f"{__name__}.{name}"] = ModuleType(f"{__name__}.{name}", f"`torch.backends.{name}`: it is not there.")
    vars(module).update(switches)
    return module


cudnn = backend("cudnn", flags=flags, benchmark=False, deterministic=False, enabled=False, allow_tf32=False, is_available=no, version=lambda: None,
                benchmark_limit=10)
cuda = backend("cuda", matmul=SimpleNamespace(allow_tf32=False, allow_fp16_reduced_precision_reduction=False), is_built=no,
               enable_flash_sdp=no, enable_math_sdp=no, enable_mem_efficient_sdp=no, flash_sdp_enabled=no, math_sdp_enabled=no)
mps = backend("mps", is_available=no, is_built=no)
mkldnn = backend("mkldnn", flags=flags, enabled=False, is_available=no)
mkl = backend("mkl", is_available=no)
openmp = backend("openmp", is_available=no)
opt_einsum = backend("opt_einsum", enabled=False, strategy=None, is_available=no)
cpu = backend("cpu", get_cpu_capability=lambda: "DEFAULT")
