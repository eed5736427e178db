"""Collating: many items to one batch. `default_collate` stacks; `default_convert` only turns arrays into tensors."""
from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from ..core import dtypes
from ..ops import as_tensor, stack, tensor
from ..tensor import Tensor

REFUSAL = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
CollateMap = dict[type | tuple[type, ...], Callable]


def is_textual(array: np.ndarray) -> bool:
    """Whether an array holds strings or Python objects, which no tensor can."""
    return array.dtype.kind in "SUO" or array.dtype.hasobject


def rebuilt_mapping(original: Mapping, entries: dict) -> Any:
    """A mapping of the kind of `original` with these entries; a dict if its kind cannot be made from one."""
    try:
        if isinstance(original, MutableMapping):  # a copy keeps what else it holds, such as a default factory
            twin = copy.copy(original)
            twin.update(entries)
            return twin
        return type(original)(entries)  # type: ignore[call-arg]
    except TypeError:
        return entries


def rebuilt_sequence(original: Sequence, entries: list) -> Any:
    """A sequence of the kind of `original` with these entries; a list if its kind cannot be made from one."""
    try:
        if isinstance(original, MutableSequence):
            twin = copy.copy(original)
            for index, entry in enumerate(entries):
                twin[index] = entry
            return twin
        return type(original)(entries)  # type: ignore[call-arg]
    except TypeError:
        return entries


def default_convert(data: Any) -> Any:
    """NumPy arrays and numbers as tensors, inside mappings and sequences too; anything else as it is.

    >>> import numpy, rushlight as torch
    >>> torch.utils.data.default_convert([numpy.arange(2), "text"])
    [tensor([0, 1]), 'text']
    """
    if isinstance(data, Tensor):
        return data
    if isinstance(data, np.ndarray):
        return data if is_textual(data) else as_tensor(data)
    if isinstance(data, np.generic) and not isinstance(data, (np.str_, np.bytes_)):
        return as_tensor(data)
    if isinstance(data, Mapping):
        return rebuilt_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple):
        converted = [default_convert(entry) for entry in data]
        return type(data)(*converted) if hasattr(data, "_fields") else converted
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return rebuilt_sequence(data, [default_convert(entry) for entry in data])
    return data


def collate(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    """Collate by the type of the first item: with the function that the map names for it, else entry by entry.

    TypeError for a type that nothing is known of, RuntimeError for sequences of unequal length.
    """
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        function = collate_fn_map.get(kind)
        if function is None:
            function = next((collate_fn_map[known] for known in collate_fn_map if isinstance(first, known)), None)
        if function is not None:
            return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        return rebuilt_mapping(first, {key: collate([item[key] for item in batch], collate_fn_map=collate_fn_map) for key in first})
    if isinstance(first, Sequence):
        if not hasattr(first, "_fields") and any(len(item) != len(first) for item in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch)]
        if isinstance(first, tuple):
            return kind(*columns) if hasattr(first, "_fields") else columns
        return rebuilt_sequence(first, columns)
    raise TypeError(REFUSAL.format(kind))


def collate_tensor_fn(batch: Sequence[Tensor], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Tensors of one shape as one tensor with a new first dim."""
    return stack(list(batch), 0)


def collate_numpy_array_fn(batch: Sequence[np.ndarray], *, collate_fn_map: CollateMap | None = None) -> Any:
    """Arrays as tensors, then as those are collated."""
    if is_textual(batch[0]):
        raise TypeError(REFUSAL.format(batch[0].dtype))
    return collate([as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """NumPy's numbers as a vector of their dtype."""
    return as_tensor(np.asarray(batch))


def collate_float_fn(batch: Sequence[float], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Python floats as a float64 vector, which is what they are."""
    return tensor(batch, dtype=dtypes.float64)


def collate_int_fn(batch: Sequence[int], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """ints as an int64 vector, bools as a bool vector."""
    return tensor(batch)


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    """Text stays a list."""
    return batch


default_collate_fn_map: CollateMap = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,  # before float: np.float64 is one, too
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Sequence[Any]) -> Any:
    """One batch from a list of items: tensors are stacked, numbers become vectors, mappings and sequences go by entry.

    TypeError for items that are none of these, RuntimeError for tensors or lists of unequal sizes.

    >>> import rushlight as torch
    >>> torch.utils.data.default_collate([(torch.tensor([1, 2]), 0.5), (torch.tensor([3, 4]), 0.25)])
    [tensor([[1, 2],
            [3, 4]]), tensor([0.5000, 0.2500], dtype=torch.float64)]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
