"""`inspect.signature` is part of the graph, and guarded."""

import inspect

import rushlight as torch


def test_signature():
    def plain(a, b=2, *args, c, d=4.5, **named):
        pass

    class Model(torch.nn.Module):
        def forward(self, x, mask=None, *, scale=1.0):
            return x

    model = Model()

    def f(x, given):
        wanted = set(inspect.signature(model.forward).parameters.keys())
        shown = str(inspect.signature(plain))
        kinds = [(one.name, one.kind.name, one.default) for one in inspect.signature(plain).parameters.values()]
        return x * len(wanted), {name: value for name, value in given.items() if name in wanted}, shown, kinds, inspect.ismethod(model.forward)

    given = {"mask": 1, "other": 2}
    compiled = torch.compile(f, backend="eager", fullgraph=True)
    for _ in range(3):
        assert str(compiled(torch.ones(2), given)) == str(f(torch.ones(2), given))
    plain.__defaults__ = (3,)
    assert str(compiled(torch.ones(2), given)) == str(f(torch.ones(2), given))
    Model.forward = lambda self, other: other
    assert str(compiled(torch.ones(2), given)) == str(f(torch.ones(2), given))


def test_a_signature_of_its_own_is_left_to_python():
    def plain(a):
        pass

    def f(x):
        return x + len(inspect.signature(plain).parameters)

    compiled = torch.compile(f, backend="eager")
    assert compiled(torch.zeros(1)).item() == 1
    plain.__signature__ = inspect.signature(lambda a, b, c: None)
    assert compiled(torch.zeros(1)).item() == 3
