"""Sequences of different lengths: padding them into one tensor, and packing them without padding."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Sequence
from typing import Any

import rushlight.recurrent as recurrent
from rushlight import ops
from rushlight.core import dtypes
from rushlight.tensor import Tensor

_Fields = namedtuple("_Fields", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])


class PackedSequence(_Fields):
    """Sequences packed time by time: `data` holds the rows of time 0, then of time 1, ...

    `batch_sizes[t]` is how many sequences are longer than t; `sorted_indices` is the order, longest first, in which
    they were packed, and `unsorted_indices` leads back. Made by `pack_padded_sequence` and `pack_sequence`.
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Any,
        batch_sizes: Any = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("Expected data to be a tuple of (data, batch_sizes)")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. "
                "Instances of PackedSequence should never be created manually. They should be instantiated by "
                "functions like pack_sequence and pack_padded_sequences in nn.utils.rnn. "
                "https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same packing with `data` converted as `Tensor.to` does."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else self._replace(data=data)

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Itself: it lives on the CPU."""
        return self.to("cpu")

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Raise: there is no CUDA device here."""
        return self.to("cuda")

    def pin_memory(self) -> PackedSequence:
        """Itself: there is no device to pin memory for."""
        return self

    def double(self) -> PackedSequence:
        """`data` in float64."""
        return self.to(dtype=dtypes.double)

    def float(self) -> PackedSequence:
        """`data` in float32."""
        return self.to(dtype=dtypes.float)

    def half(self) -> PackedSequence:
        """`data` in float16."""
        return self.to(dtype=dtypes.half)

    def long(self) -> PackedSequence:
        """`data` in int64."""
        return self.to(dtype=dtypes.long)

    def int(self) -> PackedSequence:
        """`data` in int32."""
        return self.to(dtype=dtypes.int)

    @property
    def is_cuda(self) -> bool:
        """False."""
        return False

    def is_pinned(self) -> bool:
        """False."""
        return False


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes `permutation`."""
    return None if permutation is None else ops.argsort(permutation)


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded batch.

    Args:
        input: (T, N, *), or (N, T, *) with `batch_first`.
        lengths: the N lengths, a tensor or list.
        enforce_sorted: RuntimeError unless the lengths fall; if false they are sorted.

    Raises:
        RuntimeError: a length below 1, or another number of lengths than N.
        ValueError: a length over T.

    Example:
        >>> import rushlight as torch
        >>> rnn = torch.nn.utils.rnn
        >>> rnn.pack_padded_sequence(torch.tensor([[1, 2], [3, 0]]), [2, 1], batch_first=True).data
        tensor([1, 3, 2])
    """
    if not isinstance(lengths, Tensor):
        lengths = ops.tensor([*lengths], dtype=dtypes.long)
    sorted_indices = None
    if not enforce_sorted:
        lengths, sorted_indices = ops.sort(lengths, descending=True)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    data, batch_sizes = recurrent._pack_padded_sequence(input, lengths, batch_first)
    return PackedSequence(data, batch_sizes, sorted_indices, None)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Undo `pack_padded_sequence`: the padded batch (T, N, *), and the lengths (N,).

    `total_length` pads further; ValueError if it is less than the longest sequence.
    """
    data, batch_sizes, _, unsorted_indices = sequence
    padded, lengths = recurrent._pad_packed_sequence(data, batch_sizes, batch_first, padding_value, -1 if total_length is None else total_length)
    if unsorted_indices is not None:
        return padded.index_select(0 if batch_first else 1, unsorted_indices), lengths[unsorted_indices]
    return padded, lengths


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Stack sequences (L_i, *) into one tensor (T, N, *), padded to the longest.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.utils.rnn.pad_sequence([torch.ones(2), torch.ones(1)], batch_first=True)
        tensor([[1., 1.],
                [1., 0.]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    sequences = list(sequences.unbind(0)) if isinstance(sequences, Tensor) else list(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    return recurrent.pad_sequence(sequences, batch_first, padding_value, padding_side)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Undo `pad_sequence`: the sequences, cut to their lengths.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.utils.rnn.unpad_sequence(torch.ones(2, 2), torch.tensor([2, 1]), batch_first=True)
        [tensor([1., 1.]), tensor([1.])]
    """
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    counts = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
    return [sequence[:count] for sequence, count in zip(padded_sequences.unbind(0), counts)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (L_i, *).

    Example:
        >>> import rushlight as torch
        >>> torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]).batch_sizes
        tensor([2, 1])
    """
    lengths = [sequence.size(0) for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Undo `pack_sequence`: the list of sequences."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


for _function in (pack_padded_sequence, pad_packed_sequence):  # a graph would be one for each list of lengths
    _function.__dict__["_rushlight_disabled"] = "goes by the values of the lengths"
