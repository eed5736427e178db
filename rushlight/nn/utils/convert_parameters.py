"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from rushlight import ops
from rushlight.nn.module import typename
from rushlight.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The parameters, flattened and joined into one vector.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.utils.parameters_to_vector([torch.zeros(2, 2), torch.ones(1)])
        tensor([0., 0., 0., 0., 1.])
    """
    return ops.cat([parameter.view(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Cut `vec` into the shapes of `parameters` and make the pieces their data; TypeError unless it is a tensor."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {typename(vec)}")
    start = 0
    for parameter in parameters:
        count = parameter.numel()
        parameter.data = vec[start : start + count].view_as(parameter).data
        start += count
