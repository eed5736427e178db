"""`static.function`: when it traces, when it does not, and what it says about it."""
import logging

import pytest

import rushlight as torch

static = torch.static


def counted(**options):
    """A static function and the list of its traces."""
    traces = []

    @static.function(**options)
    def double(x, k=1):
        traces.append(tuple(x.get_shape()) if isinstance(x, torch.Tensor) else x)
        return torch.sin(x) * k if isinstance(x, torch.Tensor) else torch.ones(1) * x
    return double, traces


def test_one_trace_for_each_signature():
    double, traces = counted()
    for size in (2, 3, 2, 3):
        double(torch.ones(size))
    assert traces == [(2,), (3,)]
    double(torch.ones(2, dtype=torch.float64))
    double(torch.ones(2), 2)
    double(torch.ones(2), k=2)
    double(x=torch.ones(2), k=2)
    assert len(traces) == 4
    double(torch.tensor(1.0)), double(torch.tensor(2.0))
    assert len(traces) == 5
    double(1), double(2), double(1)
    assert len(traces) == 7


def test_reduce_retracing():
    double, traces = counted(reduce_retracing=True)
    for size in range(2, 9):
        assert torch.allclose(double(torch.ones(size)), torch.sin(torch.ones(size)))
    assert traces == [(2,), (None,)]


def test_input_signature():
    double, traces = counted(input_signature=[static.TensorSpec([None], torch.float32)])

    @static.function(input_signature=[static.TensorSpec([None, 2])])
    def soft(x):
        return torch.softmax(x, 1) @ weight

    weight = torch.nn.Parameter(torch.ones(2, 2))
    soft(torch.ones(4, 2)).sum().backward()
    assert weight.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    with torch.no_grad():
        weight.fill_(3.0)
    assert soft(torch.ones(1, 2)).tolist() == [[3.0, 3.0]]  # the present value of what it closes over
    with pytest.raises(TypeError, match="incompatible with input_signature"):
        soft(torch.ones(3, 3))
    one = soft.get_concrete_function()
    assert one.specs[0].shape == (None, 2) and len(one.inputs) == 1
    with pytest.raises(ValueError, match="expected TensorSpec"):
        one(torch.ones(2, 3))


def test_python_runs_while_tracing_only(capsys):
    @static.function
    def shout(x):
        print("tracing", tuple(x.get_shape()))
        return {"y": x + 1, "note": "kept"}

    for _ in range(3):
        out = shout(torch.ones(2))
    assert out["y"].tolist() == [2.0, 2.0] and out["note"] == "kept"
    assert capsys.readouterr().out == "tracing (2,)\n"


def test_retracing_warning(caplog):
    double, _ = counted()
    with caplog.at_level(logging.WARNING):
        for size in range(2, 6):
            double(torch.ones(size))
        assert not caplog.records
        double(torch.ones(9))
    assert caplog.records[0].getMessage().startswith("5 out of the last 5 calls to <function")
    assert all(part in caplog.text for part in ("(1)", "(2)", "(3)", "reduce_retracing=True"))


def test_functions_call_functions():
    inner, traces = counted()

    @static.function
    def outer(x):
        return inner(x, 3) + 1

    assert torch.allclose(outer(torch.ones(2)), torch.sin(torch.ones(2)) * 3 + 1)
    assert traces == [(2,)] and len(inner.graphs) == 0


def test_methods():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(2, 1)

        @static.function
        def forward(self, x):
            return self.lin(x)

    net = Net()
    assert torch.allclose(net(torch.ones(1, 2)), net.lin(torch.ones(1, 2)))


def test_leaks_and_branches():
    kept = []

    @static.function
    def leaks(x):
        kept.append(x)
        return x * 2

    leaks(torch.ones(1))
    with pytest.raises(TypeError, match="is out of scope and cannot be used here"):
        kept[0] + 1

    @static.function
    def branches(x):
        return x if x.sum() > 0 else -x

    with pytest.raises(TypeError, match="as a Python bool is not allowed"):
        branches(torch.ones(1))


def test_no_variables_inside():
    @static.function
    def f(x):
        return x + static.variable(torch.ones(1))
    with pytest.raises(ValueError, match="tf.function only supports singleton tf.Variables created on the first call."):
        f(torch.ones(1))


def test_a_concrete_function_keeps_its_python_values():
    @static.function
    def f(x, k=1):
        return x * k
    concrete = f.get_concrete_function(torch.ones(2), 3)
    assert concrete(torch.ones(2)).tolist() == [3.0, 3.0] == concrete(torch.ones(2), 3).tolist() and len(concrete.outputs) == 1
    with pytest.raises(TypeError, match=r"was traced with the Python values \[3\] but was called with \[4\]"):
        concrete(torch.ones(2), 4)
