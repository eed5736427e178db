"""Compile: who calls whom, from a function to compiled graphs.  Read `api.compile` and `dispatch.Compiled.call` first.

`rushlight.compile` is the function `api.compile` and also this package: the package can be called like the function.
"""
import sys
import types
from typing import Any

from .api import compile


class CallablePackage(types.ModuleType):
    """This package, callable: importing a submodule sets `rushlight.compile` to the package, and it must still compile."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return compile(*args, **options)


sys.modules[__name__].__class__ = CallablePackage
