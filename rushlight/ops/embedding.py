"""Tables looked up by index: embedding, embedding_bag, one_hot. Indices never wrap around: a negative one is an error."""
import numpy as np

from ..core import dtypes
from ..core.errors import type_name
from ..tensor import Tensor, bump
from .arguments import need_tensors
from .attach import publish
from .creation import arange
from .record import composite, primitive
from .runs import reduced, runs_of


def check_rows(input, rows):
    """Refuse indices outside the table."""
    if np.maximum.reduce(input.view(np.uint64 if input.itemsize == 8 else np.uint32), axis=None, initial=0) >= rows:
        bad = (input < 0) | (input >= rows)
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise IndexError(f"index out of range in self: index {int(input[at])} at position {at}, the table has {rows} rows")


def raw_embedding_backward(g, input, rows, padding_idx, by_frequency):
    """The sum of the gradients of each row of the table."""
    width = g.shape[-1]
    flat, parts = input.reshape(-1), g.reshape(-1, width)
    result = np.zeros((rows, width), g.dtype)
    if not flat.size:
        return result
    if by_frequency:
        counts = np.bincount(flat, minlength=rows)
        parts = parts / counts[flat][:, None].astype(g.dtype)
    if flat.size < 48:
        for row, part in zip(flat.tolist(), parts):
            result[row] += part
    else:
        order, starts, distinct = runs_of(flat, rows)
        result[distinct] = reduced(np.add, parts, order, starts)
    if padding_idx is not None and padding_idx >= 0:
        result[padding_idx] = 0
    return result


@primitive(tensors=("grad", "input"), where="", family="scatter",
           grad=dict(grad=lambda g, input, padding_idx, by_frequency: embedding_rows(g, input, padding_idx, by_frequency)))
def embedding_backward(grad, input, rows, padding_idx, by_frequency):
    return raw_embedding_backward(grad, input, rows, padding_idx, by_frequency)


@primitive(tensors=("table", "input"), where="", family="gather",
           grad=dict(table=lambda g, input, table_shape, padding_idx, by_frequency: embedding_backward(
               g, input, table_shape[0], padding_idx, by_frequency)))
def embedding_rows(table, input, padding_idx, by_frequency):
    """The adjoint of `embedding_backward`: rows, zero for the padding, divided by their frequency if asked for."""
    result = table[input]
    if padding_idx is not None and padding_idx >= 0:
        result[input == padding_idx] = 0
    if by_frequency:
        counts = np.bincount(input.reshape(-1), minlength=table.shape[0])
        result /= counts[input][..., None].astype(table.dtype)
    return result


@primitive(tensors=("weight", "input"), where="", family="gather", node="EmbeddingBackward0",
           grad=dict(weight=lambda g, input, weight_shape, padding_idx, by_frequency: embedding_backward(
               g, input, weight_shape[0], padding_idx, by_frequency)))
def _embedding(weight, input, padding_idx=-1, by_frequency=False):
    check_rows(input, weight.shape[0])
    return weight.take(input, axis=0)


def check_indices(name, input):
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'indices' (position 2) must be Tensor, not {type_name(input)}")
    if input._dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(f"Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
                           f"torch.{input._dtype.tensor_name} instead (while checking arguments for {name})")


def renormalize(weight, input, max_norm, norm_type):
    """Scale down, in place, the rows in use whose norm is above max_norm."""
    check_rows(input._array, weight.shape[0])
    rows = np.unique(input._array)
    table = weight._array
    values = table[rows].astype(np.float64)
    norms = np.linalg.norm(values, ord=norm_type, axis=1) if rows.size else np.zeros(0)
    large = norms > max_norm
    if large.any():
        table[rows[large]] = (values[large] * (max_norm / (norms[large] + 1e-7))[:, None]).astype(table.dtype)
    bump(weight)


def padding_row(padding_idx, rows):
    if padding_idx is None:
        return -1
    if not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx + rows if padding_idx < 0 else padding_idx


@composite("nn")
def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """The rows of weight (num, dim) that input (any shape, integers) names -> (*, dim).

    sparse is accepted, the gradient is dense all the same. padding_idx: a row that gets no gradient. max_norm: rows in use are scaled down to this norm, in place.
    IndexError for an index outside the table, negative ones included.

    >>> import rushlight as torch
    >>> torch.nn.functional.embedding(torch.tensor([1]), torch.tensor([[1.0], [2.0]]))
    tensor([[2.]])
    """
    need_tensors("embedding", weight=weight, indices=input)
    padding = -1 if padding_idx is None else padding_row(padding_idx, weight.shape[0])
    if max_norm is not None:
        check_indices("embedding", input)
        renormalize(weight, input, max_norm, norm_type)
    return torch_embedding(weight, input, padding, scale_grad_by_freq, sparse)


def torch_embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    """`torch.embedding`: nn.functional.embedding with PyTorch's other order of arguments."""
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    check_indices("embedding", indices)
    return _embedding(weight, indices, padding_idx, scale_grad_by_freq)


