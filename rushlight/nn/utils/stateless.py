"""Calling a module with other parameters and buffers than its own, which it has back afterwards."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from rushlight.nn.module import Module
from rushlight.tensor import Tensor

_ABSENT = object()


def _with_tied(module: Module, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """`given`, with each value also under the other names of the same tensor; ValueError if these disagree."""
    names: dict[int, list[str]] = {}
    for name, tensor in [
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ]:
        names.setdefault(id(tensor), []).append(name)
    result = dict(given)
    for tied in names.values():
        values = [given[name] for name in tied if name in given]
        if len(tied) == 1 or not values:
            continue
        if any(value is not values[0] for value in values):
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(tied)}, which are tied. "
                "Consider using tie_weights=False"
            )
        result.update(dict.fromkeys(tied, values[0]))
    return result


def _check_names(module: Module, given: Mapping[str, Tensor]) -> None:
    own = {
        name
        for name, _ in [
            *module.named_parameters(remove_duplicate=False),
            *module.named_buffers(remove_duplicate=False),
        ]
    }
    unexpected = sorted(given.keys() - own)
    missing = sorted(own - given.keys())
    lines = [f"Unexpected key(s): {', '.join(map(repr, unexpected))}."] if unexpected else []
    lines += [f"Missing key(s): {', '.join(map(repr, missing))}."] if missing else []
    if lines:
        listed = "\n\t".join(lines)
        raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t{listed}")


@contextlib.contextmanager
def _reparametrize_module(
    module: Module, parameters_and_buffers: Mapping[str, Tensor], tie_weights: bool = False, strict: bool = False
) -> Iterator[None]:
    """Inside the block, `module` has the given tensors in the place of its own."""
    given = _with_tied(module, parameters_and_buffers) if tie_weights else dict(parameters_and_buffers)
    if strict:
        _check_names(module, given)
    places: list[tuple[dict, str, Any]] = []
    try:
        for path, tensor in given.items():
            parent, _, name = path.rpartition(".")
            owner = module.get_submodule(parent)
            registry = owner._buffers if name in owner._buffers else owner._parameters
            places.append((registry, name, registry.get(name, _ABSENT)))
            registry[name] = tensor
        yield
    finally:
        for registry, name, old in reversed(places):
            if old is _ABSENT:
                registry.pop(name, None)
            else:
                registry[name] = old


def _functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights, strict):
        return module(*arguments, **(kwargs or {}))


def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `module` with the given tensors in the place of its own; deprecated, use `rushlight.func.functional_call`.

    Args:
        parameters_and_buffers: tensors by dotted name.
        args, kwargs: the call's arguments; one that is no tuple is the only one.
        tie_weights: a tensor that has several names is replaced under all of them.
        strict: RuntimeError unless the names are exactly the module's.
    """
    warnings.warn(
        "This API is deprecated as of PyTorch 2.0 and will be removed in a future version of PyTorch. "
        "Please use torch.func.functional_call instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
