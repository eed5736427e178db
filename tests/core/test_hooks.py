"""RemovableHandle: it takes its hook out once, from every table, and keeps no table alive."""
import copy
import pickle
from collections import OrderedDict

from rushlight.core.hooks import RemovableHandle


def test_remove_takes_the_entry_out_of_every_table():
    hooks, marks = OrderedDict(), OrderedDict()
    handle = RemovableHandle(hooks, extra_dict=marks)
    hooks[handle.id] = marks[handle.id] = print
    handle.remove()
    handle.remove()
    assert not hooks and not marks


def test_as_a_context_manager():
    hooks = OrderedDict()
    with RemovableHandle(hooks) as handle:
        hooks[handle.id] = print
    assert not hooks


def test_numbers_are_never_used_twice():
    hooks = OrderedDict()
    assert len({RemovableHandle(hooks).id for _ in range(5)}) == 5


def test_a_table_that_is_gone_is_no_error():
    hooks = OrderedDict()
    handle = RemovableHandle(hooks, extra_dict=[OrderedDict()])
    del hooks
    handle.remove()


def test_copies_remove_nothing():
    hooks = OrderedDict()
    handle = RemovableHandle(hooks)
    hooks[handle.id] = print
    for twin in (copy.deepcopy(handle), pickle.loads(pickle.dumps(handle))):
        twin.remove()
    assert hooks
