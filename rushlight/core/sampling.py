"""Uniform, integer, Bernoulli and other direct draws, as PyTorch's CPU kernels make them from the same stream.

Each `name_` function fills an ndarray in place, in the order of its memory, and returns it; arguments are
checked as PyTorch checks them. What is equal bit for bit and what is not is listed in docs/random.md. Normal
numbers are in `normal`, those that take a varying count of draws in `rejection`. Read `uniform_` first.
"""
import math

import numpy as np

from .generator import default_generator, machine
from .normal import affine, in_memory_order, scalars

FLOAT32, INT64 = np.dtype(np.float32), np.dtype(np.int64)
FEW = 256  # numbers for which NumPy's remainder takes no longer than its quick way to divide
CHUNK = 1 << 16  # words a step: they stay in the second cache level
DIGITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
BFLOAT16_MAX = 255 * 2.0 ** 120  # NumPy does not know it, and ml_dtypes is loaded only for who uses the dtype
EXACT = 4096  # up to so many float64 values, libm's functions are used: NumPy's may differ in the last bit


def fill(array, draw):
    """Fill `array` in memory order from `draw(count)`, in steps; `draw` holds the generator's lock itself."""
    if array.flags.c_contiguous:
        flat = array.reshape(-1)
        for low in range(0, flat.size, CHUNK):
            part = flat[low:low + CHUNK]
            values = draw(part.size)
            part[...] = values.astype(np.float32) if part.itemsize == 2 and values.dtype == np.float64 else values
        return array
    ordered = in_memory_order(array)
    values = np.empty(array.size, array.dtype)
    fill(values, draw)
    ordered[...] = values.reshape(ordered.shape)
    return array


def unit(count, kind, generator):
    """`count` uniform numbers of [0, 1): 53 bits for float64, else 24 bits as float32."""
    if kind == np.float64:
        return generator.doubles(count)
    code = machine(count)
    if code is not None:
        return generator.fill(code.uniform, np.empty(count, np.float32))
    words = generator.words(count)
    words &= np.uint64(0xFFFFFF)
    values = words.view(np.int64).astype(np.float32)
    values *= np.float32(2.0 ** -24)
    return values


def uniform_(array, low=0.0, high=1.0, generator=None):
    """Fill a floating or complex array with uniform numbers of [low, high).

    Raises RuntimeError where low > high or the span overflows the dtype.
    """
    if not low <= high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}")
    kind, generator = array.dtype, generator or default_generator
    if kind is FLOAT32 and -1e38 < low and high < 1e38 and array.flags.c_contiguous:
        code = machine(array.size)
        if code is not None:
            generator.fill(code.uniform, array)
            return array if low == 0.0 and high == 1.0 else spread(array, float(np.float32(low)), float(np.float32(high)))
    if kind.kind == "c":
        uniform_(as_real(array), low, high, generator)
        return array
    wide = kind == np.float64
    most = BFLOAT16_MAX if kind.name == "bfloat16" else float(np.finfo(kind).max)
    for name, bound in (("from", low), ("to", high)):
        if not -most <= bound <= most:
            raise RuntimeError(f"{name} is out of bounds for {TORCH_NAMES[kind.name]}")
    if not wide:  # the 16-bit dtypes too are drawn with float32 bounds
        low, high = float(np.float32(low)), float(np.float32(high))
    with np.errstate(over="ignore"):
        span = high - low if wide else float(np.float32(high - low))
    if not span <= (np.finfo(np.float64) if wide else np.finfo(np.float32)).max:
        raise RuntimeError(f"uniform_ expects to-from <= std::numeric_limits<{kind}>::max(), but found to={high} and from={low} "
                           "which result in to-from to exceed the limit")
    top, bottom = np.asarray(high, kind), np.asarray(low, kind)

    def draw(count):
        values = unit(count, kind, generator)
        if low == 0.0:
            if span != 1.0:
                values *= values.dtype.type(span)
        elif wide:
            values = affine(values, span, low)
        else:
            values = (values.astype(np.float64) * span + low).astype(np.float32)
        if low == 0.0 and span == 1.0 and kind.itemsize > 2:
            return values
        values = values.astype(kind)
        values[values >= top] = bottom  # what rounding brought up to `high` becomes `low`
        return values
    with generator.lock:
        return fill(array, draw)


