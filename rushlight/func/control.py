"""Control flow as functions: cond, while_loop, scan, map. In eager mode they are what Python's own statements are."""
import builtins

from ..core.pytree import tree_flatten, tree_map, tree_unflatten
from ..ops import stack
from ..tensor import Tensor


def cond(pred, true_fn, false_fn, operands=()):
    """true_fn(*operands) if pred holds, else false_fn(*operands). pred: a bool or a tensor of one element.

    >>> import rushlight as torch
    >>> torch.cond(torch.tensor(True), torch.sin, torch.cos, (torch.zeros(1),))
    tensor([0.])
    """
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not isinstance(pred, (bool, Tensor)):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, but got {operands}.")
    return true_fn(*operands) if pred else false_fn(*operands)


def while_loop(cond_fn, body_fn, carried_inputs, additional_inputs=()):
    """Run body_fn on the carried values as long as cond_fn of them holds; returns the last values.

    >>> import rushlight as torch
    >>> from rushlight.func import while_loop
    >>> while_loop(lambda i: i < 3, lambda i: (i + 1,), (torch.tensor(0),))
    (tensor(3),)
    """
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"carried_inputs must be a tuple or list but got {type(carried_inputs)}")
    carried = tuple(carried_inputs)
    while cond_fn(*carried, *additional_inputs):
        result = body_fn(*carried, *additional_inputs)
        result = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        if len(result) != len(carried):
            raise RuntimeError(f"body_fn should return the same number of elements as carried_inputs: expected {len(carried)}, got {len(result)}")
        carried = result
    return carried


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    """Carry a state along a dim: combine_fn(carry, x) -> (carry, y); returns (last carry, all y stacked).

    >>> import rushlight as torch
    >>> from rushlight.func import scan
    >>> scan(lambda c, x: (c + x, c + x), torch.tensor(0), torch.tensor([1, 2, 3]))
    (tensor(6), tensor([1, 3, 6]))
    """
    leaves, spec = tree_flatten(xs)
    steps = range(leaves[0].shape[dim])
    carry, outputs = init, []
    for at in reversed(steps) if reverse else steps:
        carry, output = combine_fn(carry, tree_unflatten([leaf.select(dim, at) for leaf in leaves], spec))
        outputs.append(output)
    if reverse:
        outputs.reverse()
    return carry, tree_map(lambda *parts: stack(parts), outputs[0], *outputs[1:])


def map(f, xs, *args):
    """f of each slice along the first dim, stacked.

    >>> import rushlight as torch
    >>> from rushlight.func import map
    >>> map(lambda x: x * 2, torch.tensor([1, 2]))
    tensor([2, 4])
    """
    leaves, spec = tree_flatten(xs)
    rows = [f(tree_unflatten([leaf.select(0, at) for leaf in leaves], spec), *args) for at in builtins.range(leaves[0].shape[0])]
    return tree_map(lambda *parts: stack(parts), rows[0], *rows[1:])


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """All prefixes of xs along dim under an associative combine_fn(x, y): a tree of tensors of the sizes of xs.

    >>> import rushlight as torch
    >>> from rushlight.func.control import associative_scan
    >>> associative_scan(lambda x, y: x * y, torch.tensor([1, 2, 3]), 0)
    tensor([1, 2, 6])
    """
    leaves, spec = tree_flatten(xs)
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must be either 'pointwise' or 'generic', but got {combine_mode}")
    steps = [tree_unflatten([leaf.select(dim, at) for leaf in leaves], spec) for at in builtins.range(leaves[0].shape[dim])]
    found = []
    for step in reversed(steps) if reverse else steps:
        found.append(combine_fn(found[-1], step) if found else step)
    if reverse:
        found.reverse()
    return tree_map(lambda *parts: stack(parts, dim), found[0], *found[1:])
