"""`torch.testing`: `assert_close`, with PyTorch's tolerances and messages, and `make_tensor`."""
import collections.abc
import math

import numpy as np

from . import ops
from .core import dtypes
from .core.devices import require_cpu
from .core.size import Size, product
from .tensor import Tensor, wrap

__all__ = ["assert_close", "assert_allclose", "make_tensor"]

# dtype name -> (rtol, atol)
TOLERANCES = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
              "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7)}
NUMBERS = {int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128}


class Different(Exception):
    """A difference found: the message's parts and where it is in nested inputs."""

    def __init__(self, kind, text, place):
        super().__init__(text)
        self.kind, self.text, self.place = kind, text, place

    def error(self, msg):
        text = self.text
        if self.place:
            text += "\n\nThe failure occurred for item " + "".join(f"[{key!r}]" for key in self.place)
        if msg is not None:
            text = msg(text) if callable(msg) else msg
        return self.kind(text)


def default_tolerances(*kinds, rtol, atol):
    """Given tolerances, else the widest of the dtypes'."""
    if (rtol is None) != (atol is None):
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {'rtol' if rtol is None else 'atol'}.")
    if rtol is not None:
        return rtol, atol
    pairs = [TOLERANCES.get(kind.name, (0.0, 0.0)) for kind in kinds]
    return max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False, check_device=True, check_dtype=True,
                 check_layout=True, check_stride=False, msg=None):
    """Raise AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere.

    Tensors, NumPy arrays, numbers, None, and sequences and mappings of them. Tolerances follow from the dtypes unless both are given;
    shapes and (unless check_dtype is False) dtypes must agree. `msg` replaces the message, or makes one of it.

    >>> import rushlight as torch
    >>> torch.testing.assert_close(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]))
    """
    if (rtol is None) != (atol is None):
        default_tolerances(rtol=rtol, atol=atol)
    options = {"allow_subclasses": allow_subclasses, "rtol": rtol, "atol": atol, "equal_nan": equal_nan, "check_dtype": check_dtype,
               "check_stride": check_stride}
    try:
        for pair in pairs_of(actual, expected, ()):
            compare(*pair, options)
    except Different as difference:
        raise difference.error(msg) from None


