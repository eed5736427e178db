"""Rushlight: a PyTorch-shaped deep-learning framework in Python. `import rushlight as torch` runs ordinary CPU PyTorch code.

What every program needs is imported here; the rest (nn, optim, compile, ...) loads when its name is first used.
"""
import importlib
import os

from .core.collector import Waits

with Waits():
    from . import autograd, ops
    from .autograd.graph import is_anomaly_check_nan_enabled, is_anomaly_enabled
    from .core import absent, busy, dtypes, modes, parallel
    from .core.devices import device
    from .core.dtypes import (bfloat16, bool, cdouble, cfloat, complex64, complex128, double, dtype, finfo, float, float16, float32, float64,
                              half, iinfo, int, int8, int16, int32, int64, long, short, uint8, uint16, uint32, uint64)
    from .core.errors import OutOfMemoryError
    from .core.layouts import (channels_last, channels_last_3d, contiguous_format, layout, memory_format, preserve_format, sparse_coo, sparse_csr,
                               strided)
    from .core.modes import enable_grad, get_default_dtype, inference_mode, no_grad, set_default_dtype, set_grad_enabled
    from .core.promotion import can_cast, promote_types
    from .core.size import Size
    from .ops import dispatch, generate, graph_node, halves, record, repeated
    from .tensor import Tensor

__version__ = "0.1.0"
is_grad_enabled, is_inference_mode_enabled = modes.grad_enabled, modes.inference_enabled
inf, nan, pi, e, newaxis = ops.INF, ops.NAN, ops.PI, ops.E, None
globals().update(ops.TORCH.present())
if os.environ.get("RUSHLIGHT_NUM_THREADS"):  # OpenBLAS reads OMP_NUM_THREADS itself, but not ours
    parallel.limit_blas(parallel.Threads.count)


def on_all_cores(op, *args):
    """The first large array of an eager op: the kernels load, and take this function's place."""
    imported("kernels.eager").install()
    return generate.NAMES["on_all_cores"](op, *args)


def fused_on_all_cores(*args):
    """The same of an op in place with a number besides its tensors."""
    imported("kernels.eager").install()
    return generate.NAMES["fused_on_all_cores"](*args)


def until_large(name):
    """What makes of a raw rule one at whose first large gradient the kernels load, and take its place: no op before need have loaded them."""
    def wrap(raw):
        def backward(g, *rest):
            if type(g) is not generate.ndarray or g.size < generate.NAMES["LARGE"] or generate.NAMES["on_all_cores"] is not on_all_cores:
                return raw(g, *rest)
            imported("kernels.eager").install()
            return record.RAW[name](g, *rest)

        return backward

    return wrap


HALF_WORK = 1 << 21  # multiplications of half types from which a program pays


def half_product(name, left, right):
    """A product of half types: where it is large, the kernels know whether the processor has an instruction for it."""
    large = left.dtype == right.dtype and left.size * right.shape[-1] >= HALF_WORK
    return imported("kernels.eager").half_product(name, left, right) if large else None


def half_linear(name, bias, input, weight):
    """The same of a linear layer, with its bias."""
    large = input.dtype == weight.dtype == bias.dtype and weight.ndim == 2 <= input.ndim and input.size * weight.shape[0] >= HALF_WORK
    return imported("kernels.eager").half_product(name, bias, input, weight) if large else None


def half_cast(name, array, dtype, source):
    """A large array of a half type in another dtype."""
    return imported("kernels.eager").attempt_cast(array, dtype, source) if array.size >= generate.NAMES["LARGE"] else None


def recast_half(array, dtype):
    """The same without the names of its dtypes."""
    large = array.size >= generate.NAMES["LARGE"] and array.dtype in dtypes.BY_NUMPY and dtype in dtypes.BY_NUMPY
    return imported("kernels.eager").attempt_cast(array, dtypes.BY_NUMPY[dtype], dtypes.BY_NUMPY[array.dtype]) if large else None


def half_points(op, *args):
    """A large elementwise op of half types."""
    return imported("kernels.eager").halves(op, *args)


def half_rule(op, name, shape, values):
    """The same of an op's rule."""
    return imported("kernels.eager").half_gradient(op, name, shape, values)


def half_gradients(name, g):
    """Whether the gradients of a product are products of a half type that the processor multiplies itself."""
    return name in dispatch.HALF_PRODUCTS and g.dtype.name == "bfloat16" and g.size >= 1 << 14 and imported("kernels.matmul_half").usable()


def compiled(function, use):
    """What has run for long (recurrent layers, chains of ops), for arrays of any size; as they are where no machine code can be made."""
    usable = imported("kernels.llvm").available()
    return imported("compile.api").compile(function, dynamic=True, backend="inductor") if usable else function


def compiled_chain(function, use):
    """The same of a chain of ops, as one op of the graph."""
    def call(*args):
        return function(*args)

    return compiled(call, use)


graph_node.HALF_GRADIENTS.append(half_gradients)
graph_node.HALF_CASTS.append(recast_half)
graph_node.HALF_RULES.append(half_rule)
dispatch.HALF_POINTS.append(half_points)
busy.compilers.update({"recurrent layers": compiled, "products": lambda function, use: imported("kernels.repeated").product(function, use),
                       "few elements": lambda function, use: imported("kernels.repeated").few(function, use),
                       "attention": lambda function, use: imported("kernels.repeated").attention(function, use),
                       "chains of ops": compiled_chain, "acts along a dim": lambda function, use: imported("kernels.eager").act_along,
                       "rows of half types": lambda function, use: imported("kernels.eager").half_rows,
                       "random numbers": lambda function, use: imported("kernels.draws").make(),
                       "random numbers of varying draws": lambda function, use: imported("kernels.rejection").make()})
