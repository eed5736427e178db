"""Whole train steps: losses, parameters, gradients and optimizer state are as in eager mode, in one graph."""
import copy

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.kernels import lower
from rushlight.nn import functional as F

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "dampening": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.5),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
    "adadelta": lambda p: torch.optim.Adadelta(p),
    "adamax": lambda p: torch.optim.Adamax(p),
    "nadam": lambda p: torch.optim.NAdam(p),
    "radam": lambda p: torch.optim.RAdam(p),
    "groups": lambda p: torch.optim.AdamW([{"params": list(p)[:2], "lr": 0.1}, {"params": list(p)[2:]}], lr=0.01),
}


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))


def data(steps=5):
    torch.manual_seed(1)
    return [(torch.randn(8, 6), torch.randint(0, 3, (8,))) for _ in range(steps)]


def compare(make, steps=5, graphs=None):
    """Run `make(model) -> (step, optimizers)` eager and compiled on equal models; everything observable must agree."""
    one, two = net(), net()
    (eager, first), (plain, second) = make(one), make(two)
    compiled = torch.compile(plain)
    for x, y in data(steps):
        a, b = eager(x, y), compiled(x, y)
        assert torch.allclose(torch.as_tensor(a), torch.as_tensor(b), atol=1e-5), (a, b)
        for p, q in zip(one.parameters(), two.parameters()):
            assert torch.allclose(p, q, atol=2e-5), (p - q).abs().max()
            assert (p.grad is None) == (q.grad is None)
            if p.grad is not None:
                assert torch.allclose(p.grad, q.grad, atol=1e-5)
        for o, t in zip(first, second):
            s, u = o.state_dict()["state"], t.state_dict()["state"]
            assert s.keys() == u.keys()
            for key in s:
                assert s[key].keys() == u[key].keys()
                for name in s[key]:
                    assert torch.allclose(torch.as_tensor(s[key][name]), torch.as_tensor(u[key][name]), atol=1e-5), name
    if graphs is not None:
        assert len(compiled._rushlight_compiled.graphs) <= graphs
    return compiled


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    def make(model):
        opt = OPTIMIZERS[name](model.parameters())

        def step(x, y):
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            return loss.detach()
        return step, [opt]
    compare(make)


def test_one_graph():
    def make(model):
        opt = torch.optim.AdamW(model.parameters(), lr=0.01)

        def step(x, y):
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            opt.step()
            return loss.detach()
        return step, [opt]
    compare(make, graphs=1)


def test_clipping_many_gradients_in_place():
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(12)])
    opt = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile
    def step(x):
        opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        opt.step()
        return loss
    step(torch.randn(3, 4))
    assert is_native(step)


def test_clip_value_and_norm_returned():
    def make(model):
        opt = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x, y):
            model.zero_grad()
            F.cross_entropy(model(x), y).backward()
            nn.utils.clip_grad_value_(model.parameters(), 0.01)
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1e9)
            opt.step()
            return norm
        return step, [opt]
    compare(make)


def test_loss_returned_with_history():
    def make(model):
        opt = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x, y):
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            return loss
        return step, [opt]
    compiled = compare(make)
    loss = compiled(*data(1)[0])
    assert loss.requires_grad
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_accumulation():
    def make(model):
        opt = torch.optim.Adam(model.parameters(), lr=0.01)

        def step(x, y):
            opt.zero_grad()
            total = 0.0
            for part, label in zip(x.chunk(2), y.chunk(2)):
                loss = F.cross_entropy(model(part), label) / 2
                loss.backward()
                total = total + loss.detach()
            opt.step()
            return total
        return step, [opt]
    compare(make, graphs=1)


def test_gradients_kept_between_calls():
    def make(model):
        opt = torch.optim.SGD(model.parameters(), lr=0.01)

        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            return loss.detach()
        return step, [opt]
    compare(make)


