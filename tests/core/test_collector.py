"""The collector that waits: as before after, and what a program chose itself stays so."""
import gc
import subprocess
import sys

import pytest

from rushlight.core.collector import YOUNG, LooksSeldom, Waits


def test_off_inside_and_on_after():
    assert gc.isenabled()
    with Waits():
        assert not gc.isenabled()
        with Waits():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), Waits():
        raise KeyError
    assert gc.isenabled()


def test_looks_are_seldom_inside_and_as_before_after():
    before = gc.get_threshold()
    with pytest.raises(KeyError), LooksSeldom():
        assert gc.isenabled() and gc.get_threshold()[0] >= YOUNG
        with LooksSeldom():
            assert gc.get_threshold()[0] >= YOUNG
        assert gc.get_threshold()[0] >= YOUNG
        raise KeyError
    assert gc.get_threshold() == before


def test_a_program_that_does_without_a_collector_stays_without():
    before = gc.get_threshold()
    gc.disable()
    try:
        with Waits():
            pass
        assert not gc.isenabled()
        gc.set_threshold(0)
        with LooksSeldom():
            assert gc.get_threshold()[0] == 0
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)
        gc.enable()


def test_what_stays_is_old_and_what_was_frozen_stays_frozen():
    code = ("import gc; from rushlight.core.collector import Waits\n"
            "with Waits(): made = [[] for _ in range(5000)]\n"
            "assert any(one is made for one in gc.get_objects(generation=2)) and not gc.get_freeze_count()\n"
            "gc.freeze(); before = gc.get_freeze_count()\n"
            "with Waits(): pass\n"
            "assert gc.get_freeze_count() >= before > 5000")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_collector_is_as_before_after_import_and_compilation():
    code = ("import gc; before = gc.get_threshold(); import rushlight as torch; assert gc.isenabled()\n"
            "f = torch.compile(lambda x: x + 1); assert gc.isenabled()\n"
            "f(torch.ones(2)); assert gc.isenabled() and gc.get_threshold() == before")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
