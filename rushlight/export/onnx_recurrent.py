"""The rules of `onnx_write` for recurrent layers and packed batches: ONNX's RNN, GRU and LSTM nodes, which take lengths.

A packed batch stays padded in the model: `Packed` is its padded form, time first, with the lengths.  What works on each row
alone works on that form; what needs the rows as they are packed is refused.  Read `pack`, then `recurrent`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import dtypes
from ..core.pytree import tree_leaves, tree_map
from ..recurrent import GATES
from .onnx_rules import BINARY, UNARY
from .onnx_shapes import size_of
from .onnx_write import ROWWISE, Value, Writer, rule

KINDS: dict[str, tuple] = {"RNN_TANH": ("RNN", [0], {"activations": ["Tanh"]}), "RNN_RELU": ("RNN", [0], {"activations": ["Relu"]}),
         "GRU": ("GRU", [1, 0, 2], {"linear_before_reset": 1}), "LSTM": ("LSTM", [0, 3, 1, 2], {})}  # the order of gates that ONNX has
# What gives each row of its result from the same row of the packed batch, whatever the other arguments.
ROWS = frozenset((*UNARY, *BINARY, "linear", "dropout", "gelu", "silu", "elu", "leaky_relu", "hardtanh", "relu6", "clamp", "softplus", "selu", "celu", "embedding",
                  "layer_norm", "to", "float", "double", "clone", "detach", "contiguous", "square", "rsqrt", "softmax", "log_softmax"))


class Packed(Value):
    """A packed batch: `shape` is that of the packed rows; `padded` holds the same rows, (time, batch, ...)."""

    __slots__ = ("padded", "lengths")

    def __init__(self, padded: Value, lengths: Value, shape: tuple):
        super().__init__(padded.name, padded.dtype, shape)
        self.padded, self.lengths = padded, lengths


class BatchSizes(Value):
    """How many sequences are alive at each time, which nothing in the model needs as such."""

    __slots__ = ()


@rule("_pack_padded_sequence")
def pack(w: Writer, input: Any, lengths: Any, batch_first: bool) -> tuple:
    if isinstance(input, Packed):
        raise NotImplementedError("onnx.export: packing a packed batch")
    if batch_first:
        order = [1, 0, *range(2, len(input.shape))]
        input = w.emit("Transpose", [input], input.dtype, tuple(input.shape[at] for at in order), perm=order)
    lengths = w.cast(lengths, dtypes.int64)
    return Packed(input, lengths, (1, *input.shape[2:])), BatchSizes("", dtypes.int64, (1,))


@rule("_pad_packed_sequence")
def pad(w: Writer, data: Any, batch_sizes: Any, batch_first: bool, padding_value: float, total_length: int) -> tuple:
    padded, lengths, rank = data.padded, data.lengths, len(data.padded.shape)
    longest = w.emit("ReduceMax", [lengths, w.ints([0])], dtypes.int64, (1,), keepdims=1)
    value = w.emit("Slice", [padded, w.ints([0]), longest, w.ints([0])], padded.dtype, padded.shape)
    if total_length >= 0:
        missing = w.emit("Sub", [w.constant([total_length], dtypes.int64), longest], dtypes.int64, (1,))
        zeros = w.ints([0] * rank)
        after = w.emit("Concat", [zeros, missing, w.ints([0] * (rank - 1))], dtypes.int64, (2 * rank,), axis=0)
        value = w.emit("Pad", [value, after, w.constant(0, padded.dtype)], padded.dtype, padded.shape, mode="constant")
    nothing = w.constant(0, dtypes.int64)
    times = w.emit("Range", [nothing, w.cast(size_of(w, value, 0), dtypes.int64), w.constant(1, dtypes.int64)], dtypes.int64, padded.shape[:1])
    column = w.emit("Reshape", [times, w.ints([-1] + [1] * (rank - 1))], dtypes.int64, padded.shape[:1] + (1,) * (rank - 1))
    row = w.emit("Reshape", [lengths, w.ints([1, -1] + [1] * (rank - 2))], dtypes.int64, (1, *padded.shape[1:2], *(1,) * (rank - 2)))
    alive = w.emit("Less", [column, row], dtypes.bool, padded.shape)
    value = w.emit("Where", [alive, value, w.constant(padding_value, padded.dtype)], padded.dtype, padded.shape)
    if batch_first:
        order = [1, 0, *range(2, rank)]
        value = w.emit("Transpose", [value], value.dtype, tuple(value.shape[at] for at in order), perm=order)
    return value, lengths


@rule("pad_sequence")
def pad_sequence(w: Writer, sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right") -> Value:
    """Each sequence padded to the longest, then stacked."""
    dtype, rank = sequences[0].dtype, len(sequences[0].shape)
    sizes = [w.emit("Reshape", [size_of(w, item, 0), w.constant([1], dtypes.int64)], dtypes.int64, (1,)) for item in sequences]
    longest = w.emit("Max", sizes, dtypes.int64, (1,)) if len(sizes) > 1 else sizes[0]
    shape = w.out()[1]
    axis, rows = w.ints([1 if not batch_first else 0]), []
    for item, size in zip(sequences, sizes):
        missing = w.emit("Sub", [longest, size], dtypes.int64, (1,))
        zeros = w.ints([0])
        pads = [missing, zeros] if padding_side == "left" else [zeros, missing]
        value = w.emit("Pad", [item, w.emit("Concat", pads, dtypes.int64, (2,), axis=0), w.constant(padding_value, dtype), w.ints([0])], dtype, item.shape, mode="constant")
        rows.append(w.emit("Unsqueeze", [value, axis], dtype, shape))
    assert rank
    return w.emit("Concat", rows, dtype, shape, axis=0 if batch_first else 1)


def recurrent(mode: str) -> Callable:
    def write(w: Writer, input: Any, *arguments: Any) -> tuple:
        packed = isinstance(input, Packed)
        if packed:
            _, hx, params, biased, count, dropout, train, bidirectional = arguments
            data, lengths, first = input.padded, w.emit("Cast", [input.lengths], dtypes.int32, input.lengths.shape, to=6), False
        else:
            (hx, params, biased, count, dropout, train, bidirectional, first), data, lengths = arguments, input, None
        directions = 2 if bidirectional else 1
        each = len(params) // (count * directions)
        if dropout and train and count > 1:
            raise NotImplementedError("onnx.export: dropout in training mode: export the model after eval()")
        if first:
            data = w.emit("Transpose", [data], data.dtype, (*data.shape[1::-1], data.shape[2]), perm=[1, 0, 2])
        groups = [params[at:at + each] for at in range(0, len(params), each)]
        kinds = 2 if mode == "LSTM" else 1
        given = [None] * kinds if hx is None else list(hx) if isinstance(hx, (tuple, list)) else [hx]
        lasts: list[list] = [[] for _ in range(kinds)]
        for layer in range(count):
            starts = [state if state is None or count == 1 else w.emit(
                "Slice", [state, w.ints([layer * directions]), w.ints([(layer + 1) * directions]), w.ints([0])], state.dtype,
                (directions, *state.shape[1:])) for state in given]
            own = groups[layer * directions:(layer + 1) * directions]
            data, *ends = one_layer(w, mode, data, lengths, starts, own, biased) if each in (2, 4) else projected(w, data, lengths, starts, own, biased)
            for kind, end in zip(lasts, ends):
                kind.append(end)
        stacked = [kind[0] if count == 1 else w.emit("Concat", kind, kind[0].dtype, (count * directions, *kind[0].shape[1:]), axis=0) for kind in lasts]
        if packed:
            return (Packed(data, input.lengths, (input.shape[0], data.shape[2])), *stacked)
        if first:
            data = w.emit("Transpose", [data], data.dtype, (*data.shape[1::-1], data.shape[2]), perm=[1, 0, 2])
        return (data, *stacked)
    return write


def one_layer(w: Writer, mode: str, data: Value, lengths: Any, starts: list, groups: list, biased: bool) -> list:
    """One layer, both directions: its output with the directions side by side, and its last states."""
    kind, order, attributes = KINDS[mode]
    hidden, directions = groups[0][1].shape[1], len(groups)
    rows = w.constant(np.concatenate([np.arange(gate * hidden, (gate + 1) * hidden) for gate in order]), dtypes.int64)

    def weights(at: int) -> Value:
        parts = [w.emit("Unsqueeze", [w.emit("Gather", [group[at], rows], data.dtype, group[at].shape, axis=0), w.ints([0])], data.dtype, (1, *group[at].shape))
                 for group in groups]
        return parts[0] if directions == 1 else w.emit("Concat", parts, data.dtype, (directions, *parts[0].shape[1:]), axis=0)
    bias = w.emit("Concat", [weights(2), weights(3)], data.dtype, (directions, 2 * GATES[mode] * hidden), axis=1) if biased else None
    if "activations" in attributes:
        attributes = {"activations": attributes["activations"] * directions}
    time, batch = data.shape[:2]
    outputs = w.emit(kind, [data, weights(0), weights(1), bias, lengths, *starts], data.dtype, (time, directions, batch, hidden), outputs=1 + len(starts),
                     hidden_size=hidden, direction="bidirectional" if directions == 2 else "forward", **attributes)
    for state in outputs[1:]:
        state.shape = (directions, batch, hidden)
    turned = w.emit("Transpose", [outputs[0]], data.dtype, (time, batch, directions, hidden), perm=[0, 2, 1, 3])
    return [w.emit("Reshape", [turned, w.ints([0, 0, -1])], data.dtype, (time, batch, directions * hidden)), *outputs[1:]]


def projected(w: Writer, data: Value, lengths: Any, starts: list, groups: list, biased: bool) -> list:
    """An LSTM layer whose output is projected, which no ONNX node is: a Scan over the steps, forwards and backwards."""
    outputs, lasts = [], []
    for at, group in enumerate(groups):
        first = [None if state is None else w.emit("Gather", [state, w.constant(at, dtypes.int64)], state.dtype, state.shape[1:], axis=0) for state in starts]
        output, *ends = scanned(w, data, lengths, first, group, biased, at == 1)
        outputs.append(output)
        lasts.append(ends)
    wide = (*data.shape[:2], sum(output.shape[2] for output in outputs))
    joined = outputs[0] if len(outputs) == 1 else w.emit("Concat", outputs, data.dtype, wide, axis=2)
    axis, states = w.ints([0]), []
    for kind in zip(*lasts):
        rows = [w.emit("Unsqueeze", [state, axis], state.dtype, (1, *state.shape)) for state in kind]
        states.append(rows[0] if len(rows) == 1 else w.emit("Concat", rows, rows[0].dtype, (len(rows), *kind[0].shape), axis=0))
    return [joined, *states]


def scanned(w: Writer, data: Value, lengths: Any, first: list, group: list, biased: bool, backwards: bool) -> list:
    """One direction: its output at each step, zero past a sequence's length, and the last states."""
    kind, batch = data.dtype, data.shape[1]
    weight, hidden_weight, projection = group[0], group[1], group[-1]
    cell, out = weight.shape[0] // 4, projection.shape[0]
    turned = [w.emit("Transpose", [value], kind, value.shape[::-1], perm=[1, 0]) for value in (weight, hidden_weight, projection)]
    size = w.emit("Reshape", [size_of(w, data, 1), w.ints([1])], dtypes.int64, (1,))
    states = [w.emit("Expand", [w.constant(0, kind), w.emit("Concat", [size, w.ints([width])], dtypes.int64, (2,), axis=0)], kind, (batch, width)) if state is None else state
              for state, width in zip(first, (out, cell))]
    times = w.emit("Range", [w.constant(0, dtypes.int64), w.cast(size_of(w, data, 0), dtypes.int64), w.constant(1, dtypes.int64)], dtypes.int64, data.shape[:1])
    w.count += 1
    before = [Value(f"{name}_{w.count}", kind, (batch, width)) for name, width in (("hidden", out), ("cell", cell))]
    item, time = Value(f"step_{w.count}", kind, data.shape[1:]), Value(f"time_{w.count}", dtypes.int64, ())

    def step() -> list:
        wide = (batch, 4 * cell)
        gates = w.emit("Add", [w.emit("MatMul", [item, turned[0]], kind, wide), w.emit("MatMul", [before[0], turned[1]], kind, wide)], kind, wide)
        for bias in group[2:4] if biased else []:
            gates = w.emit("Add", [gates, bias], kind, wide)
        parts = w.emit("Split", [gates], kind, (batch, cell), outputs=4, axis=1, num_outputs=4)
        enter, forget, leave = (w.emit("Sigmoid", [parts[at]], kind, (batch, cell)) for at in (0, 1, 3))
        new = w.emit("Add", [w.emit("Mul", [forget, before[1]], kind, (batch, cell)),
                             w.emit("Mul", [enter, w.emit("Tanh", [parts[2]], kind, (batch, cell))], kind, (batch, cell))], kind, (batch, cell))
        shown = w.emit("MatMul", [w.emit("Mul", [leave, w.emit("Tanh", [new], kind, (batch, cell))], kind, (batch, cell)), turned[2]], kind, (batch, out))
        if lengths is None:
            return [shown, new, shown]
        alive = w.emit("Less", [time, w.cast(lengths, dtypes.int64)], dtypes.bool, (batch,))
        alive = w.emit("Unsqueeze", [alive, w.ints([1])], dtypes.bool, (batch, 1))
        kept = [w.emit("Where", [alive, value, old], kind, value.shape) for value, old in zip((shown, new), before)]
        return [*kept, w.emit("Where", [alive, shown, w.constant(0, kind)], kind, shown.shape)]
    body, _ = w.body("scan", [*before, item, time], step)
    hidden, last, output = w.emit("Scan", [*states, data, times], kind, (batch, out), outputs=3, body=body, num_scan_inputs=2,
                                  scan_input_directions=[int(backwards)] * 2, scan_output_directions=[int(backwards)])
    last.shape, output.shape = (batch, cell), (*data.shape[:2], out)
    return [output, hidden, last]