publish("torch", "embedding", torch_embedding)


# Bags: sums, means or maxima of rows.


def bag_numbers(count, offsets, total):
    """Which bag each of `total` indices belongs to."""
    return np.searchsorted(offsets[:count], np.arange(total), side="right") - 1


def bag_kernel(weight, input, offsets, per_sample_weights, mode, padding_idx, count):
    plain = weight.dtype.kind == "f" and weight.itemsize >= 4
    if mode != "max" and padding_idx < 0 and plain and same_lengths(offsets, input.size, count):
        rows = weight.take(input, 0).reshape(count, input.size // count, weight.shape[1])
        factors = np.ones((1, rows.shape[1]), weight.dtype) if per_sample_weights is None else per_sample_weights.reshape(count, 1, -1)
        sums = np.matmul(factors, rows).reshape(count, -1)  # a quarter of the time of add.reduce
        return np.divide(sums, weight.dtype.type(rows.shape[1]), out=sums) if mode == "mean" else sums
    bags = bag_numbers(count, offsets, input.size)
    if padding_idx >= 0:
        keep = input != padding_idx
        bags, input = bags[keep], input[keep]
        per_sample_weights = None if per_sample_weights is None else per_sample_weights[keep]
    result = np.zeros((count, weight.shape[1]), weight.dtype)
    if not input.size or not count:
        return result
    starts = np.flatnonzero(np.concatenate(([True], bags[1:] != bags[:-1])))
    result[bags[starts]] = reduced(np.maximum if mode == "max" else np.add, weight, input, starts, per_sample_weights)
    if mode == "mean":
        result /= np.maximum(np.bincount(bags, minlength=count), 1)[:, None].astype(weight.dtype)
    return result


def same_lengths(offsets, total, count):
    """True if every bag has the same number of indices, and some."""
    length = total // count if count else 0
    return length > 0 and length * count == total and np.array_equal(offsets[:count], np.arange(0, total, length))


def raw_bag_backward(g, weight, input, offsets, per_sample_weights, mode, padding_idx, count, by_frequency):
    bags = bag_numbers(count, offsets, input.size)
    if padding_idx >= 0:
        keep = input != padding_idx
        bags, input = bags[keep], input[keep]
        per_sample_weights = None if per_sample_weights is None else per_sample_weights[keep]
    result = np.zeros(weight.shape, g.dtype)
    if not input.size or not count:
        return result
    if mode == "max":
        return bag_max_backward(g, weight, input, bags, result)
    if mode == "mean":
        g = g / np.maximum(np.bincount(bags, minlength=count), 1)[:, None].astype(g.dtype)
    order, starts, distinct = runs_of(input, weight.shape[0])
    factors = None if per_sample_weights is None else per_sample_weights[order]
    if by_frequency:
        shares = (1 / np.bincount(input, minlength=weight.shape[0]).take(input[order])).astype(g.dtype)
        factors = shares if factors is None else factors * shares
    result[distinct] = reduced(np.add, g, bags[order], starts, factors)
    return result


def bag_max_backward(g, weight, input, bags, result):
    """Each column of a bag passes its gradient to the first row that has the maximum."""
    starts = np.flatnonzero(np.concatenate(([True], bags[1:] != bags[:-1])))
    best = reduced(np.maximum, weight, input, starts)
    run = np.repeat(np.arange(starts.size), np.diff(np.append(starts, bags.size)))
    at, column = (found[::-1] for found in np.nonzero(weight.take(input, 0) == best[run]))  # backwards, so that the first one stays
    winners = np.full(best.shape, -1, np.int64)
    winners[run[at], column] = input[at]
    row, column = np.nonzero(winners >= 0)
    np.add.at(result.reshape(-1), winners[row, column] * weight.shape[1] + column, g[bags[starts[row]], column])
    return result


@primitive(tensors=("grad", "weight", "input", "offsets", "per_sample_weights"), where="", family="scatter", node="EmbeddingBagBackwardBackward0",
           grad=dict(grad=lambda g, input, offsets, per_sample_weights, mode, padding_idx, count: _embedding_bag(
               g, input, offsets, per_sample_weights, mode, padding_idx, count)))
def bag_backward(grad, weight, input, offsets, per_sample_weights=None, mode="sum", padding_idx=-1, count=0, by_frequency=False):
    return raw_bag_backward(grad, weight, input, offsets, per_sample_weights, mode, padding_idx, count, by_frequency)


@composite("", raw=lambda g, weight, input, offsets, padding_idx, count: np.where(
    input != padding_idx, np.einsum("ij,ij->i", g[bag_numbers(count, offsets, input.size)], weight[input]), 0).astype(g.dtype))
def bag_weights_backward(g, weight, input, offsets, padding_idx, count):
    raise NotImplementedError("embedding_bag: second derivative in per_sample_weights")


@primitive(tensors=("weight", "input", "offsets", "per_sample_weights"), where="", family="gather", node="EmbeddingBagBackward0",
           grad=dict(weight=lambda g, weight, input, offsets, per_sample_weights, mode, padding_idx, count, by_frequency: bag_backward(
                         g, weight, input, offsets, per_sample_weights, mode, padding_idx, count, by_frequency),
                     per_sample_weights=lambda g, weight, input, offsets, padding_idx, count: bag_weights_backward(
                         g, weight, input, offsets, padding_idx, count)))
def _embedding_bag(weight, input, offsets, per_sample_weights=None, mode="sum", padding_idx=-1, count=0, by_frequency=False):
    if np.maximum.reduce(input.view(np.uint64 if input.itemsize == 8 else np.uint32), axis=None, initial=0) >= weight.shape[0]:
        bad = (input < 0) | (input >= weight.shape[0])
        at = int(np.flatnonzero(bad)[0])
        raise RuntimeError(f"Index {at} of input takes value {int(input[at])} which is not in the valid range [0, {weight.shape[0]})")
    return bag_kernel(weight, input, offsets, per_sample_weights, mode, padding_idx, count)


def check_offsets(offsets, total):
    """PyTorch's rules for the starts of bags, and that they rise."""
    values = offsets._array
    if values.size and values[0] != 0:
        raise RuntimeError("offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got "
                           f"{int(values[0])}")
    if values.size and values[-1] > total:
        raise RuntimeError(f"offsets[-1] can not be greater than input's length {total} but got offsets[-1] of {int(values[-1])}")
    wrong = np.flatnonzero((values[1:] < values[:-1]) | (values[1:] > total))
    if wrong.size:
        at = int(wrong[0]) + 1
        raise RuntimeError(f"Expected i < index_size to be true, but got false: offsets[{at}] = {int(values[at])} must not be below "
                           f"offsets[{at - 1}] = {int(values[at - 1])}, nor above {total}, the count of indices")


@composite("nn")
def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean", sparse=False,
                  per_sample_weights=None, include_last_offset=False, padding_idx=None):
    """The sum, mean or max of the rows of weight that each bag of indices names -> (bags, dim).

    input: (bags, n), or all indices in one dim with the start of each bag in offsets.

    >>> import rushlight as torch
    >>> torch.nn.functional.embedding_bag(torch.tensor([[0, 1]]), torch.tensor([[1.0], [2.0]]), mode="sum")
    tensor([[3.]])
    """
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(f"embedding_bag: If per_sample_weights ({per_sample_weights.size()}) is not None, then it must have the same shape as "
                         f"the input ({input.size()})")
    if weight.ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. "
                             f"However, found offsets of type {type(offsets)}")
        offsets = bag_starts(input)
        input = input.reshape(-1)
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    elif input.ndim == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.ndim != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if max_norm is not None:
        renormalize(weight, input, max_norm, norm_type)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError("embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got "
                                  f"mode='{mode}'). Please open a feature request on GitHub.")
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise RuntimeError(f"padding_idx must be within the number of embeddings, -{rows} through {rows - 1} but got {padding_idx}")
    check_indices("embedding_bag", input)
    check_indices("embedding_bag", offsets)
    if include_last_offset and not offsets.numel():
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    check_offsets(offsets, input.numel())
    if per_sample_weights is not None and per_sample_weights._dtype is not weight._dtype:
        raise RuntimeError(f"expected scalar type {weight._dtype.tensor_name.removesuffix('Tensor')} but found "
                           f"{per_sample_weights._dtype.tensor_name.removesuffix('Tensor')}")
    count = offsets.numel() - (1 if include_last_offset else 0)
    padding = -1 if padding_idx is None else padding_idx % rows
    return _embedding_bag(weight, input, offsets, per_sample_weights, mode, padding, count, scale_grad_by_freq)


