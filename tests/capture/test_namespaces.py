"""The globals of a module as a dict, as attributes, and as names: each sees what the others do."""

import sys

import pytest

import rushlight as torch

HERE = sys.modules[__name__]


def reads(x):
    return x + globals().get("GIVEN", 1)


def asks(x):
    return x + ("GIVEN" in globals())


def counts(x):
    return x + (len(globals()) > 5)


def misses(x):
    try:
        return x + GIVEN
    except NameError:
        return x - 1


def misses_attribute(x):
    return x + getattr(HERE, "GIVEN", 0)


def misses_by_hasattr(x):
    return x + hasattr(HERE, "GIVEN")


def writes(x):
    names = globals()
    names["COUNT"] = names.get("COUNT", 0) + 1
    return x + COUNT  # noqa: F821


def writes_of_a_function(x):
    names = writes.__globals__
    names["COUNT"] = names.get("COUNT", 0) + 1
    return x + COUNT  # noqa: F821


def writes_of_the_module(x):
    names = HERE.__dict__
    names["COUNT"] = names.get("COUNT", 0) + 1
    return x + COUNT  # noqa: F821


def writes_by_vars(x):
    names = vars(HERE)
    names.update(COUNT=names.get("COUNT", 0) + 1)
    return x + COUNT  # noqa: F821


def writes_attributes(x):
    HERE.COUNT = getattr(HERE, "COUNT", 0) + 1
    return x + COUNT  # noqa: F821


def writes_a_name(x):
    global COUNT
    COUNT = HERE.__dict__.get("COUNT", 0) + 1
    return x + HERE.COUNT + globals()["COUNT"]


def across_a_break(x):
    names = globals()
    torch._dynamo.graph_break()
    names["COUNT"] = names.get("COUNT", 0) + 1
    torch._dynamo.graph_break()
    return x + COUNT, names is globals()  # noqa: F821


def removes(x):
    global COUNT
    COUNT = 3
    del COUNT
    try:
        HERE.COUNT
    except AttributeError:
        x = x + 1
    for name in [name for name in globals() if name.startswith("REMOVED")]:
        del globals()[name]
    globals()["REMOVED"] = 1
    return x + REMOVED  # noqa: F821


@pytest.mark.parametrize("f", [reads, asks, counts, misses, misses_attribute, misses_by_hasattr, writes, writes_of_a_function, writes_of_the_module,
                               writes_by_vars, writes_attributes, writes_a_name, across_a_break, removes])
@pytest.mark.parametrize("loops", [False, True])
def test_as_written(f, loops):
    def outcomes(function):
        found = []
        try:
            for turn in range(5):
                if turn == 3:
                    globals()["GIVEN"] = 7
                result = function(torch.ones(2))
                found.append([result[0].tolist(), result[1]] if isinstance(result, tuple) else result.tolist())
            return found, {name: globals().get(name) for name in ("COUNT", "REMOVED")}
        finally:
            for name in ("COUNT", "REMOVED", "GIVEN"):
                globals().pop(name, None)

    torch._dynamo.reset()
    with torch._dynamo.config.patch(break_in_loops=loops):
        assert outcomes(torch.compile(f, backend="eager")) == outcomes(f)
