"""What a function becomes: its graphs, their loops, LLVM IR, machine code, or a table of the kernels with their times."""

from collections.abc import Callable
from typing import Any

from ..compile import compile
from ..kernels import lower
from ..kernels.lower import programs as native_programs
from .steps import profile_kernels

STAGES = ("graph", "loops", "llvm", "assembly", "kernels")
CALLS = 3


def show(function: Callable, *args: Any, stage: str = "kernels", **kwargs: Any) -> str:
    """Compile `function` for these arguments and write down a stage of it.

    The function is called with the arguments: once to compile it, and for the stage "kernels" some times more.

    Args:
        function: a function, a Module, or what `compile` made of one.
        args, kwargs: what to call it with.
        stage: "graph" (Python code of each captured graph), "loops" (the kernels as Python loops), "llvm" (IR), "assembly", or "kernels": a
            table of the kernels with their time, the bytes and floating-point operations of a call, and the share of what the
            machine can do at best (see `KernelTimes.table`).

    Returns:
        The text, the stages of several graphs one after the other.

    Raises:
        ValueError: for another stage.

    >>> import rushlight as torch
    >>> x = torch.randn(64, 64)
    >>> print(torch.diagnostics.show(lambda x: (x.sin() * 2).sum(-1), x, stage="loops"))
    def kernel0(in0, out0):
        for i0 in range(64):
            r0 = 0.0
            for i1 in range(64):
                r0 = sum(r0, mul(sin(in0[64*i0 + i1]), 2.0))
            out0[i0] = r0
    >>> torch.diagnostics.show(lambda x: x.exp(), x).splitlines()[0].split()
    ['share', 'ms', 'steps', 'bytes', 'flops', 'of', 'limit', 'what']
    """
    if stage not in STAGES:
        raise ValueError(f"stage is {stage!r}, expected one of {', '.join(map(repr, STAGES))}")
    pieces: list[tuple[Any, Any]] = []

    def keep(module: Any, examples: list) -> Any:
        run = lower(module, examples)
        pieces.append((module, run))
        return run

    compiled = compile(getattr(function, "_torchdynamo_orig_callable", function), backend=keep)
    compiled(*args, **kwargs)
    if stage == "kernels":
        compiled(*args, **kwargs)
        with profile_kernels() as times:
            for _ in range(CALLS):
                compiled(*args, **kwargs)
        return times.table()
    return "\n\n".join(written(module, run, stage) for module, run in pieces)


def written(module: Any, run: Any, stage: str) -> str:
    """One graph's stage."""
    if stage == "graph":
        return str(module.code).strip("\n")
    found = native_programs(run)
    if not found:
        return "# this graph runs by its ops"
    take = {"loops": lambda program: program.stages.loops, "llvm": lambda program: program.stages.module,
            "assembly": lambda program: program.library.assembly}[stage]
    return "\n\n".join(take(program).strip("\n") for program in found)
