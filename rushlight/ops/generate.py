"""From a record to straight-line Python: the eager function, its in-place form, and the node class.

Nothing is generated at import: an op's function starts as a stub whose `__code__` is replaced on the first call
(600 ops compiled at import would cost more than NumPy's import).  Sources are registered with linecache, so tracebacks
and pdb show them; `source(op)` returns them.  All generated functions share one namespace, `NAMES`.
"""
import linecache
import sys
import types

import numpy as np

from ..autograd.node import Node
from ..core import dtypes, modes
from ..core.clock import TIMES
from ..core.outline import outline
from ..core.promotion import check_word
from ..tensor import Parameter, Tensor, asarray, ndarray, new
from .graph_node import GraphNode, has_fix, unbroadcast

NAMES = {"__builtins__": __builtins__, "__name__": "rushlight.ops.generated", "Tensor": Tensor, "Parameter": Parameter, "new": new,
         "ndarray": ndarray, "asarray": asarray, "grad_enabled": modes.grad_enabled, "special": 0, "BOOL": dtypes.bool,
         "BY_NUMPY": dtypes.BY_NUMPY, "TIMES": TIMES}
# kernels/eager.py lowers the limit: from then on large arrays of the ops it names go to a kernel on all cores.
NAMES.update(LARGE=sys.maxsize, on_all_cores=None)
ELEMENTWISE = frozenset(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sigmoid sqrt rsqrt reciprocal relu abs neg erf erfc erfinv _gelu _silu _add _sub mul _div "
    "maximum minimum clamp_min clamp_max sinh cosh asin acos atan asinh acosh atanh sgn sign lgamma digamma _polygamma frac ceil floor trunc "
    "deg2rad rad2deg logaddexp logaddexp2 atan2 hypot copysign _nextafter remainder fmod _floor_quotient floor_divide trunc_divide _lerp "
    "_elu _celu _leaky_relu _softplus _mish _hardswish _hardsigmoid _hardtanh _clamp_numbers _clamp_tensors hardshrink softshrink threshold _prelu _rrelu_fixed angle logsigmoid logit _nan_to_num "
    "i0 special_entr special_erfcx special_ndtr special_ndtri special_log_ndtr special_i0e special_i1 special_i1e special_bessel_j0 special_bessel_j1 "
    "special_bessel_y0 special_bessel_y1 special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0 special_modified_bessel_k1 "
    "special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1".split())
OPENED = frozenset("_glu _huber_loss _smooth_l1_loss _tril _triu _roll _batch_norm _fixed_norm constant_pad".split())  # see kernels/opened.py
CANDIDATES = ELEMENTWISE | OPENED | frozenset("_softmax _log_softmax _layer_norm _cumsum _cumprod reversed_cumsum _cummax_places _cummin_places _cummax _cummin _convolution _conv_transpose _gather scatter_src "
                                     "scatter_value _cast _scatter_add _index_add _index_copy _sum_all _sum_dims _mean_all _mean_dims _prod_all _prod_dim _vector_norm".split())
NAMES["SMALL"] = 1 << 12  # elements; below it a tensor may keep its shape in `_shape`
modes.listeners.append(lambda count: NAMES.__setitem__("special", count))
SCALARS = "(kind is float or kind is int)"
PLAIN = "(type({0}) is Tensor or type({0}) is Parameter)"


def first_call(*args, _op=None, **kwargs):
    if outline.enough and not kwargs and len(args) <= len(_op.positional) and for_outline(_op, args):
        rest = _op.params[len(args):]
        if _op.defaults.keys() >= set(rest):
            return general(_op, (*args, *[_op.defaults[name] for name in rest]))
    return materialise(_op)(*args, **kwargs)


def for_outline(op, args):
    """Whether a call that only asks for an outline is served by `general`: compiling takes longer than a few calls.

    Not where `general`, or the rules of its node, would compute with large arrays.
    """
    op.outlines += 1
    if op.outlines > FEW:
        return False
    large = NAMES["LARGE"]
    limit = sys.maxsize if op.family == "pointwise" and op.name in CANDIDATES else large
    for arg in args:
        for item in arg if isinstance(arg, (list, tuple)) else (arg,):
            if isinstance(item, Tensor) and item._array.size >= (large if item._requires_grad else limit):
                return False
    return True


FEW = 48  # calls of an op that take as long by `general` (10 us each more, with the backward pass) as its text takes to compile
NAMES.update(outline=outline, for_outline=for_outline)


