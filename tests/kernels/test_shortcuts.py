"""The short ways into a compiled module and `no_grad()`: what Python's own functions do, also where something changes, fails or is replaced."""
import copy
import gc
import pickle
import sys
import threading
import weakref

import pytest

import rushlight as torch
from rushlight.compile.module import ENTRY, OptimizedModule
from rushlight.core import modes
from rushlight.kernels import launch, shortcuts
from rushlight.kernels.structs import word

nn = torch.nn
pytestmark = pytest.mark.skipif(not launch.supported(), reason="launchers cannot be made here")


def hot(grad=True):
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    made, x = torch.compile(net), torch.randn(5, 3)
    with torch.set_grad_enabled(grad):
        for _ in range(60):
            made(x)
    assert short(made)
    return net, made, x


def short(made):
    try:
        return type(ENTRY.__get__(made)) is launch.Head
    except AttributeError:
        return False


@pytest.mark.parametrize("grad", [True, False])
def test_changes_are_noticed(grad):
    net, made, x = hot(grad)

    def same():
        with torch.set_grad_enabled(grad):
            torch.testing.assert_close(made(x), net(x))
            assert made(x).requires_grad is net(x).requires_grad
            torch.testing.assert_close(made(input=x), net(x))
            torch.testing.assert_close(made(*[torch.ones(2, 3)], **{}), net(torch.ones(2, 3)))

    same()
    net[0].weight.data = torch.randn(4, 3)
    same()
    net[2].weight.detach().numpy()[0, 1] = 3.0
    same()
    net[0] = nn.Linear(3, 4)
    same()
    net.register_forward_hook(lambda module, args, result: result * 2)
    same()
    grad = not grad
    same()


def test_errors_are_those_of_the_ordinary_call():
    net, made, x = hot()
    for args, kwargs in (((), {}), ((x, x), {}), ((x,), {"other": 1}), ((torch.ones(2, 5),), {}), (("text",), {})):
        with pytest.raises(Exception) as mine:
            made(*args, **kwargs)
        with pytest.raises(type(mine.value)):
            net(*args, **kwargs)
    torch.testing.assert_close(made(x), net(x))


def test_hooks_on_the_compiled_module_itself_are_called():
    net, made, x = hot()
    calls = []
    handle = made.register_forward_hook(lambda module, args, result: calls.append(args))
    assert not short(made)
    made(x)
    handle.remove()
    torch.testing.assert_close(made(x), net(x))
    assert len(calls) == 1


def test_nothing_is_held_nor_lost():
    _net, made, x = hot()
    other = x[:2]

    def counts(*values):
        return [sys.getrefcount(value) for value in (*values, None, False, ())]

    def calls(made, x, other):
        for _ in range(1000):
            made(x)
            made(other)
            with torch.no_grad():
                pass

    calls(made, x, other)
    before = counts(made, x, other)
    calls(made, x, other)
    assert all(abs(one - two) < 500 for one, two in zip(before, counts(made, x, other)))
    gone = weakref.ref(made)
    del made
    gc.collect()
    assert gone() is None


def test_copies_and_classes_stay_as_they_were():
    net, made, x = hot()
    other = copy.deepcopy(made)
    assert not short(other) and type(made) is OptimizedModule is type(other)
    torch.testing.assert_close(other(x), net(x))
    assert OptimizedModule.__call__.__name__ == "__call__" and made.__call__(x).shape == (5, 2)

    class Louder(OptimizedModule):
        def __call__(self, x):
            return super().__call__(x) * 2

    louder = Louder(net, made.__dict__["_make"])
    for _ in range(60):
        torch.testing.assert_close(louder(x), net(x) * 2)
    OptimizedModule._entry.__set__(made, "no head")
    torch.testing.assert_close(made(x), net(x))


def test_a_replaced_call_is_called():
    net, made, x = hot()
    plain, place = OptimizedModule.__call__, id(OptimizedModule) + shortcuts.CALL_PLACE
    filled = word(place)
    try:
        OptimizedModule.__call__ = lambda self, *args: "replaced"
        assert made(x) == "replaced"
    finally:
        OptimizedModule.__call__ = plain
    torch.testing.assert_close(made(x), net(x))
    assert word(place) != filled  # CPython has filled it anew: from here on the ordinary way
    import ctypes
    ctypes.c_int64.from_address(place).value = filled
    torch.testing.assert_close(made(x), net(x))


def test_no_grad_is_what_it_was():
    hot()
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad() as nothing:
        assert nothing is None and not torch.is_grad_enabled()
        with torch.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    assert torch.is_grad_enabled() and type(torch.no_grad()) is torch.no_grad and type(torch.enable_grad()) is torch.enable_grad

    @torch.no_grad
    def bare(x):
        return x * 2

    @torch.no_grad()
    def called(x):
        return x * 2

    assert not bare(x).requires_grad and not called(x).requires_grad and bare.__name__ == "bare"
    assert not torch.no_grad(function=lambda x: x * 2)(x).requires_grad

    class Own(torch.no_grad):
        def __new__(cls, *args):
            made = object.__new__(cls)
            made.args = args
            return made

    assert Own(1, 2).args == (1, 2) and Own().args == ()
    for args, kwargs in (((1, 2), {}), ((), {"what": 1})):
        with pytest.raises(TypeError):
            torch.no_grad(*args, **kwargs)
    counts = [sys.getrefcount(torch.no_grad)]
    kept = [torch.no_grad() for _ in range(100)]
    counts.append(sys.getrefcount(torch.no_grad))
    del kept
    counts.append(sys.getrefcount(torch.no_grad))
    assert counts == [counts[0], counts[0] + 100, counts[0]]
    assert modes.no_grad.__new__(modes.no_grad).__class__ is torch.no_grad


def test_threads_and_modes_of_their_own():
    net, made, x = hot()
    failed = []

    def run(grad):
        try:
            for _ in range(300):
                with torch.set_grad_enabled(grad):
                    assert made(x).requires_grad is grad
                    torch.testing.assert_close(made(x), net(x))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(turn % 2 == 0,)) for turn in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_pickling_goes_by_the_original():
    net = nn.Linear(2, 2)
    made = torch.compile(net)
    for _ in range(30):
        made(torch.ones(1, 2))
    reduced = made.__reduce__()
    assert reduced[0] is OptimizedModule and reduced[1][0] is net
    assert pickle.loads(pickle.dumps(net)).weight.shape == (2, 2)


def test_a_class_that_is_changed_is_made_as_before():
    hot()
    plain = torch.no_grad.__new__
    made = []
    try:
        torch.no_grad.__new__ = lambda cls, *args: made.append(args) or object.__new__(cls)
        torch.no_grad()
        assert made == [()]
    finally:
        torch.no_grad.__new__ = plain
    with torch.no_grad():
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled() and len(made) == 1


def test_more_arguments_than_the_stack_has_room_for():
    """A class is called with millions: an error in words, and not the end of the process."""
    hot()
    for count in (2, 63, 64, 65, 3_000_000):
        with pytest.raises(TypeError, match=f"takes from 1 to 2 positional arguments but {count + 1} were given"):
            torch.no_grad(*[None] * count)
    for count in (63, 64, 2_000_000):
        with pytest.raises(TypeError, match="unexpected keyword argument 'name0'"):
            torch.no_grad(None, **{f"name{at}": None for at in range(count)})
