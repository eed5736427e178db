"""In-place forms of elementwise ops: what they write, what they leave to the general way, and that each write is counted once."""
import math
import warnings

import numpy as np
import pytest

import rushlight as torch

FORMS = {"add_": lambda x, y: x + y, "sub_": lambda x, y: x - y, "mul_": lambda x, y: x * y, "div_": lambda x, y: x / y,
         "__iadd__": lambda x, y: x + y, "__isub__": lambda x, y: x - y, "__imul__": lambda x, y: x * y, "__itruediv__": lambda x, y: x / y,
         "atan2_": torch.atan2, "fmod_": torch.fmod, "hypot_": torch.hypot}
UNARY = "exp sqrt neg abs sigmoid relu floor sign tanh reciprocal frac".split()


def operands(other):
    torch.manual_seed(0)
    x = torch.rand(3, 4) + 0.5
    return x, {"tensor": torch.rand(3, 4) + 0.5, "row": torch.rand(4) + 0.5, "number": 1.5, "int": 3, "double": torch.rand(3, 4).double() + 0.5,
               "itself": x}[other]


@pytest.mark.parametrize("other", ["tensor", "row", "number", "int", "double", "itself"])
@pytest.mark.parametrize("name", FORMS)
def test_two_operands(name, other):
    x, y = operands(other)
    if not isinstance(y, torch.Tensor) and name in ("atan2_", "hypot_"):
        pytest.skip("takes no numbers")
    want, array = FORMS[name](x, y), x._array
    version = x._version
    assert getattr(x, name)(y) is x
    assert x._array is array and x.dtype is torch.float32 and x._version == version + 1
    np.testing.assert_allclose(x.numpy(), want.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name):
    x, _ = operands("row")
    want = getattr(torch, name)(x)
    assert getattr(x, name + "_")() is x and x._version == 1
    assert torch.equal(x, want)


def test_views_and_their_bases():
    base = torch.zeros(4, 4)
    base[1].add_(2)
    base.t()[0].mul_(3).add_(1)
    assert base._version == 3 and base.sum() == 8 + 4 + 4
    with pytest.raises(RuntimeError, match="refer to a single memory"):
        base[0, :3].add_(base[0, 1:])
    with pytest.raises(RuntimeError, match="more than one element"):
        torch.zeros(1).expand(3).add_(1)
    line = torch.arange(4.0)
    line.detach().add_(1)
    assert line.tolist() == [1, 2, 3, 4] and line._version == 1


