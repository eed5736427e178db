"""Weight normalisation by a forward pre-hook: weight = g * v / |v|. The newer form is in parametrizations.py."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight.nn import linear_algebra as linalg
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter, UninitializedParameter
from rushlight.tensor import Tensor


def norm_except_dim(v: Tensor, pow: int = 2, dim: int | None = 0) -> Tensor:
    """The norm of `v` over all dims but `dim`, which stay with size 1; over all, 0-d, if `dim` is None or -1."""
    if dim is None or dim == -1:
        return linalg.vector_norm(v, pow)
    rest = tuple(d for d in range(v.dim()) if d != dim)
    return linalg.vector_norm(v, pow, rest, keepdim=True) if rest else v.abs()


def normalized(v: Tensor, g: Tensor, dim: int | None) -> Tensor:
    """g * v / |v|, the norm taken as by `norm_except_dim`."""
    return v * (g / norm_except_dim(v, 2, dim))


class WeightNorm:
    """The pre-hook that computes the weight from `name_g` and `name_v` before each call."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """The weight of `module` now."""
        return normalized(getattr(module, self.name + "_v"), getattr(module, self.name + "_g"), self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Put the hook on `module`; RuntimeError if `name` has one."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        hook = WeightNorm(name, dim)
        weight = getattr(module, name)
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. "
                "Make sure to run the dummy forward before applying weight normalization"
            )
        del module._parameters[name]
        module.register_parameter(name + "_g", Parameter(norm_except_dim(weight.detach(), 2, hook.dim)))
        module.register_parameter(name + "_v", Parameter(weight.detach()))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Module) -> None:
        """Make the weight of now the parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Replace the parameter `name` by its length `name_g` and direction `name_v` (Salimans and Kingma 2016).

    `dim` is the dim whose slices have a length each; None gives one length for all.
    """
    warnings.warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Undo `weight_norm`; ValueError if there is none."""
    for identity, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[identity]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
