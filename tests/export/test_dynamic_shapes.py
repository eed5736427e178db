"""The forms of `dynamic_shapes` and their errors, as torch.export's (the expected words are from torch 2.13)."""
import dataclasses
import io

import pytest

import rushlight as torch
from rushlight.export import AdditionalInputs, Dim, ShapesCollection, UserError, export

X = torch.ones


class Double(torch.nn.Module):
    def forward(self, x):
        return x * 2


class Add(torch.nn.Module):
    def forward(self, x, y):
        return x + y


class Pairs(torch.nn.Module):
    def forward(self, x):
        return x.reshape(-1, 2)


class Tree(torch.nn.Module):
    def forward(self, d, *rest, **options):
        return d["a"] + d["b"][0] + sum(rest) + options["z"]


def sizes(program, *shapes):
    """Which sizes a program takes."""
    taken = []
    for shape in shapes:
        try:
            program(X(*shape))
            taken.append(shape)
        except AssertionError:
            pass
    return taken


@pytest.mark.parametrize("said, taken", [
    ({"x": {0: Dim("b")}}, [(1, 2), (4, 2), (9, 2)]), (({0: Dim("b", max=4)},), [(1, 2), (4, 2)]), ([[Dim("b"), None]], [(1, 2), (4, 2), (9, 2)]),
    (({-2: Dim.DYNAMIC},), [(1, 2), (4, 2), (9, 2)]), (({0: Dim.AUTO, 1: Dim.AUTO},), [(1, 2), (4, 2), (9, 2), (4, 3)]),
    (({0: Dim.AUTO(min=2, max=5)},), [(1, 2), (4, 2)]), (({0: Dim.AUTO(min=3, max=5)},), [(4, 2)]), (({0: Dim.STATIC, 1: 2},), [(4, 2)]), (None, [(4, 2)]), (({},), [(4, 2)]), ((None,), [(4, 2)]),
    (({0: 2 * Dim("b", max=3)},), [(4, 2)]), (({0: Dim("b") + 1, 1: Dim("c")},), [(1, 2), (4, 2), (9, 2), (4, 3)])])
def test_forms(said, taken):
    program = export(Double(), (X(4, 2),), dynamic_shapes=said)
    assert sizes(program, (1, 2), (4, 2), (9, 2), (4, 3)) == taken


@pytest.mark.parametrize("said, error, text", [
    ({"y": {}}, UserError, r"When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names \['x'\] of `inputs`, but here they are"),
    (({}, None), UserError, "Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `inputs` has 1 elements, but `dynamic_shapes` has 2"),
    (([Dim("b")],), UserError, r"Expected dynamic shape spec \[Dim\('b', min=0\)\] specified at `dynamic_shapes\[0\]` to have the same length as the actual tensor "
                               r"shape torch.Size\(\[4, 2\]\) \(expected 2, but got 1 instead\)"),
    (({0: "b"},), UserError, r"Unexpected dimension mapped to index 0 in input tensor shape \{0: 'b'\} specified at `dynamic_shapes\[0\]` \(expected None, an int"),
    ({"x": Dim("b")}, UserError, r"Unexpected input tensor shape Dim\('b', min=0\) specified at `dynamic_shapes\['x'\]` \(expected either a list/tuple"),
    (({0: 5},), RuntimeError, r"Static shape constraint of 5 does not match input size of 4, for L\['x'\].size\(\)\[0\]"),
    (({0: Dim("b", min=5)},), RuntimeError, r"4 not in range \[5, int_oo\]"), (({0: 3 * Dim("b")},), UserError, r"Expected shape\[0\] = 4 of input Tensor to be of the form 3\*b"),
    (({7: Dim("b")},), UserError, "names dim 7"), (5, UserError, "a dict or a list/tuple")])
def test_errors(said, error, text):
    with pytest.raises(error, match=text):
        export(Double(), (X(4, 2),), dynamic_shapes=said)


@pytest.mark.parametrize("use, text", [
    (lambda d: d * 1.5, "Attempted to multiply 1.5 with b, where a positive integer was expected"), (lambda d: d * -1, "Attempted to multiply -1 with b"),
    (lambda d: d + d, r"Attempted to add Dim\('b', min=0\) to b, where an integer was expected"), (lambda d: 2 * d - 1.5, r"Attempted to subtract 1.5 from 2\*b"),
    (lambda d: 5 - d, "Attempted to negate b")])
