"""`jit.script`: functions and modules whose branches and loops stay, and which are saved without their source.

Scripted code runs as the Python it is on its first call; from the second on it is compiled as `compile` does, so that both ways of
a branch are kept, each as native code.  Saved, it is the tree of jit_language.py, which a loaded script becomes Python functions
from (jit_python.py).  Departing: `export.export` checks what this trusts.  Read `script` first.
"""

import contextlib
import copy
import functools
import inspect
import textwrap
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from ..compile import compile
from ..nn.module import Module
from .jit_check import check
from .jit_language import DROPPED, NotSupportedError, Translator
from .jit_module import ScriptFunction, ScriptModule, TracedModule, deprecated, scripting
from .jit_python import graph_text, text_of
from .jit_types import Signature, fits, signature_of, text_of_type


class Error(Exception):
    """What scripted code itself raises, as PyTorch wraps it; here it is of the raised class too."""


def failed(error: Exception) -> Exception:
    """The error as PyTorch shows it."""
    kind = type(error)
    made = type("Error", (Error, kind), {"__module__": "torch.jit"})
    lines = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        generated = code.co_filename.startswith("<") and not code.co_filename.startswith("<script")
        if not generated and not str(trace.tb_frame.f_globals.get("__name__", "")).startswith("rushlight"):
            lines.append(f'  File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}')
        trace = trace.tb_next
    text = "\n".join(["The following operation failed in the TorchScript interpreter.", "Traceback of TorchScript (most recent call last):", *lines,
                      f"{'RuntimeError' if kind is Dropped else f'builtins.{kind.__name__}'}: {error}"])
    return made(text)


class ScriptedFunction(ScriptFunction):
    """A scripted function, or one from a file."""

    def __init__(self, function: Callable):
        self._rushlight_original = function
        functools.update_wrapper(self, function)
        self._signature = signature_of(function)
        self._run: Callable | None = None  # the compiled function, made when it is called a second time

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        run = self._run
        if run is None or getattr(scripting, "plain", False):
            self._run = run or compile(self._rushlight_original)
            run = self._rushlight_original
        return as_script(run, self._signature, args, kwargs)

    @property
    def name(self) -> str:
        return self.__name__

    @property
    def schema(self) -> str:
        """The declaration, with types."""
        return self._signature.declared

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    @property
    def code(self) -> str:
        """The Python that is scripted."""
        return code_of(self._rushlight_original)

    @property
    def graph(self) -> "ScriptGraph":
        """What is kept of the function, with its branches and loops; it prints."""
        return graph_of(self._rushlight_original)

    def __repr__(self) -> str:
        return f"<torch.jit.ScriptFunction {self.__name__}>"

    def __reduce__(self) -> Any:
        raise RuntimeError("ScriptFunction cannot be pickled: save it with torch.jit.save")


class ScriptGraph:
    """A scripted function as it is saved: ops, and blocks of branches and loops. `str` shows it."""

    def __init__(self, text: str):
        self.text = text

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def tree_of(function: Callable) -> tuple[list[dict], int]:
    """The functions of the tree that a function is saved as, and its number among them."""
    known = getattr(function, "_rushlight_tree", None)
    if known is not None:
        return known
    translator = Translator()
    number = translator.function(function)
    return translator.functions, number  # type: ignore[return-value]


def graph_of(function: Callable) -> ScriptGraph:
    return ScriptGraph(graph_text(*tree_of(function)))


def code_of(function: Callable) -> str:
    """The source of a function; what was loaded is written from its tree."""
    known = getattr(function, "_rushlight_tree", None)
    return text_of(*known) if known is not None else textwrap.dedent(inspect.getsource(function))


def as_script(run: Callable, signature: Signature | None, args: tuple, kwargs: dict) -> Any:
    """Call `run`, whose arguments `signature` checks; what its code raises is shown as PyTorch shows it."""
    before = getattr(scripting, "now", False)
    if not before and signature is not None:
        signature.check(args, kwargs)
    scripting.now = True
    try:
        return run(*args, **kwargs)
    except Exception as error:
        if before or not (isinstance(error, Dropped) or raised_by_user(error)):
            raise
        raise failed(error) from error
    finally:
        scripting.now = before


