"""How products are packed and cut up: every layout of the operands, passes over K, narrow panels."""

import sys

import numpy as np
import pytest

from rushlight.core.parallel import limited
from rushlight.kernels import llvm, matmul
from rushlight.kernels.arrays import External, Source
from rushlight.kernels.ir import Module
from rushlight.kernels.rules import RULES

from .test_runtime import RNG, compiled, run_guarded, target  # noqa: F401 (a fixture)

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")


def normal(*shape, turned=False):
    """Random numbers; `turned`: the last two dims the other way round in memory."""
    values = RNG.normal(size=shape).astype(np.float32)
    return np.swapaxes(np.ascontiguousarray(np.swapaxes(values, -1, -2)), -1, -2) if turned else values


def product(m, a, b):
    return RULES["matmul"](m, a, b)


@pytest.mark.parametrize("m, k, n", [(50, 600, 70), (51, 641, 67), (40, 384, 100), (130, 1030, 33), (7, 2500, 200),
                                     (64, 600, 40), (27, 40, 64), (40, 41, 48)])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_several_passes_over_k(m, k, n, turned, target):  # noqa: F811
    a, b = (normal(*shape[::-1] if other else shape) for shape, other in zip(((m, k), (k, n)), turned))
    native = compiled(lambda make, *sides: product(make, *[make.permute(side, [1, 0]) if other else side for side, other in zip(sides, turned)]), a, b)
    left, right = (side.T if other else side for side, other in zip((a, b), turned))
    for end in (True, False):
        (found,) = run_guarded(native, [a, b], end)
        np.testing.assert_allclose(found, left.astype(np.float64) @ right, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 6, 7])
def test_narrow_panels_of_a_batch_do_not_reach_into_one_another(m, target):  # noqa: F811
    a, b = normal(3, m, 9001, turned=True), normal(3, 9001, 40)
    right = a.astype(np.float64) @ b
    wide = matmul.DECIDE.set(lambda array, sources, shape, registers: shape._replace(pack_a=True))
    try:
        native = compiled(product, a, b)
    finally:
        matmul.DECIDE.reset(wide)
    np.testing.assert_allclose(native.call(a, b)[0], right, rtol=1e-3, atol=5e-3)
    np.testing.assert_allclose(compiled(product, a, b).call(a, b)[0], right, rtol=1e-3, atol=5e-3)


def test_large_temporaries_lie_in_huge_pages_and_are_right():
    a, b, c = normal(900, 1100), normal(1100, 1300, turned=True), normal(1300, 1)
    native = compiled(lambda make, *sides: product(make, product(make, *sides[:2]), sides[2]), a, b, c)
    assert native.stages.arena > 4 << 20 and ("madvise" in native.stages.module or sys.platform != "linux")
    first, second = native.call(a, b, c)[0].copy(), native.call(a, b, c)[0]
    np.testing.assert_allclose(first, a.astype(np.float64) @ b @ c, rtol=1e-3, atol=0.1)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("batch, m, k, n", [((), 300, 700, 90), ((), 90, 700, 300), ((), 128, 390, 1300), ((3,), 100, 300, 150), ((), 700, 90, 2200)])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True)])
def test_panels_that_tasks_lay_out_for_themselves(batch, m, k, n, turned, target):  # noqa: F811
    a, b = (normal(*batch, *(shape[::-1] if other else shape)) for shape, other in zip(((m, k), (k, n)), turned))
    last = [*range(len(batch)), len(batch) + 1, len(batch)]
    results = []
    for threads in (1, 3):
        with limited(threads):
            native = compiled(lambda make, *sides: product(make, *[make.permute(side, last) if other else side for side, other in zip(sides, turned)]), a, b)
            results += run_guarded(native, [a, b], threads > 1)
    left, right = (np.swapaxes(side, -1, -2) if other else side for side, other in zip((a, b), turned))
    np.testing.assert_allclose(results[0], left.astype(np.float64) @ right, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(*results)  # how a product is shared out changes no bit


def test_products_whose_operands_are_laid_out_at_other_times_share_no_code():
    """In a loop, what lasts over its turns is laid out once before them, by a step; what changes, by the task that reads it."""
    module, token = Module(), matmul.LASTS.set(lambda source: source.buffer == "lasting")
    try:
        emitted = []
        for name, buffer in (("one", "lasting"), ("two", "changing"), ("three", "changing")):
            sources = [Source("x", (4, 256), "float32", (256, 1), 0), Source(buffer, (256, 100), "float32", (1, 256), 0)]
            array = External("matmul", tuple(sources), (4, 100), "float32", ())
            emitted.append([step.function for step in matmul.emit_matmul(module, name, array, sources, "out", 256).steps])
    finally:
        matmul.LASTS.reset(token)
    assert emitted == [["one_pack_b", "one_blocks"], ["two_blocks"], ["two_blocks"]]
