"""The ops: records (record.py), the generator of their eager code (generate.py), and one file per family."""
import math
import warnings

from . import (
    activation,
    activation_forms,
    adaptive_pooling,
    aggregation,
    arranging,
    attention,
    bounds,
    class_loss,
    comparison,
    complex,
    contraction,
    convert,
    convolution,
    creation,
    ctc,
    decompositions,
    determinants,
    dispatch,
    distance,
    dropout,
    embedding,
    extrema,
    factors,
    fourier,
    functional,
    gathering,
    grid,
    importing,
    indexing,
    joining,
    least_squares,
    linear,
    loss,
    lowrank,
    margin_loss,
    matrix_norms,
    matrix_products,
    normalization,
    norms,
    numeric,
    operators,
    padding,
    patches,
    pointwise,
    pooling,
    powers,
    random,
    reduction,
    resampling,
    rounding,
    sampled,
    scans,
    searching,
    selecting,
    shaping,
    softmax,
    solvers,
    sorting,
    special,
    special_series,
    splitting,
    stft,
    storage,
    trigonometry,
    view,
    windows,
)
from .attach import FFT, FUNCTIONAL, LINALG, SPECIAL, TORCH, attach_all

# NumPy warns of 1/0 and the like from the frames of our kernels and rules; PyTorch does not. See also dispatch.recover.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"rushlight\.")
attach_all()
functional.publish()
from . import aliases

INF, NAN, PI, E = math.inf, math.nan, math.pi, math.e


def __getattr__(name):
    try:
        return TORCH[name]
    except KeyError:
        raise AttributeError(f"module 'rushlight.ops' has no attribute '{name}'") from None
