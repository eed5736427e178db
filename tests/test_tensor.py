"""class Tensor: memory, views, strides, versions, Python and NumPy protocols, copying. Values of ops are in tests/ops."""
import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import rushlight as torch

VIEWS = {
    "view": lambda x: x.view(6), "reshape": lambda x: x.reshape(3, 2), "transpose": lambda x: x.transpose(0, 1), "t": lambda x: x.t(), "T": lambda x: x.T,
    "permute": lambda x: x.permute(1, 0), "slice": lambda x: x[:, 1:], "step": lambda x: x[:, ::2], "select": lambda x: x[1], "narrow": lambda x: x.narrow(1, 0, 2),
    "unsqueeze": lambda x: x.unsqueeze(0), "squeeze": lambda x: x[:, None].squeeze(1), "expand": lambda x: x.expand(2, 2, 3), "diagonal": lambda x: x.diagonal(),
    "unfold": lambda x: x.unfold(1, 2, 1), "as_strided": lambda x: x.as_strided((2,), (3,)), "split": lambda x: x.split(1)[1], "chunk": lambda x: x.chunk(2, 1)[1],
    "unbind": lambda x: x.unbind()[0], "detach": lambda x: x.detach(), "data": lambda x: x.data, "view_as_real": lambda x: torch.view_as_real(torch.view_as_complex(x[:, :2].contiguous())),
    "flatten": lambda x: x.flatten(), "movedim": lambda x: x.movedim(0, 1), "numpy": lambda x: torch.from_numpy(x.numpy()), "dtype": lambda x: x.view(torch.int32),
}


@pytest.mark.parametrize("name", [name for name in VIEWS if name != "view_as_real"])
def test_a_view_shares_memory(name):
    x = torch.zeros(2, 3)
    view = VIEWS[name](x)
    x.fill_(1)
    assert bool((view != 0).any())


@pytest.mark.parametrize("name", ["view", "slice", "select", "expand", "transpose", "detach", "unbind", "diagonal"])
def test_a_view_shares_the_version(name):
    x = torch.zeros(2, 3)
    view = VIEWS[name](x)
    x.add_(1)
    assert view._version == x._version == 1


def test_strides_and_offsets():
    x = torch.zeros(2, 3, 4)
    assert x.stride() == (12, 4, 1) and x.transpose(0, 2).stride() == (1, 4, 12) and x[1, 2:].storage_offset() == 20
    assert x.expand(5, 2, 3, 4).stride(0) == 0 and x[:, ::2].stride() == (12, 8, 1) and x[0].is_contiguous() and not x.permute(2, 0, 1).is_contiguous()
    assert torch.zeros(0, 3).stride() == (3, 1) and torch.zeros(()).stride() == ()


def test_contiguous_copies_only_when_needed():
    x = torch.zeros(2, 3)
    assert x.contiguous() is x and x.t().contiguous().data_ptr() != x.data_ptr()


def test_numbers_and_truth():
    assert int(torch.tensor(3.9)) == 3 and float(torch.tensor([2.5])) == 2.5 and bool(torch.tensor([0.0])) is False and torch.tensor([5]).item() == 5
    assert [10, 20, 30][torch.tensor(1)] == 20 and complex(torch.tensor(1 + 2j)) == 1 + 2j and len(torch.zeros(4, 2)) == 4
    assert type(torch.tensor(True).item()) is bool and type(torch.tensor(1).item()) is int and type(torch.tensor(1.0).item()) is float


def test_iteration_containment_and_format():
    assert [row.tolist() for row in torch.tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]] and 3 in torch.tensor([1, 3])
    assert f"{torch.tensor(3.14159):.2f}" == "3.14" and "tensor" in f"{torch.ones(2)}"
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        iter(torch.tensor(1.0)).__next__()


