"""Native code in an archive: `save(aot=True)` puts it in, `load(native=True)` uses it. Machine code is code: only a trusted file's is run.

A program is lowered anew on its first call, and the object of each piece is looked up by the hash of its own text and of this
machine, so code for another processor, compiler or release is never found: that program is compiled here.  What the file brings is
not looked at unless the caller asks.  Read `NativeRun`; `records` and `adopt` are the two sides of the file.
"""

import hashlib
import importlib
import json
import operator
from collections.abc import Callable, Sequence
from typing import Any

from ..autograd.recorded import leaf_gradients
from ..compile.native import compile_native
from ..core import modes
from ..graph import Graph, GraphModule, Interpreter, Node, map_nodes
from ..kernels import cache, dicts, launch, llvm, lower, pool, shortcuts
from ..kernels.runtime import Misfit
from ..tensor import Tensor
from .expand import lowered_by
from .program import MODES, call, gradients, switch_mode
from .targets import DERIVATIVES

NATIVE, MACHINE = "native/", "native/machine.json"
FIELDS = ("cpu", "features", "version", "triple", "options")


class NativeRun:
    """What runs a program's graph as native code; made on the first call, for the sizes of that call."""

    def __init__(self, module: Any, carried: Any = None):
        self.module, self.carried = module, carried
        self.lowered: Callable | None = None
        self.differentiates = any(node.target in DERIVATIVES for node in module.graph.nodes if node.op == "call_function")

    def __call__(self, values: list) -> Any:
        if self.differentiates:
            if self.lowered is None:
                self.lowered = compile_native(as_step(self.module, values), values, lowered_by(lower, Misfit))
            return call(self.lowered, values)
        with modes.no_grad():
            if self.lowered is None:
                self.lowered = compile_native(self.module, values, lowered_by(lower, Misfit))
            return call(self.lowered, values)


class Outlines(Interpreter):
    """Runs a graph and notes what its values are like, for whoever lowers it."""

    found: dict[Node, Any]

    def run_node(self, node: Node) -> Any:
        value = self.found[node] = super().run_node(node)
        return value


def as_step(module: GraphModule, values: list) -> GraphModule:
    """The graph of a training step in the form that a captured one has: its backward pass is the node that the kernels know."""
    run = Outlines(module)
    run.found = {}
    call(run.run, [copied(value) for value in values])  # on copies: it trains
    graph, seen = Graph(), {}
    for node in module.graph.nodes:
        args, kwargs = map_nodes(node.args, seen.__getitem__), map_nodes(node.kwargs, seen.__getitem__)
        if node.target is gradients:
            used = [leaf for leaf, found in zip(args[1], run.found[node]) if found is not None]
            made = graph.call_function(leaf_gradients, ([args[0]], [None], used))
            places = iter(range(len(used)))
            seen[node] = made
            made.meta["val"] = tuple(found for found in run.found[node] if found is not None)
            numbers = [next(places) if found is not None else None for found in run.found[node]]
            continue
        if node.target is operator.getitem and isinstance(node.args[0], Node) and node.args[0].target is gradients:
            seen[node] = graph.call_function(operator.getitem, (args[0], numbers[node.args[1]]))
        elif node.target is switch_mode:
            set_mode = importlib.import_module("..capture.traced", __package__).set_mode  # few programs train; capture is large
            seen[node] = graph.call_function(set_mode, (args[0], MODES[args[0]].get() if args[1] == "outer" else args[1]))
        else:
            seen[node] = graph.create_node(node.op, node.target, args, kwargs, node.name)
        if node.op != "output":
            seen[node].meta = {**node.meta, "val": run.found[node]}
    return GraphModule(module, graph)


def record(program: Any, runs: Sequence[tuple]) -> dict[str, bytes]:
    """The objects that calls with such inputs, pairs of args and kwargs, need."""
    run = NativeRun(program.graph_module)
    with cache.recording() as found:
        llvm.link(pool.pool_ir(), ("worker", "wake", "parallel"))  # what a process links once: this one may have it already
        llvm.link(launch.MAKE_IR + launch.LAUNCH_IR, ("launch",))
        llvm.link(shortcuts.SHORTCUTS_IR, shortcuts.NAMES)
        llvm.link(dicts.CHANGED_IR, ("changed", "words"))
        for args, kwargs in runs:
            leaves = program.checks.bind(args, kwargs)
            program.checks.check(leaves)
            # On copies: making the program runs it, and what it writes to its state is not to stay.
            run([copied(value) for value in (*program.state_values(), *leaves)])
    return found


def copied(value: Any) -> Any:
    return value.detach().clone().requires_grad_(value.requires_grad) if isinstance(value, Tensor) else value


def records(programs: dict[str, Any], aot: Any) -> list[tuple]:
    """The members of an archive that hold native code for this machine."""
    if not llvm.available():
        raise RuntimeError("export.save(aot=True): no machine code can be made on this machine")
    objects: dict[str, bytes] = {}
    for name, program in programs.items():
        runs = [program.example_inputs] if program.example_inputs is not None else []
        if aot is not True:
            more = aot[name] if isinstance(aot, dict) else aot
            runs += [args if len(args) == 2 and isinstance(args[0], tuple) and isinstance(args[1], dict) else (tuple(args), {}) for args in more]
        if not runs:
            raise ValueError(f"export.save(aot=True): the program {name!r} has no example inputs; give aot=[(input, ...)]")
        objects |= record(program, runs)
    described: dict[str, Any] = dict(zip(FIELDS, llvm.machine()))
    described["objects"] = {key: hashlib.sha256(image).hexdigest() for key, image in sorted(objects.items())}
    return [(MACHINE, json.dumps(described, indent=1).encode()), *((f"{NATIVE}{key}.o", image) for key, image in sorted(objects.items()))]


def adopt(programs: dict[str, Any], described: Any, read: Callable[[str], bytes], refuse: Callable[[str], Exception]) -> None:
    """Let programs run as native code, with the objects of the file if they are for this machine.

    `described` is the file's machine.json (None: it has none), `read` gives a member, `refuse` makes the error for a damaged one.
    """
    if not llvm.available():
        return
    carried = None
    if described is not None:
        if type(described) is not dict or set(described) != {*FIELDS, "objects"} or type(described["objects"]) is not dict:
            raise refuse("is no description of native code")
        if all(described[field] == here for field, here in zip(FIELDS, llvm.machine())):
            objects = {}
            for key, digest in described["objects"].items():
                objects[key] = read(f"{NATIVE}{key}.o")
                if hashlib.sha256(objects[key]).hexdigest() != digest:
                    raise refuse(f"does not fit the object {key[:40]}")
            carried = cache.Carried(objects)
    for program in programs.values():
        program.native = NativeRun(program.graph_module, carried)
