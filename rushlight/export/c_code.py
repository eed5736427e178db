"""`to_c`: a program, or the entry points of a package, as an object file and a C header, to be linked into what knows nothing of Python."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..core import modes
from ..kernels import llvm
from ..kernels.make import Unsupported
from ..kernels.standalone import Argument, Object, Standalone, fixed, standalone
from ..kernels.standalone_sizes import Free, Open, sized
from ..ops import zeros
from ..serialize.atomic import replace
from .archive import Package
from .expand import expanded
from .graph_signature import InputKind
from .program import ExportedProgram, check_true, switch_mode
from .writes import Examples, without_writes

RESERVED = frozenset("auto break case char const continue default do double else enum extern float for goto if inline int long register restrict "
                     "return short signed sizeof static struct switch typedef union unsigned void volatile while main".split())


def to_c(ep: ExportedProgram | Package, path: Any, *, name: str | None = None, args: tuple | None = None, kwargs: dict | None = None) -> tuple[str, str]:
    """Write a program as an object file and a C header for this machine's processor; the two paths.

    The function is `int64_t name(const T *input, ..., T *out0, ..., void *workspace)`: dense arrays in C order; it returns 0, or -2 if an index
    was out of range. Free sizes come first, as `int64_t`; with them, `int64_t name_workspace(sizes)` says how many bytes a call needs, and
    both return -3 for sizes that the program does not take. Of a package each entry point is a function `name_entry`; they share
    the weights. Weights are constants of the object. It starts no threads, allocates nothing, keeps nothing between calls, and needs memcpy,
    memset and memmove only.

    Args:
        ep: a program that writes into no state and draws no random numbers, or a package of such.
        path: where; `.o` and `.h` replace its suffix.
        name: the function's name; the file's name if not given.
        args, kwargs: inputs that give the sizes that are not free, instead of the example inputs.

    Raises NotImplementedError naming the first op that is not native code, or the free size that its code needs as a number.

    >>> import rushlight as torch, tempfile, os
    >>> program = torch.export.export(torch.nn.Linear(4, 2), (torch.zeros(2, 4),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     object_file, header = torch.export.to_c(program, os.path.join(folder, "classify.o"))
    ...     text = open(header).read()
    >>> for line in text.splitlines():
    ...     if line.startswith("int64_t"):
    ...         print(line)
    int64_t classify_workspace(int64_t batch);
    int64_t classify(int64_t batch, const float *input, float *out0, void *workspace);
    """
    if not isinstance(ep, (ExportedProgram, Package)):
        raise TypeError(f"export.to_c expects an ExportedProgram, got {type(ep).__name__}")
    if not llvm.available():
        raise RuntimeError("export.to_c: no machine code can be made on this machine")
    stem = Path(os.fspath(path)).with_suffix("")
    name = name or re.sub(r"\W", "_", stem.name, flags=re.ASCII)
    if isinstance(ep, Package):
        if args is not None or kwargs is not None:
            raise ValueError("export.to_c: a package has inputs for each of its entry points; export them with the sizes that are wanted")
        functions = [function_of(program, f"{name}_{entry}", None, None) for entry, program in ep.programs.items()]
    else:
        functions = [function_of(ep, name, args, kwargs)]
    try:
        with modes.no_grad():
            image, made = standalone(functions)
    except Unsupported as reason:
        raise NotImplementedError(f"export.to_c: {reason}") from None
    places = str(stem) + ".o", str(stem) + ".h"
    replace(places[0], lambda stream: stream.write(image))
    replace(places[1], lambda stream: stream.write(header(name, made).encode()))
    return places


def function_of(ep: ExportedProgram, name: str, args: tuple | None, kwargs: dict | None) -> Callable[[Object], Standalone]:
    """What writes a program's function into an object."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or name in RESERVED:
        raise ValueError(f"export.to_c: {name!r} is no name of a C function; give name=")
    if args is None and ep.example_inputs is None:
        raise ValueError("export.to_c: this program has no example inputs; give args=(...), which decide the sizes")
    if any(item.number is not None for item in ep.checks.inputs):
        raise NotImplementedError("export.to_c: a free number among the inputs")
    if ep.graph_signature.mutated:
        raise NotImplementedError(f"export.to_c: a program that writes to {', '.join(ep.graph_signature.mutated)}: the function keeps no state")
    given, named = (args, kwargs or {}) if args is not None else ep.example_inputs
    leaves = ep.checks.bind(given, named)
    ep.checks.check(leaves)
    state = ep.state_values()
    kinds = [spec.kind for spec in ep.graph_signature.input_specs]
    start = len(state)
    known = {at: value._array for at, value in enumerate(state) if kinds[at] is not InputKind.USER_INPUT}

    def lowered(inputs: list) -> tuple[Any, list]:
        values = [*state, *[leaf.detach().contiguous() if hasattr(leaf, "detach") else leaf for leaf in inputs]]
        try:
            return without_modes(expanded(without_writes(ep.graph_module, values), values)), values
        except NotImplementedError as reason:
            raise Unsupported(str(reason)) from None

    def write(whole: Object) -> Standalone:
        if not ep.checks.symbols:
            made = fixed(whole, name, *lowered(leaves), known)
        else:
            labels = {symbol: c_name(found.label, symbol) for symbol, found in ep.checks.symbols.items()}
            free = [Free(symbol, labels[symbol], max(int(found.lower), 1), found.upper) for symbol, found in ep.checks.symbols.items()]
            dims = {start + at: item.shape for at, item in enumerate(ep.checks.inputs) if item.shape is not None}

            def at_sizes(sizes: dict[str, int]) -> tuple[Any, list]:
                shapes = [[size if type(size) is int else size[1] * sizes[size[0]] + size[2] for size in item.shape or ()] for item in ep.checks.inputs]
                try:
                    module, values = lowered([zeros(shape, dtype=item.dtype) if item.tensor else item.value for item, shape in zip(ep.checks.inputs, shapes)])
                    return as_at(module, values), values
                except (RuntimeError, ValueError, IndexError) as error:
                    raise Unsupported(f"a program that does not run on zeros of the sizes {list(sizes.values())}: {error}") from None
            made = sized(whole, Open(name, free, dims, at_sizes, known, ep.checks.relations))
        taken = {*made.sizes, "workspace"}
        names = [f"{item.name}_" if item.name in RESERVED or item.name in taken else item.name for item in ep.checks.inputs if item.tensor]
        return made._replace(inputs=[argument._replace(name=text) for argument, text in zip(made.inputs, names)])
    return write


def as_at(module: Any, values: list) -> Any:
    """The graph with the values that it has for these inputs, where it was traced with others: what its nodes give is compared with them."""
    run = Examples(module, garbage_collect_values=False)
    run.found = {}
    run.run(*values)
    graph = module.graph.copy()
    for node, traced in zip(graph.nodes, module.graph.nodes):
        node.meta = {"val": run.found[traced]}
    return type(module)(module, graph)


def c_name(label: str, symbol: str) -> str:
    """What a free size is called in C."""
    return label if label.isidentifier() and label.isascii() and label not in RESERVED else symbol


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


def header(name: str, functions: list[Standalone]) -> str:
    """The C header."""
    guard = f"{name.upper()}_H"
    lines = [f"#ifndef {guard}", f"#define {guard}", "", "#include <stdint.h>", "", "#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
    for made in functions:
        lines += [*declared(made), ""]
    return "\n".join([*lines, "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""])


def declared(made: Standalone) -> list[str]:
    """One function's part of the header."""
    def described(argument: Argument) -> str:
        kind = f" ({argument.dtype})" if argument.c == "uint16_t" or argument.dtype == "bool" else ""
        return f" *   {argument.name}: {argument.c}{''.join(f'[{size}]' for size in argument.shape) or ' (one)'}{kind}"
    sizes = [f"int64_t {size}" for size in made.sizes]
    pointers = [f"const {argument.c} *{argument.name}" for argument in made.inputs] + [f"{argument.c} *{argument.name}" for argument in made.outputs]
    if made.workspace is None:
        lines = ["/* Bytes of memory, aligned to 64, that a call with these sizes needs as workspace; -3 for sizes that it does not take. */",
                 f"int64_t {made.name}_workspace({', '.join(sizes)});"]
    else:
        lines = ["/* Bytes of memory, aligned to 64, that a call needs as workspace. */", f"#define {made.name.upper()}_WORKSPACE {made.workspace}"]
    refused = "; -3 for sizes that it does not take (nothing is written then)" if sizes else ""
    return [*lines, "", "/* Arrays are dense, in C order; outputs must not overlap anything.", *map(described, [*made.inputs, *made.outputs]),
            f" * Returns 0, or -2 if an index was out of range (the outputs are then void){refused}. */",
            f"int64_t {made.name}({', '.join([*sizes, *pointers, 'void *workspace'])});"]


__all__ = ["to_c"]