def test_zero_grad_in_place():
    def make(model):
        opt = torch.optim.SGD(model.parameters(), lr=0.01)

        def step(x, y):
            opt.zero_grad(set_to_none=False)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            return loss.detach()
        return step, [opt]
    compare(make)


def test_scheduler():
    def make(model):
        opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)

        def train(x, y):
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            return loss.detach()
        inner = {}

        def step(x, y):
            run = inner.setdefault("run", torch.compile(train))
            result = run(x, y)
            scheduler.step()
            return result
        step.inner = inner
        return step, [opt]
    one, two = net(), net()
    (eager, _), (step, _) = make(one), make(two)
    torch.compiler.set_stance("force_eager")
    try:
        want = [eager(x, y).item() for x, y in data(14)]
    finally:
        torch.compiler.set_stance("default")
    got = [step(x, y).item() for x, y in data(14)]
    assert want == pytest.approx(got, abs=1e-5)
    assert len(step.inner["run"]._rushlight_compiled.graphs) <= 3


def test_moving_average_of_parameters():
    def make(model):
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        average = [p.detach().clone() for p in model.parameters()]

        def step(x, y):
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            with torch.no_grad():
                for kept, p in zip(average, model.parameters()):
                    kept.mul_(0.9).add_(p, alpha=0.1)
            return torch.cat([kept.reshape(-1) for kept in average])
        return step, [opt]
    compare(make)


def test_scaled_loss():
    def make(model):
        opt = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x, y):
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            (loss * 128).backward()
            for p in model.parameters():
                p.grad.div_(128)
            opt.step()
            return loss.detach()
        return step, [opt]
    compare(make)


def test_batch_norm_statistics():
    def make(model):
        torch.manual_seed(3)
        deep = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
        opt = torch.optim.SGD(deep.parameters(), lr=0.1)

        def step(x, y):
            opt.zero_grad()
            loss = F.cross_entropy(deep(x), y)
            loss.backward()
            opt.step()
            return torch.cat([loss.detach().reshape(1), deep[1].running_mean, deep[1].running_var, deep[1].num_batches_tracked.float().reshape(1)])
        return step, [opt]
    compare(make)


def test_dropout_draws_as_in_eager_mode():
    def make(model):
        opt = torch.optim.Adam(model.parameters(), lr=0.01)
        drop = nn.Dropout(0.3)

        def step(x, y):
            opt.zero_grad()
            hidden = drop(torch.tanh(model[0](drop(x))))
            loss = F.cross_entropy(model[2](hidden), y)
            loss.backward()
            opt.step()
            return loss.detach()
        return step, [opt]
    results = []
    for wrap in (lambda f: f, torch.compile):
        run = wrap(make(net())[0])
        torch.manual_seed(5)
        losses = []
        for x, y in [*zip(torch.ones(4, 8, 6), torch.zeros(4, 8, dtype=torch.int64))]:
            losses.append(run(x, y).item())
        results.append([*losses, torch.rand(1).item()])
    assert results[0] == pytest.approx(results[1], abs=1e-5)
    assert is_native(run)


def test_dropout_in_causal_attention():
    """The mask of a causal attention with dropout is made inside the program."""
    results = []
    for compiled in (False, True):
        torch.manual_seed(0)
        weight = torch.nn.Parameter(torch.randn(8, 24) * 0.3)
        opt = torch.optim.SGD([weight], lr=0.1)

        def step(x):
            opt.zero_grad()
            q, k, v = ((x @ weight).view(2, 6, 3, 2, 4)).permute(2, 0, 3, 1, 4)
            loss = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.3).square().mean()
            loss.backward()
            opt.step()
            return loss.detach()

        run = torch.compile(step) if compiled else step
        x = torch.randn(2, 6, 8)
        results.append([run(x).item() for _ in range(4)])
    assert results[0] == pytest.approx(results[1], abs=1e-5)
    (entry,) = run._rushlight_compiled.start.entries
    assert not entry.run.__globals__["graph"].lowered.native.calls  # none in Python


