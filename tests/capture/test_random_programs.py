"""A sample of the random programs; `python -m tests.capture.random_programs` runs all 3,000."""

import pytest

from tests.capture.random_programs import check


@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("tens", range(30))
def test_compiled_is_what_is_written(tens):
    for seed in range(10 * tens, 10 * tens + 10):
        difference = check(seed)
        assert difference is None, difference