for _name in "max_pool_backward embedding_backward index_backward cross_entropy_backward".split():
    if dict.__contains__(record.REGISTRY, _name):
        record.RAW[_name] = until_large(_name)(record.RAW[_name])
    else:
        record.WRAPPED[_name] = until_large(_name)
generate.NAMES.update(LARGE=1 << 17, on_all_cores=on_all_cores, fused_on_all_cores=fused_on_all_cores)
dispatch.HALF_PRODUCTS.update(dict.fromkeys(halves.ROWS, repeated.rows_of_halves), _cast=half_cast, _mm=half_product, bmm=half_product, _bmm_batch=half_product, _linear_rows=half_linear, _linear_batch=half_linear)
# Public names by the module of ours that has them, loaded on first use.
MODULES = {name: name for name in (
    "_dynamo", "_higher_order_ops", "accelerator", "amp", "backends", "compiler", "cuda", "data", "diagnostics", "distributed",
    "distributions", "export", "fft", "func", "fx", "jit", "library", "linalg", "masked", "mps", "multiprocessing", "nn", "onnx", "optim", "overrides", "profiler",
    "random", "serialization", "serialize", "signal", "special", "static", "testing", "utils", "version", "xpu")}
NAMES = {"Generator": "ops.random", "default_generator": "ops.random",
         "save": "serialize", "load": "serialize", "set_printoptions": "tensor_repr", "compile": "compile", "vmap": "func", "autocast": "amp", "GradScaler": "amp",
         "is_autocast_enabled": "amp", "is_autocast_cpu_enabled": "amp", "get_autocast_dtype": "amp", "set_autocast_enabled": "amp",
         "set_float32_matmul_precision": "threads", "get_float32_matmul_precision": "threads",
         "set_num_threads": "threads", "get_num_threads": "threads", "set_num_interop_threads": "threads", "get_num_interop_threads": "threads",
         "set_flush_denormal": "kernels.flush", "use_deterministic_algorithms": "threads", "are_deterministic_algorithms_enabled": "threads", "cond": "func", "while_loop": "func",
         "lstm": "recurrent", "gru": "recurrent", "rnn_tanh": "recurrent", "rnn_relu": "recurrent", "_pack_padded_sequence": "recurrent", "_pad_packed_sequence": "recurrent",
         "_assert": "export.runtime_checks", "_assert_async": "export.runtime_checks", "_check": "export.runtime_checks", "_check_is_size": "export.runtime_checks", "_check_value": "export.runtime_checks"}


def __getattr__(name):
    if name in ops.TORCH:
        globals()[name] = value = ops.TORCH[name]
        return value
    if name in NAMES:
        value = getattr(imported(NAMES[name]), name)
        globals()[name] = value
        return value
    if name.startswith("_foreach_"):
        function = imported("foreach").foreach(name)
        if function is not None:
            globals()[name] = function
            return function
    if name in MODULES:
        return imported(name)
    if name == "__all__":  # `import *`: what is loaded, and the ops that are not yet
        return [name for name in {**globals(), **ops.TORCH} if not name.startswith("_") and name not in OWN]
    absent.refuse("rushlight", name)
    raise absent.NoSuchName("rushlight", name, lambda: [] if name.startswith("__") else [*globals(), *ops.TORCH.names(), *NAMES, *MODULES])


def imported(module):
    """A module of this package."""
    with Waits():
        return importlib.import_module("." + module, __name__)


# This file's own business.
OWN = set("""HALF_WORK MODULES NAMES OWN Waits _name absent busy compiled compiled_chain dispatch dtypes fused_on_all_cores generate graph_node half_cast half_gradients
    half_linear half_points half_product half_rule halves imported importlib modes on_all_cores os parallel recast_half record repeated until_large""".split())


def __dir__():
    return sorted({*globals(), *ops.TORCH.names(), *NAMES, *MODULES} - OWN)


def is_tensor(obj):
    """Whether an object is a tensor.

    >>> import rushlight as torch
    >>> torch.is_tensor(torch.ones(1)), torch.is_tensor([1])
    (True, False)
    """
    return isinstance(obj, Tensor)


def is_floating_point(input):
    """Whether a tensor's dtype is a floating point one."""
    return input.is_floating_point()


def is_complex(input):
    """Whether a tensor's dtype is complex."""
    return input.is_complex()


def numel(input):
    """The number of elements of a tensor."""
    return input.numel()


def get_default_device():
    """The CPU."""
    return device("cpu")


def set_default_device(device):
    """Only the CPU can be set."""
    from .core.devices import require_cpu
    require_cpu(device)


def result_type(tensor1, tensor2):
    """The dtype of arithmetic between two tensors or numbers.

    >>> import rushlight as torch
    >>> torch.result_type(torch.tensor([1, 2]), 1.0)
    torch.float32
    """
    from .core.promotion import result_dtype
    return result_dtype((tensor1, tensor2))


def set_default_tensor_type(t):
    """Set the default dtype by an old tensor type, such as torch.DoubleTensor or its name."""
    name = t if isinstance(t, str) else t.__name__
    set_default_dtype(next(d for d in dtypes.ALL if d.tensor_name == name.split(".")[-1]))


def typename(obj):
    """The name of a tensor's type, as 'torch.FloatTensor'."""
    return obj.type() if isinstance(obj, Tensor) else f"{type(obj).__module__}.{type(obj).__name__}"


def is_deterministic_algorithms_warn_only_enabled():
    """False."""
    return False
