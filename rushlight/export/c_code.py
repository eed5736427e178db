"""`to_c`: a program as an object file and a C header, to be linked into what knows nothing of Python."""

import os
import re
from pathlib import Path
from typing import Any

from ..core import modes
from ..kernels import llvm
from ..kernels.make import Unsupported
from ..kernels.standalone import Argument, Standalone, standalone
from ..serialize.atomic import replace
from .expand import expanded
from .graph_signature import InputKind
from .program import ExportedProgram, check_true, switch_mode

RESERVED = frozenset("auto break case char const continue default do double else enum extern float for goto if inline int long register restrict "
                     "return short signed sizeof static struct switch typedef union unsigned void volatile while main".split())


def to_c(ep: ExportedProgram, path: Any, *, name: str | None = None, args: tuple | None = None, kwargs: dict | None = None) -> tuple[str, str]:
    """Write a program as an object file and a C header for this machine's processor; the two paths.

    The function is `int64_t name(const T *input, ..., T *out0, ..., void *workspace)`: dense arrays in C order, of the sizes of the example
    inputs (or of `args` and `kwargs`); it returns 0, or -2 if an index was out of range. Weights are constants of the object. It starts
    no threads, allocates nothing, keeps nothing between calls, and needs memcpy, memset and memmove only.

    Args:
        ep: a program that writes into no state and draws no random numbers.
        path: where; `.o` and `.h` replace its suffix.
        name: the function's name; the file's name if not given.

    Raises NotImplementedError naming the first op that is not native code.

    >>> import rushlight as torch, tempfile, os
    >>> program = torch.export.export(torch.nn.Linear(4, 2), (torch.zeros(1, 4),))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     object_file, header = torch.export.to_c(program, os.path.join(folder, "classify.o"))
    ...     text = open(header).read()
    >>> [line for line in text.splitlines() if line.startswith("int64_t")]
    ['int64_t classify(const float *input, float *out0, void *workspace);']
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"export.to_c expects an ExportedProgram, got {type(ep).__name__}; of a Package give one entry point, package.programs[name]")
    if not llvm.available():
        raise RuntimeError("export.to_c: no machine code can be made on this machine")
    stem = Path(os.fspath(path)).with_suffix("")
    name = name or re.sub(r"\W", "_", stem.name, flags=re.ASCII)
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or name in RESERVED:
        raise ValueError(f"export.to_c: {name!r} is no name of a C function; give name=")
    if args is None and ep.example_inputs is None:
        raise ValueError("export.to_c: this program has no example inputs; give args=(...), which decide the sizes")
    given, named = (args, kwargs or {}) if args is not None else ep.example_inputs
    leaves = ep.checks.bind(given, named)
    ep.checks.check(leaves)
    if any(item.number is not None for item in ep.checks.inputs):
        raise NotImplementedError("export.to_c: a free number among the inputs")
    state = ep.state_values()
    kinds = [spec.kind for spec in ep.graph_signature.input_specs]
    values = [*state, *[leaf.detach().contiguous() if hasattr(leaf, "detach") else leaf for leaf in leaves]]
    known = {at: values[at]._array for at, kind in enumerate(kinds) if kind is not InputKind.USER_INPUT}
    if ep.graph_signature.mutated:
        raise NotImplementedError(f"export.to_c: a program that writes to {', '.join(ep.graph_signature.mutated)}: the function keeps no state")
    try:
        with modes.no_grad():
            made = standalone(without_modes(expanded(ep.graph_module, values)), values, known, name)
    except Unsupported as reason:
        raise NotImplementedError(f"export.to_c: {reason}") from None
    names = [f"{argument.name}_" if argument.name in RESERVED or argument.name in ("workspace",) else argument.name for argument in made.inputs]
    made = made._replace(inputs=[argument._replace(name=text) for argument, text in zip(made.inputs, names)])
    places = str(stem) + ".o", str(stem) + ".h"
    replace(places[0], lambda stream: stream.write(made.image))
    replace(places[1], lambda stream: stream.write(header(name, made).encode()))
    return places


def without_modes(module: Any) -> Any:
    """The graph without switches of grad mode, which mean nothing where nothing is differentiated."""
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target is check_true:
            raise Unsupported(f"{node.name}: an assert statement")
    if not any(node.op == "call_function" and node.target is switch_mode for node in module.graph.nodes):
        return module
    graph = module.graph.copy()
    for node in graph.nodes:
        if node.op == "call_function" and node.target is switch_mode and node.args[0] == "grad":
            graph.erase_node(node)
    return type(module)(module, graph)


def header(name: str, made: Standalone) -> str:
    """The C header."""
    def described(argument: Argument) -> str:
        kind = f" ({argument.dtype})" if argument.c == "uint16_t" or argument.dtype == "bool" else ""
        return f" *   {argument.name}: {argument.c}{''.join(f'[{size}]' for size in argument.shape) or ' (one)'}{kind}"
    guard = f"{name.upper()}_H"
    parameters = [f"const {argument.c} *{argument.name}" for argument in made.inputs] + [f"{argument.c} *{argument.name}" for argument in made.outputs]
    lines = [f"#ifndef {guard}", f"#define {guard}", "", "#include <stdint.h>", "", "#ifdef __cplusplus", 'extern "C" {', "#endif", "",
             "/* Bytes of memory, aligned to 64, that a call needs as workspace. */", f"#define {name.upper()}_WORKSPACE {made.workspace}", "",
             "/* Arrays are dense, in C order; outputs must not overlap anything.", *map(described, [*made.inputs, *made.outputs]),
             " * Returns 0, or -2 if an index was out of range (the outputs are then void). */",
             f"int64_t {name}({', '.join([*parameters, 'void *workspace'])});", "", "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""]
    return "\n".join(lines)


__all__ = ["to_c"]
