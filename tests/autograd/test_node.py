"""Nodes: names, links, saved values, hooks, and what their errors say."""
import enum
import gc
import weakref

import numpy as np
import pytest

import rushlight as torch
from rushlight import nn


def leaf(*shape):
    return torch.ones(*shape, requires_grad=True)


X = (2, 3)
NAMES = [
    (lambda x: x + x, "AddBackward0"), (lambda x: x - x, "SubBackward0"), (lambda x: 1 - x, "RsubBackward1"), (lambda x: x * x, "MulBackward0"),
    (lambda x: x / x, "DivBackward0"), (lambda x: x ** 2, "PowBackward0"), (lambda x: -x, "NegBackward0"), (lambda x: x.exp(), "ExpBackward0"),
    (lambda x: x @ x.T, "MmBackward0"), (lambda x: x @ torch.ones(3), "MvBackward0"), (lambda x: torch.bmm(x[None], torch.ones(1, 3, 1)), "BmmBackward0"),
    (lambda x: nn.functional.linear(x, torch.ones(4, 3), torch.ones(4)), "AddmmBackward0"), (lambda x: x.sum(), "SumBackward0"), (lambda x: x.sum(1), "SumBackward1"),
    (lambda x: x.mean(), "MeanBackward0"), (lambda x: x.mean(1), "MeanBackward1"), (lambda x: x.max(), "MaxBackward1"), (lambda x: x.max(1).values, "MaxBackward0"),
    (lambda x: x.view(6), "ViewBackward0"), (lambda x: x.reshape(6), "ViewBackward0"), (lambda x: x.t(), "TBackward0"), (lambda x: x.T, "PermuteBackward0"),
    (lambda x: x[:, 1:], "SliceBackward0"), (lambda x: x[0], "SelectBackward0"), (lambda x: x[torch.tensor([0])], "IndexBackward0"), (lambda x: x.unsqueeze(0), "UnsqueezeBackward0"),
    (lambda x: x.expand(4, 2, 3), "ExpandBackward0"), (lambda x: torch.cat([x, x]), "CatBackward0"), (lambda x: torch.stack([x, x]), "StackBackward0"), (lambda x: x.relu(), "ReluBackward0"),
    (lambda x: x.softmax(1), "SoftmaxBackward0"), (lambda x: x.log_softmax(1), "LogSoftmaxBackward0"), (lambda x: nn.functional.cross_entropy(x, torch.tensor([0, 1])), "NllLossBackward0"),
    (lambda x: nn.functional.layer_norm(x, (3,)), "NativeLayerNormBackward0"), (lambda x: nn.functional.conv1d(x[None], torch.ones(1, 2, 2)), "ConvolutionBackward0"), (lambda x: x.double(), "ToCopyBackward0"),
    (lambda x: x.clone(), "CloneBackward0"), (lambda x: torch.zeros(2, 3).copy_(x), "CopyBackwards"), (lambda x: (x * 1).zero_(), "ZeroBackward0"),
]


@pytest.mark.parametrize("call, name", NAMES, ids=[f"{i}-{name}" for i, (_, name) in enumerate(NAMES)])
def test_the_name_is_pytorch_s(call, name):
    assert call(leaf(*X)).grad_fn.name().removeprefix("torch::autograd::") == name


def test_an_item_written_makes_copy_slices():
    y = leaf(3) * 1
    y[0] = 5
    assert y.grad_fn.name().endswith("CopySlices")


def test_links_end_in_accumulate_grad():
    x, w = leaf(2), torch.ones(2)
    node = (x * w).grad_fn
    (first, number), second = node.next_functions
    assert first.name() == "torch::autograd::AccumulateGrad" or type(first).__name__ == "AccumulateGrad"
    assert first.variable is x and number == 0 and second == (None, 0)


def test_the_same_leaf_has_one_accumulator():
    x = leaf(2)
    node = (x * x).grad_fn
    assert node.next_functions[0][0] is node.next_functions[1][0]


def test_output_numbers():
    x = leaf(2, 3)
    parts = x.unbind(1)
    y = parts[2] * 2
    assert parts[2].output_nr == 2 and y.grad_fn.next_functions[0] == (x.unbind(1)[0].grad_fn, 2) or y.grad_fn.next_functions[0][1] == 2


def test_saved_values():
    x, y = leaf(2), torch.full((2,), 3.0)
    node = (x * y).grad_fn
    assert node._saved_other is y or node._saved_other.tolist() == [3, 3]
    result = x.exp()
    assert result.grad_fn._saved_result.tolist() == result.tolist()


def test_saved_values_are_gone_after_backward():
    x = leaf(2)
    y = x.exp()
    node = y.grad_fn
    y.sum().backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        node._saved_result  # noqa: B018


