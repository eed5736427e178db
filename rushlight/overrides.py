"""`torch.overrides`: classes that say what functions mean for them, and modes that see every op of a block."""
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from .ops import overriding
from .ops.attach import TORCH
from .tensor import PLAIN, Tensor


def has_own_function(value: Any) -> bool:
    kind = type(value)
    return kind not in PLAIN and hasattr(kind, "__torch_function__") and not (isinstance(value, Tensor) and overriding.disabled.get())


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a function of these arguments has to ask `handle_torch_function`: one has a `__torch_function__`, or a mode is entered.

    >>> import rushlight as torch
    >>> torch.overrides.has_torch_function([torch.ones(1), 2])
    False
    """
    return bool(overriding.MODES.get()) or any(map(has_own_function, relevant_args))


def has_torch_function_unary(obj: Any) -> bool:
    """`has_torch_function` of one argument."""
    return has_torch_function((obj,))


def has_torch_function_variadic(*args: Any) -> bool:
    """`has_torch_function` of the arguments."""
    return has_torch_function(args)


def overloaded(relevant_args: Iterable[Any]) -> list[Any]:
    """One argument of each type with a `__torch_function__`, subclasses before their bases, else in order."""
    found: list[Any] = []
    for value in relevant_args:
        if has_own_function(value) and type(value) not in map(type, found):
            at = next((at for at, other in enumerate(found) if isinstance(value, type(other))), len(found))
            found.insert(at, value)
    return found


def handle_torch_function(public_api: Callable, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Let the innermost mode, or else the arguments' `__torch_function__`, run `public_api(*args, **kwargs)`.

    TypeError if none of them does.

    >>> import rushlight as torch
    >>> class Loud(torch.Tensor):
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return func.__name__
    >>> def triple(x):
    ...     if torch.overrides.has_torch_function_unary(x):
    ...         return torch.overrides.handle_torch_function(triple, (x,), x)
    ...     return x * 3
    >>> triple(torch.ones(1)), triple(torch.ones(1).as_subclass(Loud))
    (tensor([3.]), 'triple')
    """
    deciding = overloaded(relevant_args)
    types = tuple(map(type, deciding))
    if overriding.MODES.get():
        return overriding.ask_mode(public_api, types, args, kwargs)
    for value in deciding:
        result = value.__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(f"no implementation found for '{public_api.__module__}.{public_api.__name__}' on types that implement __torch_function__: {list(types)}")


def wrap_torch_function(dispatcher: Callable) -> Callable:
    """A decorator that asks `__torch_function__` before the function runs; `dispatcher(*args, **kwargs)` gives the arguments that matter."""
    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)
        return wrapped
    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Whether a value is a tensor or has a `__torch_function__`.

    >>> import rushlight as torch
    >>> torch.overrides.is_tensor_like(torch.ones(1)), torch.overrides.is_tensor_like([1.0])
    (True, False)
    """
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable) -> bool:
    """Whether a function is a method of Tensor (where torch has it too, that is the same object), or the getter of one of its properties."""
    return any(func is value or func is getattr(value, "__get__", None) for value in vars(Tensor).values())


def resolve_name(f: Callable) -> str | None:
    """The name that users know a function by, such as 'torch.add'; None for one that is not public."""
    name = getattr(f, "__name__", None)
    if name is not None and TORCH.get(name) is f:
        return f"torch.{name}"
    return f"torch.Tensor.{name}" if name is not None and inspect.getattr_static(Tensor, name, None) is f else None


class TorchFunctionMode:
    """A context manager whose `__torch_function__(self, func, types, args, kwargs)` is asked for every op that runs in its block.

    Inside the method the mode itself is not asked, so `func(*args, **kwargs)` runs the op. A function that is made of several ops
    shows as these, an in-place form as the op it writes; functions that make tensors from nothing do not show. Compiled functions run
    op by op inside a mode.

    >>> import rushlight as torch
    >>> class Names(torch.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> with Names():
    ...     y = torch.ones(2).exp() + 1
    exp
    add
    """

    def __torch_function__(self, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has to define __torch_function__(self, func, types, args=(), kwargs=None)")

    def __enter__(self) -> "TorchFunctionMode":
        self.__dict__.setdefault("tokens", []).append(overriding.push(self))
        return self

    def __exit__(self, *exc: object) -> None:
        overriding.pop(self.__dict__["tokens"].pop())


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that runs every op as it is."""

    def __torch_function__(self, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
        return func(*args, **(kwargs or {}))


__all__ = ["BaseTorchFunctionMode", "TorchFunctionMode", "handle_torch_function", "has_torch_function", "has_torch_function_unary",
           "has_torch_function_variadic", "is_tensor_like", "is_tensor_method_or_property", "resolve_name", "wrap_torch_function"]