def stub(op):
    """A function that becomes the real one on its first call, by exchange of its code: every reference to it stays good."""
    NAMES[f"{op.name}__op"] = op
    function = types.FunctionType(first_call.__code__, NAMES, op.name)
    function.__qualname__ = op.name
    function.__kwdefaults__ = {"_op": op}
    function.__wrapped__, function.__doc__, function.__module__ = op.declared, op.declared.__doc__, op.declared.__module__
    return function


def materialise(op):
    """Compile the op's real function into its stub."""
    function = op.function
    make_classes(op)
    if function.__code__ is first_call.__code__:
        real = define(op.name, function_source(op))[op.name]
        function.__defaults__, function.__kwdefaults__ = real.__defaults__, real.__kwdefaults__
        function.__code__ = real.__code__
    return function


NAMES["materialise"] = materialise


def make_classes(op):
    """Make the op's node classes, if they are not made yet."""
    if op.classes is None:
        made = node_classes(op)
        NAMES[f"{op.name}__node"], NAMES[f"{op.name}__general"] = made
        op.classes = made
        if has_large(op):
            NAMES[f"{op.name}__large"] = type(op.node_name, (made[0],), {"__slots__": (), "apply": GraphNode.apply_large, "propagate": Node.propagate,
                                                                       "large_rules": {name: large_rule(op, name) for name in op.grad},
                                                                       "__module__": "rushlight.autograd"})


def stub_rules(op):
    """`apply` and `propagate` of a node class until a backward pass comes to one of its nodes: most programs only predict."""
    def real(node, name):
        scope = define(f"{op.name} (backward)", rules_source(op))
        for rule in scope.values():  # which sees kernels under the ops' names
            setattr(op.classes[0], rule.__name__, types.FunctionType(rule.__code__, op.rule_names))
        return getattr(node, name)

    return {"apply": lambda node, *args: real(node, "apply")(*args), "propagate": lambda node, *args: real(node, "propagate")(*args)}


def first_operator_call(*args, _op=None, _self=None):
    if outline.enough and len(args) == len(_op.tensors) and for_outline(_op, args):
        return general_operator(_op, args)
    return materialise_operator(_op, _self[0])(*args)


def stub_operator(op):
    """The op as a dunder method: the same code, but an operand of a foreign type gives NotImplemented, as Python wants."""
    function = types.FunctionType(first_operator_call.__code__, NAMES, f"__{op.dunder.split()[0]}__")
    function.__kwdefaults__ = {"_op": op, "_self": (function,)}
    function.__module__, function.__doc__ = op.declared.__module__, op.declared.__doc__
    return function


def materialise_operator(op, function):
    make_classes(op)
    text = "\n".join(function_lines(op, False)).replace("    return general(", "    return general_operator(").replace(
        f"def {op.name}(", f"def {op.name}__operator(", 1) + "\n"
    real = define(f"{op.name} (operator)", text)[f"{op.name}__operator"]
    function.__defaults__, function.__kwdefaults__ = real.__defaults__, real.__kwdefaults__
    function.__code__ = real.__code__
    return function


NAMES["materialise_operator"] = materialise_operator


def define(name, text):
    """Run generated text in the shared namespace; returns what it defined."""
    filename = f"<rushlight op {name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    scope = {}
    exec(compile(text, filename, "exec"), NAMES, scope)
    return scope


def saved_fields(op):
    """The values that the rules keep, in a fixed order, `out` included."""
    fields = []
    for wants in op.wants.values():
        fields += [want for want in wants if want not in ("g", "gs") and want not in fields]
    return fields


def node_classes(op):
    """The node class for the straight-line path and the one for half, complex and mixed dtypes; one name for both."""
    if not op.grad:
        return None, None
    saved = saved_fields(op)
    slots = [*saved, *(["guard"] if "out" in saved else []), *(["fix"] if has_fix(op) else [])]
    common = {"op": op, "saved": tuple(saved), "_outputs": op.outputs, "label": LABELS.get(op.node_name), "saves_out": "out" in saved,
              "private_out": op.private_out, "__module__": "rushlight.autograd"}
    rules = stub_rules(op) if has_rules(op) else {"apply": GraphNode.apply_general}
    fast = type(op.node_name, (GraphNode,), {"__slots__": slots, **rules, **common})
    general = type(op.node_name, (fast,), {"__slots__": ("metas", "compute"), "apply": GraphNode.apply_general,
                                       "propagate": Node.propagate, **common})
    return fast, general


