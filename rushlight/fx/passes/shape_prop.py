"""`ShapeProp`: run a graph once and note the shape and dtype of every value."""

from typing import Any, NamedTuple

from ...graph import Interpreter, Node
from ...tensor import Tensor


class TensorMetadata(NamedTuple):
    """What `node.meta["tensor_meta"]` holds of a tensor."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple
    memory_format: Any
    is_quantized: bool
    qparams: dict


class ShapeProp(Interpreter):
    """Interprets a module; afterwards each node's meta has `tensor_meta` and `type`.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.shape_prop import ShapeProp
    >>> gm = torch.fx.symbolic_trace(lambda x: x.sum(0))
    >>> _ = ShapeProp(gm).propagate(torch.zeros(2, 3))
    >>> [node.meta["tensor_meta"].shape for node in gm.graph.nodes]
    [torch.Size([2, 3]), torch.Size([3]), torch.Size([3])]
    """

    def run_node(self, node: Node) -> Any:
        result = super().run_node(node)
        described = metadata(result)
        if described is not None:
            node.meta["tensor_meta"] = described
        node.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run on these inputs; the result."""
        return super().run(*args)


def metadata(value: Any) -> Any:
    if isinstance(value, Tensor):
        return TensorMetadata(value.shape, value.dtype, value.requires_grad, value.stride(), None, False, {})
    if isinstance(value, (tuple, list)):
        found = type(value)([metadata(item) for item in value]) if type(value) in (tuple, list) else [metadata(item) for item in value]
        return found if any(item is not None for item in found) else None
    return None
