"""The hot path: a function written for one set of objects gives what eager code gives, whatever changes behind its back."""
import copy
import gc
import linecache
import threading
import types
import weakref
from contextvars import ContextVar

import numpy as np
import pytest

import rushlight as torch
from rushlight.kernels import launch
from rushlight.kernels.rows import ANY, TYPE, Rows, slots

nn, F = torch.nn, torch.nn.functional
needs_launcher = pytest.mark.skipif(not launch.supported(), reason="launchers cannot be made here")


def compiled_of(made):
    return (made.__dict__["_compiled"] if isinstance(made, nn.Module) else made)._rushlight_compiled


def is_hot(made):
    hot = compiled_of(made).hot
    return hot.call.__code__ is not hot.plain


def heated(made, *args):
    for turn in range(100):
        made(*args)
        if turn >= 4 and is_hot(made):
            break
    assert is_hot(made) or not launch.supported()
    return made


class Net(nn.Module):
    scale = 2.0

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)
        self.register_buffer("shift", torch.ones(3))
        self.flag = True
        self.factors = [1.0, 2.0]
        self.drop = nn.Dropout(0.0)

    def forward(self, x):
        y = self.second(torch.relu(self.first(x))) * self.scale + self.shift
        if self.flag:
            y = y * self.factors[1]
        return self.drop(y) if self.training else y + 1


def patched(self, x):
    return self.first(x).sum()


CHANGES = {
    "attribute": lambda net: setattr(net, "flag", False),
    "attribute in __dict__": lambda net: net.__dict__.__setitem__("flag", False),
    "attribute by object": lambda net: object.__setattr__(net, "flag", False),
    "attribute that hides the class's": lambda net: setattr(net, "scale", 3.0),
    "attribute of the class": lambda net: setattr(type(net), "scale", 5.0),
    "method of the class": lambda net: setattr(type(net), "forward", patched),
    "method of its own": lambda net: setattr(net, "forward", types.MethodType(patched, net)),
    "item of a list": lambda net: net.factors.__setitem__(1, 7.0),
    "longer list": lambda net: net.factors.insert(0, 9.0),
    "other list": lambda net: setattr(net, "factors", [5.0, 6.0]),
    "train": lambda net: net.train(not net.training),
    "train of a child": lambda net: net.drop.train(False),
    "parameter": lambda net: setattr(net.first, "weight", nn.Parameter(torch.ones(8, 4))),
    "parameter in the registry": lambda net: net.first._parameters.__setitem__("weight", nn.Parameter(torch.ones(8, 4))),
    "no bias": lambda net: setattr(net.first, "bias", None),
    "buffer": lambda net: setattr(net, "shift", torch.full((3,), 4.0)),
    "buffer in the registry": lambda net: net._buffers.__setitem__("shift", torch.full((3,), 4.0)),
    "child": lambda net: setattr(net, "first", nn.Linear(4, 8, bias=False)),
    "child in the registry": lambda net: net._modules.__setitem__("first", nn.Linear(4, 8, bias=False)),
    "data": lambda net: setattr(net.first.weight, "data", torch.ones(8, 4)),
    "data that is transposed": lambda net: setattr(net.first.weight, "data", torch.arange(32.0).reshape(4, 8).t()),
    "data of another width": lambda net: (setattr(net.first.weight, "data", torch.ones(5, 4)), setattr(net.first.bias, "data", torch.ones(5)),
                                          setattr(net.second.weight, "data", torch.ones(3, 5))),
    "dtype": lambda net: net.double(),
    "values in place": lambda net: [p.data.mul_(2) for p in net.parameters()],
    "forward hook": lambda net: net.first.register_forward_hook(lambda module, args, out: out * 2),
    "forward pre-hook": lambda net: net.second.register_forward_pre_hook(lambda module, args: (args[0] + 1,)),
    "hook in the table": lambda net: net.first._forward_hooks.__setitem__(77, lambda module, args, out: out * 2),
    "other class": lambda net: setattr(net.first, "__class__", Doubled),
    "other __dict__": lambda net: setattr(net, "__dict__", {**net.__dict__, "flag": False}),
    "array reshaped in place": lambda net: setattr(net.shift.numpy(), "shape", (1, 3)),
}


