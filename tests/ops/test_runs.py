"""Sums over runs of rows, and the ops made of them, against plain loops in float64."""
import numpy as np
import pytest

import rushlight as torch
from rushlight.ops.runs import reduced, runs_of

F = torch.nn.functional
GENERATOR = np.random.default_rng(0)
INDICES = {"spread": GENERATOR.integers(0, 40, 300), "few": GENERATOR.integers(0, 2, 300), "skewed": np.where(np.arange(300) < 280, 7, np.arange(300) % 40),
           "distinct": GENERATOR.permutation(40), "one": np.array([3]), "none": np.zeros(0, np.int64)}


@pytest.mark.parametrize("limit", [40, 100_000])
@pytest.mark.parametrize("which", INDICES)
def test_runs_are_summed(which, limit):
    index = INDICES[which]
    rows, factors = GENERATOR.standard_normal((index.size, 5)).astype(np.float32), GENERATOR.standard_normal(index.size).astype(np.float32)
    order, starts, distinct = runs_of(index, limit)
    assert distinct.tolist() == sorted(set(index.tolist()))
    expected = np.zeros((40, 5), np.float32)
    for at, row in zip(index, rows * factors[:, None]):
        expected[at] += row
    assert np.allclose(reduced(np.add, rows, order, starts, factors[order]), expected[distinct], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("which", INDICES)
def test_index_add_and_its_adjoint(which, dim):
    index = INDICES[which]
    source = GENERATOR.standard_normal((index.size, 5))
    expected = np.ones((40, 5))
    for at, row in zip(index, source):
        expected[at] += row
    put = (lambda array: array) if dim == 0 else np.transpose
    found = torch.ones(40, 5, dtype=torch.float64) if dim == 0 else torch.ones(5, 40, dtype=torch.float64)
    assert np.allclose(found.index_add(dim, torch.tensor(index), torch.tensor(put(source).copy())).numpy(), put(expected))
    found.requires_grad_().index_select(dim, torch.tensor(index)).backward(torch.tensor(put(source).copy()))
    assert np.allclose(found.grad.numpy(), put(expected - 1))


@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("offsets", [range(0, 60, 5), [0, 0, 7, 7, 50, 60], [0], [0, 60]])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode, offsets, padding):
    table, index = GENERATOR.integers(-3, 4, (9, 4)).astype(np.float64), GENERATOR.integers(0, 9, 60)
    offsets = list(offsets)
    g = GENERATOR.standard_normal((len(offsets), 4))
    expected, gradient = np.zeros((len(offsets), 4)), np.zeros((9, 4))
    for bag, (start, end) in enumerate(zip(offsets, [*offsets[1:], 60])):
        rows = [i for i in index[start:end] if i != padding]
        if not rows:
            continue
        values = table[rows]
        expected[bag] = {"sum": values.sum(0), "mean": values.mean(0), "max": values.max(0)}[mode]
        for column in range(4):
            if mode == "max":
                gradient[rows[values[:, column].argmax()], column] += g[bag, column]
        for row in rows if mode != "max" else ():
            gradient[row] += g[bag] / (len(rows) if mode == "mean" else 1)
    weight = torch.tensor(table, requires_grad=True)
    found = F.embedding_bag(torch.tensor(index), weight, torch.tensor(offsets), mode=mode, padding_idx=padding)
    found.backward(torch.tensor(g))
    assert np.allclose(found.detach().numpy(), expected)
    assert np.allclose(weight.grad.numpy(), gradient)


def test_rows_outside_a_bag_do_not_reach_it():
    weight = torch.tensor([[1.0], [float("inf")], [float("nan")]])
    assert F.embedding_bag(torch.tensor([[0, 0], [0, 0]]), weight, mode="sum").tolist() == [[2.0], [2.0]]
    assert F.embedding_bag(torch.tensor([[0, 1]]), weight, mode="sum", padding_idx=1).tolist() == [[1.0]]
