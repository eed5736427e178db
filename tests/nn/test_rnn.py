"""Recurrent layers: against their cells step by step, packed against padded, and their errors."""
import pytest

import rushlight as torch

nn = torch.nn
rnn = nn.utils.rnn


@pytest.mark.parametrize("layer, cell", [("RNN", "RNNCell"), ("LSTM", "LSTMCell"), ("GRU", "GRUCell")])
def test_a_layer_is_its_cell_over_time(layer, cell):
    whole = getattr(nn, layer)(2, 3)
    single = getattr(nn, cell)(2, 3)
    single.load_state_dict({k.removesuffix("_l0"): v for k, v in whole.state_dict().items()})
    x = torch.randn(4, 2, 2)
    output, _ = whole(x)
    state = None
    for t in range(4):
        state = single(x[t], state)
        hidden = state[0] if layer == "LSTM" else state
        assert torch.allclose(output[t], hidden, atol=1e-6)


@pytest.mark.parametrize("layer", ["RNN", "LSTM", "GRU"])
def test_packed_sequences_equal_each_sequence_alone(layer):
    model = getattr(nn, layer)(2, 3, num_layers=2, bidirectional=True)
    sequences = [torch.randn(n, 2) for n in (2, 4, 1)]
    packed_out, last = model(rnn.pack_sequence(sequences, enforce_sorted=False))
    padded, lengths = rnn.pad_packed_sequence(packed_out)
    hidden = last[0] if layer == "LSTM" else last
    assert lengths.tolist() == [2, 4, 1]
    for i, sequence in enumerate(sequences):
        alone, alone_last = model(sequence[:, None])
        assert torch.allclose(padded[: len(sequence), i], alone[:, 0], atol=1e-6)
        alone_hidden = alone_last[0] if layer == "LSTM" else alone_last
        assert torch.allclose(hidden[:, i], alone_hidden[:, 0], atol=1e-6)


def test_gradients_reach_every_weight_through_packing():
    model = nn.LSTM(2, 3, bidirectional=True, proj_size=2)
    output, _ = model(rnn.pack_sequence([torch.randn(3, 2), torch.randn(1, 2)]))
    output.data.sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum().item() > 0 for p in model.parameters())


def test_dropout_stands_between_layers():
    model = nn.GRU(2, 3, num_layers=2, dropout=1.0)
    plain = nn.GRU(3, 3)
    plain.load_state_dict({k.replace("l1", "l0"): v for k, v in model.state_dict().items() if "l1" in k})
    x = torch.randn(2, 1, 2)
    assert torch.allclose(model(x)[0], plain(torch.zeros(2, 1, 3))[0], atol=1e-6)
    assert not torch.allclose(model.eval()(x)[0], plain(torch.zeros(2, 1, 3))[0], atol=1e-6)


@pytest.mark.parametrize("action, kind, text", [
    (lambda: nn.RNN(2, 3)(torch.ones(2)), ValueError, "RNN: Expected input to be 2D or 3D, got 1D tensor instead"),
    (lambda: nn.RNN(2, 3)(torch.ones(2, 2, 3)), RuntimeError, r"input.size\(-1\) must be equal to input_size. Expected 2, got 3"),
    (lambda: nn.RNN(2, 3)(torch.ones(2, 2, 2), torch.ones(1, 3, 3)), RuntimeError, r"Expected hidden size \(1, 2, 3\), got \[1, 3, 3\]"),
    (lambda: nn.LSTM(2, 3)(torch.ones(2, 2, 2).double()), ValueError, r"RNN input dtype \(torch.float64\) does not match weight dtype"),
    (lambda: nn.LSTM(2, 3)(torch.ones(0, 2, 2)), RuntimeError, "Expected sequence length to be larger than 0 in RNN"),
    (lambda: nn.GRU(2, 3, proj_size=1), ValueError, "proj_size argument is only supported for LSTM"),
    (lambda: nn.RNN(2, 3, nonlinearity="foo"), ValueError, "Unknown nonlinearity 'foo'"),
])
def test_refusals(action, kind, text):
    with pytest.raises(kind, match=text):
        action()
