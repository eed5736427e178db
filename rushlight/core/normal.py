"""Normal numbers as PyTorch's CPU kernels draw them.

Sixteen or more contiguous elements are drawn in blocks of 16 uniforms, 8 radii and 8 angles, by Box-Muller;
a rest shorter than 16 makes the last 16 be drawn anew. For float32 the logarithm, sine and cosine are the
Cephes polynomials (public domain, S. Moshier), rounded to float32 exactly where PyTorch's AVX2 build rounds:
its compiler fuses some products into sums, so those are computed in float64 and rounded once. Fewer elements,
or strided ones, take scalar pairs of float64 whose second half the generator keeps. Read `normal_` first.
"""
import math

import numpy as np

from .generator import default_generator, machine

CHUNK = 16 * 2048  # uniforms a step: enough to hide the calls, and the scratch rows stay in cache
SPLITTER = 2.0 ** 27 + 1  # cuts a float64 into two halves whose products are exact (Dekker)
TWO_PI = 2.0 * math.pi
FLOAT32 = np.dtype(np.float32)
LOG = [float(np.float32(c)) for c in (7.0376836292E-2, -1.1514610310E-1, 1.1676998740E-1, -1.2420140846E-1, 1.4249322787E-1,
                                      -1.6668057665E-1, 2.0000714765E-1, -2.4999993993E-1, 3.3333331174E-1)]
SIN = [float(np.float32(c)) for c in (-1.9515295891E-4, 8.3321608736E-3, -1.6666654611E-1)]
COS = [float(np.float32(c)) for c in (2.443315711809948E-005, -1.388731625493765E-003, 4.166664568298827E-002)]
LN2_LOW, LN2_HIGH = np.float32(-2.12194440e-4), np.float32(0.693359375)
PI4_HIGH, PI4_MID = np.float32(-0.78515625), np.float32(-2.4187564849853515625e-4)
PI4_LOW = float(np.float32(-3.77489497744594108e-8))
FOUR_OVER_PI = np.float32(1.27323954473516)
SQRT_HALF_BITS = np.int32(0x3F3504F3)
HALF, ONE, MINUS_TWO = np.float32(0.5), np.float32(1), np.float32(-2)


