"""Where each leaf of a pytree stands: the keys that lead to it, as `['weight'][0].bias`."""
from dataclasses import dataclass
from typing import Any

from .pytree import children_of, is_namedtuple_class, tree_flatten, tree_map


@dataclass(frozen=True)
class SequenceKey:
    """A place in a tuple or list."""

    idx: int

    def __str__(self):
        return f"[{self.idx!r}]"

    def get(self, sequence):
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """A place in a dict."""

    key: Any

    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, mapping):
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """A field of a named tuple."""

    name: str

    def __str__(self):
        return f".{self.name}"

    def get(self, obj):
        return getattr(obj, self.name)


def keys_of(kind, tree, count):
    """The key of each child of a node."""
    if is_namedtuple_class(kind):
        return [GetAttrKey(name) for name in kind._fields]
    if isinstance(tree, dict):
        return [MappingKey(key) for key in tree]
    return [SequenceKey(at) for at in range(count)]


def tree_leaves_with_path(tree, is_leaf=None):
    """Pairs of the keys that lead to a leaf, a tuple, and the leaf.

    >>> from rushlight.core.pytree_paths import keystr, tree_leaves_with_path
    >>> [(keystr(path), leaf) for path, leaf in tree_leaves_with_path({"a": [1, 2]})]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    kind, _, children = (None, None, ()) if is_leaf is not None and is_leaf(tree) else children_of(tree)
    if kind is None:
        return [((), tree)]
    children = list(children)
    return [((key, *path), leaf) for key, child in zip(keys_of(kind, tree, len(children)), children)
            for path, leaf in tree_leaves_with_path(child, is_leaf)]


def tree_flatten_with_path(tree, is_leaf=None):
    """`tree_leaves_with_path`, and the spec that rebuilds the tree."""
    return tree_leaves_with_path(tree, is_leaf), tree_flatten(tree, is_leaf)[1]


def tree_map_with_path(function, tree, *rest, is_leaf=None):
    """`tree_map`, with the path of each leaf as the function's first argument."""
    paths = iter([path for path, _ in tree_leaves_with_path(tree, is_leaf)])
    return tree_map(lambda *leaves: function(next(paths), *leaves), tree, *rest, is_leaf=is_leaf)


def keystr(path):
    """The text of a path."""
    return "".join(map(str, path))


def key_get(tree, path):
    """What stands at a path."""
    for key in path:
        tree = key.get(tree)
    return tree
