"""In-place ops and writes through views as ONNX models, which have no memory; random numbers, which are never constants."""
import numpy as np
import pytest

import rushlight as torch
from rushlight.export import Dim
from tests.export.test_onnx import leaves_agree, session
from tests.export.test_onnx_ops import Calls


def written(write):
    def run(x):
        y = x * 1
        write(y, x)
        return y
    return run


def then_read(y, x):
    before = y[0]
    y.add_(1)
    before.mul_(2)
    y[:, 1] += before.sum()


def rows(y, x):
    first, rest = y.split([1, 2])
    rest.copy_(first)
    first.zero_()


def chunks(y, x):
    for part in y.chunk(2, 1):
        part -= part.mean()


def item(y, x):
    y[:, 0] = 5


def mask(y, x):
    y[y > 0] = 0


def mask_of_rows(y, x):
    y[torch.tensor([True, False, True])] = x[:2]


def indices(y, x):
    y[torch.tensor([2, 0]), torch.tensor([1, 3])] = x[0, :2]


WRITES = {
    "item": item, "add_": lambda y, x: y.add_(1).relu_(), "row": lambda y, x: y[0].mul_(3), "mask": mask, "mask of rows": mask_of_rows,
    "diagonal": lambda y, x: y.diagonal().fill_(7), "steps": lambda y, x: y[:, ::2].neg_(),
    "indices": indices, "transposed": lambda y, x: y.t()[1:3].copy_(x.t()[:2]),
    "view": lambda y, x: y.view(-1)[2:7].exp_(), "index_add_": lambda y, x: y.index_add_(0, torch.tensor([0, 0, 1]), x), "scatter_": lambda y, x: y.scatter_(1, x.argsort(1), x),
    "index_put_": lambda y, x: y.index_put_((torch.tensor([1, 1]),), x[:2], accumulate=True), "masked_fill_": lambda y, x: y.masked_fill_(x > 0, -1), "clamp_": lambda y, x: y.clamp_(0, 1),
    "inplace": lambda y, x: torch.nn.functional.relu(y, inplace=True), "inplace of a view": lambda y, x: torch.nn.functional.relu(y[1], inplace=True), "unsqueezed": lambda y, x: y.unsqueeze(1)[:, 0].sub_(x.mean(0)),
    "then read": then_read, "rows": rows, "chunks": chunks, "triangle": lambda y, x: y.tril_(), "select": lambda y, x: y.select(1, 2).copy_(x[:, 0]), "narrow": lambda y, x: y.narrow(1, 1, 2).mul_(x[:, :2])}


pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("name", WRITES)
def test_writes(name):
    torch.manual_seed(0)
    leaves_agree(Calls(written(WRITES[name])), (torch.randn(3, 4),), None, [(torch.randn(3, 4),)])


@pytest.mark.parametrize("name", ["item", "add_", "row", "mask", "steps", "view", "masked_fill_", "inplace", "inplace of a view", "then read", "chunks", "select", "narrow"])
def test_writes_at_free_sizes(name):
    torch.manual_seed(0)
    leaves_agree(Calls(written(WRITES[name])), (torch.randn(3, 4),), (({0: Dim("batch", min=2)},),), [(torch.randn(3, 4),), (torch.randn(7, 4),)])


def test_writes_in_a_branch_and_a_loop():
    def branch(x):
        def double(t):
            t = t.clone()
            t[0] *= 2
            return t
        return torch.cond(x.sum() > 0, double, lambda t: t.neg(), (x,))

    def loop(x):
        def step(i, t):
            t = t + 1
            t[:, 0] -= 3
            return i + 1, t
        return torch.while_loop(lambda i, t: i < 3, step, (torch.tensor(0), x))[1]
    for function in (branch, loop):
        leaves_agree(Calls(function), (torch.randn(3, 4),), None, [(torch.ones(3, 4),), (-torch.ones(3, 4),)])


def test_sizes_that_values_decide():
    def found(x):
        kept = x[x[:, 0] > 0]
        return kept * 2, torch.nonzero(x > 1), torch.masked_select(x, x < 0).sum(), torch.unique(x.round(), return_inverse=True, return_counts=True)
    leaves_agree(Calls(found), (torch.randn(5, 3),), None, [(torch.randn(5, 3),), (torch.randn(5, 3) + 1,)])


def test_random_numbers_are_drawn_by_the_model():
    program = torch.export.export(Calls(lambda x: (torch.randn_like(x), torch.rand(3, 4), torch.randint(2, 9, (50,)), torch.normal(x * 0 + 5, 0.1), torch.randperm(6))), (torch.zeros(100, 4),))
    run = session(torch.onnx.export(program))
    first, second = (run.run(None, {program.checks.inputs[0].name: np.zeros((100, 4), np.float32)}) for _ in range(2))
    assert all((one != two).any() for one, two in zip(first, second))
    assert abs(first[0].mean()) < 0.3 and 0.7 < first[0].std() < 1.3 and (first[1] >= 0).all() and (first[1] < 1).all()
    assert first[2].min() >= 2 and first[2].max() <= 8 and first[2].dtype == np.int64 and abs(first[3].mean() - 5) < 0.1 and sorted(first[4]) == list(range(6))
    with pytest.raises(NotImplementedError, match="the op poisson"):
        torch.onnx.export(torch.export.export(Calls(torch.poisson), (torch.ones(3),)))
