"""What shares memory in plain Python shares it in compiled code."""
import pytest

import rushlight as torch
from rushlight.kernels.sharing import overlapping, shares


def written_first(x):
    x.add_(1)
    return x[0:1], x.view(2, 1), x


def view_of_written(x):
    x.add_(1)
    return x[0:1]


def same_shape_view_of_written(x):
    x.add_(1)
    return x.view(2)


def view_of_result(x):
    y = x.sin()
    return y[0:1], y, y.view(2, 1)


def two_views_of_one(x):
    y = x.sin()
    return y[0:1], y[0:2]


def view_of_a_view(x):
    y = x.exp().view(2, 1)
    return y.t(), y[0]


def write_through_view(x):
    y = x.sin()
    z = y[1:]
    z.mul_(2)
    return z, y


def parts_of_a_result(x):
    y = x.sin()
    first, second = y.chunk(2)
    return second, y, first


def unpacked(x):
    y = x.sin() + 1
    first, second = y
    return second.view(1), y, first


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("function", [written_first, view_of_written, same_shape_view_of_written, view_of_result, two_views_of_one,
                                      view_of_a_view, write_through_view, parts_of_a_result, unpacked], ids=lambda f: f.__name__)
def test_a_write_into_one_result_shows_in_the_others(function, gradient):
    found = []
    for run in (function, torch.compile(function)):
        x = torch.tensor([0.5, 1.0])
        given = (x * 1).requires_grad_(gradient and function not in (written_first, view_of_written, same_shape_view_of_written))
        results = run(given)
        results = results if isinstance(results, tuple) else (results,)
        with torch.no_grad():
            results[0].mul_(10)
        found.append([given.tolist(), *[result.tolist() for result in results]])
    assert all(torch.allclose(torch.tensor(one), torch.tensor(two)) for one, two in zip(*found))


def written_and_viewed(x, y):
    y.add_(1)
    return y, y.view(-1), y.view(1, 2)


def history_beside_a_write(x, y):
    z = x * 2
    y.add_(1)
    return z, y, y.view(-1).unsqueeze(0)


def view_before_a_write(x, y):
    w = y.view(-1)
    y.add_(1)
    return w, y


def written_twice(x, y):
    w = y.add_(1)
    return w, y, w.mul_(2), w.view_as(w)


def view_of_a_result_beside_a_write(x, y):
    z = x * 2
    y.add_(1)
    return z, z.view(-1), y


def detached_beside_a_write(x, y):
    y.add_(1)
    return y, y.detach(), y.contiguous(), y.float()


def write_into_a_result(x, y):
    z = x * 2
    z.add_(1)
    return z, z.view(-1), z[:1]


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("function", [written_and_viewed, history_beside_a_write, view_before_a_write, written_twice,
                                      view_of_a_result_beside_a_write, detached_beside_a_write, write_into_a_result], ids=lambda f: f.__name__)
def test_results_are_the_same_objects_over_the_same_memory(function, gradient):
    """A view has its own object, and its base's memory, also where the graph writes into an input."""
    found = []
    for run in (function, torch.compile(function)):
        given = torch.tensor([0.5, 1.0], requires_grad=gradient), torch.tensor([2.0, 3.0])
        seen = [*given, *run(*given)]
        found.append([[one is two for one in seen for two in seen], [one.data_ptr() == two.data_ptr() for one in seen for two in seen],
                      [one.requires_grad for one in seen], [one.tolist() for one in seen]])
    assert found[0] == found[1]


def test_overlapping():
    def look(module, examples):
        node = {node.name: node for node in module.graph.nodes}
        found.append(shares(node["cos"], node["view"]) and not shares(node["sin"], node["cos"]))
        found.append(overlapping([]) == overlapping([node["sin"], node["exp"]]) == set())
        found.append(overlapping([node["sin"], node["cos"], node["view"]]) == {node["cos"], node["view"]})
        found.append(overlapping([node["view"]], [node["cos"]]) == {node["view"]})
        return module.forward
    found = []
    torch.compile(lambda x: (x.sin(), x.cos().view(1, 2), x.exp()), backend=look)(torch.ones(2))
    assert found == [True] * 4


F = torch.nn.functional


@pytest.mark.parametrize("write", [
    lambda x: F.relu(x, True), lambda x: F.relu(x, inplace=True), lambda x: F.dropout(x, 0.5, True, True), lambda x: F.elu(x, 1.0, True),
    lambda x: F.rrelu(x, 0.1, 0.3, False, True), lambda x: x.__iadd__(1), lambda x: x.__itruediv__(2), lambda x: x.__setitem__(0, 9.0),
    lambda x: x[2:].__setitem__(slice(None), x[:2]), lambda x: torch.sin(x, out=x), lambda x: torch.cumsum(x, 0, out=x),
    lambda x: F.embedding(torch.tensor([0]), x.view(2, 2), max_norm=1.0), lambda x: F.embedding(torch.tensor([0]), x.view(2, 2), None, 1.0),
    lambda x: x.polygamma_(1), lambda x: x.view(2, 2)[0].add_(1), lambda x: x.detach().mul_(3)])
def test_what_is_read_after_a_write_sees_it(write):
    """In all the ways that an op is told to write: its name, `inplace` and `out` by name and by place, an operator."""
    def function(x):
        write(x)
        return x * 2
    found = []
    for run in (function, torch.compile(function)):
        torch.manual_seed(0)
        x = torch.tensor([-1.0, 2.0, 3.0, -4.0])
        found.append(torch.stack([run(x), x]))
    torch.testing.assert_close(*found, rtol=1e-6, atol=0)


def test_reductions_of_nothing_compile():
    f = torch.compile(lambda x: (x.sum(0), x.prod(0), x.mean(), x.max(1).values if x.shape[1] else x))
    for shape in ((2, 0), (0, 3), (0, 0), (2, 2)):
        x = torch.ones(*shape)
        assert [list(part.shape) for part in f(x)] == [[shape[1]], [shape[1]], [], [shape[0]] if shape[1] else list(shape)]


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_filled_result_beside_a_write_has_its_shape(dynamic):
    def filled(x, y, number):
        x.mul_(2)
        full = torch.full_like(y, number)
        return full + 0, full + 1
    found = torch.compile(filled, dynamic=dynamic)(torch.ones(5), torch.ones(5), 2)
    assert [result.tolist() for result in found] == [[2] * 5, [3] * 5]
