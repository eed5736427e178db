"""An error of the interpreter's own is a break: no handler of the program meets it, and nothing is lost."""

import collections
import copy
import dataclasses
import enum
import functools
import itertools
import math
import operator
import sys

import numpy as np
import pytest

import rushlight as torch
from rushlight.capture import faults, operations
from rushlight.compile.config import counters
from rushlight.ops.contraction import scalar_names

HERE = sys.modules[__name__]


@pytest.fixture
def faulty(monkeypatch):
    """An interpreter that fails where a tuple's second item is asked for."""
    before = operations.Operations.getitem

    def getitem(self, container, key):
        if type(container) is tuple and key == 1:
            {}["not there"]
        return before(self, container, key)

    getitem.__code__ = getitem.__code__.replace(co_filename=operations.__file__)
    monkeypatch.setattr(operations.Operations, "getitem", getitem)


@pytest.mark.parametrize("loops", [False, True])
def test_a_fault_is_a_break(faulty, loops):
    def f(x, pair):
        y = torch.sin(x)
        try:
            number = pair[1]
        except KeyError:
            number = -5
        return y * 0 + number

    with torch._dynamo.config.patch(break_in_loops=loops):
        compiled = torch.compile(f, backend="eager")
        assert [compiled(torch.ones(1), (1, k)).item() for k in (2, 2, 7)] == [2, 2, 7]
        report = torch._dynamo.explain(f)(torch.ones(1), (1, 2))
    assert not loops or str(report.break_reasons[0]) == "Internal fault: KeyError: 'not there'"
    assert set(counters.pop("faults")) == {"KeyError: 'not there'"}


TABLE, ITEMS = {}, []
ATTEMPTS = [
    lambda x: TABLE["no"], lambda x: ITEMS[9], lambda x: 1 / 0, lambda x: int("x"), lambda x: None + 1, lambda x: x @ torch.ones(7, 7), lambda x: TABLE.nothing,
    lambda x: [].pop(), lambda x: next(iter(())), lambda x: {}.popitem(), lambda x: "a".index("b"), lambda x: [1].remove(2), lambda x: float("y"),
    lambda x: sorted([1, "a"]), lambda x: max([]), lambda x: len(3), lambda x: iter(3), lambda x: {[]: 1}, lambda x: {**3}, lambda x: (lambda a: a)(),
    lambda x: hash([]), lambda x: getattr(3, "no"), lambda x: range("a"), lambda x: "%d" % "a", lambda x: f"{3:q}", lambda x: isinstance(1, 2), lambda x: [*3],
    lambda x: [1][:"a"], lambda x: abs("a"), lambda x: ~"a", lambda x: 1 < "a", lambda x: 1 in 3, lambda x: zip(3), lambda x: sum(["a"]), lambda x: {[]},
    lambda x: list(map(len, [3])), lambda x: dict([1]), lambda x: type("T", (3,), {}), lambda x: chr(-1), lambda x: "a".join([1]), lambda x: b"a".decode(3),
    lambda x: (1).bit_length(3), lambda x: print(1, other=2), lambda x: round("a"), lambda x: divmod(1, 0), lambda x: x.nothing, lambda x: x[99], lambda x: x.view(7),
    lambda x: x.shape[5], lambda x: x.size(7), lambda x: x.shape[0] // 0, lambda x: 1 % (x.shape[0] - 3), lambda x: torch.cat([]), lambda x: torch.ones(-1),
    lambda x: "a" + 1, lambda x: [1] + (2,), lambda x: {1: 2}[[]], lambda x: TABLE.update(3),
    lambda x: TABLE.pop("a"), lambda x: set().pop(), lambda x: {1}.remove(2), lambda x: tuple(3), lambda x: frozenset([[]]), lambda x: int([]), lambda x: bool(1, 2), lambda x: operator.lt(1, 2, 3), lambda x: operator.eq(1), lambda x: len([], 1), lambda x: sorted([], upwards=True),
    lambda x: getattr(3), lambda x: range(1, 2, 3, 4), lambda x: isinstance(1), lambda x: map(len), lambda x: sum(), lambda x: any([], 1),
    lambda x: str(1, 2, 3, 4), lambda x: object().nothing, lambda x: HERE.nothing, lambda x: Kind.nothing, lambda x: Kind(3), lambda x: Kind().nothing, lambda x: Kind()(),
    lambda x: super(Kind, 3), lambda x: super(Kind, Kind()).nothing, lambda x: print.nothing, lambda x: len.__call__(), lambda x: enumerate(3), lambda x: reversed(3),
    lambda x: functools.reduce(operator.add, []), lambda x: operator.itemgetter(3)([]), lambda x: operator.add(1), lambda x: math.sqrt(-1), lambda x: math.log("a"),
    lambda x: itertools.islice([], -1), lambda x: collections.deque([], -1), lambda x: collections.namedtuple("T", "a")(), lambda x: copy.deepcopy(), lambda x: Number(9),
    lambda x: Number["NO"], lambda x: (yield_from_nothing()).send(1), lambda x: next(yield_from_nothing()), lambda x: setattr(3, "a", 1), lambda x: delattr(Kind(), "a"),
    lambda x: np.zeros(3)[7], lambda x: np.zeros(2) + np.zeros(3), lambda x: divmod(x.shape[0], "a"), lambda x: min(1), lambda x: pow(1, 2, 0), lambda x: slice(),
    lambda x: print(1, sep=3), lambda x: "{}".format(), lambda x: "{a}".format(), lambda x: "a".encode("no"), lambda x: bytes([300]), lambda x: complex("q"),
    lambda x: Point(1, 2, 3), lambda x: dataclasses.replace(Point(1), b=2), lambda x: [].index(1), lambda x: [1].insert("a", 2), lambda x: (1,).index(2),
]


