"""vmap: batches in and out, nesting, errors, randomness."""
import pytest

import rushlight as torch
from rushlight.func import grad, vmap

M = torch.arange(6.0).reshape(2, 3)


def test_in_and_out_dims():
    assert vmap(torch.dot)(M, M + 1).tolist() == [8, 62]
    assert vmap(lambda c: c.sum(), in_dims=1)(M).tolist() == [3, 5, 7]
    assert vmap(lambda r: r * 2, out_dims=1)(M).tolist() == (M * 2).t().tolist()
    assert vmap(lambda r, w: r * w, in_dims=(0, None))(M, torch.ones(3)).tolist() == M.tolist()
    assert vmap(lambda d: d["a"] + 1, in_dims=({"a": 0},))({"a": M}).tolist() == (M + 1).tolist()


def test_nests_with_itself_and_with_grad():
    assert vmap(vmap(lambda t: t + 1))(M).tolist() == (M + 1).tolist()
    assert vmap(grad(lambda t: (t ** 2).sum()))(M).tolist() == (2 * M).tolist()
    assert grad(lambda t: vmap(torch.sum)(t).sum())(M).tolist() == torch.ones(2, 3).tolist()


def test_several_results():
    low, high = vmap(lambda r: (r.min(), r.max()))(M)
    assert low.tolist() == [0, 3] and high.tolist() == [2, 5]


@pytest.mark.parametrize("function, args, error, words", [
    (lambda t: t.item(), (torch.ones(2),), RuntimeError, "item"),
    (lambda t: t if t > 0 else -t, (torch.ones(2),), RuntimeError, "data-dependent control flow"),
    (torch.add, (torch.ones(2), torch.ones(3)), ValueError, "same size"),
    (lambda t: 3, (torch.ones(2),), ValueError, "must only return Tensors"),
])
def test_errors(function, args, error, words):
    with pytest.raises(error, match=words):
        vmap(function)(*args)


def test_randomness():
    def noisy(t):
        return t + torch.rand(())
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(noisy)(torch.zeros(3))
    assert len(set(vmap(noisy, randomness="different")(torch.zeros(3)).tolist())) == 3
    assert len(set(vmap(noisy, randomness="same")(torch.zeros(3)).tolist())) == 1
    torch.rand(1)  # the rule ended with the call


def test_what_all_samples_share_is_not_written():
    shared, x = torch.zeros(2), torch.tensor([1.0, 2.0])

    def item(sample):
        shared[0] = sample
        return sample

    for function in (lambda a: shared.add_(a), lambda a: shared.mul_(a), lambda a: shared.copy_(a), item, lambda a: torch.zeros(1).add_(a)):
        with pytest.raises(RuntimeError, match=r"vmap: inplace arithmetic\(self, \*extra_args\) is not possible"):
            torch.vmap(function)(x)
    assert shared.tolist() == [0.0, 0.0]
    assert torch.vmap(lambda a: a.add_(1))(x.clone()).tolist() == [2.0, 3.0]
    assert torch.vmap(lambda a: torch.zeros_like(a).copy_(a).add_(a))(x).tolist() == [2.0, 4.0]


def test_what_is_made_like_a_sample_is_one():
    def filled(a):
        made = [torch.zeros_like(a), torch.full_like(a, 2.0), a.new_zeros(3), a.new_full((3,), 1.0), torch.ones_like(a)]
        for one in made:
            one[0] = a[1]
        return torch.stack(made)

    assert torch.vmap(filled)(torch.arange(6.0).reshape(2, 3))[:, :, 0].tolist() == [[1.0] * 5, [4.0] * 5]
