"""Ops on large arrays that do not lie alike, and programs of open sizes: what NumPy gives, and which arrangements are served."""
import numpy as np
import pytest

import rushlight as torch
from rushlight.kernels import eager, llvm, opened
from rushlight.ops import record

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no machine code here")
RNG = np.random.default_rng(0)


def numbers(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def served(name, *arrays):
    """The program's result, after the uses that are NumPy's."""
    for _ in range(eager.USES):
        opened.elementwise(eager.kernel, name, arrays)
    return opened.elementwise(eager.kernel, name, arrays)


IMAGE = numbers(3, 6, 64, 130)
ARRANGEMENTS = {
    "row": (numbers(400, 500), numbers(500)), "column": (numbers(400, 500), numbers(400, 1)), "row first": (numbers(500), numbers(400, 500)),
    "channel": (IMAGE, numbers(6, 1, 1)), "batch": (IMAGE, numbers(3, 1, 1, 1)), "one": (numbers(400, 500), numbers(1, 1)),
    "number": (numbers(400, 500), np.array(2.0, np.float32)), "image of all": (IMAGE, numbers(64, 130)), "two rows": (numbers(400, 1), numbers(1, 500)),
    "turned": (numbers(500, 400).T, numbers(400, 1)), "turned and not": (numbers(500, 400).T, numbers(400, 500)),
    "last": (IMAGE.transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2), numbers(6, 1, 1)), "cut": (numbers(400, 600)[:, 50:550], numbers(400, 500)),
    "every other": (IMAGE[:, ::2], numbers(3, 1, 1)), "doubles": (numbers(400, 500, dtype=np.float64), numbers(500, dtype=np.float64))}


@pytest.mark.parametrize("name", ["_sub", "maximum"])
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_arrangements_give_what_numpy_gives(arrangement, name):
    arrays = ARRANGEMENTS[arrangement]
    want = record.REGISTRY[name].kernel(*arrays)
    result = served(name, *arrays)
    if arrangement in ("last", "turned"):  # few elements side by side in one, whole lines in the other: either may be left to NumPy
        result = want if result is None else result
    if arrangement == "turned and not":
        assert result is None
    else:
        np.testing.assert_array_equal(result, want)
        assert result.dtype == want.dtype


def test_one_program_serves_all_sizes_of_an_arrangement():
    first, second = numbers(400, 500), numbers(500)
    served("_add", first, second)
    count = len(eager._kernels)
    for rows, columns in ((2, 70000), (1000, 131), (131072, 17)):
        a, b = numbers(rows, columns), numbers(columns)
        np.testing.assert_array_equal(opened.elementwise(eager.kernel, "_add", (a, b)), a + b)
    assert len(eager._kernels) == count


def test_gradients_of_broadcast_operands():
    for shape in ((500,), (400, 1), (1, 1), ()):
        for _ in range(eager.USES + 1):
            a, b = torch.tensor(numbers(400, 500)).requires_grad_(), torch.tensor(numbers(*shape) + 3).requires_grad_()
            out = a / b
            np.testing.assert_allclose(out.detach().numpy(), a.detach().numpy() / b.detach().numpy(), 1e-6)
            g = numbers(400, 500)
            out.backward(torch.tensor(g))
            wide = g.astype(np.float64)
            np.testing.assert_allclose(a.grad.numpy(), wide / b.detach().numpy(), 1e-5)
            slope = -wide * a.detach().numpy() / np.square(b.detach().numpy().astype(np.float64))
            lost = tuple(dim for dim in range(2) if dim < 2 - len(shape) or shape[dim - 2 + len(shape)] == 1)
            np.testing.assert_allclose(b.grad.numpy().reshape(-1), slope.sum(lost).reshape(-1), 1e-3, 1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_computed_in_float32_and_rounded_once(dtype):
    cases = {"mul": lambda x, y: x * y, "row": lambda x, y: x / (y[0] + 3), "column": lambda x, y: x - y[:, :1], "turned": lambda x, y: x.t() * y.t(),
             "number": lambda x, y: x * 0.3, "relu": lambda x, y: torch.relu(x), "gelu": lambda x, y: torch.nn.functional.gelu(x),
             "clamp": lambda x, y: x.clamp(-0.5, 0.5), "same": lambda x, y: x + y, "sum": lambda x, y: x + y[0]}
    a, b = numbers(400, 500), numbers(400, 500)
    for name, function in cases.items():
        for _ in range(eager.USES + 2):
            x, y = (torch.tensor(array).to(dtype).requires_grad_() for array in (a, b))
            out = function(x, y)
            wide_x, wide_y = (t.detach().double().requires_grad_() for t in (x, y))
            want = function(wide_x, wide_y)
            assert out.dtype is dtype
            near = {"rtol": 2 ** -7, "atol": 1e-2} if dtype is torch.bfloat16 else {"rtol": 2 ** -9, "atol": 2e-3}
            np.testing.assert_allclose(out.detach().double().numpy(), want.detach().numpy(), **near, err_msg=name)
            g = torch.tensor(numbers(*out.shape)).to(dtype)
            out.backward(g)
            want.backward(g.double())
            for one, other in ((x, wide_x), (y, wide_y)):
                assert (one.grad is None) == (other.grad is None)
                if one.grad is not None and name != "number":  # whose own rounding the float64 has not
                    assert one.grad.dtype is dtype
                    np.testing.assert_allclose(one.grad.double().numpy(), other.grad.numpy(), near["rtol"] * 2, 0.2 if name in ("row", "column", "sum") else near["atol"] * 2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_what_moves_half_types_keeps_their_bits(dtype):
    x, places = torch.tensor(numbers(400, 500)).to(dtype).requires_grad_(), torch.tensor(RNG.integers(0, 400, 300))
    kind = np.uint16
    bits = x.detach().view(torch.int16).numpy().view(kind)
    joined = torch.cat([x, x], 1)
    np.testing.assert_array_equal(joined.detach().view(torch.int16).numpy().view(kind), np.concatenate([bits, bits], 1))
    np.testing.assert_array_equal(x[places].detach().view(torch.int16).numpy().view(kind), bits[places.numpy()])
    np.testing.assert_array_equal(x.flip(0).detach().view(torch.int16).numpy().view(kind), bits[::-1])
    joined.sum().backward()
    assert x.grad.dtype is dtype and (x.grad == 2).all().item()


def test_ops_by_their_rules():
    x, y = numbers(300, 800), numbers(300, 800)
    cases = [(torch.nn.functional.glu, (x,)), (torch.tril, (x,)), (torch.nn.functional.huber_loss, (x, y)), (torch.nn.functional.smooth_l1_loss, (x, y)),
             (lambda t: torch.roll(t, (5, 3), (0, 1)), (x,)), (lambda t: torch.nn.functional.group_norm(t.reshape(4, 6, 100, 100), 3), (x,))]
    for function, arrays in cases:
        results = []
        for _ in range(eager.USES + 2):  # NumPy's, then the program's
            tensors = [torch.tensor(array).requires_grad_() for array in arrays]
            out = function(*tensors)
            out.square().sum().backward()
            results.append([out.detach().numpy(), *[tensor.grad.numpy() for tensor in tensors]])
        for one, other in zip(results[0], results[-1]):
            np.testing.assert_allclose(one, other, 1e-4, 1e-5)


def test_angle_of_real_numbers():
    x = numbers(400, 500)
    x[0, :4] = np.nan, -0.0, np.inf, -np.inf
    result = torch.angle(torch.tensor(x)).numpy()
    np.testing.assert_array_equal(result, np.where(np.isnan(x), x, np.where(x < 0, np.float32(np.pi), np.float32(0))))
