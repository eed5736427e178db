"""Objects that are no lists, dicts or sets and that a compiled function writes into: written on each call, as ordinary Python does."""
import array
import collections

import numpy as np
import pytest

import rushlight as torch


class Own(np.ndarray):
    pass


def added(a):
    a += a
    return a


def first(a):
    a[0] = 7
    return a


def gone(a):
    del a[0]
    return a


def more(a):
    a.append(7)
    return a


def through_a_view(a):
    memoryview(a)[0] = 9
    return a


def looked_at(a):
    return a[0], len(a), 5 in a, list(a)


OBJECTS = [lambda: bytearray(b"q\x05"), lambda: array.array("i", [3, 5]), lambda: np.ones(2).view(Own), lambda: np.ones(2), lambda: np.matrix([[1, 5]]),
           lambda: collections.deque([1, 5]), lambda: collections.Counter({0: 2, 5: 1}), lambda: [1, 5]]


def outcome(function, value):
    try:
        found = function(value)
    except Exception as error:
        return type(error)
    return type(found), np.asarray(list(found)).tolist(), np.asarray(list(value)).tolist()


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("function", [added, first, gone, more, through_a_view])
@pytest.mark.parametrize("make", OBJECTS)
def test_each_call_writes(function, make):
    compiled = torch.compile(function)
    for _ in range(3):
        assert outcome(compiled, make()) == outcome(function, make())


def test_what_is_looked_at_may_differ_next_time():
    compiled = torch.compile(looked_at)
    for text in (b"ab", b"c\x05d", b"ab"):
        assert compiled(bytearray(text)) == looked_at(bytearray(text))
