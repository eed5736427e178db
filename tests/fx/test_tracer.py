"""`fx.symbolic_trace`: nodes, code, errors and edits as PyTorch's."""
import copy
import operator
import pickle

import pytest

import rushlight as torch
from rushlight import fx
from rushlight import relu as direct_relu
from rushlight.fx.passes.shape_prop import ShapeProp
from rushlight.nn.functional import softmax as direct_softmax

F = torch.nn.functional


def helper(x):
    return x * 2


@fx.wrap
def leafy(x, y):
    return x + y if y > 0 else x


fx.wrap("len")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2)
        self.blocks = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(2)])
        self.register_buffer("bias", torch.arange(4.0))
        self.scale = torch.nn.Parameter(torch.ones(4))
        self.plain = torch.ones(4)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x))).flatten(1)[:, :4]
        for layer in self.blocks:
            x = torch.tanh(layer(x)) + self.bias
        return helper(x) * self.scale, leafy(x, 1), len(x), torch.cat([x, self.plain[None]]), direct_softmax(direct_relu(x), -1)


def targets(gm):
    return [node.target if isinstance(node.target, str) else node.target.__name__ for node in gm.graph.nodes]


def test_nodes_and_values():
    net, x = Net().eval(), torch.randn(2, 1, 6, 6)
    gm = fx.symbolic_trace(net)
    assert targets(gm) == ["x", "conv", "norm", "relu", "flatten", "getitem", "blocks.0", "tanh", "bias", "add", "blocks.1", "tanh", "bias", "add", "mul",
                           "scale", "mul", "leafy", "len", "_tensor_constant0", "cat", "relu", "softmax", "output"]
    for one, two in zip(net(x), gm(x)):
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(two))
    assert isinstance(gm, torch.nn.Module) and isinstance(gm, fx.GraphModule) and gm.training is False and type(gm).__name__ == "Net"
    assert set(net.state_dict()) < set(gm.state_dict()) and gm.conv is net.conv and gm.scale is net.scale
    gm.graph.lint()
    assert F.relu is not direct_relu and not hasattr(F.relu, "__wrapped__") and torch.nn.Module.__getattribute__ is object.__getattribute__


def test_code():
    def f(x, y=3, *rest, k, **options):
        a, b = x.chunk(2)
        return {"s": a + b, "t": (rest[0], options["z"], x[1:, None], 1 - x, -x, x.shape[0], y, k)}
    assert fx.symbolic_trace(f).code == """def forward(self, x, y = 3, *rest, k, **options):
    _rest = rest
    _options = options
    chunk = x.chunk(2)
    getitem = chunk[0]
    getitem_1 = chunk[1];  chunk = None
    add = getitem + getitem_1;  getitem = getitem_1 = None
    getitem_2 = _rest[0];  _rest = None
    getitem_3 = _options['z'];  _options = None
    getitem_4 = x[(slice(1, None, None), None)]
    sub = 1 - x
    neg = -x
    getattr_1 = x.shape;  x = None
    getitem_5 = getattr_1[0];  getattr_1 = None
    return {'s': add, 't': (getitem_2, getitem_3, getitem_4, sub, neg, getitem_5, y, k)}
"""


def if_(x):
    return x if x.sum() > 0 else -x


def for_(x):
    return [item for item in x]


def len_(x):
    return x.size(0) + builtin_len(x)


def builtin_len(x):
    return x.__len__()


def int_(x):
    return int(x)


def range_(x):
    return range(x)


@pytest.mark.parametrize("function, error, text", [
    (if_, ValueError, "symbolically traced variables cannot be used as inputs to control flow"),
    (for_, ValueError, "Proxy object cannot be iterated. This can be attempted when"),
    (len_, RuntimeError, "'len' is not supported in symbolic tracing by default"),
    (int_, TypeError, r"int\(\) argument must be a string, a bytes-like object or a real number, not 'Proxy'"),
    (range_, TypeError, "'Proxy' object cannot be interpreted as an integer")])
def test_errors(function, error, text):
    with pytest.raises(error, match=text):
        fx.symbolic_trace(function)
    assert torch.relu(torch.tensor(-1.0)) == 0  # everything was put back


def test_fixed_arguments():
    def f(x, flag, z=None):
        return x + 1 if flag else x - 1
    gm = fx.symbolic_trace(f, concrete_args={"flag": True, "z": None})
    assert [node.name for node in gm.graph.nodes if node.op == "placeholder"] == ["x", "flag_1", "z_1"]
    assert gm(torch.ones(1), True, None) == 2
    with pytest.raises(AssertionError, match="flag has been specialized to have value True but got another value"):
        gm(torch.ones(1), False, None)


