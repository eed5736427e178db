"""Pointwise functions at their edges (zeros of both signs, infinities, NaN, tiny and huge values, small integers) as PyTorch has them."""
import importlib.util
import json
import math
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.nn import functional as F

HERE = Path(__file__).parent
spec = importlib.util.spec_from_file_location("record_of_edges", HERE / "record.py")
record = importlib.util.module_from_spec(spec)
spec.loader.exec_module(record)
RECORDED = json.loads((HERE / "recorded.json").read_text())
CALLS = record.compute(torch)

# Where PyTorch's value is an accident of its code, and ours the limit or the mathematical value.
BETTER = {
    "i0": {"inf"}, "special.i1": {"inf", "-inf"}, "F.gelu": {"inf"},  # PyTorch: NaN at infinity
    "gcd": {"1"},  # PyTorch: -1 where the smallest integer is an operand
}


def agree(ours, theirs, kind):
    if isinstance(ours, (bool, int)):
        return repr(ours) == theirs
    wanted = float(theirs)
    if math.isnan(wanted) or math.isinf(wanted) or wanted == 0:
        tiny = 1e-37 if kind == "float32" else 1e-300  # PyTorch's vector code flushes some tiny results; both are right
        return repr(ours) == theirs or wanted == 0 and abs(ours) < tiny or math.isnan(wanted) and math.isnan(ours)
    relative = 3e-6 if kind == "float32" else 1e-12
    return math.isclose(ours, wanted, rel_tol=relative, abs_tol=2e-7 if kind == "float32" else 1e-14)


@pytest.mark.parametrize("name", RECORDED)
def test_edge_values(name):
    dtype, values = RECORDED[name]
    result = CALLS[name]()
    assert result.dtype is getattr(torch, dtype)
    better = BETTER.get(name.split()[0], ())
    wrong = [f"at {i}: {ours!r}, PyTorch {theirs}" for i, (ours, theirs) in enumerate(zip(result.tolist(), values, strict=True))
             if not agree(ours, theirs, name.split()[-1]) and repr(ours) not in better]
    assert not wrong, "; ".join(wrong[:6])


