"""Tests mirror the package: rushlight/X/Y.py has tests/X/test_Y.py, or a table-driven test that COVERED names."""
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# module (a pattern relative to rushlight/) -> the tests that cover it (relative to tests/), and why no file of its own.
COVERED = {
    "__init__.py": "test_tiny.py",
    "**/__init__.py": "test_layers.py",  # a package file only re-exports; test_layers reads it
    "__main__.py": "cli/test_run.py",
    "ops/*.py": "ops/test_every_op.py",  # one table of samples for all families; it checks that every rule is reached
    "nn/*.py": "nn/test_layers.py",  # one table of layers against values recorded from PyTorch
    "nn/utils/*.py": "nn/test_layers.py",
    "optim/*.py": "optim/test_optimizers.py",  # one table of optimizers, likewise
    "optim/lr_scheduler/*.py": "optim/test_lr_scheduler.py",
    **dict.fromkeys(["core/bessel.py", "core/error_function.py", "core/error_tails.py", "core/gamma.py", "core/special_tables.py"],
                    "ops/test_special.py"),  # what torch.special computes with
    "core/errors.py": "test_bad_inputs.py",
    "core/clock.py": "autograd/test_node.py",
    "core/layouts.py": "core/test_dtypes.py",
    "core/parallel.py": "test_promises.py",
    "core/families.py": "test_stubs.py",
    "core/implicit.py": "ops/test_every_op.py",
    "core/quiet.py": "autograd/test_engine.py",
    "core/outline.py": "capture/test_outlines.py",
    "core/pytree_paths.py": "core/test_pytree.py",
    "core/tracing.py": "capture/test_trace.py",
    "func/arrays.py": "compile/test_backends.py",
    "diagnostics/stages.py": "diagnostics/test_steps.py",
    **dict.fromkeys(["data/_utils.py", "data/distributed.py", "data/fetch.py", "data/worker.py", "data/workers.py"], "data/test_dataloader.py"),
    "graph/*.py": "graph/test_graph.py",
    "distributions/*.py": "distributions/test_distribution.py",  # one table of distributions against recorded values
    "kernels/rules_*.py": "kernels/test_rules.py",
    "kernels/*.py": "kernels/test_lower.py",
    "capture/*.py": "capture/test_trace.py",  # one curriculum of functions for all parts of the tracer
    "compile/*.py": "compile/test_dispatch.py",
    "serialize/*.py": "serialize/test_hostile.py",
    "recurrent.py": "export/test_recurrent.py",
    "jit.py": "export/test_jit.py",
    "static.py": "export/test_static_graph.py",
    "onnx.py": "export/test_onnx.py",
    "fx/*.py": "fx/test_tracer.py",
    "fx/passes/*.py": "fx/test_tracer.py",
    "graph/proxy.py": "fx/test_tracer.py",
    "graph/rewrite.py": "fx/test_tracer.py",
    "_higher_order_ops/*.py": "export/test_build.py",
    "export/jit_*.py": "export/test_jit.py",
    "export/onnx_*.py": "export/test_onnx_ops.py",
    "export/loader/*.py": "export/test_loader.py",
    "export/static_*.py": "export/test_static_graph.py",
    "export/*.py": "export/test_build.py",  # exports whole programs and runs them, so all parts take their turn
    "profiler.py": "autograd/test_profiler.py",
    "autograd/variable.py": "autograd/test_grad_mode.py",
    "autograd/recorded.py": "compile/test_dispatch.py",
    # what only gives names to the parts below
    **dict.fromkeys(["cuda/*.py", "mps.py", "xpu.py", "fft.py", "linalg.py", "special.py", "threads.py", "version.py", "utils/*.py", "random.py",
                     "serialization.py", "compiler.py", "_dynamo.py", "backends.py", "distributed.py", "accelerator.py", "multiprocessing.py"], "test_public.py"),
}

FILES = sorted(p.relative_to(ROOT / "rushlight") for p in (ROOT / "rushlight").rglob("*.py"))


def cover_of(path: Path) -> str:
    """The test file, relative to tests/, that covers this module."""
    own = path.with_name(f"test_{path.name}")
    if (ROOT / "tests" / own).is_file():
        return str(own)
    for pattern, test in COVERED.items():
        if path.parts[:-1] != Path(pattern).parts[:-1] and "**" not in pattern:
            continue  # * does not cross folders
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


def test_no_test_imports_a_file_that_skips_itself():
    """Where PyTorch is missing, a file of tests that needs it skips at its first lines; what others import from it would not exist then."""
    skips = {path for path in (ROOT / "tests").rglob("test_*.py") if re.search(r"^\w+ = pytest\.importorskip", path.read_text(), re.M)}
    taken = {(str(path.relative_to(ROOT)), name) for path in (ROOT / "tests").rglob("*.py")
             for name in re.findall(r"^from \.(test_\w+) import", path.read_text(), re.M) if path.with_name(name + ".py") in skips}
    assert not taken
