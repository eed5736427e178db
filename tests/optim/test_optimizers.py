"""Every optimizer takes the steps that PyTorch takes: against recorded values, and against PyTorch where it is installed."""
import copy
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch

from .problems import CONFIGURATIONS, SHAPES, numbers, outcome, run

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())  # made by `python -m tests.optim.record` with PyTorch
IDS = [f"{name}({', '.join(f'{k}={v}' for k, v in options.items())})" for name, options in CONFIGURATIONS]
EACH = pytest.mark.parametrize(("name", "options"), CONFIGURATIONS, ids=IDS)


def states(optimizer):
    """The state dict's state as plain values."""
    return {number: {key: (str(value.dtype), tuple(value.shape), value.tolist()) for key, value in state.items()}
            for number, state in optimizer.state_dict()["state"].items()}


@pytest.mark.parametrize("position", range(len(CONFIGURATIONS)), ids=IDS)
def test_the_recorded_path(position):
    name, options = CONFIGURATIONS[position]
    np.testing.assert_allclose(outcome(torch, name, options), RECORDED[IDS[position]], rtol=1e-9, atol=1e-12)


@EACH
@pytest.mark.parametrize("without", [(), {(1, 0), (2, 1)}, {(0, 0), (0, 2), (3, 1)}], ids=["all", "gaps", "late"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_like_pytorch(name, options, without, dtype):
    oracle = pytest.importorskip("torch")
    ours, params = run(torch, name, options, dtype, without=without)
    theirs, expected = run(oracle, name, options, dtype, without=without)
    rtol = 1e-9 if dtype == "float64" else 3e-5
    for param, value in zip(params, expected):
        np.testing.assert_allclose(param.tolist(), value.tolist(), rtol=rtol, atol=1e-6)
    got, want = states(ours), states(theirs)
    assert {k: list(v) for k, v in got.items()} == {k: list(v) for k, v in want.items()}
    for number in want:
        for key, (kind, shape, values) in want[number].items():
            assert got[number][key][:2] == (kind, shape)
            np.testing.assert_allclose(got[number][key][2], values, rtol=rtol, atol=1e-6)
    assert ours.state_dict()["param_groups"] == theirs.state_dict()["param_groups"]


@EACH
def test_a_large_parameter_takes_the_same_steps_as_a_small_one(name, options):
    if name == "Adafactor":
        pytest.skip("its steps depend on the whole parameter")
    small = torch.tensor([0.3, -0.4], dtype=torch.float64, requires_grad=True)
    large = torch.tensor([0.3, -0.4], dtype=torch.float64).repeat(20000).requires_grad_()
    mixed = getattr(torch.optim, name)([small, large], **options)
    for step in range(3):
        small.grad = torch.tensor([np.sin(step + 1.0), 0.1 * step], dtype=torch.float64)
        large.grad = small.grad.repeat(20000)
        mixed.step()
    assert len(np.unique(large.detach().numpy().reshape(-1, 2), axis=0)) == 1
    assert large[:2].tolist() == small.tolist()


@EACH
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_types_are_widened_and_rounded_once(name, options, dtype):
    exact = [torch.tensor(numbers(shape, 0.5 + i)).to(getattr(torch, dtype)).float() for i, shape in enumerate(SHAPES)]
    half = [p.to(getattr(torch, dtype)).requires_grad_() for p in exact]
    wide = [p.clone().requires_grad_() for p in exact]
    for params in (half, wide):
        for i, param in enumerate(params):
            param.grad = torch.tensor(numbers(SHAPES[i], 0.7 * i)).to(getattr(torch, dtype)).to(param.dtype)
        getattr(torch.optim, name)(params, **options).step()
    for narrow, param in zip(half, wide):
        if name not in ("Adafactor",):  # whose epsilon depends on the dtype
            assert (narrow == param.to(narrow.dtype)).all()
        assert narrow.isfinite().all()


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adagrad", "Adadelta", "RMSprop", "Rprop", "ASGD", "NAdam", "RAdam", "Adamax"])
def test_complex_parameters_step_as_pairs_of_real_ones(name):
    z = torch.tensor([1 + 2j, -0.5 + 0.1j], requires_grad=True)
    pair = torch.view_as_real(z.detach()).clone().requires_grad_()
    for param, of in ((z, lambda g: g), (pair, torch.view_as_real)):
        optimizer = getattr(torch.optim, name)([param])
        for step in range(3):
            param.grad = of(torch.tensor([complex(1, step), complex(-step, 0.5)]))
            optimizer.step()
    assert torch.allclose(torch.view_as_real(z.detach()), pair)


@EACH
def test_a_resumed_run_continues_as_if_never_stopped(name, options):
    whole = outcome(torch, name, options, steps=6)
    first, params = run(torch, name, options, steps=3)
    saved = copy.deepcopy(first.state_dict())
    again = [param.detach().clone().requires_grad_() for param in params]
    second = getattr(torch.optim, name)(again, **options)
    second.load_state_dict(saved)
    for step in range(3, 6):
        for index, (param, shape) in enumerate(zip(again, SHAPES)):
            param.grad = torch.tensor(numbers(shape, 3.1 * step + 0.7 * index), dtype=torch.float64)
        second.step()
    np.testing.assert_allclose([x for p in again for x in np.ravel(p.tolist())], whole, rtol=1e-12)


@EACH
def test_pickle_and_deepcopy_take_parameters_along(name, options):
    optimizer, params = run(torch, name, options)
    for twin in (pickle.loads(pickle.dumps(optimizer)), copy.deepcopy(optimizer)):
        held = twin.param_groups[0]["params"]
        for ours, theirs in zip(held, params):
            assert ours is not theirs and ours.tolist() == theirs.tolist()
            ours.grad = torch.ones_like(ours)
            theirs.grad = torch.ones_like(theirs)
        assert states(twin) == states(optimizer)
        twin.step()
    optimizer.step()
    for ours, theirs in zip(held, params):
        np.testing.assert_allclose(ours.tolist(), theirs.tolist(), rtol=1e-15)


def test_a_rate_may_be_a_tensor():
    for name in ("SGD", "Adam", "RMSprop", "Adadelta"):
        plain = outcome(torch, name, dict(lr=0.25))
        np.testing.assert_allclose(outcome(torch, name, dict(lr=torch.tensor(0.25))), plain, rtol=1e-12)
        np.testing.assert_allclose(outcome(torch, name, dict(lr=torch.tensor([0.25]))), plain, rtol=1e-12)
    with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
        torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=torch.tensor([0.1, 0.2]))
    with pytest.raises(ValueError, match="lr as a Tensor is not supported for capturable=False and foreach=True"):
        torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=torch.tensor(0.1), foreach=True)


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "RMSprop", "Rprop", "ASGD"])
def test_differentiable_steps_are_part_of_the_graph(name):
    start = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
    grad = torch.tensor([0.5, 0.25], dtype=torch.float64, requires_grad=True)
    moved = start.clone()
    moved.grad = grad
    getattr(torch.optim, name)([moved], lr=0.1, differentiable=True).step()
    moved.sum().backward()
    assert start.grad.tolist() == pytest.approx([1.0, 1.0], abs=1e-3)
    assert grad.grad is not None
    plain = start.detach().clone().requires_grad_()
    plain.grad = grad.detach()
    getattr(torch.optim, name)([plain], lr=0.1).step()
    assert torch.allclose(plain, moved)


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adamax", "NAdam", "Adagrad", "Adadelta", "RMSprop", "Rprop", "ASGD"])
def test_coefficients_may_be_computed_on_tensors(name):
    """So that a trace of a step holds for every step."""
    optimizer, params = run(torch, name, {})
    (group,) = optimizer.param_groups
    kept = optimizer.state[params[0]] if optimizer.state else {}
    names = optimizer._layout(group).numbers
    plain, after = optimizer._coefficients(group, {key: kept[key].item() for key in names}, False)
    traced, later = optimizer._coefficients(group, {key: kept[key].clone() for key in names}, False)
    for one, other in zip((*plain, *after.values()), (*traced, *later.values())):
        assert float(one or 0) == pytest.approx(float(other or 0), rel=1e-4)


