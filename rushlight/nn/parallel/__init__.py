"""nn.parallel on one machine with one device: DataParallel calls its module; what needs more says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.nn.module import Module


class DataParallel(Module):
    """A wrapper that calls `module` on the one device there is; its parameters stand under `module.`.

    Example:
        >>> import rushlight as torch
        >>> model = torch.nn.DataParallel(torch.nn.Linear(2, 1))
        >>> list(model.state_dict())
        ['module.weight', 'module.bias']
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []
        self.output_device = output_device
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(Module):
    """Not built: training over several processes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "DistributedDataParallel: rushlight has no process groups; train in one process, on all its cores"
        )


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call `module` on `inputs`, a tuple or one tensor."""
    arguments = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*arguments, **(module_kwargs or {}))


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """`network` itself, once: there is one device."""
    if len(devices) > 1:
        raise NotImplementedError("replicate: rushlight has one device")
    return [network]


def parallel_apply(
    modules: Sequence[Module], inputs: Sequence[Any], kwargs_tup: Sequence[Any] | None = None, devices: Any = None
) -> list[Any]:
    """Call each module on its input, one after another."""
    options = kwargs_tup or [{}] * len(modules)
    arguments = [value if isinstance(value, (list, tuple)) else (value,) for value in inputs]
    return [module(*given, **(named or {})) for module, given, named in zip(modules, arguments, options)]


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> list[Any]:
    """The inputs, once: there is one device."""
    if len(target_gpus) > 1:
        raise NotImplementedError("scatter: rushlight has one device")
    return [inputs]


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """The only output."""
    if len(outputs) > 1:
        raise NotImplementedError("gather: rushlight has one device")
    return outputs[0]


__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]
