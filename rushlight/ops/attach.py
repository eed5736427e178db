"""Put the ops where users find them: Tensor's methods and operators, and the public namespaces as dicts.

`TORCH`, `FUNCTIONAL`, `LINALG`, `SPECIAL`, `FFT` map public names to functions; `__init__` modules above publish them.
Each record is attached as soon as it is made; what is not loaded yet stands there as late.py says.
"""
from ..tensor import Tensor
from . import dispatch, late
from .generate import stub_operator
from .inplace import form
from .late import LateMethod
from .record import REGISTRY, entered

PUBLIC = {place: late.Late(place) for place in ("torch", "nn", "linalg", "special", "fft")}
TORCH, FUNCTIONAL, LINALG, SPECIAL, FFT = PUBLIC.values()

# PyTorch's second names of ops; their methods and in-place forms have them too.
ALIASES = {"abs": "absolute", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2",
           "atanh": "arctanh", "clamp": "clip", "div": "divide true_divide", "trunc": "fix", "gt": "greater", "ge": "greater_equal",
           "lt": "less", "le": "less_equal", "mul": "multiply", "neg": "negative", "ne": "not_equal", "sub": "subtract"}
# In-place methods that are functions of torch as well.
AS_FUNCTIONS = frozenset((
    "abs absolute acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil clamp clamp_max clamp_min clip "
    "conj_physical cos cosh deg2rad erf erfc exp exp2 expm1 fix floor frac gcd i0 lcm ldexp log log10 log1p log2 logit nan_to_num neg "
    "negative rad2deg reciprocal round rsqrt sigmoid sin sinc sinh sqrt square tan tanh trunc xlogy").split())
# Torch-level functions that nn.functional has under the same name and signature.
SHARED = frozenset((
    "sigmoid tanh prelu hardshrink celu_ selu_ rrelu_ threshold_ relu_ adaptive_avg_pool1d avg_pool1d bilinear conv1d conv2d conv3d "
    "conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d channel_shuffle native_channel_shuffle cosine_similarity "
    "pairwise_distance pdist pixel_shuffle pixel_unshuffle").split())


def attach(record):
    """Publish one record in the places it names, under all its names."""
    own = record.name
    second = ALIASES.get(own)
    for name in (own,) if second is None else (own, *second.split()):
        for place in record.where:
            if place == "method":
                attach_method(name, record.function)
            elif place == "inplace":
                form = inplace_form(record) if name == own else Tensor.__dict__[own + "_"]
                attach_method(name + "_", form)
                if name in AS_FUNCTIONS:
                    publish("torch", name + "_", form)
            elif place in PUBLIC:
                publish(place, name.removeprefix(place + "_"), record.function)  # linalg_norm is linalg.norm
    if record.dunder:
        operator = stub_operator(record)
        for name in record.dunder.split():
            setattr(Tensor, f"__{name}__", operator)
            if "inplace" in record.where and not name.startswith("r"):
                setattr(Tensor, f"__i{name}__", inplace_operator(record))


def publish(place, name, function):
    """A function under a name of a namespace; nn.functional gets those that it shares with torch."""
    PUBLIC[place][name] = function
    if place == "torch" and name in SHARED:
        FUNCTIONAL.setdefault(name, function)


def attach_method(name, function):
    """A method, unless Tensor has one: the class's own, or what a user put there before this family was loaded."""
    if type(Tensor.__dict__.get(name, ABSENT)) is LateMethod:
        setattr(Tensor, name, function)


ABSENT = LateMethod("", "")


def inplace_form(record):
    """`x.op_(...)` from `op(x, ...)`."""
    function, inplace, fast = record.function, dispatch.inplace, form(record, record.name + "_")
    if fast is not None:
        return fast

    def in_place(self, *args, **kwargs):
        return inplace(function, self, args, kwargs)
    in_place.__name__ = in_place.__qualname__ = record.name + "_"
    in_place.__doc__ = f"In-place version of `{record.name}`; returns the tensor itself."
    in_place.__module__ = function.__module__
    return in_place


def inplace_operator(record):
    function, inplace = record.function, dispatch.inplace
    name = f"__i{record.dunder.split()[0]}__"  # a graph tells by it that it writes
    fast = form(record, name)
    if fast is not None:
        return fast

    def operator(self, other):
        return inplace(function, self, (other,), {})
    operator.__name__ = name
    return operator


def in_place(name, plain):
    """`name_(input, ...)` of torch or nn.functional."""
    def function(input, *args, **kwargs):
        return dispatch.inplace(plain, input, args, kwargs)
    function.__name__ = function.__qualname__ = name + "_"
    function.__doc__ = f"In-place version of `{name}`; returns the tensor itself."
    return function


late.stand_in(Tensor)
for _record in [record for _, record in REGISTRY.present()]:
    attach(_record)
entered.append(attach)
