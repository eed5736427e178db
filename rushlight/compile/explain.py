"""`explain(fn)(*args)`: how a call was captured, in a page."""

from collections.abc import Callable
from traceback import FrameSummary
from typing import Any

from .api import compile


class Explanation:
    """Graphs, breaks and guards of one call; none where there is nothing to compile (a disabled function)."""

    def __init__(self, made: Any):
        self.graphs = [] if made is None else list(made.graphs)
        self.graph_count = len(self.graphs)
        self.break_reasons = [] if made is None else [Reason(signal) for signal in made.breaks]
        self.graph_break_count = max(self.graph_count - 1, 0)
        self.op_count = sum(len(ops(graph)) for graph in self.graphs)
        self.ops_per_graph = [ops(graph) for graph in self.graphs]
        self.out_guards = [] if made is None else [
            guard for point in made.points.found.values() for entry in point.entries for guard in entry.guards]
        if made is not None and made.start is not None:
            self.out_guards = [guard for entry in made.start.entries for guard in entry.guards] + self.out_guards
        self.compile_times = None
        self.plainly = [] if made is None else list(made.plainly)

    def __str__(self) -> str:
        lines = [f"Graph Count: {self.graph_count}", f"Graph Break Count: {self.graph_break_count}", f"Op Count: {self.op_count}",
                 "Break Reasons:"]
        for number, reason in enumerate(self.break_reasons, 1):
            lines += [f"  Break Reason {number}:", f"    Reason: {reason.reason}", "    User Stack:"]
            lines += [f'      File "{frame.filename}", line {frame.lineno}, in {frame.name}' for frame in reason.user_stack]
            lines += [f"    Remedy: {reason.hint}"] if reason.hint else []
        for (filename, line, name), reason in self.plainly:
            lines.append(f'Ordinary Python: {name} ("{filename}", line {line}): {reason}')
        lines.append("Ops per Graph:")
        for number, names in enumerate(self.ops_per_graph, 1):
            lines.append(f"  Ops {number}: {', '.join(names)}")
        lines.append(f"Out Guards: {len(self.out_guards)}")
        return "\n".join(lines)

    __repr__ = __str__


class Reason:
    """Why and where a graph ended."""

    def __init__(self, signal: Any):
        self.kind, self.reason, self.hint = signal.kind, f"{signal.kind}: {signal.reason}", signal.hint
        self.user_stack = [FrameSummary(filename, line, name) for filename, line, name in (frame.where for frame in reversed(signal.frames))]

    def __repr__(self) -> str:
        return self.reason


def ops(graph: Any) -> list[str]:
    return [getattr(node.target, "__name__", str(node.target)) for node in graph.graph.nodes if node.op == "call_function"]


def explain(f: Any, *extra: Any, **options: Any) -> Callable:
    """Capture a call of `f` from scratch and report graphs, breaks and guards.

    >>> import rushlight as torch
    >>> from rushlight.compile.explain import explain
    >>> explain(lambda x: torch.sin(x) + 1)(torch.zeros(2)).graph_count
    1
    """
    def run(*args: Any, **kwargs: Any) -> Explanation:
        options.setdefault("backend", lambda module, example_inputs: module.forward)  # its own: nothing is known from other compilations
        compiled = compile(f, **options)
        compiled(*args, **kwargs)
        made = getattr(compiled, "_rushlight_compiled", None)
        return Explanation(made)
    return run(*extra) if extra else run
