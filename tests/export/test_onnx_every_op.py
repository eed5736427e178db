"""Every op sample as an ONNX model gives in onnxruntime what the op gives; what ONNX has no form for is refused by name, and listed here."""
import importlib.util
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
from rushlight.core.pytree import tree_flatten
from tests.export.test_onnx import session
from tests.export.test_onnx_ops import Calls

_spec = importlib.util.spec_from_file_location("onnx_op_samples", Path(__file__).parent.parent / "ops" / "samples.py")
samples = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = samples
_spec.loader.exec_module(samples)

NO_PROGRAM = {"as_subclass"}
# Special functions and factorizations that ONNX has no node for, complex numbers, and memory that is not dense.
NO_FORM = set("""erfinv|i0|special.log_ndtr|special.i0e|special.i1|special.i1e|special.erfcx|ndtri|zeta|igamma|igammac|frexp|mode|as_strided
overlapping as_strided|as_strided_scatter|as_strided_scatter into a transpose|view as real and back|view as complex|real and imag|polar|fft|rfft and back|nuclear norm
nuclear norm by name|inverse|cholesky|solve|eigenvalues|eig|singular values|qr|pinv|matrix_exp|triangular solve|lstsq|lu|lu_factor|lu_unpack|lu_solve|householder_product
ctc_loss|embedding_bag sum|embedding_bag mean|embedding_bag max|embedding_bag with weights|pdist|fractional_max_pool2d|fractional_max_pool3d""".replace("\n", "|").split("|"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("label, call, specs", samples.ROWS, ids=[label for label, *_ in samples.ROWS])
def test_sample(label, call, specs):
    if label in NO_PROGRAM:
        pytest.skip("no program of it")
    inputs = [spec.make(zlib.crc32(label.encode()) % 10_000 + at, torch.float32) for at, spec in enumerate(specs)]
    with torch.no_grad():
        want = [leaf for leaf in tree_flatten(call(*[x.clone() for x in inputs]))[0] if isinstance(leaf, torch.Tensor)]
    program = torch.export.export(Calls(call), tuple(inputs))
    if label in NO_FORM:
        with pytest.raises(NotImplementedError, match="onnx.export: "):
            torch.onnx.export(program)
        return
    run = session(torch.onnx.export(program))
    known = {item.name for item in run.get_inputs()}
    got = run.run(None, {item.name: x.numpy() for item, x in zip(program.checks.inputs, inputs) if item.name in known})
    assert len(got) == len(want)
    for mine, theirs in zip(got, want):
        assert mine.shape == tuple(theirs.shape)
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=2e-4, atol=2e-5)
