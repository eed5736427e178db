"""Parametrizations: a parameter or buffer computed from others by modules, each time it is read.

The module's class is replaced by a subclass that has a property of the tensor's name; what the tensor is computed from
stands in `module.parametrizations[name]`. Read `register_parametrization` first.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Any

from rushlight.core.modes import no_grad
from rushlight.nn.container import ModuleDict, ModuleList
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter, is_parameter
from rushlight.tensor import Tensor


class _Cache:
    """Values computed inside `cached()`, by (module, name)."""

    depth = 0
    values: dict[tuple[int, str], Any] = {}


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """Inside the block each parametrized tensor is computed once and then kept."""
    _Cache.depth += 1
    try:
        yield
    finally:
        _Cache.depth -= 1
        if not _Cache.depth:
            _Cache.values = {}


def _put(module: Module, name: str, tensor: Any) -> None:
    if is_parameter(tensor):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _set_data(destination: Any, source: Any) -> None:
    if destination is not source:
        destination.data = source.data


def _inverse(modules: Any, value: Any, *, required: bool) -> Any:
    """`value` led back through the right inverses of `modules`, the last first."""
    for module in reversed(list(modules)):
        if hasattr(module, "right_inverse"):
            try:
                value = module.right_inverse(value)
            except NotImplementedError:
                if required:
                    raise
        elif required:
            raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
    return value


class ParametrizationList(ModuleList):
    """The modules that compute one tensor, and `original` (or `original0`, ...), which it is computed from."""

    original: Any

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with no_grad():
            new = _inverse(self, original, required=False)
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if isinstance(new, Tensor) else len(new)
        if isinstance(new, Tensor):
            if new.dtype != dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {dtype}\nright_inverse(original).dtype: {new.dtype}"
                )
            _set_data(original, new)
            _put(self, "original", original)
        else:
            for i, part in enumerate(new):
                if not isinstance(part, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                        f"Got element {i} of the sequence with type {type(part).__name__}."
                    )
                if is_parameter(original):
                    part = Parameter(part, original.requires_grad)
                part.requires_grad_(original.requires_grad)
                _put(self, f"original{i}", part)
        if not unsafe:
            result = self()
            if not isinstance(result, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
            for what, before, after in (("dtype", dtype, result.dtype), ("shape", shape, result.shape)):
                if before != after:
                    raise ValueError(
                        f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` "
                        f"flag is enabled.\nunparametrized {what}: {before}\nparametrized {what}: {after}"
                    )

    @property
    def _originals(self) -> list[Any]:
        names = ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]
        return [getattr(self, name) for name in names]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the tensor becomes `value`."""
        with no_grad():
            new = _inverse(self, value, required=True)
            if self.is_tensor:
                if not isinstance(new, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(new).__name__}")
                if new.dtype != self.original.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {new.dtype} "
                        f"while `original` has dtype {self.original.dtype}"
                    )
                _set_data(self.original, new)
                return
            if not isinstance(new, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(new).__name__}.")
            if len(new) != self.ntensors:
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors of length "
                    f"{self.ntensors}. Got a sequence of length {len(new)}."
                )
            for i, (own, part) in enumerate(zip(self._originals, new)):
                if not isinstance(part, Tensor):
                    raise ValueError(f"Tensor {i} returned by `right_inverse` is of type {type(part).__name__}")
                if own.dtype != part.dtype:
                    raise ValueError(
                        f"Tensor {i} returned by `right_inverse` has dtype {part.dtype} "
                        f"while `original{i}` has dtype {own.dtype}"
                    )
                _set_data(own, part)

    def forward(self) -> Any:
        first, *rest = self
        value = first(*self._originals)
        for module in rest:
            value = module(value)
        return value


def _refuse_pickle(self: Module) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _deepcopy(self: Module, memo: dict[int, Any]) -> Module:
    replica = type(self).__new__(type(self))
    memo[id(self)] = replica
    replica.__setstate__(copy.deepcopy(self.__dict__, memo))
    return replica


