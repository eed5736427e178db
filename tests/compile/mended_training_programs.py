"""Training programs that once ran in pieces, by their ops or slower than PyTorch, in the manner of `training_programs`."""

import copy
import math

from .training_programs import labels, normal, perceptron

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


@program
def counting_optimizer(T):
    """Adafactor as users write it: its rates are `math.pow` of a count, and what it counts for is a gradient."""
    T.manual_seed(0)

    class Adafactor(T.optim.Optimizer):
        def __init__(self, params, lr=1e-2):
            super().__init__(params, dict(lr=lr))

        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    grad, state = p.grad.data, self.state[p]
                    factored = grad.dim() >= 2
                    if len(state) == 0:
                        state["step"] = 0
                        if factored:
                            state["row"], state["column"] = T.zeros(grad.shape[:-1]), T.zeros(grad.shape[:-2] + grad.shape[-1:])
                        else:
                            state["square"] = T.zeros_like(grad)
                    state["step"] += 1
                    kept, square = 1 - math.pow(state["step"], -0.8), grad ** 2 + 1e-30
                    if factored:
                        state["row"].mul_(kept).add_(square.mean(-1), alpha=1 - kept)
                        state["column"].mul_(kept).add_(square.mean(-2), alpha=1 - kept)
                        rows = (state["row"] / state["row"].mean(-1, keepdim=True)).rsqrt_().unsqueeze(-1)
                        change = rows * state["column"].unsqueeze(-2).rsqrt() * grad
                    else:
                        state["square"].mul_(kept).add_(square, alpha=1 - kept)
                        change = state["square"].rsqrt().mul_(grad)
                    change.div_((change.norm(2) / change.numel() ** 0.5).clamp_(min=1.0)).mul_(group["lr"])
                    p.data.add_(-change)
    net = perceptron(T, 6, 32, 3)
    opt = Adafactor(net.parameters())

    def step(x, y):
        loss = T.nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 6), labels(T, at, 3, 16))


@program
def scheduled_teacher(T):
    """A teacher whose momentum is a cosine of the count of steps, as in DINO."""
    T.manual_seed(0)
    student = perceptron(T, 10, 32, 16)
    teacher = copy.deepcopy(student)
    center, opt, count = T.zeros(1, 16), T.optim.AdamW(student.parameters(), lr=1e-3), [0]

    def step(x):
        count[0] += 1
        target = T.softmax((teacher(x) - center) / 0.04, -1).detach()
        loss = -(target * T.log_softmax(student(x * 0.9) / 0.1, -1)).sum(-1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        momentum = 1 - 0.1 * (math.cos(math.pi * count[0] / 1000) + 1) / 2
        with T.no_grad():
            for mine, theirs in zip(student.parameters(), teacher.parameters()):
                theirs.data.mul_(momentum).add_((1 - momentum) * mine.detach().data)
            center.mul_(0.9).add_(teacher(x).mean(0, keepdim=True), alpha=0.1)
        return loss.detach()
    return step, lambda at: (normal(T, at, 16, 10),)


@program
def redundancy_reduction(T):
    """Barlow Twins: writes through the diagonal of what is read again, and a view of all but the diagonal."""
    T.manual_seed(0)
    net, norm = perceptron(T, 20, 64, 16), T.nn.BatchNorm1d(16, affine=False)
    opt = T.optim.Adam(net.parameters(), lr=1e-3)

    def step(one, two):
        product = norm(net(one)).T @ norm(net(two))
        product.div_(24)
        on = T.diagonal(product).add_(-1).pow_(2).sum()
        off = product.flatten()[:-1].view(15, 17)[:, 1:].flatten()
        loss = on + 0.005 * off.pow(2).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()
    return step, lambda at: (normal(T, at, 24, 20), normal(T, at + 1, 24, 20))
