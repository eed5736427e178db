"""`disable(recursive=False)`: the function's own body runs outside graphs, what it calls is compiled."""

import pytest

import rushlight as torch

X = torch.tensor([0.5, 1.0, -2.0])


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 3)

    def forward(self, x, *, scale=1):
        return self.lin(x).relu() * scale


class Owner:
    def __init__(self):
        self.layer, self.seen = Layer(), []

    @torch._dynamo.disable(recursive=False)
    def method(self, x, by=2, *more, flag=False, **named):
        self.seen.append(torch.compiler.is_compiling())
        total = self.layer(x, scale=by) + sum(more)
        for name in named:
            total = double(total) + named[name]
        return total if flag else total.sin()


def double(x):
    return torch.cos(x) * 2


@torch.compiler.disable(recursive=False)
def plain(x):
    y = x + 1
    inner = lambda t: t * 3  # noqa: E731  made here: runs as it is
    return double(y) + double(inner(x)), torch.compiler.is_compiling()


@torch.compiler.disable(recursive=False)
def failing(x):
    return missing(double(x))  # noqa: F821


@torch.compiler.disable(recursive=False)
def steps(x):
    yield x
    yield double(x)


def compiled(f):
    """A compiled function, and the ops of its graphs."""
    found = []

    def backend(module, inputs):
        found.append([node.target.__name__ for node in module.graph.nodes if node.op == "call_function"])
        return module.forward
    return torch.compile(f, backend=backend), found


def test_callees_are_compiled_and_the_body_is_not():
    def f(x):
        return torch.sin(x), plain(x), x * 2

    fast, found = compiled(f)
    for _ in range(3):
        got, want = fast(X), f(X)
        assert torch.equal(got[0], want[0]) and torch.equal(got[1][0], want[1][0]) and got[1][1:] == want[1][1:] == (False,)
    assert found == [["sin"], ["cos", "mul"], ["mul"]]


def test_methods_modules_defaults_and_keywords():
    owner = Owner()

    def f(x, args, named):
        return owner.method(x) + owner.method(x, 3, 1.0, 2.0, flag=True) + owner.method(x, *args, **named)

    fast, found = compiled(f)
    for _ in range(3):
        assert torch.allclose(fast(X, (4,), {"flag": True, "k": 2}), f(X, (4,), {"flag": True, "k": 2}))
    assert len(owner.seen) == 18 and not any(owner.seen)
    assert ["cos", "mul"] in found and any("linear" in names for names in found)


def test_outside_of_compiled_code_nothing_is_compiled():
    fast, found = compiled(lambda x: x + 1)
    fast(X)
    plain(X)
    assert len(found) == 1


def test_exceptions_and_generators():
    fast, _ = compiled(lambda x: failing(x))
    with pytest.raises(NameError, match="missing"):
        fast(X)
    fast, _ = compiled(lambda x: [item + 1 for item in steps(x)])
    assert all(map(torch.equal, fast(X), [X + 1, double(X) + 1]))
