"""Accuracy of the mathematical functions: a sample of what `python -m rushlight.kernels.accuracy --full` sweeps."""

import math

import mpmath
import numpy as np
import pytest

from rushlight.kernels import accuracy, llvm

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, -5e-324, 1e-40, -1e-40, 1e308, -1e308, 1.0, -1.0, 0.5, 2.0]
EXACT = {"exp": mpmath.exp, "expm1": mpmath.expm1, "log": mpmath.log, "log1p": lambda x: mpmath.log(1 + x), "sin": mpmath.sin,
         "cos": mpmath.cos, "tanh": mpmath.tanh, "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)), "erf": mpmath.erf,
         "exp2": lambda x: mpmath.mpf(2) ** x, "log2": lambda x: mpmath.log(x, 2), "log10": mpmath.log10, "atan": mpmath.atan, "asin": mpmath.asin, "acos": mpmath.acos}


@pytest.mark.parametrize("name", accuracy.REFERENCE)
def test_float32_is_within_two_ulp_everywhere(name):
    error, where = accuracy.worst_float32(name, accuracy.float32_sample(60_000))
    assert error <= 2.0, f"{name}({where!r}) is {error:.2f} ulp off"


@pytest.mark.parametrize("name", ["exp", "tanh", "sin", "sigmoid"])
def test_float32_is_within_two_ulp_without_tables_in_registers(name):
    try:
        with llvm.target("avx2"):
            error, where = accuracy.worst_float32(name, accuracy.float32_sample(60_000))
    except ValueError as refused:
        pytest.skip(str(refused))
    assert error <= 2.0, f"{name}({where!r}) is {error:.2f} ulp off"


@pytest.mark.parametrize("name", EXACT)
def test_float64_is_within_two_ulp(name):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=60) * 3, rng.normal(size=30) * 1e-3, rng.normal(size=30) * 40,
                        10.0 ** rng.uniform(-200, 200, 40) * rng.choice([-1, 1], 40)])
    if name in ("asin", "acos"):
        x = np.concatenate([rng.uniform(-1, 1, 80), 1 - 10.0 ** rng.uniform(-16, 0, 20)])
    x = np.abs(x) if name in ("log", "log2", "log10") else x[x > -1] if name == "log1p" else x
    for at, got in zip(x, accuracy.compiled(name, np.float64)(x)):
        with mpmath.workdps(400 if abs(at) < 1e-17 or abs(at) > 1e6 else 40):
            exact = EXACT[name](mpmath.mpf(float(at)))
            nearest = float(exact)
            if not math.isfinite(nearest) or nearest == 0:
                assert got == nearest
            else:
                assert abs(float((mpmath.mpf(float(got)) - exact) / float(np.spacing(abs(nearest))))) <= 2.0, (name, at)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", accuracy.REFERENCE)
def test_special_values(name, dtype):
    with np.errstate(all="ignore"):
        x = np.array(SPECIAL, np.float64).astype(dtype)
        got, want = accuracy.compiled(name, dtype)(x), accuracy.REFERENCE[name](x.astype(np.float64)).astype(dtype)
    np.testing.assert_allclose(got, want, rtol=4 * np.finfo(dtype).eps, atol=0)
    zeros = want == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


def test_what_tends_to_one_gets_there():
    """1 - tanh(x) ** 2 is to be 0 where float32 tells nothing else: infinity times it is then not infinite."""
    far = np.array([np.inf, -np.inf, 50.0, -50.0, 12.0, -12.0], np.float32)
    for name in ("tanh", "erf"):
        np.testing.assert_array_equal(accuracy.compiled(name, np.float32)(far), np.sign(far))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["fmod", "nextafter"])
def test_what_is_exact(name, dtype):
    rng = np.random.default_rng(0)
    wide = [rng.normal(size=2000) * 10.0 ** rng.uniform(-12, 12, 2000) for _ in range(2)]
    corners = np.meshgrid([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 1e-45, 5e-324, 3e38, 1.5, -2.5], [*map(float, SPECIAL)])
    with np.errstate(all="ignore"):
        x, y = (np.concatenate([many, corner.ravel(), rng.integers(-9, 9, 500)]).astype(dtype) for many, corner in zip(wide, corners))
        got, want = accuracy.compiled(name, dtype, 2)(x, y), getattr(np, name)(x, y)
    np.testing.assert_array_equal(got, want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))


def test_pow_has_cs_corners():
    corners = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, math.inf, -math.inf, math.nan, 2.5, 1e30]
    x, y = (a.ravel().astype(np.float32) for a in np.meshgrid(corners, corners))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(accuracy.compiled("pow", np.float32, 2)(x, y), np.power(x, y), rtol=1e-6)


def test_atan2_in_all_quadrants():
    corners = [0.0, -0.0, 1.0, -1.0, 1e-30, -1e-30, math.inf, -math.inf, math.nan, 3.0, -7.0]
    for dtype in (np.float32, np.float64):
        y, x = (a.ravel().astype(dtype) for a in np.meshgrid(corners, corners))
        got, want = accuracy.compiled("atan2", dtype, 2)(y, x), np.arctan2(y, x)
        np.testing.assert_allclose(got, want, rtol=4 * np.finfo(dtype).eps, atol=0)
        np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))


@pytest.mark.parametrize("name", ["exp", "tanh", "sin", "log2"])
def test_the_native_sweep_finds_what_numpy_finds(name):
    run, _ = accuracy.sweep_function(name)
    for first in (0x3F000000, 0x80000000, 0x42A00000, 0x7F7FFF00):
        x = np.arange(first, first + 4096, dtype=np.uint64).astype(np.uint32).view(np.float32)
        error, strange = run(first, first + 4096)
        assert strange == 0 and error == pytest.approx(accuracy.worst_float32(name, x)[0], abs=1e-3)


def test_a_sweep_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(accuracy, "VALUES", 2 * accuracy.CHUNK)
    state = {}
    assert not accuracy.sweep("exp", state, 0.0) and state["exp"]["next"] == 0
    assert accuracy.sweep("exp", state, float("inf")) and state["exp"]["next"] == 2 * accuracy.CHUNK
    assert "| `exp` |" in accuracy.table(state)
    assert accuracy.load_state(tmp_path / "none.json") == {}
    state["exp"]["version"] = "of other code"
    assert not accuracy.sweep("exp", state, 0.0) and state["exp"]["next"] == 0
