"""The layers of DESIGN.md section 3, read off the source: imports go down only, and none hides in a function."""
import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "rushlight"

# Bottom to top. A module imports only from rows below its own; neighbours in a row do not know each other.
ROWS = [
    {"core"},
    {"tensor", "tensor_repr"},
    {"autograd"},
    {"ops"},
    {"recurrent"},
    {"nn", "optim", "data", "serialize", "func", "graph", "distributions"},
    {"capture", "kernels"},
    {"compile"},
    {"export"},
    {"__init__", "diagnostics"},
    {"cli", "__main__"},
]
ROW = {unit: row for row, units in enumerate(ROWS) for unit in units}
# The public names of the package (rushlight.linalg, rushlight.utils, ...) that only re-export stand in the row of __init__.
PUBLIC = ROW["__init__"]
# Units in one row that are one thing in two files.
TOGETHER = [{"tensor", "tensor_repr"}, {"cli", "__main__"}]
# Where an import inside a function is the point: names that load on first use, commands that load what they need.
LAZY = {"__init__", "cli", "__main__"}

FILES = sorted(PACKAGE.rglob("*.py"))


# Names in a lower unit for what stands above it, loaded only when asked for: they count as public.
REEXPORTS = {"rushlight.optim.swa_utils"}


def unit_of(module: str) -> str:
    if module in REEXPORTS:
        return "__init__"
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def module_of(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_public(unit: str) -> bool:
    return unit not in ROW or ROW[unit] == PUBLIC


def row_of(unit: str) -> int:
    return ROW.get(unit, PUBLIC)


def exists(module: str) -> bool:
    path = ROOT.joinpath(*module.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def targets(node: ast.AST, path: Path) -> list[str]:
    """The modules of this package that an import statement reaches."""
    if isinstance(node, ast.Import):
        return [a.name for a in node.names if a.name.split(".")[0] == "rushlight"]
    package = module_of(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    if node.level:
        start = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
    else:
        start = (node.module or "").split(".")
    if start[0] != "rushlight":
        return []
    base = ".".join(start)
    return [f"{base}.{a.name}" if exists(f"{base}.{a.name}") else base for a in node.names]


def imports(path: Path):
    """(line, module, inside a function) of every import of this package; those for type checkers do not count."""
    def visit(node, inside):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, (ast.Import, ast.ImportFrom)):
                for module in targets(child, path):
                    yield child.lineno, module, inside
            yield from visit(child, inside or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))

    yield from visit(ast.parse(path.read_text()), False)


def allowed(unit: str, other: str) -> bool:
    if unit == other or any({unit, other} <= pair for pair in TOGETHER):
        return True
    if is_public(unit) and is_public(other):
        return True
    return row_of(other) < row_of(unit)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down_only(path):
    unit = unit_of(module_of(path))
    wrong = [f"line {line}: {unit} imports {module}, which is not below it"
             for line, module, _ in imports(path) if not allowed(unit, unit_of(module))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_cycle_hides_in_a_function(path):
    """An import inside a function may put off what is heavy and lies below; of its own unit it would only dodge a cycle."""
    unit = unit_of(module_of(path))
    if unit in LAZY or is_public(unit):
        return
    hidden = [f"line {line}: {module}" for line, module, inside in imports(path) if inside and unit_of(module) == unit]
    assert not hidden, "imports of the same unit inside functions:\n" + "\n".join(hidden)


def test_every_unit_of_the_table_is_spelled_as_in_the_package():
    present = {p.stem if p.is_file() else p.name for p in PACKAGE.iterdir()
               if p.suffix == ".py" or (p / "__init__.py").is_file()}
    assert {"core", "tensor", "autograd", "ops"} <= present
