"""How many arguments builtins take: what stands in for one while translating is written for calls that Python accepts.

A call that does not fit is a break, and Python refuses it in its own words.  Read `fits` first.
"""

import functools
import inspect
import itertools
import math
import string
import time
import warnings
from collections import deque
from contextvars import ContextVar
from types import BuiltinFunctionType
from typing import Any, NamedTuple


class Limits(NamedTuple):
    """What a function takes; None: any number of positional arguments, any name."""

    least: int
    most: int | None
    names: frozenset[str] | None = frozenset()


def takes(least: int, most: int | None, names: str | None = "") -> Limits:
    return Limits(least, most, None if names is None else frozenset(names.split()))


# Builtins that do not say it themselves, in one version of Python or another.
UNTOLD: dict[Any, Limits] = {
    getattr: takes(2, 3), iter: takes(1, 2), next: takes(1, 2), type: takes(1, 3), str: takes(0, 3, "object encoding errors"), bool: takes(0, 1),
    int: takes(0, 2, "base"), vars: takes(0, 1), range: takes(1, 3), min: takes(1, None, "key default"), max: takes(1, None, "key default"),
    map: takes(2, None), filter: takes(2, 2), zip: takes(0, None, "strict"), set: takes(0, 1), frozenset: takes(0, 1), dict: takes(0, 1, None),
    functools.reduce: takes(2, 3), functools.partial: takes(1, None, None), math.log: takes(1, 2), deque: takes(0, 2, "iterable maxlen"),
    itertools.chain: takes(0, None), itertools.islice: takes(2, 4), itertools.repeat: takes(0, 2, "object times"),
    itertools.zip_longest: takes(0, None, "fillvalue"), itertools.product: takes(0, None, "repeat"), time.sleep: takes(1, 1),
    warnings.warn: takes(0, 4, "message category stacklevel source skip_file_prefixes"), ContextVar.get: takes(1, 2), breakpoint: takes(0, None, None),
    **dict.fromkeys((time.time, time.perf_counter, time.monotonic, time.process_time, time.thread_time, time.time_ns, time.perf_counter_ns,
                     time.monotonic_ns, time.process_time_ns, time.thread_time_ns), takes(0, 0)),
}


PLAIN = frozenset(string.ascii_letters + string.digits + "_$=,./*- ")  # of these a builtin's text consists if no part of it is in doubt

TEXTS: dict[Any, int] = {getattr: 1, hasattr: 1, setattr: 1, delattr: 1, format: 1}  # which argument must be a text


@functools.lru_cache(1024)
def limits(function: Any) -> Limits | None:
    """What a function takes, or None if that is not known."""
    found = UNTOLD.get(function) or told(function)
    if found is not None:
        return found
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    by_place = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    by_name = frozenset(one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY))
    return Limits(sum(one.default is one.empty for one in by_place), None if any(one.kind is one.VAR_POSITIONAL for one in parameters) else len(by_place),
                  None if any(one.kind is one.VAR_KEYWORD for one in parameters) else by_name)


def told(function: Any) -> Limits | None:
    """What a builtin says it takes, where that is names and plain defaults only: `inspect` makes a tokenizer for it, in 20 ms.

    >>> told(isinstance), told(sum)
    (Limits(least=2, most=2, names=frozenset()), Limits(least=1, most=2, names=frozenset({'start'})))
    """
    text = getattr(function, "__text_signature__", None)
    if type(function) is not BuiltinFunctionType or type(text) is not str or not PLAIN.issuperset(text[1:-1]):
        return None
    least, most, names, by_name = 0, 0, set(), False
    for part in text[1:-1].split(", ") if text != "()" else ():
        name, _, default = part.partition("=")
        if part == "/":
            names.clear()
        elif part == "*":
            by_name = True
        elif part[0] == "*":
            return None
        elif part[0] != "$":  # the module or object that it is bound to
            names.add(name)
            if not by_name:
                most += 1
                least += not default
    return Limits(least, most, frozenset(names))


def fits(function: Any, args: tuple, kwargs: dict) -> bool:
    """Whether a builtin may take so many arguments, and arguments of these names.

    >>> fits(len, ([],), {}), fits(len, (), {}), fits(sorted, ([],), {"reverse": True}), fits(sorted, ([],), {"upwards": True})
    (True, False, True, False)
    """
    found = limits(function)
    if found is None:
        return True
    return (len(args) + len(kwargs) >= found.least and (found.most is None or len(args) <= found.most)
            and (not kwargs or found.names is None or found.names.issuperset(kwargs)))