class Kind:
    pass


class Number(enum.IntEnum):
    ONE = 1


@dataclasses.dataclass(frozen=True)
class Point:
    a: int


def yield_from_nothing():
    yield from ()


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_what_the_program_raises_is_its_own(attempt):
    def f(x):
        y = torch.sin(x)
        try:
            attempt(x)
        except Exception as error:
            return y, type(error), str(error)

    want = f(torch.ones(3))
    compiled = torch.compile(f, backend="eager")
    for dynamic in (None, True):
        compiled = torch.compile(f, backend="eager", dynamic=dynamic)
        assert compiled(torch.ones(3))[1:] == want[1:] == compiled(torch.ones(3))[1:]


def test_faults_are_told_from_what_is_raised():
    def raises():
        raise ValueError

    def fails():
        [][0]

    for function, want in ((raises, False), (fails, True)):
        function.__code__ = function.__code__.replace(co_filename=operations.__file__)
        with pytest.raises((ValueError, IndexError)) as caught:
            function()
        assert faults.is_fault(caught.value) is want
    faults.runs_natively(fails)
    with pytest.raises(IndexError) as caught:
        fails()
    assert not faults.is_fault(caught.value)


@pytest.mark.parametrize("limits", [(2,), (1, 3), (0, 5, 2), (None,), (1, None), (-1,), ("a",), (1, -2), (1, 2, 0), (1, 2, -1), (True,), (1.5,)])
def test_limits_of_islice(limits):
    """Followed where its iterable runs code of the program, without a break."""
    def f(x):
        try:
            found = list(itertools.islice((turn * 2 for turn in range(6)), *limits))
        except Exception as error:
            found = type(error).__name__, str(error)
        return x + 1, found

    assert torch.compile(f, backend="eager", fullgraph=True, dynamic=True)(torch.ones(1))[1] == f(torch.ones(1))[1]


def test_a_missing_attribute_has_its_name():
    def f(x, other):
        try:
            return x.absent
        except AttributeError as error:
            first = error.name
        try:
            return other.missing
        except AttributeError as error:
            return x + 1, first, error.name

    assert torch.compile(f, backend="eager", fullgraph=True)(torch.ones(1), object())[1:] == ("absent", "missing")


def test_a_comprehension_of_the_librarys_own_is_followed():
    """Called as a function it would take what it is given for an iterator; with another thing CPython 3.11 ends the process."""
    with pytest.raises(KeyError):
        torch.compile(scalar_names, backend="eager")(torch.ones(2), torch.ones(3))
