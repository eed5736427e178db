"""A sample of the random programs; `python -m tests.capture.random_programs` runs all 3,000, with `--wide` those of more kinds."""

import pytest

from tests.capture import random_writer, wide_writer
from tests.capture.random_programs import check

# Programs of the wide writer that differ, and how.
KNOWN = {
    30: "what a kept exception says of its context after a break",
    51: "sys._getframe().f_code.co_argcount after a break, of the frame that stands for the function's",
}


@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("writer, tens", [*((random_writer, tens) for tens in range(30)), *((wide_writer, tens) for tens in range(15))])
def test_compiled_is_what_is_written(writer, tens):
    for seed in range(10 * tens, 10 * tens + 10):
        if writer is random_writer or seed not in KNOWN:
            difference = check(seed, writer=writer)
            assert difference is None, difference


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.xfail(strict=True, reason=reason)) for seed, reason in KNOWN.items()])
def test_known_differences(seed):
    assert check(seed, writer=wide_writer) is None
