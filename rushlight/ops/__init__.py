"""The ops: records (record.py), the generator of their eager code (generate.py), and one file per family."""
import math
import warnings

from . import dispatch, pointwise, view, reduction, contraction, convert, creation
from . import splitting, indexing, joining, gathering, extrema, random, complex, shaping, arranging, selecting, aggregation, scans, sorting, numeric, norms, searching, windows, importing, storage
from . import factors, decompositions, solvers, matrix_norms, matrix_products, lowrank
from . import activation, softmax, linear, dropout, loss, class_loss, normalization, convolution, pooling, embedding, attention, resampling, adaptive_pooling
from . import special, special_series, fourier
from . import sampled, padding, stft, patches, grid, distance, margin_loss, ctc, functional
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
