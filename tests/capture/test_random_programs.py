"""A sample of the random programs; `python -m tests.capture.random_programs` runs all 3,000, with `--wide` those of more kinds."""

import pytest

from tests.capture import random_writer, wide_writer
from tests.capture.random_programs import check

FOUND = (244, 248, 256, 269, 382)  # programs of the wide writer further on that differed once


@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("writer, tens", [*((random_writer, tens) for tens in range(30)), *((wide_writer, tens) for tens in range(15))])
def test_compiled_is_what_is_written(writer, tens):
    for seed in range(10 * tens, 10 * tens + 10):
        difference = check(seed, writer=writer)
        assert difference is None, difference


@pytest.mark.parametrize("seed", FOUND)
def test_what_differed_once(seed):
    assert check(seed, writer=wide_writer) is None
