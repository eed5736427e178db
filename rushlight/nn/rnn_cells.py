"""One step of each recurrent mode, and the cells that make one step at a time.

A step takes the projected input, the tuple of states, the recurrent weight transposed, its bias, and the projection
of an LSTM, and returns the new states; both biases stand in the projected input already, but for a GRU, whose reset
gate acts on the recurrent one. rnn.py walks over time with the same steps.
"""

from __future__ import annotations

import math
from typing import Any

from rushlight import ops
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.ops import functional as F
from rushlight.tensor import Tensor

GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "GRU": 3, "LSTM": 4}


def tanh_step(
    projected: Tensor, state: tuple[Tensor, ...], weight: Tensor, bias: Tensor | None, projection: Tensor | None = None
) -> tuple[Tensor, ...]:
    """h = tanh(projected + W h)."""
    return (ops.tanh(projected + ops.mm(state[0], weight)),)


def relu_step(
    projected: Tensor, state: tuple[Tensor, ...], weight: Tensor, bias: Tensor | None, projection: Tensor | None = None
) -> tuple[Tensor, ...]:
    """h = relu(projected + W h)."""
    return (ops.relu(projected + ops.mm(state[0], weight)),)


def lstm_step(
    projected: Tensor, state: tuple[Tensor, ...], weight: Tensor, bias: Tensor | None, projection: Tensor | None = None
) -> tuple[Tensor, ...]:
    """The LSTM's step, gates in the order input, forget, cell, output."""
    hidden, cell = state
    enter, forget, new, leave = (projected + ops.mm(hidden, weight)).chunk(4, -1)
    cell = ops.sigmoid(forget) * cell + ops.sigmoid(enter) * ops.tanh(new)
    hidden = ops.sigmoid(leave) * ops.tanh(cell)
    if projection is not None:
        hidden = F.linear(hidden, projection)
    return hidden, cell


def gru_step(
    projected: Tensor, state: tuple[Tensor, ...], weight: Tensor, bias: Tensor | None, projection: Tensor | None = None
) -> tuple[Tensor, ...]:
    """The GRU's step, gates in the order reset, update, new; reset acts on the recurrent part with its bias."""
    (hidden,) = state
    reset_in, update_in, new_in = projected.chunk(3, -1)
    recurrent = ops.mm(hidden, weight) if bias is None else ops.mm(hidden, weight) + bias
    reset_re, update_re, new_re = recurrent.chunk(3, -1)
    update = ops.sigmoid(update_in + update_re)
    new = ops.tanh(new_in + ops.sigmoid(reset_in + reset_re) * new_re)
    return (new + update * (hidden - new),)


def project(mode: str, input: Tensor, weight: Tensor, bias: Tensor | None, recurrent_bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The input's part of all gates, and the bias that is left for the steps."""
    if bias is None or recurrent_bias is None or mode == "GRU":
        return F.linear(input, weight, bias), recurrent_bias
    return F.linear(input, weight, bias + recurrent_bias), None


STEPS = {"RNN_TANH": tanh_step, "RNN_RELU": relu_step, "LSTM": lstm_step, "GRU": gru_step}


class RNNCellBase(Module):
    """Weights and checks that the cells share."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(ops.empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(ops.empty((rows, hidden_size), device=device, dtype=dtype))
        if bias:
            self.bias_ih = Parameter(ops.empty(rows, device=device, dtype=dtype))
            self.bias_hh = Parameter(ops.empty(rows, device=device, dtype=dtype))
        else:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew, uniform in +-1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def _step(self, mode: str, input: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Check sizes, add a batch dim where there is none, and make the step."""
        batched = input.dim() == 2
        if not batched:
            input, states = input.unsqueeze(0), tuple(state.unsqueeze(0) for state in states)
        if input.size(1) != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {input.size(1)} expected {self.input_size}"
            )
        for number, state in enumerate(states):
            if input.size(0) != state.size(0):
                raise RuntimeError(
                    f"Input batch size {input.size(0)} doesn't match hidden{number} batch size {state.size(0)}"
                )
            if state.size(1) != self.hidden_size:
                raise RuntimeError(
                    f"hidden{number} has inconsistent hidden_size: got {state.size(1)}, expected {self.hidden_size}"
                )
        projected, bias = project(mode, input, self.weight_ih, self.bias_ih, self.bias_hh)
        states = STEPS[mode](projected, states, self.weight_hh.t(), bias)
        return states if batched else tuple(state.squeeze(0) for state in states)

    def _check(self, input: Tensor, *states: Tensor | None) -> None:
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for number, state in enumerate(states):
            if state is not None and state.dim() not in (1, 2):
                part = f"hx[{number}]" if len(states) > 1 else "hidden"
                raise ValueError(f"{name}: Expected {part} to be 1D or 2D, got {state.dim()}D instead")

    def _zeros(self, input: Tensor) -> Tensor:
        return ops.zeros((*input.shape[:-1], self.hidden_size), dtype=input.dtype)


class RNNCell(RNNCellBase):
    """h = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu: (N, input_size), (N, hidden_size) -> (N, hidden_size).

    Example:
        >>> import rushlight as torch
        >>> torch.nn.RNNCell(10, 20)(torch.randn(3, 10)).shape
        torch.Size([3, 20])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        self._check(input, hx)
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        states = (self._zeros(input) if hx is None else hx,)
        return self._step("RNN_" + self.nonlinearity.upper(), input, states)[0]


class LSTMCell(RNNCellBase):
    """One step of an LSTM: x and (h, c) -> (h, c); without states they are zeros.

    Example:
        >>> import rushlight as torch
        >>> h, c = torch.nn.LSTMCell(10, 20)(torch.randn(3, 10))
        >>> h.shape
        torch.Size([3, 20])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        self._check(input, *(hx if hx is not None else (None, None)))
        if hx is None:
            zeros = self._zeros(input)
            hx = (zeros, zeros)
        hidden, cell = self._step("LSTM", input, tuple(hx))
        return hidden, cell


class GRUCell(RNNCellBase):
    """One step of a GRU: (N, input_size), (N, hidden_size) -> (N, hidden_size).

    >>> import rushlight as torch
    >>> torch.nn.GRUCell(3, 4)(torch.ones(2, 3), torch.zeros(2, 4)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        self._check(input, hx)
        return self._step("GRU", input, (self._zeros(input) if hx is None else hx,))[0]
