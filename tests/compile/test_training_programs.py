"""Training as users write it, whole steps compiled: the losses of real PyTorch, one program, no break and no compilation for each step."""
import pytest

import rushlight
from rushlight.compile import native

from . import mended_training_programs, more_training_programs
from .comparing import is_native
from .training_programs import PROGRAMS

torch = pytest.importorskip("torch")
STEPS = 20


def losses(make, T, wrap=lambda step: step):
    step, data = make(T)
    step = wrap(step)
    return [float(step(*data(at))) for at in range(STEPS)], step


@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_are_pytorchs_and_the_step_is_one_program(name):
    wanted, _ = losses(PROGRAMS[name], torch)
    found, step = losses(PROGRAMS[name], rushlight, rushlight.compile)
    assert found == pytest.approx(wanted, rel=1e-3, abs=1e-4)
    made = step._rushlight_compiled
    assert not made.breaks and len(made.graphs) <= 3
    for entry in made.start.entries:
        assert hasattr(getattr(entry.run.__globals__.get("graph"), "lowered", None), "native"), "a graph runs by its ops"


@pytest.mark.parametrize("name", more_training_programs.PROGRAMS)
def test_more_programs(name):
    make = more_training_programs.PROGRAMS[name]
    wanted, _ = losses(make, torch)
    found, step = losses(make, rushlight, rushlight.compile)
    assert found == pytest.approx(wanted, rel=1e-3, abs=1e-4)
    made = step._rushlight_compiled
    if name not in more_training_programs.IN_PIECES:
        assert not made.breaks
        for entry in made.start.entries:
            assert hasattr(getattr(entry.run.__globals__.get("graph"), "lowered", None), "native"), "a graph runs by its ops"


class Never(Exception):
    """What a program does not raise."""


@pytest.mark.parametrize("name", mended_training_programs.PROGRAMS)
def test_mended_programs(name, monkeypatch):
    make = mended_training_programs.PROGRAMS[name]
    wanted, _ = losses(make, torch)
    monkeypatch.setattr(native, "Misfit", Never)  # a program that does not fit would be replaced by its ops
    found, step = losses(make, rushlight, rushlight.compile)
    assert found == pytest.approx(wanted, rel=1e-3, abs=1e-4)
    made = step._rushlight_compiled
    assert not made.breaks and len(made.graphs) <= 3 and is_native(step)
