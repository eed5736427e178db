"""Compile: who calls whom, from a function to compiled graphs.  Read `api.compile` and `dispatch.Compiled.call` first.

`rushlight.compile` is the function `api.compile` and also this package: the package can be called like the function.
What captures loads on first use: exported programs are made native without it.
"""
import importlib
import sys
import types
from typing import Any


class CallablePackage(types.ModuleType):
    """This package, callable: importing a submodule sets `rushlight.compile` to the package, and it must still compile."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.compile(*args, **options)


def __getattr__(name: str) -> Any:
    if name == "compile":
        globals()["compile"] = found = importlib.import_module(".api", __name__).compile
        return found
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


sys.modules[__name__].__class__ = CallablePackage
