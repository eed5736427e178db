"""Half types: widened to float32, computed, rounded once, whatever the size; and what they save for backward."""
import numpy as np
import pytest

import rushlight as torch
from rushlight.core import busy
from rushlight.kernels import llvm

F = torch.nn.functional
OPS = {
    "exp": lambda x, y: x.exp(), "neg": lambda x, y: -x, "sigmoid": lambda x, y: x.sigmoid(), "gelu": lambda x, y: F.gelu(x), "silu": lambda x, y: F.silu(x),
    "add": lambda x, y: x + y, "mul": lambda x, y: x * y, "div": lambda x, y: x / (y * y + 1), "row": lambda x, y: x * y[0], "number": lambda x, y: x * 2.7,
    "from a number": lambda x, y: 1.3 - x, "power": lambda x, y: x**2, "sum": lambda x, y: x.sum(-1), "mean": lambda x, y: x.mean(0), "max": lambda x, y: x.amax(-1),
    "softmax": lambda x, y: x.softmax(-1), "log_softmax": lambda x, y: x.log_softmax(-1), "layer_norm": lambda x, y: F.layer_norm(x, x.shape[-1:]),
    "cat": lambda x, y: torch.cat([x, y], -1), "stack": lambda x, y: torch.stack([x, y], -1), "where": lambda x, y: torch.where(x > 0, x, y),
    "clamp": lambda x, y: x.clamp(-1, 1), "view": lambda x, y: x.reshape(-1), "turned": lambda x, y: x.t(), "part": lambda x, y: x[1:3], "clone": lambda x, y: x.clone(),
    "expand": lambda x, y: x[:1].expand(3, x.shape[1]), "matmul": lambda x, y: x @ y.t(), "float": lambda x, y: x.float(), "double": lambda x, y: x.double(),
    "masked_fill": lambda x, y: x.masked_fill(x > 0, 0.5), "flip": lambda x, y: x.flip(0), "gather": lambda x, y: x.gather(0, torch.zeros(2, x.shape[1]).long()),
}


@pytest.mark.parametrize("shape", [(4, 5), (200, 211)])  # straight-line Python; machine code
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", OPS)
def test_as_float32_rounded(name, dtype, shape):
    torch.manual_seed(0)
    values = torch.randn(2, *shape).to(dtype)
    steps = 2.0 ** -8 if dtype is torch.bfloat16 else 2.0 ** -11
    results = []
    for kind in (dtype, torch.float32):
        x, y = (part.clone().to(kind).requires_grad_() for part in values)
        out = OPS[name](x, y)
        torch.manual_seed(1)
        out.backward(torch.rand(out.shape).to(dtype).to(out.dtype))
        results.append([out.detach(), *(part.grad for part in (x, y) if part.grad is not None)])
    assert len(results[0]) == len(results[1])
    for half, whole in zip(*results):
        if name in ("float", "double") and half is results[0][0]:
            assert half.dtype is OPS[name](values[0], None).dtype
        else:
            assert half.dtype is dtype
        a, b = half.double().numpy(), whole.double().numpy()
        few = max(1.0, np.abs(b).max())
        assert a.shape == b.shape and np.all(np.abs(a - b) <= 4 * steps * np.abs(b) + 4 * steps * few)
    exact = results[1][0].to(results[0][0].dtype)
    if name not in ("gelu", "exp", "sigmoid", "silu", "softmax", "log_softmax", "div", "sum", "mean", "layer_norm", "matmul", "power", "from a number"):
        assert torch.equal(results[0][0], exact)


@pytest.mark.parametrize("size", [5, 50_001])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_comparisons_and_what_no_number_is(dtype, size):
    x = torch.linspace(-2, 2, size).to(dtype)
    x[1], x[2], x[3] = float("nan"), float("inf"), -0.0
    wide = x.float()
    for op in (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge):
        assert torch.equal(op(x, 0.5), op(wide, 0.5)) and torch.equal(op(x, x.flip(0)), op(wide, wide.flip(0)))
    for op in (torch.relu, torch.abs, torch.exp, torch.neg):
        assert torch.equal(op(x).isnan(), op(wide).isnan()) and torch.equal(op(x)[2:4], op(wide)[2:4].to(dtype))
    assert (x * 1e30 if dtype is torch.float16 else x * 1e38 * 100)[2].isinf() and x.neg()[3].signbit().item() is False


