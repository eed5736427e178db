"""`__torch_function__`: ops on tensors of a user's subclass, and ops inside a `TorchFunctionMode`.

An op hands itself to the innermost mode, then to the subclass's `__torch_function__`; Tensor's own, which most leave alone, runs the op
as usual and makes the results tensors of the subclass. Called by ops/dispatch.py.
"""
from contextvars import ContextVar

from ..core.modes import Special, slow
from ..tensor import PLAIN, Tensor
from .record import REGISTRY

disabled = ContextVar("torch_function_disabled", default=False)
MODES = ContextVar("torch_function_modes", default=())  # the modes that are entered, innermost last


def push(mode):
    """Make a mode the innermost one; returns what `pop` takes."""
    Special.enter()
    slow[0] += 1
    return MODES.set((*MODES.get(), mode))


def pop(token):
    """Leave the mode that `push` entered."""
    MODES.reset(token)
    slow[0] -= 1
    Special.leave()


def ask_mode(function, types, args, kwargs):
    """What the innermost mode makes of a call; inside its own `__torch_function__` it is not asked again, the ones around it are."""
    modes = MODES.get()
    token = MODES.set(modes[:-1])
    try:
        result = modes[-1].__torch_function__(function, types, args, kwargs)
    finally:
        MODES.reset(token)
    if result is NotImplemented:
        raise TypeError(f"Multiple dispatch failed for 'torch.{function.__name__}'; all __torch_function__ handlers returned NotImplemented:\n\n"
                        f"  - mode object {modes[-1]}")
    return result


class DisableTorchFunctionSubclass:
    """Context manager: inside, ops treat tensors of subclasses as plain ones."""

    def __enter__(self):
        self.token = disabled.set(True)

    def __exit__(self, *exc):
        disabled.reset(self.token)


def public_function(op):
    """The function users know the op by."""
    record = REGISTRY.get(op.name.lstrip("_"))
    return op.function if record is None else record.function


def arguments(op, bound, out):
    """A call's values as positional arguments, keywords, and the types that have a `__torch_function__` of their own."""
    args = tuple(bound[name] for name in op.positional)
    kwargs = {name: bound[name] for name in op.params if name not in op.positional}
    if out is not None:
        kwargs["out"] = out
    types = tuple({type(value): None for value in flat(args)
                   if type(value) not in PLAIN and hasattr(type(value), "__torch_function__")})
    return args, kwargs, types


def call_mode(op, bound, out):
    """Let the innermost mode decide."""
    args, kwargs, types = arguments(op, bound, out)
    return ask_mode(public_function(op), types, args, kwargs)


def call(kind, op, bound, out):
    """Let the subclass decide."""
    args, kwargs, types = arguments(op, bound, out)
    handler = kind.__torch_function__
    if getattr(handler, "__func__", None) is Tensor.__torch_function__.__func__:
        return default(kind, op.function, args, kwargs)
    result = handler(public_function(op), types, args, kwargs)
    if result is NotImplemented:
        raise TypeError(f"no implementation found for 'torch.{op.name.lstrip('_')}' on types that implement __torch_function__: "
                        f"{[t.__name__ for t in types]}")
    return result


def flat(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value


def default(kind, function, args, kwargs):
    """Run as usual; the results belong to the subclass."""
    with DisableTorchFunctionSubclass():
        result = function(*args, **kwargs)
    return converted(result, kind)


def converted(result, kind):
    if isinstance(result, Tensor):
        if type(result) in PLAIN and kind is not Tensor:
            result.__class__ = kind
        return result
    if isinstance(result, (tuple, list)):
        for item in result:
            converted(item, kind)
    return result


def torch_function(cls, func, types, args=(), kwargs=None):
    """What runs when an op meets a tensor of a subclass; override it to change ops, and call `super()` to run them."""
    if not all(issubclass(cls, kind) or issubclass(kind, cls) for kind in types):
        return NotImplemented
    return default(cls, func, args, kwargs or {})


Tensor.__torch_function__ = classmethod(torch_function)  # type: ignore[assignment]
