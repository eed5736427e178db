"""Recurrent layers and packed batches as NumPy."""

import numpy as np

from .program import op


def sigmoid_of(x):
    return 1 / (1 + np.exp(-x))


def tanh_cell(x, state, weight, bias, projection):
    return (np.tanh(x + state[0] @ weight.T + bias),)


def relu_cell(x, state, weight, bias, projection):
    return (np.maximum(x + state[0] @ weight.T + bias, 0),)


def lstm_cell(x, state, weight, bias, projection):
    enter, forget, new, leave = np.split(x + state[0] @ weight.T + bias, 4, axis=-1)
    cell = sigmoid_of(forget) * state[1] + sigmoid_of(enter) * np.tanh(new)
    hidden = sigmoid_of(leave) * np.tanh(cell)
    return (hidden if projection is None else hidden @ projection.T), cell


def gru_cell(x, state, weight, bias, projection):
    (hidden,) = state
    reset_in, update_in, new_in = np.split(x, 3, axis=-1)
    reset_re, update_re, new_re = np.split(hidden @ weight.T + bias, 3, axis=-1)
    update = sigmoid_of(update_in + update_re)
    new = np.tanh(new_in + sigmoid_of(reset_in + reset_re) * new_re)
    return (new + update * (hidden - new),)


def walk(cell, data, sizes, state, weights, biased, backward):
    """One layer in one direction over the rows that are alive at each time."""
    ends = np.cumsum(sizes)
    times = [data[end - size:end] for end, size in zip(ends, sizes)]
    projection = weights[-1] if len(weights) in (3, 5) else None
    bias_in, bias_re = (weights[2], weights[3]) if biased else (0, 0)
    now, outputs = [part.copy() for part in state], [None] * len(times)
    for at in reversed(range(len(times))) if backward else range(len(times)):
        alive = [part[:sizes[at]] for part in now]
        new = cell(times[at] @ weights[0].T + bias_in, alive, weights[1], bias_re, projection)
        for part, value in zip(now, new):
            part[:sizes[at]] = value
        outputs[at] = new[0]
    return np.concatenate(outputs), now


def recurrent(name, cell, gates, kinds):
    def run(x, *arguments):
        packed = isinstance(arguments[2], (list, tuple))
        if packed:
            sizes, hx, params, biased, count, dropout, train, both = arguments
            sizes, data = [int(size) for size in sizes], x
        else:
            hx, params, biased, count, dropout, train, both, first = arguments
            x = np.swapaxes(x, 0, 1) if first else x
            sizes, data = [x.shape[1]] * x.shape[0], x.reshape(-1, x.shape[-1])
        if dropout and train and count > 1:
            raise NotImplementedError("loader: dropout in training mode")
        ways = 2 if both else 1
        each = len(params) // (count * ways)
        groups = [params[at:at + each] for at in range(0, len(params), each)]
        if hx is None:
            rows, width = groups[0][1].shape
            hx = [np.zeros((count * ways, sizes[0], size), x.dtype) for size in (width, rows // gates)[:kinds]]
        hx = list(hx) if isinstance(hx, (list, tuple)) else [hx]
        lasts = []
        for layer in range(count):
            outputs = []
            for way in range(ways):
                place = layer * ways + way
                out, last = walk(cell, data, sizes, [state[place] for state in hx], groups[place], biased, way == 1)
                outputs.append(out)
                lasts.append(last)
            data = np.concatenate(outputs, axis=-1)
        if not packed:
            data = data.reshape(len(sizes), sizes[0], -1)
            data = np.swapaxes(data, 0, 1) if first else data
        return (data, *(np.stack(kind) for kind in zip(*lasts)))
    op(name)(run)


for _name, _cell, _gates, _kinds in (("rnn_tanh", tanh_cell, 1, 1), ("rnn_relu", relu_cell, 1, 1), ("gru", gru_cell, 3, 1), ("lstm", lstm_cell, 4, 2)):
    recurrent(_name, _cell, _gates, _kinds)


@op("_pack_padded_sequence")
def pack(x, lengths, batch_first):
    x = np.swapaxes(x, 0, 1) if batch_first else x
    if len(lengths) != x.shape[1] or min(lengths) <= 0 or max(lengths) > x.shape[0] or any(np.diff(lengths) > 0):
        raise ValueError(f"lengths {list(lengths)} do not fit a padded batch of {list(x.shape)}")
    sizes = [int((lengths > at).sum()) for at in range(int(max(lengths)))]
    return np.concatenate([x[at, :size] for at, size in enumerate(sizes)]), np.array(sizes)


@op("_pad_packed_sequence")
def pad_packed(data, sizes, batch_first, padding_value, total_length):
    longest = max(len(sizes), total_length)
    if 0 <= total_length < len(sizes):
        raise ValueError(f"total_length={total_length}: the longest sequence has {len(sizes)}")
    out = np.full((longest, int(sizes[0]), *data.shape[1:]), padding_value, data.dtype)
    start = 0
    for at, size in enumerate(sizes):
        out[at, :size] = data[start:start + size]
        start += size
    return (np.swapaxes(out, 0, 1) if batch_first else out), np.array([(sizes > at).sum() for at in range(int(sizes[0]))])


@op("pad_sequence")
def pad_sequence(items, batch_first=False, padding_value=0.0, padding_side="right"):
    longest = max(item.shape[0] for item in items)
    out = np.full((len(items), longest, *items[0].shape[1:]), padding_value, items[0].dtype)
    for row, item in zip(out, items):
        row[slice(longest - len(item), None) if padding_side == "left" else slice(len(item))] = item
    return out if batch_first else np.swapaxes(out, 0, 1)