def test_the_graph_of_a_half_type():
    x = torch.ones(2, 2, dtype=torch.float16, requires_grad=True)
    y = (x * 3).exp()
    assert y.grad_fn.name() == "ExpBackward0" and y.grad_fn.next_functions[0][0].name() == "MulBackward0"
    gradient, = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert gradient.dtype is torch.float16 and gradient.requires_grad
    gradient.sum().backward()
    np.testing.assert_allclose(x.grad.float().numpy(), 9 * np.exp(3.0), rtol=2e-3)
    z = x * x
    with torch.no_grad():
        x += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    with pytest.raises(RuntimeError, match="must match the size"):
        x * torch.ones(3, dtype=torch.float16)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        x @ torch.ones(3, 2, dtype=torch.float16)


def test_numbers_that_do_not_fit():
    mask = torch.tensor([True, False])
    for dtype, number in ((torch.float16, 65505.0), (torch.bfloat16, 3.39e38), (torch.float32, 1e39)):
        for call in (lambda: torch.full((2,), number, dtype=dtype), lambda: torch.zeros(2, dtype=dtype).fill_(number),  # noqa: B023
                     lambda: torch.zeros(2, dtype=dtype).masked_fill(mask, number), lambda: torch.zeros(2, dtype=dtype).masked_fill_(mask, number)):  # noqa: B023
            with pytest.raises(RuntimeError, match="cannot be converted to type .* without overflow"):
                call()
        assert torch.zeros(2, dtype=dtype).masked_fill(mask, float("-inf")).tolist() == [float("-inf"), 0.0]


ROW_CALLS = [lambda x: x.softmax(-1), lambda x: x.log_softmax(0), lambda x: x.logsumexp(-1), lambda x: x.sum(), lambda x: x.sum(0), lambda x: x.mean((0, 1), keepdim=True),
             lambda x: x.mean(), lambda x: x.norm(dim=-1), lambda x: x.norm(1, dim=0), lambda x: x.norm(float("inf"), dim=1),
             lambda x: torch.nn.functional.layer_norm(x, (33,), torch.full((33,), 2.0, dtype=x.dtype)),
             lambda x: torch.nn.functional.batch_norm(x, torch.zeros(5, dtype=x.dtype), torch.ones(5, dtype=x.dtype))]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("call", ROW_CALLS)
def test_rows_by_programs_are_what_they_were(call, dtype, monkeypatch):
    from rushlight.ops import repeated
    x = torch.linspace(-3, 5, 10 * 5 * 33).reshape(10, 5, 33).sin().to(dtype).requires_grad_()
    found, served = [], []
    by_program = busy.compilers["rows of half types"](None, None)

    def rows(name, args):
        result = by_program(name, args)
        served.append(result is not None)
        return result

    monkeypatch.setitem(busy.compilers, "rows of half types", lambda function, use: rows)
    for enough in (1 << 60, -1):
        monkeypatch.setattr(repeated.half_rows, "enough", enough)
        repeated.half_rows.uses.clear()
        for _ in range(3):  # NumPy serves the first two
            out = call(x)
        grad, = torch.autograd.grad(out, x, torch.full(out.shape, 0.5, dtype=dtype))
        assert out.dtype is grad.dtype is dtype
        found.append((out.detach().float().numpy(), grad.float().numpy()))
    repeated.half_rows.uses.clear()
    assert True in served or not llvm.available()
    for before, after in zip(*found):
        np.testing.assert_allclose(before, after, rtol=2e-2 if dtype is torch.bfloat16 else 2e-3, atol=1e-3)
    nan = x.detach().clone()
    nan[0, 0, 0] = float("nan")
    assert call(nan).isnan().any()