def test_derived_dims_grow(use, text):
    with pytest.raises(NotImplementedError, match=text):
        use(Dim("b"))


def test_reprs():
    b = Dim("b", max=5)
    assert [repr(item) for item in (b, Dim("c", min=2), 2 * b + 1, (b - 1) * 2, Dim.AUTO, Dim.AUTO(min=1, max=5))] == [
        "Dim('b', min=0, max=5)", "Dim('c')", "2*b + 1", "2*b - 2", "DimHint(AUTO)", "DimHint(AUTO, min=1, max=5)"]


def test_sizes_that_a_reshape_needs():
    with pytest.raises(UserError) as caught:
        export(Pairs(), (X(6),), dynamic_shapes=({0: Dim("a")},))
    assert "in the specified range satisfy the generated guard (L['x'].size()[0] % 2) == 0." in str(caught.value)
    assert str(caught.value).endswith("_a = Dim('_a', min=1)\n  a = 2*_a")
    program = export(Pairs(), (X(6),), dynamic_shapes=({0: 2 * Dim("_a", min=1, max=10)},))
    assert sizes(program, (2,), (5,), (20,), (22,)) == [(2,), (20,)]
    with pytest.raises(AssertionError, match=r"Guard failed: x.size\(\)\[0\] <= 20"):
        program(X(22))


def test_sizes_that_a_window_needs():
    with pytest.raises(UserError, match=r"a = Dim\('a', min=3\)"):
        export(torch.nn.Conv1d(1, 1, 3), (X(1, 1, 8),), dynamic_shapes=({2: Dim("a")},))
    assert sizes(export(torch.nn.Conv1d(1, 1, 3), (X(1, 1, 8),), dynamic_shapes=({2: Dim("a", min=3)},)), (1, 1, 3), (1, 1, 2)) == [(1, 1, 3)]


def test_messages_name_the_place():
    b = Dim("b")
    said = {"d": {"a": {0: b}, "b": [{0: b}]}, "rest": ({0: b},), "options": {"z": {0: b}}}
    program = export(Tree(), ({"a": X(2), "b": [X(2)]}, X(2)), {"z": X(2)}, dynamic_shapes=said)
    assert program({"a": X(5), "b": [X(5)]}, X(5), z=X(5)).shape == (5,)
    with pytest.raises(AssertionError, match=r"Guard failed: d\['b'\]\[0\].size\(\)\[0\] == d\['a'\].size\(\)\[0\]"):
        program({"a": X(5), "b": [X(4)]}, X(5), z=X(5))
    with pytest.raises(UserError, match=r"`inputs\['d'\]` has keys \['a', 'b'\], but `dynamic_shapes\['d'\]` has keys \['z'\]"):
        export(Tree(), ({"a": X(2), "b": [X(2)]}, X(2)), {"z": X(2)}, dynamic_shapes={**said, "d": {"z": None}})


def test_shapes_collection():
    x, y, shapes = X(4, 2), X(4, 2), ShapesCollection()
    shapes[x] = {0: Dim("b")}
    shapes[y][0] = Dim("b")
    assert len(shapes) == 2 and shapes.dynamic_shapes(Add(), (x, y)).keys() == {"x", "y"}
    program = export(Add(), (x, y), dynamic_shapes=shapes)
    assert program(X(7, 2), X(7, 2)).shape == (7, 2)
    with pytest.raises(AssertionError, match="Guard failed"):
        program(X(7, 2), X(6, 2))
    with pytest.raises(AssertionError, match="Cannot assign shape to non-tensor"):
        shapes[3] = {0: Dim("b")}
    with pytest.raises(AssertionError, match="Shapes assigned to input do not match"):
        shapes[x] = {0: Dim("c")}
    with pytest.raises(ValueError, match="Some tensors that were assigned shapes were not found in args"):
        shapes.dynamic_shapes(Double(), (x,))


def test_additional_inputs():
    more = AdditionalInputs()
    more.add((X(7, 2),))
    assert more.dynamic_shapes(Double(), (X(4, 2),)) == {"x": (Dim.DYNAMIC, None)}
    program = export(Double(), (X(4, 2),), dynamic_shapes=more)
    assert sizes(program, (3, 2), (3, 3)) == [(3, 2)]
    with pytest.raises(AssertionError, match="must be a tuple"):
        more.add(X(2))

    class Short(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] < 6 else x
    with pytest.raises(AssertionError, match="Guard failed"):
        export(Short(), (X(4, 2),), dynamic_shapes=more)


