"""Squares are transposed, whatever their entries are and however wide the vectors."""

import ctypes

import numpy as np
import pytest

from rushlight.kernels import llvm
from rushlight.kernels.ir import Module, Type
from rushlight.kernels.panels import POINTER, transposed_square

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")


@pytest.mark.parametrize("target", ["host", *llvm.TARGETS])
@pytest.mark.parametrize("element", ["float", "double", "i32", "i64"])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_a_square_is_transposed(element, lanes, target):
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
    with llvm.target(target):
        llvm.link(str(module), ("turn",)).function("turn", None, ctypes.c_void_p, ctypes.c_void_p)(words.ctypes.data, turned.ctypes.data)
    assert np.array_equal(turned, words.T)