def pairs_of(actual, expected, place):
    """The leaves of nested inputs, side by side."""
    if is_sequence(actual) and is_sequence(expected):
        if len(actual) != len(expected):
            raise Different(AssertionError, f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", place)
        for at in range(len(actual)):
            yield from pairs_of(actual[at], expected[at], (*place, at))
    elif isinstance(actual, collections.abc.Mapping) and isinstance(expected, collections.abc.Mapping):
        missing, added = set(expected) - set(actual), set(actual) - set(expected)
        if missing or added:
            raise Different(AssertionError, "The keys of the mappings do not match:\n" + f"Missing keys in the actual mapping: {sorted(missing, key=str)}\n"
                            f"Additional keys in the actual mapping: {sorted(added, key=str)}", place)
        for key in sorted(actual, key=str):
            yield from pairs_of(actual[key], expected[key], (*place, key))
    else:
        yield actual, expected, place


def is_sequence(value):
    return isinstance(value, collections.abc.Sequence) and not isinstance(value, str)


def compare(actual, expected, place, options):
    """Raise Different unless two leaves agree."""
    if actual is None or expected is None:
        if actual is not expected:
            raise Different(AssertionError, f"None mismatch: {actual} is not {expected}", place)
    elif isinstance(actual, (bool, np.bool_)) and isinstance(expected, (bool, np.bool_)):
        if bool(actual) is not bool(expected):
            raise Different(AssertionError, f"Booleans mismatch: {bool(actual)} is not {bool(expected)}", place)
    elif is_number(actual) and is_number(expected):
        compare_numbers(plain_number(actual), plain_number(expected), place, options)
    elif tensor_like(actual) and tensor_like(expected) and related(actual, expected, options["allow_subclasses"]):
        compare_tensors(as_tensor(actual), as_tensor(expected), place, options)
    else:
        raise Different(TypeError, f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.", place)


def is_number(value):
    return isinstance(value, (int, float, complex, np.number)) and not isinstance(value, bool)


def plain_number(value):
    return value.item() if isinstance(value, np.number) else value


def tensor_like(value):
    return isinstance(value, (Tensor, np.ndarray))


def related(actual, expected, allow_subclasses):
    if not allow_subclasses and type(actual) is not type(expected):
        return False
    return isinstance(actual, type(expected)) or isinstance(expected, type(actual)) or isinstance(actual, Tensor) and isinstance(expected, Tensor)


def as_tensor(value):
    return value.detach() if isinstance(value, Tensor) else wrap(np.asarray(value))


def compare_numbers(actual, expected, place, options):
    if options["check_dtype"] and type(actual) is not type(expected):
        raise Different(AssertionError, f"The (d)types do not match: {type(actual)} != {type(expected)}.", place)
    rtol, atol = default_tolerances(NUMBERS[type(actual)], NUMBERS[type(expected)], rtol=options["rtol"], atol=options["atol"])
    if actual == expected or options["equal_nan"] and actual != actual and expected != expected:
        return
    gap = abs(actual - expected)
    if math.isfinite(gap) and gap <= atol + rtol * abs(expected):
        return
    raise Different(AssertionError, scalar_text(actual, expected, rtol, atol), place)


def scalar_text(actual, expected, rtol, atol):
    equality = rtol == 0 and atol == 0
    gap = abs(actual - expected)
    relative = gap / abs(expected) if expected != 0 else math.inf
    lines = [f"Scalars are not {'equal' if equality else 'close'}!", "", f"Expected {expected} but got {actual}.",
             f"Absolute difference: {gap}" + ("" if equality else f" (up to {atol} allowed)"),
             f"Relative difference: {relative}" + ("" if equality else f" (up to {rtol} allowed)")]
    return "\n".join(lines)


def compare_tensors(actual, expected, place, options):
    def unequal(name, a, b):
        return Different(AssertionError, f"The values for attribute '{name}' do not match: {a} != {b}.", place)
    if actual.shape != expected.shape:
        raise unequal("shape", actual.shape, expected.shape)
    if options["check_dtype"] and actual.dtype is not expected.dtype:
        raise unequal("dtype", actual.dtype, expected.dtype)
    if options["check_stride"] and actual.stride() != expected.stride():
        raise unequal("stride()", actual.stride(), expected.stride())
    rtol, atol = default_tolerances(actual.dtype, expected.dtype, rtol=options["rtol"], atol=options["atol"])
    if actual.dtype is not expected.dtype:
        kind = dtypes.float64 if not (actual.dtype.is_complex or expected.dtype.is_complex) else dtypes.complex128
        both_whole = not any(t.dtype.is_floating_point or t.dtype.is_complex for t in (actual, expected))
        actual, expected = actual.to(dtypes.int64 if both_whole else kind), expected.to(dtypes.int64 if both_whole else kind)
    matches = ops.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=options["equal_nan"])
    if not matches.all():
        raise Different(AssertionError, mismatch_text(actual, expected, matches, rtol, atol), place)


def mismatch_text(actual, expected, matches, rtol, atol):
    """How many elements differ, and where they differ most."""
    if not actual.ndim:
        return scalar_text(actual.item(), expected.item(), rtol, atol)
    equality = rtol == 0 and atol == 0
    if not (actual.dtype.is_floating_point or actual.dtype.is_complex):
        actual, expected = actual.to(dtypes.int64), expected.to(dtypes.int64)
    total, wrong = actual.numel(), int((~matches).sum().item())
    keep = matches._array.reshape(-1)
    gap = (actual - expected).abs().flatten().clone()
    gap._array[keep] = 0
    relative = gap / expected.abs().flatten()
    relative._array[keep] = 0
    shape = tuple(actual.shape)

    def greatest(name, values, tolerance):
        wide = values._array.astype(np.float64) if values._array.dtype.kind in "fV" else values._array
        at = int(np.argmax(wide))  # a NaN counts as the largest
        where = tuple(int(i) for i in np.unravel_index(at, shape))
        return f"Greatest {name} difference: {values[at].item()} at index {where}" + ("" if equality else f" (up to {tolerance} allowed)")

    return "\n".join([f"Tensor-likes are not {'equal' if equality else 'close'}!", "", f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})",
                      greatest("absolute", gap, atol), greatest("relative", relative, rtol)])


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    """The old form of `assert_close`, which does not look at dtypes.

    >>> import rushlight as torch
    >>> torch.testing.assert_allclose(torch.tensor([1.0]), [1.0])
    """
    actual, expected = (value if isinstance(value, Tensor) else ops.tensor(value) for value in (actual, expected))
    if rtol is None and atol is None:
        rtol, atol = default_tolerances(actual.dtype, expected.dtype, rtol=None, atol=None)
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)


