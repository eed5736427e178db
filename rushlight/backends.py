"""`torch.backends`: switches that programs set; none of the backends is there, so they change nothing."""
from contextlib import nullcontext
from types import SimpleNamespace


def no(*args, **kwargs):
    """False."""
    return False


def flags(*args, **kwargs):
    """A block in which a backend's switches are others: it changes nothing."""
    return nullcontext()


cudnn = SimpleNamespace(flags=flags, benchmark=False, deterministic=False, enabled=False, allow_tf32=False, is_available=no, version=lambda: None,
                        benchmark_limit=10)
cuda = SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False, allow_fp16_reduced_precision_reduction=False), is_built=no,
                       enable_flash_sdp=no, enable_math_sdp=no, enable_mem_efficient_sdp=no, flash_sdp_enabled=no, math_sdp_enabled=no)
mps = SimpleNamespace(is_available=no, is_built=no)
mkldnn = SimpleNamespace(flags=flags, enabled=False, is_available=no)
mkl = SimpleNamespace(is_available=no)
openmp = SimpleNamespace(is_available=no)
opt_einsum = SimpleNamespace(enabled=False, strategy=None, is_available=no)
cpu = SimpleNamespace(get_cpu_capability=lambda: "DEFAULT")
