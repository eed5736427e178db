"""`torch.jit`: the departing path.  `trace` and `script` work for what they can, warn, and point to `export`."""
import contextlib
from typing import Final

from .export import jit_compiled  # noqa: F401 (tells capture about the types below)
from .export.jit_archive import load, save
from .export.jit_check import UnsupportedNodeError
from .export.jit_language import NotSupportedError
from .export.jit_module import ScriptFunction, ScriptModule
from .export.jit_module import ScriptModule as RecursiveScriptModule
from .export.jit_module import TracedModule as TopLevelTracedModule
from .export.jit_script import (
    Error,
    Future,
    annotate,
    export,
    fork,
    freeze,
    ignore,
    is_instance,
    is_scripting,
    optimize_for_inference,
    optimized_execution,
    script,
    script_if_tracing,
    unused,
    wait,
)
from .export.jit_trace import TracerWarning, TracingCheckError, is_tracing, trace
from .export.jit_trace import trace_module_methods as trace_module

Attribute, isinstance = annotate, is_instance


def enable_onednn_fusion(enabled: bool) -> None:
    """Nothing: there is no such fusion here."""


def fuser(name: str) -> contextlib.AbstractContextManager:
    """Nothing: there are no fusers to choose from here."""
    return contextlib.nullcontext()


def set_fusion_strategy(strategy: list) -> list:
    """Nothing: there is no such fuser here."""
    return strategy


__all__ = ["Error", "Final", "Future", "NotSupportedError", "RecursiveScriptModule", "ScriptFunction", "ScriptModule", "TopLevelTracedModule", "TracerWarning",
           "TracingCheckError", "UnsupportedNodeError", "annotate", "export", "fork", "freeze", "fuser", "ignore", "is_scripting", "is_tracing", "isinstance", "load", "optimize_for_inference", "optimized_execution", "save",
           "script", "script_if_tracing", "trace", "trace_module", "unused", "wait"]
