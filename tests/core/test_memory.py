"""Memory of large results: used again when free, never while anything can reach it."""

import os
import sys
import threading

import numpy as np
import pytest

import rushlight as torch
from rushlight.core import memory

SHAPE, KIND = (512, 1024), np.dtype(np.float32)


@pytest.fixture(autouse=True)
def clean():
    memory.release()
    yield
    memory.release()


def address(array):
    return array.ctypes.data


def test_freed_memory_is_used_again():
    first = memory.empty(SHAPE, KIND)
    place = address(first)
    assert place % 64 == 0 and first.shape == SHAPE and first.dtype == KIND and first.flags.c_contiguous and first.flags.writeable
    del first
    assert address(memory.empty(SHAPE, KIND)) == place


@pytest.mark.parametrize("hold", [lambda a: a, lambda a: a[3:5], lambda a: memoryview(a), lambda a: a.reshape(-1)[::2].T,
                                  lambda a: torch.from_numpy(a)[1], lambda a: np.from_dlpack(a)])
def test_memory_that_anything_reaches_is_never_given_out(hold):
    array = memory.empty(SHAPE, KIND)
    array[...] = 7
    held = hold(array)
    del array
    others = [memory.empty(SHAPE, KIND) for _ in range(4)]
    for other in others:
        other[...] = 0
    assert (np.asarray(held) == 7).all()


def test_small_arrays_are_numpys_and_huge_ones_are_not_kept():
    assert memory.empty((10,), KIND).base is None
    huge = memory.empty((memory.BIG // 4 + 1,), KIND)
    assert address(huge) % 64 == 0 and memory.owned(huge) and not memory._blocks


def test_what_is_remembered_is_bounded():
    for n in range(40):
        memory.empty(((1 + n) << 18,), KIND)
    assert sum(block.length for block in memory._blocks) <= memory.LIMIT


def test_threads_get_memory_of_their_own():
    wrong = []

    def work(number):
        for _ in range(200):
            array = memory.empty(SHAPE, KIND)
            array[::64, ::64] = number
            if not (array[::64, ::64] == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_writes_into_its_own_copy():
    array = memory.empty(SHAPE, KIND)
    array[...] = 1
    child = os.fork()
    if child == 0:
        array[...] = 2
        os._exit(0)
    os.waitpid(child, 0)
    assert (array == 1).all()


def test_gradients_in_kept_memory_are_leaves_own():
    x = torch.randn(512, 1024, requires_grad=True)
    for _ in range(4):
        x.grad = None
        x.exp().sum().backward()
    kept = x.grad
    before = kept.clone()
    for _ in range(3):
        x.grad = None
        (x * 2).exp().sum().backward()
    assert torch.equal(kept, before)


def test_memory_asked_for_while_memory_is_asked_for():
    """By a handler of a signal, the collector or a tracer, at any instruction."""
    def asked(at):
        inner, turns = [], [0]

        def tracer(frame, event, what):
            frame.f_trace_opcodes = True
            if event == "opcode":
                turns[0] += 1
                if turns[0] == at:
                    inner.append(memory.empty(SHAPE, KIND))
            return tracer

        memory.release()
        memory.empty(SHAPE, KIND)  # free at once
        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            outer = memory.empty(SHAPE, KIND)
        finally:
            sys.settrace(before)
        return outer, inner

    looks = [asked(at) for at in range(1, 150)]
    assert any(inner for _, inner in looks)
    assert not any(np.shares_memory(outer, inner[0]) for outer, inner in looks if inner)
    assert len({address(memory.empty(SHAPE, KIND)) for _ in range(10)}) == 1  # what nobody holds is used again