class Doubled(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_a_module_are_noticed(name, grad):
    torch.manual_seed(0)
    kind = type("Own", (Net,), {"__init__": Net.__init__, "forward": Net.forward, "scale": Net.scale})
    kind.__init__ = lambda self: Net.__init__(self)
    net, x = kind(), torch.randn(5, 4)
    made = torch.compile(net)
    with torch.set_grad_enabled(grad):
        heated(made, x)
        CHANGES[name](net)
        if name == "dtype":
            x = x.double()
        for _ in range(3):
            torch.testing.assert_close(made(x), net(x))


def test_global_hooks_are_noticed():
    net, x = nn.Linear(2, 2), torch.ones(1, 2)
    made = heated(torch.compile(net), x)
    with torch.no_grad():
        heated(made, x)
        handle = nn.modules.module.register_module_forward_hook(lambda module, args, out: out * 0)
        try:
            torch.testing.assert_close(made(x), net(x))
        finally:
            handle.remove()
        torch.testing.assert_close(made(x), net(x))


factor = 2.0


def test_globals_cells_and_defaults_are_noticed():
    global factor
    inside = 3.0

    def scaled(x, by=1.0):
        return x * factor * inside * by

    made, x = torch.compile(scaled), torch.ones(3)
    factor = 2.0
    heated(made, x)
    factor = 5.0
    torch.testing.assert_close(made(x), scaled(x))
    heated(made, x)
    inside = 7.0
    torch.testing.assert_close(made(x), scaled(x))
    heated(made, x)
    scaled.__defaults__ = (11.0,)
    torch.testing.assert_close(made(x), scaled(x))
    torch.testing.assert_close(made(x, by=2.0), scaled(x, by=2.0))
    torch.testing.assert_close(made(by=3.0, x=x), scaled(x, 3.0))
    with pytest.raises(TypeError, match="scaled"):
        made()


def test_what_raises_after_a_change_runs_once():
    def function(x, n, log):
        log.append(n)
        if n > 2:
            raise KeyError(n)
        return x + n

    made, log = torch.compile(function), []
    for _ in range(5):
        made(torch.ones(2), 1, [])
    with pytest.raises(KeyError) as caught:
        made(torch.ones(2), 3, log)
    assert log == [3] and caught.value.__context__ is None


ARGUMENTS = {
    "shape": lambda: (torch.ones(3, 4), torch.ones(3, 4)),
    "dtype": lambda: (torch.ones(2, 3, dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64)),
    "strides": lambda: (torch.arange(6.0).reshape(3, 2).t(), torch.ones(2, 3)),
    "broadcast": lambda: (torch.ones(1, 3).expand(2, 3), torch.ones(2, 3)),
    "requires grad": lambda: (torch.ones(2, 3, requires_grad=True), torch.ones(2, 3)),
    "history": lambda: (torch.ones(2, 3, requires_grad=True) * 2, torch.ones(2, 3)),
    "parameter": lambda: (nn.Parameter(torch.ones(2, 3)), torch.ones(2, 3)),
    "the same twice": lambda: (torch.ones(2, 3),) * 2,
    "a number": lambda: (3.0, torch.ones(2, 3)),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_other_arguments(name):
    def function(x, y):
        return x * 2 + y

    made = heated(torch.compile(function), torch.ones(2, 3), torch.zeros(2, 3))
    args = ARGUMENTS[name]()
    for _ in range(2):
        want, got = function(*args), made(*args)
        torch.testing.assert_close(got, want)
        assert got.requires_grad == want.requires_grad
        torch.testing.assert_close(made(torch.ones(2, 3), torch.zeros(2, 3)), torch.full((2, 3), 2.0))


def test_modes_are_noticed():
    x = torch.ones(3)
    made = heated(torch.compile(lambda x: torch.arange(3) / 2 + x), x)
    with torch.inference_mode():
        assert made(x).is_inference()
    assert not made(x).is_inference()
    torch.set_default_dtype(torch.float64)
    try:
        assert made(x).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert made(x).dtype is torch.float32


def test_settings_and_stances_are_noticed():
    x = torch.ones(3)
    made = heated(torch.compile(lambda x: x + 1), x)
    torch.testing.assert_close(made(x), x + 1)
    with torch.compiler.set_stance("force_eager"):
        torch.testing.assert_close(made(x), x + 1)
    with torch._dynamo.config.patch(disable=True):
        torch.testing.assert_close(made(x), x + 1)
    torch.compiler.reset()
    assert not is_hot(made)
    torch.testing.assert_close(made(x), x + 1)


def test_results_are_new_memory():
    made, x = torch.compile(lambda x: x * 2), torch.ones(4)
    heated(made, x)
    first, second = made(x), made(x * 3)
    assert first.data_ptr() != second.data_ptr()
    assert first.tolist() == [2.0] * 4 and second.tolist() == [6.0] * 4


def trained(optimizer, steps, touch=None, compiled=True, returned="detach"):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    opt = getattr(torch.optim, optimizer)(net.parameters(), lr=0.01)
    x, y = torch.randn(6, 4), torch.randn(6, 1)

    def step(x, y):
        opt.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach() if returned == "detach" else loss

    run, losses = torch.compile(step) if compiled else step, []
    for number in range(steps):
        losses.append(run(x, y))
        if touch is not None:
            touch(number, net, opt)
    return losses, net, opt, run


TOUCHES = {
    "nothing": None,
    "the gradients": lambda number, net, opt: [p.grad.mul_(2) for p in net.parameters()],
    "gradients set to None": lambda number, net, opt: opt.zero_grad(),
    "the weights": lambda number, net, opt: [p.data.mul_(0.9) for p in net.parameters()],
    "the learning rate": lambda number, net, opt: opt.param_groups[0].__setitem__("lr", 0.01 / (number + 1)),
    "the learning rate once": lambda number, net, opt: number == 8 and opt.param_groups[0].__setitem__("lr", 0.5),
    "state": lambda number, net, opt: number == 8 and opt.load_state_dict(copy.deepcopy(opt.state_dict())),
    "a parameter": lambda number, net, opt: number == 8 and setattr(net[0], "weight", nn.Parameter(net[0].weight.detach() * 2)),
    "a frozen parameter": lambda number, net, opt: number == 8 and net[0].weight.requires_grad_(False),
    "a hook of a tensor": lambda number, net, opt: number == 8 and net[0].weight.register_hook(lambda grad: grad * 0),
    "a hook of the optimizer": lambda number, net, opt: number == 8 and opt.register_step_pre_hook(
        lambda opt, args, kwargs: opt.param_groups[0].__setitem__("lr", 0.0)),
    "a group": lambda number, net, opt: number == 8 and opt.add_param_group({"params": [nn.Parameter(torch.ones(2))], "lr": 0.1}),
    "training": lambda number, net, opt: number == 8 and net.eval(),
}


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("name", TOUCHES)
def test_steps_train_as_eager_does(optimizer, name):
    want, reference, *_ = trained(optimizer, 16, TOUCHES[name], compiled=False)
    got, net, *_ = trained(optimizer, 16, TOUCHES[name])
    torch.testing.assert_close(torch.stack(got), torch.stack(want), rtol=1e-4, atol=1e-5)
    for mine, other in zip(net.parameters(), reference.parameters()):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-3, atol=1e-5)
        assert mine._version == other._version or name == "state"


def test_gradients_that_someone_holds_stay():
    kept = []

    def keep(number, net, opt):
        grad = net[0].weight.grad
        kept.append((grad, grad.clone()))
        if number == 7:
            net[0].bias.grad.note = "mine"
        if number == 8:
            kept.append((net[2].weight.grad.numpy(), net[2].weight.grad.numpy().copy()))
        if number == 9:
            kept.append((net[2].bias.grad.view(1), net[2].bias.grad.view(1).clone()))

    *_, net, _, run = trained("SGD", 16, keep)
    for held, values in kept:
        assert np.array_equal(np.asarray(held), np.asarray(values))
    assert not hasattr(net[0].bias.grad, "note")


class Trainer:
    def __init__(self):
        self.net = nn.Linear(4, 1)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def step(self, x):
        loss = self.net(x).sum()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss


def closed_over():
    trainer = Trainer()
    net, opt = trainer.net, trainer.opt

    def step(x):
        loss = net(x).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return net, step


@needs_launcher
@pytest.mark.parametrize("where", ["cells", "attributes"])
def test_gradients_that_nobody_holds_are_written_again(where):
    trainer = Trainer()
    net, step = closed_over() if where == "cells" else (trainer.net, trainer.step)
    run, x = torch.compile(step), torch.ones(2, 4)
    heated(run, x)
    run(x)
    places = {(id(net.weight.grad), id(net.bias.grad)) for _ in range(4) if run(x) is not None}
    assert len(places) == 1
    held = net.weight.grad
    run(x)
    assert net.weight.grad is not held and held.tolist() == [[2.0] * 4]


def test_weak_references_to_gradients():
    seen = []

    def refer(number, net, opt):
        if number == 8:
            seen.append(weakref.ref(net[0].weight.grad))

    _, net, *_ = trained("SGD", 12, refer)
    assert seen[0]() is None


def test_a_write_by_a_step_is_noticed_by_backward():
    losses, net, opt, run = trained("SGD", 8)
    weight = net[2].weight
    out = (weight * weight).sum()
    run(torch.randn(6, 4), torch.randn(6, 1))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_a_loss_whose_backward_ran():
    losses, *_ = trained("SGD", 8, returned="loss")
    assert losses[-1].requires_grad
    with pytest.raises(RuntimeError, match="second time"):
        losses[-1].backward()


@pytest.mark.parametrize("steps", [1, 8])  # before and after the function is written anew
def test_messages_name_the_users_line(steps):
    losses, net, _, run = trained("SGD", steps, returned="loss")
    with pytest.raises(RuntimeError, match=r"The first backward ran at .*test_hot.py:\d+ in trained"):
        losses[-1].backward()
    out = (net[2].weight * net[2].weight).sum()
    run(torch.randn(6, 4), torch.randn(6, 1))
    with pytest.raises(RuntimeError, match=r"It was written at .*test_hot.py:\d+ in test_messages_name_the_users_line"):
        out.backward()


def test_two_modules_and_two_shapes_in_turn():
    nets = [nn.Linear(3, 2) for _ in range(2)]
    made = [torch.compile(net) for net in nets]
    inputs = [torch.randn(4, 3), torch.randn(2, 3)]
    with torch.no_grad():
        for turn in range(40):
            net, run, x = nets[turn % 2], made[turn % 2], inputs[turn // 3 % 2]
            torch.testing.assert_close(run(x), net(x))


def test_a_module_given_as_an_argument():
    @torch.compile
    def apply(net, x):
        return net(x) * 2

    x = torch.randn(4, 3)
    for turn in range(12):
        net = nn.Linear(3, 2)
        for _ in range(4):
            torch.testing.assert_close(apply(net, x), net(x) * 2)
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None


def test_threads_share_a_hot_function():
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    made, wrong = torch.compile(net), []

    def work(seed):
        with torch.no_grad():
            x = torch.randn(4, 8, generator=torch.Generator().manual_seed(seed))
            want = net(x)
            for _ in range(300):
                if not torch.allclose(made(x), want, atol=1e-6):
                    wrong.append(seed)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    assert not wrong


def test_the_number_of_threads_may_change():
    before = torch.get_num_threads()
    made, x = torch.compile(lambda x: x * 2 + 1), torch.ones(8)
    try:
        for count in (1, 2, 1):
            torch.set_num_threads(count)
            heated(made, x)
            torch.testing.assert_close(made(x), x * 2 + 1)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("signature", ["S0, K1=2.0", "o, v1=2.0", "x, /, y=2.0", "x, *, y=2.0", "*x, y=2.0", "**y", "R_cold, new=2.0"])
def test_parameters_of_any_name(signature):
    names = [part.split("=")[0].strip() for part in signature.split(",") if part.strip() not in ("/", "*")]
    first = names[0].lstrip("*")
    value = {"*x": "x[0]", "**y": "y['x']"}.get(names[0], first)
    other = names[1] if len(names) > 1 else "2.0"
    scope = {}
    exec(f"def function({signature}):\n  return {value} * {other}", scope)
    function = scope["function"]
    made, x = torch.compile(function), torch.ones(3)
    calls = [((), {"x": x})] if names[0] == "**y" else [((x,), {}), ((x,), {names[1]: 3.0})]
    for args, kwargs in calls * 6 + calls[:1] * 6 + calls[::-1]:
        torch.testing.assert_close(made(*args, **kwargs), function(*args, **kwargs))


@needs_launcher
def test_launcher_compares_what_it_is_told():
    rows = Rows(1)
    rows.same(1, TYPE, id(torch.Tensor))
    rows.array(rows.load(1, slots()["_array"]), (2, 3), (12, 4), np.dtype(np.float32))
    look = launch.launcher(rows, None)
    assert look(torch.ones(2, 3)) is None
    for other in (torch.ones(3, 2), torch.ones(2, 3).double(), torch.ones(3, 2).t(), nn.Parameter(torch.ones(2, 3)), 3, None):
        assert look(other) is True
    assert look() is True and look(1, 2) is True


@needs_launcher
def test_dicts_that_change_at_each_call_are_read_item_by_item():
    class Counting(nn.Linear):
        calls = 0

        def forward(self, x):
            return super().forward(x) * 2

    net, x = Counting(3, 2), torch.randn(4, 3)
    made = torch.compile(net)
    with torch.no_grad():
        for turn in range(60):
            net.calls = turn
            torch.testing.assert_close(made(x), net(x))
        assert compiled_of(made).hot.restless
        hot, serial = compiled_of(made).hot, compiled_of(made).hot.serial
        for turn in range(60):
            net.calls = -turn
            made(x)
        assert hot.serial == serial
        net.weight = nn.Parameter(torch.ones(2, 3))
        torch.testing.assert_close(made(x), net(x))


def launches(made):
    """Whether the present hot function calls its program with no Python between."""
    hot = compiled_of(made).hot
    return is_hot(made) and "R_run" not in "".join(linecache.getlines(hot.call.__code__.co_filename))


NUMBERS = [2.5, -3.0, 0.0, -0.0, 1e300, float("inf"), float("-inf"), float("nan"), 5e-324, 7, 2, -9, 0, 1, -1, True, False, 2**29, 2**30, 2**31 + 5,
           -2**33, 2**59 + 1, 2**60, -2**61, 2**62 - 1, np.float64(0.5), np.float32(0.25), np.int64(3)]


@needs_launcher
@pytest.mark.parametrize("first", [2.5, 7])
def test_numbers_that_vary(first):
    def scaled(x, a):
        return x * a, -x

    made, x = torch.compile(scaled), torch.randn(3, 2, dtype=torch.float64)
    heated(made, x, first)
    assert launches(made)
    for number in NUMBERS * 2:
        for got, want in zip(made(x, number), scaled(x, number)):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got.numpy(), want.numpy())


@needs_launcher
def test_numbers_given_by_name_and_default():
    def scaled(x, a=2.0, *, b=3):
        return x * a + b

    made, x = torch.compile(scaled), torch.ones(3)
    for i in range(12):
        for given in ({}, {"a": i + 0.5}, {"b": i + 5}, {"a": i + 0.5, "b": i + 5}):
            assert torch.equal(made(x, **given), scaled(x, **given))


@needs_launcher
def test_numbers_that_are_sizes():
    def cut(x, n):
        return torch.cat([x.repeat(2, 1), x * n])[:n].sum(0)

    made = torch.compile(cut, dynamic=True)
    for n in [4, 4, 4, 4, 4, 5, 4, 6, 4, 4, 4, 3, 7, 8, 9]:
        for rows in (4, 5):
            x = torch.randn(rows, 2)
            torch.testing.assert_close(made(x, n), cut(x, n))


@needs_launcher
def test_numbers_in_a_recorded_graph():
    def scaled(x, w, a, n):
        return (x * w * a).sum(), (x * n).exp()

    made = torch.compile(scaled)
    for i in range(30):
        x = torch.randn(3, 2, requires_grad=True)
        w = torch.randn(2, requires_grad=True)
        grads = [torch.autograd.grad(sum(out.sum() for out in run(x, w, i + 0.5, i + 3)), (x, w)) for run in (made, scaled)]
        torch.testing.assert_close(*grads)
    assert launches(made)


def powers(x, y):
    z = torch.exp(x) * y
    return z, (z * x).sum(), x.detach() + 1


@needs_launcher
def test_recorded_calls():
    made = torch.compile(powers)
    x, y = torch.randn(3, requires_grad=True), torch.randn(3)
    heated(made, x, y)
    assert launches(made)
    for _ in range(3):
        got, want = made(x, y), powers(x, y)
        assert [out.requires_grad for out in got] == [out.requires_grad for out in want] == [True, True, False]
        for outs in (got, want):
            (outs[0].sum() + outs[1]).backward(retain_graph=True)
            outs[1].backward()
        torch.testing.assert_close(list(got), list(want))
    with pytest.raises(RuntimeError, match="second time"):
        got[1].backward()
    twice = torch.autograd.grad(torch.autograd.grad(made(x, y)[1], x, create_graph=True)[0].sum(), x)
    torch.testing.assert_close(twice, torch.autograd.grad(torch.autograd.grad(powers(x, y)[1], x, create_graph=True)[0].sum(), x))


@needs_launcher
def test_recorded_calls_between_recorded_ops():
    made, w = torch.compile(powers), torch.randn(3, requires_grad=True)
    for turn in range(8):
        grads = []
        for run in (made, powers):
            inner = w * 2
            z, total, _ = run(inner, w if turn % 2 else inner * 1)
            grads.append(torch.autograd.grad((z * 3).sum() + total, w))
        torch.testing.assert_close(*grads)
    x = torch.randn(3)
    for run in (made, powers):  # the same function where nothing requires grad, and where no grad is recorded
        assert not any(out.requires_grad for out in run(x, x))
        with torch.no_grad():
            assert not any(out.requires_grad for out in run(w, x))
        assert run(w, x)[0].requires_grad


@needs_launcher
def test_what_a_recorded_call_saved_is_not_to_be_written():
    made = heated(torch.compile(lambda x, y: (x * y).sin()), torch.randn(3, requires_grad=True), torch.randn(3))
    assert launches(made)
    x, y = torch.randn(3, requires_grad=True), torch.randn(3)
    out = made(x, y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@needs_launcher
def test_hooks_and_leaves_of_recorded_calls():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    made, x = torch.compile(net), torch.randn(5, 3)
    heated(made, x)
    assert launches(made)
    seen = []
    net[0].weight.register_hook(lambda g: seen.append(g.shape))
    for _ in range(4):
        net.zero_grad()
        made(x).sum().backward()
        got = [p.grad for p in net.parameters()]
        net.zero_grad()
        net(x).sum().backward()
        torch.testing.assert_close(got, [p.grad for p in net.parameters()])
    assert len(seen) == 8
    net[0].requires_grad_(False)
    net.zero_grad()
    made(x).sum().backward()
    assert net[0].weight.grad is None and net[2].weight.grad is not None


def exponential(x):
    y = torch.exp(x)
    return y, y.sum()


def apart(x):
    y = torch.exp(x)
    return y.detach(), y.sum()


@pytest.mark.parametrize("calls", [1, 8])
def test_what_a_recorded_call_gave_and_saved_is_not_to_be_written(calls):
    for run in (exponential, torch.compile(exponential)):
        for _ in range(calls):
            outs = run(torch.tensor([3.0, 1.0, 2.0], requires_grad=True))
        outs[0].detach().mul_(2)
        with pytest.raises(RuntimeError, match=r"modified by an inplace operation: \[torch.FloatTensor \[3\]\], which is output 0 of "):
            outs[0].sum().backward()
    made = torch.compile(apart)
    for _ in range(calls):
        x = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
        outs = made(x)
    outs[0].zero_()  # PyTorch refuses this one too; here what was saved is a copy
    outs[1].backward()
    torch.testing.assert_close(x.grad, x.detach().exp())


@needs_launcher
@pytest.mark.parametrize("inside", [True, False])
def test_a_rate_that_changes_with_each_step_is_read_anew(inside, monkeypatch):
    """The schedule's own numbers and the group's rate change in their dicts; a step still takes the short way."""
    S = torch.optim.lr_scheduler

    def make():
        torch.manual_seed(0)
        net = nn.Linear(4, 2)
        opt = torch.optim.AdamW(net.parameters(), lr=0.05)
        schedule = S.SequentialLR(opt, [S.LinearLR(opt, total_iters=5), S.CosineAnnealingLR(opt, 100)], [5])

        def step(x):
            opt.zero_grad()
            loss = net(x).pow(2).mean()
            loss.backward()
            opt.step()
            if inside:
                schedule.step()
            return loss.detach()
        return net, opt, schedule, step
    (one, first, one_schedule, plain), (two, second, two_schedule, wrapped) = make(), make()
    run, x = torch.compile(wrapped), torch.ones(3, 4)
    for at in range(40):
        if at == 30:
            monkeypatch.setattr(compiled_of(run).hot, "hit", None)  # the ordinary way is no way from here on
        if at in (34, 35):
            for opt in (first, second):
                opt.param_groups[0]["lr"] = opt.param_groups[0]["lr"] / 2
        assert torch.allclose(plain(x), run(x), atol=1e-4)
        for schedule in () if inside else (one_schedule, two_schedule):
            schedule.step()
        assert first.param_groups[0]["lr"] == pytest.approx(second.param_groups[0]["lr"], rel=1e-12)
        assert torch.allclose(one.weight, two.weight, atol=1e-4)
    monkeypatch.undo()
    for opt, step in ((first, plain), (second, run)):  # a rate of another type, and none that is finite
        opt.param_groups[0]["lr"] = 1
        step(x)
    assert torch.allclose(one.weight, two.weight, atol=1e-3)
    for opt, step in ((first, plain), (second, run)):
        opt.param_groups[0]["lr"] = float("inf")
        step(x)
    assert torch.equal(one.weight.isnan(), two.weight.isnan())


@needs_launcher
def test_modes_and_sizes_that_take_turns_stay_hot():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    made, small, large = torch.compile(net), torch.randn(2, 3), torch.randn(5, 3)

    def turn():
        for x in (small, large):
            torch.testing.assert_close(made(x), net(x))
        with torch.no_grad():
            torch.testing.assert_close(made(small), net(small))

    for _ in range(60):
        turn()
    compiled = compiled_of(made)
    assert len(compiled.hot.chain) == 3
    before = dict(compiled.hot.hits)
    for _ in range(10):
        turn()
    assert compiled.hot.hits == before  # none went the ordinary way
    net[0].weight.data.zero_()
    turn()
    net[1].register_forward_hook(lambda module, args, out: out * 2)
    for _ in range(10):
        turn()
    compiled.reset()
    turn()


@needs_launcher
def test_flags_that_take_turns():
    made = torch.compile(lambda x, flag, scale=2.0: x * scale if flag else -x)
    x = torch.randn(3)
    for at in range(100):
        assert torch.equal(made(x, at % 2 == 0), x * 2 if at % 2 == 0 else -x)
        assert torch.equal(made(x, True, scale=3.0 + at), x * (3.0 + at))


@needs_launcher
def test_nothing_is_written_for_sizes_that_differ_from_call_to_call():
    made = torch.compile(lambda x: (x * 2 + 1).sum(0))
    for size in range(3, 60):
        assert torch.equal(made(torch.ones(size, 4)), torch.full((4,), 3.0 * size))
    assert compiled_of(made).hot.serial == 0
    for _ in range(200):
        for size in (3, 4):
            made(torch.ones(size, 4))
    assert is_hot(made)


@needs_launcher
def test_launchers_compare_layouts_contexts_and_items():
    variable, table = ContextVar("variable", default=False), {"a": nn, "b": torch}
    rows = Rows(1)
    rows.layout(1, (2, 1), (ANY, ANY), np.dtype(np.float32))
    rows.array(1, (2, 1), (8, 4), np.dtype(np.float32), loose=True)
    rows.context(variable, False)
    rows.item(table, "a", nn)
    assert len(rows.rows) == 1 and len(rows.first) == 2  # the array is looked at once
    look, array = launch.launcher(rows, table), np.zeros((2, 3), np.float32)
    assert look(array[:, ::2][:, :1]) is True and look(np.zeros((2, 2), np.float32)[:, :1]) is None
    assert look(np.zeros((4, 4), np.float32)[::2, 1:2]) is True and look(np.zeros((2, 2), np.int32)[:, :1]) is True
    assert look(np.zeros((1, 1), np.float32)) is True and look(np.zeros(2, np.float32)) is True
    one = np.zeros((2, 2), np.float32)[:, :1]
    token = variable.set(True)
    assert look(one) is True
    variable.reset(token)
    assert look(one) is None
    for change in ({"a": torch}, {"b": nn}):
        table.clear()
        table.update(change)
        assert look(one) is True
    table["a"] = nn
    assert look(one) is None
    assert look(np.zeros((2, 2), np.float32)[:, :1].view(np.matrix)) is True


@needs_launcher
def test_modes_are_looked_at_by_the_launcher():
    net, x = nn.Linear(3, 2), torch.randn(4, 3)
    made = torch.compile(net)
    for turn in range(40):
        with torch.no_grad():
            expected = made(x)
        assert not expected.requires_grad
        assert made(x).requires_grad
        if turn % 8 == 7:
            with torch.inference_mode():
                assert made(x).is_inference()
            with torch.autocast("cpu", torch.bfloat16):
                assert made(x).dtype == torch.bfloat16
    assert not compiled_of(made).hot.restless
