"""Each bytecode, with a graph break before it, after it and inside it, does compiled what it does as written.

`python -m tests.capture.test_bytecodes` runs every variant; as a test each row runs a share of its own.
"""

import contextlib
import dis
import io
import linecache
import sys
import traceback

import numpy as np
import pytest

import rushlight as torch
from tests.capture.bytecodes import HEADER, TABLE, absent, opcodes, source, variants

ROWS = [(names, source(body)) for names, body in TABLE.items() if any(name in dis.opmap for name in names)]
IDS = [names[0] for names, _ in ROWS]
SHARE = 4  # one variant in so many is run as a test


def test_the_table_is_complete():
    covered = {name for names in TABLE for name in names}
    assert sorted(name for name in dis.opmap if name not in covered and absent(name) is None) == []


@pytest.mark.parametrize("names, text", ROWS, ids=IDS)
def test_the_programs_hold_their_opcodes(names, text):
    found = opcodes(compile(text, "<row>", "exec"))
    assert [name for name in names if name in dis.opmap and absent(name) is None and name not in found] == []


def plain(value):
    """A value as something that compares by ==."""
    if isinstance(value, torch.Tensor):
        return ("tensor", tuple(value.shape), str(value.dtype), np.asarray(value.detach().numpy(), float).round(4).tolist())
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(plain, value)]
    if hasattr(value, "log"):
        return ("box", plain(vars(value)))
    return value


def lines_of(error, name):
    return [(frame.lineno, frame.name) for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]


def outcomes(text, name, make):
    """What three calls do: results or exceptions with their lines, the arguments after, globals, printed text."""
    scope = {"__name__": "row", "torch": torch}
    exec(compile(text, name, "exec"), scope)
    function, found = make(scope["f"]), []
    for n in (2, 2, 3, 1):
        arguments = torch.tensor([0.5, 1.0, -2.0]), n, scope["Wide"](n), [1, 2, 3], {"a": 4}
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            try:
                result = plain(function(*arguments))
            except Exception as error:
                result = (type(error).__name__, str(error), lines_of(error, name))
        found.append((result, plain(list(arguments)), scope["COUNT"], "LATER" in scope, out.getvalue()))
    return found


def check(where, text, loops):
    whole, name = HEADER + "\n\n" + text, f"<{where}>"
    linecache.cache[name] = (len(whole), None, whole.splitlines(True), name)
    torch._dynamo.reset()
    with torch._dynamo.config.patch(break_in_loops=loops):
        want = outcomes(whole, name, lambda f: f)
        got = outcomes(whole, name, lambda f: torch.compile(f, backend="eager"))
    assert got == want, f"{where}\n{text}"


@pytest.mark.parametrize("number", range(len(ROWS)), ids=IDS)
def test_breaks_and_resumes(number):
    for at, (where, text) in enumerate(variants(ROWS[number][1])):
        if at == 0 or at % SHARE == number % SHARE:
            check(where, text, loops=bool((at // SHARE) % 2))


if __name__ == "__main__":
    failed = count = 0
    for names, text in ROWS:
        for where, variant in variants(text):
            for loops in (False, True):
                count += 1
                try:
                    check(where, variant, loops)
                except Exception as error:
                    failed += 1
                    print(f"--- {names[0]} {where} loops={loops}: {type(error).__name__}: {str(error)[:int(sys.argv[1]) if sys.argv[1:] else 300]}", flush=True)
    print(f"{failed} of {count} failed")