def test_operators_with_arrays_numbers_and_strangers():
    x = torch.tensor([1.0, 2.0])
    assert (2 - x).tolist() == [1, 0] and (2 / x).tolist() == [2, 1] and (2 ** x).tolist() == [2, 4] and (5 // x).tolist() == [5, 2] and (5 % x).tolist() == [0, 1]
    assert (x == 1).tolist() == [True, False] and (x == None) is False  # noqa: E711
    with pytest.raises(TypeError):
        x + "a"

    class Absorbing:
        def __radd__(self, other):
            return "absorbed"
    assert x + Absorbing() == "absorbed"


def test_in_place_operators_keep_the_object():
    x = y = torch.tensor([1.0, 2.0])
    x += 1
    x *= 2
    assert x is y and y.tolist() == [4, 6]


def test_indexing_forms():
    x = torch.arange(24).reshape(2, 3, 4)
    assert x[1, ..., -1].tolist() == [15, 19, 23] and x[None].shape == (1, 2, 3, 4) and x[:, [0, 2], 1].tolist() == [[1, 9], [13, 21]]
    assert x[x > 21].tolist() == [22, 23] and x[torch.tensor([True, False])].shape == (1, 3, 4) and x[True].shape == (1, 2, 3, 4)
    assert x[0][torch.tensor([[0, 1]]), torch.tensor([[2], [3]])].tolist() == [[2, 6], [3, 7]] and x[0, 1, 2].shape == ()
    assert x[:, torch.tensor([1]), None].shape == (2, 1, 1, 4) and x[..., torch.tensor(0)].shape == (2, 3)


def test_writing_through_indices():
    x = torch.zeros(3, 3)
    x[1] = torch.tensor([1.0, 2, 3])
    x[:, 0] = 9
    x[x == 2] = -2
    x[[0, 2], [1, 1]] = torch.tensor([5.0, 6.0])
    assert x.tolist() == [[9, 5, 0], [9, -2, 3], [9, 6, 0]]


def test_numpy_both_ways():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = torch.from_numpy(array)
    array[0, 0] = 7
    assert x[0, 0].item() == 7 and np.asarray(x).shape == (2, 3) and np.array(x, dtype=np.float64).dtype == np.float64
    assert torch.as_tensor(array).data_ptr() == x.data_ptr() and torch.tensor(array).data_ptr() != x.data_ptr()
    assert torch.from_numpy(array[:, ::2]).stride() == (3, 2)
    assert torch.tensor(np.float64(2.5)).dtype is torch.float64


def test_dlpack_both_ways():
    x = torch.arange(4.0)
    assert np.from_dlpack(x).tolist() == [0, 1, 2, 3] and torch.from_dlpack(np.arange(3.0)).tolist() == [0, 1, 2]
    y = torch.from_dlpack(x)
    y[0] = 9
    assert x[0].item() == 9
    with pytest.raises(BufferError, match="require gradient|requires grad"):
        torch.ones(2, requires_grad=True).__dlpack__()


def test_pickle_and_deepcopy():
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    for twin in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert twin.tolist() == x.tolist() and twin.requires_grad and twin.is_leaf and twin.data_ptr() != x.data_ptr()
    view = x.detach()[:, 1]
    assert pickle.loads(pickle.dumps(view)).tolist() == [1, 4] and copy.copy(view).data_ptr() == view.data_ptr()
    base = torch.zeros(4)
    pair = copy.deepcopy([base, base])
    assert pair[0] is pair[1]


def test_attributes_subclasses_and_weak_references():
    class Named(torch.Tensor):
        pass
    x = torch.ones(2)
    x.note = "kept"
    assert x.note == "kept" and isinstance(torch.ones(2).as_subclass(Named), Named) and hash(x) == hash(x)
    reference = weakref.ref(x)
    del x
    gc.collect()
    assert reference() is None


def test_parameters():
    p = torch.nn.Parameter(torch.ones(2))
    assert isinstance(p, torch.nn.Parameter) and isinstance(p, torch.Tensor) and p.requires_grad and p.is_leaf and type(p * 1) is torch.Tensor
    assert not isinstance(torch.ones(2), torch.nn.Parameter) and repr(p).startswith("Parameter containing:\ntensor([1., 1.]")


def test_data_assignment_keeps_the_identity():
    x = torch.ones(2, requires_grad=True)
    x.data = torch.zeros(3)
    assert x.shape == (3,) and x.requires_grad and x.is_leaf


def test_empty_and_zero_dim():
    e = torch.zeros(0, 3)
    assert e.sum().item() == 0 and e.mean().isnan().item() and e.prod().item() == 1 and e.numel() == 0 and (e + 1).shape == (0, 3)
    assert torch.tensor(5).reshape(1, 1).tolist() == [[5]] and torch.zeros(2, 0).tolist() == [[], []]
    with pytest.raises((RuntimeError, IndexError)):
        e.max()


def test_as_strided_never_leaves_its_storage():
    x = torch.arange(4.0)
    assert x.as_strided((2, 2), (1, 1)).tolist() == [[0, 1], [1, 2]]
    for size, stride, offset in (((5,), (1,), 0), ((2,), (4,), 0), ((1,), (1,), 4), ((2, 2), (2, 2), 0)):
        with pytest.raises(RuntimeError, match="out of bounds"):
            x.as_strided(size, stride, offset)


def test_asarray_keeps_the_history_of_a_tensor():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    assert torch.asarray(x) is x and torch.asarray(y) is y
    assert torch.asarray(y, dtype=torch.float64).requires_grad and torch.asarray(y, copy=True).grad_fn is not None
    assert not torch.asarray(y, requires_grad=False).requires_grad and torch.asarray([1.0], requires_grad=True).requires_grad
    torch.asarray(y, dtype=torch.float64).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_a_complex_number_does_not_fill_real_numbers():
    for fill in (torch.Tensor.masked_fill, torch.Tensor.masked_fill_):
        with pytest.raises(RuntimeError, match="value cannot be converted to type float without overflow"):
            fill(torch.zeros(2, 2), torch.tensor(True), 1j)
    assert torch.zeros(2, dtype=torch.complex64).masked_fill(torch.tensor([True, False]), 1j).tolist() == [1j, 0]
