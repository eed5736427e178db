"""Convolutions of many shapes between guard pages, for each target: forward and both gradients against PyTorch."""

import numpy as np
import pytest

from rushlight.kernels import llvm, work
from rushlight.kernels.rules import RULES

from .test_runtime import compiled, run_guarded, target  # noqa: F401 (a fixture)

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
RNG = np.random.default_rng(0)

# batch, channels, spatial size, output channels, kernel, stride, padding, dilation, groups
SHAPES = {
    "3x3": (2, 5, (9, 11), 19, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "wide": (1, 3, (4, 45), 33, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "many outputs": (2, 4, (6, 6), 70, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "small planes": (3, 6, (4, 4), 16, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "one point": (2, 7, (3, 3), 24, (3, 3), (1, 1), (0, 0), (1, 1), 1),
    "the whole input": (5, 3, (4, 3), 40, (4, 3), (1, 1), (0, 0), (1, 1), 1),
    "one output": (2, 20, (5, 18), 1, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    "two points": (5, 3, (4, 3), 40, (3, 3), (1, 1), (0, 0), (1, 1), 1),
    "1x1": (2, 9, (5, 7), 20, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    "1x1 strided": (2, 9, (5, 7), 20, (1, 1), (2, 2), (0, 0), (1, 1), 1),
    "7x7 strided": (1, 3, (21, 23), 17, (7, 7), (2, 2), (3, 3), (1, 1), 1),
    "3x3 strided": (2, 6, (9, 10), 32, (3, 3), (2, 2), (1, 1), (1, 1), 1),
    "stride beyond the kernel": (2, 3, (11, 13), 18, (2, 2), (3, 4), (0, 0), (1, 1), 1),
    "uneven": (2, 4, (9, 14), 17, (3, 2), (2, 1), (1, 0), (1, 2), 1),
    "dilated": (2, 4, (12, 10), 16, (3, 3), (1, 1), (2, 2), (2, 2), 1),
    "dilated and strided": (1, 3, (14, 15), 16, (3, 3), (2, 3), (2, 2), (2, 3), 1),
    "patches": (2, 3, (12, 16), 20, (4, 4), (4, 4), (0, 0), (1, 1), 1),
    "patches with a rest": (2, 3, (13, 18), 20, (4, 4), (4, 4), (0, 0), (1, 1), 1),
    "depthwise": (2, 6, (9, 19), 6, (3, 3), (1, 1), (1, 1), (1, 1), 6),
    "depthwise strided": (2, 5, (9, 37), 5, (3, 3), (2, 2), (1, 1), (1, 1), 5),
    "depthwise 5x5, small": (2, 7, (6, 6), 7, (5, 5), (1, 1), (2, 2), (1, 1), 7),
    "depthwise, two outputs": (1, 3, (8, 33), 6, (3, 3), (1, 1), (1, 1), (1, 1), 3),
    "grouped": (2, 12, (7, 8), 40, (3, 3), (1, 1), (1, 1), (1, 1), 2),
    "grouped, few outputs": (2, 12, (7, 8), 8, (3, 3), (2, 2), (1, 1), (1, 1), 4),
    "few outputs": (2, 8, (9, 10), 3, (5, 5), (1, 1), (2, 2), (1, 1), 1),
    "3x3 over one point": (5, 9, (1, 1), 20, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "grouped over one point": (3, 8, (1, 1), 6, (3, 3), (1, 1), (1, 1), (1, 1), 2),
    "3x3 strided over four points": (3, 8, (2, 2), 20, (3, 3), (2, 2), (1, 1), (1, 1), 1),
    "5x5 over a row": (2, 5, (1, 6), 18, (5, 5), (1, 1), (2, 2), (1, 1), 1),
    "padding beyond the kernel": (2, 3, (1, 2), 17, (3, 3), (1, 2), (3, 4), (1, 1), 1),
    "dilated beyond the input": (2, 4, (3, 3), 16, (3, 3), (1, 1), (4, 4), (4, 4), 1),
    "1d": (3, 5, (40,), 20, (5,), (1,), (2,), (1,), 1),
    "1d strided": (2, 4, (41,), 18, (4,), (3,), (1,), (1,), 1),
    "3d": (2, 3, (5, 6, 7), 18, (3, 2, 3), (1, 1, 1), (1, 0, 1), (1, 1, 1), 1),
    "3d strided": (1, 2, (7, 8, 9), 17, (3, 3, 3), (2, 1, 2), (1, 1, 1), (1, 1, 1), 1),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", SHAPES)
def test_convolutions_stay_in_their_buffers_and_are_right(case, dtype, target):  # noqa: F811
    torch = pytest.importorskip("torch")
    batch, channels, size, outputs, kernel, stride, padding, dilation, groups = SHAPES[case]
    x = RNG.normal(size=(batch, channels, *size)).astype(dtype)
    w = RNG.normal(size=(outputs, channels // groups, *kernel)).astype(dtype)
    dims = len(size)
    tx, tw = (torch.from_numpy(a).requires_grad_() for a in (x, w))
    ty = getattr(torch.nn.functional, f"conv{dims}d")(tx, tw, None, stride, padding, dilation, groups)
    g = RNG.normal(size=ty.shape).astype(dtype)
    ty.backward(torch.from_numpy(g))
    rest = (stride, tuple((p, p) for p in padding), dilation, groups)
    wanted = {"forward": (lambda m, x, w: RULES["_convolution"](m, x, w, None, *rest), [x, w], ty.detach()),
              "input": (lambda m, g, w: RULES["conv_input"](m, g, w, x.shape, *rest), [g, w], tx.grad),
              "weight": (lambda m, g, x: RULES["conv_weight"](m, g, x, w.shape, *rest), [g, x], tw.grad)}
    tolerance = 3e-4 if dtype == np.float32 else 1e-10
    for name, (build, arrays, want) in wanted.items():
        native = compiled(build, *arrays)
        for end in (True, False):
            np.testing.assert_allclose(run_guarded(native, arrays, end)[0], want.numpy(), rtol=tolerance, atol=tolerance, err_msg=name)


def test_taps_that_meet_nothing_but_padding_are_left_out():
    x, w = (RNG.normal(size=size).astype(np.float32) for size in ((4, 32, 1, 1), (48, 32, 3, 3)))
    native = compiled(lambda m, x, w: RULES["_convolution"](m, x, w, None, (1, 1), ((1, 1), (1, 1)), (1, 1), 1), x, w)
    assert all(work.of_step(step).note.startswith("matmul") for step in native.stages.steps)
    np.testing.assert_allclose(native.call(x, w)[0][:, :, 0, 0], x[:, :, 0, 0] @ w[:, :, 1, 1].T, rtol=1e-4, atol=1e-4)
