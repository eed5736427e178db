"""The collector that waits: off inside, as before after, and what a program froze itself stays frozen."""
import gc
import subprocess
import sys

import pytest

from rushlight.core.collector import Waits


@pytest.mark.parametrize("stays", [False, True])
def test_off_inside_and_as_before_after(stays):
    assert gc.isenabled()
    with Waits(stays):
        assert not gc.isenabled()
        with Waits(stays):
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), Waits(stays):
        raise KeyError
    assert gc.isenabled()


def test_a_program_that_does_without_a_collector_stays_without():
    gc.disable()
    try:
        with Waits(stays=True):
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_stays_is_old_and_what_was_frozen_stays_frozen():
    code = ("import gc; from rushlight.core.collector import Waits\n"
            "with Waits(stays=True): made = [[] for _ in range(5000)]\n"
            "assert any(one is made for one in gc.get_objects(generation=2)) and not gc.get_freeze_count()\n"
            "gc.freeze(); before = gc.get_freeze_count()\n"
            "with Waits(stays=True): pass\n"
            "assert gc.get_freeze_count() >= before > 5000")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_collector_is_on_after_import_and_compilation():
    code = ("import gc, rushlight as torch; assert gc.isenabled()\n"
            "f = torch.compile(lambda x: x + 1); assert gc.isenabled()\n"
            "f(torch.ones(2)); assert gc.isenabled()")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
