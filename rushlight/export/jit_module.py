"""What `jit.trace` returns, and the common parts of the departing path: names, warning, containers."""

import threading
import warnings
from collections.abc import Callable
from typing import Any

from ..compile import compile
from ..core.pytree import tree_unflatten
from ..nn.module import Module
from .graph_signature import InputKind
from .program import call

scripting = threading.local()


def deprecated(name: str, better: str = "`torch.compile` or `torch.export`") -> None:
    """The departing path says where to go, at the line that called the function which calls this."""
    warnings.warn(f"`{name}` is deprecated. Please switch to {better}.", DeprecationWarning, stacklevel=3)


class ScriptModule(Module):
    """The type of traced, scripted and loaded modules."""

    @property
    def original_name(self) -> str:
        return self.__dict__.get("_original_name", type(self).__name__)

    def _count_call(self) -> None:
        """Compile this module when it is called a second time; calls within a script belong to it."""
        if self._compiled_call_impl is None and not getattr(scripting, "now", False) and not getattr(scripting, "plain", False):
            if self.__dict__.get("_was_called"):
                self.compile()
            self.__dict__["_was_called"] = True

    def save(self, f: Any, _extra_files: dict | None = None, **options: Any) -> None:
        """Save to a path or file object, as `jit.save`."""
        SAVERS["save"](self, f, _extra_files)

    def _get_name(self) -> str:
        return "RecursiveScriptModule"

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"


class ScriptFunction:
    """The type of traced, scripted and loaded functions."""

    def save(self, f: Any, _extra_files: dict | None = None) -> None:
        """Save to a path or file object, as `jit.save`."""
        SAVERS["save"](self, f, _extra_files)


SAVERS: dict[str, Any] = {}  # set by jit_archive, which stands above


def run(program: Any, state: list, args: tuple, kwargs: dict) -> Any:
    """Run a traced program: arguments by structure, no checks of sizes."""
    try:
        leaves = program.checks.bind(args, kwargs)
    except ValueError as error:
        names = program.checks.names
        declared = f"Declaration: forward({', '.join(names)})"
        if len(args) + len(kwargs) > len(names):
            raise RuntimeError(f"forward() expected at most {len(names)} argument(s) but received {len(args) + len(kwargs)} argument(s). {declared}") from None
        missing = [name for name in names[len(args):] if name not in kwargs]
        if missing:
            raise RuntimeError(f"forward() is missing value for argument '{missing[0]}'. {declared}") from None
        raise RuntimeError(str(error)) from None
    return tree_unflatten(list(call(program.graph_module.forward, [*state, *leaves])), program.out_spec)


def caller(function: "TracedFunction") -> Callable:
    """A Python function that runs a traced one's graph: what is compiled."""
    def call(*args: Any, **kwargs: Any) -> Any:
        return function.call(*args, **kwargs)
    return call


class TracedFunction(ScriptFunction):
    """A traced function; from the second call on it is native code."""

    def __init__(self, program: Any, original: Any = None):
        self.program = program
        self._run: Callable | None = None
        self.__name__ = getattr(original, "__name__", "traced")
        self.__doc__ = getattr(original, "__doc__", None)

    @property
    def name(self) -> str:
        return self.__name__.replace("<lambda>", "_lambda")

    @property
    def graph(self) -> Any:
        return self.program.graph

    @property
    def code(self) -> str:
        return self.program.graph_module.code

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        again = self._run
        if again is None or getattr(scripting, "plain", False):
            self._run = again or compile(caller(self))
            return self.call(*args, **kwargs)
        return again(*args, **kwargs)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph by its ops."""
        return run(self.program, self.program.state_values(), args, kwargs)


class TracedPart(ScriptModule):
    """A module inside a traced one: it holds state, and shows the name of what it was."""

    def _get_name(self) -> str:
        return self.original_name


class TracedModule(ScriptModule):
    """A traced module: parameters and buffers are those of the traced module itself."""

    def __init__(self, program: Any, original: Any = None, programs: dict | None = None):
        super().__init__()
        self.__dict__["program"], self.__dict__["programs"] = program, programs or {"forward": program}
        self.__dict__["_original_name"] = type(original).__name__ if original is not None else "TracedModule"
        self.__dict__["places"], self.__dict__["_codes"] = {}, {}
        tensors = dict(program.state)
        if original is not None:
            tensors.update(original.named_parameters(remove_duplicate=False))
            tensors.update(original.named_buffers(remove_duplicate=False))
            for name, _ in original.named_modules():
                if name:
                    self.holder((name + ".x").split("."))
        for spec in dict.fromkeys(spec for one in self.programs.values() for spec in one.graph_signature.input_specs):
            if spec.kind is InputKind.USER_INPUT:
                continue
            owner, name = self.holder(spec.target.split("."))
            if spec.kind is InputKind.CONSTANT_TENSOR:
                owner.__dict__[name] = next(one._constants[spec.target] for one in self.programs.values() if spec.target in one._constants)
                self.places[spec.target] = (owner.__dict__, name)
            elif spec.kind is InputKind.PARAMETER:
                owner.register_parameter(name, tensors[spec.target])
                self.places[spec.target] = (owner._parameters, name)
            else:
                owner.register_buffer(name, tensors[spec.target], persistent=spec.persistent is not False)
                self.places[spec.target] = (owner._buffers, name)
        for alias in program.aliases:
            owner, name = self.holder(alias.split("."))
            owner.register_parameter(name, tensors.get(alias, tensors[program.aliases[alias]]))
        if original is not None:
            for name, module in original.named_modules():
                made = self if not name else self.get_submodule(name)
                made.__dict__["training"] = module.training
                made.__dict__["_original_name"] = type(module).__name__

    def holder(self, path: list) -> tuple[Module, str]:
        owner: Module = self
        for part in path[:-1]:
            if part not in owner._modules:
                owner.add_module(part, TracedPart())
            owner = owner._modules[part]
        return owner, path[-1]

    def _get_name(self) -> str:
        return self.original_name

    @property
    def graph(self) -> Any:
        return self.program.graph

    @property
    def code(self) -> str:
        return self.program.graph_module.code

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._count_call()
        return super().__call__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.call_program("forward", args, kwargs)

    def call_program(self, method: str, args: tuple, kwargs: dict) -> Any:
        program = self.programs[method]
        state = [self.places[spec.target] for spec in program.graph_signature.input_specs if spec.kind is not InputKind.USER_INPUT]
        return run(program, [table[name] for table, name in state], args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__.get("programs", {}):
            return lambda *args, **kwargs: self.call_program(name, args, kwargs)
        return super().__getattr__(name)


class LoadedTracedModule(TracedModule):
    """A traced module from a file."""


# PyTorch's names of the types.
TracedFunction.__name__, TracedModule.__name__, LoadedTracedModule.__name__ = "ScriptFunction", "TopLevelTracedModule", "RecursiveScriptModule"