def normal_(array, mean=0.0, std=1.0, generator=None):
    """Fill `array` (floating, any strides) with normal numbers and return it.

    Raises RuntimeError for a negative std. Equal, bit for bit, to `Tensor.normal_` for float32.
    """
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    generator = generator or default_generator
    if array.dtype is FLOAT32 and 16 <= array.size <= CHUNK and not array.size % 16 and array.flags.c_contiguous:
        code = machine(array.size)
        if code is not None:  # one piece: nothing to hold the stream for
            return generator.fill(code.normal, array, mean, std)
    with generator.lock:
        if array.size < 16 or not array.flags.c_contiguous:
            values, ordered = scalars(array.size, mean, std, generator), in_memory_order(array)
            if array.itemsize == 2:
                values = values.astype(np.float32)  # PyTorch rounds twice
            ordered[...] = values.reshape(ordered.shape)
            return array
        flat = array.reshape(-1)
        for low in range(0, flat.size - 15, CHUNK):
            part = flat[low:low + CHUNK]
            whole = part.size // 16 * 16
            fill_blocks(part[:whole], mean, std, generator)
        rest = flat.size % 16
        if rest:
            if flat.itemsize > 2:
                generator.words(rest * flat.itemsize // 4)  # drawn, then overwritten
            fill_blocks(flat[-16:], mean, std, generator)
    return array


def in_memory_order(array):
    """The array with its dims permuted so that iterating it walks memory forward, as PyTorch's kernels do."""
    if array.flags.c_contiguous:
        return array
    order = sorted(range(array.ndim), key=lambda dim: -abs(array.strides[dim]))
    return array.transpose(order)


def scalars(count, mean, std, generator):
    """`count` normals in float64, one Box-Muller pair after the other."""
    values = np.empty(count)
    start = 0
    if generator.next_normal is not None and count:
        values[0], start = generator.next_normal, 1
        generator.next_normal = None
    pairs = (count - start + 1) // 2
    if pairs:
        pair = box_muller(generator.doubles(2 * pairs))
        values[start:] = pair[:count - start]
        if 2 * pairs > count - start:
            generator.next_normal = float(pair[-1])
    return affine(values, std, mean)


def box_muller(uniforms):
    """Pairs of normals from pairs of uniforms. A few take libm's functions, as PyTorch; NumPy's may differ in the last bit."""
    if uniforms.size > 4096:
        radius = np.sqrt(-2.0 * np.log1p(-uniforms[1::2]))
        theta = TWO_PI * uniforms[0::2]
        return np.stack((radius * np.cos(theta), radius * np.sin(theta)), axis=-1).reshape(-1)
    numbers, pair = uniforms.tolist(), []
    for i in range(0, len(numbers), 2):
        radius, theta = math.sqrt(-2.0 * math.log1p(-numbers[i + 1])), TWO_PI * numbers[i]
        pair += (radius * math.cos(theta), radius * math.sin(theta))
    return pair


def fill_blocks(flat, mean, std, generator):
    """Fill a flat run of whole blocks of 16."""
    code = machine(flat.size) if flat.itemsize < 8 else None
    if code is not None:
        if flat.itemsize == 4:
            generator.fill(code.normal, flat, mean, std)
        else:
            flat[...] = generator.fill(code.normal, np.empty(flat.size, np.float32), mean, std)
    elif flat.dtype == np.float64:
        flat[...] = float64_blocks(generator.doubles(flat.size), mean, std)
    else:  # the 16-bit types are drawn in float32 and rounded
        flat[...] = float32_blocks(generator.words(flat.size), mean, std)


def affine(values, std, mean):
    """`values * std + mean` in float64, rounded once, as a fused multiply-add gives."""
    if std == 1.0 or mean == 0.0:
        return values * std + mean
    if abs(std) > 2.0 ** 960:  # the splitting below would overflow
        return affine(values, std * 2.0 ** -60, mean * 2.0 ** -60) * 2.0 ** 60
    product = values * std
    split = values * SPLITTER
    high = split - (split - values)
    std_high = std * SPLITTER - (std * SPLITTER - std)
    low, std_low = values - high, std - std_high
    lost = low * std_low - (((product - high * std_high) - low * std_high) - high * std_low)
    total = product + mean
    kept = total - product
    return total + (((product - (total - kept)) + (mean - kept)) + lost)


def float64_blocks(uniforms, mean, std):
    """Box-Muller in float64."""
    uniforms = uniforms.reshape(-1, 2, 8)
    radius = np.sqrt(-2.0 * np.log(1.0 - uniforms[:, 0]))
    theta = TWO_PI * uniforms[:, 1]
    result = np.empty_like(uniforms)
    result[:, 0] = affine(radius * np.cos(theta), std, mean)
    result[:, 1] = affine(radius * np.sin(theta), std, mean)
    return result.reshape(-1)


def float32_blocks(words, mean, std):
    """Box-Muller in float32 from 32-bit words (uint64 array, a multiple of 16), bit-equal to PyTorch's."""
    words &= np.uint64(0xFFFFFF)
    uniforms = words.view(np.int64).astype(np.float32).reshape(-1, 2, 8)
    uniforms *= np.float32(2.0 ** -24)
    rows = np.empty((3, words.size // 2))
    radius = logarithm(ONE - uniforms[:, 0].reshape(-1), rows)
    radius *= MINUS_TWO
    np.sqrt(radius, out=radius)
    sine, cosine = sine_and_cosine(np.float32(TWO_PI) * uniforms[:, 1].reshape(-1), rows)
    result = np.empty((len(uniforms), 2, 8), np.float32)
    for which, wave in enumerate((cosine, sine)):
        wave *= radius
        if std != 1.0:
            if mean == 0.0:
                wave *= np.float32(std)
            else:
                wave = (wave.astype(np.float64) * float(np.float32(std)) + float(np.float32(mean))).astype(np.float32)
        if std == 1.0 or mean == 0.0:
            wave += np.float32(mean)  # also turns -0 to 0, as the fused product does
        result[:, which] = wave.reshape(-1, 8)
    return result.reshape(-1)


def horner(coefficients, x, scratch, y, y64):
    """The polynomial, each step a product and sum rounded once to float32; leaves the result in y."""
    np.multiply(x, coefficients[0], out=scratch)
    scratch += coefficients[1]
    for coefficient in coefficients[2:]:
        y[...] = scratch
        y64[...] = y
        np.multiply(y64, x, out=scratch)
        scratch += coefficient
    y[...] = scratch


def logarithm(x, rows):
    """Natural logarithm of float32 in (0, 1], as PyTorch's AVX2 build rounds it."""
    bits = x.view(np.int32)
    exponent = bits - SQRT_HALF_BITS
    exponent >>= 23
    mantissa = (bits - (exponent << 23)).view(np.float32)  # in [sqrt(1/2), sqrt(2))
    mantissa -= ONE
    power = exponent.astype(np.float32)
    y = np.empty_like(x)
    scratch, wide, y64 = rows
    wide[...] = mantissa
    horner(LOG, wide, scratch, y, y64)
    y *= mantissa
    square = mantissa * mantissa
    np.multiply(y, square, out=scratch, dtype=np.float64)
    scratch += power * LN2_LOW
    y[...] = scratch
    square *= HALF
    y -= square
    y += mantissa
    power *= LN2_HIGH
    y += power
    return y


def sine_and_cosine(x, rows):
    """Sine and cosine of float32 in [0, 2 pi), as PyTorch's AVX2 build rounds them."""
    octant = (x * FOUR_OVER_PI).astype(np.int32)
    octant += 1
    octant &= ~1
    scratch, wide, y64 = rows
    octants = octant.astype(np.float32)
    x = x + octants * PI4_HIGH
    x += octants * PI4_MID
    np.multiply(octants, PI4_LOW, out=scratch, dtype=np.float64)
    scratch += x
    x[...] = scratch
    square = x * x
    wide[...] = square
    cosine, sine = np.empty((2, x.size), np.float32)
    horner(COS, wide, scratch, cosine, y64)
    cosine *= square
    y64[...] = cosine
    np.multiply(y64, wide, out=scratch)
    scratch -= square * HALF
    cosine[...] = scratch
    cosine += ONE
    horner(SIN, wide, scratch, sine, y64)
    sine *= square
    np.multiply(sine, x, out=scratch, dtype=np.float64)
    scratch += x
    sine[...] = scratch
    # octants 2 and 6 swap the two, 4 and 6 negate the sine, 2 and 4 the cosine: on the bits, without branches
    sine_bits, cosine_bits = sine.view(np.int32), cosine.view(np.int32)
    octant >>= 1
    differing = sine_bits ^ cosine_bits
    differing &= -(octant & 1)
    sine_bits ^= differing
    cosine_bits ^= differing
    sine_bits ^= (octant & 2) << 30
    octant += 1
    cosine_bits ^= (octant & 2) << 30
    return sine, cosine
