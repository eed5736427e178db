"""Modes: what the current thread is doing (recording a graph or not, inference, autocast) and the defaults.

Recording is one `ContextVar` read on the hot path.  All rarer modes of any thread raise the one counter
`special`, which fast paths check as a plain global; only then do they take the slow path that looks closer.
"""
import functools
import inspect
from contextvars import ContextVar

from . import dtypes

GRAD = ContextVar("grad", default=True)
grad_enabled, switch_grad = GRAD.get, GRAD.set
INFERENCE = ContextVar("inference", default=False)
inference_enabled = INFERENCE.get
LINES = ContextVar("lines", default=False)  # remember the user's line of each recorded op
ANOMALY = ContextVar("anomaly", default=None)  # None, or whether to look for NaN in each gradient
SAVED_HOOKS = ContextVar("saved_hooks", default=())  # stack of (pack, unpack)
AUTOCAST = ContextVar("autocast", default=None)
RANDOM_RULE = ContextVar("random_rule", default=None)  # why random numbers may not be drawn, if they may not

flags = {"special": 0, "random_rules": 0}  # the namespace of generated op functions shares this dict's entry: see ops/generate.py
counted = [0]  # `special` once more, where a launcher finds it: a dict's version changes with each entry into a mode, this only as long as it lasts
listeners = [lambda count: counted.__setitem__(0, count)]  # called when `special` changes
slow = [0]  # how many threads translate or must not run compiled code: a compiled function looks closer only then


class Special:
    """Counts entries into rare modes, over all threads, so that fast paths need one look at one integer."""

    @staticmethod
    def enter():
        flags["special"] += 1
        for tell in listeners:
            tell(flags["special"])

    @staticmethod
    def leave():
        flags["special"] -= 1
        for tell in listeners:
            tell(flags["special"])


NEW = object.__new__


class Decorator:
    """A context manager that also decorates functions and generators, with or without parentheses."""

    __slots__ = ()

    def __call__(self, function):
        if inspect.isclass(function):
            function.__init__ = self(function.__init__)
            return function
        if inspect.isgeneratorfunction(function):
            return self.wrap_generator(function)

        @functools.wraps(function)
        def decorated(*args, **kwargs):
            with self.clone():
                return function(*args, **kwargs)
        return decorated

    def wrap_generator(self, function):
        """The mode holds while the generator runs, not while its caller does."""
        @functools.wraps(function)
        def generator(*args, **kwargs):
            with self.clone():
                running = function(*args, **kwargs)
            step, value = running.send, None
            try:
                while True:
                    with self.clone():
                        produced = step(value)
                    try:
                        value = yield produced
                        step = running.send
                    except GeneratorExit:
                        with self.clone():
                            running.close()
                        raise
                    except BaseException as error:
                        step, value = running.throw, error
            except StopIteration as stop:
                return stop.value
        return generator

    def clone(self):
        """A fresh manager of the same kind, so that one decorator serves recursion and threads."""
        return type(self)()


class no_grad(Decorator):
    """Context manager and decorator: record no graph inside.

    >>> import rushlight as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    __slots__ = ("previous",)
    value = False

    def __new__(cls, function=None):
        return NEW(cls) if function is None else NEW(cls)(function)

    def __enter__(self):
        self.previous = grad_enabled()
        switch_grad(self.value)

    def __exit__(self, kind, error, traceback):
        switch_grad(self.previous)


class enable_grad(no_grad):
    """Context manager and decorator: record a graph inside, also within `no_grad`.

    >>> import rushlight as torch
    >>> with torch.no_grad(), torch.enable_grad():
    ...     torch.is_grad_enabled()
    True
    """

    __slots__ = ()
    value = True


class set_grad_enabled(Decorator):
    """Switch recording on or off: as a call from now on, as a context manager for the block, or as a decorator.

    >>> import rushlight as torch
    >>> with torch.set_grad_enabled(False):
    ...     torch.is_grad_enabled()
    False
    """

    __slots__ = ("value", "previous")

    def __init__(self, mode):
        if type(mode) is not bool:
            raise TypeError(f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}")
        self.previous, self.value = grad_enabled(), mode
        GRAD.set(self.value)

    def __call__(self, function):
        GRAD.set(self.previous)
        return super().__call__(function)

    def __enter__(self):
        GRAD.set(self.value)

    def __exit__(self, *exc):
        GRAD.set(self.previous)

    def clone(self):
        return set_grad_enabled(self.value)


class inference_mode(Decorator):
    """Like `no_grad`, and the tensors made inside can never take part in a graph.

    >>> import rushlight as torch
    >>> with torch.inference_mode():
    ...     x = torch.ones(2)
    >>> x.is_inference()
    True
    """

    __slots__ = ("mode", "previous")

    def __new__(cls, mode=True):
        self = object.__new__(cls)
        if mode not in (True, False):
            self.mode = True
            return self(mode)
        self.mode = True if mode else False
        return self

    def __enter__(self):
        self.previous = grad_enabled(), inference_enabled()
        if self.mode:
            Special.enter()
        GRAD.set(not self.mode)
        INFERENCE.set(self.mode)

    def __exit__(self, *exc):
        GRAD.set(self.previous[0])
        INFERENCE.set(self.previous[1])
        if self.mode:
            Special.leave()

    def clone(self):
        return inference_mode(self.mode)


class mode:
    """Set a ContextVar of this module for a block; counts as special."""

    __slots__ = ("variable", "value", "previous")

    def __init__(self, variable, value):
        self.variable, self.value = variable, value

    def __enter__(self):
        self.previous = self.variable.get()
        self.variable.set(self.value)
        Special.enter()
        return self.value

    def __exit__(self, *exc):
        self.variable.set(self.previous)
        Special.leave()


class Defaults:
    """Process-wide defaults."""

    dtype = dtypes.float32


def get_default_dtype():
    """The dtype that factories give floats: float32 unless set.

    >>> import rushlight as torch
    >>> torch.get_default_dtype()
    torch.float32
    """
    return Defaults.dtype


def set_default_dtype(d):
    """Set the dtype that factories give floats; TypeError unless it is a floating point dtype."""
    if not isinstance(d, dtypes.dtype):
        raise TypeError(f"invalid dtype object: only floating-point types are supported as the default type, got {d!r}")
    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    Defaults.dtype = d
