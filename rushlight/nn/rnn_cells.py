"""The cells that make one recurrent step at a time; the steps themselves stand in ops/recurrent.py."""

from __future__ import annotations

import math
from typing import Any

from rushlight import ops
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.ops.recurrent import recurrent_cell
from rushlight.tensor import Tensor


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
        states = recurrent_cell(mode, input, states, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
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