def is_native(run):
    """Whether the compiled function's graphs run as native steps."""
    entries = run._rushlight_compiled.start.entries
    return all(hasattr(getattr(entry.run.__globals__["graph"], "lowered", None), "native") for entry in entries)


def test_two_optimizers():
    def make(model):
        left, right = torch.optim.SGD(model[0].parameters(), lr=0.1), torch.optim.Adam(model[2].parameters(), lr=0.01)

        def step(x, y):
            left.zero_grad()
            right.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            left.step()
            right.step()
            return loss.detach()
        return step, [left, right]
    compare(make, graphs=1)


def test_equal_gradients_lie_apart():
    """Two biases that are added get gradients of one value, each in memory of its own, in one native program."""
    layer = nn.LSTM(3, 4)
    opt = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step(x):
        opt.zero_grad()
        layer(x)[0].sum().backward()
        opt.step()

    run = torch.compile(step)
    run(torch.ones(2, 1, 3))
    run(torch.ones(2, 1, 3))
    assert is_native(run)
    assert torch.equal(layer.bias_ih_l0.grad, layer.bias_hh_l0.grad)
    a, b = (torch.ones(3, requires_grad=True) for _ in range(2))

    def backward():
        a.grad = b.grad = None
        (a + b).sum().backward()

    for run in (torch.compile(backward), torch.compile(backward, backend="eager")):
        run()
        a.grad.zero_()
        assert b.grad.tolist() == [1, 1, 1]


def test_frozen_parameters():
    def make(model):
        model[0].weight.requires_grad_(False)
        opt = torch.optim.Adam(model.parameters(), lr=0.01)

        def step(x, y):
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            return loss.detach()
        return step, [opt]
    compare(make)


def test_unused_parameter():
    def make(model):
        spare = nn.Parameter(torch.ones(3))
        opt = torch.optim.Adam([*model.parameters(), spare], lr=0.01)

        def step(x, y):
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            return loss.detach() + spare.detach().sum()
        return step, [opt]
    compare(make)


def test_an_index_out_of_range_changes_nothing():
    model = net()
    opt = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(x, y):
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()
    compiled = torch.compile(step)
    (x, y), = data(1)
    compiled(x, y)
    before = copy.deepcopy(model.state_dict())
    bad = y.clone()
    bad[0] = 7
    with pytest.raises(IndexError):
        compiled(x, bad)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    compiled(x, y)


def test_state_that_was_replaced():
    def make(model):
        opt = torch.optim.Adam(model.parameters(), lr=0.01)
        saved = copy.deepcopy(opt.state_dict())
        count = [0]

        def train(x, y):
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            return loss.detach()
        return train, [opt], saved, count
    one, two = net(), net()
    results = []
    for model, wrap in ((one, lambda f: f), (two, torch.compile)):
        train, (opt,), saved, _ = make(model)
        run = wrap(train)
        losses = [run(x, y).item() for x, y in data(3)]
        opt.load_state_dict(saved)
        losses += [run(x, y).item() for x, y in data(3)]
        model[0].weight.data = torch.zeros(16, 6)
        losses += [run(x, y).item() for x, y in data(3)]
        results.append(losses)
    assert results[0] == pytest.approx(results[1], abs=1e-5)


def double_model(model, opt):
    model.double()


def double_slot(model, opt):
    """The last slot of one parameter, in place."""
    slot = list(opt.state[model[2].bias].values())[-1]
    slot.data = slot.data.double()


def shorten_slot(model, opt):
    slot = list(opt.state[model[2].bias].values())[-1]
    slot.data = slot.data[:1]


