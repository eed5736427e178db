"""Faults met while comparing with PyTorch 2.13, each with the value that it gives."""
import numpy as np
import pytest

import rushlight as torch


def test_masked_write_of_a_value_with_leading_ones():
    x = torch.zeros(2, 2)
    x[torch.ones(2, 2) > 0] = torch.tensor([[3.0]])
    assert x.tolist() == [[3.0, 3.0], [3.0, 3.0]]
    x[torch.tensor([True, False])] = torch.tensor([[[1.0, 2.0]]])
    assert x.tolist() == [[1.0, 2.0], [3.0, 3.0]]
    with pytest.raises(RuntimeError, match="shape mismatch: value tensor of shape"):
        x[torch.ones(2, 2) > 0] = torch.ones(2, 2)


def test_writes_of_wrong_shapes_say_so():
    x = torch.zeros(3, 4)
    with pytest.raises(RuntimeError, match=r"expand\(torch.FloatTensor\{\[2\]\}, size=\[\]\)"):
        x[0, 0] = torch.tensor([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"The expanded size of the tensor \(4\) must match the existing size \(3\)"):
        x[0:2] = torch.tensor([1.0, 2.0, 3.0])


def test_shift_of_all_the_bits():
    assert (torch.tensor([255], dtype=torch.uint8) >> torch.tensor([9], dtype=torch.uint8)).tolist() == [0]
    assert (torch.tensor([-8, 8]) >> torch.tensor([70, 70])).tolist() == [-1, 0]


def test_gradient_with_respect_to_an_edge():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    edge = torch.autograd.graph.get_gradient_edge(y)
    assert edge.output_nr == 0 and edge.node is y.grad_fn
    assert torch.autograd.grad((y * y).sum(), edge)[0].tolist() == [4.0, 4.0]
    assert torch.autograd.grad((x * x).sum(), torch.autograd.graph.get_gradient_edge(x))[0].tolist() == [2.0, 2.0]


def test_an_op_itself_compiles():
    assert torch.compile(torch.sin, fullgraph=True)(torch.zeros(2)).tolist() == [0.0, 0.0]
    assert torch.compile(torch.nn.functional.relu, fullgraph=True)(torch.tensor([-1.0, 1.0])).tolist() == [0.0, 1.0]


def test_numpy_scalars_are_exponents_and_bases():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (x ** np.int64(2)).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0] and (x.detach() ** np.int64(2)).dtype is torch.float32
    for result in (np.float32(2) ** x.detach(), np.float32(2) / x.detach(), torch.tensor([2]) ** np.int64(3)):
        assert isinstance(result, torch.Tensor)
    assert (np.float32(2) ** x.detach()).tolist() == [2.0, 4.0]


def test_linspace_rounds_each_number_once():
    single, double = torch.linspace(-3, 3, 101), torch.linspace(-7.3, 2.1, 1000, dtype=torch.float64)
    assert [single[at].item().hex() for at in (11, 35)] == ["-0x1.2b851e0000000p+1", "-0x1.ccccce0000000p-1"]
    assert [double[at].item().hex() for at in (58, 76)] == ["-0x1.b045b3a2b9045p+2", "-0x1.a56ec1032056fp+2"]
