"""Optimizers that are not elementwise, and averages of weights, as parts of one native program: PyTorch's values after each step."""
import pytest

import rushlight

from .comparing import against_torch, in_one_program, observed

torch = pytest.importorskip("torch")


def usual(T, net, opt, after=lambda: None):
    def step(x, y):
        opt.zero_grad()
        loss = T.nn.functional.cross_entropy(net(x).float(), y)
        loss.backward()
        opt.step()
        after()
        return loss.detach()
    return step


@pytest.mark.parametrize("options", [dict(lr=0.05), dict(lr=0.05, weight_decay=0.1, d=2.0), dict(lr=0.05, maximize=True, beta2_decay=-0.5, eps=(1e-6, 1e-2))],
                         ids=str)
def test_adafactor(options):
    """Matrices, vectors and weights of a convolution."""
    def make(T):
        T.manual_seed(0)
        net = T.nn.Sequential(T.nn.Unflatten(1, (1, 6)), T.nn.Conv1d(1, 4, 3), T.nn.Flatten(), T.nn.Tanh(), T.nn.Linear(16, 3))
        opt = T.optim.Adafactor(net.parameters(), **options)
        return usual(T, net, opt), observed(net, opt)
    assert in_one_program(against_torch(make, tolerance=5e-5))


@pytest.mark.parametrize("options", [dict(lr=0.02), dict(lr=0.02, nesterov=False, adjust_lr_fn="match_rms_adamw", ns_steps=3)], ids=str)
def test_muon(options):
    """Wide and tall matrices."""
    def make(T):
        T.manual_seed(0)
        net = T.nn.Sequential(T.nn.Linear(6, 16, bias=False), T.nn.Tanh(), T.nn.Linear(16, 3, bias=False))
        opt = T.optim.Muon(net.parameters(), **options)
        return usual(T, net, opt), observed(net, opt)
    assert in_one_program(against_torch(make, tolerance=4e-3))


def test_adafactor_of_half_parameters():
    def make(T):
        T.manual_seed(0)
        net = T.nn.Linear(6, 3).to(T.bfloat16)
        opt = T.optim.Adafactor(net.parameters(), lr=0.05)

        def step(x, y):
            return usual(T, lambda x: net(x.to(T.bfloat16)), opt)(x, y)
        return step, lambda: [p.float() for p in net.parameters()]
    against_torch(make, steps=4, tolerance=1e-2)


AVERAGES = {
    "equal": lambda tools: {}, "exponential": lambda tools: {"multi_avg_fn": tools.get_ema_multi_avg_fn(0.9)},
    "of one tensor": lambda tools: {"avg_fn": tools.get_ema_avg_fn(0.8)}, "with buffers": lambda tools: {"use_buffers": True},
    "of the user": lambda tools: {"avg_fn": lambda average, value, count: average + (value - average) / (count + 2)},
}


@pytest.mark.parametrize("name", AVERAGES)
def test_averaged_models(name):
    """The first update copies, the others average; buffers too."""
    def make(T):
        T.manual_seed(0)
        from importlib import import_module
        tools = import_module(f"{T.__name__}.optim.swa_utils")
        net = T.nn.Sequential(T.nn.Linear(6, 16), T.nn.BatchNorm1d(16), T.nn.Tanh(), T.nn.Linear(16, 3))
        opt = T.optim.SGD(net.parameters(), lr=0.1)
        average = tools.AveragedModel(net, **AVERAGES[name](tools))
        with T.no_grad():
            for p in average.module.parameters():
                p.fill_(3.0)  # to be forgotten by the first update
        return usual(T, net, opt, lambda: average.update_parameters(net)), lambda: [observed(net, opt)(), dict(average.state_dict())]
    assert in_one_program(against_torch(make))


def test_state_is_made_before_the_first_step_and_one_translation_serves_all():
    for kind, bias in (("Adafactor", True), ("Muon", False), ("Adam", True)):
        net = rushlight.nn.Linear(4, 2, bias=bias)
        opt = getattr(rushlight.optim, kind)(net.parameters(), lr=0.01)

        @rushlight.compile
        def step(x):
            opt.zero_grad()
            net(x).square().mean().backward()
            opt.step()
        for _ in range(3):
            step(rushlight.randn(3, 4))
        assert len(step._rushlight_compiled.start.entries) == 1, kind
