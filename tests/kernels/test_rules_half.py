"""Half types compiled: rules of several steps round once, as eager mode does."""
import pytest

import rushlight as torch

F = torch.nn.functional
LARGE = [20000.0, -20000.0, 60000.0, 1e-4, -3.0, 0.5]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("function", [F.hardswish, F.hardsigmoid, F.mish, F.softplus, F.silu, F.selu, F.logsigmoid, torch.mean, torch.std,
                                      lambda x: F.l1_loss(x, -x / 4), lambda x: F.huber_loss(x, -x / 4)],
                         ids=["hardswish", "hardsigmoid", "mish", "softplus", "silu", "selu", "logsigmoid", "mean", "std", "l1_loss", "huber_loss"])
def test_values_are_those_of_eager_mode(function, dtype):
    x = torch.tensor(LARGE, dtype=dtype)
    got, want = torch.compile(lambda value: function(value))(x), function(x)
    assert got.dtype is want.dtype is dtype
    # one step of the type: the last bit of float32 before the rounding may differ
    assert torch.allclose(got.float(), want.float(), rtol=2 * torch.finfo(dtype).eps, atol=0)


def test_abs_of_unsigned_integers_and_their_remainders():
    x = torch.tensor([255, 3], dtype=torch.uint8)
    assert torch.compile(lambda value: value.abs())(x).tolist() == [255, 3]
    assert (x % x).tolist() == [0, 0] and (x % 2).tolist() == [1, 1]


@pytest.mark.parametrize("width", [1, 3, 16, 70])
@pytest.mark.parametrize("loss", [lambda x, i: x.index_select(0, i).sum(), lambda x, i: F.embedding(i, x).sum(0).pow(2).sum(),
                                  lambda x, i: F.embedding(i[None], x).sum(1).sum(), lambda x, i: x.index_select(0, i).sum(1).pow(2).sum()],
                         ids=["sum", "rows", "embedding", "columns"])
def test_rows_are_added_from_expanded_gradients(loss, width):
    """The gradient of a sum is one value seen many times: reading it as rows ran out of its memory."""
    x, index = torch.randn(5, width, requires_grad=True), torch.tensor([0, 1, 1, 4])
    want, = torch.autograd.grad(loss(x, index), x)
    got, = torch.autograd.grad(torch.compile(loss)(x, index), x)
    assert torch.allclose(got, want, atol=1e-5)
