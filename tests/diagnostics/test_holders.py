"""Whoever holds an object is named as Python writes it, with the line that put it there."""
import gc
import sys

import pytest

import rushlight as torch
from rushlight.diagnostics.holders import find_holders, locals_of


def recorded():
    return (torch.ones(2, requires_grad=True) * 2).sum()


def holder_of(tensor):
    """Its holder outside this function."""
    (holder,) = [found for found in find_holders([tensor], set())[id(tensor)] if found.place != "variable of holder_of"]
    return holder


class Trainer:
    def __init__(self):
        self.history = {"train": []}
        self.best = None

    def step(self, loss):
        self.history["train"].append(loss)

    def keep(self, loss):
        self.best = loss


kept_by_module = []


def test_a_local_variable():
    kept = recorded()
    (holder,) = find_holders([kept], set())[id(kept)]  # an inner frame's name for it, a parameter, would win
    assert str(holder) == "variable 'kept'" and holder.place == "variable of test_a_local_variable"
    assert holder.line.endswith("kept = recorded()")


def test_a_list():
    losses = []
    losses.append(recorded())
    holder = holder_of(losses[0])
    assert str(holder) == "list 'losses'" and holder.line.endswith("losses.append(recorded())")


def test_a_list_of_the_module():
    kept_by_module.append(recorded())
    try:
        assert str(holder_of(kept_by_module[0])) == "list 'kept_by_module'"
    finally:
        kept_by_module.clear()


def test_an_attribute_and_a_list_in_a_dict_in_an_attribute():
    trainer = Trainer()
    trainer.step(recorded())
    trainer.keep(recorded())
    one, other = holder_of(trainer.best), holder_of(trainer.history["train"][0])
    assert str(one) == "attribute 'trainer.best'" and one.line.endswith("self.best = loss")
    assert str(other) == "list 'trainer.history['train']'"
    assert other.line.endswith('self.history["train"].append(loss)')


def test_a_suspended_generator_and_a_closure():
    def generator():
        held = recorded()
        yield id(held)

    def closure():
        held = recorded()
        return lambda: held

    running, function = generator(), closure()
    next(running)
    assert "function" in str(holder_of(function()))
    del running


def test_a_gradient_with_history():
    x = torch.ones(2, requires_grad=True)
    (x ** 2).sum().backward(create_graph=True)
    try:
        assert "x.grad" in str(holder_of(x.grad))
    finally:
        x.grad = None


def test_what_only_the_graph_holds_has_no_holder():
    y = (torch.ones(2, requires_grad=True) * 2).sin()
    target = [item for item in gc.get_referents(y.grad_fn) if isinstance(item, torch.Tensor)]
    found = find_holders(target, {id(target)})
    assert all("target" in str(holder) for holders in found.values() for holder in holders)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="3.13 keeps no snapshot of a frame's locals")
def test_looking_at_a_frame_leaves_no_reference_behind():
    class Thing:
        pass

    thing = Thing()
    locals_of(sys._getframe())
    count = sys.getrefcount(thing)
    locals_of(sys._getframe())
    assert sys.getrefcount(thing) == count == 2
