"""`torch.utils._pytree`: nested containers as lists of leaves; from rushlight.core.pytree."""
from ..core.pytree import TreeSpec, register_pytree_node, tree_flatten, tree_leaves, tree_map, tree_unflatten  # noqa: F401
