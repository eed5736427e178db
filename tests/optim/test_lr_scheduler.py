"""Schedules: their rates, against values worked out by hand and against PyTorch where it is installed; state, warnings, errors."""
import gc
import math
import warnings
import weakref

import pytest

import rushlight as torch

s = torch.optim.lr_scheduler


class Power:
    def __init__(self):
        self.base = 0.9

    def __call__(self, epoch):
        return self.base ** epoch


MAKE = {
    "lambda": lambda s, o: s.LambdaLR(o, lambda e: 1 / (1 + e)),
    "lambda object": lambda s, o: s.LambdaLR(o, Power()),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.9),
    "step": lambda s, o: s.StepLR(o, 3, 0.5),
    "multi step": lambda s, o: s.MultiStepLR(o, [2, 5, 5]),
    "constant": lambda s, o: s.ConstantLR(o, 0.5, 4),
    "linear": lambda s, o: s.LinearLR(o, 0.25, 0.8, 6),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.9),
    "polynomial": lambda s, o: s.PolynomialLR(o, 6, 2.0),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 4, 0.01),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.001),
    "equal restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 4),
    "cyclic halving": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 4, 3, mode="triangular2"),
    "cyclic decaying": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 4, 3, mode="exp_range", gamma=0.9),
    "cyclic custom": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 4, 3, scale_fn=lambda x: 0.5 ** x, scale_mode="iterations"),
    "one cycle": lambda s, o: s.OneCycleLR(o, 1.0, total_steps=12),
    "one cycle in three": lambda s, o: s.OneCycleLR(o, 1.0, epochs=3, steps_per_epoch=5, three_phase=True, anneal_strategy="linear"),
    "sequential": lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=3), s.ExponentialLR(o, 0.5),
                                                  s.CosineAnnealingLR(o, 5)], [3, 6]),
    "chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)]),
}
JUMPING = [name for name in MAKE if not name.startswith(("cyclic", "one", "sequential", "chained"))]


def optimizer_of(torch, name="SGD", groups=1, lr=0.1):
    options = dict(momentum=0.9) if name == "SGD" else {}
    return getattr(torch.optim, name)([{"params": [torch.zeros(1, requires_grad=True)]} for _ in range(groups)], lr=lr, **options)


def plain(value):
    """What can be compared of a state dict's entry."""
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return value if isinstance(value, (int, float, str, type(None))) else "object"


def walk(torch, make, name="SGD", groups=1, epochs=(None,) * 14):
    """Rates and momenta of each group at each step, the state dict, and the error that ended it, if one did."""
    optimizer = optimizer_of(torch, name, groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        schedule = make(torch.optim.lr_scheduler, optimizer)
        trace = []
        for epoch in epochs:
            trace.append([[g["lr"], g.get("momentum"), g.get("betas")] for g in optimizer.param_groups] + [schedule.get_last_lr()])
            optimizer.step()
            try:
                schedule.step(*([] if epoch is None else [epoch]))
            except ValueError as error:
                trace.append(str(error))
                break
    return trace, plain(schedule.state_dict())


def equal(a, b):
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(equal, a, b))
    return a == pytest.approx(b, rel=1e-12) if isinstance(a, float) else a == b


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("groups", [1, 2])
def test_like_pytorch(name, optimizer, groups):
    oracle = pytest.importorskip("torch")
    assert equal(walk(torch, MAKE[name], optimizer, groups), walk(oracle, MAKE[name], optimizer, groups))


@pytest.mark.parametrize("name", JUMPING)
def test_jumps_like_pytorch(name):
    oracle = pytest.importorskip("torch")
    epochs = [3, 1, 7, 2, 0] * 3
    assert equal(walk(torch, MAKE[name], epochs=epochs), walk(oracle, MAKE[name], epochs=epochs))


def rates(make, steps=5, lr=1.0):
    optimizer = optimizer_of(torch, lr=lr)
    schedule = make(s, optimizer)
    found = [optimizer.param_groups[0]["lr"]]
    for _ in range(steps):
        optimizer.step()
        schedule.step()
        found.append(optimizer.param_groups[0]["lr"])
    return found


@pytest.mark.parametrize(("make", "expected"), [
    (lambda s, o: s.StepLR(o, 2, 0.5), [1, 1, 0.5, 0.5, 0.25, 0.25]),
    (lambda s, o: s.MultiStepLR(o, [1, 3, 3], 0.1), [1, 0.1, 0.1, 0.001, 0.001, 0.001]),
    (lambda s, o: s.ConstantLR(o, 0.5, 2), [0.5, 0.5, 1, 1, 1, 1]),
    (lambda s, o: s.LinearLR(o, 0.5, total_iters=2), [0.5, 0.75, 1, 1, 1, 1]),
    (lambda s, o: s.ExponentialLR(o, 0.5), [1, 0.5, 0.25, 0.125, 1 / 16, 1 / 32]),
    (lambda s, o: s.PolynomialLR(o, 4, 2.0), [1, 9 / 16, 0.25, 1 / 16, 0, 0]),
    (lambda s, o: s.CosineAnnealingLR(o, 2), [1, 0.5, 0, 0.5, 1, 0.5]),
    (lambda s, o: s.CosineAnnealingWarmRestarts(o, 2), [1, 0.5, 1, 0.5, 1, 0.5]),
    (lambda s, o: s.CyclicLR(o, 0.0, 1.0, 2), [0, 0.5, 1, 0.5, 0, 0.5]),
])
def test_rates_worked_out_by_hand(make, expected):
    assert rates(make) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", [name for name in MAKE if name != "lambda object"])