def raised_by_user(error: Exception) -> bool:
    """Whether a raise or assert of the scripted code raised it, not an op."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and not str(trace.tb_frame.f_globals.get("__name__", "")).startswith("rushlight") and not isinstance(error, (Error, NotSupportedError)) and (
        getattr(type(error), "__module__", "") == "builtins") and not trace.tb_frame.f_code.co_filename.startswith("<rushlight")


def is_scripting() -> bool:
    """Whether scripted code is running.

    >>> import rushlight as torch
    >>> torch.jit.is_scripting()
    False
    """
    return getattr(scripting, "now", False)


class ScriptedModule(ScriptModule):
    """The part of a scripted module's class that stands before the original class."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._count_call()
        return as_script(super().__call__, self._forward_signature(), args, kwargs)

    def _forward_signature(self) -> Signature | None:
        """What a call must fit; None for a layer of ours, which says itself what is wrong."""
        kind = self.__dict__["_original_class"]
        if kind not in SIGNATURES:
            forward = kind.forward
            plain = kind.__module__.startswith("rushlight.") or not inspect.isfunction(forward)
            SIGNATURES[kind] = None if plain else signature_of(forward, self.__dict__["_original_name"])
        return SIGNATURES[kind]

    @property
    def code(self) -> str:
        """The Python of forward."""
        return code_of(self.__dict__["_original_class"].forward)

    @property
    def graph(self) -> ScriptGraph:
        """What is kept of forward, with its branches and loops; it prints."""
        return graph_of(self.__dict__["_original_class"].forward)

    def __getattr__(self, name: str) -> Any:
        if name == "_original_class":
            raise AttributeError(name)
        return super().__getattr__(name)


CLASSES: dict[type, type] = {}
SIGNATURES: WeakKeyDictionary[type, Signature | None] = WeakKeyDictionary()


def class_of(kind: type) -> type:
    """The scripted class of a module class."""
    if kind not in CLASSES:
        CLASSES[kind] = type("RecursiveScriptModule", (ScriptedModule, kind), {"__module__": "torch.jit", "_scripted": frozenset(methods_of(kind))})
    return CLASSES[kind]


def methods_of(kind: type) -> list[str]:
    """The methods of a class that were written by its user."""
    found = []
    for base in kind.__mro__:
        if base.__module__.startswith("rushlight."):
            continue
        found += [name for name, value in vars(base).items() if inspect.isfunction(value) and not name.startswith("__")]
    return list(dict.fromkeys(found))


def script_module(module: Module, memo: dict) -> Module:
    """A module over the same tensors, with scripted children."""
    made = memo.get(id(module))
    if made is not None:
        return made
    if isinstance(module, ScriptModule):
        return module
    kind = type(module)
    made = memo[id(module)] = object.__new__(class_of(kind))
    made.__dict__.update(module.__dict__)
    for table in ("_parameters", "_buffers", "_modules"):
        made.__dict__[table] = copy.copy(module.__dict__[table])
    for name, child in module._modules.items():
        if child is not None:
            made._modules[name] = script_module(child, memo)
            if name in made.__dict__ and made.__dict__[name] is child:
                made.__dict__[name] = made._modules[name]
    made.__dict__["_original_class"], made.__dict__["_original_name"] = kind, kind.__name__
    return made


def check_module(module: Module) -> None:
    """Refuse modules whose forward, or a method marked with `jit.export`, cannot be scripted."""
    for part in module.modules():
        kind = type(part)
        if isinstance(part, ScriptModule) or kind.__module__.startswith("rushlight."):
            continue
        for name in methods_of(kind):
            method = getattr(kind, name)
            if name == "forward" or getattr(method, "_rushlight_jit", None) == "export":
                check(method, owner=part)


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """Script a function or a module: branches and loops are kept, and it can be saved without its source.

    A scripted module shares parameters and buffers with the original. Raises RuntimeError or TypeError for what cannot be scripted.

    >>> import rushlight as torch, warnings
    >>> def f(x: torch.Tensor):
    ...     return x if x.sum() > 0 else -x
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     g = torch.jit.script(f)
    >>> g(torch.tensor([-1.0]))
    tensor([1.])
    """
    deprecated("torch.jit.script")
    if isinstance(obj, (ScriptModule, ScriptFunction)):
        return obj
    if isinstance(obj, Module):
        check_module(obj)
        return script_module(obj, {})
    if inspect.isclass(obj):
        if issubclass(obj, Module):
            raise RuntimeError(f"Type '{obj}' cannot be compiled since it inherits from nn.Module, pass an instance instead")
        return obj  # a class used by scripts stays the class it is
    if inspect.isfunction(obj) or inspect.ismethod(obj):
        code = inspect.unwrap(obj).__code__
        if obj.__name__ == "<lambda>":
            raise RuntimeError(f"Expected a single top-level function: {code.co_filename}:{code.co_firstlineno}")
        if code.co_flags & 0x0C:
            raise NotSupportedError("Compiled functions can't take variable number of arguments or use keyword-only arguments with defaults")
        check(obj)
        return ScriptedFunction(obj)
    raise TypeError(f"jit.script expects a function, a module or a class, got {type(obj).__name__}: a {obj!r} cannot be scripted")


# -- marks ---------------------------------------------------------------------------------------------------------------


def export(fn: Callable) -> Callable:
    """Mark a method to be scripted though forward does not call it."""
    fn._rushlight_jit = "export"
    return fn


def ignore(drop: Any = False, **options: Any) -> Any:
    """Mark a function that stays Python: scripts call it, but cannot be saved. With `drop=True` as `unused`, which is the way to say it."""
    if callable(drop):
        drop._rushlight_jit = "ignore"
        return drop
    if not isinstance(drop, bool):
        raise RuntimeError(f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}")
    for said, name in ((options.get("drop_on_export"), "drop_on_export=True"), (drop, "True")):
        if said:
            warnings.warn(f"ignore({name}) has been deprecated. TorchScript will now drop the function call on compilation. Use torch.jit.unused now.",
                          FutureWarning, stacklevel=2)
            return unused
    return ignore


