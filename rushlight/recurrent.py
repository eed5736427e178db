"""Recurrent layers over whole sequences as functions of tensors, and packing: what nn.RNN, nn.LSTM, nn.GRU and nn.utils.rnn call.

The names and arguments are PyTorch's (`torch.lstm`, `torch._pack_padded_sequence`). Each goes by the values of its
arguments: the code that compiles follows it, down to one node for each layer and direction (ops/recurrent.py: the walk over
time); in an exported program it is one node, so that sequences keep a free length and the lengths in a packed batch stay
inputs. Eager layers that have run many steps run compiled (`run`). Read `layers` first.
"""

from collections.abc import Callable, Sequence
from typing import Any

from . import ops
from .core import dtypes, modes
from .core.busy import Busy
from .core.tracing import followed_as
from .ops import functional as F
from .ops.recurrent import GATES, recurrent_layer
from .tensor import Parameter, Tensor

# -- layers ------------------------------------------------------------------------------------------------------------


def layer(mode: str, data: Tensor, state: tuple, weights: Sequence[Tensor], biased: bool, batch_sizes: list[int] | None, reverse: bool) -> tuple:
    """Run one layer in one direction: (outputs at all times, last states). Time is the first dim, or `data` is packed."""
    weight_ih, weight_hh, *rest = weights
    bias_ih, bias_hh = (rest.pop(0), rest.pop(0)) if biased else (None, None)
    projection = rest[0] if rest else None
    output, *last = recurrent_layer(mode, data, state, weight_ih, weight_hh, bias_ih, bias_hh, projection, batch_sizes, reverse)
    return output, tuple(last)


def layers(mode: str, arguments: tuple) -> tuple:
    """Run all layers and directions: (outputs of the last, last states of all, one stack for each kind of state)."""
    packed = isinstance(arguments[3], (list, tuple))
    data, batch_sizes, hx, params, biased, count, dropout, train, bidirectional, *first = (
        arguments if packed else (arguments[0], None, *arguments[1:]))
    if not packed and first[0]:
        data = data.transpose(0, 1)
    sizes = None if batch_sizes is None else batch_sizes.tolist()
    if data.size(0) == 0:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    directions = 2 if bidirectional else 1
    each = len(params) // (count * directions)
    weights = [params[at:at + each] for at in range(0, len(params), each)]
    starts = states(mode, data, sizes, hx, weights)
    lasts = []
    for at in range(count):
        outputs = []
        for direction in range(directions):
            place = at * directions + direction
            output, last = layer(mode, data, starts[place], weights[place], biased, sizes, direction == 1)
            outputs.append(output)
            lasts.append(last)
        data = outputs[0] if directions == 1 else ops.cat(outputs, -1)
        if dropout and at < count - 1:
            data = F.dropout(data, dropout, train)
    if not packed and first[0]:
        data = data.transpose(0, 1)
    return (data, *(ops.stack(list(kind)) for kind in zip(*lasts)))


def states(mode: str, data: Tensor, sizes: list[int] | None, hx: Any, weights: list) -> list[tuple]:
    """The first states of each layer and direction; without `hx` they are zeros."""
    kinds = 2 if mode == "LSTM" else 1
    if hx is not None:
        given = hx if isinstance(hx, (tuple, list)) else (hx,)
        if sizes is not None and given[0].size(1) != sizes[0]:
            name = "hidden[0]" if kinds == 2 else "hidden"
            expected = (len(weights), sizes[0], given[0].size(2))
            raise RuntimeError(f"Expected {name} size {expected}, got {list(given[0].shape)}")
        return list(zip(*[state.unbind(0) for state in given]))
    batch = data.size(1) if sizes is None else sizes[0]
    output, hidden = weights[0][1].size(1), weights[0][1].size(0) // GATES[mode]
    return [tuple(ops.zeros(batch, size, dtype=data.dtype) for size in (output, hidden)[:kinds]) for _ in weights]


busy = Busy("recurrent layers", layers, 1 << 13)  # steps


@followed_as(layers)
def run(mode: str, arguments: tuple) -> tuple:
    """`layers`, by compiled code where the same layers have run many steps."""
    use = use_of(mode, arguments)
    if use is None:
        return layers(mode, arguments)
    input, _, _, _, count, _, _, bidirectional, batch_first = arguments
    return busy.choose(use, input._array.shape[1 if batch_first else 0] * count * (2 if bidirectional else 1))(mode, arguments)


def use_of(mode: str, arguments: tuple) -> tuple | None:
    """What compiled code would be made for; None for what only ordinary ops do, or do as well: packed batches, projections, rare modes."""
    input, hx, params, *options = arguments
    if modes.flags["special"] or len(options) != 6 or type(hx) not in (Tensor, tuple) or type(params) is not list:
        return None
    tensors = (input, *hx, *params) if type(hx) is tuple else (input, hx, *params)
    for tensor in tensors:
        if type(tensor) is not Tensor and type(tensor) is not Parameter or tensor._dtype is not input._dtype:
            return None
    biased, count, _, _, bidirectional, _ = options
    if input._dtype not in (dtypes.float32, dtypes.float64) or input._array.ndim != 3 or not input._array.size or (
            len(params) != (4 if biased else 2) * count * (2 if bidirectional else 1)):
        return None
    wanted = modes.grad_enabled()
    return (mode, input._dtype, wanted, modes.inference_enabled(), *options, *[tensor._requires_grad for tensor in tensors if wanted],
            *[param._array.shape for param in params], *[1 in tensor._array.shape for tensor in tensors[:2]])


