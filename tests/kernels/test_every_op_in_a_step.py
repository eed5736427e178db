"""Every op of the table in a compiled training step: the loss and gradients of eager mode, from one program."""
import importlib.util
import sys
import warnings
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.kernels import llvm

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
spec = importlib.util.spec_from_file_location("op_samples_in_steps", Path(__file__).parent.parent / "ops" / "samples.py")
samples = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = samples
spec.loader.exec_module(samples)

# What a step cannot hold yet: complex numbers, results that are views of a kind that programs do not follow, shapes that go by values.
BY_OPS = {"view as real and back", "view as complex", "real and imag", "polar", "fft", "rfft and back", "eig", "lstsq",
          "as_strided", "overlapping as_strided", "masked_select", "index by a mask",
          "as_strided_scatter", "as_strided_scatter into a transpose"}


def step_of(call, tensors):
    def step():
        for tensor in tensors:
            tensor.grad = None
        found = call(*[tensor * 1.0 for tensor in tensors])
        found = found if isinstance(found, (tuple, list)) else [found]
        parts = [part for part in found if isinstance(part, torch.Tensor) and part.requires_grad]
        loss = sum(((part.abs() if part.is_complex() else part) * (at + 1)).square().sum() for at, part in enumerate(parts))
        loss.backward()
        with torch.no_grad():
            for tensor in tensors:
                tensor.mul_(1.0)
        return loss.detach()
    return step


@pytest.mark.parametrize("label, call, inputs", samples.ROWS, ids=[label for label, *_ in samples.ROWS])
def test_an_op_in_a_step(label, call, inputs):
    made = [spec.make(at) for at, spec in enumerate(inputs)]
    one, two = ([tensor.clone().requires_grad_() for tensor in made] for _ in range(2))
    run = torch.compile(step_of(call, two))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = step_of(call, one)()
        for _ in range(2):
            assert torch.allclose(run(), wanted, rtol=1e-6, atol=1e-8, equal_nan=True)
            for tensor, other in zip(one, two):
                assert (tensor.grad is None) == (other.grad is None)
                assert tensor.grad is None or torch.allclose(tensor.grad, other.grad, rtol=1e-5, atol=1e-7, equal_nan=True)
    entries = run._rushlight_compiled.start.entries
    native = [hasattr(getattr(entry.run.__globals__.get("graph"), "lowered", None), "native") for entry in entries]
    assert (native == [True]) == (label not in BY_OPS), f"{label}: {run._rushlight_compiled.breaks}"
