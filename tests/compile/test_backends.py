"""What compile asks of a backend, what it gives it, and what it says of one that fails."""

import pytest

import rushlight as torch

X = torch.tensor([0.5, 1.0])


def test_a_backend_of_the_user_gets_mode_and_options():
    given = []

    def backend(module, examples, **more):
        given.append(more)
        return module.forward

    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh())
    module.compile(backend=backend, options={"b": 2})
    module(X)
    for more in ({"options": {"a": 1}}, {"mode": "reduce-overhead"}, {"mode": "default"}, {}):
        torch.compile(lambda x: x + 1, backend=backend, **more)(X)
    assert given == [{"options": {"b": 2}}, {"options": {"a": 1}}, {"mode": "reduce-overhead"}, {}, {}]


def test_what_a_backend_raises_is_named():
    def broken(module, examples):
        raise ValueError("no way")

    for backend, words in ((broken, "^backend='broken' raised:\nValueError: no way"), (lambda module, examples: 3, "raised:\nTypeError: Expected the compiled")):
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=words) as caught:
            torch.compile(lambda x: x + 1, backend=backend)(X)
        assert isinstance(caught.value, torch._dynamo.exc.TorchDynamoException) and caught.value.inner_exception is caught.value.__cause__


def test_inputs_come_in_the_order_of_their_use_with_their_values_as_traced():
    found = []

    def backend(module, examples):
        found.append((examples, [tuple(node.meta["example_value"].shape) for node in module.graph.nodes if node.op != "output"]))
        return module.forward

    a, b = torch.ones(2, 3), torch.ones(3, 4)
    torch.compile(lambda x, y: x @ y, backend=backend)(a, b)
    assert found[0][0][0] is a and found[0][0][1] is b and found[0][1] == [(2, 3), (3, 4), (2, 4)]


def test_only_functions_and_modules_compile():
    with pytest.raises(AssertionError, match="A callable function is expected, but <class 'int'> is provided"):
        torch.compile(3)


def test_a_result_that_is_taken_for_a_constant_is_had_once():
    calls = []

    @torch.compiler.assume_constant_result
    def settings(name="a"):
        calls.append(name)
        return {"a": len(calls) * 10, "t": torch.ones(2) * len(calls)}

    compiled = torch.compile(lambda x: x + settings()["a"] + settings("b")["t"], backend="eager", fullgraph=True)
    first = compiled(X).tolist()
    assert [compiled(X).tolist() for _ in range(3)] == [first] * 3 == [[12.5, 13.0]] * 3 and calls == ["a", "b"]
