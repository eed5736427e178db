"""One recurrent layer in one direction over a whole sequence, made of one step function for each mode; one step alone.

In compiled code a layer is one node, which `kernels/recurrent.py` runs as one native loop.  rushlight/recurrent.py calls
`recurrent_layer` for each layer and direction, nn/rnn_cells.py calls `recurrent_cell`.
"""
from .activation import relu, sigmoid
from .contraction import mm
from .joining import cat, stack
from .linear import linear
from .record import composite
from .trigonometry import tanh

GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "GRU": 3, "LSTM": 4}


def lstm_step(projected, state, weight, projection):
    """The LSTM's step, gates in the order input, forget, cell, output."""
    hidden, cell = state
    enter, forget, new, leave = (projected + mm(hidden, weight)).chunk(4, -1)
    cell = sigmoid(forget) * cell + sigmoid(enter) * tanh(new)
    hidden = sigmoid(leave) * tanh(cell)
    if projection is not None:
        hidden = linear(hidden, projection)
    return hidden, cell


def gru_step(projected, state, weight, bias):
    """The GRU's step, gates in the order reset, update, new; reset acts on the recurrent part with its bias."""
    hidden = state[0]
    reset_in, update_in, new_in = projected.chunk(3, -1)
    recurrent = mm(hidden, weight) if bias is None else mm(hidden, weight) + bias
    reset_re, update_re, new_re = recurrent.chunk(3, -1)
    update = sigmoid(update_in + update_re)
    new = tanh(new_in + sigmoid(reset_in + reset_re) * new_re)
    return (new + update * (hidden - new),)


def recurrent_step(mode, projected, state, weight, bias, projection):
    """The new states, from the input's part of all gates, the states, and the recurrent weight transposed with its bias.

    Both biases stand in `projected` already, but for a GRU, whose reset gate acts on the recurrent one.
    """
    if mode == "LSTM":
        return lstm_step(projected, state, weight, projection)
    if mode == "GRU":
        return gru_step(projected, state, weight, bias)
    total = projected + mm(state[0], weight)
    return (tanh(total) if mode == "RNN_TANH" else relu(total),)


def project(mode, input, weight, bias, recurrent_bias):
    """The input's part of all gates, and the bias that is left for the steps."""
    if bias is None or recurrent_bias is None or mode == "GRU":
        return linear(input, weight, bias), recurrent_bias
    return linear(input, weight, bias + recurrent_bias), None


@composite("")
def recurrent_cell(mode, input, state, weight_ih, weight_hh, bias_ih=None, bias_hh=None):
    """One step: (N, I) and a tuple of states (N, H) -> the new states."""
    projected, bias = project(mode, input, weight_ih, bias_ih, bias_hh)
    return recurrent_step(mode, projected, state, weight_hh.t(), bias, None)


@composite("")
def recurrent_layer(mode, input, state, weight_ih, weight_hh, bias_ih=None, bias_hh=None, weight_hr=None, batch_sizes=None, reverse=False):
    """(outputs at all times, *last states) of one layer in one direction.

    Shapes: input (T, N, I), or (rows, I) where `batch_sizes` says how many rows are alive at each time; state: a tuple of (N, H), for
    an LSTM (h, c); weight_ih (G H, I), weight_hh (G H, P), weight_hr (P, H) or None -> (T, N, P) or (rows, P).
    """
    projected, bias = project(mode, input, weight_ih, bias_ih, bias_hh)
    recurrent = weight_hh.t()
    outputs = []
    if batch_sizes is None:
        times = projected.unbind(0)
        for at in times[::-1] if reverse else times:
            state = recurrent_step(mode, at, state, recurrent, bias, weight_hr)
            outputs.append(state[0])
        return (stack(outputs[::-1] if reverse else outputs), *state)
    times = projected.split(batch_sizes)
    if reverse:
        start = state
        state = tuple([part[: batch_sizes[-1]] for part in start])
        for at, rows in zip(times[::-1], batch_sizes[::-1]):
            alive = state[0].shape[0]
            if rows > alive:  # rows that end here begin here
                state = tuple([cat([part, first[alive:rows]]) for part, first in zip(state, start)])
            state = recurrent_step(mode, at, state, recurrent, bias, weight_hr)
            outputs.append(state[0])
        return (cat(outputs[::-1]), *state)
    ended = []
    for at, rows in zip(times, batch_sizes):
        if rows < state[0].shape[0]:
            ended.append(tuple([part[rows:] for part in state]))
            state = tuple([part[:rows] for part in state])
        state = recurrent_step(mode, at, state, recurrent, bias, weight_hr)
        outputs.append(state[0])
    ended.append(state)
    return (cat(outputs), *[cat(list(parts)) for parts in zip(*ended[::-1])])
