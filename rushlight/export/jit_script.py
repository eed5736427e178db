"""`jit.script`: functions and modules whose branches and loops stay, and which are saved without their source.

Scripted code runs as the Python it is on its first call; from the second on it is compiled as `compile` does, so that both ways of
a branch are kept, each as native code.  Saved, it is the tree of jit_language.py, which a loaded script becomes Python functions
from (jit_python.py).  Departing: `export.export` checks what this trusts.  Read `script` first.
"""

import copy
import functools
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from ..compile import compile
from ..nn.module import Module
from .jit_check import check
from .jit_language import NotSupportedError, Translator
from .jit_module import ScriptFunction, ScriptModule, deprecated, scripting
from .jit_python import graph_text, text_of


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
                      f"builtins.{kind.__name__}: {error}"])
    return made(text)


class ScriptedFunction(ScriptFunction):
    """A scripted function, or one from a file."""

    def __init__(self, function: Callable):
        self._rushlight_original = function
        functools.update_wrapper(self, function)
        self._run: Callable | None = None  # the compiled function, made when it is called a second time

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        run = self._run
        if run is None:
            self._run = compile(self._rushlight_original)
            run = self._rushlight_original
        return as_script(run, self._rushlight_original, args, kwargs)

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


def as_script(run: Callable, function: Callable, args: tuple, kwargs: dict) -> Any:
    """Call `run`, which stands for `function`; what its code raises is shown as PyTorch shows it."""
    before = getattr(scripting, "now", False)
    scripting.now = True
    try:
        return run(*args, **kwargs)
    except TypeError as error:
        text = None if before else other_arguments(function, args, kwargs)
        if text is None:
            raise
        raise RuntimeError(text) from error
    except Exception as error:
        if before or not raised_by_user(error):
            raise
        raise failed(error) from error
    finally:
        scripting.now = before


def other_arguments(function: Callable, args: tuple, kwargs: dict) -> str | None:
    """What is wrong with the arguments, in PyTorch's words; None if they fit."""
    module = getattr(function, "__self__", None)
    original = function if module is None else type(module).forward
    signature = inspect.signature(original)
    given = args if module is None else (module, *args)
    try:
        signature.bind(*given, **kwargs)
        return None
    except TypeError:
        pass
    declared = f"Declaration: {original.__name__}({', '.join(map(str, signature.parameters.values()))})"
    if len(given) > len(signature.parameters):
        return f"{original.__name__}() expected at most {len(signature.parameters)} argument(s) but received {len(given) + len(kwargs)} argument(s). {declared}"
    names = list(signature.parameters)
    missing = [name for name in names[len(given):] if name not in kwargs and signature.parameters[name].default is inspect.Parameter.empty]
    if missing:
        return f"{original.__name__}() is missing value for argument '{missing[0]}'. {declared}"
    return f"Unknown keyword argument '{next(name for name in kwargs if name not in names[len(given):])}' for operator '{original.__name__}'. {declared}"


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
        return as_script(super().__call__, self.forward, args, kwargs)

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
        return obj  # a class used by scripts stays the class it is
    if inspect.isfunction(obj) or inspect.ismethod(obj):
        code = obj.__code__
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
    """Mark a function that stays Python: it runs, but cannot be saved."""
    if callable(drop):
        drop._rushlight_jit = "ignore"
        return drop
    return lambda fn: ignore(fn)


def unused(fn: Callable) -> Callable:
    """Mark a function that scripts do not call."""
    fn._rushlight_jit = "unused"
    return fn


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value; the type is for readers."""
    return the_value


def script_if_tracing(fn: Callable) -> Callable:
    """The function itself."""
    return fn


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """The module, which must be in eval mode."""
    if mod.training:
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module before freezing.")
    return mod


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
