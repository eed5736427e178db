import copy
import math
import operator

import pytest

from rushlight.graph import Graph, GraphError, GraphModule, Interpreter, interpret


def example():
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    product = graph.call_function(operator.mul, (x, y))
    total = graph.call_function(operator.add, (product, -1))
    graph.output((total, [product]))
    return graph


def test_code_runs_and_agrees_with_the_interpreter():
    gm = GraphModule({}, example())
    assert gm(3, 4) == (11, [12]) == interpret(gm, 3, 4) == gm.forward(3, y=4)
    assert "add = mul + (-1)" in gm.code
    scope = {}
    exec(gm.code, scope)
    assert scope["forward"](None, 3, 4) == (11, [12])


def test_names_are_unique_and_never_shadow():
    graph = Graph()
    nodes = [graph.placeholder("x"), graph.placeholder("x"), graph.placeholder("x_1"), graph.placeholder("sum"), graph.placeholder("if")]
    assert len({node.name for node in nodes}) == 5
    assert [node.name for node in nodes[:2]] == ["x", "x_1"] and nodes[3].name == "sum_1" and nodes[4].name == "if_1"


def test_users_follow_arguments():
    graph = example()
    x, y, product, total, _ = graph.nodes
    assert list(product.users) == [total, graph.output_node()]
    total.args = (x, 1)
    assert total not in product.users and total in x.users
    product.replace_all_uses_with(y)
    assert not product.users
    graph.erase_node(product)
    graph.lint()
    assert len(graph.nodes) == 4


def test_erase_refuses_a_used_node():
    graph = example()
    with pytest.raises(RuntimeError, match="still had 1 users"):
        graph.erase_node(graph.nodes[0])


def test_insertion_points():
    graph = example()
    product = graph.nodes[2]
    with graph.inserting_before(product):
        one = graph.call_function(operator.neg, (graph.nodes[0],))
    with graph.inserting_after(product):
        two = graph.call_function(operator.neg, (product,))
    assert [n.name for n in graph.nodes] == ["x", "y", one.name, "mul", two.name, "add", "output"]
    assert graph.call_method("late", (one,)).next.op == "root" and graph.eliminate_dead_code()


def test_lint_names_the_node():
    graph = example()
    total = graph.nodes[3]
    graph.nodes[2].args = (total, 1)
    with pytest.raises(GraphError, match="of Node .mul. was used before it has been defined"):
        graph.lint()


def test_dead_code_keeps_what_writes():
    graph = Graph()
    x = graph.placeholder("x")
    graph.call_method("add_", (x, 1))
    graph.call_method("add", (x, 1))
    graph.call_function(operator.iadd, (x, 1))
    graph.output(x)
    graph.eliminate_dead_code()
    assert [n.target for n in graph.nodes if n.op == "call_method"] == ["add_"] and len(graph.nodes) == 4


def test_erasing_while_walking():
    graph = example()
    graph.output_node().args = (graph.nodes[0],)
    for node in reversed(graph.nodes):
        if node.op == "call_function":
            graph.erase_node(node)
    assert [n.op for n in graph.nodes] == ["placeholder", "placeholder", "output"]


def test_attributes_and_modules():
    class Layer:
        def named_modules(self, memo=None, prefix="", remove_duplicate=True):
            yield prefix, self

        def __call__(self, x):
            return x * 10

    graph = Graph()
    x = graph.placeholder("x")
    y = graph.call_module("blocks.0.layer", (x,))
    graph.output(graph.call_function(operator.add, (y, graph.get_attr("blocks.0.scale"))))
    gm = GraphModule({"blocks.0.layer": Layer(), "blocks.0.scale": 5}, graph)
    assert gm(2) == 25 == interpret(gm, 2)
    assert 'getattr(self.blocks, "0").layer(x)' in gm.code
    assert type(gm.get_submodule("blocks.0.layer")) is Layer
    assert sum(isinstance(m, Layer) for m in gm.modules()) == 1
    graph.lint()
    assert copy.deepcopy(gm)(2) == 25
    with pytest.raises(RuntimeError, match="not provided in ``root``"):
        GraphModule({}, graph.copy())


def test_values_print_as_python():
    graph = Graph()
    x = graph.placeholder("x")
    marker = object()
    graph.output(graph.call_function(dict, (), {"a": [x, (1,)], "b": {"k": slice(1, x)}, "c": math.inf, "d": ..., "e": marker}))
    result = GraphModule({}, graph)(7)
    assert result == {"a": [7, (1,)], "b": {"k": slice(1, 7)}, "c": math.inf, "d": ..., "e": marker}


def test_errors_name_the_node_and_its_line():
    graph = Graph()
    x = graph.placeholder("x")
    node = graph.call_function(operator.truediv, (x, 0))
    node.meta["stack_trace"] = "File model.py, line 3"
    graph.output(node)
    with pytest.raises(ZeroDivisionError) as caught:
        interpret(GraphModule({}, graph), 1)
    assert "truediv" in caught.value.__notes__[0] and "model.py" in caught.value.__notes__[1]


def test_interpreter_can_be_overridden():
    class Counting(Interpreter):
        count = 0

        def call_function(self, target, args, kwargs):
            self.count += 1
            return super().call_function(target, args, kwargs)

    counting = Counting(GraphModule({}, example()))
    assert counting.run(3, 4) == (11, [12]) and counting.count == 2


def test_copy_keeps_names_and_meta():
    graph = example()
    graph.nodes[2].meta["val"] = "kept"
    other = graph.copy()
    assert str(other) == str(graph) and other.nodes[2].meta == {"val": "kept"} and other.nodes[2] is not graph.nodes[2]
    graph.lint(), other.lint()
