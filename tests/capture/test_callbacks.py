"""Python code that builtins run: it runs on each call of the compiled function, not once while translating."""

import bisect
import functools
import itertools
import re
import string

import pytest

import rushlight as torch

LOG: list = []


def first(*args):
    LOG.append(args)
    return args[0]


def letter(match):
    LOG.append(match.group())
    return "z"


class Noisy:
    """Says which of its methods ran."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        LOG.append("index")
        return self.value

    def __iter__(self):
        LOG.append("iter")
        return iter([1, 2])

    def __len__(self):
        LOG.append("len")
        return 2

    def __eq__(self, other):
        LOG.append("eq")
        return self.value == other.value

    def __hash__(self):
        LOG.append("hash")
        return hash(self.value)

    def __call__(self, *args):
        LOG.append("call")
        return 1


def assigned(items, value):
    items[0:1] = value
    items.__setitem__(slice(2, 3), value)
    return items


PROGRAMS = {
    "sub": lambda: re.sub("a", letter, "banana"), "subn": lambda: re.compile("a").subn(letter, "banana"),
    "bisect": lambda: bisect.bisect_left([1, 2, 3], 2, key=first), "insort": lambda: bisect.insort([1, 2, 3], 2, key=first),
    "accumulate": lambda: list(itertools.accumulate([1, 2, 3], first)), "sorted": lambda: sorted([3, 1], key=first),
    "slice": lambda: [4, 5, 6][:Noisy(1)], "pop": lambda: [4, 5, 6].pop(Noisy(1)), "assigned": lambda: assigned([1, 2, 3], Noisy(1)),
    "list": lambda: list(Noisy(1)), "tuple": lambda: tuple(Noisy(1)), "map": lambda: list(map(Noisy(1), [1, 2])), "key": lambda: sorted([1, 2], key=Noisy(1)),
    "set": lambda: len({Noisy(1), Noisy(1)}), "hash": lambda: hash((1, Noisy(1))) == hash((1, 1)), "partial": lambda: functools.partial(Noisy(1), 3)(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_call_runs_it(name):
    def f(x):
        return x * 2, PROGRAMS[name]()

    def outcome(function):
        LOG.clear()
        return function(torch.ones(2))[1], list(LOG)

    want = outcome(f)
    compiled = torch.compile(f, backend="eager")
    assert [outcome(compiled) for _ in range(3)] == [want] * 3


def test_a_set_of_objects_that_hash_in_python_ends():
    compiled = torch.compile(lambda x: (x * 2, len(frozenset([Noisy(1), Noisy(1)]))), backend="eager")
    assert compiled(torch.ones(2))[1] == 1


def test_text_that_a_callback_writes():
    compiled = torch.compile(lambda x, s: (x + 1, string.Template("$a!").substitute(a=s), s.translate(str.maketrans("ab", "xy"))), backend="eager")
    assert [compiled(torch.ones(2), s)[1:] for s in ("ab", "b", "ab")] == [("ab!", "xy"), ("b!", "y"), ("ab!", "xy")]


class Table:
    @functools.lru_cache(None)  # noqa: B019
    def double(self, key):
        LOG.append(key)
        return key * 2


def test_a_cached_method_is_called_between_two_pieces():
    compiled, table = torch.compile(lambda x, table, key: x * table.double(key), backend="eager"), Table()
    LOG.clear()
    assert [compiled(torch.ones(1), table, key).item() for key in (1, 1, 2)] == [2, 2, 4] and LOG == [1, 2]


def test_what_raises_needs_no_graph_for_values_that_nobody_gets():
    graphs = []

    def backend(module, examples):
        graphs.append(module)
        return module.forward

    @torch.compile(backend=backend)
    def f(x, number):
        y = torch.sin(x)
        if number:
            raise ValueError(f"bad {number} {tuple(y.shape)}")
        return y

    f(torch.ones(2), 0)
    for number in (1, 2):
        with pytest.raises(ValueError, match=rf"bad {number} \(2,\)"):
            f(torch.ones(2), number)
    assert len(graphs) == 1


def test_a_branch_on_a_number_that_varies_without_ops_is_captured_too():
    graphs = []

    def backend(module, examples):
        graphs.append(module)
        return module.forward

    compiled = torch.compile(lambda x, number: x if number == 0 else x + number, backend=backend)
    x = torch.ones(2)
    assert [compiled(x, number).tolist() for number in (1, 0, 2, 3, 0)] == [[2, 2], [1, 1], [3, 3], [4, 4], [1, 1]]
    assert compiled(x, 0) is x and len(graphs) == 3


class Stated:
    """Its class says what ops of it do."""

    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return function.__name__, types == (cls,), [getattr(arg, "value", arg) for arg in args]


class Unpacked(Stated):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return function(*[getattr(arg, "value", arg) for arg in args]) * 2


def test_objects_that_say_what_an_op_does():
    def f(x):
        return torch.add(Stated(x), 1), torch.sin(Unpacked(x)), torch.nn.functional.relu(Unpacked(x)), torch.add(x, Unpacked(x))

    compiled = torch.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        assert repr(compiled(torch.ones(1))) == repr(f(torch.ones(1)))


def test_a_tensor_is_called_one_in_what_python_says():
    def f(x):
        said = []
        for act in (lambda: x(), lambda: Stated(1) + x, lambda: [1] < x, lambda: next(x), lambda: {**x}, lambda: Stated(1) < x):
            try:
                act()
            except TypeError as error:
                said.append(str(error))
        try:
            with x:
                pass
        except TypeError as error:
            said.append(str(error))
        return said

    assert torch.compile(f, backend="eager")(torch.ones(2)) == f(torch.ones(2))
