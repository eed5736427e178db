"""Put the ops where users find them: Tensor's methods and operators, and the public namespaces as dicts.

`TORCH`, `FUNCTIONAL`, `LINALG`, `SPECIAL`, `FFT` map public names to functions; `__init__` modules above publish them.
"""
from ..tensor import Tensor
from . import dispatch
from .generate import stub_operator
from .record import REGISTRY

PUBLIC = {"torch": {}, "nn": {}, "linalg": {}, "special": {}, "fft": {}}
TORCH, FUNCTIONAL, LINALG, SPECIAL, FFT = PUBLIC.values()


def attach(record):
    """Publish one record in the places it names."""
    for place in record.where:
        if place == "method":
            if record.name not in Tensor.__dict__:
                setattr(Tensor, record.name, record.function)
        elif place == "inplace":
            setattr(Tensor, record.name + "_", inplace_form(record))
        elif place in PUBLIC:
            PUBLIC[place][record.name.removeprefix(place + "_")] = record.function  # linalg_norm is linalg.norm
    if record.dunder:
        operator = stub_operator(record)
        for name in record.dunder.split():
            setattr(Tensor, f"__{name}__", operator)
            if "inplace" in record.where and not name.startswith("r"):
                setattr(Tensor, f"__i{name}__", inplace_operator(record))


def inplace_form(record):
    """`x.op_(...)` from `op(x, ...)`."""
    function, inplace = record.function, dispatch.inplace

    def in_place(self, *args, **kwargs):
        return inplace(function, self, args, kwargs)
    in_place.__name__ = in_place.__qualname__ = record.name + "_"
    in_place.__doc__ = f"In-place version of `{record.name}`; returns the tensor itself."
    in_place.__module__ = function.__module__
    return in_place


def inplace_operator(record):
    function, inplace = record.function, dispatch.inplace

    def operator(self, other):
        return inplace(function, self, (other,), {})
    operator.__name__ = f"__i{record.dunder.split()[0]}__"  # a graph tells by the name that it writes
    return operator


def attach_all():
    """Publish every record made so far."""
    for record in REGISTRY.values():
        attach(record)
    Tensor._stacked = staticmethod(TORCH["stack"])  # for the row below, which cannot import ops
