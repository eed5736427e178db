"""Two objects from before that the program told apart are guarded to be two; native code reads no state that nothing guards."""
import collections
import dataclasses
import fractions
import pathlib
import types
import uuid

import pytest

import rushlight as torch

X = torch.ones(1)


class Plain:
    pass


def compiled_twice(function, first, second):
    """What a compiled function gives for two tuples of arguments, the second while it knows the first; and what it should give."""
    made = torch.compile(function, backend="eager")
    wanted = [function(X, *arguments)[1] for arguments in (first, second, first)]
    return wanted, [made(X, *arguments)[1] for arguments in (first, second, first)]


def lambda_made():
    return lambda value: value


QUESTIONS = {
    "is": lambda x, a, b: (x + 1, a is b),
    "is not": lambda x, a, b: (x + 1, a is not b),
    "==": lambda x, a, b: (x + 1, a == b),
    "!=": lambda x, a, b: (x + 1, a != b),
    "in a list": lambda x, a, b: (x + 1, a in [b]),
    "in a tuple": lambda x, a, b: (x + 1, a in (1, b, "a")),
    "a key": lambda x, a, b: (x + 1, {b: 1}.get(a)),
    "a set": lambda x, a, b: (x + 1, len({a, b})),
    "index": lambda x, a, b: (x + 1, [a, b].index(b)),
    "count": lambda x, a, b: (x + 1, [a, b].count(b)),
    "in tuples": lambda x, a, b: (x + 1, (1, a) == (1, b)),
    "any": lambda x, a, b: (x + 1, any(a is one for one in [b])),
}
OBJECTS = {
    "objects": (Plain(), Plain()), "modules": (torch.nn.Tanh(), torch.nn.Tanh()), "functions": (lambda_made(), lambda_made()),
    "generators": (torch.Generator(), torch.Generator()),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("objects", OBJECTS)
def test_two_objects_and_then_one(objects, question):
    one, two = OBJECTS[objects]
    wanted, got = compiled_twice(QUESTIONS[question], (one, two), (two, two))
    assert wanted == got


def test_two_lists_and_then_one():
    one, two = [1], [1]
    wanted, got = compiled_twice(QUESTIONS["is"], (one, two), (two, two))
    assert wanted == got == [False, True, False]


def test_many_objects_are_guarded_in_one_set():
    many = [Plain() for _ in range(12)]
    wanted, got = compiled_twice(lambda x, *objects: (x + 1, len(set(objects))), tuple(many), (*many[:11], many[0]))
    assert wanted == got == [12, 11, 12]


def test_each_module_of_a_list_is_known():
    layers = [torch.nn.Tanh(), torch.nn.Sigmoid(), torch.nn.Tanh()]

    def forward(x, special):
        for layer in layers:
            x = layer(x) * 2 if layer is special else layer(x)
        return x

    made = torch.compile(forward, backend="eager", fullgraph=True)
    for special in (layers[1], layers[0], layers[2]):
        torch.testing.assert_close(made(X, special), forward(X, special))


TEXTS = {
    "str": lambda x, a, b: (x + 1, str(a)), "repr": lambda x, a, b: (x + 1, repr(a)), "f-string": lambda x, a, b: (x + 1, f"{a!r:>5}"),
    "percent": lambda x, a, b: (x + 1, "%s" % (a,)), "format": lambda x, a, b: (x + 1, "{}".format([a])), "==": QUESTIONS["=="],
    "in": QUESTIONS["in a list"], "index": QUESTIONS["index"],
}
VALUES = {
    "paths": (pathlib.PurePosixPath("a/b"), pathlib.PurePosixPath("c")),
    "fractions": (fractions.Fraction(1, 3), fractions.Fraction(2, 3)),
    "identifiers": (uuid.UUID(int=5), uuid.UUID(int=6)),
    "namespaces": (types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)),
    "own dicts": (collections.UserDict(a=1), collections.UserDict(a=2)),
    "chains": (collections.ChainMap({"a": 1}), collections.ChainMap({"a": 2})),
    "proxies": (types.MappingProxyType({"a": 1}), types.MappingProxyType({"a": 2})),
    "layers": (torch.nn.Linear(1, 2), torch.nn.Linear(1, 3)),
    "exceptions": (ValueError("a"), ValueError("b")),
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("values", VALUES)
def test_objects_of_the_library_are_looked_at_on_each_call(values, text):
    one, two = VALUES[values]
    wanted, got = compiled_twice(TEXTS[text], (one, two), (two, two))
    assert wanted == got


def test_the_dict_of_a_class_is_read_anew():
    class Settings:
        level = 1

    def read(x):
        return x + 1, Settings.__dict__["level"], vars(Settings)["level"], "other" in Settings.__dict__

    made = torch.compile(read, backend="eager")
    assert made(X)[1:] == (1, 1, False)
    Settings.level = 2
    assert made(X)[1:] == (2, 2, False)
    Settings.other = 3
    assert made(X)[1:] == (2, 2, True)


def test_an_equality_that_raises_does_so_before_the_item_is_found():
    class Strict:
        def __eq__(self, other):
            raise ValueError("compared")

    def find(x, item):
        return x + 1, item in (1, item)

    with pytest.raises(ValueError, match="compared"):
        torch.compile(find, backend="eager")(X, Strict())


@dataclasses.dataclass(frozen=True)
class Spec:
    size: int
    name: str = "a"


class Tag:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Tag) and self.value == other.value

    def __hash__(self):
        return hash(self.value)