@pytest.mark.parametrize("change", [double_model, double_slot, shorten_slot])
@pytest.mark.parametrize("name, options", [("Adam", {}), ("SGD", {"momentum": 0.9}), ("SGD", {"momentum": 0.9, "dampening": 0.1}), ("RMSprop", {})])
@pytest.mark.parametrize("whole", [True, False])
def test_state_that_no_longer_fits_its_parameter_raises(name, options, change, whole):
    """As in eager mode, also after the hot path was written; and nothing is updated."""
    for wrap in (lambda f: f, torch.compile):
        for calls in (2, 9):
            model = net()
            opt = getattr(torch.optim, name)(model.parameters(), lr=0.01, **options)
            update = opt.step if whole else wrap(opt.step)

            def train(x, y, model=model, opt=opt, update=update):
                opt.zero_grad()
                F.cross_entropy(model(x), y).backward()
                update()

            run = wrap(train) if whole else train
            for x, y in data(calls):
                run(x, y)
            change(model, opt)
            x, y = data(1)[0]
            before = [p.detach().clone() for p in model.parameters()]
            for _ in range(2):
                with pytest.raises(RuntimeError, match="the state .* was it changed after the optimizer's first step"):
                    run(x.to(model[0].weight.dtype), y)
            assert all(map(torch.equal, before, model.parameters()))


def test_a_step_of_more_arrays_than_ctypes_takes():
    """130 layers: 1305 arrays."""
    def make():
        torch.manual_seed(0)
        model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(130)])
        with torch.no_grad():
            for layer in model:
                layer.weight.copy_(torch.eye(4) + 0.01 * layer.weight)
        opt = torch.optim.Adam(model.parameters())

        def step(x):
            opt.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            opt.step()
            return loss.detach()
        return model, step

    (one, eager), (two, plain) = make(), make()
    compiled = torch.compile(plain, fullgraph=True)
    torch.manual_seed(1)
    for _ in range(6):
        x = torch.randn(8, 4)
        assert torch.allclose(eager(x), compiled(x), rtol=1e-4)
    assert all(torch.allclose(p, q, atol=2e-5) for p, q in zip(one.parameters(), two.parameters()))


@pytest.mark.parametrize("count", [300, 1100])
def test_a_function_of_many_tensors(count):
    def total(*tensors):
        result = tensors[0]
        for tensor in tensors[1:]:
            result = result + tensor
        return result

    compiled = torch.compile(total, fullgraph=True)
    torch.manual_seed(0)
    for _ in range(6):
        tensors = [torch.randn(5) for _ in range(count)]
        assert torch.allclose(total(*tensors), compiled(*tensors), atol=1e-4)
    tensors = [torch.randn(5, requires_grad=True) for _ in range(count)]
    (compiled(*tensors) * torch.arange(5.0)).sum().backward()
    assert all(torch.equal(tensor.grad, torch.arange(5.0)) for tensor in tensors)


def test_versions_rise():
    model = net()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()
    compiled = torch.compile(step)
    (x, y), = data(1)
    compiled(x, y)
    before = [p._version for p in model.parameters()]
    held = (model[2].weight ** 2).sum()
    compiled(x, y)
    assert all(p._version > b for p, b in zip(model.parameters(), before))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        held.backward()


