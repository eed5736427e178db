"""Results that are parts of one value lie in its storage in compiled code as they do in eager mode."""

import pytest

import rushlight as torch
from rushlight.kernels.parting import parted


def made(f):
    """The value between: one that the graph computes."""
    return lambda x: f(torch.sin(x))


PROGRAMS = {
    "rows": made(lambda y: (y[0], y[1])),
    "a row and all": made(lambda y: (y[0], y)),
    "chunks": made(lambda y: y.chunk(2)),
    "chunks and a use of them": made(lambda y: (*y.chunk(2), y.chunk(2)[0] * 2)),
    "unbind": made(lambda y: y.unbind(0)),
    "transposed": made(lambda y: (y.t(), y)),
    "flat": made(lambda y: (y.view(-1), y)),
    "views of views": made(lambda y: (y[1:][0], y[:2][:, 1])),
    "expanded": made(lambda y: y.expand(3, 4, 4)),
    "windows": made(lambda y: (y.unfold(0, 2, 1), y[1])),
    "diagonal": made(lambda y: (y.diagonal(), y[1:])),
    "detached": made(lambda y: (y[0], y[1].detach())),
    "sizes": lambda x: (lambda y: (y.view(x.shape[0] * 2, -1), y[0]))(torch.sin(x)),
    "of an input": lambda x: (x[0], x[1:].t(), torch.sin(x)),
    "of two values": lambda x: (*torch.sin(x).chunk(2), *torch.cos(x).chunk(2)),
    "of a product": lambda x: (x @ x).chunk(2),
    "of maxima": lambda x: (lambda m: (m.values[1:], m.indices, m.values))(torch.sin(x).max(0)),
    "written": lambda x: (lambda y: (y[0].add_(1), y))(torch.sin(x)),
    "written after": lambda x: (lambda y: (y[0], y.mul_(2), y[1]))(torch.sin(x)),
    "without history": lambda x: (lambda y: (y[0].detach(), y.detach()[1], y))(torch.cos(x) * 2),
}


def places(results):
    numbers = {}
    return [(numbers.setdefault(r.untyped_storage().data_ptr(), len(numbers)), r.storage_offset(), r.stride(), r.requires_grad) for r in results]


def flat(results):
    return [results] if isinstance(results, torch.Tensor) else list(results)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_places(name, history, dynamic):
    f = PROGRAMS[name]
    compiled = torch.compile(f, dynamic=dynamic)
    for size in (4, 4, 4, 4, 4, 6):
        if size == 6 and name == "expanded":
            continue
        leaf = torch.linspace(0, 1, size * size).view(size, size).requires_grad_(history)
        want, got = flat(f(leaf * 1)), flat(compiled(leaf * 1))
        assert places(got) == places(want)
        for one, other in zip(got, want, strict=True):
            torch.testing.assert_close(one, other)
        if history:
            grads = []
            for results in (want, got):
                leaf.grad = None
                sum(((at + 1) * r.sum()) for at, r in enumerate(results) if r.requires_grad).backward()
                grads.append(leaf.grad.clone())
            torch.testing.assert_close(*grads)


def test_a_write_into_a_part_shows_in_the_whole():
    f = torch.compile(lambda x: (lambda y: (y[1], y))(torch.sin(x)))
    for _ in range(6):
        row, whole = f(torch.zeros(3, 2))
        row.add_(1)
        assert whole.tolist() == [[0, 0], [1, 1], [0, 0]]


def test_graph_without_parts_stays_whole():
    seen = []

    def keep(module, examples):
        seen.append(parted(module, False))
        return module.forward

    torch.compile(lambda x: (torch.sin(x), torch.cos(x)[0]), backend=keep)(torch.ones(2, 2))
    torch.compile(lambda x: torch.sin(x).chunk(2), backend=keep)(torch.ones(2, 2))
    assert seen[0] is None
    assert seen[1].core.code.split("return ")[1].strip() == "(sin,)"


def test_modes_are_left_as_they_are():
    def f(x):
        with torch.no_grad():
            return x + 1, x.expand(2, -1)

    assert [r.shape for r in torch.compile(f)(torch.ones(3))] == [(3,), (2, 3)]
    assert torch.is_grad_enabled()


def within(x):
    """A piece that ends where nothing is recorded, with a view from where all is."""
    part = x[1:]
    with torch.no_grad():
        mean = float(x.mean()) > 0
    return part, mean


def beside(x):
    """A piece that begins where nothing is recorded and ends where all is, and the other way round."""
    torch.set_grad_enabled(False)
    print(end="")
    quiet, y = x[1:], x * 2
    torch.set_grad_enabled(True)
    part, z = x[:2], x * 3
    print(end="")
    return quiet, part, y, z


@pytest.mark.parametrize("f", [within, beside])
@pytest.mark.parametrize("leaf", [False, True])
def test_views_are_of_the_mode_that_they_are_made_in(f, leaf):
    compiled = torch.compile(f)
    x = torch.linspace(0, 1, 4, requires_grad=True)
    x = x if leaf else x * 1
    for _ in range(2):
        want, got = f(x), compiled(x)
        assert [getattr(r, "requires_grad", None) for r in got] == [getattr(r, "requires_grad", None) for r in want]
        assert [type(getattr(r, "grad_fn", None)).__name__ for r in got[:1]] == [type(getattr(r, "grad_fn", None)).__name__ for r in want[:1]]
        assert got[0]._base is x


def test_a_view_made_without_recording_refuses_what_is_recorded():
    def f(x):
        with torch.no_grad():
            part, other = x[1:], x * 2
        print(end="")
        return part, other

    weight = torch.ones(3, requires_grad=True)
    for g in (f, torch.compile(f)):
        part, _ = g(torch.ones(4))
        with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
            part.mul_(weight)
