"""Pytrees: nested tuples, named tuples, lists and dicts, flattened to a list of leaves and rebuilt; `pytree_paths` names the places of leaves."""
from collections import OrderedDict, defaultdict, deque


class TreeSpec:
    """The shape of a tree without its leaves: a node's kind, what rebuilds it, and its children's specs; a leaf has kind None."""

    __slots__ = ("kind", "context", "children", "num_leaves")

    def __init__(self, kind, context, children):
        self.kind, self.context, self.children = kind, context, children
        self.num_leaves = 1 if kind is None else sum(child.num_leaves for child in children)

    def __eq__(self, other):
        return (isinstance(other, TreeSpec) and self.kind is other.kind and self.context == other.context
                and self.children == other.children)

    def __repr__(self):
        if self.kind is None:
            return "*"
        return f"TreeSpec({self.kind.__name__}, {self.context}, [{', '.join(map(repr, self.children))}])"


LEAF = TreeSpec(None, None, ())
REGISTERED = {}  # type -> (flatten, unflatten)


def register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None, to_dumpable_context=None, from_dumpable_context=None,
                         flatten_with_keys_fn=None):
    """Make a type a node: `flatten_fn(x) -> (children, context)`, `unflatten_fn(children, context) -> x`.

    What follows is PyTorch's, for writing specs to JSON and for naming places by keys, which is done here without them.
    """
    REGISTERED[cls] = flatten_fn, unflatten_fn


def children_of(tree):
    """(kind, context, children) of a node; kind None for a leaf."""
    kind = type(tree)
    if kind in (tuple, list):
        return kind, None, tree
    if kind in (dict, OrderedDict):
        return kind, list(tree), tree.values()
    if kind is defaultdict:
        return kind, (tree.default_factory, list(tree)), tree.values()
    if kind is deque:
        return kind, tree.maxlen, tree
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return kind, None, tree
    if kind in REGISTERED:
        children, context = REGISTERED[kind][0](tree)
        return kind, context, children
    return None, None, ()


def tree_flatten(tree, is_leaf=None):
    """The leaves in order, and the spec that rebuilds the tree around others."""
    leaves = []

    def walk(part):
        kind, context, children = (None, None, ()) if is_leaf is not None and is_leaf(part) else children_of(part)
        if kind is None:
            leaves.append(part)
            return LEAF
        return TreeSpec(kind, context, [walk(child) for child in children])

    spec = walk(tree)
    return leaves, spec


def tree_unflatten(leaves, spec):
    """The tree of a spec around these leaves."""
    if not isinstance(spec, TreeSpec):
        leaves, spec = spec, leaves
    leaves = iter(leaves)

    def build(part):
        kind = part.kind
        if kind is None:
            return next(leaves)
        children = [build(child) for child in part.children]
        if kind in (tuple, list):
            return kind(children)
        if kind in (dict, OrderedDict):
            return kind(zip(part.context, children))
        if kind is defaultdict:
            return defaultdict(part.context[0], zip(part.context[1], children))
        if kind is deque:
            return deque(children, part.context)
        if kind in REGISTERED:
            return REGISTERED[kind][1](children, part.context)
        return kind(*children) if hasattr(kind, "_fields") and not hasattr(kind, "n_fields") else kind(children)

    return build(spec)


def tree_map(function, tree, *rest, is_leaf=None):
    """The tree with `function` applied to every leaf (of several trees of one shape in parallel)."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_flatten(other, is_leaf)[0] for other in rest]
    return tree_unflatten([function(*values) for values in zip(leaves, *others)], spec)


def tree_leaves(tree, is_leaf=None):
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree, is_leaf=None):
    """An iterator over the leaves in order."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree, is_leaf=None):
    """The spec of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_is_leaf(tree, is_leaf=None):
    """Whether a value is a leaf: of no type that is taken apart."""
    return is_leaf is not None and is_leaf(tree) or children_of(tree)[0] is None


def tree_map_(function, tree, *rest, is_leaf=None):
    """Call `function` on every leaf, for what it does to them; returns the tree itself."""
    leaves, _ = tree_flatten(tree, is_leaf)
    for values in zip(leaves, *(tree_leaves(other, is_leaf) for other in rest)):
        function(*values)
    return tree


def chosen(kinds):
    """Whether a leaf is of the types, or satisfies the predicate, that a `_only` function was given."""
    if isinstance(kinds, (type, tuple)) or hasattr(kinds, "__args__"):
        return lambda leaf: isinstance(leaf, kinds)
    return kinds


def tree_map_only(kinds, function, tree, is_leaf=None):
    """`tree_map` over the leaves of the type (or types, or with the property) `kinds`; the others stay.

    >>> from rushlight.core.pytree import tree_map_only
    >>> tree_map_only(int, lambda x: x + 1, {"a": 1, "b": [2, "x"]})
    {'a': 2, 'b': [3, 'x']}
    """
    wanted = chosen(kinds)
    return tree_map(lambda leaf: function(leaf) if wanted(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_map_only_(kinds, function, tree, is_leaf=None):
    """`tree_map_` over the leaves of the type (or types, or with the property) `kinds`."""
    wanted = chosen(kinds)
    return tree_map_(lambda leaf: function(leaf) if wanted(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_all(predicate, tree, is_leaf=None):
    """Whether the predicate holds for every leaf."""
    return all(map(predicate, tree_leaves(tree, is_leaf)))


def tree_any(predicate, tree, is_leaf=None):
    """Whether the predicate holds for some leaf."""
    return any(map(predicate, tree_leaves(tree, is_leaf)))


def tree_all_only(kinds, predicate, tree, is_leaf=None):
    """Whether the predicate holds for every leaf of the types `kinds`."""
    return all(map(predicate, filter(chosen(kinds), tree_leaves(tree, is_leaf))))


def tree_any_only(kinds, predicate, tree, is_leaf=None):
    """Whether the predicate holds for some leaf of the types `kinds`."""
    return any(map(predicate, filter(chosen(kinds), tree_leaves(tree, is_leaf))))


def is_namedtuple(value):
    """Whether a value, or a class, is a named tuple."""
    return is_namedtuple_class(value if isinstance(value, type) else type(value))


def is_namedtuple_instance(value):
    """Whether a value is a named tuple."""
    return is_namedtuple_class(type(value))


def is_namedtuple_class(kind):
    """Whether a class was made by collections.namedtuple or typing.NamedTuple."""
    return isinstance(kind, type) and issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple)
