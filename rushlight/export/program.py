"""`ExportedProgram`: one graph with its state, its signature and the conditions on its inputs.

It runs by itself (`program(*args)`), or as a module with parameters that train (`program.module()`).  Nothing here
needs nn or capture, so that a loaded program starts fast.  Read `ExportedProgram.run` first.
"""

import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..autograd import grad
from ..core import modes
from ..core.dtypes import int64
from ..core.pytree import tree_unflatten
from ..graph import GraphModule
from ..ops import scalar_tensor
from ..tensor import Tensor
from .checks import Checks, ValueRanges
from .graph_signature import ExportGraphSignature, InputKind

entered = threading.local()
MODES: dict[str, Any] = {"grad": modes.GRAD, "inference": modes.INFERENCE, "autocast": modes.AUTOCAST}


def switch_mode(name: str, value: Any) -> None:
    """A node of a graph: set a mode, or back to what the caller of the program had ("outer")."""
    variable = MODES[name]
    if value == "outer":
        value = entered.modes[-1][name]
    if name != "grad":
        before, after = bool(variable.get()), bool(value)
        if after and not before:
            modes.Special.enter()
        elif before and not after:
            modes.Special.leave()
    variable.set(value)


switch_mode.impure = True


class RuntimeAssertion(RuntimeError, AssertionError):
    """A condition that forward states does not hold."""


def check_true(condition: Any) -> Any:
    """A node of a graph: an assert statement on a tensor, or `torch._check` of one."""
    if not condition:
        raise RuntimeAssertion("Runtime assertion failed: a condition that the exported program asserts does not hold")
    return condition


check_true.impure = True


def size_of(value: Tensor, dim: int) -> Tensor:
    """A node of a graph: a size that depends on values, as a tensor of no dims."""
    return scalar_tensor(value._array.shape[dim], dtype=int64)


def gradients(loss: Any, leaves: tuple) -> tuple:
    """A node of a graph: `loss.backward()`, its gradients as values; None for a leaf that the loss does not use."""
    return grad(loss, leaves, allow_unused=True)


def call(function: Callable, values: list) -> Any:
    """Run a graph's code; the modes are afterwards what they were."""
    stack = entered.__dict__.setdefault("modes", [])
    stack.append({name: variable.get() for name, variable in MODES.items()})
    try:
        return function(*values)
    finally:
        before = stack[-1]
        for name in MODES:
            if MODES[name].get() != before[name]:
                switch_mode(name, before[name])
        stack.pop()


class CallSpec(NamedTuple):
    """The structure of inputs and outputs."""

    in_spec: Any
    out_spec: Any


class ModuleCallEntry(NamedTuple):
    """A module that the program was made of; `signature` is None, since calls inside are not kept apart."""

    fqn: str
    signature: Any = None


