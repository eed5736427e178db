"""The error function and the normal distribution function, against the C library's."""
import math

import numpy as np
import pytest

from rushlight.core.error_function import CHUNK, erf, in_chunks, normal_cdf

POINTS = np.concatenate([np.linspace(-7, 7, 5001), [0.0, 1.0, -1.0, 1e-30, -1e-300]])


@pytest.mark.parametrize("dtype, bound", [(np.float64, 3e-16), (np.float32, 1.2e-7)])
def test_erf_is_close_to_the_c_library(dtype, bound):
    x = POINTS.astype(dtype)
    expected = np.array([math.erf(v) for v in x.tolist()])
    result = erf(x)
    assert result.dtype == dtype
    assert np.abs(result - expected).max() <= bound


@pytest.mark.parametrize("dtype, bound", [(np.float64, 3e-16), (np.float32, 2.5e-7)])
def test_normal_cdf_is_close_to_the_c_library(dtype, bound):
    x = POINTS.astype(dtype)
    expected = np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x.tolist()])
    assert np.abs(normal_cdf(x) - expected).max() <= bound


@pytest.mark.parametrize("function", [erf, normal_cdf])
def test_special_values_and_shapes(function):
    ends = function(np.array([-np.inf, np.inf, np.nan], np.float32))
    assert ends[1] == 1 and ends[0] in (-1, 0) and np.isnan(ends[2])
    assert function(np.float32(0.5) * np.ones((), np.float32)).shape == ()
    assert function(np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_zero_keeps_its_sign():
    assert np.signbit(erf(np.array([-0.0]))).all()


def test_chunks_give_what_one_piece_gives():
    x = np.random.default_rng(0).standard_normal((3, CHUNK)).astype(np.float32)
    assert np.array_equal(in_chunks(normal_cdf, x), normal_cdf(x))
    assert np.array_equal(in_chunks(normal_cdf, x.T), normal_cdf(x).T)
