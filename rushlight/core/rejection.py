"""Poisson, binomial and gamma numbers: each takes a varying count of draws, one element after the other.

Loops over elements in Python, since element n starts where element n - 1 happened to stop; kernels/rejection.py has the same
in machine code for many. The methods and their constants are those PyTorch's CPU kernels use, so the stream is used up equally: Hoermann's transformed rejection
(1993) for Poisson and binomial, Marsaglia and Tsang (2000) for gamma. Each function takes an array of
parameters and returns a new contiguous array of its shape and dtype.
"""
import math

import numpy as np

from .generator import default_generator, rejecting
from .normal import scalars

TAILS = (0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
         0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287)


def each(arrays, sample, generator):
    """Apply `sample(generator, step, *numbers)` to the elements in order; `step` rounds to the precision of the parameters."""
    generator, first = generator or default_generator, arrays[0]
    code = rejecting.choose(None, first.size)
    if code is not None:
        numbers = [np.array(array, np.float64, order="C") for array in arrays]
        with generator.lock:
            kept = generator.next_normal
            normal, values = np.array([kept is not None, kept or 0.0]), np.empty(first.shape)
            generator.fill(code.fill, values, sample.__name__.removeprefix("one_"), normal, numbers, first.dtype != np.float64)
            generator.next_normal = float(normal[1]) if normal[0] else None
        return values.astype(first.dtype)
    step = float if first.dtype == np.float64 else float32
    flat = [array.astype(np.float64).reshape(-1).tolist() for array in arrays]
    with generator.lock:
        values = [sample(generator, step, *numbers) for numbers in zip(*flat, strict=True)]
    return np.array(values, np.float64).astype(first.dtype).reshape(first.shape)


def float32(x):
    """A float rounded to float32."""
    return float(np.float32(x))


def poisson(rates, generator=None):
    """Poisson numbers of the given rates. RuntimeError for a negative or NaN rate."""
    if not (rates >= 0).all():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return each((rates,), one_poisson, generator)


def one_poisson(generator, step, rate):
    """One Poisson number."""
    if rate == 0:
        return 0
    if rate < 10:
        limit, count, product = math.exp(-rate), 0, generator.double()
        while product > limit:
            count += 1
            product *= generator.double()
        return count
    log_rate = math.log(rate)
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    log_inverse_alpha = math.log(1.1239 + 1.1328 / (b - 3.4))
    bound = 0.9277 - 3.6224 / (b - 2)
    while True:
        u, v = generator.double() - 0.5, generator.double()
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= bound:
            return k
        if k < 0 or (us < 0.013 and v > us):
            continue
        if log(v) + log_inverse_alpha - math.log(a / (us * us) + b) <= -rate + k * log_rate - math.lgamma(k + 1.0):
            return k


def log(x):
    """Logarithm with log(0) = -inf, as C gives it."""
    return math.log(x) if x > 0 else -math.inf


def binomial(counts, probabilities, generator=None):
    """Binomial numbers of `counts` trials with `probabilities`, arrays of one dtype and shape."""
    if not ((probabilities >= 0) & (probabilities <= 1) & (counts >= 0)).all():
        bad = ~((probabilities >= 0) & (probabilities <= 1) & (counts >= 0))
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise RuntimeError(f"binomial expects counts >= 0 and probabilities in [0, 1], but got count {counts[at]} and probability "
                           f"{probabilities[at]} at {at}")
    return each((counts, probabilities), one_binomial, generator)


def one_binomial(generator, step, count, probability):
    """One binomial number."""
    if count <= 0 or probability <= 0:
        return 0
    if probability >= 1:
        return count
    if probability > 0.5:
        return count - small_binomial(generator, step, count, step(1.0 - probability))
    return small_binomial(generator, step, count, probability)


def small_binomial(generator, step, count, probability):
    """One binomial number for a probability up to a half."""
    mean, failure = step(count * probability), step(1 - probability)
    if mean < 10:
        total, successes, log_failure = 0, 0, math.log1p(-probability)
        while True:
            total += math.ceil(log(generator.double()) / log_failure)
            if total > count:
                return successes
            successes += 1
    deviation = math.sqrt(step(mean * failure))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * probability
    c = mean + 0.5
    bound = 0.92 - 4.2 / b
    ratio = step(probability / failure)
    alpha = (2.83 + 5.1 / b) * deviation
    m = math.floor(step(step(count + 1) * probability))
    while True:
        u, v = generator.double() - 0.5, generator.double()
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + c)
        if k < 0 or k > count:
            continue
        if us >= 0.07 and v <= bound:
            return k
        v = log(v * alpha / (a / (us * us) + b))
        upper = ((m + 0.5) * math.log((m + 1) / (ratio * (count - m + 1)))
                 + (count + 1) * math.log((count - m + 1) / (count - k + 1))
                 + (k + 0.5) * math.log(ratio * (count - k + 1) / (k + 1))
                 + tail(m) + tail(count - m) - tail(k) - tail(count - k))
        if v <= upper:
            return k


def tail(k):
    """What Stirling's formula leaves of log k!."""
    if k <= 9:
        return TAILS[int(k)]
    square = (k + 1) * (k + 1)
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)


def standard_gamma(shapes, generator=None):
    """Gamma numbers of the given shapes (concentrations) and scale 1, at least the smallest number of the dtype."""
    result = each((shapes,), one_gamma, generator)
    return np.maximum(result, np.finfo(result.dtype).smallest_normal)


def one_gamma(generator, step, shape):
    """One gamma number."""
    scale = 1.0
    if shape < 1:
        if shape == 0:
            return 0.0
        scale = (1 - generator.double()) ** step(1.0 / shape)
        shape = step(shape + 1.0)
    d = step(shape - THIRD)
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        y = 0.0
        while y <= 0:
            x = float(scalars(1, 0.0, 1.0, generator)[0])
            y = 1.0 + c * x
        v = y * y * y
        u = 1 - generator.double()
        square = x * x
        if u < 1.0 - SQUEEZE * square * square or log(u) < 0.5 * square + d * (1.0 - v + math.log(v)):
            return scale * d * v


THIRD, SQUEEZE = float(np.float32(1) / np.float32(3)), float(np.float32(0.0331))


def dirichlet(concentrations, generator=None):
    """Dirichlet numbers along the last dim: gamma numbers divided by their sum, kept inside (0, 1)."""
    gammas = each((concentrations.astype(np.float64),), one_gamma, generator)
    gammas = np.maximum(gammas, np.finfo(np.float64).smallest_normal)
    shares = (gammas / gammas.sum(-1, keepdims=True)).astype(concentrations.dtype)
    return np.clip(shares, np.finfo(shares.dtype).smallest_normal, 1 - np.finfo(shares.dtype).epsneg)