class ExportedProgram:
    """What `export.export` returns and `export.load` brings back."""

    def __init__(self, graph_module: GraphModule, signature: ExportGraphSignature, state: dict, constants: dict, checks: Checks,
                 out_spec: Any, example_inputs: Any = None, names: dict | None = None, modules: list | None = None):
        self._graph_module, self._signature, self.checks, self.out_spec = graph_module, signature, checks, out_spec
        self.state, self._constants = state, constants  # every parameter and buffer, persistent or not, by qualified name
        self.aliases: dict[str, str] = names or {}  # a second name of a tied parameter -> its first
        self._example_inputs = example_inputs
        self.modules: list[str] = modules or []  # the modules that it was made of, by qualified name
        self.dialect = "TRAINING"
        self.native: Any = None  # runs the graph as native code, where `load(native=True)` asked for that

    # -- what it is --------------------------------------------------------------------------------------------------

    @property
    def graph_module(self) -> GraphModule:
        return self._graph_module

    @property
    def graph(self) -> Any:
        return self._graph_module.graph

    @property
    def graph_signature(self) -> ExportGraphSignature:
        return self._signature

    @property
    def state_dict(self) -> dict:
        """Parameters and persistent buffers by qualified name."""
        hidden = self._signature.non_persistent_buffers
        kept = {name: value for name, value in self.state.items() if name not in hidden}
        return kept | {name: self.state[first] for name, first in self.aliases.items()}

    @property
    def constants(self) -> dict:
        hidden = self._signature.non_persistent_buffers
        return {**self._constants, **{name: self.state[name] for name in hidden}}

    @property
    def tensor_constants(self) -> dict:
        return self._constants

    @property
    def range_constraints(self) -> dict:
        return {name: ValueRanges(symbol.lower, symbol.upper) for name, symbol in self.checks.symbols.items()}

    @property
    def call_spec(self) -> Any:
        """`in_spec` and `out_spec`: how inputs and outputs nest."""
        return CallSpec(self.checks.spec, self.out_spec)

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        """The modules that the program was made of, the root first."""
        return [ModuleCallEntry(""), *map(ModuleCallEntry, self.modules)]

    @property
    def example_inputs(self) -> Any:
        return self._example_inputs

    def named_parameters(self) -> Iterator:
        return ((name, self.state[name]) for name in self._signature.parameters)

    def parameters(self) -> Iterator:
        return (value for _, value in self.named_parameters())

    def named_buffers(self) -> Iterator:
        return ((name, self.state[name]) for name in self._signature.buffers)

    def buffers(self) -> Iterator:
        return (value for _, value in self.named_buffers())

    def validate(self) -> None:
        """Raise GraphError if the graph breaks an invariant."""
        self.graph.lint()

    # -- running -----------------------------------------------------------------------------------------------------

    def state_values(self) -> list:
        """The tensors of all placeholders but the user's, in order."""
        values = self.__dict__.get("_values")
        if values is None:
            values = self._values = []
            for spec in self._signature.input_specs:
                if spec.kind is InputKind.CONSTANT_TENSOR:
                    values.append(self._constants[spec.target])
                elif spec.kind is not InputKind.USER_INPUT:
                    values.append(self.state[spec.target])
        return values

    def run(self, args: tuple, kwargs: dict) -> Any:
        """Check the inputs, run the graph, and give the outputs their structure."""
        leaves = self.checks.bind(args, kwargs)
        self.checks.check(leaves)
        values = [*self.state_values(), *leaves]
        results = list(call(self._graph_module.forward, values) if self.native is None else self.native(values))
        return tree_unflatten(self.write_back(results, values), self.out_spec)

    def write_back(self, results: list, inputs: list) -> list:
        """Store the outputs that are new values of state or inputs; the others."""
        count = 0
        for spec in self._signature.output_specs:
            if not spec.kind.name.endswith("_MUTATION"):
                break
            place = next(at for at, given in enumerate(self._signature.input_specs) if (given.target or given.arg.name) == spec.target)
            with modes.no_grad():
                inputs[place].copy_(results[count])
            count += 1
        return results[count:]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program on inputs like those that it was exported with."""
        return self.run(args, kwargs)

    def module(self, check_guards: bool = True) -> Any:
        """The program as an `nn.Module`: its parameters are real, so it trains, saves and compiles.

        Calls check their inputs and raise AssertionError, naming the input and the condition.
        `train()` and `eval()` raise: the mode was fixed at export.
        """
        # Loaded when asked for: a program runs without nn.
        return importlib.import_module(".compiled", __package__).ExportedModule(self, check_guards)

    def run_decompositions(self, decomp_table: dict | None = None, decompose_custom_triton_ops: bool = False) -> "ExportedProgram":
        """The same program without simple in-place ops, whose writes to its state or inputs become outputs, and with ops taken apart.

        Args:
            decomp_table: op -> function that computes it with other ops; None: `default_decompositions()`. Ops are named by their
                functions (`torch.nn.functional.silu`) or names; an empty dict takes nothing apart.

        >>> import rushlight as torch
        >>> program = torch.export.export(torch.nn.SiLU(), (torch.zeros(2),))
        >>> [node.name for node in program.run_decompositions().graph.nodes]
        ['input', 'sigmoid', 'mul', 'output']
        """
        part = importlib.import_module(".decompose", __package__)
        made = part.decompose(self, part.default_decompositions() if decomp_table is None else dict(decomp_table))
        return importlib.import_module(".functional", __package__).functionalize(made)

    def __str__(self) -> str:
        code = self._graph_module.print_readable(print_output=False).replace("\n", "\n    ")
        return f"ExportedProgram:\n    {code}\nGraph signature: {self._signature}\nRange constraints: {self.range_constraints}\n"

    __repr__ = __str__