for _mode, _name in (("RNN_TANH", "rnn_tanh"), ("RNN_RELU", "rnn_relu"), ("LSTM", "lstm"), ("GRU", "gru")):
    rule(_name)(recurrent(_mode))


def rowwise(w: Writer, name: str, found: Any, args: list, kwargs: dict) -> Any:
    """An op on a packed batch, done on its padded form where it works on each row alone."""
    packed = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Packed)]
    others = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Value) and not isinstance(leaf, Packed)]
    rank = len(packed[0].shape)
    dims = [value for value in args[1:2] if type(value) is int and value >= 0] if name in ("softmax", "log_softmax") else []
    good = name in ROWS and found is not None and not dims and all(leaf.lengths is packed[0].lengths for leaf in packed) and (
        name in ("linear", "layer_norm", "embedding") or all(len(value.shape) < rank for value in others))
    if not good:
        raise NotImplementedError(f"onnx.export: {name} of a packed batch, which is padded in the model: unpack it first (pad_packed_sequence)")
    shape, padded = tuple(w.result.shape), packed[0].padded
    w.result = Value("", w.result.dtype, (*padded.shape[:2], *shape[1:]))
    plain = lambda leaf: leaf.padded if isinstance(leaf, Packed) else leaf  # noqa: E731
    made = found(w, *tree_map(plain, args), **tree_map(plain, kwargs))
    return Packed(made, packed[0].lengths, shape)


ROWWISE.update(kind=Packed, write=rowwise)