LABELS = {name: "torch::autograd::" + name for name in ("CopyBackwards", "NotImplemented")}


def large_rule(op, name):
    return lambda *values: NAMES["gradient_on_all_cores"](op, name, *values)


def has_large(op):
    """Whether nodes of large arrays are of a class of their own, whose rules run as kernels."""
    return op.name in ELEMENTWISE and has_rules(op) and len(op.tensors) < 3


def has_rules(op):
    """Whether the node's methods are generated."""
    return op.grad and not op.lists and op.outputs == 1


def source(op):
    """The generated Python of an op: its function and, where the op has rules, the node's `apply` and `propagate`."""
    return function_source(op) + ("\n" + rules_source(op) if has_rules(op) else "")


def function_source(op):
    return "\n".join(function_lines(op)) + "\n"


def rules_source(op):
    return "\n".join([*apply_lines(op, False), "", *apply_lines(op, True)]) + "\n"


def signature(op, out):
    """The parameter list as text; defaults are read from NAMES."""
    parts = []
    for position, name in enumerate(op.params):
        if position == len(op.positional):
            parts.append("*")
        if name in op.defaults:
            NAMES[f"{op.name}__{name}"] = op.defaults[name]
            parts.append(f"{name}={op.name}__{name}")
        else:
            parts.append(name)
    if out:
        parts += ([] if "*" in parts else ["*"]) + ["out=None"]
    return ", ".join(parts)


def arguments(op, out):
    names = [name if name in op.positional else f"{name}={name}" for name in op.params]
    return ", ".join([*names, *(["out=out"] if out else [])])


def takes_out(op):
    return "torch" in op.where or "linalg" in op.where or "special" in op.where or "out" in op.where


def function_lines(op, out=True):
    out = out and takes_out(op) and not op.view and op.outputs == 1
    name = op.name
    NAMES[f"{name}__kernel"] = op.kernel
    lines = [f"def {name}({signature(op, out)}):"]
    if op.view and op.params[-1] == "dim":  # unsqueeze; composites' synonyms are in `entry_source`
        lines = [f"def {name}({signature(op, out)}=ABSENT, *, axis=ABSENT):", "    if dim is ABSENT:", "        if axis is ABSENT:",
                 f"            raise missing({name!r}, 'dim')", "        dim = axis"]
    values = "(" + "".join(f"{param}, " for param in op.params) + ")"
    fallback = f"    return general({name}__op, {values}{', out' if out else ''})"
    if op.lists or op.outputs > 1:
        return [*lines, fallback]
    first = op.tensors[0]
    if op.view:
        return [*lines, *view_lines(op, values), fallback]
    required = [t for t in op.tensors if op.defaults.get(t, 0) is not None]
    optional = [t for t in op.tensors if t not in required]
    if op.family == "pointwise" and len(op.tensors) == 2:
        return [*lines, *binary_lines(op, out), fallback]
    tests = [PLAIN.format(t) for t in required] + [f"({t} is None or {PLAIN.format(t)})" for t in optional]
    if op.family == "pointwise":
        fast = {"float": f"{first}._dtype.fast_float", "same": f"{first}._dtype.fast", "bool": f"{first}._dtype.fast"}[op.promote]
        tests += [fast] + [f"{t}._dtype is {first}._dtype" for t in required[1:]]
        if len(required) > 2:
            return [*lines, fallback]
    else:
        same = op.family == "contraction"
        tests += [f"{first}._dtype.fast_product" if same else f"{first}._dtype.fast"] + [f"{t}._dtype is {first}._dtype" if same else f"{t}._dtype.fast" for t in required[1:]]
    tests += ["not special"] + (["out is None"] if out else [])
    lines.append(f"    if {' and '.join(tests)}:")
    call = ", ".join(param_array(op, param) for param in op.params)
    body = [f"x_{t} = {t}._array" for t in required]
    if op.family == "pointwise":
        body.append(f"s = {first}._shape")
    body += [f"x_{t} = None if {t} is None else {t}._array" for t in optional]
    body += ["try:", *kernel_lines(op, first, call), "except Exception as error:",
             f"    return recover({name}__op, {values}, error)"]
    body += finish_lines(op, first, optional)
    return [*lines, *("        " + line for line in body), fallback]


