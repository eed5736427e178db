"""Recurrent layers: RNN, LSTM and GRU over padded or packed sequences. Cells stand in rnn_cells.py.

The layers hold weights and check sizes; the walk over time is in rushlight/recurrent.py. Read `RNNBase.forward` first.
"""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

from rushlight import ops
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.nn.utils.rnn import PackedSequence
from rushlight.recurrent import FUNCTIONS, GATES
from rushlight.tensor import Tensor


class RNNBase(Module):
    """What RNN, LSTM and GRU share: arguments, weights, checks, and the walk over time.

    Weights of layer k: `weight_ih_lk` (gates * hidden_size, input), `weight_hh_lk` (gates * hidden_size, hidden),
    `bias_ih_lk`, `bias_hh_lk`, and with `proj_size` `weight_hr_lk`; of the other direction with `_reverse` behind.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}",
                stacklevel=3,
            )
        for name, flag in (("bias", bias), ("batch_first", batch_first)):
            if not isinstance(flag, bool):
                raise TypeError(f"{name} should be of type bool, got: {type(flag).__name__}")
        if not isinstance(input_size, int):
            raise TypeError(f"input_size should be of type int, got: {type(input_size).__name__}")
        if input_size <= 0:
            raise ValueError("input_size must be greater than zero")
        if not isinstance(hidden_size, int):
            raise TypeError(f"hidden_size should be of type int, got: {type(hidden_size).__name__}")
        if hidden_size <= 0:
            raise ValueError("hidden_size must be greater than zero")
        if num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if mode not in GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        directions = 2 if bidirectional else 1
        rows = GATES[mode] * hidden_size
        output = proj_size or hidden_size
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else output * directions
            for suffix in ("", "_reverse")[:directions]:
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, inputs), "weight_hh": (rows, output)}
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                names = []
                for name, shape in shapes.items():
                    names.append(f"{name}_l{layer}{suffix}")
                    setattr(self, names[-1], Parameter(ops.empty(shape, device=device, dtype=dtype)))
                self._all_weights.append(names)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew, uniform in +-1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing to do: weights need not lie in one block here."""

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The weights, one list for each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Tensor]:
        return [getattr(self, name) for name in self._flat_weights_names]

    # Checks.

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise PyTorch's error for an input of the wrong dtype or size."""
        weight = getattr(self, self._all_weights[0][0])
        if input.dtype != weight.dtype:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )
        expected = 2 if batch_sizes is not None else 3
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """(layers * directions, batch, size) of the hidden state that belongs to `input`."""
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.size(0) if self.batch_first else input.size(1)
        directions = 2 if self.bidirectional else 1
        return self.num_layers * directions, batch, self.proj_size or self.hidden_size

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """(layers * directions, batch, hidden_size) of the cell state that belongs to `input`."""
        layers, batch, _ = self.get_expected_hidden_size(input, batch_sizes)
        return layers, batch, self.hidden_size

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, int, int], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """RuntimeError with `msg` unless `hx` has the expected size."""
        if tuple(hx.size()) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Check input and hidden state."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The hidden state with its batch reordered."""
        return hx if permutation is None else hx.index_select(1, permutation)

    # The states a mode has: one tensor, or two for an LSTM.

    def _states(self, hx: Any, batched: bool) -> Any:
        """A given hidden state with a batch dim, or the error of a wrong number of dims."""
        if hx.dim() != (3 if batched else 2):
            kind = "batched 3-D" if batched else "unbatched 2-D"
            wanted = 3 if batched else 2
            raise RuntimeError(f"For {kind} input, hx should also be {wanted}-D but got {hx.dim()}-D tensor")
        return hx if batched else hx.unsqueeze(1)

    def _zeros(self, input: Tensor) -> Any:
        return ops.zeros(self.get_expected_hidden_size(input, None), dtype=input.dtype)

    def _joined(self, last: list[Tensor]) -> Any:
        """The last states as the caller has them: one tensor, or the pair of an LSTM."""
        return last[0]

    def _wrong_dims(self, dims: int) -> ValueError:
        return ValueError(f"RNN: Expected input to be 2D or 3D, got {dims}D tensor instead")

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The outputs of the last layer at all times, and the last states of all layers.

        Args:
            input: (T, N, input_size), (N, T, input_size) with `batch_first`, (T, input_size), or a PackedSequence.
            hx: first states (layers * directions, N, hidden), without N for an unbatched input; zeros unless given.
        """
        packed = isinstance(input, PackedSequence)
        if packed:
            data, batch_sizes, sorted_indices, unsorted_indices = input
            batched = True
            if hx is not None:
                hx = self.permute_hidden(self._states(hx, True), sorted_indices)
        else:
            if input.dim() not in (2, 3):
                raise self._wrong_dims(input.dim())
            batched = input.dim() == 3
            batch_sizes = sorted_indices = unsorted_indices = None
            data = input if batched else input.unsqueeze(0 if self.batch_first else 1)
            if hx is not None:
                hx = self._states(hx, batched)
        options = (self._flat_weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if packed:  # how many sequences there are stands in the values of batch_sizes: zeros, and the check, are the function's
            self.check_input(data, batch_sizes)
            output, *last = FUNCTIONS[self.mode](data, batch_sizes, hx, *options)
            result: Any = PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices)
            return result, self.permute_hidden(self._joined(last), unsorted_indices)
        if hx is None:
            hx = self._zeros(data)
        self.check_forward_args(data, hx, batch_sizes)
        output, *last = FUNCTIONS[self.mode](data, hx, *options, self.batch_first)
        last = self._joined(last)
        if batched:
            return output, last
        return output.squeeze(0 if self.batch_first else 1), self._unbatched(last)

    def _unbatched(self, last: Any) -> Any:
        return last.squeeze(1)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size != 0:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.batch_first is not False:
            text += f", batch_first={self.batch_first}"
        if self.dropout != 0:
            text += f", dropout={self.dropout}"
        if self.bidirectional is not False:
            text += f", bidirectional={self.bidirectional}"
        return text


def _no_projection(arguments: dict[str, Any]) -> None:
    if "proj_size" in arguments:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    """Elman layers: h = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu.

    Args:
        input_size, hidden_size: sizes of x and h.
        num_layers: layers on top of each other.
        nonlinearity: "tanh" or "relu".
        bias, batch_first: whether there are biases; whether the batch is the first dim.
        dropout: probability, between layers.
        bidirectional: a second direction, whose outputs stand behind the first's.

    Example:
        >>> import rushlight as torch
        >>> output, last = torch.nn.RNN(10, 20, 2)(torch.randn(5, 3, 10))
        >>> output.shape, last.shape
        (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _no_projection(kwargs)
        if len(args) > 3:
            nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__("RNN_" + nonlinearity.upper(), *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory layers; gates in the order input, forget, cell, output.

    Args: as for RNN without `nonlinearity`, and `proj_size`: size to which h is projected.

    The states are pairs (h, c).

    Example:
        >>> import rushlight as torch
        >>> output, (h, c) = torch.nn.LSTM(10, 20, batch_first=True)(torch.randn(3, 5, 10))
        >>> output.shape, h.shape
        (torch.Size([3, 5, 20]), torch.Size([1, 3, 20]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Check input and both states."""
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        self.check_hidden_size(hidden[0], expected, "Expected hidden[0] size {}, got {}")
        expected = self.get_expected_cell_size(input, batch_sizes)
        self.check_hidden_size(hidden[1], expected, "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Both states with their batch reordered."""
        return hx if permutation is None else tuple(state.index_select(1, permutation) for state in hx)

    def _states(self, hx: Any, batched: bool) -> Any:
        h, c = hx[0], hx[1]
        wanted = 3 if batched else 2
        if h.dim() != wanted or c.dim() != wanted:
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(
                f"For {kind} input, hx and cx should also be {wanted}-D but got ({h.dim()}-D, {c.dim()}-D) tensors"
            )
        return (h, c) if batched else (h.unsqueeze(1), c.unsqueeze(1))

    def _zeros(self, input: Tensor) -> Any:
        return (
            ops.zeros(self.get_expected_hidden_size(input, None), dtype=input.dtype),
            ops.zeros(self.get_expected_cell_size(input, None), dtype=input.dtype),
        )

    def _joined(self, last: list[Tensor]) -> Any:
        return tuple(last)

    def _wrong_dims(self, dims: int) -> ValueError:
        return ValueError(f"LSTM: Expected input to be 2D or 3D, got {dims}D instead")

    def _unbatched(self, last: Any) -> Any:
        return tuple(state.squeeze(1) for state in last)


class GRU(RNNBase):
    """Gated recurrent layers; gates in the order reset, update, new; the reset gate acts behind b_hn.

    Args: as for RNN without `nonlinearity`.

    Example:
        >>> import rushlight as torch
        >>> output, last = torch.nn.GRU(10, 20, bidirectional=True)(torch.randn(5, 3, 10))
        >>> output.shape, last.shape
        (torch.Size([5, 3, 40]), torch.Size([2, 3, 20]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _no_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)

    def _wrong_dims(self, dims: int) -> ValueError:
        return ValueError(f"GRU: Expected input to be 2D or 3D, got {dims}D instead")
