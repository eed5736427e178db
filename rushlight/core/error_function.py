"""The error function on arrays, which NumPy lacks: two minimax polynomials, to about one unit in the last place.

The coefficients are those of kernels/vecmath.py, so eager and compiled results agree.  Read `erf` first.
"""
import numpy as np

# erf(x) / x - 1 in x^2
NEAR = {4: (7.875874871388078e-05, -0.000801686430349946, 0.005189087241888046, -0.02685421146452427, 0.11283594369888306,
            -0.3761262595653534, 0.12837916709551256),
        8: (5.957176147748911e-11, -1.1372848856791674e-09, 1.4659775274047436e-08, -1.6350312701054695e-07, 1.6461000484121368e-06,
            -1.4925595266831182e-05, 0.0001205533111164271, -0.000854832698083379, 0.0052239776248180145, -0.026866170645076792,
            0.11283791670954879, -0.3761263890318375, 0.12837916709551256)}
# erfc(x) exp(x^2) in t = (x - c) / (x + c)
FAR = {4: (-0.0008231810643337667, 0.006808755919337273, 0.0037302894052118063, -0.07896804064512253, 0.2416582703590393,
           -0.427185982465744, 0.25539568066596985),
       8: (7.128369744101394e-08, 3.4415685933368833e-07, 7.651113289601767e-08, -1.8019756901272904e-06, -2.297743185563478e-06,
           7.552584904662435e-06, 1.8614399214652582e-05, -3.4182236556385346e-05, -0.00012887716606795616, 0.0002283803787666349,
           0.0008759154498654104, -0.0026423659642906324, -0.003993701165851016, 0.0399225390755846, -0.1250330523788294,
           0.2517131932174493, -0.37173673394897333, 0.2108063640611436)}
CENTRE = {4: 2.0, 8: 2.5}
CHUNK = 1 << 14  # elements a step: the buffers stay in the second cache level


def polynomial(x, coefficients):
    """The polynomial at x, highest power first, in a new array."""
    result = np.multiply(x, coefficients[0], out=...)
    for coefficient in coefficients[1:-1]:
        result += coefficient
        result *= x
    result += coefficients[-1]
    return result


def erf_chunk(x):
    width = x.itemsize
    size = np.minimum(np.abs(x), 4.0 if width == 4 else 6.0, out=...)
    squared = np.multiply(size, size, out=...)
    near = polynomial(squared, NEAR[width])
    near *= size
    near += size
    outside = size >= 1.0
    if outside.any():
        t = np.divide(size - CENTRE[width], size + CENTRE[width], out=...)
        far = polynomial(t, FAR[width])
        far *= np.exp(np.negative(squared, out=squared), out=squared)
        np.subtract(1.0, far, out=far)
        np.copyto(near, far, where=outside)
    return np.copysign(near, x, out=near)


# atanh(erf(x / sqrt 2)) / x in x^2 on [-5.6, 5.6]: tanh is NumPy's fastest function of this shape
BEND = (1.805616741495752e-09, -1.3344642584338353e-07, 3.969109766873828e-06, -5.524016115845427e-05, -3.3129982538447996e-05,
        0.03633428349375666, 0.7978842161277536)


def normal_cdf(x):
    """The normal distribution function of a float array, for activations: to 1.6e-7 for float32."""
    if x.itemsize == 8:
        result = erf(np.multiply(x, 0.7071067811865476, out=...))
    else:
        inside = np.maximum(x, -5.9, out=...)  # there tanh gives 1 exactly, so nothing is left of a far tail
        np.minimum(inside, 5.9, out=inside)
        result = polynomial(np.multiply(inside, inside, out=...), BEND)
        result *= inside
        np.tanh(result, out=result)
    result += 1
    result *= 0.5
    return result


def in_chunks(compute, *arrays):
    """`compute`, elementwise and of arrays of one shape, a cache-sized piece at a time."""
    if arrays[0].size <= CHUNK:
        return compute(*arrays)
    flat = [np.ascontiguousarray(array).reshape(-1) for array in arrays]
    result = np.empty(flat[0].size, flat[0].dtype)
    for low in range(0, result.size, CHUNK):
        result[low:low + CHUNK] = compute(*(array[low:low + CHUNK] for array in flat))
    return result.reshape(arrays[0].shape)


def erf(x):
    """The error function of a float32 or float64 array.

    >>> erf(np.array([0.0, 1.0])).round(6).tolist()
    [0.0, 0.842701]
    """
    return in_chunks(erf_chunk, x)
