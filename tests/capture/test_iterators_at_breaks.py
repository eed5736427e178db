"""A builtin that goes through an iterator and then ends the graph must find the iterator as it was."""
import collections
import functools
import itertools

import numpy as np
import pytest

import rushlight as torch


class Number:
    """Compares, hashes and adds by Python code, so that native code may not touch it."""

    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n

    def __hash__(self):
        return hash(self.n)

    def __lt__(self, other):
        return self.n < other.n

    def __add__(self, other):
        return Number(self.n + (other if isinstance(other, int) else other.n))

    __radd__ = __add__

    def __repr__(self):
        return f"Number({self.n})"


EXPRESSIONS = """dict(zip('ab', it))
dict(enumerate(it))
list(zip(it, it))
sorted(it)
sum(it)
max(it)
tuple(it)
len(set(it))
collections.Counter(it)
collections.Counter({'a': 2}, b=3)
collections.deque(it, 1)
collections.OrderedDict(zip(it, it))
collections.defaultdict(int, zip('ab', it))
functools.reduce(lambda a, b: a + b, it)
list(itertools.accumulate(it))
list(itertools.chain(it, [1]))
dict.fromkeys(it, 1)
(first := next(it)) in list(it)
(lambda *a: a)(*it)
[*it]"""


@pytest.mark.parametrize("expression", EXPRESSIONS.splitlines())
def test_what_goes_through_an_iterator(expression):
    scope = {"collections": collections, "functools": functools, "itertools": itertools, "torch": torch}
    exec(f"def function(x, values):\n    it = iter(values)\n    found = {expression}\n    return found, list(it), x + 1", scope)
    for values in ([Number(1), Number(2)], [np.float32(1), np.float32(2)]):
        expected, compiled = scope["function"](torch.ones(1), list(values)), torch.compile(scope["function"])
        for _ in range(2):
            assert repr(compiled(torch.ones(1), list(values))) == repr(expected)


def test_objects_from_before_in_a_dict_of_a_zip():
    """The dict came out empty: the zip had been used up before the break."""
    value = object()
    assert torch.compile(lambda x, v: (dict(zip(["a"], [v])), x + 1))(torch.ones(1), value)[0] == {"a": value}


def test_a_tree_whose_leaves_break_the_graph():
    def function(*args, **kwargs):
        args, kwargs = torch.utils._pytree.tree_map(lambda leaf: leaf.numpy(), (args, kwargs))
        return args[0] * kwargs["b"]
    assert torch.compile(function)(torch.ones(2), b=torch.full((2,), 2.0)).tolist() == [2, 2]


def test_a_method_of_a_class_in_c_that_a_base_defines_too():
    """Python 3.12 dies where such a method is bound without the object's type."""
    import io

    def function(x):
        write = io.StringIO().write
        torch._dynamo.graph_break()
        return write("abc"), x + 1
    assert torch.compile(function)(torch.ones(1))[0] == 3