def kernel_call(op, first, call):
    """The call of the kernel; asking for the size costs 30 ns, so only ops that have something to gain do, where `s` does not say "small"."""
    text = f"{op.name}__kernel({call})"
    return text if op.name not in CANDIDATES else f"{text} if {small(op, call)} else on_all_cores({op.name}__op, {call})"


def small(op, call):
    """The test whether all operands are small: a kept shape is, and so are numbers."""
    known = "s is not None or " if op.family == "pointwise" else ""
    return known + " and ".join(f"x_{t}.size < LARGE" for t in (op.tensors if op.family == "pointwise" else op.tensors[:1]) if f"x_{t}" in call.split(", "))


def kernel_lines(op, first, call):
    """The result `r`, and `made`, the class of its node."""
    if not has_large(op):
        return [f"    r = {kernel_call(op, first, call)}"]
    return [f"    if {small(op, call)}:", f"        r, made = {op.name}__kernel({call}), {op.name}__node", "    else:",
            f"        r, made = on_all_cores({op.name}__op, {call}), {op.name}__large"]


def view_lines(op, values):
    """One view of the first tensor. Ops that return several views take the general path."""
    source = op.tensors[0]
    failed = ["except Exception as error:", f"    return recover({op.name}__op, {values}, error)"]
    return [f"    if {PLAIN.format(source)} and not special and {source}._dtype.fast:", *("        " + line for line in view_body(op, failed))]


def view_body(op, failed, half=False):
    source = op.tensors[0]
    call = ", ".join(f"{source}._array" if p == source else p if p in op.positional else f"{p}={p}" for p in op.params)
    inner = [f"t = as_view(r, {source})"]
    if op.dtype == "kernel":
        inner = [f"t = as_view(r, {source}, BY_NUMPY[r.dtype])"]
    if op.grad:
        inner += [line.replace(f"x_{source}", f"{source}._array") for line in record_lines(op, (), half=half)]
    return ["try:", f"    r = {op.name}__kernel({call})", *failed, "if type(r) is ndarray:", *("    " + line for line in [*inner, "return t"])]


def param_array(op, param):
    text = f"x_{param}" if param in op.tensors else param
    return text if param in op.positional else f"{param}={text}"


def finish_lines(op, first, optional, half=False):
    """Wrap the result `r`, record the node."""
    known = "s is None and " if op.family == "pointwise" else ""  # a kept shape has dims: the result is an array
    lines = [f"if {known}type(r) is not ndarray:", "    r = asarray(r)", "t = new(Tensor)", "t._array = r"]
    if op.family == "pointwise":
        kind = "d" if len(op.tensors) == 2 else f"{first}._dtype"
        lines.append("t._dtype = BOOL" if op.promote == "bool" else f"t._dtype = {kind}")
    elif op.dtype == "first":
        lines.append(f"t._dtype = {first}._dtype")
    elif op.dtype == "kernel":
        lines.append("t._dtype = BY_NUMPY[r.dtype]")
    else:
        NAMES[f"{op.name}__dtype"] = op.dtype
        lines.append(f"t._dtype = {op.name}__dtype")
    lines.append("t._grad = t._meta = None" if op.family == "pointwise" else "t._grad = t._meta = t._shape = None")
    if op.grad:
        lines += record_lines(op, optional, half=half)
        lines += ["else:", "    t._requires_grad = False", "    t._node = None"]
    else:
        lines += ["t._requires_grad = False", "t._node = None"]
    return [*lines, *(["t._shape = s"] if op.family == "pointwise" else []), "return t"]


