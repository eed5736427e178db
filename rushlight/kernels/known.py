"""What lowering knows of the tensors and numbers that come in: shape, strides, dtype, which of it is open.

Tracing gives the sizes of the moment; where capture says that they vary they become symbols (`sizes.py`).
"""

from collections.abc import Collection
from typing import Any

import numpy as np

from ..core import dtypes
from ..graph import Node
from ..tensor import Tensor
from .arrays import Source, contiguous
from .make import Maker
from .sizes import Sizes, typical


class Known:
    """Shape, strides (elements) and dtype of a tensor that a segment takes in; `symbol` names a Python number's."""

    __slots__ = ("shape", "strides", "dtype", "symbol")

    def __init__(self, shape: tuple, strides: tuple, dtype: str, symbol: str | None = None):
        self.shape, self.strides, self.dtype, self.symbol = shape, strides, dtype, symbol

    def source(self, make: Maker, buffer: str) -> Any:
        """The input that it is, under the name of a buffer."""
        if self.symbol is not None:
            return make.given(buffer, self.dtype, self.symbol)
        return make.intern(Source, buffer, self.shape, self.dtype, self.strides, 0)

    @classmethod
    def of(cls, value: Any, sizes: Sizes | None = None, dims: Collection[int] = ()) -> "Known | None":
        """What is known of a tensor, the sizes of `dims` as symbols (or as the sizes that `dims` has for them)."""
        if isinstance(value, Tensor) and type(getattr(value, "_array", None)) is np.ndarray:
            array = value._array
            strides = tuple(s // array.itemsize for s in array.strides)
            if sizes is not None and dims:
                free: dict[int, Any] = dims if isinstance(dims, dict) else {dim: sizes.size(array.shape[dim]) for dim in dims}
                shape = tuple(free.get(dim, n) for dim, n in enumerate(array.shape))
                return cls(shape, open_strides(shape, strides), value._dtype.name)
            return cls(array.shape, strides, value._dtype.name)
        given, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if given is None or not isinstance(dtype, dtypes.dtype) or any(type(n) is not int for n in given):
            return None
        return cls(tuple(given), contiguous(tuple(given)), dtype.name)

    @classmethod
    def traced(cls, value: Any, guess: Sizes | None = None) -> "Known | None":
        """What is known of a result from tracing: that it stands still in memory only says that its values were forgotten.

        With `guess`, sizes that equal a symbol's now are taken to be it: the program that reads them checks that.
        """
        found = cls.of(value)
        if found is not None and guess is not None:
            shape = tuple(guess.size(n) if f"s{n}" in guess.hints else n for n in found.shape)
            return cls(shape, contiguous(shape) if 0 in found.strides else open_strides(shape, found.strides), found.dtype)
        return found if found is None or 0 not in found.strides else cls(found.shape, contiguous(found.shape), found.dtype)


def open_strides(shape: tuple, strides: tuple[int, ...]) -> tuple:
    """The strides in terms of the sizes, where the array is dense; the entry checks them in any case."""
    found, step = list(strides), 1
    for dim in sorted((d for d in range(len(shape)) if strides[d]), key=lambda d: (strides[d], typical(shape[d]) == 1, -d)):
        if strides[dim] == typical(step):
            found[dim] = step
        step = found[dim] * shape[dim]
    return tuple(found)


def traced_shape(node: Node) -> tuple | None:
    return getattr(getattr(node.meta.get("val", node.meta.get("example_value")), "_array", None), "shape", None)