def _own_class(module: Module) -> None:
    """Give `module` a subclass of its class for itself, which may have properties."""
    kind = type(module)
    names: dict[str, Any] = {"__getstate__": _refuse_pickle, "_is_parametrized_class": True}
    if not hasattr(kind, "__deepcopy__"):
        names["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), names)


def _own_property(module: Module, name: str) -> None:
    """Give the class of `module` a property that computes the tensor, and sets it through the right inverse."""

    def compute(self: Any) -> Any:
        if not _Cache.depth:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _Cache.values:
            _Cache.values[key] = self.parametrizations[name]()
        return _Cache.values[key]

    def assign(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(compute, assign))


def _check_further(module: Module, name: str, parametrization: Module) -> None:
    """Raise unless another parametrization of a parametrized tensor keeps its dtype and shape."""
    now = getattr(module, name)
    new: Any = parametrization(now)
    if not isinstance(new, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(new).__name__}.")
    for what, before, after in (("dtype", now.dtype, new.dtype), ("shape", now.shape, new.shape)):
        if before != after:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless the `unsafe` flag "
                f"is enabled.\nmodule.{name}.{what}: {before}\nparametrization(module.{name}).{what}: {after}"
            )
    if hasattr(parametrization, "right_inverse"):
        try:
            back = parametrization.right_inverse(new)
        except NotImplementedError:
            return
        if not isinstance(back, Tensor):
            raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
        for what, before, after in (("dtype", now.dtype, back.dtype), ("shape", now.shape, back.shape)):
            if before != after:
                raise ValueError(
                    f"The tensor returned by parametrization.right_inverse must have the same {what} as "
                    f"module.{name}, unless the `unsafe` flag is enabled.\n"
                    f"module.{name}.{what}: {before}\nreturned {what}: {after}"
                )


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute `module.<tensor_name>` as `parametrization(original)` from now on.

    Args:
        parametrization: a module; its `right_inverse`, if it has one, gives the first original, and what assigning
            to the tensor sets. One that returns several tensors makes `original0`, `original1`, ...
        unsafe: allow another dtype or shape.

    Raises:
        ValueError: the module has no such tensor, or dtype or shape would change.

    Example:
        >>> import rushlight as torch
        >>> class Symmetric(torch.nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).T
        >>> layer = torch.nn.Linear(3, 3)
        >>> _ = torch.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
        >>> torch.equal(layer.weight, layer.weight.T)
        True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_further(module, tensor_name, parametrization)
        existing: Any = module.parametrizations[tensor_name]
        existing.append(parametrization)
        existing.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        parametrizations = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _own_class(module)
            module.parametrizations = ModuleDict()
        _own_property(module, tensor_name)
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a "
            f"parametrized element with name '{tensor_name}'"
        )
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether `module`, or its tensor `tensor_name`, is parametrized."""
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make `module.<tensor_name>` a parameter or buffer again, with its value of now, or else with the original's.

    Raises:
        ValueError: it is not parametrized, or the original is several tensors and `leave_parametrized` is false.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations: Any = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with no_grad():
                value = getattr(module, tensor_name)
            if not is_parameter(original) and value.dtype != original.dtype:
                original = value
            else:
                _set_data(original, value)
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        trained = any(is_parameter(part) for part in parametrizations._originals)
        original = Parameter(value.detach(), value.requires_grad) if trained else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor "
            "that is parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _put(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The module's class, without what parametrizing put on top."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Put copies of the parametrizations of one module, and their originals, on another that lacks them."""
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        source: Any = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
        for parametrization in source:
            register_parametrization(to_module, name, copy.deepcopy(parametrization), unsafe=source.unsafe)
        target: Any = to_module.parametrizations[name]
        for own, given in zip(target._originals, source._originals):
            _set_data(own, given.clone())
    return to_module