def record_lines(op, optional, scalar=None, half=False):
    """Make the node: `scalar` names the operand that is a Python number here. `half`: the general node, which widens and rounds."""
    with_rule = [t for t in op.tensors if t in op.grad and t != scalar]
    asks = [f"({t} is not None and {t}._requires_grad)" if t in optional else f"{t}._requires_grad" for t in with_rule]
    if not asks:
        return ["if False:", "    pass"]
    several = len(with_rule) > 1
    if several:  # each flag is read once
        lines = [f"e_{t} = ({t}._node or {t}) if {ask} else None" for t, ask in zip(with_rule, asks)]
        condition = "(" + " or ".join(f"e_{t} is not None" for t in with_rule) + ")"
    else:
        lines, condition = [], asks[0]
    made = f"    n = {op.name}__general()" if half else "    n = made()" if has_large(op) else f"    n = {op.name}__node()"
    whole = " and t._dtype.category > 1" if op.family == "cast" and op.dtype == "kernel" else ""  # whole numbers have no gradient
    lines += [f"if {condition} and grad_enabled(){whole}:", made]
    edges = {}
    for t in with_rule:
        fields = []
        for want in op.wants[t]:
            if want in ("g", "gs"):
                continue
            if want == "out":
                fields += ["n.out = r", "n.guard = None"]
            elif want.endswith("_shape") and want not in op.params:
                fields.append(f"n.{want} = x_{want[:-6]}.shape" if scalar != want[:-6] else f"n.{want} = ()")
            else:
                fields.append(f"n.{want} = {want}")
        edges[t] = f"e_{t}"
        if several:
            lines += ([f"    if e_{t} is not None:", *("        " + field for field in fields)] if fields else [])
        else:
            lines += ["    " + field for field in fields] + [f"    e_{t} = {t}._node or {t}"]
    lines.append("    n.edges = (" + "".join(f"{edges.get(t, 'None')}, " for t in op.tensors) + ")")
    if half:
        kept = {t: f"({t}._array.shape, {t}._array.dtype)" + (f" if {edges[t]} is not None else None" if several else "") for t in edges}
        lines += [f"    n.compute = {op.tensors[0]}._dtype", "    n.metas = [" + ", ".join(kept.get(t, "None") for t in op.tensors) + "]"]
    if has_fix(op):
        if scalar or half:
            lines.append("    n.fix = None")
        else:
            lines += ["    " + line for line in fix_lines(*op.tensors)]
    lines += ["    n.rare = None", "    n.seq = next(TIMES)", "    t._node = n", "    t._requires_grad = True"]
    return lines


def fix_lines(a, b):
    """What un-broadcasting needs: nothing where both operands keep one shape `s`, which costs 70 ns less than to compare two."""
    return ["if s is None:", f"    s = x_{a}.shape", f"    if s == x_{b}.shape:", "        n.fix = None",
            f"        s = ({a}._shape or s) if s and x_{a}.size < SMALL else None", f"        {a}._shape = {b}._shape = s",
            "    else:", f"        n.fix, s = (s, x_{b}.shape), None", "else:", "    n.fix = None"]


def binary_lines(op, out):
    """Two tensors of one dtype, or a tensor and a Python number."""
    a, b = op.tensors
    name, guard = op.name, "not special" + (" and out is None" if out else "")
    extra = [param for param in op.params if param not in op.tensors]
    call = "".join(f", {p}" if p in op.positional else f", {p}={p}" for p in extra)
    values = "(" + "".join(f"{param}, " for param in op.params) + ")"
    fast = "fast_float" if op.promote == "float" else "fast"
    lines = [f"    if {PLAIN.format(a)} and {guard}:", f"        d = {a}._dtype", f"        kind = type({b})",
             f"        if (kind is Tensor or kind is Parameter) and {b}._dtype is d and d.{fast}:"]
    body = [f"x_{a} = {a}._array", f"x_{b} = {b}._array", f"s = {a}._shape", f"if s is not {b}._shape:", "    s = None",
            "try:", *kernel_lines(op, a, f"x_{a}, x_{b}{call}"),
            "except Exception as error:", f"    return recover({name}__op, {values}, error)", *finish_lines(op, a, ())]
    lines += ["            " + line for line in body]
    if op.numbers == "none":
        return lines
    whole = op.promote in ("same", "bool")  # what is computed with ints gives ints
    lines += [f"        if {SCALARS} and d.fast_float" + (f" or kind is int and d.whole and -128 <= {b} < 128:" if whole else ":")]
    body = [f"x_{a} = {a}._array", f"s = {a}._shape", "try:", f"    z = d.numbers.get({b})", "    if z is None:", f"        z = number_array(d, {b})",
            *kernel_lines(op, a, f"x_{a}, z{call}"), "except Exception as error:",
            f"    return recover({name}__op, {values}, error)", *finish_scalar(op, a, b)]
    return lines + ["            " + line for line in body]


def finish_scalar(op, a, b, half=False):
    lines = finish_lines(op, a, (), half)
    if not op.grad:
        return lines
    start = next(i for i, line in enumerate(lines) if line.startswith(("e_", "if ")) and ("_requires_grad" in line or "grad_enabled" in line))
    stop = lines.index("else:", start)
    return lines[:start] + record_lines(op, (), scalar=b, half=half) + lines[stop:]


