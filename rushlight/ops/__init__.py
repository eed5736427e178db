"""The ops: records (record.py), the generator of their eager code (generate.py), and one file per family.

The families that nearly every program uses are imported here; the others load when one of their names is first used (late.py).
"""
import math

from ..core import absent
from . import (
    activation,
    aliases,
    attach,
    comparison,
    complex,
    contraction,
    convert,
    creation,
    importing,
    indexing,
    joining,
    late,
    operators,
    pointwise,
    powers,
    random,
    reduction,
    rounding,
    shaping,
    splitting,
    storage,
    view,
)
from .attach import FFT, FUNCTIONAL, LINALG, SPECIAL, TORCH

INF, NAN, PI, E = math.inf, math.nan, math.pi, math.e


def __getattr__(name):
    if name in late.MODULES:  # `ops.dropout` is the file, loaded or not
        return late.load(name)
    if name in TORCH:
        return TORCH[name]
    return absent.refuser("rushlight.ops")(name)
