"""Registries and hook tables: every way to write one is mirrored and counted; copies are plain."""
import copy
from collections import OrderedDict

import rushlight as torch
from rushlight.nn.registry import HookTable, Registry

nn = torch.nn


def test_every_way_to_write_is_mirrored():
    module = nn.Module()
    registry = module._buffers
    value = torch.ones(1)
    registry["a"] = value
    registry.update(b=value)
    registry |= {"c": value}
    registry.setdefault("d", value)
    assert all(getattr(module, name) is value for name in "abcd")
    del registry["a"]
    assert registry.pop("b") is value and registry.pop("b", None) is None
    assert registry.popitem() == ("d", value)
    registry.clear()
    assert not any(hasattr(module, name) for name in "abcd")


def test_a_class_attribute_wins_over_an_entry():
    class Model(nn.Module):
        label = "class"

    model = Model()
    model._buffers["label"] = torch.ones(1)
    assert model.label == "class"


def test_copies_are_plain():
    module = nn.Linear(1, 1)
    assert type(copy.deepcopy(module._parameters)) is dict and type(module._parameters.copy()) is dict
    assert type(module._parameters) is Registry
    table = HookTable(lambda: None, {1: print})
    assert type(copy.copy(table)) is OrderedDict and type(copy.deepcopy(table)) is OrderedDict


def test_a_hook_table_tells_of_every_change():
    told = []
    table = HookTable(lambda: told.append(1), {0: print})
    assert told == []
    table[1] = print
    table.move_to_end(1, last=False)
    del table[1]
    table.pop(0)
    table.clear()
    assert len(told) >= 5
