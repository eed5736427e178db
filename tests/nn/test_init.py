"""Initialisation: values of a seeded start as recorded from PyTorch, bounds and refusals."""
import math
import warnings

import pytest

import rushlight as torch

init = torch.nn.init
# name, arguments, shape, first three values PyTorch gives after manual_seed(0)
RECORDED = [
    ("uniform_", (-2.0, 1.0), (2, 3), [-0.51123, 0.304665, -1.734568]),
    ("normal_", (3.0, 0.5), (4, 5), [2.43708, 2.42382, 2.874711]),
    ("trunc_normal_", (), (2, 3), [1.540996, -0.293429, -0.719258]),
    ("trunc_normal_", (0.0, 1.0, 1.0, 1.2), (2, 3), [1.099251, 1.033772, 1.017696]),
    ("constant_", (3.0,), (2, 2), [3.0, 3.0, 3.0]),
    ("ones_", (), (3,), [1.0, 1.0, 1.0]),
    ("eye_", (), (2, 3), [1.0, 0.0, 0.0]),
    ("dirac_", (), (2, 2, 3), [0.0, 1.0, 0.0]),
    ("xavier_uniform_", (2.0,), (4, 3), [-0.013863, 0.993301, -1.523983]),
    ("xavier_normal_", (), (4, 5), [-0.530726, -0.543228, -0.118124]),
    ("kaiming_uniform_", (0.2, "fan_out"), (4, 3), [-0.008991, 0.644248, -0.988445]),
    ("kaiming_normal_", (0.0, "fan_in", "relu"), (4, 5), [-0.712044, -0.728817, -0.15848]),
    ("orthogonal_", (), (4, 5), [-0.628863, -0.643676, -0.139966]),
    ("sparse_", (0.5,), (4, 5), [-0.011258, 0.0, 0.0]),
]


@pytest.mark.parametrize("name, args, shape, want", RECORDED, ids=lambda v: str(v))
def test_seeded_values(name, args, shape, want):
    torch.manual_seed(0)
    tensor = torch.empty(shape)
    assert getattr(init, name)(tensor, *args) is tensor
    got = tensor.flatten().tolist()[:3]
    assert all(math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-6) for a, b in zip(got, want)), got


def test_parameters_stay_leaves_that_require_grad():
    parameter = torch.nn.Parameter(torch.ones(2, 2))
    init.zeros_(parameter)
    assert parameter.requires_grad and parameter.is_leaf and parameter.sum().item() == 0


def test_orthogonal_rows():
    matrix = init.orthogonal_(torch.empty(3, 5))
    assert torch.allclose(matrix @ matrix.t(), torch.eye(3), atol=1e-5)


def test_truncated_values_stay_inside():
    for low, high in ((-1.0, 1.0), (1.0, 1.2)):
        values = init.trunc_normal_(torch.empty(500), a=low, b=high)
        assert values.min().item() >= low and values.max().item() <= high


@pytest.mark.parametrize("action, text", [
    (lambda: init.xavier_uniform_(torch.empty(3)), "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"),
    (lambda: init.calculate_gain("foo"), "Unsupported nonlinearity foo"),
    (lambda: init.kaiming_uniform_(torch.empty(2, 2), mode="x"), "Mode x not supported"),
    (lambda: init.eye_(torch.empty(2)), "Only tensors with 2 dimensions are supported"),
    (lambda: init.dirac_(torch.empty(3, 2, 2), 2), "dim 0 must be divisible by groups"),
])
def test_refusals(action, text):
    with pytest.raises(ValueError, match=text):
        action()


def test_old_names_warn():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        init.constant(torch.empty(1), 2.0)
    assert "`nn.init.constant` is now deprecated in favor of `nn.init.constant_`" in str(caught[0].message)
