"""Run an exported program with NumPy alone: `load(path)(x)`.

Slow but sure: each op is a NumPy expression in a table, and nothing else can be called. It checks the inputs as the full
runtime does, has no gradients and no bfloat16, and raises NotImplementedError naming an op that the table lacks.
`write("loader.py")` puts all of it into one file, to be copied beside an archive where there is no rushlight.
"""

import ast
from pathlib import Path
from typing import Any

from . import arithmetic, arrays, layers, losses, mathematics, recurrent, selecting  # noqa: F401 (they enter their ops)
from .program import OPS, Program, load

PARTS = ("program", "arithmetic", "arrays", "mathematics", "selecting", "layers", "losses", "recurrent")


def write(path: Any) -> None:
    """Write the loader as one Python file that needs NumPy only.

    >>> import rushlight.export.loader as loader, tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     loader.write(os.path.join(folder, "loader.py"))
    ...     os.listdir(folder)
    ['loader.py']
    """
    Path(path).write_text(assembled(), encoding="utf-8")


def assembled() -> str:
    """The parts as one text: their imports from each other are left out, since they share their names."""
    imports: dict[str, None] = {}
    bodies = []
    for part in PARTS:
        text = (Path(__file__).parent / f"{part}.py").read_text(encoding="utf-8")
        lines, tree = text.splitlines(keepends=True), ast.parse(text)
        first = 1  # the docstring
        while isinstance(tree.body[first], (ast.Import, ast.ImportFrom)):
            node = tree.body[first]
            if isinstance(node, ast.Import):
                imports[ast.unparse(node)] = None
            first += 1
        start = min([tree.body[first].lineno, *(item.lineno for item in getattr(tree.body[first], "decorator_list", ()))])
        bodies.append("".join(lines[start - 1:]).strip("\n"))
    head = '"""Run an exported program of Rushlight with NumPy alone: load(path)(x). Made by rushlight.export.loader.write."""'
    ordered = sorted(imports, key=lambda line: (line.startswith("import numpy"), line))
    return "\n\n\n".join([head + "\n" + "\n".join(ordered), *bodies]) + "\n"


__all__ = ["OPS", "Program", "load", "write"]