class Counted(Tag):
    asked = 0

    def __hash__(self):
        Counted.asked += 1
        return hash(self.value)


TABLE = {Spec(1): 10.0, Spec(2, "b"): 20.0}


def test_keys_that_hash_themselves_are_followed():
    def look(x, spec):
        own = {Tag(spec.size): 1, Tag(2): 2}
        own[Tag(1)] = 5
        return x + TABLE.get(spec, 0.0), spec in TABLE, own[Tag(spec.size)], len({spec, Spec(1)}), [Spec(1), spec].index(spec)

    made = torch.compile(look, backend="eager", fullgraph=True)
    for spec in (Spec(1), Spec(2, "b"), Spec(3), Spec(1)):
        assert made(X, spec) == look(X, spec)


def test_a_dict_that_came_with_such_keys():
    def look(x, table, tag):
        return x + table.get(tag, 0.0), tag in table, [(key.value, item) for key, item in table.items()], table.pop(Tag(1), 0)

    made = torch.compile(look, backend="eager", fullgraph=True)
    for tag in (1, 2, 3, 1):
        for values in ((1, 2), (2, 3), (1, 2)):
            ours, wanted = ({Tag(value): float(value) for value in values} for _ in range(2))
            assert made(X, ours, Tag(tag)) == look(X, wanted, Tag(tag))
            assert len(ours) == len(wanted)


def test_a_hash_that_does_something_runs_once():
    def look(x, value):
        return x + 1, {Counted(value): 1}

    made = torch.compile(look, backend="eager")
    Counted.asked = 0
    for value in (1, 2, 1):
        made(X, value)
    assert Counted.asked == 3


def test_views_of_dicts_that_come_over_a_break():
    def look(x, table):
        views = table.items(), table.keys(), table.values()
        torch._dynamo.graph_break()
        return x + 1, *map(list, views)

    made = torch.compile(look, backend="eager")
    for table in ({"a": 1}, {"a": 2}, {"b": 2}, {"a": 1}):
        assert made(X, table)[1:] == look(X, table)[1:]


def test_a_text_times_what_has_an_index():
    class Number:
        def __init__(self, value):
            self.value = value

        def __index__(self):
            return self.value

        def __mul__(self, other):
            return NotImplemented

    made = torch.compile(lambda x, number: (x + 1, number * "ab", [1] * number), backend="eager")
    assert made(X, Number(2))[1:] == ("abab", [1, 1])
