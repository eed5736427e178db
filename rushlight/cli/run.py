"""`rushlight run script.py`: an unmodified script, with `import torch` resolved to rushlight.

A finder in front of `sys.meta_path` answers for `torch` and `torch.*` and hands over rushlight's own modules, so that
`torch.nn is rushlight.nn`. Forked processes inherit the finder; interpreters that the script starts do not.
Read `TorchFinder`; `run_script` is what the command calls.
"""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import runpy
import sys
import types
from collections.abc import Sequence


class TorchFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives rushlight's module wherever a program imports torch's of the same name."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname == "torch" or fullname.startswith("torch."):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        # the import system takes what stands in sys.modules afterwards, so the real module keeps its own name and spec
        sys.modules[module.__name__] = module_for(module.__name__)


def module_for(torch_name: str) -> types.ModuleType:
    """The module of rushlight that stands for `torch_name`; ModuleNotFoundError names it if there is none."""
    name = "rushlight" + torch_name[len("torch"):]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
    found: object = importlib.import_module("rushlight")
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    if isinstance(found, types.ModuleType):
        return found
    raise ModuleNotFoundError(f"rushlight has no module {torch_name!r}", name=torch_name)


def run_script(script: str, arguments: Sequence[str], as_module: bool = False) -> int:
    """Run a script or module as `__main__` with its own `sys.argv`; what it raises goes through."""
    if not as_module and not os.path.exists(script):
        print(f"rushlight run: no such file: {script}", file=sys.stderr)
        return 2
    finder = TorchFinder()
    sys.meta_path.insert(0, finder)
    argv, path = sys.argv, list(sys.path)
    sys.argv = [script, *arguments]
    try:
        if as_module:
            sys.path.insert(0, os.getcwd())
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
            runpy.run_path(script, run_name="__main__")
    finally:
        sys.meta_path.remove(finder)
        sys.argv, sys.path[:] = argv, path
        for name in [name for name in sys.modules if name == "torch" or name.startswith("torch.")]:
            del sys.modules[name]
    return 0
