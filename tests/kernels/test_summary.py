"""Programs found again by what they compute: a summary says just what writing the code would, and anything else has another name."""

import numpy as np
import pytest

from rushlight.kernels import arrays, cache, llvm, program, summary
from rushlight.kernels.arrays import External, Given, Iota, Number, Pad, Point, Reduce, Reshape, Source, Take, View, contiguous
from rushlight.kernels.make import Maker
from rushlight.kernels.rolled import Plan
from rushlight.kernels.sizes import Sizes

from .test_runtime import CASES

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
X = Source("in0", (4, 5), "float32", (5, 1))
KINDS = [X, Given("in0", "int64", "n0"), Number(1.0, "float32"), Iota((4,), 1, (2,)), Point("exp", (X,), (4, 5), "float32"),
         Reduce("sum", X, (1,), "float32"), View(X, (5, 4), ((0, (0, 1)), (0, (1, 0)))), Reshape(X, (20,)), Pad(X, (1, 0), (6, 5)),
         Take(X, Source("in1", (4,), "int64", (1,)), 0, (-1, 1), (0,), (4, 5), True),
         External("loop", (X,), (20,), "float32", (Plan([X], [(4, 5)], [True], [True], 0, 0, 3, False), 7))]


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.delenv("RUSHLIGHT_CACHE", raising=False)


def name(*outputs, inputs=(), descriptors=(), updates=None, flushed=frozenset()):
    return summary.name(list(inputs), list(outputs), list(descriptors), updates, flushed)[0]


def copied(array, **changes):
    made = object.__new__(type(array))
    for slot in {slot for kind in type(array).__mro__ for slot in getattr(kind, "__slots__", ())} - {"__weakref__"}:
        setattr(made, slot, changes.get(slot, getattr(array, slot)))
    return made


def test_every_kind_of_array_has_a_name(kept):
    assert set(map(type, KINDS)) == set(summary.FIELDS) == {kind for kind in vars(arrays).values()
                                                            if isinstance(kind, type) and issubclass(kind, arrays.Array)} - {arrays.Array}
    assert len({name(array) for array in KINDS}) == len(KINDS) and None not in map(name, KINDS)


@pytest.mark.parametrize("array", KINDS, ids=lambda array: type(array).__name__)
def test_no_field_is_left_out(kept, array):
    assert name(copied(array)) == name(array)
    for slot in {slot for kind in type(array).__mro__ for slot in getattr(kind, "__slots__", ())} - {"__weakref__"}:
        now = getattr(array, slot)
        other = {str: "other", int: 99, float: -1.0, bool: not now, type(None): 1}.get(type(now)) if type(now) is not tuple else (*now, 3)
        assert name(copied(array, **{slot: (*now, Number(3.0, "float32")) if slot == "args" else other})) != name(array), slot


def test_what_surrounds_the_arrays_counts_too(kept, monkeypatch):
    y, layout = Point("exp", (X,), (4, 5), "float32"), ((4, 5), (20, 4), np.dtype(np.float32))
    names = [name(y), name(y, y), name(y, Point("exp", (X,), (4, 5), "float32")), name(y, inputs=[X]), name(y, updates={0: "in0"}), name(y, flushed={"in0"}),
             name(y, descriptors=[layout]), name(y, descriptors=[(*layout[:2], np.dtype(">f4"))]), name(Number(0.0, "float32")), name(Number(-0.0, "float32")),
             name(Number(0, "int64")), name(Number(False, "bool"))]
    names += [name(Point("add", args, (4, 5), "float32")) for args in ((X, y), (y, X), (X, X))]
    for fields in (dict(reverse=True), dict(steps=4), dict(whole=[False]), dict(sequences=1), dict(outputs=[y])):
        plan = Plan(**dict(outputs=[X], carried=[(4, 5)], whole=[True], begun=[True], sequences=0, constants=0, steps=3, reverse=False) | fields)
        names.append(name(External("loop", (X,), (20,), "float32", (plan, 7))))
    monkeypatch.setattr(summary, "SOURCES", summary.SOURCES + "changed")
    names.append(name(y))
    monkeypatch.setattr(llvm, "_host", llvm.host()._replace(cpu="another"))
    names.append(name(y))
    assert len(set(names)) == len(names) and None not in names


def test_sizes_count_with_all_that_is_known_of_them(kept):
    def named(hint, fixed=(), quotient=False):
        sizes = Sizes(fixed)
        n = sizes.symbol("n", hint)
        if quotient:
            assert (n + 1) // 3 is not None
        return name(Source("in0", (n, 2), "float32", (2, 1)))

    assert named(7) == named(7) and len({named(7), named(8), named(7, ("n",)), named(7, quotient=True)}) == 4


def test_what_is_not_looked_into_has_no_name(kept, monkeypatch):
    assert name(External("loop", (X,), (4,), "float32", (object(),))) is None
    assert name(Number(np.float32(1), "float32")) is None
    monkeypatch.setenv("RUSHLIGHT_CACHE", "0")
    assert name(X) is None


def matrices(sizes=None):
    make = Maker()
    shape = (7, 16) if sizes is None else tuple(map(sizes.size, (7, 16)))
    inputs = [make.intern(Source, f"in{i}", shape, "float32", contiguous(shape), 0) for i in range(2)]
    return make, inputs, [(shape, tuple(n * 4 for n in contiguous(shape)), np.dtype(np.float32))] * 2


@pytest.mark.parametrize("open", [False, True])
@pytest.mark.parametrize("case", [case for case in CASES if case not in ("convolution", "sliced")])
def test_what_is_recalled_is_what_would_be_written(kept, monkeypatch, case, open):
    found = []
    monkeypatch.setattr(program, "drafted", lambda *args, draft=program.drafted: found.append(draft(*args)) or found[-1])
    x, y = (np.random.default_rng(0).normal(size=(7, 16)).astype(np.float32) for _ in range(2))
    results, relations = [], []
    for again in (False, True):
        sizes = Sizes() if open else None
        make, inputs, layouts = matrices(sizes)
        native = program.compile_arrays(inputs, [CASES[case](make, *inputs)], layouts)
        results.append(native.call(x, y)[0])
        relations.append(sizes.conditions(set(sizes.order)) if open else None)
        assert len(found) == 1
    assert relations[0] == relations[1] and np.array_equal(*results)
    assert native.stages.module == native.library.text == found[0].text and len(found) == 2
    assert native.library.key == cache.key(found[0].text, *llvm.machine()) and found[1].words == found[0].words


@pytest.mark.parametrize("which", ["object", "summary", "both"])
def test_damaged_entries_are_made_again(kept, tmp_path, which):
    def made():
        make, inputs, layouts = matrices()
        return program.compile_arrays(inputs, [CASES["pointwise"](make, *inputs)], layouts), summary.name(inputs, [CASES["pointwise"](make, *inputs)], layouts, None, frozenset())[0]

    first, named = made()
    for entry in {"object": [first.library.key], "summary": [named], "both": [first.library.key, named]}[which]:
        path = tmp_path / "kept" / f"{entry}.o"
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.warns(RuntimeWarning, match="is damaged"):
        again, _ = made()
    x = np.ones((7, 16), np.float32)
    assert np.array_equal(first.call(x, x)[0], again.call(x, x)[0])
    cache.load(named)  # without a warning
