"""Each function of `language.py` gives the same results, side effects and exceptions compiled and as written."""

import pytest

import rushlight as torch

from . import language


def outcomes(function, argument_sets):
    found = []
    language.COUNT = 0
    language.G.clear()
    language.G["c"] = 0
    torch.manual_seed(1)
    language.NETS["n"] = language.Net()
    for make in argument_sets:
        arguments = make()
        try:
            result = language.plain(function(*arguments))
        except Exception as error:
            result = (type(error).__name__, str(error)[:100])
        found.append((result, language.plain(list(arguments))))
    return found


@pytest.mark.parametrize("loops", [False, True], ids=["", "loops"])
@pytest.mark.parametrize("function, argument_sets, options", language.CASES, ids=[case[0].__name__ for case in language.CASES])
def test_compiled_equals_plain(function, argument_sets, options, loops):
    torch._dynamo.reset()
    want = outcomes(function, argument_sets)
    with torch._dynamo.config.patch(break_in_loops=loops):
        assert outcomes(torch.compile(function, backend="eager", **options), argument_sets) == want
