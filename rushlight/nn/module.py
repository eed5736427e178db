"""Module: what every layer and model is. Registration, attribute rules, the call, printing, copying.

State, hooks, the tree and conversions stand in module_state, module_hooks, module_tree and module_casts.
`_epoch` rises with every change of the module (attribute set or deleted, parameter swapped, hook added or removed,
train or eval), so compiled code guards on one integer compare; `hooks.GLOBAL.epoch` does so for global hooks.
`_detour` is true when a call is more than `forward`: there are hooks, or the module was compiled.
Read `Module.__call__` and `Module.__setattr__` first.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from rushlight.nn.hooks import GLOBAL, call_with_hooks
from rushlight.nn.module_casts import CastMethods
from rushlight.nn.module_hooks import CALL_TABLES, HOOK_TABLES, HookMethods
from rushlight.nn.module_state import StateMethods
from rushlight.nn.module_tree import TreeMethods
from rushlight.nn.parameter import Buffer, is_parameter
from rushlight.nn.registry import HookTable, Registry
from rushlight.tensor import Tensor

REGISTRIES = ("_parameters", "_buffers", "_modules")
# Values of these types are never registered, so a set of one takes the short way.
PLAIN_TYPES = frozenset({int, float, bool, str, bytes, list, tuple, set})


def typename(value: object) -> str:
    """The type's name as PyTorch's messages write it: `torch.FloatTensor` for a tensor, `int` for an int."""
    if isinstance(value, Tensor):
        return value.type()  # type: ignore[attr-defined]
    kind = type(value)
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "", None) else f"{module}.{kind.__qualname__}"


class Module(TreeMethods, StateMethods, HookMethods, CastMethods):
    """Base class of all layers and models.

    A subclass calls `super().__init__()`, assigns parameters and submodules as attributes, and defines `forward`.

    Example:
        >>> import rushlight as torch
        >>> class Double(torch.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.scale = torch.nn.Parameter(torch.tensor(2.0))
        ...     def forward(self, x):
        ...         return self.scale * x
        >>> [name for name, _ in Double().named_parameters()]
        ['scale']
    """

    dump_patches = False
    training: bool
    call_super_init = False
    _epoch = 0
    _detour = False
    _compiled_call_impl: Callable | None = None
    # Set by the compile layer: (callable, *args, **kwargs) -> compiled callable.
    _compiler: Callable | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init:
            if kwargs:
                name = next(iter(kwargs))
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument '{name}'")
            if args:
                raise TypeError(
                    f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
                )
        state = self.__dict__
        state["training"] = True
        state["_epoch"] = 0
        state["_parameters"] = Registry(self)
        state["_buffers"] = Registry(self)
        state["_modules"] = Registry(self)
        state["_non_persistent_buffers_set"] = set()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What a call computes; every subclass defines it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._detour or GLOBAL.detour:
            compiled = self._compiled_call_impl
            if compiled is not None:
                return compiled(*args, **kwargs)
            return call_with_hooks(self, args, kwargs)
        return self.forward(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """The call with its hooks, never the compiled one: what `compile` compiles."""
        return call_with_hooks(self, args, kwargs)

    _wrapped_call_impl = __call__

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile this module's call in place; arguments as for `rushlight.compile`."""
        if Module._compiler is None:
            raise NotImplementedError("Module.compile: the compile layer is not loaded")
        self._compiled_call_impl = Module._compiler(self._call_impl, *args, **kwargs)
        self._hooks_changed()

    # Registration.

    def _check_name(self, kind: str, name: Any, registry: dict[str, Any] | None, shown: str) -> None:
        if registry is None:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."{shown}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in registry:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Any) -> None:
        """Register `param`, a Parameter or None, under `name`.

        Raises:
            KeyError: a name that is empty, has a dot or is taken.
            TypeError: `param` is something else.
            ValueError: `param` was computed from other tensors.
        """
        self._check_name("parameter", name, self.__dict__.get("_parameters"), "")
        if param is not None:
            if not is_parameter(param):
                raise TypeError(
                    f"cannot assign '{typename(param)}' object to parameter '{name}' "
                    "(torch.nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                    f"explicitly. To express '{name}' as a function of another Tensor, compute the value in "
                    "the forward() method."
                )
            for hook in GLOBAL.parameter_registration.values():
                replaced = hook(self, name, param)
                param = param if replaced is None else replaced
        self._registry("_parameters")[name] = param

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Register `tensor`, a Tensor or None, as a buffer; one that is not persistent stays out of `state_dict`.

        Raises:
            KeyError: a name that is empty, has a dot or is taken.
            TypeError: `tensor` is something else.
        """
        self._check_name("buffer", name, self.__dict__.get("_buffers"), "")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        if tensor is not None:
            for hook in GLOBAL.buffer_registration.values():
                replaced = hook(self, name, tensor)
                tensor = tensor if replaced is None else replaced
        self._registry("_buffers")[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Any) -> None:
        """Register `module`, a Module or None, under `name`."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{typename(module)} is not a Module subclass")
        registry = self.__dict__.get("_modules")
        if registry is None:
            raise AttributeError("cannot assign module before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"module name should be a string. Got {typename(name)}")
        if hasattr(self, name) and name not in registry:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'module name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError('module name can\'t be empty string ""')
        self._add_child(name, module)

    def register_module(self, name: str, module: Any) -> None:
        """Another name of `add_module`."""
        self.add_module(name, module)

    def _add_child(self, name: str, module: Any) -> None:
        for hook in GLOBAL.module_registration.values():
            replaced = hook(self, name, module)
            module = module if replaced is None else replaced
        self._registry("_modules")[name] = module

    def _registry(self, name: str) -> Registry:
        """The registry called `name`; a plain dict that a copy or a user left there becomes one."""
        found = self.__dict__[name]
        if type(found) is not Registry or found.owner() is not self:
            found = self.__dict__[name] = Registry(self, found)
        return found

    # Attributes.

    def __setattr__(self, name: str, value: Any) -> None:
        state = self.__dict__
        parameters = state.get("_parameters")
        if type(value) in PLAIN_TYPES and parameters is not None:
            if not (name in parameters or name in state["_modules"] or name in state["_buffers"]):
                object.__setattr__(self, name, value)
                state["_epoch"] += 1
                return
        self._set_registered(name, value)

    def _set_registered(self, name: str, value: Any) -> None:
        """Set an attribute that may be, or may replace, a parameter, buffer or submodule."""
        state = self.__dict__
        parameters, buffers, modules = (state.get(key) for key in REGISTRIES)
        if is_parameter(value):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
        elif parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_modules")
            self._add_child(name, value)
        elif modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' (torch.nn.Module or None expected)"
                )
            self._add_child(name, value)
        elif buffers is not None and name in buffers or isinstance(value, Buffer):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{typename(value)}' as buffer '{name}' "
                    "(torch.nn.Buffer, torch.Tensor or None expected)"
                )
            if buffers is None:
                raise AttributeError("cannot assign buffer before Module.__init__() call")
            if isinstance(value, Buffer):
                self._forget(name, "_buffers")
                self.register_buffer(name, value, value.persistent)  # type: ignore[attr-defined]
            else:
                self._registry("_buffers")[name] = value
        else:
            if isinstance(value, dict):
                value = self._tracked(name, value)
            object.__setattr__(self, name, value)
            state["_epoch"] = state.get("_epoch", 0) + 1
            if name in CALL_TABLES:
                self._hooks_changed()

    def _tracked(self, name: str, value: dict) -> dict:
        """`value` as the registry or hook table that belongs under `name`, or as it is."""
        if name in REGISTRIES:
            old = self.__dict__.get(name)
            if isinstance(old, Registry) and old is not value:
                for key in old:
                    self.__dict__.pop(key, None)
            return value if type(value) is Registry and value.owner() is self else Registry(self, value)
        if name in HOOK_TABLES and type(value) is not HookTable:
            return HookTable(self._hook_listener(), value)
        return value

    def _forget(self, name: str, keep: str) -> None:
        """Drop `name` wherever it stands, but for the registry called `keep`."""
        state = self.__dict__
        if name in state and name not in state[keep]:
            del state[name]
        for registry in REGISTRIES:
            if registry != keep and name in state.get(registry, ()):
                del self._registry(registry)[name]
                if registry == "_buffers":
                    self._non_persistent_buffers_set.discard(name)

    def __getattr__(self, name: str) -> Any:
        # Reached only when the normal way found nothing: registered entries usually stand in __dict__ as well.
        state = self.__dict__
        for registry in REGISTRIES:
            if registry in state and name in state[registry]:
                return state[registry][name]
        if name in HOOK_TABLES and "_parameters" in state:
            table = state[name] = HookTable(self._hook_listener())
            return table
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        state = self.__dict__
        for registry in REGISTRIES:
            if name in state.get(registry, ()):
                del self._registry(registry)[name]
                if registry == "_buffers":
                    self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)
        state["_epoch"] = state.get("_epoch", 0) + 1
        if name in CALL_TABLES:
            self._hooks_changed()

    def _hook_listener(self) -> Callable[[], None]:
        reference = weakref.ref(self)

        def changed() -> None:
            module = reference()
            if module is not None:
                module._hooks_changed()

        return changed

    def _hooks_changed(self) -> None:
        state = self.__dict__
        state["_epoch"] += 1
        state["_detour"] = self._compiled_call_impl is not None or any(state.get(table) for table in CALL_TABLES)

    def __dir__(self) -> list[str]:
        state = self.__dict__
        names = {*dir(type(self)), *state}
        for registry in REGISTRIES:
            names.update(state.get(registry, ()))
        return sorted(name for name in names if not name[0].isdigit())

    # Copies and pickles.

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = self.__dict__
        own.update(state)
        own.setdefault("_epoch", 0)
        own.setdefault("_non_persistent_buffers_set", set())
        for name in REGISTRIES:
            own[name] = Registry(self, own.get(name, ()))
        for name in HOOK_TABLES & own.keys():
            own[name] = HookTable(self._hook_listener(), own[name])
        self._hooks_changed()

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        # A compiled call belongs to this object; a copy compiles again if asked.
        state.pop("_compiled_call_impl", None)
        return state

    def _replicate_for_data_parallel(self) -> Any:
        """A shallow copy with dicts of its own and no parameters."""
        replica = type(self).__new__(type(self))
        replica.__setstate__({k: v for k, v in self.__dict__.items() if k not in self._parameters})
        replica.__dict__["_parameters"] = Registry(replica)
        replica.__dict__["_is_replica"] = True
        return replica

    # Printing.

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What stands in the parentheses when the module is printed."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): " + repr(child).replace("\n", "\n  ") for name, child in self._modules.items()]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({lines[0]})"
        if not lines and not children:
            return f"{self._get_name()}()"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"
