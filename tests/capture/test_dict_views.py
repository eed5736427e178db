"""Views of dicts whose values nobody has looked at yet: what compares or hashes their items compares the values."""

import collections

import pytest

import rushlight as torch

PROGRAMS = {
    "-": lambda a, b: sorted(a.items() - b.items()), "&": lambda a, b: sorted(a.items() & b.items()), "|": lambda a, b: sorted(a.items() | b.items()),
    "^": lambda a, b: sorted(a.items() ^ b.items()), "==": lambda a, b: a.items() == b.items(), "<=": lambda a, b: a.items() <= b.items(),
    "isdisjoint": lambda a, b: a.items().isdisjoint(b.items()), "in items": lambda a, b: ("b", 2) in a.items(), "in values": lambda a, b: 2 in a.values(),
    "sets": lambda a, b: sorted(set(a.items()) & set(b.items())), "difference": lambda a, b: sorted(set(a.items()).difference(b.items())),
    "values": lambda a, b: set(a.values()) - set(b.values()), "frozenset": lambda a, b: frozenset(a.items()) == frozenset(b.items()),
    "symmetric": lambda a, b: {1, 2}.symmetric_difference(a.values()), "issubset": lambda a, b: {1, 2}.issubset(a.values()),
    "text": lambda a, b: f"{a.items()} {list(a.values())}", "list": lambda a, b: sorted(a.items() & [("b", 2)]), "right": lambda a, b: sorted({("b", 2), ("q", 1)} - a.items()),
}


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict, collections.Counter])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_written(name, kind):
    program = PROGRAMS[name]
    compiled = torch.compile(lambda x, a, b: (x + 1, program(a, b)), backend="eager")
    for a, b in (({"a": 1, "b": 2}, {"b": 2, "c": 3}), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({"b": 3, "a": 1}, {"b": 2, "a": 1})):
        assert compiled(torch.ones(2), kind(a), kind(b))[1] == program(kind(a), kind(b))


def test_a_guard_that_fails_adds_nothing_to_a_defaultdict():
    compiled = torch.compile(lambda x, table: x + sum(table.values()), backend="eager")
    for table in ({"a": 1, "b": 2}, {"b": 2, "c": 3}, {"c": 1}, {"a": 3}):
        given = collections.defaultdict(int, table)
        assert compiled(torch.ones(1), given).item() == 1 + sum(table.values()) and given == table
