"""Clipping by norm and by value, at the edges too."""
import math
import warnings

import pytest

import rushlight as torch

utils = torch.nn.utils


def parameters(*grads):
    made = []
    for grad in grads:
        p = torch.zeros(len(grad), requires_grad=True)
        p.grad = torch.tensor(grad)
        made.append(p)
    return made


def test_the_norm_is_of_all_together():
    group = parameters([3.0], [0.0, 4.0])
    assert utils.clip_grad_norm_(group, 1.0).item() == 5.0
    assert [round(g, 5) for p in group for g in p.grad.tolist()] == [0.6, 0.0, 0.8]
    assert utils.clip_grad_norm_(group, 10.0, norm_type=math.inf).item() == pytest.approx(0.8, abs=1e-4)


def test_small_gradients_stay():
    group = parameters([0.3, 0.4])
    utils.clip_grad_norm_(group, 1.0)
    assert group[0].grad.tolist() == pytest.approx([0.3, 0.4])


def test_infinite_norms():
    group = parameters([math.inf, 1.0])
    with pytest.raises(RuntimeError, match="The total norm of order 2.0 for gradients from `parameters` is non-finite"):
        utils.clip_grad_norm_(group, 1.0, error_if_nonfinite=True)
    assert group[0].grad.tolist() == [math.inf, 1.0]
    utils.clip_grad_norm_(group, 1.0)
    assert math.isnan(group[0].grad[0].item()) and group[0].grad[1].item() == 0.0


def test_nothing_to_clip():
    assert utils.clip_grad_norm_([torch.zeros(1, requires_grad=True)], 1.0).item() == 0.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert utils.clip_grad_norm_((p for p in []), 1.0).item() == 0.0
    assert "empty generator" in str(caught[0].message)


def test_by_value():
    group = parameters([3.0, -0.5, -9.0])
    utils.clip_grad_value_(group[0], 1.0)
    assert group[0].grad.tolist() == [1.0, -0.5, -1.0]
