"""The memory under tensors, found once each, so that views of one storage are saved once and share again when loaded."""
import numpy as np

from ..tensor import storage_array


class Storages:
    """Gives each storage a number, in the order of first use, and keeps its bytes."""

    def __init__(self):
        self.buffers, self.kept, self.numbers, self.types = [], [], {}, {}

    def place(self, tensor, where):
        """Number and element count of the tensor's storage, the tensor's offset and strides in elements."""
        array = tensor._array
        memory = block_of(storage_array(tensor))
        size = array.itemsize
        strides = tuple(step // size for step in array.strides)
        if array.size == 0:
            memory, strides = np.empty(0, array.dtype), dense_strides(array.shape)
        elif memory is None or any(step < 0 or step % size for step in array.strides) or (address(array) - address(memory)) % size \
                or memory.nbytes % size:
            memory = np.ascontiguousarray(array).reshape(-1)  # not expressible as a part of its storage: saved on its own
            array, strides = memory, dense_strides(array.shape)
        key = (address(memory), memory.nbytes) if memory.nbytes else (id(tensor), 0)
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.buffers)
            self.buffers.append(memory.reshape(-1).view(np.uint8))
            self.kept.append((tensor, memory))
            self.types[number] = tensor._dtype
        elif self.types[number] is not tensor._dtype:
            raise RuntimeError(f"{where}: Cannot save multiple tensors or storages that view the same data as different types: "
                               f"{self.types[number]} and {tensor._dtype}. Save a clone() of one of them")
        return number, memory.nbytes // size, (address(array) - address(memory)) // size if array.size else 0, strides


def block_of(owner):
    """The contiguous block of memory that an owning array stands for, flat; None when it is none."""
    if owner.flags.c_contiguous:
        return owner.reshape(-1)
    transposed = owner.transpose(sorted(range(owner.ndim), key=lambda dim: -abs(owner.strides[dim])))
    return transposed.reshape(-1) if transposed.flags.c_contiguous else None


def address(array):
    return array.__array_interface__["data"][0]


def dense_strides(shape):
    """C-order strides in elements, as PyTorch gives them."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
