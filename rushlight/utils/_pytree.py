"""`torch.utils._pytree`: nested containers as lists of leaves; from rushlight.core."""
from ..core.pytree import (  # noqa: F401
                           LEAF,
                           TreeSpec,
                           is_namedtuple,
                           is_namedtuple_class,
                           is_namedtuple_instance,
                           register_pytree_node,
                           tree_all,
                           tree_all_only,
                           tree_any,
                           tree_any_only,
                           tree_flatten,
                           tree_is_leaf,
                           tree_iter,
                           tree_leaves,
                           tree_map,
                           tree_map_,
                           tree_map_only,
                           tree_map_only_,
                           tree_structure,
                           tree_unflatten,
)
from ..core.pytree_paths import (  # noqa: F401
                           GetAttrKey,
                           MappingKey,
                           SequenceKey,
                           key_get,
                           keystr,
                           tree_flatten_with_path,
                           tree_leaves_with_path,
                           tree_map_with_path,
)

PyTree = Any = object
