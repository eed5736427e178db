"""What a saved graph may call, by name: the ops, a few operators, and nothing else.

A name is `place.name`: `torch.sin`, `nn.linear`, `Tensor.add_`, `operator.getitem`.  `find` answers only for names in
the tables made here from the op records, so that no file can name a function that reads, writes or runs anything.
"""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from .. import ops
from ..autograd import recorded
from ..func.control import cond, while_loop
from ..func.transforms import gradients_of, variable
from ..ops import late
from ..ops.record import REGISTRY
from ..recurrent import FUNCTIONS, PACKING
from ..tensor import Tensor
from .program import check_true, gradients, size_of, switch_mode

OPERATORS = ("add sub mul truediv floordiv mod pow matmul lt le eq ne gt ge and_ or_ xor lshift rshift neg pos invert not_ abs getitem setitem "
             "iadd isub imul itruediv ifloordiv imod ipow imatmul iand ior ixor").split()
ATTRIBUTES = frozenset(("T", "mT", "H", "mH", "real", "imag", "data"))
# What acts on the process, on history or on memory addresses, and what gives Python a tensor's values.
REFUSED = frozenset(
    "backward register_hook register_post_accumulate_grad_hook retain_grad share_memory_ data_ptr const_data_ptr storage untyped_storage set_ "
    "apply_ map_ numpy tolist item from_numpy frombuffer from_dlpack from_file asarray as_subclass new save load manual_seed seed "
    "set_rng_state get_rng_state initial_seed __reduce__ __reduce_ex__ __setstate__ __init__ __new__ __dlpack__ __array__ storage_offset "
    "module_load to_dlpack UntypedStorage TypedStorage is_storage type get_device".split())
SPACES = {"torch": ops.TORCH, "nn": ops.FUNCTIONAL, "linalg": ops.LINALG, "special": ops.SPECIAL, "fft": ops.FFT}
PLACES: dict[str, dict[str, Any]] = {}  # all of them, once all families of ops are loaded
NAMES: dict[int, str] = {}
# What differentiates the graph that it is a node of: with gradients off such a graph does not run.
DERIVATIVES = frozenset((gradients, recorded.gradients, recorded.leaf_gradients, variable, gradients_of))


def get_attribute(value: Any, name: str) -> Any:
    """`getattr` for the few attributes of tensors that are ops."""
    if name not in ATTRIBUTES or not isinstance(value, Tensor):
        raise AttributeError(f"an exported program may not read the attribute {name!r}")
    return getattr(value, name)


FIXED: dict[str, dict[str, Any]] = {
    "operator": {name: getattr(operator, name) for name in OPERATORS},
    "math": {name: getattr(math, name) for name in ("ceil", "floor", "sqrt", "prod", "trunc")},
    "python": {"int": int, "float": float, "bool": bool, "abs": abs, "min": min, "max": max, "getattr": get_attribute, "round": round, "sum": sum},
    "rnn": {**{function.__name__: function for function in FUNCTIONS.values()}, **PACKING},
    "derivative": {"variable": variable, "gradients_of": gradients_of, "gradients": recorded.gradients, "leaf_gradients": recorded.leaf_gradients},
    "control": {"cond": cond, "while_loop": while_loop, "switch_mode": switch_mode, "check_true": check_true, "gradients": gradients, "size_of": size_of}}


def tables() -> dict[str, dict[str, Any]]:
    """Place -> name -> function."""
    if not PLACES:
        late.load_all()
        methods = {}
        for kind in reversed(Tensor.__mro__[:-1]):
            methods.update({name: value for name, value in vars(kind).items() if callable(value) and not name.startswith("_")})
        PLACES.update({place: public({name: value for name, value in names.items() if place != "nn" or not name.startswith("_")}) for place, names in SPACES.items()},
                      Tensor=public(methods), op=public({name: record.function for name, record in REGISTRY.items()}), **FIXED)
        for place, table in PLACES.items():
            for name, function in table.items():
                NAMES.setdefault(id(function), f"{place}.{name}")
        NAMES[id(getattr)] = "python.getattr"
    return PLACES


def public(table: dict) -> dict:
    """The functions of a table that are ops of ours."""
    return {name: value for name, value in table.items()
            if callable(value) and not isinstance(value, type) and name not in REFUSED and (not name.startswith("__"))
            and str(getattr(value, "__module__", "")).startswith(("rushlight.ops", "rushlight.tensor", "rushlight.autograd", "builtins"))}


def name_of(function: Callable) -> str | None:
    """The name of a function that a program may call, or None."""
    tables()
    name = NAMES.get(id(function))
    if name is None:
        # Tensor methods are generated: the same name on the class is the same op.
        plain = getattr(function, "__name__", "")
        for place, table in PLACES.items():
            if table.get(plain) is function:
                return f"{place}.{plain}"
    return name


def find(name: Any) -> Callable | None:
    """The function of a name, or None if programs may not call it."""
    if type(name) is not str:
        return None
    place, _, plain = name.partition(".")
    if place in FIXED or PLACES:
        return (PLACES or FIXED).get(place, {}).get(plain)
    if place == "Tensor":
        return public({plain: method(plain)}).get(plain)
    names: Mapping[str, Any] = REGISTRY if place == "op" else SPACES[place] if place in SPACES else {}
    if plain not in names or place == "nn" and plain.startswith("_"):
        return None
    return public({plain: names[plain].function if place == "op" else names[plain]}).get(plain)


def method(name: str) -> Any:
    """A public method of tensors, whose family is loaded if need be; None where there is none."""
    for kind in Tensor.__mro__[:-1]:
        value = vars(kind).get(name)
        if isinstance(value, late.LateMethod):
            late.load(value.module)
            value = vars(kind)[name]
        if callable(value) and not name.startswith("_"):
            return value
    return None


def find_method(name: Any) -> bool:
    """Whether programs may call the tensor method of this name."""
    return type(name) is str and find(f"Tensor.{name}") is not None