def test_leaves():
    class All(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return False
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    assert [node.op for node in All().trace(net).nodes] == ["placeholder", "get_attr", "get_attr", "call_function", "call_function", "output"]
    gm = fx.GraphModule(net, All().trace(net))
    assert torch.equal(gm(torch.ones(2)), net(torch.ones(2)))


def test_edit_and_recompile():
    gm = fx.symbolic_trace(Net().eval())
    for node in list(gm.graph.nodes):
        if node.target is torch.tanh:
            with gm.graph.inserting_after(node):
                new = gm.graph.call_function(torch.sigmoid, node.args, node.kwargs)
            node.replace_all_uses_with(new)
            gm.graph.erase_node(node)
    gm.graph.lint()
    gm.recompile()
    assert "sigmoid" in gm.code and "tanh" not in gm.code
    assert (gm(torch.randn(2, 1, 6, 6))[0] >= 0).all()


def test_submodules():
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    gm = fx.symbolic_trace(net)
    assert gm.code.startswith("def forward(self, input):\n    input_1 = input\n")
    output = gm.graph.output_node()
    with gm.graph.inserting_before(output):
        assert gm.add_submodule("extra.tanh", torch.nn.Tanh())
        output.args = (gm.graph.call_module("extra.tanh", (output.args[0],)),)
    gm.recompile()
    assert torch.equal(gm(input=torch.ones(2)), net(torch.ones(2)).tanh())
    assert gm.add_submodule("unused", torch.nn.ReLU()) and gm.delete_submodule("unused") and not gm.delete_submodule("unused")
    gm.add_submodule("other", torch.nn.ReLU())
    gm.delete_all_unused_submodules()
    assert {name for name, _ in gm.named_modules()} == {"", "0", "1", "extra", "extra.tanh"}


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda gm: pickle.loads(pickle.dumps(gm)), fx.symbolic_trace,
                                    lambda gm: fx.Transformer(gm).transform()])
def test_copies(copied):
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    gm = fx.symbolic_trace(net)
    other = copied(gm)
    assert torch.equal(other(torch.ones(2)), net(torch.ones(2))) and other.graph is not gm.graph and isinstance(other, fx.GraphModule)
    other.graph.lint()


def test_it_is_a_module():
    gm = fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout()))
    assert gm.training and not gm.eval().training and not getattr(gm, "1").training
    whole = torch.nn.Sequential(gm, torch.nn.ReLU())
    before = gm.get_parameter("0.weight").detach().clone()
    optimizer = torch.optim.SGD(whole.parameters(), 0.1)
    whole(torch.ones(2)).sum().backward()
    optimizer.step()
    assert not torch.equal(gm.get_parameter("0.weight"), before)
    assert torch.allclose(torch.compile(gm)(torch.ones(2)), gm(torch.ones(2)))
    program = torch.export.export(gm, (torch.ones(2),))
    assert torch.allclose(program(torch.ones(2)), gm(torch.ones(2)))


def test_interpreter_and_transformer():
    seen = []

    class Spy(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            seen.append(target)
            return super().call_function(target, args, kwargs)

    class Negate(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(torch.neg if target is torch.relu else target, args, kwargs)
    gm = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    assert Spy(gm).run(torch.tensor(-1.0)) == 1 and seen == [torch.relu, operator.add]
    assert Negate(gm).transform()(torch.tensor(-1.0)) == 2


@pytest.mark.parametrize("traced, pattern, replacement, count, code", [
    (lambda x, y: ((x + y) * 2, x + y), lambda a, b: a + b, lambda a, b: a - b, 2, ["sub", "mul", "sub_1"]),
    (lambda x: torch.relu(torch.relu(x)), torch.relu, torch.neg, 2, ["neg", "neg_1"]),
    (lambda x: torch.relu(x) * torch.relu(x), lambda x: torch.relu(x) * torch.relu(x), lambda x: x * x, 1, ["mul_1"]),
    (lambda x: (lambda r: r + r.neg())(torch.relu(x)), lambda x: torch.relu(x).neg(), lambda x: x * x, 0, ["relu", "neg", "add"]),
    (lambda x: x.sum(dim=0), lambda x: x.sum(dim=1), lambda x: x, 0, ["sum_1"]),
    (lambda x: torch.clamp(x + 1, 0, 1), lambda x: torch.clamp(x, 0, 1), lambda x: x, 1, ["add"])])
def test_replace_pattern(traced, pattern, replacement, count, code):
    trace = lambda f: f if f not in (torch.relu, torch.neg) else (lambda x: f(x))  # noqa: E731
    gm = fx.symbolic_trace(traced)
    assert len(fx.replace_pattern(gm, trace(pattern), trace(replacement))) == count
    gm.graph.lint()
    assert [node.name for node in gm.graph.nodes if node.op.startswith("call")] == code


def test_shape_prop():
    gm = fx.symbolic_trace(lambda x: x.float().chunk(2))
    ShapeProp(gm).propagate(torch.zeros(4, 3, dtype=torch.int64))
    metas = [node.meta["tensor_meta"] for node in gm.graph.nodes]
    assert metas[0].dtype is torch.int64 and metas[1].shape == (4, 3) and [item.shape for item in metas[2]] == [(2, 3), (2, 3)]


def test_subclasses_of_nothing_may_say_what_an_op_means():
    class Name:
        def __init__(self, text):
            self.text = text

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, types

    assert torch.sin(Name("x")) == ("sin", (Name,))


def test_wrap_is_for_modules():
    with pytest.raises(NotImplementedError, match="wrap must be called at the top level of a module"):
        fx.wrap("abs")
