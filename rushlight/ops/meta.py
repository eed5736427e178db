"""Ops on tensors of the meta device: shapes and dtypes are computed, values are not kept.

The op runs on a stand-in of zeros, and the result is reduced to its shape and dtype.
"""
import numpy as np

from ..core import modes
from ..tensor import MetaParameter, MetaTensor, Parameter, Tensor, new
from . import dispatch


def to_meta(tensor):
    """The tensor's shape and dtype as a meta tensor."""
    meta = new(MetaParameter if isinstance(tensor, Parameter) else MetaTensor)
    meta._array = np.broadcast_to(np.zeros((), tensor._array.dtype), tensor._array.shape)
    meta._dtype, meta._requires_grad = tensor._dtype, tensor._requires_grad
    meta._node = meta._grad = meta._meta = meta._shape = None
    return meta


def stand_in(value):
    """A tensor of zeros in place of a meta tensor; other values as they are."""
    if isinstance(value, MetaTensor):
        tensor = new(Tensor)
        tensor._array, tensor._dtype, tensor._requires_grad = np.zeros(value._array.shape, value._array.dtype), value._dtype, False
        tensor._node = tensor._grad = tensor._meta = tensor._shape = None
        return tensor
    return [stand_in(item) for item in value] if type(value) in (list, tuple) and any(isinstance(item, Tensor) for item in value) else value


def from_stand_in(result):
    if isinstance(result, Tensor):
        return to_meta(result)
    if isinstance(result, (tuple, list)):
        return type(result)([from_stand_in(item) for item in result])
    return result


def run(cls, op, bound, out):
    """What the general path calls for an op with a meta operand."""
    with modes.no_grad():
        return from_stand_in(dispatch.general(op, [stand_in(bound[name]) for name in op.params]))


def run_inplace(cls, function, tensor, args, kwargs):
    """An in-place op: checked on a stand-in, nothing to store."""
    with modes.no_grad():
        dispatch.inplace(function, stand_in(tensor), tuple(stand_in(arg) for arg in args), {name: stand_in(arg) for name, arg in kwargs.items()})
    return tensor


for _name, _method in ("__dispatch__", classmethod(run)), ("__dispatch_inplace__", classmethod(run_inplace)), ("__detach__", staticmethod(to_meta)):
    setattr(MetaTensor, _name, _method)
