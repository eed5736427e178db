"""cond, while_loop, scan and map."""
import pytest

import rushlight as torch
from rushlight.func import cond, map, scan, while_loop


def test_cond_takes_one_branch_with_gradients():
    x = torch.tensor([2.0], requires_grad=True)
    cond(x.sum() > 0, lambda a: a * 3, lambda a: a * 5, (x,)).backward()
    assert x.grad.tolist() == [3]
    assert cond(False, torch.sin, torch.cos, (torch.zeros(1),)).tolist() == [1]
    with pytest.raises(RuntimeError, match="pred"):
        cond("yes", torch.sin, torch.cos, (torch.zeros(1),))


def test_while_loop():
    assert [t.item() for t in while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, s * 2), (torch.tensor(0), torch.tensor(1)))] == [4, 16]
    with pytest.raises(RuntimeError, match="same number"):
        while_loop(lambda i: i < 1, lambda i: (i, i), (torch.tensor(0),))


def test_scan_and_map():
    carry, sums = scan(lambda c, x: (c + x, c + x), torch.tensor(0), torch.tensor([1, 2, 3]))
    assert carry.item() == 6 and sums.tolist() == [1, 3, 6]
    assert scan(lambda c, x: (c + x, c + x), torch.tensor(0), torch.tensor([1, 2, 3]), reverse=True)[1].tolist() == [6, 5, 3]
    assert map(lambda x: x * 2, torch.tensor([1, 2])).tolist() == [2, 4]
