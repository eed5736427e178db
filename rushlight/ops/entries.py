"""Public functions of composites: a composite's body called with PyTorch's synonyms of arguments, and errors for what is no tensor.

Their code is made on the first call, as that of the ops (generate.py).  Read `entry` first.
"""

import inspect
import types

from ..core.errors import type_name
from ..core.outline import outline
from ..tensor import Tensor
from .generate import NAMES, define


class Absent:
    """What an argument is that was not given."""

    def __repr__(self):
        return "<not given>"


ABSENT = Absent()
SYNONYMS = {"dim": "axis", "keepdim": "keepdims"}  # NumPy's names of arguments, which PyTorch takes too
TENSOR_FIRST = ("input", "self")  # first parameters that must be a tensor


def entry(composite):
    """The public function of a composite: its body, called with PyTorch's synonyms of arguments and errors for what is no tensor.

    As an op's, its code is made on the first call. None where the body serves as it is.
    """
    body = composite.body
    code = body.__code__
    params = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
    takes_rest = bool(code.co_flags & inspect.CO_VARKEYWORDS)
    function_like = {"torch", "linalg", "special", "fft"}.intersection(composite.where)
    if not (function_like or "method" in composite.where) or not (
            "dim" in params or takes_rest or function_like and params and params[0] in TENSOR_FIRST):
        return None
    function = types.FunctionType(first_entry.__code__, NAMES, body.__name__)
    function.__kwdefaults__ = {"_composite": composite}
    function.__qualname__ = body.__qualname__
    function.__wrapped__, function.__doc__, function.__module__ = body, body.__doc__, body.__module__
    return function


def first_entry(*args, _composite=None, **kwargs):
    if outline.enough and not kwargs and args and isinstance(args[0], Tensor):  # few, see `generate.for_outline`; there is nothing to translate
        return _composite.body(*args)
    return materialise_entry(_composite)(*args, **kwargs)


def materialise_entry(composite):
    """Compile the function that `entry` stands for into it."""
    function, name = composite.function, composite.name
    if function.__code__ is not first_entry.__code__:
        return function
    NAMES[f"{name}__body"], NAMES[f"{name}__composite"] = composite.body, composite
    real = define(name, entry_source(composite))[name]
    function.__defaults__, function.__kwdefaults__ = real.__defaults__, real.__kwdefaults__
    function.__code__ = real.__code__
    return function


def entry_source(composite):
    """The text of a composite's public function."""
    parameters = inspect.signature(composite.body).parameters
    kinds = {name: parameter.kind for name, parameter in parameters.items()}
    rest = next((name for name, kind in kinds.items() if kind is inspect.Parameter.VAR_KEYWORD), None)
    synonyms = {name: other for name, other in SYNONYMS.items() if (name in kinds or rest) and other not in kinds}
    shown, given, lines, optional = [], [], [], False
    for name, parameter in parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            shown.append("*" + name)
            given.append("*" + name)
            continue
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not any(part.startswith("*") for part in shown):
            shown.append("*")
        default = parameter.default
        if default is inspect.Parameter.empty and (name in synonyms or optional and parameter.kind is not inspect.Parameter.KEYWORD_ONLY):
            default, optional = ABSENT, True
        if default is inspect.Parameter.empty:
            shown.append(name)
        else:
            NAMES[f"{composite.name}__{name}"] = default
            shown.append(f"{name}={composite.name}__{name}")
        given.append(name if parameter.kind is not inspect.Parameter.KEYWORD_ONLY else f"{name}={name}")
    if synonyms and not any(part.startswith("*") for part in shown):
        shown.append("*")
    shown += [f"{other}=ABSENT" for other in synonyms.values()] + (["**" + rest] if rest else [])
    for name, other in synonyms.items():
        target = name if name in kinds else f"{rest}[{name!r}]"
        lines += [f"    if {other} is not ABSENT:", f"        {target} = {other}"]
    first = next(iter(parameters))
    required = [name for name, parameter in parameters.items() if parameter.default is inspect.Parameter.empty
                and f"{name}={composite.name}__{name}" in shown]
    for name in required:
        lines += [f"    if {name} is ABSENT:", f"        raise missing({composite.name!r}, {name!r})"]
    call = f"return {composite.name}__body({', '.join([*given, *(['**' + rest] if rest else [])])})"
    if first in TENSOR_FIRST:
        lines += ["    try:", f"        {call}", "    except AttributeError:", f"        if isinstance({first}, Tensor):", "            raise",
                  f"        raise not_tensor({composite.name!r}, {first!r}, {first}) from None"]
    else:
        lines.append(f"    {call}")
    return "\n".join([f"def {composite.name}({', '.join(shown)}):", *lines, ""])


def missing(function, name):
    return TypeError(f"{function}() missing 1 required positional argument: '{name}'")


def not_tensor(function, name, value):
    return TypeError(f"{function}(): argument '{name}' (position 1) must be Tensor, not {type_name(value)}")


NAMES.update(materialise_entry=materialise_entry, ABSENT=ABSENT, missing=missing, not_tensor=not_tensor)
