"""Autocast and gradient scaling within whole compiled steps: PyTorch's eager values to a few roundings of bfloat16, in one native program."""
import pytest

import rushlight

from .comparing import close, in_one_program, plain
from .training_programs import labels, normal, perceptron

torch = pytest.importorskip("torch")


def multilayer(T):
    return perceptron(T, 16, 64, 64, 8), lambda at: (normal(T, at, 32, 16), labels(T, at, 8, 32))


def convolutional(T):
    net = T.nn.Sequential(T.nn.Conv2d(3, 8, 3, padding=1), T.nn.BatchNorm2d(8), T.nn.ReLU(), T.nn.MaxPool2d(2), T.nn.Conv2d(8, 16, 3, padding=1),
                          T.nn.GroupNorm(4, 16), T.nn.GELU(), T.nn.AdaptiveAvgPool2d(1), T.nn.Flatten(), T.nn.Linear(16, 8))
    return net, lambda at: (normal(T, at, 8, 3, 16, 16), labels(T, at, 8, 8))


def transformer(T):
    class Net(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = T.nn.Embedding(20, 32), T.nn.Linear(32, 8)
            self.layer = T.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)

        def forward(self, x):
            return self.head(self.layer(self.embed(x)).mean(1))
    return Net(), lambda at: (labels(T, at, 20, 8, 10), labels(T, at, 8, 8))


def train(T, make, wrap, half="bfloat16", steps=8):
    """(losses, parameters and buffers after the last step, the step)"""
    T.manual_seed(0)
    net, data = make(T)
    opt = T.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

    def step(x, y):
        opt.zero_grad()
        with T.autocast("cpu", dtype=getattr(T, half)):
            loss = T.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()
    step = wrap(step)
    found = [float(step(*data(at))) for at in range(steps)]
    return found, plain(dict(net.state_dict())), step


@pytest.mark.parametrize("make", [multilayer, convolutional, transformer])
def test_autocast_is_part_of_the_program(make):
    wanted, state, _ = train(torch, make, lambda step: step)
    found, ours, step = train(rushlight, make, rushlight.compile)
    assert found == pytest.approx(wanted, rel=5e-3)
    close(ours, state, tolerance=5e-3)
    assert in_one_program(step)


def test_a_model_under_autocast_from_outside():
    """The mode that holds when a compiled model is called is a guard, and its products are half there."""
    torch.manual_seed(0)
    rushlight.manual_seed(0)
    results = []
    for T, wrap in ((torch, lambda net: net), (rushlight, rushlight.compile)):
        net, data = multilayer(T)
        run, (x, y) = wrap(net), data(0)
        with T.autocast("cpu"):
            out = run(x)
            loss = T.nn.functional.cross_entropy(out, y)
        loss.backward()
        with T.no_grad(), T.autocast("cpu"):
            again = run(x)
        full = run(x)
        assert str(out.dtype) == str(again.dtype) == "torch.bfloat16" and str(full.dtype) == "torch.float32"
        results.append([plain(out.float()), plain(again.float()), plain(full), [plain(p.grad) for p in net.parameters()]])
    close(results[1], results[0], tolerance=5e-3)


def test_casts_of_parameters_have_gradients_in_the_program():
    def make(T):
        T.manual_seed(0)
        net, data = multilayer(T)
        opt = T.optim.SGD(net.parameters(), lr=0.05)

        def step(x, y):
            opt.zero_grad()
            out = x.double() @ net[0].weight.double().t() + net[0].bias.to(T.float64)
            loss = out.square().mean().float() + net[2].weight.bfloat16().float().square().mean()
            loss.backward()
            opt.step()
            return loss.detach()
        return step, data, net
    (ours, data, net), (theirs, others, reference) = make(rushlight), make(torch)
    step = rushlight.compile(ours)
    for at in range(4):
        close(plain(step(*data(at))), plain(theirs(*others(at))))
    close(plain(list(net.parameters())), plain(list(reference.parameters())), tolerance=1e-4)
    assert in_one_program(step)


def scaled(T, wrap, clip=False, parts=1, steps=14, kind="Adam", half=True):
    """Steps with a scaler, some of whose gradients overflow: what is seen after each."""
    T.manual_seed(0)
    net, data = multilayer(T)
    opts = [getattr(T.optim, kind)(p, lr=0.01) for p in ([net.parameters()] if parts == 1 else [net[:2].parameters(), net[2:].parameters()])]
    scaler = T.amp.GradScaler("cpu", init_scale=2.0 ** 8, growth_interval=3, backoff_factor=0.25)

    def step(x, y):
        for opt in opts:
            opt.zero_grad()
        with T.autocast("cpu", dtype=T.bfloat16, enabled=half):
            loss = T.nn.functional.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        for opt in opts:
            if clip:
                scaler.unscale_(opt)
        if clip:
            T.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        for opt in opts:
            scaler.step(opt)
        scaler.update()
        return loss.detach()
    step = wrap(step)
    seen = []
    for at in range(steps):
        x, y = data(at)
        step(x * (float("inf") if at % 5 == 3 else 1), y)
        seen.append([plain(list(net.parameters())), scaler.get_scale(), scaler.state_dict()["_growth_tracker"],
                     [plain(dict(opt.state_dict()["state"])) for opt in opts] if at else []])
    return seen, step


@pytest.mark.parametrize("options", [{}, {"clip": True}, {"parts": 2}, {"half": False}, {"kind": "SGD"}, {"kind": "RMSprop", "clip": True}], ids=str)
def test_scaled_steps_are_part_of_the_program(options):
    wanted, _ = scaled(torch, lambda step: step, **options)
    eager, _ = scaled(rushlight, lambda step: step, **options)
    found, step = scaled(rushlight, rushlight.compile, **options)
    tolerance = 2e-2 if options.get("half", True) else 2e-4
    close(eager, wanted, tolerance=tolerance)
    close(found, wanted, tolerance=tolerance)
    for at in (3, 8, 13):  # the skipped ones: nothing has changed, but the scale
        for one, other in zip(found[at][0], found[at - 1][0]):
            assert (one == other).all()
        assert found[at][1] == found[at - 1][1] / 4
    assert in_one_program(step)


def test_a_skipped_first_step():
    def run(T, wrap):
        T.manual_seed(0)
        w = T.nn.Parameter(T.ones(3))
        opt, scaler = T.optim.SGD([w], lr=0.1, momentum=0.9), T.amp.GradScaler("cpu", init_scale=4.0)

        @wrap
        def step(x):
            opt.zero_grad()
            scaler.scale((w * x).sum()).backward()
            scaler.step(opt)
            scaler.update()
        seen = []
        for value in (float("nan"), 1.0, 2.0, float("inf"), 3.0):
            step(T.full((3,), value))
            seen.append([plain(w), scaler.get_scale()])
        return seen
    close(run(rushlight, rushlight.compile), run(torch, lambda step: step))


def test_a_scaler_asks_for_the_right_order_in_compiled_code_too():
    w = rushlight.nn.Parameter(rushlight.ones(1))
    opt, scaler = rushlight.optim.SGD([w], lr=0.1), rushlight.amp.GradScaler("cpu")

    @rushlight.compile
    def twice():
        scaler.scale(w.sum()).backward()
        scaler.unscale_(opt)
        scaler.unscale_(opt)
    with pytest.raises(RuntimeError, match="already been called"):
        twice()
