"""Printing tensors as PyTorch prints them, character for character.

Owns the print options. One `Format` looks at the numbers that will be shown and settles width and notation for all
of them; large tensors show their edges only. Read `format_tensor` first.
"""
import contextlib
import math

import numpy as np

from .core import dtypes, modes
from .tensor import PLAIN, Parameter

PROFILES = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, math.inf, 3, 80)}


class Options:
    """The print options of the process."""

    precision, threshold, edgeitems, linewidth = PROFILES["default"]
    sci_mode = None


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """Set how tensors print.

    Digits after the point, the number of elements from which only edges are shown, how many at each edge, the width
    of a line, one of the profiles 'default', 'short', 'full', and whether to use scientific notation (None: as fits).

    >>> import rushlight as torch
    >>> torch.set_printoptions(precision=2)
    >>> torch.tensor([1.12345])
    tensor([1.12])
    >>> torch.set_printoptions(profile="default")
    """
    if profile in PROFILES:
        Options.precision, Options.threshold, Options.edgeitems, Options.linewidth = PROFILES[profile]
    for name, value in (("precision", precision), ("threshold", threshold), ("edgeitems", edgeitems), ("linewidth", linewidth)):
        if value is not None:
            setattr(Options, name, value)
    Options.sci_mode = sci_mode