def bag_starts(input):
    return arange(0, input.numel(), input.shape[1]) if input.numel() else arange(input.shape[0]) * 0


@primitive(where="", family="opaque", dtype=dtypes.int64)
def _one_hot(input, num_classes):
    result = np.zeros((input.size, num_classes), np.int64)
    result[np.arange(input.size), input.reshape(-1)] = 1
    return result.reshape(*input.shape, num_classes)


@composite("nn")
def one_hot(tensor, num_classes=-1):
    """For each integer c a row of num_classes zeros with a one at c; -1: as many classes as needed.

    >>> import rushlight as torch
    >>> torch.nn.functional.one_hot(torch.tensor([1, 0]))
    tensor([[0, 1],
            [1, 0]])
    """
    need_tensors("one_hot", input=tensor)
    if tensor._dtype is not dtypes.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if not tensor.numel():
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return _one_hot(tensor, num_classes)
    if num_classes == -1 or type(tensor) is Tensor:
        lowest, highest = int(tensor.min()), int(tensor.max())
        if lowest < 0:
            raise RuntimeError(f"Class values must be non-negative. The lowest is {lowest}.")
        if num_classes == -1:
            num_classes = highest + 1
        elif highest >= num_classes:
            raise RuntimeError(f"Class values must be smaller than num_classes. The highest is {highest}, num_classes {num_classes}.")
    return _one_hot(tensor, num_classes)