def spread(array, low, high):
    """Change float32 numbers of [0, 1) to [low, high), which are float32 numbers: as PyTorch rounds them."""
    span = float(np.float32(high - low))
    if low == 0.0:
        array *= np.float32(span)
    else:
        wide = array.astype(np.float64)
        wide *= span
        wide += low
        array[...] = wide
    array[array >= np.float32(high)] = low  # what rounding brought up to `high` becomes `low`
    return array


def as_real(array):
    """A complex array as reals, one more dim of two."""
    return np.lib.stride_tricks.as_strided(array.real, (*array.shape, 2), (*array.strides, array.itemsize // 2))


def randint_(array, low, high=None, generator=None):
    """Fill an integer, bool or floating array with integers of [low, high); None: up to what `random_` gives.

    Raises RuntimeError where low >= high or a bound does not fit the dtype.
    """
    if high is None:
        high = top_of(array.dtype) + 1
    if not low < high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if array.dtype is not INT64 or low < -1 << 63 or high > 1 << 63:
        check_bounds(array.dtype, low, high - 1)
        if array.dtype.name in DIGITS and high - low < 1 << 64:
            low, high = inward(low, high, array.dtype)
    generator, span = generator or default_generator, high - low
    if span < 1 << 28 and array.dtype is INT64 and array.size <= FEW and array.flags.c_contiguous:
        words = generator.words(array.size).view(np.int64)
        np.remainder(words, span, array.reshape(-1))
        if low:
            array += low
        return array
    wide = span >= 1 << 28  # then 64-bit draws: the remainder of 32-bit ones would be biased

    def draw(count):
        values = generator.longs(count) if wide else generator.words(count)
        if span == 1 << 64:
            return values.view(np.int64)
        if span & (span - 1):
            values -= values // np.uint64(span) * np.uint64(span)  # NumPy has a fast way to divide, and none for the rest
        else:
            values &= np.uint64(span - 1)
        values = values.view(np.int64)
        values += np.int64(low)
        return values
    with generator.lock:
        return fill(array, draw)


def inward(low, high, kind):
    """Both bounds of [low, high) moved inward where the dtype, a floating one, cannot hold the first or last number."""
    digits = DIGITS[kind.name]

    def rounded(number):
        return int(float(np.float64(number) if kind == np.float64 else np.float32(number).astype(kind)))
    first, last = rounded(low + 1), rounded(high - 1)
    if first < low:
        low = first + (1 << (abs(low + 1).bit_length() - digits))
    if last >= high:
        high = last - (1 << (abs(high - 1).bit_length() - digits))
    return low, high


def check_bounds(kind, low, top):
    """Both inclusive bounds must be numbers of the dtype."""
    if kind.kind == "b":
        least, most = 0, 1
    elif kind.kind in "iu":
        limits = np.iinfo(kind)
        least, most = int(limits.min), int(limits.max)
    else:
        most = 65504 if kind == np.float16 else (1 << 63) - 1
        least = -most - (kind != np.float16)
    for name, bound in (("from", low), ("to - 1", top)):
        if not least <= bound <= most:
            raise RuntimeError(f"{name} is out of bounds for {TORCH_NAMES.get(kind.name, kind.name)}: {bound} is not in "
                               f"[{least}, {most}]")


TORCH_NAMES = {"bool": "bool", "uint8": "unsigned char", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long",
               "float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float", "float64": "double"}


def top_of(kind):
    """The largest integer that `random_` gives for a dtype."""
    if kind.kind == "b":
        return 1
    return int(np.iinfo(kind).max) if kind.kind in "iu" else 1 << DIGITS[kind.name]


def random_(array, generator=None):
    """Fill with integers of [0, largest of the dtype], or for floating dtypes of [0, 2**digits]."""
    generator, kind = generator or default_generator, array.dtype
    wide = kind.itemsize == 8
    span = top_of(kind) + 1

    def draw(count):
        values = generator.longs(count) if wide else generator.words(count)
        return values if span == 1 << 64 else values % np.uint64(span)
    with generator.lock:
        return fill(array, draw)


def randperm(count, generator=None):
    """A random permutation of range(count), an int64 array. RuntimeError for a negative count."""
    if count < 0:
        raise RuntimeError(f"n must be non-negative, got {count}")
    generator = generator or default_generator
    if count < 2:
        return np.arange(count)
    code = machine(count) if count < 0xFFFFFFFF // 20 else None
    if code is not None:
        return generator.fill(code.permutation, np.arange(count))
    words = generator.words(count - 1) if count < 0xFFFFFFFF // 20 else generator.longs(count - 1)
    steps = np.arange(count - 1)
    targets = (words % (count - steps).astype(np.uint64)).view(np.int64) + steps
    if count < 2000:
        order = list(range(count))
        for i, j in enumerate(targets.tolist()):
            order[i], order[j] = order[j], order[i]
        return np.array(order, dtype=np.int64)
    return swapped(targets, count)


def swapped(targets, count):
    """range(count) after the swaps i <-> targets[i] (>= i) in order, without a loop over them.

    Position i holds, when its turn comes, what the last swap with target i put there, and that is what its own
    position held at its turn: chains that are followed to their ends for all positions at once.
    """
    targets = np.append(targets, count - 1)  # the last position swaps with itself
    step = stable_order(targets)
    target = targets[step]
    same = target[1:] == target[:-1]
    held = np.arange(count)
    apart = step != target
    held[target[apart]] = step[apart]  # of equal targets the last, and so the latest, stays
    while True:
        further = held[held]
        if np.array_equal(further, held):
            break
        held = further
    order = np.empty(count, np.int64)
    previous = target.copy()  # nothing swapped into the target before: it holds its own number
    previous[1:][same] = held[step[:-1][same]]
    order[step] = previous
    return order


def stable_order(keys):
    """`argsort` of non-negative int64, stable, by two radix sorts of 16 bits: five times as fast as NumPy's own."""
    if keys.size > 1 << 32:
        return np.argsort(keys, kind="stable")
    order = np.argsort((keys & 0xFFFF).astype(np.uint16), kind="stable")
    return order[np.argsort((keys >> 16).astype(np.uint16)[order], kind="stable")]


def bernoulli_(array, p=0.5, generator=None):
    """Fill with ones of probability p (a number, or an array that broadcasts), zeros else.

    Raises RuntimeError for a p outside [0, 1]. The draws are those of PyTorch without MKL's Intel-only path.
    """
    generator = generator or default_generator
    if isinstance(p, np.ndarray):
        return bernoulli_each(array, p, generator)
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    with generator.lock:
        return fill(array, lambda count: generator.doubles(count) < p)


def bernoulli_each(array, p, generator):
    """Bernoulli with a probability for each element; float64 probabilities take 53-bit draws, others 24-bit."""
    if not ((p >= 0) & (p <= 1)).all():
        raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be improved?  If "
                           "so, please report an enhancement request to PyTorch.)")
    kind = np.dtype(np.float64 if p.dtype == np.float64 else np.float32)
    ordered = in_memory_order(array)
    order = sorted(range(array.ndim), key=lambda dim: -abs(array.strides[dim]))
    chances = np.broadcast_to(p, array.shape)
    chances = (chances if ordered is array else chances.transpose(order)).astype(kind).reshape(-1)
    with generator.lock:
        ordered[...] = (unit(array.size, kind, generator) < chances).reshape(ordered.shape)
    return array


def exponential_(array, lambd=1.0, generator=None):
    """Fill a floating array with exponential numbers of rate lambd. RuntimeError unless lambd > 0."""
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    return from_doubles(array, lambda u: (-1.0 / lambd) * libm(math.log1p, np.log1p, -u, array), generator)


def geometric_(array, p, generator=None):
    """Fill with the number of trials up to the first success, of probability p. RuntimeError unless 0 < p < 1."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    return from_doubles(array, lambda u: np.ceil(np.log(u) / np.log(1.0 - p)), generator)


def cauchy_(array, median=0.0, sigma=1.0, generator=None):
    """Fill a floating array with Cauchy numbers. RuntimeError unless sigma > 0."""
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    return from_doubles(array, lambda u: affine(libm(math.tan, np.tan, np.pi * (u - 0.5), array), sigma, median), generator)


def log_normal_(array, mean=1.0, std=2.0, generator=None):
    """Fill a floating array with exp of normal numbers. RuntimeError unless std > 0."""
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    generator = generator or default_generator
    with generator.lock:
        return fill(array, lambda count: libm(math.exp, np.exp, scalars(count, mean, std, generator), array))


def libm(exact, fast, values, array):
    """A function of float64 values: libm's for a small float64 result, NumPy's otherwise."""
    if array.dtype == np.float64 and values.size <= EXACT:
        return np.array([exact(value) for value in values.tolist()])
    return fast(values)


def from_doubles(array, transform, generator):
    """Fill from one 53-bit uniform an element."""
    generator = generator or default_generator
    with generator.lock, np.errstate(divide="ignore"):
        return fill(array, lambda count: transform(generator.doubles(count)))


def multinomial(weights, count, replacement=False, generator=None):
    """Indices drawn by weight from the last dim of a 1-d or 2-d floating array, int64, `count` a row.

    Raises RuntimeError for other shapes, negative or not finite weights, rows that sum to nothing, and more draws
    than categories without replacement.
    """
    generator = generator or default_generator
    if weights.ndim not in (1, 2):
        raise RuntimeError(f"prob_dist must be 1 or 2 dim, got {weights.ndim}")
    categories = weights.shape[-1]
    if count <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples, got {count}")
    if not replacement and count > categories:
        raise RuntimeError(f"cannot sample n_sample > prob_dist.size(-1) samples without replacement: {count} of {categories}")
    wide = weights.astype(np.float64)
    if not (np.isfinite(wide) & (wide >= 0)).all():
        bad = np.argwhere(~(np.isfinite(wide) & (wide >= 0)))[0].tolist()
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0: "
                           f"{wide[tuple(bad)]} at {tuple(bad)}")
    if categories == 0 or (wide.sum(-1) <= 0).any():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if not replacement or count == 1:
        keys = exponential_(np.empty(weights.shape, weights.dtype), 1.0, generator)
        with np.errstate(divide="ignore", invalid="ignore"):
            keys = (weights.astype(np.float64) / keys.astype(np.float64)).astype(weights.dtype)
        if count == 1:
            return keys.argmax(-1)[..., None]
        return np.argsort(-keys.astype(np.float64), axis=-1, kind="stable")[..., :count]
    rows = np.atleast_2d(weights if weights.itemsize > 2 else weights.astype(np.float32))
    result = np.empty((len(rows), count), np.int64)
    with generator.lock:
        for row, chosen in zip(rows, result, strict=True):
            sums = np.cumsum(row)  # in the dtype, one after the other
            sums /= sums[-1]
            sums[-1] = 1
            chosen[...] = np.searchsorted(sums.astype(np.float64), generator.doubles(count), side="left")
    return result.reshape(*weights.shape[:-1], count)


def dropout_mask(array, p, generator=None):
    """Fill a floating array with the mask of dropout: 0 with probability p, else 1 / (1 - p)."""
    bernoulli_(array, 1.0 - p, generator)
    if p < 1.0:
        array /= array.dtype.type(1.0 - p)
    return array