def test_capturable_is_refused_on_the_cpu():
    w = torch.zeros(1, requires_grad=True)
    w.grad = torch.ones(1)
    with pytest.raises(AssertionError, match="If capturable=True, params and state_steps must be on supported devices"):
        torch.optim.Adam([w], capturable=True).step()


@pytest.mark.parametrize(("make", "error", "words"), [
    (lambda w: torch.optim.SGD([w], lr=-1), ValueError, "Invalid learning rate: -1"),
    (lambda w: torch.optim.SGD([w], momentum=-1), ValueError, "Invalid momentum value: -1"),
    (lambda w: torch.optim.SGD([w], nesterov=True), ValueError, "Nesterov momentum requires a momentum and zero dampening"),
    (lambda w: torch.optim.Adam([w], betas=(1.0, 0.9)), ValueError, "Invalid beta parameter at index 0: 1.0"),
    (lambda w: torch.optim.Adam([w], betas=(0.9, -1.0)), ValueError, "Invalid beta parameter at index 1: -1.0"),
    (lambda w: torch.optim.Adam([w], eps=-1.0), ValueError, "Invalid epsilon value: -1.0"),
    (lambda w: torch.optim.Adam([w], weight_decay=-1.0), ValueError, "Invalid weight_decay value: -1.0"),
    (lambda w: torch.optim.Adam([w], fused=True, foreach=True), RuntimeError, "`fused` and `foreach` cannot be `True` together"),
    (lambda w: torch.optim.SGD([w], fused=True, differentiable=True), RuntimeError, "`fused` does not support `differentiable`"),
    (lambda w: torch.optim.NAdam([w], momentum_decay=-0.2), ValueError, "Invalid momentum_decay value: -0.2"),
    (lambda w: torch.optim.Adagrad([w], lr_decay=-0.5), ValueError, "Invalid lr_decay value: -0.5"),
    (lambda w: torch.optim.Adadelta([w], rho=1.1), ValueError, "Invalid rho value: 1.1"),
    (lambda w: torch.optim.Rprop([w], etas=(1.0, 0.5)), ValueError, "Invalid eta values: 1.0, 0.5"),
    (lambda w: torch.optim.Adafactor([w], d=0.5), ValueError, "Clipping threshold d should be >= 1 but is: 0.5"),
    (lambda w: torch.optim.Muon([w]), ValueError, "Muon only supports 2D parameters whereas we found a parameter with size"),
    (lambda w: torch.optim.SparseAdam([w], lr=0.0), ValueError, "Invalid learning rate: 0.0"),
    (lambda w: torch.optim.LBFGS([{"params": [w]}, {"params": [torch.ones(1)]}]), ValueError, "LBFGS doesn't support per-parameter"),
])
def test_options_out_of_range(make, error, words):
    with pytest.raises(error, match=words):
        make(torch.zeros(1, requires_grad=True))