def test_a_saved_output_makes_no_cycle():
    gc.disable()
    try:
        y = leaf(2).exp()
        seen = weakref.ref(y)
        del y
        assert seen() is None
    finally:
        gc.enable()


def test_hooks_in_their_order():
    log = []
    x = leaf(1)
    y = x * 2
    y.register_hook(lambda g: log.append("tensor"))
    y.grad_fn.register_prehook(lambda gs: log.append("pre"))
    y.grad_fn.register_hook(lambda gin, gout: log.append("post"))
    x.register_hook(lambda g: log.append("leaf"))
    x.register_post_accumulate_grad_hook(lambda p: log.append(f"accumulated {p.grad.item():.0f}"))
    y.backward()
    assert log == ["tensor", "pre", "post", "leaf", "accumulated 2"]


def test_a_hook_changes_the_gradient_until_it_is_removed():
    x = leaf(1)
    handle = x.register_hook(lambda g: g * 10)
    (x * 2).backward()
    handle.remove()
    (x * 2).backward()
    assert x.grad.tolist() == [22]


def test_each_hook_sees_what_its_predecessor_returned():
    x = leaf(1)
    x.register_hook(lambda g: g + 1)
    x.register_hook(lambda g: g * 10)
    (x * 2).backward()
    assert x.grad.tolist() == [30]


def test_retain_grad_keeps_the_value_after_hooks():
    x = leaf(1)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 7)
    (y * 3).backward()
    assert y.grad.tolist() == [21] and x.grad.tolist() == [42]


def test_the_in_place_error_names_op_shape_versions_and_the_writer_s_line():
    x = leaf(3)
    y = x.exp()
    y.mul_(2)
    with pytest.raises(RuntimeError) as caught:
        y.sum().backward()
    said = str(caught.value)
    for part in ("[torch.FloatTensor [3]]", "output 0 of Exp", "is at version 1; expected version 0"):
        assert part in said
    assert "test_node.py" in said, "the line that wrote is named"


def test_an_inplace_write_before_saving_is_fine():
    x = leaf(3)
    y = (x * 1).mul_(2)
    y.exp().sum().backward()
    assert x.grad is not None


def test_a_write_under_no_grad_counts_too():
    x = leaf(3)
    w = torch.ones(3)
    y = x * w
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_write_through_data_does_not_count():
    x = leaf(3)
    w = torch.ones(3)
    y = x * w
    w.data.add_(1)
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_dir_lists_saved_values_under_pytorchs_names():
    x = torch.ones(3, requires_grad=True)
    saved = lambda tensor: [name for name in dir(tensor.grad_fn) if name.startswith("_saved")]
    assert saved(x * x) == ["_saved_other", "_saved_self"]
    assert saved(x.exp()) == ["_saved_result"]
    assert "_saved_self_sym_sizes" in saved(x.sum(0)) and x.sum(0).grad_fn._saved_self_sym_sizes == (3,)


class Scale(enum.IntEnum):
    THREE = 3


class Ratio(float):
    pass


@pytest.mark.parametrize("number", [Scale.THREE, Ratio(3.0), np.float64(3), np.float32(3), np.int64(3)], ids=lambda n: type(n).__name__)
def test_numbers_of_other_classes_are_saved_as_numbers(number):
    for function, slope in ((lambda x: x * number, 3), (lambda x: x / number, 1 / 3), (lambda x: (x * 1).mul_(number), 3)):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        function(x).sum().backward()
        assert torch.allclose(x.grad, torch.full((2,), float(slope)))


def zero_unrecorded(y):
    with torch.no_grad():
        y.zero_()


WRITES = dict(add=(lambda y: y.add_(1), 1), view=(lambda y: y.view(-1).mul_(3), 3), zero=(zero_unrecorded, 1),
              item=(lambda y: y.__setitem__(0, 2 * y[0]), 2), twice=(lambda y: y.add_(1).mul_(2), 2))


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("counter", [False, True], ids=["fresh", "version read before"])
def test_a_maximum_may_be_written_because_pytorchs_rule_keeps_its_places(write, counter):
    x = torch.arange(16.0).reshape(1, 1, 4, 4).requires_grad_()
    for pooled, winners in ((torch.nn.functional.max_pool2d(x * 1, 2), [5, 7, 13, 15]),
                            (torch.nn.functional.max_pool1d(x[0] * 1, 2), [1, 3, 5, 7, 9, 11, 13, 15])):
        assert not counter or pooled._version == 0
        change, factor = WRITES[write]
        change(pooled)
        gradient, = torch.autograd.grad(pooled.sum(), x)
        assert gradient.flatten().tolist() == [float(factor * (at in winners)) for at in range(16)]