def test_what_a_program_cannot_take_or_give():
    @dataclasses.dataclass
    class Pair:
        a: torch.Tensor

    class Gives(torch.nn.Module):
        def forward(self, x):
            return {1, 2}
    with pytest.raises(ValueError, match="Unsupported input type .*Pair'>. Export only supports pytree containers of basic types"):
        export(Double(), (Pair(X(2)),))
    with pytest.raises(RuntimeError, match="Found <class 'set'> in output, which is not a known type"):
        export(Gives(), (X(2),))


def test_the_state_is_the_modules_own():
    layer = torch.nn.Linear(2, 2)
    program = export(layer, (X(2),))
    assert program.state_dict["weight"] is layer.weight and program.module().weight is layer.weight
    assert [entry.fqn for entry in export(torch.nn.Sequential(layer), (X(2),)).module_call_graph] == ["", "0"]


def reloaded(program):
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


class Uses(torch.nn.Module):
    def forward(self, x, n):
        return x.expand(n, 3, 4).sum(0), torch.zeros(n), n + 1


def test_free_numbers_among_the_inputs():
    """A whole number that is marked free is an input, checked as sizes are; saved and loaded it stays one."""
    x = torch.arange(12.0).reshape(3, 4)
    for hint in (torch.export.Dim.DYNAMIC, torch.export.Dim.AUTO):
        program = torch.export.export(Uses(), (x, 3), dynamic_shapes={"x": None, "n": hint})
        for run in (program, reloaded(program), program.module(), torch.compile(program.module())):
            for n in (5, 3, 0, 1):
                total, zeros, following = run(x, n)
                assert torch.equal(total, x * n) and zeros.shape == (n,) and following == n + 1
            with pytest.raises(AssertionError, match="Guard failed: n >= 0: the sizes are n = -1"):
                run(x, -1)
            with pytest.raises(AssertionError, match=r"Guard failed: isinstance\(n, int\): a float was given"):
                run(x, 2.5)


def test_a_number_may_be_a_declared_size():
    class Rows(torch.nn.Module):
        def forward(self, x, n, options):
            return x[:n] * options["by"][0], x.reshape(n, -1)

    n = torch.export.Dim("n", min=1, max=9)
    program = torch.export.export(Rows(), (torch.ones(4, 6), 4, {"by": [2]}), dynamic_shapes={"x": {0: n}, "n": n, "options": {"by": [torch.export.Dim.DYNAMIC]}})
    assert torch.equal(program(torch.ones(5, 6), 5, {"by": [7]})[0], torch.full((5, 6), 7.0))
    with pytest.raises(AssertionError, match=r"Guard failed: n == x.size\(\)\[0\]: n is 4, and x.size\(\)\[0\] is 5"):
        program(torch.ones(5, 6), 4, {"by": [2]})


def test_a_number_that_the_code_fixes():
    class Turns(torch.nn.Module):
        def forward(self, x, n):
            for _ in range(n):
                x = x + 1
            return x

    x = torch.zeros(2)
    with pytest.raises(torch.export.UserError, match=r"You marked L\['n'\] as dynamic but your code specialized it to be a constant \(3\)"):
        torch.export.export(Turns(), (x, 3), dynamic_shapes={"x": None, "n": torch.export.Dim.DYNAMIC})
    program = torch.export.export(Turns(), (x, 3), dynamic_shapes={"x": None, "n": torch.export.Dim.AUTO})
    assert program(x, 3).tolist() == [3.0, 3.0]
    with pytest.raises(AssertionError, match="Guard failed: n == 3: it was fixed at export, and 4 was given"):
        program(x, 4)


def test_from_two_on_means_from_anything_on():
    class Net(torch.nn.Module):
        def forward(self, x):
            return torch.sin(x).sum(1) + x.shape[0]

    for least, taken in ((2, [True] * 6), (3, [False] * 3 + [True] * 3)):
        made = torch.export.export(Net(), (torch.ones(4, 2),), dynamic_shapes=({0: torch.export.Dim("b", min=least, max=5)},)).module()
        found = []
        for size in range(6):
            try:
                found.append(len(made(torch.ones(size, 2))) == size)
            except AssertionError:
                found.append(False)
        assert found == taken
        with pytest.raises(AssertionError, match="Guard failed"):
            made(torch.ones(6, 2))