def lstm(input: Tensor, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """All layers of an LSTM over a padded or a packed batch: (output, last h, last c).

    `lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)`, or of a packed batch
    `lstm(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)`. `hx`: the pair (h, c), each
    (layers * directions, N, size), or None for zeros; `params`: the weights of each layer and direction in the order of
    `nn.LSTM._flat_weights`.

    >>> import rushlight as torch
    >>> net = torch.nn.LSTM(3, 4)
    >>> zeros = torch.zeros(1, 2, 4)
    >>> torch.lstm(torch.zeros(5, 2, 3), (zeros, zeros), net._flat_weights, True, 1, 0.0, False, False, False)[0].shape
    torch.Size([5, 2, 4])
    """
    return run("LSTM", (input, *arguments))


def gru(input: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    """All layers of a GRU over a padded or a packed batch: (output, last h). The arguments are as for `lstm`, `hx` one tensor or None.

    >>> import rushlight as torch
    >>> net = torch.nn.GRU(3, 4)
    >>> torch.gru(torch.zeros(5, 2, 3), torch.zeros(1, 2, 4), net._flat_weights, True, 1, 0.0, False, False, False)[0].shape
    torch.Size([5, 2, 4])
    """
    return run("GRU", (input, *arguments))


def rnn_tanh(input: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    """All layers of an Elman network with tanh: (output, last h). The arguments are as for `gru`.

    >>> import rushlight as torch
    >>> net = torch.nn.RNN(3, 4)
    >>> torch.rnn_tanh(torch.zeros(5, 2, 3), torch.zeros(1, 2, 4), net._flat_weights, True, 1, 0.0, False, False, False)[0].shape
    torch.Size([5, 2, 4])
    """
    return run("RNN_TANH", (input, *arguments))


def rnn_relu(input: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    """All layers of an Elman network with relu: (output, last h). The arguments are as for `gru`.

    >>> import rushlight as torch
    >>> net = torch.nn.RNN(3, 4, nonlinearity="relu")
    >>> torch.rnn_relu(torch.zeros(5, 2, 3), torch.zeros(1, 2, 4), net._flat_weights, True, 1, 0.0, False, False, False)[0].shape
    torch.Size([5, 2, 4])
    """
    return run("RNN_RELU", (input, *arguments))


FUNCTIONS: dict[str, Callable] = {"RNN_TANH": rnn_tanh, "RNN_RELU": rnn_relu, "LSTM": lstm, "GRU": gru}


# -- packing -------------------------------------------------------------------------------------------------------------


class LengthError(ValueError):
    """A length that the values of an input give does not fit the size of another."""


def _pack_padded_sequence(input: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """(data, batch_sizes): the rows of time 0 of a padded batch, then of time 1, ... of sequences whose lengths fall."""
    if batch_first:
        input = input.transpose(0, 1)
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    counts = [int(length) for length in lengths.tolist()]
    time, batch = input.shape[:2]
    if len(counts) != batch:
        raise RuntimeError(f"Expected `len(lengths)` to be equal to batch_size, but got {len(counts)} (batch_size={batch})")
    if counts[-1] <= 0 or min(counts) <= 0:
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0")
    if any(later > earlier for earlier, later in zip(counts, counts[1:])):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if "
            "you do not need ONNX exportability.")
    if counts[0] > time:
        raise LengthError(f"Expected `lengths` to be at most the padded length {time}, but got {counts[0]}: shorten it, or pad the batch further")
    sizes = [sum(count > at for count in counts) for at in range(counts[0])]
    return ops.cat([input[at, :size] for at, size in enumerate(sizes)]), ops.tensor(sizes, dtype=dtypes.long)


def _pad_packed_sequence(data: Tensor, batch_sizes: Tensor, batch_first: bool, padding_value: float, total_length: int) -> tuple[Tensor, Tensor]:
    """(padded, lengths): undo `_pack_padded_sequence`; `total_length` pads further, -1: to the longest."""
    sizes = batch_sizes.tolist()
    longest = len(sizes)
    if 0 <= total_length < longest:
        raise ValueError("Expected total_length to be at least the length of the longest sequence in input, "
                         f"but got total_length={total_length} and max sequence length being {longest}")
    batch = sizes[0]
    shape = tuple(data.shape[1:])
    rows = []
    for step, size in zip(data.split(sizes), sizes):
        if size < batch:
            step = ops.cat([step, ops.full((batch - size, *shape), padding_value, dtype=data.dtype)])
        rows.append(step)
    if total_length > longest:
        rows += [ops.full((batch, *shape), padding_value, dtype=data.dtype)] * (total_length - longest)
    padded = ops.stack(rows, 1 if batch_first else 0)
    return padded, ops.tensor([sum(size > at for size in sizes) for at in range(batch)], dtype=dtypes.long)


def pad_sequence(sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right") -> Tensor:
    """Stack sequences (L_i, *) into one tensor (T, N, *), padded to the longest; `nn.utils.rnn.pad_sequence` describes it."""
    longest = max(sequence.size(0) for sequence in sequences)
    padded = []
    for sequence in sequences:
        missing = longest - sequence.size(0)
        if missing:
            fill = ops.full((missing, *sequence.shape[1:]), padding_value, dtype=sequence.dtype)
            sequence = ops.cat([fill, sequence] if padding_side == "left" else [sequence, fill])
        padded.append(sequence)
    return ops.stack(padded, 0 if batch_first else 1)


PACKING: dict[str, Callable] = {function.__name__: function for function in (_pack_padded_sequence, _pad_packed_sequence, pad_sequence)}

__all__ = ["gru", "lstm", "rnn_relu", "rnn_tanh"]
