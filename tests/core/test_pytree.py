"""Pytrees: what goes in comes out, of every kind of container."""
from collections import OrderedDict, namedtuple

from rushlight.core import pytree, pytree_paths

Point = namedtuple("Point", "x y")
TREE = {"a": [1, (2, 3)], "b": OrderedDict(c=4), "d": Point(5, [6]), "e": (), "f": None}


def test_flatten_and_unflatten():
    leaves, spec = pytree.tree_flatten(TREE)
    assert [leaf for leaf in leaves if leaf is not None] == [1, 2, 3, 4, 5, 6] and pytree.tree_unflatten(leaves, spec) == TREE
    assert spec.num_leaves == len(leaves)


def test_map():
    mapped = pytree.tree_map(lambda leaf: leaf and leaf * 10, TREE)
    assert mapped["d"] == Point(50, [60]) and type(mapped["b"]) is OrderedDict
    assert pytree.tree_map(lambda a, b: a + b, [1, (2,)], [10, (20,)]) == [11, (22,)]


def test_is_leaf_stops_the_descent():
    assert pytree.tree_leaves([(1, 2), 3], is_leaf=lambda node: isinstance(node, tuple)) == [(1, 2), 3]


def test_own_types_can_be_registered():
    class Box:
        def __init__(self, content):
            self.content = content
    pytree.register_pytree_node(Box, lambda box: ([box.content], None), lambda children, context: Box(children[0]))
    assert pytree.tree_map(lambda leaf: leaf + 1, [Box(1)])[0].content == 2


def test_equal_structure_means_equal_specs():
    assert pytree.tree_flatten([1, {"a": 2}])[1] == pytree.tree_flatten([3, {"a": 4}])[1] != pytree.tree_flatten([3, {"b": 4}])[1]


def test_registration_takes_pytorchs_keywords():
    pytree.register_pytree_node(Pair, lambda pair: ([pair.left, pair.right], None), lambda children, context: Pair(*children),
                                serialized_type_name="tests.Pair", flatten_with_keys_fn=lambda pair: None)
    leaves, spec = pytree.tree_flatten({"a": Pair(1, 2)})
    assert leaves == [1, 2] and vars(pytree.tree_unflatten([3, 4], spec)["a"]) == {"left": 3, "right": 4}


class Pair:
    def __init__(self, left, right):
        self.left, self.right = left, right


Named = namedtuple("Named", "first second")


def test_paths():
    tree = {"z": [1, (2, 3)], "p": Named(4, {"k": 5})}
    found, spec = pytree_paths.tree_flatten_with_path(tree)
    assert [(pytree_paths.keystr(path), leaf) for path, leaf in found] == [
        ("['z'][0]", 1), ("['z'][1][0]", 2), ("['z'][1][1]", 3), ("['p'].first", 4), ("['p'].second['k']", 5)]
    assert all(pytree_paths.key_get(tree, path) == leaf for path, leaf in found)
    assert pytree.tree_unflatten([leaf for _, leaf in found], spec) == tree
    assert pytree_paths.tree_map_with_path(lambda path, leaf, other: (len(path), leaf + other), [1, [2]], [10, [20]]) == [(1, 11), [(2, 22)]]


def test_parts_of_trees():
    tree = [1, "a", (2.0, {"x": 3})]
    assert pytree.tree_map_only(int, lambda x: -x, tree) == [-1, "a", (2.0, {"x": -3})]
    assert pytree.tree_map_only((int, float), lambda x: 0, tree) == [0, "a", (0, {"x": 0})]
    assert pytree.tree_map_only(lambda x: x == "a", str.upper, tree) == [1, "A", (2.0, {"x": 3})]
    assert pytree.tree_all_only(int, lambda x: x > 0, tree) and not pytree.tree_any_only(int, lambda x: x > 3, tree)
    assert pytree.tree_all(lambda x: x, tree) and pytree.tree_any(lambda x: x == 2, tree)
    seen = []
    assert pytree.tree_map_(seen.append, tree) is tree and seen == list(pytree.tree_iter(tree)) == [1, "a", 2.0, 3]
    assert pytree.is_namedtuple(Named(1, 2)) and pytree.is_namedtuple(Named) and not pytree.is_namedtuple_instance(Named) and not pytree.is_namedtuple((1,))
    assert pytree.tree_is_leaf(1) and not pytree.tree_is_leaf([1]) and pytree.tree_is_leaf([1], is_leaf=lambda x: True)
