"""Packing and padding: there and back, orders, and refusals."""
import pytest

import rushlight as torch

rnn = torch.nn.utils.rnn


def test_packing_goes_time_by_time_and_back():
    sequences = [torch.tensor([1.0]), torch.tensor([2.0, 3.0, 4.0]), torch.tensor([5.0, 6.0])]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    assert packed.data.tolist() == [2.0, 5.0, 1.0, 3.0, 6.0, 4.0] and packed.batch_sizes.tolist() == [3, 2, 1]
    assert packed.sorted_indices.tolist() == [1, 2, 0] and packed.unsorted_indices.tolist() == [2, 0, 1]
    assert [s.tolist() for s in rnn.unpack_sequence(packed)] == [s.tolist() for s in sequences]


def test_padding():
    sequences = [torch.ones(2), torch.ones(1)]
    assert rnn.pad_sequence(sequences, padding_value=9.0).tolist() == [[1.0, 1.0], [1.0, 9.0]]
    assert rnn.pad_sequence(sequences, batch_first=True, padding_side="left").tolist() == [[1.0, 1.0], [0.0, 1.0]]
    padded, lengths = rnn.pad_packed_sequence(rnn.pack_sequence(sequences), batch_first=True, padding_value=-1.0, total_length=3)
    assert padded.tolist() == [[1.0, 1.0, -1.0], [1.0, -1.0, -1.0]] and lengths.tolist() == [2, 1]


def test_gradients_flow_through_packing():
    x = torch.ones(3, 2, 1, requires_grad=True)
    rnn.pack_padded_sequence(x, [3, 1]).data.sum().backward()
    assert x.grad.flatten().tolist() == [1.0, 1.0, 1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("action, kind, text", [
    (lambda: rnn.pack_padded_sequence(torch.ones(3, 2), [3, 0]), RuntimeError, "Length of all samples has to be greater than 0"),
    (lambda: rnn.pack_padded_sequence(torch.ones(3, 2), [2, 3]), RuntimeError, "`lengths` array must be sorted in decreasing order"),
    (lambda: rnn.pack_padded_sequence(torch.ones(3, 2), [3]), RuntimeError, r"Expected `len\(lengths\)` to be equal to batch_size, but got 1"),
    (lambda: rnn.pack_padded_sequence(torch.ones(3, 2), [30, 1]), ValueError, "got 30"),
    (lambda: rnn.pad_sequence([]), RuntimeError, "received an empty list of sequences"),
    (lambda: rnn.pad_sequence(3), RuntimeError, "pad_sequence: Expected iterable for input sequences"),
])
def test_refusals(action, kind, text):
    with pytest.raises(kind, match=text):
        action()