@pytest.mark.parametrize("dtype, name, call", [
    (torch.float32, "Float", lambda x: x & x), (torch.float32, "Float", torch.bitwise_not), (torch.bool, "Bool", lambda x: x % x),
    (torch.bool, "Bool", lambda x: x // x), (torch.complex64, "ComplexFloat", torch.frac), (torch.complex64, "ComplexFloat", lambda x: torch.fmod(x, x)),
])
def test_a_dtype_that_an_op_does_not_do_is_a_not_implemented_error(dtype, name, call):
    with pytest.raises(NotImplementedError, match=f"_cpu\" not implemented for '{name}'"):
        call(torch.ones(2, dtype=dtype))


@pytest.mark.parametrize("name, words", [
    *((name, f"\"{name}_cpu\" not implemented for 'ComplexFloat'") for name in ("lt", "le", "gt", "ge")),
    *((name, f"{name} not implemented for complex tensors.") for name in ("maximum", "minimum", "fmax", "fmin")),
    ("clamp", "clamp is not supported for complex types"),
])
def test_complex_numbers_have_no_order(name, words):
    x = torch.ones(2, dtype=torch.complex64)
    with pytest.raises(RuntimeError, match=words):
        getattr(torch, name)(x, x)
    with pytest.raises(RuntimeError, match=words):
        getattr(torch, name)(torch.ones(2), x)
    assert torch.equal(torch.eq(x, x), torch.tensor([True, True]))


def test_complex_numbers_are_not_rounded():
    with pytest.raises(NotImplementedError, match="\"round_vml_cpu\" not implemented for 'ComplexFloat'"):
        torch.round(torch.ones(2, dtype=torch.complex64))


def test_atan2_at_the_origin_has_gradient_zero():
    x, y = torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    torch.atan2(x, y).backward()
    assert x.grad.item() == y.grad.item() == 0


NAN, INF = math.nan, math.inf
# function -> (input, its gradient where all outputs get 1), as PyTorch 2.13 gives them
AT_EDGES = {
    "relu": (lambda x: torch.relu(x), [NAN, 1.0, -1.0, 0.0, -0.0], [1.0, 1.0, 0.0, 0.0, 0.0]),
    "maximum": (lambda x: torch.maximum(x, torch.zeros(())), [NAN, 1.0, -1.0, 0.0], [1.0, 1.0, 0.0, 0.5]),
    "minimum": (lambda x: torch.minimum(x, torch.zeros(())), [NAN, 1.0, -1.0, 0.0], [1.0, 0.0, 1.0, 0.5]),
    "amax": (lambda x: x.amax(0, keepdim=True), [NAN, 1.0], [NAN, NAN]),
    "max": (lambda x: x.max(), [NAN, 1.0], [1.0, 0.0]),
    "copysign": (lambda x: torch.copysign(x, torch.tensor(-1.0)), [NAN, INF, 1.0, 0.0, -2.0], [NAN, NAN, -1.0, 0.0, 1.0]),
    "atan2": (lambda x: torch.atan2(x, torch.zeros(())), [1e-40, 1.0, 0.0], [0.0, 0.0, 0.0]),
    "sinc": (lambda x: torch.sinc(x), [1e-40, 0.0], [0.0, 0.0]),
    "hinge": (lambda x: F.hinge_embedding_loss(x, torch.ones(3), reduction="none"), [INF, -INF, 1.0], [1.0, 1.0, 1.0]),
    "max_pool": (lambda x: F.max_pool1d(x.reshape(1, 1, -1), 2), [NAN, 1.0, 2.0, 1.0], [1.0, 0.0, 1.0, 0.0]),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", AT_EDGES)
def test_gradients_at_nan_infinities_and_subnormals(name, compiled):
    function, values, wanted = AT_EDGES[name]
    x = torch.tensor(values, requires_grad=True)
    out = (torch.compile(function) if compiled else function)(x)
    out.backward(torch.ones_like(out))
    torch.testing.assert_close(x.grad, torch.tensor(wanted), equal_nan=True)


@pytest.mark.parametrize("shape, outputs", [((2, 3, 4), 0), ((2, 3, 0), 5), ((0, 3, 4), 5)])
def test_linear_without_elements_has_gradients(shape, outputs):
    x, weight, bias = torch.ones(shape, requires_grad=True), torch.ones(outputs, shape[-1], requires_grad=True), torch.ones(outputs, requires_grad=True)
    out = F.linear(x, weight, bias)
    out.sum().backward()
    assert out.shape == (*shape[:-1], outputs) and x.grad.shape == x.shape and weight.grad.shape == weight.shape
    assert bias.grad.tolist() == [math.prod(shape[:-1])] * outputs


# function -> (input, which elements its result depends on)
LEFT_OUT = {
    "relu": (torch.relu, [-4.0, -1.0, 0.0, 1.0, 2.0, 5.0], [0, 0, 0, 1, 1, 1]),
    "hardswish": (F.hardswish, [-4.0, -1.0, 0.0, 1.0, 2.0, 5.0], [0, 1, 1, 1, 1, 1]),
    "max_pool": (lambda x: F.max_pool1d(x.reshape(1, 1, -1), 2), [-4.0, -1.0, 0.0, 1.0, 2.0, 5.0], [0, 1, 0, 1, 0, 1]),
    "overlapping max_pool": (lambda x: F.max_pool1d(x.reshape(1, 1, -1), 3, 1), [-4.0, -1.0, 7.0, 1.0, 2.0, 5.0], [0, 0, 1, 0, 0, 1]),
    "median": (lambda x: x.median().reshape(1), [-4.0, -1.0, 0.0, 1.0, 2.0, 5.0], [0, 0, 1, 0, 0, 0]),
    "max": (lambda x: x.max().reshape(1), [-4.0, -1.0, 0.0, 1.0, 2.0, 5.0], [0, 0, 0, 0, 0, 1]),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bad", [NAN, INF])
@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_a_result_does_not_depend_on_gets_no_nan_or_infinity(name, bad, dtype, compiled):
    function, values, used = LEFT_OUT[name]
    times = 700 if name in ("relu", "hardswish", "max_pool") else 1  # also as long as takes another way
    for count in (1, times):
        x = torch.tensor(values * count, dtype=dtype, requires_grad=True)
        out = (torch.compile(function) if compiled else function)(x)
        out.backward(torch.full_like(out, bad))
        for got, part in zip(x.grad.tolist(), used * count):
            assert got == 0 if not part else not math.isfinite(got)


@pytest.mark.parametrize("values, total, grad", [([1.0, 2.0], 3.0, [1, 1]), ([1.0, float("nan"), 2.0], 3.0, [1, 0, 1]), ([float("inf"), 1.0], float("inf"), [1, 1]),
                                                 ([float("inf"), -float("inf")], float("nan"), [1, 1]), ([float("nan")], 0.0, [0]), ([], 0.0, [])])
def test_nansum_with_and_without_nan(values, total, grad):
    x = torch.tensor(values, requires_grad=True)
    for result in (x.nansum(), x.nansum(0), torch.nansum(x, 0, keepdim=True).sum()):
        assert result.item() == total or math.isnan(total) and math.isnan(result.item())
        assert torch.autograd.grad(result, x)[0].tolist() == grad
    assert torch.tensor([1.5, float("nan")]).nansum(dtype=torch.int64).item() == 1


def test_a_large_expanded_column_is_copied():
    x = torch.arange(512.0)[:, None].expand(512, 300)
    assert x.contiguous().stride() == (300, 1) and torch.equal(x.contiguous(), x) and torch.equal(x.clone(), x)
