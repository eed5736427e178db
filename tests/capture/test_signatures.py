"""What builtins take: read from their own text as `inspect` reads it."""

import builtins
import inspect
import math
import operator

import pytest

from rushlight.capture import signatures

MODULES = (builtins, math, operator)
VALUES = (1, 1.5, "a", b"a", [1], (1,), {1: 2}, {1})


@pytest.mark.parametrize("owner", [*MODULES, *VALUES], ids=lambda owner: getattr(owner, "__name__", type(owner).__name__))
def test_what_a_builtin_says_is_read_as_inspect_reads_it(owner):
    found = 0
    for function in [getattr(owner, name) for name in dir(owner)]:
        made = signatures.told(function)
        if made is None:
            continue
        parameters = inspect.signature(function).parameters.values()
        places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        names = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
        assert made == (sum(one.default is one.empty for one in places), len(places), names), function
        assert all(one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters)
        found += 1
    assert found
