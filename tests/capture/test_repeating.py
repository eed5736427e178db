"""An optimizer's rule is followed once for parameters that are alike; the graph is the one that following it for each gives."""
import pytest

import rushlight as torch
from rushlight.capture import repeating
from rushlight.capture.trace import Tracer
from rushlight.optim.pointwise import apply_rule

nn = torch.nn
OPTIMIZERS = {
    "adam": lambda params: torch.optim.Adam(params, lr=0.1, weight_decay=0.01, amsgrad=True),
    "adamw": lambda params: torch.optim.AdamW(params, lr=0.1),
    "sgd": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True),
    "rmsprop": lambda params: torch.optim.RMSprop(params, lr=0.01, centered=True, momentum=0.1),
    "asgd": lambda params: torch.optim.ASGD(params, lr=0.1),
    "groups": lambda params: torch.optim.Adam([{"params": params[:2], "lr": 0.01}, {"params": params[2:]}], lr=0.1),
}


def captured(make, kinds=(torch.float32,) * 3):
    """The graph of a step, how often the rule was followed, and the parameters after three steps."""
    torch.manual_seed(0)
    params = [nn.Parameter(torch.randn(3, at + 2).to(kind)) for at, kind in enumerate(kinds)]
    optimizer, graphs, followed = make(params), [], []
    follow = Tracer.follow

    def counting(self, function, args, kwargs):
        if function is apply_rule:
            followed.append(args[2])
        return follow(self, function, args, kwargs)

    def step(x):
        optimizer.zero_grad()
        sum(((param * x).sin() ** 2).sum().float() for param in params).backward()
        optimizer.step()

    def backend(module, examples):
        graphs.append(module.code)
        return module.forward

    Tracer.follow = counting
    try:
        run = torch.compile(step, backend=backend)
        for _ in range(3):
            run(torch.tensor(2.0))
    finally:
        Tracer.follow = follow
    return graphs, len(followed), [param.tolist() for param in params]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_graph_is_that_of_following_each(name, monkeypatch):
    graphs, followed, values = captured(OPTIMIZERS[name])
    assert followed == len(graphs) * (2 if name == "groups" else 1)
    torch.compiler.reset()
    monkeypatch.setattr(repeating, "is_library", lambda kind: False)
    each, each_followed, each_values = captured(OPTIMIZERS[name])
    assert each_followed == 3 * len(each) and each == graphs and each_values == values


def test_another_dtype_is_followed_by_itself():
    graphs, followed, _ = captured(OPTIMIZERS["adamw"], (torch.float32, torch.float64, torch.float32))
    assert followed == 2 * len(graphs)


def test_a_rule_of_the_users_own_is_followed_for_each():
    class Signed(torch.optim.SGD):
        """Its rule asks for the shape, as nothing of the library's does."""

        def _rule(self, k, param, grad, slots, coefficients):
            return super()._rule(k, param, grad * (1 if param.shape[1] == 2 else -1), slots, coefficients)

    graphs, followed, values = captured(lambda params: Signed(params, lr=0.01))
    assert followed == 3 * len(graphs)
    torch.manual_seed(0)
    before = [torch.randn(3, at + 2) for at in range(3)]
    grown = [bool(((torch.tensor(after) * 2).sin() ** 2).sum() > ((start * 2).sin() ** 2).sum()) for start, after in zip(before, values)]
    assert grown == [False, True, True]