def apply_lines(op, delivers):
    """The rules on ndarrays, for the inputs that need a gradient: as `apply`, which returns the gradients, or as `propagate`,
    which hands them on itself and so saves the engine a tuple and a loop."""
    lines = ["def propagate(n, g, grads, owned, freed):" if delivers else "def apply(n, g, freed, need):"]
    edge_names = [f"e_{t}" for t in op.tensors]
    lines.append(f"    {', '.join(edge_names)}{',' if len(edge_names) == 1 else ''} = n.edges")
    ruled = [t for t in op.tensors if t in op.grad]
    for t in ruled:
        text = inlined(op, t)
        lines += [f"    if e_{t} is not None:" if delivers else f"    if e_{t} is not None and (need is None or e_{t} in need):"]
        for want in op.wants[t]:
            if want == "out":
                lines += ["        out = n.out if n.guard is None else n.unpack_out()._array"]
            elif want in op.tensors:
                lines += [f"        s = n.{want}", "        if (type(s) is Tensor or type(s) is Parameter) and s._meta is None:", f"            {want} = s._array",
                          "        else:", f"            {want} = n.raw_value(s)"]
            elif want not in ("g", "gs"):
                lines.append(f"        {want} = n.{want}")
        if text is None:
            op.rule_names[f"{op.name}__rule_{t}"] = op.raw_rule[t]
            text = f"{op.name}__rule_{t}({', '.join('g' if want == 'gs' else want for want in op.wants[t])})"
        lines.append(f"        g_{t} = {text}")
        if not delivers:
            lines += ["    else:", f"        g_{t} = None"]
    saved = [field for field in saved_fields(op) if field == "out" or field in op.tensors]
    if saved:
        lines += ["    if freed is not None:"] + [f"        n.{field} = freed" for field in saved]
        if "out" in saved:
            lines.append("        n.guard = freed")
    results = "(" + "".join(f"g_{t}, " if t in ruled else "None, " for t in op.tensors) + ")"
    if not delivers:
        if has_fix(op):
            lines += ["    if n.fix is not None:", f"        return unbroadcast(n.fix, {results})"]
        return [*lines, f"    return {results}"]
    for at, t in enumerate(op.tensors):
        if t in ruled:
            lines.append(f"    if e_{t} is not None:")
            if has_fix(op):
                lines += ["        if n.fix is not None:", f"            g_{t} = sum_to(asarray(g_{t}), n.fix[{at}])"]
            lines += [f"        if e_{t} in grads or type(e_{t}) is OutputEdge:", f"            deliver(grads, owned, e_{t}, g_{t}, False)",
                      "        else:", f"            grads[e_{t}] = g_{t}"]
    return lines


def inlined(op, name):
    """The text of a rule's expression, to stand in `apply` without a call; None where the rule is not a plain lambda.

    The expression is cut out of the source file by the positions that the code object keeps, and must compile to the same code.
    """
    code = op.grad[name].__code__
    if code.co_name != "<lambda>" or any(isinstance(constant, type(code)) for constant in code.co_consts):
        return None
    spots = [spot for spot in code.co_positions() if None not in spot and spot[2:] != (0, 0)]
    lines = linecache.getlines(code.co_filename)
    if not spots or not lines:
        return None
    first, last, start, end = spots[-1]
    text = [line.encode() for line in lines[first - 1:last]]
    if not text:
        return None
    text[-1] = text[-1][:end]
    text[0] = text[0][start:]
    text = " ".join(line.decode().strip() for line in text)
    try:
        again = eval(f"lambda {', '.join(code.co_varnames[:code.co_argcount])}: ({text})")
    except SyntaxError:
        return None
    return f"({text})" if again.__code__.co_code == code.co_code and again.__code__.co_names == code.co_names else None


NAMES["unbroadcast"] = unbroadcast


def number_array(dtype, value):
    """A Python number as a 0-d array (NumPy takes twice as long for a ufunc on a bare number); kept for next time."""
    if type(value) is int:
        check_word(value)
    array = np.array(value, dtype.numpy)
    if value != 0 and value == value:  # 0.0 and -0.0 are one dict key; a NaN is never found again
        if len(dtype.numbers) > 1000:
            dtype.numbers.clear()
        dtype.numbers[value] = array
    return array


NAMES["number_array"] = number_array