def test_what_is_refused():
    x = torch.zeros(3)
    with pytest.raises(RuntimeError, match="broadcast shape"):
        x.add_(torch.zeros(2, 3))
    with pytest.raises(RuntimeError, match="result type Float can't be cast"):
        torch.zeros(3, dtype=torch.int64).add_(1.5)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        torch.zeros(3, requires_grad=True).add_(1)
    with pytest.raises(TypeError):
        x.add_("one")
    with pytest.raises(TypeError):
        x.mul_()
    frozen = np.zeros(3, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.from_numpy(frozen).add_(1)
    assert x.tolist() == [0, 0, 0] and x._version == 0


def test_keywords_and_alpha():
    x = torch.ones(2)
    assert x.add_(torch.ones(2), alpha=3).tolist() == [4, 4] and x.add_(other=1).tolist() == [5, 5]
    assert x.div_(2, rounding_mode="floor").tolist() == [2, 2]


def test_history_is_recorded_as_before():
    w = torch.ones(3, requires_grad=True)
    y = w * 2
    y.add_(1).mul_(w)
    y.sum().backward()
    assert w.grad.tolist() == [5, 5, 5]
    with torch.no_grad():
        w.sub_(w.grad, alpha=0.1)
        w -= 0.5
    assert torch.allclose(w, torch.zeros(3), atol=1e-6) and w.requires_grad
    saved = torch.ones(3, requires_grad=True)
    z = torch.ones(3)
    product = saved * z
    z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_a_warning_that_is_made_an_error_does_not_write_twice():
    x = torch.tensor([1.0, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x.div_(torch.tensor([0.0, 2.0]))
        x.add_(1)
    assert x.tolist() == [float("inf"), 2.0] and x._version == 2


def test_forms_are_compiled_on_their_first_call():
    assert torch.Tensor.hypot_.__name__ == "hypot_" and torch.Tensor.__iadd__.__name__ == "__iadd__"
    assert torch.Tensor.add_.__module__ == torch.add.__module__ and torch.Tensor.add_.__doc__.startswith("In-place")


WITH_NUMBERS = {
    "add_": ((lambda x, y: (y,)), {"alpha": 0.5}, lambda x, y: x + 0.5 * y), "sub_": ((lambda x, y: (y,)), {"alpha": 2}, lambda x, y: x - 2 * y),
    "clamp_": ((lambda x, y: (0.6, 1)), {}, lambda x, y: x.clip(0.6, 1)), "lerp_": ((lambda x, y: (y, 0.25)), {}, lambda x, y: x + 0.25 * (y - x)),
    "addcmul_": ((lambda x, y: (y, y)), {"value": 0.5}, lambda x, y: x + 0.5 * y * y), "addcdiv_": ((lambda x, y: (y, x)), {"value": 0.5}, lambda x, y: x + 0.5 * y / x),
    "masked_fill_": ((lambda x, y: (y > 1, -3.0)), {}, lambda x, y: np.where(y > 1, np.float32(-3), x))}


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_with_numbers(name):
    arguments, named, wanted = WITH_NUMBERS[name]
    x, y = operands("tensor")
    want, array = wanted(x.numpy().copy(), y.numpy()), x._array
    assert getattr(x, name)(*arguments(x, y), **named) is x and x._array is array and x._version == 1
    np.testing.assert_allclose(x.numpy(), want, rtol=1e-6)
    x, y = operands("tensor")
    x[0].unsqueeze(0)[0].add_(y[0], alpha=2)  # through views
    assert x._version == 1 and torch.allclose(x[0], operands("tensor")[0][0] + 2 * y[0])
    leaf = torch.ones(3, 4, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        getattr(leaf, name)(*arguments(leaf, y), **named)
    inner = leaf * 1
    getattr(inner, name)(*arguments(inner.detach().clone(), y), **named)
    inner.sum().backward()
    assert inner.grad_fn is not None and leaf.grad.shape == (3, 4)


def test_whole_numbers():
    x = torch.arange(4)
    x += 1
    x *= 3
    x -= torch.ones(4, dtype=torch.int64)
    x.add_(1000)
    assert x.tolist() == [1002, 1005, 1008, 1011] and x._version == 4
    with pytest.raises(RuntimeError, match="can't be cast"):
        x += 0.5
    with pytest.raises(RuntimeError, match="can't be cast"):
        x /= 2
    assert (torch.arange(3) - 1).tolist() == [-1, 0, 1] and (torch.arange(3) % 2 == 1).tolist() == [False, True, False]
    assert (torch.tensor([250], dtype=torch.uint8) + 10).item() == 4 and (torch.tensor([True]) + 1).item() == 2


@pytest.mark.parametrize("strict", ["warnings", "errstate"])
def test_errors_that_are_made_of_warnings_change_nothing(strict):
    """Each form writes once: what NumPy would complain of before, or after, it wrote is computed all the same."""
    huge = torch.tensor([3e38, 1.0])
    wanted = {"mul_": (huge.clone(), (torch.tensor([10.0, 3.0]),), {}, [math.inf, 3.0]), "addcdiv_": (torch.zeros(2), (torch.ones(2), torch.tensor([0.0, 4.0])), {}, [math.inf, 0.25]),
              "addcmul_": (torch.zeros(2), (huge, huge), {}, [math.inf, 1.0]), "lerp_": (huge.clone(), (-huge, 0.25), {}, [-math.inf, 0.5]),
              "add_": (huge.clone(), (huge,), {"alpha": 2}, [math.inf, 3.0]), "clamp_": (torch.tensor([math.nan, 3.0]), (0, 2), {}, [math.nan, 2.0])}
    for name, (x, arguments, named, values) in wanted.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with np.errstate(all="warn" if strict == "warnings" else "raise"):
                getattr(x, name)(*arguments, **named)
        np.testing.assert_array_equal(x.numpy(), np.array(values, np.float32), name)
        assert x._version == 1
