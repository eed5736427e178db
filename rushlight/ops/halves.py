"""Ops on few elements of a half type as straight-line Python: widened to float32, computed, rounded once.

What `general` (ops/dispatch.py) does for all dtypes, without asking what it knows here.  An op's function is compiled when the op first sees a half
type.  Past `WORTH` elements the casts, and many ops as a whole, are machine code (kernels/eager.py).  Read `source` first.
"""
from ..core import dtypes
from .generate import NAMES, PLAIN, SCALARS, define, finish_lines, finish_scalar, make_classes, param_array, view_body
from .graph_node import MOVING, WORTH

NAMES.update(FLOAT32=dtypes.float32, F32=dtypes.float32.numpy, WORTH=WORTH)
DIRECT = frozenset(("_add", "_sub", "mul", "_div"))  # one rounding of the exact result: NumPy's own for half types is the same
# Softmax, norms and sums: a program reads the half type itself, and rounds once (repeated.py).
ROWS = frozenset("_softmax _log_softmax _logsumexp _layer_norm _fixed_norm _sum_all _sum_dims _mean_all _mean_dims _vector_norm".split())
FEW = 1 << 10  # elements from which `general` asks for it
# They compute nothing.
MOVES = MOVING | {"_clone", "_contiguous", "_diag_embed"}


def stub(op):
    """`source` as a function, compiled on its first call; None for ops that have none."""
    if op.lists or op.outputs > 1 or op.dtype not in (None, "first", "kernel") or op.family in (
            "convolution", "cast", "random") and op.name != "_cast" or op.family == "pointwise" and len(op.tensors) > 2:
        return None

    def first(*values):
        make_classes(op)
        name = f"{op.name} (half types)"
        op.halves = define(name, source(op))[f"{op.name}__half"]
        return op.halves(*values)

    return first


def source(op):
    """The text of an op on few elements of a half type: widened, computed and rounded on the spot; NotImplemented for what is left to `general`.

    The first argument is known to be a plain tensor of a half type, in no special mode.  The node is the general one, which does the same backward.
    """
    name, first = op.name, op.tensors[0]
    NAMES[f"{name}__kernel"] = op.kernel
    required = [t for t in op.tensors if op.defaults.get(t, 0) is not None]
    optional = [t for t in op.tensors if t not in required]
    if op.view:
        lines = view_body(op, ["except Exception:", "    return NotImplemented"], True)
    elif op.family == "pointwise" and len(required) == 2:
        lines = binary_lines(op)
    else:
        tests = [PLAIN.format(t) for t in required[1:]] + [f"({t} is None or {PLAIN.format(t)})" for t in optional]
        if op.family == "contraction":
            tests += [f"{t}._dtype is d and {t}._array.size < WORTH" for t in required[1:]]
        elif op.name == "_cast":
            tests.append("dtype.is_floating_point")
        call = ", ".join(param_array(op, param) for param in op.params)
        body = []
        for t in op.tensors:
            array = f"{t}._array" if name in MOVES or name == "_cast" else f"{t}._array.astype(F32)" if t == first else (
                f"{t}._array.astype(F32) if {t}._dtype.half else {t}._array")
            body.append(f"x_{t} = None if {t} is None else {array}" if t in optional else f"x_{t} = {array}")
        lines = body_of(op, f"{name}__kernel({call})", body, finish_lines(op, first, optional, True))
        most = FEW if name in ROWS else "WORTH"
        lines = [f"if {' and '.join([*tests, f'{first}._array.size < {most}'])}:", *("    " + line for line in lines)]
        if name in ROWS:
            lines += [f"if {' and '.join([*tests, f'{first}._array.size >= {most}'])}:", *("    " + line for line in row_lines(op, call, optional))]
    text = [f"def {name}__half({', '.join(op.params)}):", f"    d = {first}._dtype", *("    " + line for line in lines), "    return NotImplemented"]
    return "\n".join(text) + "\n"


def row_lines(op, call, optional):
    """What a program gives, where there is one."""
    first = op.tensors[0]
    arrays = [f"x_{t} = None if {t} is None else {t}._array" if t in optional else f"x_{t} = {t}._array" for t in op.tensors]
    return [*arrays, f"r = rows_of_halves({op.name!r}, {call})", "if r is not None:", *("    " + line for line in finish_lines(op, first, optional, True))]


def body_of(op, call, before, after, rounded=False):
    rounding = ["r = r.astype(d.numpy)"]
    if op.promote == "bool" or op.name in MOVES or op.name == "_cast" or rounded:
        rounding = []
    elif op.dtype == "kernel":
        rounding = ["if r.dtype is F32:", "    r = r.astype(d.numpy)"]
    return [*before, *(["s = None"] if op.family == "pointwise" else []), "try:", f"    r = {call}", "except Exception:",
            "    return NotImplemented", *rounding, *after]


def binary_lines(op):
    """Two tensors of one half type, or a tensor of one and a Python number."""
    a, b = op.tensors
    extra = "".join(f", {p}" if p in op.positional else f", {p}={p}" for p in op.params if p not in op.tensors)
    kernel, direct = f"{op.name}__kernel(x_{a}, ", op.name in DIRECT
    wide = "" if direct else ".astype(F32)"
    lines = ["kind = type(" + b + ")", f"if (kind is Tensor or kind is Parameter) and {b}._dtype is d and {a}._array.size < WORTH and {b}._array.size < WORTH:"]
    body = body_of(op, f"{kernel}x_{b}{extra})", [f"x_{a} = {a}._array{wide}", f"x_{b} = {b}._array{wide}"], finish_lines(op, a, (), True), direct)
    lines += ["    " + line for line in body]
    if op.numbers == "none":
        return lines
    lines.append(f"if {SCALARS} and {a}._array.size < WORTH:")
    number = [f"x_{a} = {a}._array.astype(F32)", f"z = FLOAT32.numbers.get({b})", "if z is None:", f"    z = number_array(FLOAT32, {b})"]
    return lines + ["    " + line for line in body_of(op, f"{kernel}z{extra})", number, finish_scalar(op, a, b, True))]
