"""Tests mirror the package: rushlight/X/Y.py has tests/X/test_Y.py, or a table-driven test that COVERED names."""
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# module (a pattern relative to rushlight/) -> the tests that cover it (relative to tests/), and why no file of its own.
COVERED = {
    "__init__.py": "test_tiny.py",
    "*/__init__.py": "test_layers.py",  # a package file only re-exports; test_layers reads it
    "__main__.py": "cli/test_run.py",
    "core/errors.py": "serialize/test_hostile.py",
    "ops/random.py": "test_seeds.py",  # public names against PyTorch; the draws themselves in core/test_sampling.py
    "core/parallel.py": "kernels/test_runtime.py",
    "graph/node.py": "graph/test_graph.py",  # a graph's parts are only seen through it
    "graph/print.py": "graph/test_graph.py",
    "graph/interpret.py": "graph/test_graph.py",
    "graph/graph_module.py": "graph/test_graph.py",
    "kernels/accuracy.py": "kernels/test_vecmath.py",
    "kernels/ir.py": "kernels/test_vecmath.py",  # the text writer, through everything written with it
    "kernels/emit.py": "kernels/test_loops.py",  # loops compiled and loops run by Python give the same
    "kernels/scalars.py": "kernels/test_loops.py",
    "kernels/externals.py": "kernels/test_structure.py",
    "kernels/conv.py": "kernels/test_structure.py",
    "kernels/matmul.py": "kernels/test_lower.py",
    "kernels/program.py": "kernels/test_runtime.py",
    "kernels/arrays.py": "kernels/test_fuse.py",
    "kernels/make.py": "kernels/test_fuse.py",
    "kernels/rules*.py": "kernels/test_lower.py",  # graphs of ops against the interpreter
    "serialize/*.py": "serialize/test_hostile.py",  # one table of bad files for all parsers; round trips are in serialize/test_api.py
    "optim/lr_scheduler/*.py": "optim/test_lr_scheduler.py",  # one table of schedules
    "optim/swa_utils.py": "test_averaging.py",
    "optim/*.py": "optim/test_optimizers.py",  # one table of optimizers with all their options
    "nn/*.py": "nn/test_layers.py",  # one table of layers, recorded from PyTorch; mechanisms have files of their own
    "data/distributed.py": "data/test_sampler.py",
    "utils/data.py": "data/test_dataloader.py",
    "data/*.py": "data/test_dataloader.py",  # what the loader is made of is tested through it
}

FILES = sorted(p.relative_to(ROOT / "rushlight") for p in (ROOT / "rushlight").rglob("*.py"))


def cover_of(path: Path) -> str:
    """The test file, relative to tests/, that covers this module."""
    own = path.with_name(f"test_{path.name}")
    if (ROOT / "tests" / own).is_file():
        return str(own)
    for pattern, test in COVERED.items():
        if fnmatch(str(path), pattern):
            return test
    return str(own)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_module_has_a_test(path):
    cover = cover_of(path)
    assert (ROOT / "tests" / cover).is_file(), f"rushlight/{path} has no tests/{cover}, and COVERED in {__file__} names no other"


@pytest.mark.parametrize("pattern", COVERED)
def test_the_table_names_only_what_exists(pattern):
    assert any(fnmatch(str(path), pattern) for path in FILES), f"no module matches {pattern}: take it out of the table"