def native_programs(run):
    """The native programs of a compiled function's steps."""
    return [entry.run.__globals__["graph"].lowered.native for entry in run._rushlight_compiled.start.entries]


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam"])
def test_every_parameter_is_written_where_it_lies(name):
    """Also one that is read in the loops of the reduction that gives its gradient, and one of a single element."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = OPTIMIZERS[name](model.parameters())
    twin = copy.deepcopy(model)
    other = OPTIMIZERS[name](twin.parameters())

    def make(model, opt):
        def step(x, y):
            opt.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            opt.step()
            return loss.detach()
        return step

    run, plain = torch.compile(make(model, opt)), make(twin, other)
    for _ in range(4):
        x, y = torch.randn(8, 6), torch.randn(8, 1)
        assert torch.allclose(run(x, y), plain(x, y), atol=1e-6)
    for p, q in zip(model.parameters(), twin.parameters()):
        assert torch.allclose(p, q, atol=1e-5)
        assert torch.allclose(p.grad, q.grad, atol=1e-5)
    native = native_programs(run)[-1]
    assert len(native.outputs) == 1 + len(list(model.parameters()))  # the loss and the gradients: no copy of a parameter


S = torch.optim.lr_scheduler
SCHEDULES = {
    "step": lambda o: S.StepLR(o, 10),
    "multistep": lambda o: S.MultiStepLR(o, [5, 20]),
    "exponential": lambda o: S.ExponentialLR(o, 0.99),
    "constant": lambda o: S.ConstantLR(o),
    "linear": lambda o: S.LinearLR(o),
    "cosine": lambda o: S.CosineAnnealingLR(o, 1000),
    "polynomial": lambda o: S.PolynomialLR(o, 100),
    "restarts": lambda o: S.CosineAnnealingWarmRestarts(o, 15),
    "one cycle": lambda o: S.OneCycleLR(o, 0.1, total_steps=1000),
    "cyclic": lambda o: S.CyclicLR(o, 0.01, 0.1, step_size_up=20),
    "lambda": lambda o: S.LambdaLR(o, lambda epoch: min(1.0, (epoch + 1) / 20)),
    "chained": lambda o: S.ChainedScheduler([S.LinearLR(o), S.ExponentialLR(o, 0.9)]),
    "sequential": lambda o: S.SequentialLR(o, [S.LinearLR(o, total_iters=10), S.CosineAnnealingLR(o, 100)], [10]),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_inside_a_step_compiles_for_its_branches_only(name):
    def make(model):
        opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        schedule = SCHEDULES[name](opt)

        def step(x, y):
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            schedule.step()
            return loss.detach()
        return step, opt, schedule
    (plain, one, first), (wrapped, two, second) = make(net()), make(net())
    run = torch.compile(wrapped)
    x, y = data(1)[0]
    for _ in range(40):
        assert torch.allclose(plain(x, y), run(x, y), atol=1e-5)
        assert one.param_groups[0]["lr"] == pytest.approx(two.param_groups[0]["lr"], rel=1e-12)
        assert first.last_epoch == second.last_epoch if hasattr(first, "last_epoch") else True
    assert len(run._rushlight_compiled.recompiles) <= 4


I, J = torch.tensor([0, 2, 1, -1]), torch.tensor([1, -2, 0, 1])
INDEXED = {
    "one": lambda x: x[I], "in the middle": lambda x: x[:, I], "two": lambda x: x[I, J], "two later": lambda x: x[:, I, J],
    "three": lambda x: x[I, J, J], "int before": lambda x: x[0, I], "int after": lambda x: x[I, 0], "slice before": lambda x: x[1:3, I],
    "none": lambda x: x[None, I], "ellipsis": lambda x: x[..., J], "int apart": lambda x: x[0, :, J], "apart": lambda x: x[I, :, J],
    "broadcast": lambda x: x[torch.tensor([[0], [1]]), I], "of one element": lambda x: x[0, I[1]], "range": lambda x: x[torch.arange(4), J, 0],
}


@pytest.mark.parametrize("name", INDEXED)
def test_gradients_of_elements_at_index_tensors(name):
    def make(w):
        def step():
            w.grad = None
            picked = INDEXED[name](w * 2)
            loss = (picked * picked.detach().cos()).sum() + (picked * torch.arange(picked.numel()).reshape(picked.shape)).sum()
            loss.backward()
            return loss.detach(), picked.detach()
        return step
    torch.manual_seed(0)
    one = torch.randn(4, 3, 3, requires_grad=True)
    two = one.detach().clone().requires_grad_()
    plain, run = make(one), torch.compile(make(two))
    for _ in range(2):
        for a, b in zip(plain(), run()):
            assert torch.allclose(a, b)
        assert torch.allclose(one.grad, two.grad, atol=1e-6)
    assert is_native(run)


def test_an_index_out_of_range_in_a_step_is_the_ops_error():
    def step(x, at):
        x.grad = None
        loss = (x * 2)[at, at].sum()
        loss.backward()
        return loss.detach()
    run, x = torch.compile(step), torch.ones(3, 3, requires_grad=True)
    assert run(x, torch.tensor([0, 1])) == 4
    for bad in (3, -4, 100):
        with pytest.raises(IndexError, match=f"index {bad} is out of bounds for dimension 0 with size 3"):
            run(x, torch.tensor([0, bad]))


def test_what_others_read_until_the_end_is_written_at_the_end():
    """Running statistics of a normalization whose backward ends in a sum at indices; two tensors that change places."""
    def make():
        torch.manual_seed(0)
        model = nn.ModuleList([nn.Embedding(20, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)])
        opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        a, b = torch.zeros(5), torch.arange(5.0)

        def step(index, y):
            opt.zero_grad()
            loss = F.cross_entropy(model[2](model[1](model[0](index))), y)
            loss.backward()
            opt.step()
            with torch.no_grad():
                kept = a.clone()
                a.copy_(b + 1)
                b.copy_(kept * 2)
            return loss.detach()
        return step, model, a, b
    plain, *first = make()
    wrapped, *second = make()
    run = torch.compile(wrapped)
    for at in range(6):
        index, y = torch.arange(16) % (at + 2), torch.arange(16) % 3
        assert torch.allclose(plain(index, y), run(index, y), atol=1e-5)
        for p, q in zip(first[0].state_dict().values(), second[0].state_dict().values()):
            assert torch.allclose(p, q, atol=1e-5)
        assert torch.equal(first[1], second[1]) and torch.equal(first[2], second[2])
    native = native_programs(run)[-1]
    assert len(native.outputs) == 1 + len(list(first[0].parameters()))
    before = {name: value.clone() for name, value in second[0].state_dict().items()}
    with pytest.raises(IndexError):
        run(torch.full((16,), 20), torch.zeros(16, dtype=torch.int64))
    assert all(torch.equal(value, before[name]) for name, value in second[0].state_dict().items())


def into_a_view(x):
    z = torch.zeros(2, 3)
    z[0].add_(x[0])
    return z


def into_a_view_of_a_view(x):
    z = torch.zeros(2, 3)
    z.view(-1)[:3].copy_(x[0])
    return z, z.t()


def without_history(x):
    z, y = torch.zeros(2, 3), torch.ones(2, 3)
    with torch.no_grad():
        z.copy_(x)
    y.mul_(x)
    return z, y, y.detach()


@pytest.mark.parametrize("function", [lambda x: torch.zeros(2, 3).add_(x), lambda x: torch.zeros(2, 3).copy_(x * 2), into_a_view,
                                      into_a_view_of_a_view, without_history])
def test_a_write_gives_a_result_made_without_history_one(function):
    x = torch.randn(2, 3, requires_grad=True)
    several = lambda value: value if isinstance(value, tuple) else (value,)
    for got, want in zip(several(torch.compile(function)(x)), several(function(x)), strict=True):
        assert got.requires_grad is want.requires_grad and torch.equal(got, want)
        if want.requires_grad:
            gradients = [torch.autograd.grad(value.sum(), x, retain_graph=True)[0] for value in (got, want)]
            assert torch.equal(*gradients)


def test_averages_of_vanished_gradients_end_at_zero():
    """An average that decays below the normal numbers is zero in a whole step, where each such number costs a hundred cycles; only there."""
    model = nn.Linear(20, 1)
    opt = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(x):
        opt.zero_grad()
        loss = model(x).sum()
        loss.backward()
        opt.step()
        return loss.detach()
    compiled = torch.compile(step)
    compiled(torch.ones(4, 20))
    average, tiny = opt.state[model.weight]["exp_avg"], torch.tensor(3e-41)
    average.fill_(1e-39)
    before = model.weight.detach().clone()
    compiled(torch.zeros(4, 20))
    assert compiled._rushlight_compiled.start.entries[0].run.__globals__["graph"].lowered.native
    assert not average.any() and torch.equal(model.weight, before)
    assert (tiny * 3).item() > 0 and torch.compile(lambda t: t * 3)(tiny).item() > 0


def carrying(how):
    """A step of a recurrent net whose state goes on to the next one."""
    torch.manual_seed(0)
    layer, head = nn.LSTM(3, 5, num_layers=2), nn.Linear(5, 2)
    optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
    state = {"now": (torch.zeros(2, 4, 5), torch.zeros(2, 4, 5))}

    def step(x, y):
        before = state["now"]
        out, after = layer(x, tuple(value.detach() for value in before) if how == "detached before" else before)
        state["now"] = tuple(value.detach() for value in after) if how == "detached after" else after
        loss = F.mse_loss(head(out), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, state


@pytest.mark.parametrize("how", ["detached before", "detached after"])
def test_state_that_goes_on_to_the_next_step(how):
    (plain, kept), (step, state) = carrying(how), carrying(how)
    made = []

    def backend(module, examples):
        made.append(lower(module, examples))
        return made[-1]

    fast = torch.compile(step, backend=backend)
    torch.manual_seed(1)
    for _ in range(4):
        x, y = torch.randn(6, 4, 3), torch.randn(6, 4, 2)
        torch.testing.assert_close(fast(x, y), plain(x, y))
        for one, other in zip(state["now"], kept["now"], strict=True):
            torch.testing.assert_close(one, other)
            assert one.requires_grad == other.requires_grad == (how == "detached before")
    assert all(hasattr(run, "native") for run in made)
    if how == "detached before":
        with pytest.raises(RuntimeError, match="a second time"):
            state["now"][0].sum().backward()


def test_state_without_detach_is_the_error_of_eager_mode():
    step, _ = carrying("never")
    fast = torch.compile(step)
    fast(torch.ones(6, 4, 3), torch.ones(6, 4, 2))
    with pytest.raises(RuntimeError, match="a second time"):
        fast(torch.ones(6, 4, 3), torch.ones(6, 4, 2))


def test_a_result_whose_backward_is_still_whole_keeps_its_history():
    weight = torch.ones(3, requires_grad=True)

    def step(x):
        y = weight + x
        y.sum().backward()
        return (y * 2).sum()

    fast = torch.compile(step)
    fast(torch.ones(3)).backward()
    assert weight.grad.tolist() == [3, 3, 3]


def test_running_statistics_that_move_several_times_in_a_step():
    def make():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.BatchNorm1d(6, momentum=0.3), nn.Linear(6, 1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def step(real, fake):
            optimizer.zero_grad()
            first = net(real).mean()
            first.backward()
            second = (net(fake) ** 2).mean()
            second.backward()
            optimizer.step()
            return (first + second).detach(), net(real).detach()

        return net, step

    (plain_net, plain), (fast_net, step) = make(), make()
    made = []

    def backend(module, examples):
        made.append(lower(module, examples))
        return made[-1]

    fast = torch.compile(step, backend=backend)
    torch.manual_seed(1)
    for _ in range(3):
        real, fake = torch.randn(8, 4), torch.randn(8, 4)
        for one, other in zip(fast(real, fake), plain(real, fake), strict=True):
            torch.testing.assert_close(one, other)
    for name, value in plain_net.state_dict().items():
        torch.testing.assert_close(fast_net.state_dict()[name], value)
    assert all(hasattr(run, "native") for run in made[-1:])


@pytest.mark.parametrize("padding,stride,rows,bias", [(0, 1, 3, True), ((2, 0), (2, 1), 3, False), (0, 1, 1, True), (0, (1, 3), 4, True), (0, 1, 9, True)])
def test_kernels_as_wide_as_their_input(padding, stride, rows, bias):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 9, 5)
    layer = nn.Conv2d(3, 4, (rows, 5), stride, padding, bias=bias)

    def step(x):
        x = x.clone().requires_grad_()
        found = layer(x)
        return found.detach(), torch.autograd.grad(torch.tanh(found).sum(), [x, *layer.parameters()])

    (one, grads), (other, wanted) = torch.compile(step)(x), step(x)
    for got, want in zip((one, *grads), (other, *wanted), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