def bounds_of(dtype, low, high):
    """The range of `make_tensor`: the defaults of the dtype, or what was given, cut to what the dtype holds."""
    default = (0, 2) if dtype is dtypes.bool else (0, 10) if not dtype.is_signed else (-9, 10) if dtype.category < dtypes.FLOAT else (-9, 9)
    low, high = default[0] if low is None else low, default[1] if high is None else high
    if any(isinstance(value, float) and math.isnan(value) for value in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low == high and dtype.category >= dtypes.FLOAT:
        return low, high
    if low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    if dtype is dtypes.bool:
        least, most = 0, 2
    elif dtype.category < dtypes.FLOAT:
        info = dtypes.iinfo(dtype)
        least, most = info.min, info.max + 1
    else:
        info = dtypes.finfo(dtype.to_real())
        least, most = info.min, info.max
    if low > most or high < least:
        raise ValueError(f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only supports [{least}, {most})")
    low, high = max(low, least), min(high, most)
    return (math.ceil(low), math.ceil(high)) if dtype.category < dtypes.FLOAT else (low, high)


def make_tensor(*shape, dtype, device="cpu", low=None, high=None, requires_grad=False, noncontiguous=False, exclude_zero=False, memory_format=None):
    """A tensor of random numbers of [low, high), for tests.

    The default range is [-9, 9) for floats, [-9, 10) for integers, [0, 10) for uint8 and both values for bool. ValueError for a range that
    the dtype does not hold.

    >>> import rushlight as torch
    >>> torch.testing.make_tensor((2, 3), dtype=torch.float32, device="cpu").shape
    torch.Size([2, 3])
    """
    require_cpu(device)
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = shape[0]
    shape = Size(shape)
    if noncontiguous and memory_format is not None:
        raise ValueError(f"The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got {noncontiguous=} and {memory_format=}")
    if requires_grad and dtype.category < dtypes.FLOAT:
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}")
    wide = noncontiguous and product(shape) > 1
    if wide:  # drawn twice as wide, every other element kept
        shape = shape[:-1] + (2 * shape[-1],)
    low, high = bounds_of(dtype, low, high)
    if dtype.category < dtypes.FLOAT:
        result = ops.randint(low, high, shape, dtype=dtype)
    elif low == high:
        result = ops.full(shape, low, dtype=dtype)
    else:
        result = ops.empty(shape, dtype=dtype)
        if high - low >= dtypes.finfo(dtype.to_real()).max:
            result.uniform_(low / 2, high / 2).mul_(2)
        else:
            result.uniform_(low, high)
    if wide:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = 1 if dtype.category < dtypes.FLOAT else dtypes.finfo(dtype.to_real()).tiny
    return result.requires_grad_(requires_grad)