class Dropped(RuntimeError):
    """A script called what it was told to leave out."""


def unused(fn: Any) -> Any:
    """Mark a function, method or property that scripts leave out: a call of it in a script raises; elsewhere it runs.

    >>> import rushlight as torch
    >>> @torch.jit.unused
    ... def debug(x):
    ...     return x + 1
    >>> debug(1)
    2
    """
    if isinstance(fn, property):
        return property(*(part and unused(part) for part in (fn.fget, fn.fset, fn.fdel)), doc=fn.__doc__)
    fn._rushlight_jit = "unused"

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_scripting():
            raise Dropped(DROPPED)
        return fn(*args, **kwargs)
    return call


def is_instance(obj: Any, target_type: Any) -> bool:
    """Whether a value is of a type, also `List[int]` and the like. `torch.jit.isinstance`.

    >>> import rushlight as torch
    >>> torch.jit.isinstance([1, 2], list[int]), torch.jit.isinstance(["a"], list[int])
    (True, False)
    """
    kinds = target_type if isinstance(target_type, tuple) else (target_type,)
    texts = [text_of_type(kind) for kind in kinds]
    return any(isinstance(obj, kind) if text is None or "[" not in text else fits(text, obj) for kind, text in zip(kinds, texts))


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Whether scripts and traces that are called within compile; False: they run as they were written.

    >>> import rushlight as torch
    >>> with torch.jit.optimized_execution(False):
    ...     pass
    """
    before = scripting.__dict__.get("plain", False)
    scripting.plain = not should_optimize
    try:
        yield
    finally:
        scripting.plain = before


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value; the type is for readers."""
    return the_value


def script_if_tracing(fn: Callable) -> Callable:
    """The function itself."""
    return fn


class Removed:
    """An attribute that freezing took away."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        raise AttributeError(f"'{type(owner).__name__}' object has no attribute '{self.name}'")


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """A copy of a scripted or traced module whose parameters and buffers are constants, and which has forward only and `preserved_attrs`.

    Raises RuntimeError for a module in training mode, and for one that was not scripted.

    >>> import rushlight as torch, warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     frozen = torch.jit.freeze(torch.jit.script(torch.nn.Linear(2, 1).eval()))
    >>> list(frozen.parameters()), frozen(torch.zeros(3, 2)).shape
    ([], torch.Size([3, 1]))
    """
    if not isinstance(mod, ScriptModule):
        raise RuntimeError("Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to script your 'nn.Module'.")
    if mod.training:
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module before freezing.")
    return frozen(mod, frozenset(preserved_attrs or ()), "")


def frozen(module: Module, preserved: frozenset, prefix: str) -> Module:
    made = object.__new__(type(module))
    made.__dict__.update(module.__dict__)
    for name in ("_compiled_call_impl", "_was_called"):
        made.__dict__.pop(name, None)
    constants = {}
    for table in ("_parameters", "_buffers"):
        kept = made.__dict__[table] = copy.copy(module.__dict__[table])
        for name, value in list(kept.items()):
            if value is not None and prefix + name not in preserved:
                del kept[name]
                constants[name] = value.detach().clone()
    made.__dict__.update(constants)
    children = made.__dict__["_modules"] = copy.copy(module.__dict__["_modules"])
    for name, child in module._modules.items():
        if child is not None:
            children[name] = frozen(child, preserved, f"{prefix}{name}.")
    if isinstance(made, TracedModule):
        made.__dict__["places"] = {target: place_of(made, target) for target in made.places}
    gone = {name: Removed() for name in getattr(type(module), "_scripted", ()) if name != "forward" and prefix + name not in preserved and (
        getattr(getattr(type(module), name, None), "_rushlight_jit", None) == "export")}
    if gone:
        made.__class__ = type(type(module).__name__, (type(module),), {"__module__": "torch.jit", **gone})
    return made


def place_of(module: Module, target: str) -> tuple[dict, str]:
    """The table that holds a tensor of a traced module, and its key there."""
    *path, name = target.split(".")
    for part in path:
        module = module._modules[part]  # type: ignore[assignment]
    tables = module.__dict__, module._parameters, module._buffers
    return next(table for table in tables if name in table), name


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """The module as it is."""
    return mod


def fork(func: Callable, *args: Any, **kwargs: Any) -> Any:
    """Call at once; `wait` gives the result."""
    return Future(func(*args, **kwargs))


class Future:
    """A finished result."""

    def __init__(self, value: Any):
        self.result = value

    def wait(self) -> Any:
        return self.result


def wait(future: Future) -> Any:
    """The result of `fork`."""
    return future.wait()


__all__ = ["Error", "ScriptedFunction", "ScriptedModule", "is_scripting", "script"]
