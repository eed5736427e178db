"""What an op is: one record per op, made by the decorators below.

    @pointwise(np.multiply, grad=dict(input=lambda g, other: g * other, other=lambda g, input: g * input))
    def mul(input, other): ...                      # the body is never run: the kernel is np.multiply

    @primitive(grad=dict(input=lambda g, out: ...)) # the body is the kernel, on ndarrays
    def cumsum(input, dim): return np.cumsum(input, axis=dim)

    @composite()                                    # a plain function of ops: no rule, differentiable as it is
    def softsign(input): return input / (abs(input) + 1)

A grad rule's parameter names say what is kept: `g` (the incoming gradient; `gs`, all of them, for several outputs), any
parameter of the op, `out` (a list of several), or `<tensor>_shape`.  Inside a rule, names of ops mean those ops: the rule is run on
ndarrays with the ops' kernels (first order), or on Tensors with the ops themselves (higher orders, tracing).
Rules may use operators, `.shape`, `.ndim`, indexing with slices, and ops called as functions, nothing else.
`where` lists the public places: torch, method, inplace (method_), nn (nn.functional), linalg, special, fft.
"""
import types

import numpy as np

from ..autograd.node import deliver, presenters, records
from ..tensor import OutputEdge, Parameter, Tensor, asarray
from . import entries, generate, graph_node, halves, late, presented

# The names a rule sees when it runs on ndarrays, among them what generated `apply` functions need.
RAW = {"__builtins__": __builtins__, "__name__": "rushlight.ops.rules", "Tensor": Tensor, "Parameter": Parameter, "OutputEdge": OutputEdge,
       "asarray": asarray, "deliver": deliver, "unbroadcast": graph_node.unbroadcast, "sum_to": graph_node.sum_to}
OPS = {"__builtins__": __builtins__, "__name__": "rushlight.ops.rules"}  # the names it sees when it runs on Tensors
WRAPPED = {}  # by name: what makes of a raw function that is to come the one that enters `RAW`; see kernels/eager.py
PYTHON = frozenset(("min", "max", "any", "all"))  # in rules and inner composites these are Python's, on sizes; the ops are amin, amax
REGISTRY = late.Late("op")  # name -> Op or Composite, in order of definition
entered = []  # called with each new record: attach.py publishes it


class Op:
    """The record of a primitive. See the module's docstring for what the fields mean."""

    kind = "op"
    numbers = "both"  # see pointwise
    no_complex = ""  # see pointwise
    refuse = None  # see pointwise
    ufunc = None  # see pointwise
    outlines = 0  # how often it was asked for an outline before its text was compiled
    private_out = False  # the rule keeps `out` where PyTorch's keeps something else: a later write to the output is none to the rule

    def __init__(self, declared, kernel, family, grad, tensors, lists, promote, dtype, node, outputs, returns, differentiable, where,
                 dunder, view, scalar, complex_rule, shape_rule, masks=(), check=None):
        self.name = declared.__name__.rstrip("_") if declared.__name__.endswith("__") else declared.__name__
        self.declared, self.kernel, self.family = declared, kernel, family
        code = declared.__code__
        count = code.co_argcount
        self.params = code.co_varnames[:count + code.co_kwonlyargcount]
        self.positional = self.params[:count]
        defaults = declared.__defaults__ or ()
        self.defaults = dict(zip(self.positional[count - len(defaults):], defaults)) | (declared.__kwdefaults__ or {})
        self.lists = tuple(lists)
        if tensors is None:
            tensors = self.positional if family == "pointwise" else self.positional[:1]
        self.tensors = tuple(name for name in self.params if name in tensors and name not in self.lists)
        self.grad = grad or {}
        self.promote, self.dtype = promote, dtype
        self.outputs, self.returns = outputs, returns
        self.differentiable = tuple(range(outputs)) if differentiable is None else differentiable
        self.node_name = node or camel(self.name) + "Backward0"
        self.where, self.dunder, self.view, self.scalar = tuple(where.split()), dunder, view, scalar
        self.complex_rule, self.shape_rule, self.masks, self.check = complex_rule, shape_rule, masks, check
        self.raw_rule = {name: rebind(rule, RAW) for name, rule in self.grad.items()}
        self.graph_rule = {name: rebind(rule, OPS) for name, rule in self.grad.items()}
        self.wants = {name: rule.__code__.co_varnames[:rule.__code__.co_argcount] for name, rule in self.grad.items()}
        for name, wants in self.wants.items():
            for want in wants:
                if want not in ("g", "gs", "out") and want not in self.params and want.removesuffix("_shape") not in self.tensors + self.lists:
                    raise TypeError(f"op {self.name} ({family}): the rule for {name} asks for {want!r}, which the op does not have")
        for name in self.grad:
            if name not in self.tensors and name not in self.lists:
                raise TypeError(f"op {self.name} ({family}): a rule for {name!r}, which is no tensor of the op")
        self.rule_names = RAW
        self.saves_out = any("out" in wants for wants in self.wants.values())
        self.classes = None  # (node class, general node class), made on first use
        self.halves = halves.stub(self)  # what `general` asks first for half types

    def __repr__(self):
        return f"<op {self.name} ({self.family})>"


presenters[Op] = presented.next_functions


class Composite:
    """A function of ops, and where it is public. `body` is the function as it is written, `function` what users call."""

    kind = "composite"
    dunder = None

    def __init__(self, body, where):
        self.name, self.body, self.where = body.__name__, body, tuple(where.split())
        self.function = entries.entry(self) or body


