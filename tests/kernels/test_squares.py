"""Squares are transposed, whatever their entries are and however wide the vectors; loops that read them stay in their buffers."""

import ctypes

import numpy as np
import pytest

from rushlight.kernels import llvm
from rushlight.kernels.ir import Module, Type
from rushlight.kernels.rules import RULES
from rushlight.kernels.squares import POINTER, transposed_square

from .test_runtime import RNG, compiled, run_guarded, target  # noqa: F401 (a fixture)

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")


@pytest.mark.parametrize("element", ["float", "double", "i32", "i64"])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_a_square_is_transposed(element, lanes, target):  # noqa: F811
    module, vector = Module(), Type(element, lanes)
    size = vector.bits // 8
    f = module.function("turn", "void", [("source", POINTER), ("target", POINTER)], "nounwind")
    source, into = f.parameters
    rows = [f.load(vector, f.address(source, f.i64(i * lanes), element), size) for i in range(lanes)]
    for i, value in enumerate(transposed_square(f, rows)):
        f.store(value, f.address(into, f.i64(i * lanes), element), size)
    f.ret()
    words = np.random.default_rng(lanes).integers(0, 256, (lanes, lanes, size), np.uint8).view(f"u{size}")[..., 0]  # any bits, NaNs' too
    turned = np.zeros_like(words)
    llvm.link(str(module), ("turn",)).function("turn", None, ctypes.c_void_p, ctypes.c_void_p)(words.ctypes.data, turned.ctypes.data)
    assert np.array_equal(turned, words.T)


SIZES = [(16, 16), (33, 47), (100, 5), (17, 64), (4, 300), (64, 1), (8, 8), (40, 32)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool", "float16"])
@pytest.mark.parametrize("end", [True, False])
def test_operands_that_lie_the_other_way_are_read_by_squares(dtype, end, target):  # noqa: F811
    for rows, columns in SIZES:
        x, y, z = ((RNG.normal(size=size) * 8).astype(dtype) for size in [(rows, columns), (columns, rows), (columns, rows)])
        op = "logical_or" if dtype == "bool" else "add"

        def build(m, x, y, z):
            return m.point(op, m.point(op, x, m.permute(y, [1, 0])), m.permute(z, [1, 0]))

        (found,) = run_guarded(compiled(build, x, y, z), [x, y, z], end)
        np.testing.assert_array_equal(found, getattr(np, op)(getattr(np, op)(x, y.T), z.T))


def test_squares_of_a_batch_with_rows_that_are_the_same_for_all(target):  # noqa: F811
    x, y, z = RNG.normal(size=(3, 21, 37)), RNG.normal(size=(3, 37, 21)), RNG.normal(size=(21, 1))

    def build(m, x, y, z):
        return m.point("mul", m.point("sub", m.permute(y, [0, 2, 1]), x), z)

    (found,) = run_guarded(compiled(build, x, y, z), [x, y, z], True)
    np.testing.assert_array_equal(found, (y.transpose(0, 2, 1) - x) * z)


def test_squares_of_all_sizes():
    import rushlight as torch

    @torch.compile(dynamic=True)
    def f(x, y):
        return x * y.t() + y.t()

    for rows, columns in SIZES:
        x, y = torch.randn(rows, columns), torch.randn(columns, rows)
        np.testing.assert_array_equal(f(x, y).numpy(), x.numpy() * y.numpy().T + y.numpy().T)


def test_parts_that_are_joined_are_read_only_where_they_are(target):  # noqa: F811
    x, y = RNG.normal(size=(5, 70)).astype(np.float32), RNG.normal(size=(900, 70)).astype(np.float32)
    for end in (True, False):
        (found,) = run_guarded(compiled(lambda m, x, y: m.point("add", RULES["cat"](m, [x, y], 0), 1.0), x, y), [x, y], end)
        np.testing.assert_array_equal(found, np.concatenate([x, y]) + 1)
