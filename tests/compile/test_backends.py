"""What compile asks of a backend, what it gives it, and what it says of one that fails."""

import numpy as np
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


def test_a_registered_backend_is_known_by_its_name():
    seen = []

    @torch._dynamo.register_backend(name="tests_backend")
    def backend(module, example_inputs):
        seen.append(len(example_inputs))
        return module.forward
    assert torch.compile(lambda x: x + 1, backend="tests_backend")(torch.ones(1)).item() == 2 and seen == [1]
    assert "tests_backend" in torch.compiler.list_backends()
    with pytest.raises(ValueError, match="registered already"):
        torch._dynamo.register_backend(backend, name="tests_backend")


def test_the_default_backend_can_be_set():
    assert torch.compiler.get_default_backend() == "inductor"
    seen = []

    def backend(module, example_inputs):
        seen.append(1)
        return module.forward
    torch.compiler.set_default_backend(backend)
    try:
        assert torch.compile(lambda x: x + 1)(torch.ones(1)).item() == 2 and seen == [1]
    finally:
        torch.compiler.set_default_backend(None)
    assert torch.compiler.get_default_backend() == "inductor"
    with pytest.raises(torch._dynamo.exc.InvalidBackend, match="Invalid backend: 'nonsense'"):
        torch.compiler.set_default_backend("nonsense")


def test_a_call_of_compile_may_have_its_own_limit(caplog):
    function = torch.compile(lambda x, k: x * len(k), recompile_limit=2, dynamic=False)
    assert [function(torch.ones(1), "a" * n).item() for n in range(5)] == [0, 1, 2, 3, 4]
    assert "config.recompile_limit (2)" in caplog.text
    with pytest.raises(NotImplementedError, match="shapes_spec"):
        torch.compile(lambda x: x, shapes_spec=())


def test_functions_that_end_graphs():
    def triple(x):
        return x * 3
    torch._dynamo.disallow_in_graph(triple)
    assert torch.compile(lambda x: triple(x + 1) - 1)(torch.ones(1)).item() == 5
    assert torch._dynamo.explain(lambda x: triple(x + 1) - 1)(torch.ones(1)).graph_break_count == 1


def test_numpy_functions_as_functions_of_tensors():
    wrapped = torch.compiler.wrap_numpy(lambda a, b=1: {"sum": np.sum(a * b, axis=-1)})
    for function in (wrapped, torch.compile(wrapped)):
        found = function(torch.ones(2, 3), b=torch.full((3,), 2.0))
        assert found["sum"].tolist() == [6, 6] and found["sum"].dtype is torch.float32


def test_whether_numbers_are_one_object():
    made = torch.compile(lambda x, a, b: (x + 1, a is b, a is not b), backend="eager")
    for a, b in ((1, 2), (3, 3), (4, 4), (5, 6), (3, 3)):
        assert made(torch.ones(1), a, b)[1:] == (a is b, a is not b)


def test_what_a_backend_reads_of_nodes():
    seen = []

    def backend(module, inputs):
        seen.extend((node.name, node.op, node.stack_trace, "example_value" in node.meta) for node in module.graph.nodes)
        return module.forward

    def inner(x):
        return torch.sin(x)

    torch.compile(lambda x, k: inner(x) * k, backend=backend)(torch.ones(1), 2)
    found = {name: rest for name, *rest in seen}
    assert all(known for op, _, known in found.values() if op != "output")
    assert "in inner\n    return torch.sin(x)" in found["sin"][1] and found["sin"][1].index("in <lambda>") < found["sin"][1].index("in inner")
    assert torch._dynamo.decorators.mark_unbacked is torch._dynamo.mark_unbacked
