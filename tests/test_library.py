"""`torch.library`: ops of the user's own, eager and in graphs."""
import numpy as np
import pytest

import rushlight as torch
from rushlight import nn


@torch.library.custom_op("tests::scaled_sin", mutates_args=())
def scaled_sin(x: torch.Tensor, k: float = 1.0) -> torch.Tensor:
    return torch.from_numpy(np.sin(x.numpy() * k))


@scaled_sin.register_fake
def _(x, k=1.0):
    return torch.empty_like(x)


def setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.k = inputs[1]


scaled_sin.register_autograd(lambda ctx, g: (g * torch.cos(ctx.saved_tensors[0] * ctx.k) * ctx.k, None), setup_context=setup)


@torch.library.custom_op("tests::joined", mutates_args=())
def joined(xs: list[torch.Tensor], w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.cat(xs) * w, w.clone()


def test_an_op_with_a_backward():
    x = torch.linspace(0, 1, 5, requires_grad=True)
    scaled_sin(x, 2.0).sum().backward()
    torch.testing.assert_close(x.grad, 2 * torch.cos(2 * x.detach()))
    assert torch.equal(torch.ops.tests.scaled_sin(x.detach()), torch.sin(x.detach()))
    assert torch.ops.tests.scaled_sin.default(x).requires_grad and not scaled_sin(x.detach()).requires_grad


def test_a_graph_takes_it_as_one_node_and_gradients_flow():
    x = torch.linspace(0, 1, 5, requires_grad=True)
    y = torch.compile(lambda x: scaled_sin(x, k=3.0) * 2 + 1, fullgraph=True)(x)
    torch.testing.assert_close(y, torch.sin(3 * x) * 2 + 1)
    y.sum().backward()
    torch.testing.assert_close(x.grad, 6 * torch.cos(3 * x.detach()))


def test_it_is_part_of_a_compiled_train_step():
    def trained(compiled):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(16, 4)

        def step(x):
            optimizer.zero_grad()
            loss = scaled_sin(model[1](scaled_sin(model[0](x), 0.5))).mean()
            loss.backward()
            optimizer.step()
            return loss
        run = torch.compile(step) if compiled else step
        return [run(x).item() for _ in range(5)]
    assert trained(True) == pytest.approx(trained(False), rel=1e-5)


def test_lists_of_tensors_and_several_results():
    joined.register_autograd(lambda ctx, a, b: ([a[:2] * 5, a[2:] * 7], b))
    a, b, w = torch.ones(2, requires_grad=True), torch.ones(3), torch.tensor(2.0, requires_grad=True)
    long, copy = joined([a, b], w)
    (long.sum() + copy).backward()
    assert a.grad.tolist() == [5, 5] and b.grad is None and w.grad.item() == 1


def test_an_op_without_a_backward_says_so():
    @torch.library.custom_op("tests::plain", mutates_args=())
    def plain(x: torch.Tensor) -> torch.Tensor:
        return x.clone()
    y = plain(torch.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match=r"Trying to backward through tests\.plain\.default but no autograd formula was registered"):
        y.sum().backward()


def test_an_op_without_a_fake_form_breaks_the_graph_and_still_runs():
    @torch.library.custom_op("tests::unfaked", mutates_args=())
    def unfaked(x: torch.Tensor) -> torch.Tensor:
        return x * 2
    assert torch.compile(lambda x: unfaked(x + 1) + 1)(torch.ones(2)).tolist() == [5, 5]


def test_a_result_must_not_be_an_input():
    @torch.library.custom_op("tests::same", mutates_args=())
    def same(x: torch.Tensor) -> torch.Tensor:
        return x
    with pytest.raises(RuntimeError, match="output of this custom operator .* must not also be an input"):
        same(torch.ones(1))


def test_an_op_that_writes():
    @torch.library.custom_op("tests::fill", mutates_args={"x"})
    def fill(x: torch.Tensor, value: float) -> None:
        x.fill_(value)
    for function in (fill, torch.compile(lambda x, value: fill(x, value))):
        x = torch.zeros(3)
        function(x, 4.0)
        assert x.tolist() == [4, 4, 4] and x._version == 1
    assert torch.library.infer_schema(fill, mutates_args={"x"}) == "(Tensor(a0!) x, float value) -> ()"


def test_ops_by_schema():
    library = torch.library.Library("tests_schema", "DEF")
    library.define("scale(Tensor x, float k=2.0, *, bool negative=False) -> Tensor")
    with pytest.raises(NotImplementedError, match="Could not run 'tests_schema::scale' with arguments from the 'CPU' backend"):
        torch.ops.tests_schema.scale(torch.ones(1))
    library.impl("scale", lambda x, k=2.0, *, negative=False: x * (-k if negative else k), "CPU")
    assert torch.ops.tests_schema.scale(torch.ones(1)).item() == 2 and torch.ops.tests_schema.scale(torch.ones(1), 3, negative=True).item() == -3


@pytest.mark.parametrize("make, error", [
    (lambda: torch.library.custom_op("tests::bare", mutates_args=())(lambda x: x), "must have a type annotation"),
    (lambda: torch.library.custom_op("nonsense", mutates_args=())(lambda x: x), "type annotation"),
    (lambda: torch.library.define("nonsense", "(Tensor x) -> Tensor"), "expected the qualified name"),
    (lambda: torch.library.define("linear::x", "(Tensor x) -> Tensor"), "Rushlight's own"),
    (lambda: torch.library.define("tests::bad", "Tensor x"), "expected a schema"),
    (lambda: torch.library.register_fake("tests::unknown", lambda x: x), "no custom op of this name"),
    (lambda: torch.ops.tests.unknown, "has no attribute 'unknown'"),
])
def test_what_is_refused(make, error):
    with pytest.raises((ValueError, RuntimeError, AttributeError), match=error):
        make()


def test_numpy_of_a_tensor_with_grad_while_nothing_is_recorded():
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert x.numpy().tolist() == np.asarray(x).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="Can't call numpy\\(\\) on Tensor that requires grad"):
        x.numpy()