def test_sparse_adam_wants_what_does_not_exist():
    w = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SparseAdam([w])
    optimizer.step()
    w.grad = torch.ones(1)
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients, please consider Adam instead"):
        optimizer.step()


def test_muon_moves_along_a_nearly_orthogonal_matrix():
    w = torch.zeros(4, 3, requires_grad=True)
    optimizer = torch.optim.Muon([w], lr=1.0, weight_decay=0.0, momentum=0.0, adjust_lr_fn="match_rms_adamw")
    w.grad = torch.tensor(numbers((4, 3), 1.0))
    optimizer.step()
    step = w.detach().numpy() / (0.2 * 2)
    assert (np.linalg.svd(step)[1] > 0.5).all() and (np.linalg.svd(step)[1] < 1.5).all()


def rosenbrock(torch, **options):
    w = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([w], **options)
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = (1 - w[0]) ** 2 + 100 * (w[1] - w[0] ** 2) ** 2
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(3):
        optimizer.step(closure)
    return losses, w.tolist(), optimizer


@pytest.mark.parametrize("options", [dict(lr=0.002, max_iter=5), dict(line_search_fn="strong_wolfe"),
                                     dict(line_search_fn="strong_wolfe", history_size=3, max_iter=7, max_eval=9)])
def test_lbfgs(options):
    losses, w, optimizer = rosenbrock(torch, **options)
    if options.get("max_iter") is None:
        assert w == pytest.approx([1.0, 1.0], abs=1e-3)
    oracle = pytest.importorskip("torch")
    expected, where, other = rosenbrock(oracle, **options)
    np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(w, where, rtol=1e-7)
    assert list(optimizer.state_dict()["state"][0]) == list(other.state_dict()["state"][0])


def test_lbfgs_knows_one_line_search():
    w = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.LBFGS([w], line_search_fn="other")

    def closure():
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        optimizer.step(closure)
