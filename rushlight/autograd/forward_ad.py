"""`autograd.forward_ad`: dual numbers, a primal with a tangent, inside a `dual_level` block.

A dual tensor is a variable of the recorded graph, and `unpack_dual` differentiates what was computed from it twice: once backward with a
cotangent that is itself a variable, and once more by that variable, which gives J @ tangent (as func.jvp does). So each op needs no rule
of its own for forward mode, and results require grad while they stand for dual tensors.
"""
from collections import namedtuple

from ..core import modes
from ..tensor import Tensor
from .api import directional, released

UnpackedDualTensor = namedtuple("UnpackedDualTensor", "primal tangent")


class Level:
    """The one open level: the dual tensors made in it with their tangents, and the grad mode to go back to."""

    current = None

    def __init__(self):
        self.duals, self.previous = [], modes.grad_enabled()


def enter_dual_level():
    """Open a level; `dual_level` does it for a block. Levels do not nest."""
    if Level.current is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    Level.current = Level()
    modes.GRAD.set(True)
    return 0


def exit_dual_level(*, level=None):
    """Close the level: its dual tensors have no tangents any more."""
    if Level.current is None:
        raise RuntimeError("Trying to exit a forward AD level but no level is currently active: call enter_dual_level() first")
    modes.GRAD.set(Level.current.previous)
    Level.current = None


class dual_level:
    """The block in which dual tensors live.

    >>> import rushlight as torch
    >>> import rushlight.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     dual = fwAD.make_dual(torch.tensor([2.0]), torch.tensor([1.0]))
    ...     fwAD.unpack_dual(dual * dual).tangent
    tensor([4.])
    """

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *exc):
        exit_dual_level()


def make_dual(tensor, tangent, *, level=None):
    """A dual tensor with this primal and tangent (of the primal's shape and dtype, floating or complex)."""
    if Level.current is None:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first.")
    for name, value in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(value, Tensor):
            raise TypeError(f"make_dual(): {name} must be a Tensor, not {type(value).__name__}")
        if not (value.is_floating_point() or value.is_complex()):
            raise ValueError(f"Expected {'primal' if name == 'tensor' else name} to be floating point or complex, but got: {value.dtype}")
    if tensor.shape != tangent.shape:
        raise RuntimeError(f"Trying to set a forward gradient that has a different size than that of the original Tensor, this is not supported. "
                           f"Tensor is of size {list(tensor.shape)} while the given forward gradient is of size {list(tangent.shape)}.")
    if tensor.dtype is not tangent.dtype:
        raise RuntimeError(f"Trying to set a forward gradient of {tangent.dtype} to a tensor of {tensor.dtype}: give both the same dtype")
    # Views, so that the two can be told apart from `tensor`, whose history stays connected.
    dual = tensor.view_as(tensor) if tensor._requires_grad else tensor.detach().requires_grad_()
    Level.current.duals.append((dual, tangent))
    return dual


def unpack_dual(tensor, *, level=None):
    """The primal and the tangent of a tensor; the tangent is None for what depends on no dual tensor of the open level."""
    if Level.current is None or not tensor._requires_grad:
        return UnpackedDualTensor(tensor, None)
    for dual, tangent in Level.current.duals:
        if dual is tensor:
            return UnpackedDualTensor(released(tensor, {dual}), tangent)
    if not Level.current.duals:
        return UnpackedDualTensor(tensor, None)
    duals, tangents = zip(*Level.current.duals)
    (tangent,), (probe,), _ = directional([tensor], duals, tangents)
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    own = {dual for dual in duals if dual._node is None} | {probe}
    return UnpackedDualTensor(released(tensor, own), released(tangent, own))
