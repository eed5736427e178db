"""`torch._foreach_*`: one op over a list of tensors."""
import pytest

import rushlight as torch


def lists(result):
    return [tensor.tolist() for tensor in result]


@pytest.mark.parametrize("name, args, expected", [
    ("_foreach_add", (1,), [[2, 3], [4]]),
    ("_foreach_mul", ([2, 3],), [[2, 4], [9]]),
    ("_foreach_mul", (torch.tensor(2.0),), [[2, 4], [6]]),
    ("_foreach_sqrt", (), [[1, 2 ** 0.5], [3 ** 0.5]]),
    ("_foreach_maximum", (2,), [[2, 2], [3]]),
    ("_foreach_norm", (1,), [3, 3]),
])
def test_out_of_place(name, args, expected):
    result = getattr(torch, name)([torch.tensor([1.0, 2.0]), torch.tensor([3.0])], *args)
    assert isinstance(result, tuple)
    assert all(torch.allclose(got, torch.tensor(want, dtype=torch.float32)) for got, want in zip(result, expected))


def test_lists_of_tensors_scales_and_in_place():
    a, b = [torch.ones(2), torch.ones(1)], [torch.full((2,), 2.0), torch.full((1,), 3.0)]
    assert lists(torch._foreach_add(a, b, alpha=2)) == [[5, 5], [7]]
    assert lists(torch._foreach_addcmul(a, b, b, value=2)) == [[9, 9], [19]]
    assert lists(torch._foreach_addcmul(a, b, b, [1, 2])) == [[5, 5], [19]]
    assert lists(torch._foreach_lerp(a, b, 0.5)) == [[1.5, 1.5], [2]]
    torch._foreach_mul_(a, 4)
    assert lists(a) == [[4, 4], [4]]
    torch._foreach_zero_(a)
    assert lists(a) == [[0, 0], [0]]


@pytest.mark.parametrize("args, kind, words", [
    (([], 1), RuntimeError, "at least one tensor"),
    (([torch.ones(1)], [1, 2]), RuntimeError, "same number of elements as scalar list"),
    (([torch.ones(1)], [torch.ones(1)] * 2), RuntimeError, "same number of tensors, got 1 and 2"),
    ((3, 1), TypeError, "invalid combination of arguments"),
    (([torch.ones(1)],), TypeError, "missing 1 required"),
])
def test_bad_arguments(args, kind, words):
    with pytest.raises(kind, match=words):
        torch._foreach_add(*args)


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError):
        torch._foreach_nothing
