"""The in-place forms of elementwise ops as straight-line Python: `x.mul_(y)`, `x += 1`.

Where nothing is recorded and both operands are plain floats of one dtype, the kernel writes into the tensor's own array; all
else goes to `dispatch.inplace`.  Large arrays do too, for the kernels that run on all cores.  Read `source` first.
"""
import types

import numpy as np

from . import dispatch, written
from .generate import NAMES, PLAIN, SCALARS, define

# Composites that are one op where nothing but their operands is given.
ONE_OP = {"add": "_add", "sub": "_sub", "div": "_div"}
NAMES.update(inplace=dispatch.inplace, check_overlap=dispatch.check_overlap, bump=dispatch.bump, copyto=np.copyto)


def single(record):
    """The elementwise op of floats that a record is, or None."""
    if record.kind != "op":
        record = NAMES.get(f"{ONE_OP[record.name]}__op") if record.name in ONE_OP else None
    suits = record is not None and record.family == "pointwise" and record.params == record.tensors and len(record.params) < 3
    return record if suits and record.promote != "bool" and not record.masks else None


def form(record, name):
    """`name`, the in-place form of an elementwise op; None for what is none. It is compiled on its first call, by exchange of its code."""
    op = single(record)
    if op is None:
        return written.form(record, name)
    function = types.FunctionType(first_call.__code__, NAMES, name)
    function.__kwdefaults__ = {"_record": record, "_op": op, "_self": (function,)}
    function.__doc__ = f"In-place version of `{record.name}`; returns the tensor itself."
    function.__module__ = record.function.__module__
    return function


def first_call(*args, _record=None, _op=None, _self=None, **named):
    return materialise_form(_self[0], _record, _op)(*args, **named)


def materialise_form(function, record, op):
    name = record.name + "_"  # also of an operator: profiles show it
    if record.name in written.SCALED:
        NAMES[f"{record.name}__scaled"] = written.scaled(record)
    NAMES[f"{record.name}__plain"], NAMES[f"{op.name}__kernel"], NAMES[f"{op.name}__ufunc"] = record.function, op.kernel, op.ufunc
    real = define(name, source(record, op, name))[name]
    function.__defaults__, function.__kwdefaults__ = real.__defaults__, real.__kwdefaults__
    function.__code__ = real.__code__
    return function


NAMES["materialise_form"] = materialise_form


def source(record, op, name):
    """The text of an in-place form."""
    binary = len(op.tensors) == 2
    whole = op.name in ("_add", "_sub", "mul")  # of whole numbers, and of half types: one rounding of the exact result
    fast, scalars = ("self._dtype.fast_float", SCALARS) if not whole else (
        "(self._dtype.fast_float or self._dtype.whole or self._dtype.half and self._array.size < WORTH)",
        f"({SCALARS} and d.fast_float or kind is int and d.whole and -128 <= other < 128)")
    arguments = "self, other=ABSENT, *rest, **named" if binary else "self, *rest, **named"
    lines = [f"def {name}({arguments}):",
             f"    if not rest and not named and not special and {PLAIN.format('self')} and self._node is None and {fast}:",
             "        x, d, m, base = self._array, self._dtype, self._meta, None",
             "        if m is not None:",
             "            base = m.base",
             "        if x.size < LARGE and 0 not in x.strides and (not self._requires_grad or not grad_enabled()) and (",
             "                base is None or base._node is None and not base._requires_grad):"]
    body = []
    if binary:
        body += ["kind = type(other)",
                 "if (kind is Tensor or kind is Parameter) and other._dtype is d and not (other._requires_grad and grad_enabled()):",
                 "    z = other._array",
                 "    if base is not None or other._meta is not None:",
                 "        check_overlap(x, z)",
                 f"elif {scalars}:",
                 "    z = d.numbers.get(other)",
                 "    if z is None:",
                 "        z = number_array(d, other)",
                 "else:",
                 f"    return inplace({record.name}__plain, self, (other,) if other is not ABSENT else (), named)"]
    values, given = ("x, z", "(other,)") if binary else ("x", "()")
    body.append("try:")
    if op.ufunc is not None:
        out = "out=x" if op.ufunc in (np.maximum, np.minimum) else "x"  # those warn of a third operand, which takes 2 us
        body += [f"    {op.name}__ufunc({values}, {out})", "except (RuntimeWarning, FloatingPointError):",
                 "    pass  # who made an error of it; NumPy gives it when all is written"]
    else:
        body += [f"    r = {op.name}__kernel({values})", "    if r.shape != x.shape:",
                 f"        return inplace({record.name}__plain, self, {given}, named)", "    copyto(x, r)"]
    body += ["except Exception:", f"    return inplace({record.name}__plain, self, {given}, named)", "bump(self)", "return self"]
    lines += ["            " + line for line in body]
    rest = "(other, *rest) if other is not ABSENT else rest" if binary else "rest"
    if record.name in written.SCALED:
        lines += ["    if named and other is not ABSENT:", f"        return {record.name}__scaled(self, other, rest, named)"]
    lines.append(f"    return inplace({record.name}__plain, self, {rest}, named)")
    return "\n".join(lines) + "\n"
