"""A word of memory tells each change of a dict, on every version of Python."""
import gc
from collections import OrderedDict

import pytest

from rushlight.kernels import dicts, launch
from rushlight.kernels.structs import word

pytestmark = pytest.mark.skipif(not launch.supported(), reason="launchers cannot be made here")


class Owner:
    def __init__(self):
        self.a, self.b, self.c = object(), object(), object()

    def store(self):
        self.b = object()


def changed(table, change):
    place = dicts.place(table)
    before = word(place)
    change()
    return word(place) != before


@pytest.mark.parametrize("times", [1, 100])  # after some calls the interpreter stores in a shorter way
def test_attributes_stored_by_methods(times):
    owner = Owner()
    assert all(changed(owner.__dict__, owner.store) for _ in range(times))
    assert changed(owner.__dict__, lambda: setattr(owner, "d", 1))
    assert changed(owner.__dict__, lambda: delattr(owner, "a"))


def test_methods_that_stored_before_the_dict_was_looked_at():
    owners = [Owner() for _ in range(3)]
    for owner in owners * 50:
        owner.store()
    assert all(changed(owner.__dict__, owner.store) for owner in owners)


def test_reads_change_nothing():
    owner = Owner()
    assert not changed(owner.__dict__, lambda: (owner.a, owner.__dict__, vars(owner)["a"], list(owner.__dict__), owner.store.__name__))


def test_an_object_stays_as_it_was():
    owner = Owner()
    table, values = owner.__dict__, list(owner.__dict__.items())
    walk = iter(table)
    assert next(walk) == "a"
    dicts.place(table)
    assert list(walk) == ["b", "c"] and owner.__dict__ is table and list(table.items()) == values


def test_plain_and_ordered_dicts():
    for table in ({"a": 1}, OrderedDict(a=1)):
        assert changed(table, lambda: table.update(a=2))  # noqa: B023
        assert changed(table, lambda: table.setdefault("b", 2))  # noqa: B023
        assert changed(table, lambda: table.pop("a"))  # noqa: B023
        assert changed(table, table.clear)


def test_launchers_read_python_numbers():
    assert launch.numbers_are_known()


def test_tensors_with_attributes_are_told():
    assert launch.attributes_tell()


def test_a_watcher_that_is_not_used_does_no_harm():
    """Nothing is unloaded that the interpreter still calls when a dict that was watched ends."""
    try:
        refused, table = dicts.Watcher(), {"a": 1}
    except AttributeError:
        pytest.skip("no watchers in this Python")
    place = refused.place(table)
    before = word(place)
    del refused
    gc.collect()
    table["a"] = 2
    assert word(place) == before + 1
    del table
    gc.collect()