def get_printoptions():
    """The print options, as a dict.

    >>> from rushlight.tensor_repr import get_printoptions
    >>> get_printoptions()["precision"]
    4
    """
    return {name: getattr(Options, name) for name in ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")}


@contextlib.contextmanager
def printoptions(**changes):
    """Context manager: set print options for a block; takes the arguments of `set_printoptions`."""
    before = get_printoptions()
    set_printoptions(**changes)
    try:
        yield
    finally:
        set_printoptions(**before)


class Format:
    """How the numbers of one array are written: the same notation and width for all."""

    def __init__(self, array):
        self.floating, self.integral, self.scientific, self.width = array.dtype.kind == "f", True, False, 1
        flat = array.reshape(-1)
        if not self.floating:
            self.width = max(map(len, map(str, flat.tolist())), default=1)
        else:
            self.settle(flat[np.isfinite(flat) & (flat != 0)])

    def settle(self, values):
        """Choose the notation from the finite numbers that are not 0."""
        if not values.size:
            return
        sizes = np.abs(values.astype(np.float64))
        least, most = float(sizes.min()), float(sizes.max())
        self.integral = bool((values == np.ceil(values)).all())
        wide = most / least > 1000.0 or most > 1.0e8
        self.scientific = wide if self.integral else wide or least < 1.0e-4
        if Options.sci_mode is not None:
            self.scientific = Options.sci_mode
        if self.scientific:
            self.width = max(len(f"{value:.{Options.precision}e}") for value in values.tolist())
        elif self.integral:
            self.width = max(len(f"{value:.0f}") for value in values.tolist()) + 1
        else:
            self.width = max(len(f"{value:.{Options.precision}f}") for value in values.tolist())

    def __call__(self, value):
        """The text of one number, at the common width."""
        if not self.floating:
            text = str(value)
        elif self.scientific:
            text = f"{value:{self.width}.{Options.precision}e}"
        elif self.integral:
            text = f"{value:.0f}"
            if math.isfinite(value):
                text += "."
        else:
            text = f"{value:.{Options.precision}f}"
        return text.rjust(self.width)


class Formats:
    """Formats for real and, for complex arrays, imaginary parts."""

    def __init__(self, array):
        self.complex = array.dtype.kind == "c"
        self.real = Format(array.real if self.complex else array)
        self.imaginary = Format(array.imag) if self.complex else None

    @property
    def length(self):
        """Characters that an element takes in a line, with the comma and blank after it."""
        return self.real.width + 2 + (self.imaginary.width + 1 if self.complex else 0)

    def __call__(self, value):
        if not self.complex:
            return self.real(value)
        imaginary = (self.imaginary(value.imag) + "j").lstrip()
        return self.real(value.real) + ("" if imaginary[0] in "+-" else "+") + imaginary


def edges(array):
    """What is shown of a large array: up to `edgeitems` at both ends of each dim."""
    count = Options.edgeitems
    for dim in range(array.ndim):
        size = array.shape[dim]
        if size > 2 * count:
            at = (slice(None),) * dim
            array = np.concatenate((array[(*at, slice(count))], array[(*at, slice(size - count, size))]), axis=dim)  # np.take would copy it whole
    return array


def write_vector(array, indent, summarize, write):
    """One row in brackets, broken into lines."""
    per_line = max(1, math.floor((Options.linewidth - indent) / write.length))
    count = Options.edgeitems
    if summarize and not count:
        items = ["..."]
    elif summarize and array.shape[0] > 2 * count:
        items = [*map(write, array[:count].tolist()), " ...", *map(write, array[-count:].tolist())]
    else:
        items = list(map(write, array.tolist()))
    lines = [", ".join(items[at:at + per_line]) for at in range(0, len(items), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def write_array(array, indent, summarize, write):
    """The numbers of an array of any dims in nested brackets."""
    if array.ndim == 0:
        return write(array.item())
    if array.ndim == 1:
        return write_vector(array, indent, summarize, write)
    count = Options.edgeitems
    if summarize and array.shape[0] > 2 * count:
        parts = [write_array(part, indent + 1, summarize, write) for part in array[:count]]
        parts.append("...")
        parts += [write_array(part, indent + 1, summarize, write) for part in array[len(array) - count:]]
    else:
        parts = [write_array(part, indent + 1, summarize, write) for part in array]
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def contents(array, indent):
    """The numbers as text, without what stands around them."""
    if array.size == 0:
        return "[]"
    if array.dtype.kind in "fcbiu":
        array = array.astype(np.float32) if array.dtype.itemsize == 2 and array.dtype.kind == "f" else array
    else:
        array = array.astype(np.float32)  # bfloat16: a kind of its own to NumPy
    summarize = array.size > Options.threshold
    return write_array(array, indent, summarize, Formats(edges(array) if summarize else array))


def add_suffixes(text, suffixes, indent):
    """Append `, suffix` for each, on a new line where the line would get too long, and the closing bracket."""
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if length + len(suffix) + 2 > Options.linewidth:
            text += ",\n" + " " * indent + suffix
            length = indent + len(suffix)
        else:
            text += ", " + suffix
            length += len(suffix) + 2
    return text + ")"


def format_tensor(tensor, tensor_contents=None, history=None):
    """The text of a tensor, as PyTorch's `repr` gives it; `tensor_contents` replaces the numbers, `history` what is said of gradients.

    >>> import rushlight as torch
    >>> torch.arange(3.0) / 3
    tensor([0.0000, 0.3333, 0.6667])
    """
    array, dtype, kind = tensor._array, tensor._dtype, type(tensor)
    parameter, plain = isinstance(tensor, Parameter), kind in PLAIN or kind is Parameter
    prefix = "tensor(" if plain else kind.__name__ + "("
    default, suffixes = modes.get_default_dtype(), []
    if array.size == 0:
        if array.ndim != 1:
            suffixes.append(f"size={tuple(array.shape)}")
        if dtype is not default:
            suffixes.append(f"dtype={dtype}")
    else:
        if not Options.edgeitems:
            suffixes.append(f"size={tuple(array.shape)}")
        if dtype not in (default, default.to_complex(), dtypes.int64, dtypes.bool):
            suffixes.append(f"dtype={dtype}")
    text = contents(array, len(prefix)) if tensor_contents is None else tensor_contents
    node = tensor.grad_fn
    if history is not None:
        suffixes += [history] if history else []
    elif node is not None:
        suffixes.append(f"grad_fn=<{type(node).__name__}>")
    elif tensor._requires_grad:
        suffixes.append("requires_grad=True")
    text = add_suffixes(prefix + text, suffixes, len(prefix))
    if parameter and not plain:
        text = f"Parameter({text})"
    return "Parameter containing:\n" + text if parameter else text
