"""How capture sees traced and scripted code: graphs are followed node by node, scripts as the Python they are.

Registered by importing this file.
"""

from typing import Any

from ..capture.trace import Tracer
from ..core.pytree import tree_flatten, tree_unflatten
from ..nn.module import Module
from .compiled import code_of, resolve
from .jit_module import TracedFunction, TracedModule, scripting
from .jit_python import allow, check_format, formatted, read_attribute, settable, writable
from .jit_script import ScriptedFunction, ScriptedModule, is_scripting
from .jit_trace import is_tracing


def follow_traced_module(self: Any, args: tuple, kwargs: dict) -> Any:
    """`TracedModule.call_program(method, args, kwargs)` while capturing."""
    module, method, given, named = map(self.value, args)
    program = module.programs[method]
    leaves = program.checks.bind(resolve(self, given), resolve(self, named))
    result = self.inline(code_of(module, program), module, program.graph_module.forward, tuple(leaves))
    return tree_unflatten(tree_flatten(resolve(self, result))[0], program.out_spec)


def follow_traced_function(self: Any, args: tuple, kwargs: dict) -> Any:
    """A traced function's graph; tensors that it closed over are constants."""
    program = self.value(args[0]).program
    leaves = program.checks.bind(tuple(resolve(self, arg) for arg in args[1:]), {key: resolve(self, item) for key, item in kwargs.items()})
    state = [self.load(self.sources.const(tensor, name), tensor) for name, tensor in program._constants.items()]
    result = self.inline(program.graph_module.forward, *state, *leaves)
    return tree_unflatten(tree_flatten(resolve(self, result))[0], program.out_spec)


def within_script(self: Any, function: Any, args: tuple, kwargs: dict) -> Any:
    """A call in which `is_scripting()` holds."""
    before = getattr(scripting, "now", False)
    scripting.now = True
    try:
        return self.inline(function, *args, **kwargs)
    finally:
        scripting.now = before


def follow_scripted_function(self: Any, args: tuple, kwargs: dict) -> Any:
    return within_script(self, self.value(args[0])._rushlight_original, args[1:], kwargs)


def follow_scripted_module(self: Any, args: tuple, kwargs: dict) -> Any:
    return within_script(self, Module._call_impl, args, kwargs)


def follow_attribute(self: Any, args: tuple, kwargs: dict) -> Any:
    owner, name = map(self.value, args)
    allow(owner, name)
    return self.getattr(owner, name)


def follow_check(function: Any) -> Any:
    """A check of a script's value, which gives the value."""
    def follow(self: Any, args: tuple, kwargs: dict) -> Any:
        return function(*map(self.value, args))
    return follow


def follow_format(self: Any, args: tuple, kwargs: dict) -> Any:
    check_format(self.value(args[1]))
    return self.inline(format, *args)


def follow_traced_call(self: Any, args: tuple, kwargs: dict) -> Any:
    return self.inline(Module._call_impl, *args, **kwargs)


def follow_traced_forward(self: Any, args: tuple, kwargs: dict) -> Any:
    return follow_traced_module(self, (args[0], "forward", args[1:], kwargs), {})


Tracer.special.update({TracedModule.forward: follow_traced_forward, TracedModule.call_program: follow_traced_module,
                       TracedFunction.__call__: follow_traced_function, TracedFunction.call: follow_traced_function, TracedModule.__call__: follow_traced_call, ScriptedFunction.__call__: follow_scripted_function,
                       ScriptedModule.__call__: follow_scripted_module, read_attribute: follow_attribute, writable: follow_check(writable),
                       settable: follow_check(settable), formatted: follow_format, is_scripting: lambda self, args, kwargs: is_scripting(),
                       is_tracing: lambda self, args, kwargs: False})