def test_a_resumed_schedule_continues(name):
    def both():
        optimizer = optimizer_of(torch)
        return optimizer, MAKE[name](s, optimizer)

    whole, first = both(), both()
    for optimizer, schedule in (whole, first):
        for _ in range(4):
            optimizer.step()
            schedule.step()
    second = both()
    second[0].load_state_dict(first[0].state_dict())
    second[1].load_state_dict(first[1].state_dict())
    for _ in range(5):
        for optimizer, schedule in (whole, second):
            optimizer.step()
            schedule.step()
        assert second[0].param_groups[0]["lr"] == pytest.approx(whole[0].param_groups[0]["lr"], rel=1e-12)
        assert second[1].get_last_lr() == pytest.approx(whole[1].get_last_lr())


def test_callable_objects_are_saved_by_their_attributes():
    schedule = s.LambdaLR(optimizer_of(torch), [Power()])
    state = schedule.state_dict()
    assert state["lr_lambdas"] == [{"base": 0.9}] and s.LambdaLR(optimizer_of(torch), lambda e: 1).state_dict()["lr_lambdas"] == [None]
    other = s.LambdaLR(optimizer_of(torch), [Power()])
    state["lr_lambdas"][0]["base"] = 0.5
    other.load_state_dict(state)
    assert other.lr_lambdas[0].base == 0.5 and "lr_lambdas" in state


def test_a_tensor_rate_keeps_its_identity():
    rate = torch.tensor(0.5)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=rate)
    schedule = s.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    schedule.step()
    assert optimizer.param_groups[0]["lr"] is rate and rate.item() == 0.25
    schedule.get_last_lr()[0].zero_()
    assert rate.item() == 0.25 and schedule.base_lrs[0].item() == 0.5


@pytest.mark.parametrize(("options", "metrics", "expected"), [
    ({}, [5, 4, 4, 4.2, 3.9], [1, 1, 1, 0.5, 0.5]),
    ({"mode": "max"}, [5, 6, 6, 5, 7], [1, 1, 1, 0.5, 0.5]),
    ({"threshold_mode": "abs", "threshold": 0.5}, [5, 4.8, 4.6, 4.0, 3.9], [1, 1, 0.5, 0.5, 0.5]),
    ({"cooldown": 1, "min_lr": 0.4}, [1] * 6, [1, 1, 0.5, 0.5, 0.5, 0.4]),
    ({}, [math.nan] * 3, [1, 0.5, 0.5]),
])
def test_reduce_on_plateau(options, metrics, expected):
    optimizer = optimizer_of(torch, lr=1.0)
    schedule = s.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, **options)
    found = []
    for metric in metrics:
        schedule.step(torch.tensor(float(metric)))
        found.append(schedule.get_last_lr()[0])
    assert found == expected
    again = s.ReduceLROnPlateau(optimizer_of(torch))
    again.load_state_dict(schedule.state_dict())
    assert again.best == schedule.best and again.mode == schedule.mode or math.isnan(schedule.best)


def test_plateau_notices_new_groups():
    optimizer = optimizer_of(torch, lr=1.0)
    listed, single = (s.ReduceLROnPlateau(optimizer, patience=0, factor=0.5, min_lr=least) for least in ([0.1], 0.1))
    optimizer.add_param_group({"params": [torch.zeros(1, requires_grad=True)]})
    for schedule in (listed, single):
        schedule.step(1.0)
    with pytest.raises(RuntimeError, match=r"The number of param groups in the `optimizer` \(2\) differs"):
        listed.step(1.0)
    single.step(1.0)
    assert single.get_last_lr() == [0.5, 0.5]


def test_warnings():
    optimizer = optimizer_of(torch)
    schedule = s.ExponentialLR(optimizer, 0.5)
    with pytest.warns(UserWarning, match="Detected call of `lr_scheduler.step\\(\\)` before `optimizer.step\\(\\)`"):
        schedule.step()
    with pytest.warns(UserWarning, match="please use `get_last_lr\\(\\)`"):
        schedule.get_lr()
    with pytest.warns(UserWarning, match="The epoch parameter in `scheduler.step\\(\\)` was not necessary"):
        schedule.step(4)
    other = optimizer_of(torch)
    schedule = s.ExponentialLR(other, 0.5)
    other.step = lambda: None
    with pytest.warns(UserWarning, match="`optimizer.step\\(\\)` has been overridden"):
        schedule.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fine = optimizer_of(torch)
        schedule = s.ExponentialLR(fine, 0.5)
        fine.step()
        schedule.step()
        schedule.step()


