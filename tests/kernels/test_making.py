"""What launchers make: like what Python makes, each held by nobody else, and nothing left behind where something fails."""
import ctypes
import gc
import sys
import weakref

import numpy as np
import pytest

import rushlight as torch
from rushlight.kernels import launch
from rushlight.kernels.launch import launcher
from rushlight.kernels.making import GROUP, Making
from rushlight.kernels.rows import TYPE, Rows, places
from rushlight.kernels.structs import word

pytestmark = pytest.mark.skipif(not launch.supported(), reason="launchers cannot be made here")
FLOAT = np.dtype(np.float32)


class Slotted:
    __slots__ = ("left", "right")


def test_arrays_are_numpys_own():
    for shape in [(), (0,), (5,), (2, 3), (4, 0, 2), (1,) * 8]:
        for dtype in ("float32", "int64", "bool", "complex128"):
            making = Making()
            making.array(shape, np.dtype(dtype))
            make = launcher(Rows(0), None, making=making)
            made, other = make(), make()
            plain = np.empty(shape, dtype)
            assert (made.shape, made.strides, made.dtype, made.flags.num) == (shape, plain.strides, plain.dtype, plain.flags.num)
            assert made is not other and made.base is None and sys.getrefcount(made) == 2
            made[...] = 1
            assert not made.size or made.ctypes.data != other.ctypes.data


def test_objects_hold_what_they_are_given():
    making, mark, counter = Making(), object(), iter(range(10**9))
    array = making.array((3,), FLOAT)
    where = places(Slotted, ("left", "right"))
    inner = making.object(Slotted, where, {"left": ("made", array), "right": ("object", mark)})
    making.tuple([("made", inner), ("register", 1), ("made", making.step(counter)), ("object", None)])
    rows = Rows(1)
    make = launcher(rows, None, making=making)
    before = sys.getrefcount(mark), sys.getrefcount(None), sys.getrefcount(Slotted)
    for turn in range(1000):
        argument = [turn]
        made = make(argument)
        assert type(made) is tuple and type(made[0]) is Slotted and made[1] is argument and made[2:] == (turn, None) and made[0].right is mark
        held = sys.getrefcount(made), sys.getrefcount(made[0].left)
        assert held == (2, 2) and gc.is_tracked(made)
    del made
    now = sys.getrefcount(mark), sys.getrefcount(None), sys.getrefcount(Slotted)
    assert all(abs(a - b) < 20 for a, b in zip(before, now))


def test_nothing_is_left_where_something_fails():
    making, mark = Making(), object()
    making.array((3,), FLOAT)
    making.object(Slotted, places(Slotted, ("left", "right")), {"left": ("object", mark), "right": ("made", 0)})
    number = making.next()
    making.rows.append((GROUP, -1, 0, ("made", number)))
    make = launcher(Rows(0), None, making=making)
    before = sys.getrefcount(mark)
    for _ in range(100):
        with pytest.raises(SystemError):
            make()
    assert sys.getrefcount(mark) == before


def test_an_array_that_cannot_be_made_is_a_miss():
    making = Making()
    making.array((3,), FLOAT)
    making.array((1 << 60,), FLOAT)
    make = launcher(Rows(0), None, making=making)
    assert [make() for _ in range(100)] == [None] * 100


def test_a_miss_makes_nothing():
    making = Making()
    making.array((3,), FLOAT)
    rows = Rows(1)
    rows.same(1, TYPE, id(list))
    make = launcher(rows, None, making=making)
    assert make(()) is None and make() is None and make([], []) is None and make([]).shape == (3,)


def heated(run, *args):
    for _ in range(20):
        run(*args)
    return run


@pytest.mark.parametrize("recorded", [False, True])
def test_results_of_compiled_calls_are_free_when_nobody_holds_them(recorded):
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    run, x = torch.compile(net), torch.randn(3, 4)
    with torch.set_grad_enabled(recorded):
        heated(run, x)
        counts = [sys.getrefcount(p) for p in net.parameters()]
        for _ in range(50):
            out = run(x)
            if recorded:
                net.zero_grad()
                out.sum().backward()
        gone = weakref.ref(out)
        assert vars(out) == {} and out._version == 0 and out.is_leaf is not recorded
        del out
        assert gone() is None
        net.zero_grad()
        assert [sys.getrefcount(p) for p in net.parameters()] == counts


def test_nodes_that_are_made_give_gradients():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))

    def two(x, y):
        hidden = net(x) * y
        return hidden, hidden.exp()

    run = torch.compile(two)
    x, y = torch.randn(3, 4), torch.randn(3, 2, requires_grad=True)
    heated(run, x, y)
    for inputs in ((x, y), (x, (y * 2).sin())):  # a leaf, and one that has a history
        heated(run, *inputs)
        found = []
        for function in (run, two):
            net.zero_grad()
            y.grad = None
            first, second = function(*inputs)
            (first.sum() + 2 * second.sum()).backward(retain_graph=True)
            assert first.grad_fn is not None and second.grad_fn is not None
            found.append([p.grad.clone() for p in (*net.parameters(), y)])
        for mine, other in zip(*found):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


def test_a_collection_while_objects_are_made():
    """The collector runs whenever it likes; what it frees must be no part of a call."""
    net = torch.nn.Linear(4, 4)
    run, x = torch.compile(net), torch.randn(2, 4)
    heated(run, x)
    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        want = net(x)
        for _ in range(200):
            torch.testing.assert_close(run(x), want)
    finally:
        gc.set_threshold(*before)


def test_history_that_a_finalizer_takes_away_stays_alive():
    """Making the first objects may start the collector, and what that runs may detach an input; the node was loaded before."""
    class Detaching:
        def __init__(self, tensor):
            self.tensor, self.own = tensor, self

        def __del__(self):
            self.tensor.detach_()
            kept.extend(object() for _ in range(50))  # in what memory became free

    net, kept = torch.nn.Linear(4, 2), []
    run, y = torch.compile(lambda x: net(x) * 2), torch.randn(3, 4, requires_grad=True)
    for _ in range(30):
        run((y * 2).sin())
    want, = torch.autograd.grad(2 * net((y * 2).sin()).sum(), y)
    before = gc.get_threshold()
    try:
        for countdown in range(1, 30):
            gc.disable()
            gc.collect()
            x = (y * 2).sin()
            kind = type(x._node)
            Detaching(x)
            gc.set_threshold(gc.get_count()[0] + countdown, 1000, 1000)
            gc.enable()
            out = run(x)
            gc.disable()
            history = [edge for edge in out._node.edges if edge is not None and type(edge) is not torch.nn.Parameter]
            if history:  # not detached before the call
                assert [type(edge) for edge in history] == [kind]
                torch.testing.assert_close(torch.autograd.grad(out.sum(), y)[0], want)
    finally:
        gc.set_threshold(*before)
        gc.enable()


def test_what_builtin_they_are_outlives_them():
    """A builtin looks at its method until it is gone, later than the collector clears what the builtin holds."""
    first, second = (launcher(Rows(0), None) for _ in range(2))
    method = 16
    assert word(id(first) + method) == word(id(second) + method) == ctypes.addressof(launch.method())
