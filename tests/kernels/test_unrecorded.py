"""Functions that switch recording off inside run as native programs, and their results are what eager mode's are."""

import pytest

import rushlight as torch
from rushlight.kernels import lower
from rushlight.kernels.unrecorded import unrecorded

torch.manual_seed(0)
MODEL = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))


def inside(x):
    with torch.no_grad():
        return MODEL(x)


@torch.no_grad()
def decorated(x):
    return MODEL(x).softmax(-1), MODEL[0].weight.T * 2


@torch.no_grad()
def with_a_view_of_a_parameter(x):  # which says that it requires grad, also where nothing is recorded
    return MODEL(x).softmax(-1), MODEL[0].weight.T


def inference(x):
    with torch.inference_mode():
        return MODEL(x)


def half_inference(x):
    with torch.inference_mode():
        y = MODEL(x)
    return y + 1, y


def read_after(x):
    with torch.no_grad():
        y = MODEL(x)
    return (y * 2).argmax(1), y


def with_an_input_after(x):
    with torch.no_grad():
        y = MODEL(x)
    return y.sum() + x, y


def recorded_after(x):
    with torch.no_grad():
        y = MODEL[0](x)
    return MODEL[2](y)


def recorded_inside(x):
    with torch.no_grad():
        y = MODEL(x)
        with torch.enable_grad():
            return y, MODEL(x)


def unknown_op(x):
    with torch.no_grad():
        return torch.histc(MODEL(x), 4), MODEL(x)


def of_a_new_leaf(x):
    with torch.no_grad():
        y = MODEL(x)
    return torch.ones(3, requires_grad=True) * y.sum(), y


PROGRAMS = [inside, decorated, with_a_view_of_a_parameter, inference, half_inference, read_after, with_an_input_after, recorded_after, recorded_inside, unknown_op, of_a_new_leaf]
QUIET = {inside, decorated, inference, read_after, with_an_input_after, unknown_op}


def flat(results):
    return [results] if isinstance(results, torch.Tensor) else list(results)


def kinds(results):
    return [(r.requires_grad, r.is_inference(), r.grad_fn is None) for r in flat(results)]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_results_are_those_of_eager_mode(function):
    compiled = torch.compile(function)
    for outer in (torch.enable_grad, torch.no_grad, torch.inference_mode, torch.enable_grad):
        for history in (False, False, True):
            x = torch.linspace(-1, 1, 8).view(2, 4).requires_grad_(history)
            with outer():
                want, got = function(x), compiled(x)
                assert torch.is_inference_mode_enabled() is (outer is torch.inference_mode)
                assert torch.is_grad_enabled() is (outer is torch.enable_grad)
            assert kinds(got) == kinds(want)
            for one, other in zip(flat(got), flat(want), strict=True):
                torch.testing.assert_close(one, other)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_which_are_taken_apart(function):
    found = []

    def backend(module, examples):
        found.append(unrecorded(module) is not None)
        return lower(module, examples)

    torch.compile(function, backend=backend)(torch.ones(2, 4))
    assert found == [function in QUIET]


def test_an_input_that_requires_grad_now():
    modules = []

    def backend(module, examples):
        modules.append((module, examples))
        return module.forward

    torch.compile(with_an_input_after, backend=backend)(torch.ones(4))
    run = lower(*modules[0])
    x = torch.ones(4, requires_grad=True)
    order = [x if example.shape == (4,) and not example.requires_grad else example for example in modules[0][1]]
    assert kinds(run(*order)) == kinds(with_an_input_after(x)) == [(True, False, False), (False, False, True)]


def test_an_error_restores_the_modes():
    compiled = torch.compile(inside)
    compiled(torch.ones(2, 4))
    with pytest.raises(RuntimeError):
        compiled(torch.ones(2, 5))
    assert torch.is_grad_enabled()
