"""Signs of zeros, neighbours in half types, and the types that PyTorch refuses: eager and compiled, as PyTorch 2.13 has them."""
import math

import pytest

import rushlight as torch

F = torch.nn.functional
NEGATIVE_ZERO = {
    "relu": torch.relu, "relu6": F.relu6, "elu": F.elu, "selu": F.selu, "celu": F.celu, "softshrink": F.softshrink, "clamp": lambda x: x.clamp(0, 1),
    "clamp_max": lambda x: x.clamp(max=0), "hardtanh": lambda x: F.hardtanh(x, 0.0, 1.0), "remainder": lambda x: x % 1,
    "remainder by a negative": lambda x: x % -1, "lerp": lambda x: torch.lerp(x, x, 0.5),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NEGATIVE_ZERO)
def test_a_negative_zero_stays_one(name, dtype):
    function, x = NEGATIVE_ZERO[name], torch.full((9,), -0.0, dtype=dtype)
    for run in (function, torch.compile(function)):
        result = run(x)
        assert (result == 0).all() and torch.signbit(result).all(), name
        assert not torch.signbit(run(torch.zeros(9, dtype=dtype))).any(), name


def test_the_remainder_of_whole_multiples_has_the_sign_of_the_input():
    a, b = torch.tensor([-1.0, 1.0, -2.0, 3.0, -5.5]), torch.tensor([1.0, -1.0, 1.0, 3.0, 2.5])
    assert torch.signbit(a % b).tolist() == [True, False, True, False, False] and (a % b).tolist() == [0, 0, 0, 0, 2]


def test_nextafter_of_half_types():
    a = torch.tensor([1.0, 0.0, -2.0, 65504.0, math.inf, 5.0], dtype=torch.float16)
    b = torch.tensor([2.0, -1.0, -1.0, math.inf, 0.0, 5.0], dtype=torch.float16)
    assert torch.nextafter(a, b).tolist() == [1.0009765625, -5.960464477539063e-08, -1.9990234375, math.inf, 65504.0, 5.0]
    a, b = torch.tensor([1.0, 0.0, -2.0], dtype=torch.bfloat16), torch.tensor([2.0, 1.0, -1.0], dtype=torch.bfloat16)
    for run in (torch.nextafter, torch.compile(torch.nextafter)):
        assert run(a, b).tolist() == [1.0078125, 9.183549615799121e-41, -1.9921875] and run(a, b).dtype is torch.bfloat16
    assert torch.nextafter(a, a * math.nan).isnan().all()


B, C = torch.ones(2, 2, dtype=torch.bool), torch.ones(2, dtype=torch.complex64)
REFUSED = {
    "~ of floats": (lambda: ~torch.ones(1), TypeError, r"~ \(operator.invert\) is only implemented on integer and Boolean-type tensors"),
    "~ of complex": (lambda: ~C, TypeError, r"~ \(operator.invert\)"),
    "~ of halves": (lambda: ~torch.ones(1).half(), TypeError, r"~ \(operator.invert\)"),
    "bitwise_not": (lambda: torch.bitwise_not(torch.ones(1)), NotImplementedError, "bitwise_not_cpu"),
    "sign": (lambda: torch.sign(C), NotImplementedError, "Unlike NumPy, torch.sign is not intended to support complex numbers"),
    "sign_": (lambda: C.clone().sign_(), NotImplementedError, "Please use torch.sgn instead"),
    "floor of complex": (lambda: torch.floor(C), NotImplementedError, "floor is not supported for complex inputs"),
    **{name: (lambda name=name: getattr(torch, name)(B), NotImplementedError, f"\"{kernel}\" not implemented for 'Bool'") for name, kernel in (
        ("round", "round_vml_cpu"), ("floor", "floor_vml_cpu"), ("ceil", "ceil_vml_cpu"), ("trunc", "trunc_vml_cpu"), ("frac", "frac_cpu"),
        ("abs", "abs_cpu"))},
    "frac of integers": (lambda: torch.frac(torch.tensor([1])), NotImplementedError, "\"frac_cpu\" not implemented for 'Long'"),
    "<< of bools": (lambda: B << B, NotImplementedError, "lshift_cpu"),
    "@": (lambda: B @ B, NotImplementedError, "\"addmm_impl_cpu_\" not implemented for 'Bool'"),
    "@ of vectors": (lambda: B[0] @ B[0], NotImplementedError, "\"dot\" not implemented for 'Bool'"),
    "@ of a vector": (lambda: B @ B[0], NotImplementedError, "\"addmv_impl_cpu\" not implemented for 'Bool'"),
    "@ of batches": (lambda: B[None] @ B[None], NotImplementedError, "\"bmm\" not implemented for 'Bool'"),
    "@ of uint16": (lambda: B.to(torch.uint16) @ B.to(torch.uint16), NotImplementedError, "\"addmm_impl_cpu_\" not implemented for 'UInt16'"),
    "linear": (lambda: F.linear(B, B, B[0]), NotImplementedError, "addmm_impl_cpu_"),
    "baddbmm": (lambda: torch.baddbmm(B[None], B[None], B[None]), NotImplementedError, "baddbmm"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses(name):
    call, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        call()


def test_what_pytorch_does_not_refuse():
    assert torch.mm(B[:0], B[:, :0]).shape == (0, 0)
    assert torch.outer(B[0], B[0]).all() and (~B).sum() == 0 and (~torch.tensor([5])).item() == -6
    assert (B.to(torch.uint8) @ B.to(torch.uint8)).tolist() == [[2, 2], [2, 2]]


def test_lerp_counts_from_the_nearer_end():
    start, end = torch.tensor([0.1, -7.3]), torch.tensor([0.3, 1e8])
    for weight in (0.3, 0.7, 1.0):
        want = start + weight * (end - start) if weight < 0.5 else end - (end - start) * (1 - weight)
        assert torch.equal(torch.lerp(start, end, weight), want) and torch.equal(torch.lerp(start, end, torch.full((2,), weight)), want)


NAN, INF = math.nan, math.inf


def test_a_nan_in_a_pool_gets_the_gradient():
    for pool in (lambda x: F.max_pool1d(x, 2, 1), lambda x: F.max_pool1d(x, 2, 1, return_indices=True)[0]):
        x = torch.tensor([[[2.0, NAN, 1.0]]], requires_grad=True)
        pool(x).sum().backward()
        assert x.grad.tolist() == [[[0, 2, 0]]]
    x = torch.tensor([[1.0, NAN, NAN, 3.0]], requires_grad=True)
    F.adaptive_max_pool1d(x, 1).sum().backward()
    assert x.grad.tolist() == [[0, 0, 1, 0]]


def test_logsumexp_and_trapezoid_of_infinities():
    x = torch.tensor([INF, 1.0, -INF], requires_grad=True)
    x.logsumexp(0).backward()
    assert x.grad.isnan().tolist() == [True, False, False] and x.grad[1:].tolist() == [0, 0]
    assert torch.trapezoid(torch.tensor([-INF] * 3)).isnan() and torch.trapezoid(torch.tensor([1.0, 2.0, 3.0]), dx=2).item() == 8