def camel(name):
    """The node's name from the op's: `log_softmax` -> `LogSoftmax`."""
    return "".join(part[:1].upper() + part[1:] for part in name.strip("_").split("_"))


def rebind(function, namespace):
    """The same function with its global names looked up in `namespace`; what it doesn't find there, in its own module."""
    if function.__closure__:
        raise TypeError(f"a rule may not close over variables: {function.__qualname__} uses {function.__code__.co_freevars}")
    for name in names_used(function.__code__):
        if name in namespace:
            continue
        if name in REGISTRY.where and name not in PYTHON:
            namespace[name] = late.function(name, namespace)
        elif name in function.__globals__ and not hasattr(function.__globals__[name], "op_record"):
            namespace[name] = function.__globals__[name]  # an op of that name, made later, takes the place of a plain function
    copy = types.FunctionType(function.__code__, namespace, function.__name__, function.__defaults__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def names_used(code):
    """The global names of a function, nested functions included."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= names_used(constant)
    return names


def enter(record, raw):
    """Note a record and what its name means in rules."""
    if dict.__contains__(REGISTRY, record.name):
        raise TypeError(f"two ops are named {record.name}")
    if record.kind == "op":
        record.function = generate.stub(record)
    REGISTRY[record.name] = records[record.name] = record
    inner = record.kind == "composite" and not record.where and not record.body.__closure__
    function = rebind(record.function, OPS) if inner else record.function
    if record.name not in PYTHON:
        RAW[record.name], OPS[record.name] = WRAPPED.pop(record.name, lambda raw: raw)(raw), function
    record.function.op_record = function.op_record = record
    announce(record)
    return function


def announce(record):
    for listener in entered:
        listener(record)


def pointwise(kernel, *, grad=None, promote="same", node=None, where="torch method inplace", dunder=None, scalar=None,
              complex_rule=None, tensors=None, masks=(), numbers="both", no_complex="", private_out=False, ufunc=None, refuse=None):
    """An elementwise op: broadcasting, promotion and un-broadcasting are derived.

    promote: "same" (the promoted dtype), "float" (integers become the default dtype), "bool" (a comparison).
    scalar: the op on loop IR values, where its name is not enough for kernels/.
    masks: bool operands that take no part in promotion.
    complex_rule: True where the rules hold for complex values as they stand (not holomorphic ones, see dispatch.py).
    numbers: which of two operands may be Python numbers: "both" (not at once), "other", or "none".
    no_complex: what NotImplementedError says of complex operands, `{}` being their dtype, where NumPy's kernel would take them
    (it orders complex numbers, PyTorch does not).
    ufunc: NumPy's function that the kernel is for floats, where it is not one itself.
    refuse: called with the operands before they are promoted, to raise what PyTorch raises; those of equal float dtypes it never sees.
    """
    def make(declared):
        record = Op(declared, kernel, "pointwise", grad, tensors, (), promote, None, node, 1, None, None, where, dunder, False,
                    scalar, complex_rule, None, masks)
        record.numbers, record.no_complex, record.private_out, record.refuse = numbers, no_complex, private_out, refuse
        record.ufunc = kernel if isinstance(kernel, np.ufunc) else ufunc
        return enter(record, kernel)
    return make


def primitive(*, grad=None, tensors=None, lists=(), dtype="first", node=None, outputs=1, returns=None, differentiable=None,
              where="torch method", dunder=None, view=False, family="opaque", complex_rule=None, shape=None, kernel=None,
              check=None, private_out=False):
    """An op whose body is its kernel: it takes ndarrays for its tensors and returns an ndarray (or a tuple of `outputs`).

    tensors: names of tensor parameters (default: the first); an argument may also be None.
    lists: names of parameters that are sequences of tensors.
    dtype: "first" (as the first tensor), "kernel" (what the kernel gives), or a dtype; a tuple for several outputs.
    returns: field names of the result, for a named tuple. differentiable: which outputs have a gradient.
    kernel: a function to use in place of the body. check: called with the arguments on the general path and when the kernel
    failed, to raise what PyTorch raises; so the straight-line path need not look.
    view: the result shares memory with the first tensor. shape: `shape(*args) -> shape` for tracing, else the kernel is tried.
    """
    def make(body):
        record = Op(body, kernel or body, family, grad, tensors, lists, None, dtype, node, outputs, returns, differentiable, where,
                    dunder, view, None, complex_rule, shape, (), check)
        record.private_out = private_out
        return enter(record, kernel or body)
    return make


def composite(where="torch method", raw=None):
    """A plain function of ops. `raw`: what its name means in rules that run on ndarrays, where the function itself won't do."""
    def make(function):
        if function.__code__.co_name != function.__name__:  # made by a factory: see errors.function_name
            function.__code__ = function.__code__.replace(co_name=function.__name__)
        return enter(Composite(function, where), raw or (function if function.__closure__ else rebind(function, RAW)))
    return make


def apart(name, where="torch"):
    """A public function of a name that means something else in rules (`range`, `asarray`, `nn.functional.unfold`): they never see it."""
    def make(function):
        function.__name__ = function.__qualname__ = name
        REGISTRY[f"{where.split()[0]}.{name}"] = function.op_record = Composite(function, where)
        announce(function.op_record)
        return function
    return make