O = optimizer_of
@pytest.mark.parametrize(("make", "error", "words"), [
    (lambda: s.StepLR(3, 1), TypeError, "int is not an Optimizer"),
    (lambda: s.StepLR(O(torch), 1, last_epoch=3), KeyError, "param 'initial_lr' is not specified in param_groups"),
    (lambda: s.LambdaLR(O(torch), [lambda e: 1] * 2), ValueError, "Expected 1 lr_lambdas, but got 2"),
    (lambda: s.MultiplicativeLR(O(torch), [3]), TypeError, "lr_lambda should be a function, but got int"),
    (lambda: s.ConstantLR(O(torch), 1.1), ValueError, "Constant multiplicative factor expected to be between 0 and 1."),
    (lambda: s.LinearLR(O(torch), 0.0), ValueError, "Starting multiplicative factor expected"),
    (lambda: s.LinearLR(O(torch), 0.5, 1.1), ValueError, "Ending multiplicative factor expected"),
    (lambda: s.CosineAnnealingWarmRestarts(O(torch), 0), ValueError, "Expected positive integer T_0, but got 0"),
    (lambda: s.CosineAnnealingWarmRestarts(O(torch), 1.5), ValueError, "Expected positive integer T_0, but got 1.5"),
    (lambda: s.CosineAnnealingWarmRestarts(O(torch), 1, 0), ValueError, "Expected integer T_mult >= 1, but got 0"),
    (lambda: s.CosineAnnealingWarmRestarts(O(torch), 1).step(-1), ValueError, "Expected non-negative epoch, but got -1"),
    (lambda: s.CyclicLR(O(torch), 0.1, 0.2, mode="square"), ValueError, "mode is invalid and scale_fn is None"),
    (lambda: s.CyclicLR(O(torch), 0.1, [0.1, 0.2]), ValueError, "max_lr must have the same length as optimizer.param_groups"),
    (lambda: s.CyclicLR(O(torch, "Adagrad"), 0.1, 0.2), ValueError, "optimizer must support momentum or beta1"),
    (lambda: s.OneCycleLR(O(torch), 1.0), ValueError, "You must define either total_steps OR"),
    (lambda: s.OneCycleLR(O(torch), 1.0, total_steps=-1), ValueError, "Expected positive integer total_steps, but got -1"),
    (lambda: s.OneCycleLR(O(torch), 1.0, total_steps=5, pct_start=1.5), ValueError, "Expected float between 0 and 1 pct_start"),
    (lambda: s.OneCycleLR(O(torch), 1.0, total_steps=5, anneal_strategy="no"), ValueError, "anneal_strategy must be one of"),
    (lambda: s.ReduceLROnPlateau(O(torch), factor=1.0), ValueError, "Factor should be < 1.0."),
    (lambda: s.ReduceLROnPlateau(O(torch), mode="up"), ValueError, "mode up is unknown!"),
    (lambda: s.ReduceLROnPlateau(O(torch), threshold_mode="up"), ValueError, "threshold mode up is unknown!"),
    (lambda: s.SequentialLR(O(torch), [], []), ValueError, "expects at least one scheduler"),
    (lambda: s.ChainedScheduler([]), ValueError, "expects at least one scheduler to be chained"),
    (lambda: s.ChainedScheduler([s.ReduceLROnPlateau(O(torch))]), ValueError, "does not support `ReduceLROnPlateau`"),
    (lambda: s.ChainedScheduler([s.StepLR(O(torch), 1), s.StepLR(O(torch), 1)]), ValueError, "belong to the same optimizer"),
    (lambda: (lambda o: s.SequentialLR(o, [s.StepLR(o, 1)] * 2, [1, 2]))(O(torch)), ValueError, "Sequential Schedulers expects number"),
])
def test_errors(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_too_many_steps_of_one_cycle():
    with pytest.raises(ValueError, match="Tried to step 4 times. The specified number of total steps is 3"):
        rates(lambda s, o: s.OneCycleLR(o, 1.0, total_steps=3))


def test_a_schedule_does_not_keep_its_optimizer_in_a_cycle():
    optimizer = optimizer_of(torch)
    schedule, watched = s.StepLR(optimizer, 1), weakref.ref(optimizer)
    gc.disable()
    try:
        del optimizer, schedule
        assert watched() is None
    finally:
        gc.enable()


def test_the_old_base_class_can_be_subclassed():
    class Halve(s._LRScheduler):
        def get_lr(self):
            return [base / 2 ** self.last_epoch for base in self.base_lrs]

    assert rates(lambda s, o: Halve(o), 2) == [1.0, 0.5, 0.25]
    with pytest.raises(NotImplementedError):
        s.LRScheduler(optimizer_of(torch))
