"""`rushlight env` and `rushlight doctor`: what this installation is, and whether it is sound.

`CHECKS` lists what doctor runs; each check returns a remark or raises with what is wrong.
"""
from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np

LIBRARIES = ("rushlight", "numpy", "ml_dtypes", "safetensors", "llvmlite", "bytecode")


def version_of(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        if library == "rushlight":
            return "from a checkout, not installed"
        return "not installed"


def facts() -> dict[str, object]:
    """What a bug report should say."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]  # type: ignore[call-overload,index]
    found: dict[str, object] = {library: version_of(library) for library in LIBRARIES}
    found |= {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": platform.platform(),
        "processor": processor_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "blas": f"{blas.get('name')} {blas.get('version')}",
    }
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE", "RUSHLIGHT_NUM_THREADS", "RUSHLIGHT_CACHE_DIR"):
        if name in os.environ:
            found[name] = os.environ[name]
    return found


def processor_name() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def show(as_json: bool) -> int:
    """Print the facts."""
    found = facts()
    if as_json:
        print(json.dumps(found))
    else:
        width = max(map(len, found))
        for name, value in found.items():
            print(f"{name:<{width}}  {value}")
    return 0


def check_gradient() -> str:
    """A gradient that is known exactly."""
    import rushlight as torch
    x = torch.linspace(-2.0, 2.0, 101, dtype=torch.float64, requires_grad=True)
    (x.exp() * x.sin()).sum().backward()
    values = x.detach()
    apart = (x.grad - values.exp() * (values.sin() + values.cos())).abs().max().item()
    if not apart < 1e-12:
        raise AssertionError(f"d(exp(x) sin(x)) is off by {apart}")
    return f"off by {apart:.1e} at most"


def check_seed() -> str:
    """The default generator gives PyTorch's numbers."""
    import rushlight as torch
    state = torch.get_rng_state()
    torch.manual_seed(0)
    first = torch.rand(1).item()
    torch.set_rng_state(state)
    if not math.isclose(first, 0.49625658988952637):
        raise AssertionError(f"torch.manual_seed(0); torch.rand(1) gives {first}, PyTorch 0.4962566")
    return "manual_seed(0) gives PyTorch's first number"


def check_blas_race() -> str:
    """Twelve threads multiply at once, on non-contiguous operands, and must all get the same product (numpy issue 29391)."""
    chance = np.random.default_rng(0)
    left, right = chance.random((96, 192))[:, ::2], chance.random((96, 96)).T
    expected = left @ right
    wrong = []

    def multiply():
        wrong.extend(1 for _ in range(20) if not np.array_equal(left @ right, expected))

    threads = [threading.Thread(target=multiply) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise AssertionError(f"{len(wrong)} of 240 products were wrong: this BLAS races; set OPENBLAS_NUM_THREADS=1")
    return "240 concurrent products agree"


def check_compiler() -> str:
    """llvmlite loads, or the remark says what is missing without it."""
    from ..kernels.binding import Library
    try:
        library = Library()
    except ModuleNotFoundError:
        return "llvmlite is not installed: eager works, compile does not (pip install llvmlite)"
    return f"LLVM {library.llvm_version} for {library.cpu}"


def check_import_time() -> str:
    """How long `import rushlight` takes beside `import numpy`, best of three fresh processes each."""
    def best(module: str) -> float:
        times = []
        for _ in range(3):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", f"import {module}"], check=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
            times.append(time.perf_counter() - start)
        return min(times)

    bare = best("sys")
    ours, numpy = best("rushlight") - bare, best("numpy") - bare
    return f"{1000 * ours:.0f} ms, of which NumPy {1000 * numpy:.0f} ms"


CHECKS: dict[str, Callable[[], str]] = {
    "gradient": check_gradient,
    "random numbers": check_seed,
    "matrix products in threads": check_blas_race,
    "compiler": check_compiler,
    "import": check_import_time,
}


def doctor(as_json: bool) -> int:
    """Run every check; the status is 1 if one failed."""
    results, failed = {}, 0
    for name, check in CHECKS.items():
        try:
            results[name] = "ok: " + check()
        except Exception as error:
            results[name] = f"FAILED: {type(error).__name__}: {error}"
            failed += 1
        if not as_json:
            print(f"{name:<28}{results[name]}", flush=True)
    if as_json:
        print(json.dumps(results))
    return 1 if failed else 0
