"""`export.export`: what a program keeps, what it refuses, and in which words."""
import collections
import copy
import dataclasses
import io
import warnings

import pytest

import rushlight as torch
from rushlight.export import Dim, UserError, export

nn = torch.nn


def module_of(function, **state):
    """A module whose forward is `function(self, ...)`."""
    made = type("Made", (nn.Module,), {"forward": function})()
    for name, value in state.items():
        if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter):
            made.register_buffer(name, value)
        else:
            setattr(made, name, value)
    return made


def test_signature_and_state():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(3, 2)
            self.register_buffer("steps", torch.zeros(()))
            self.register_buffer("scratch", torch.zeros(2), persistent=False)
            self.table = torch.ones(2)

        def forward(self, x, options, n=3):
            self.steps += 1
            return torch.tanh(self.lin(x)) + self.steps + options["k"] + self.table + self.scratch, n

    net = Net()
    program = export(net, (torch.ones(4, 3), {"k": torch.ones(2)}))
    signature = program.graph_signature
    assert signature.parameters == ("lin.weight", "lin.bias")
    assert signature.buffers == ("steps", "scratch")
    assert signature.lifted_tensor_constants == ("table",)
    assert signature.user_inputs == ("x", "options_k")
    assert signature.buffers_to_mutate == {"b_steps": "steps"}
    assert signature.user_outputs[1] == 3
    assert sorted(program.state_dict) == ["lin.bias", "lin.weight", "steps"]
    assert net.steps == 0
    assert "(3" not in program.graph_module.code and "placeholder" in str(program.graph.nodes[0].format_node())


def test_tied_parameters_stay_tied():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    program = export(net, (torch.ones(1, 2),))
    assert program.graph_signature.parameters == ("0.weight", "0.bias", "1.bias")
    module = program.module()
    assert sorted(module.state_dict()) == sorted(net.state_dict())
    assert module.get_parameter("1.weight") is module.get_parameter("0.weight")


def test_buffer_assigned_and_written():
    def forward(self, x):
        self.count = self.count + 1
        self.mean.mul_(0.5).add_(x.mean() * 0.5)
        return x * self.count

    net = module_of(forward, count=torch.zeros(()), mean=torch.zeros(()))
    module = export(net, (torch.ones(2),)).module()
    module(torch.ones(2))
    out = module(torch.full((2,), 2.0))
    assert out.tolist() == [4.0, 4.0]
    assert module.state_dict()["count"] == 2 and module.state_dict()["mean"] == 1.25
    assert net.count == 2 and net.mean == 1.25  # the state is the module's own


def test_plain_attribute_is_kept_or_refused():
    def forward(self, x):
        self.last = x * 2
        return x + self.last

    net = module_of(forward)
    net.last = torch.zeros(2)
    with pytest.warns(UserWarning, match="The tensor attribute self.last was assigned during export"):
        program = export(net, (torch.ones(2),))
    program(torch.ones(2))
    assert program.constants["last"].tolist() == [2.0, 2.0]

    def branches(self, x):
        self.calls += 1
        return x if self.calls > 2 else x * 2

    net = module_of(branches)
    net.calls = 0
    with pytest.raises(UserError, match="self.calls was assigned during export"):
        export(net, (torch.ones(2),))

    def appends(self, x):
        self.history.append(1)
        return x

    net = module_of(appends)
    net.history = []
    with pytest.raises(UserError, match="changes a list from outside"):
        export(net, (torch.ones(2),))


def test_numbers_that_count_are_state():
    def forward(self, x):
        self.calls += 1
        self.power = self.power * 2 - 1
        return x * self.calls + self.power, self.calls

    net = module_of(forward)
    net.calls, net.power = 0, 5
    program = export(net, (torch.ones(2),))
    assert net.calls == 0
    module = program.module()
    for _ in range(3):
        (got, number), (want, count) = module(torch.ones(2)), net(torch.ones(2))
        assert torch.equal(got, want) and number == count and type(number) is int
    assert program.constants["calls"] == 3


def test_data_dependent_branch_names_line_and_ways_out():
    def forward(self, x):
        if x.sum() > 3:
            return x * 2
        return x

    with pytest.raises(UserError) as info:
        export(module_of(forward), (torch.ones(2),))
    text = str(info.value)
    assert text.startswith("Could not guard on data-dependent expression")
    assert "if x.sum() > 3:" in text and "test_build.py" in text
    assert "torch.cond" in text and "torch.while_loop" in text and "torch.where" in text


def test_cond_with_autograd():
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda t: (t * self.w).sin(), lambda t: t - self.w, (x,))

    net = module_of(forward, w=nn.Parameter(torch.tensor([2.0, 3.0])))
    module = export(net, (torch.ones(2),)).module()
    for x in (torch.tensor([0.5, 1.0]), torch.tensor([-0.5, -1.0])):
        module.zero_grad()
        net.zero_grad()
        module(x).sum().backward()
        net(x).sum().backward()
        assert torch.equal(module.w.grad, net.w.grad)


def test_while_loop():
    def forward(self, x):
        return torch.while_loop(lambda i, y: y.sum() < 10, lambda i, y: (i + 1, y * 2 + self.b), (torch.tensor(0), x))

    net = module_of(forward, b=torch.ones(2))
    program = export(net, (torch.ones(2),))
    for x in (torch.ones(2), torch.full((2,), 7.0)):
        got, want = program(x), net(x)
        assert [item.tolist() for item in got] == [item.tolist() for item in want]


@pytest.mark.parametrize("mode", [True, False])
def test_modes_of_the_caller_stay(mode):
    def forward(self, x):
        with torch.no_grad():
            y = x * 2
        return x * y

    module = export(module_of(forward), (torch.ones(2),)).module()
    x = torch.ones(2, requires_grad=True)
    with torch.set_grad_enabled(mode):
        out = module(x)
        assert torch.is_grad_enabled() is mode and out.requires_grad is mode
    if mode:
        out.sum().backward()
        assert x.grad.tolist() == [2.0, 2.0]


def test_values_and_masks():
    def forward(self, x):
        return x[x > 0].sum() * x.max().item()

    program = export(module_of(forward), (torch.ones(3),))
    assert program(torch.tensor([1.0, -1.0, 4.0])) == 20.0


def test_arguments_by_name():
    def forward(self, x, y=None, *, scale=1.0):
        return (x + y) * scale

    program = export(module_of(forward), (torch.ones(2),), {"y": torch.ones(2), "scale": 2.0})
    assert program(torch.ones(2), scale=2.0, y=torch.zeros(2)).tolist() == [2.0, 2.0]
    assert program(x=torch.ones(2), scale=2.0, y=torch.zeros(2)).tolist() == [2.0, 2.0]
    with pytest.raises(AssertionError, match="Guard failed: scale == 2.0"):
        program(torch.ones(2), y=torch.zeros(2), scale=3.0)
    with pytest.raises(ValueError, match="Ran into a kwarg keyword mismatch"):
        program(torch.ones(2))


def test_training_mode_is_fixed():
    module = export(nn.Dropout(0.5), (torch.ones(8),)).module()
    with pytest.raises(NotImplementedError, match=r"train\(\)"):
        module.train()
    with pytest.raises(NotImplementedError, match=r"eval\(\)"):
        module.eval()


def test_exporting_is_seen():
    def forward(self, x):
        return x + 1 if torch.compiler.is_exporting() else x

    assert export(module_of(forward), (torch.zeros(1),))(torch.zeros(1)) == 1


def test_wrong_use():
    with pytest.raises(ValueError, match="Expected `mod` to be an instance of"):
        export(lambda x: x, (torch.ones(1),))
    with pytest.raises(UserError, match="Expecting `args` to be a tuple"):
        export(nn.ReLU(), torch.ones(1))
    with pytest.raises(TypeError, match="missing a required argument"):
        export(nn.ReLU(), ())
    with pytest.raises(UserError, match="its top-level keys must be the arg names"):
        export(nn.ReLU(), (torch.ones(1),), dynamic_shapes={"q": {0: Dim("b")}})


def test_run_decompositions_has_no_simple_writes():
    def forward(self, x):
        self.count += 1
        x.add_(1)
        return x.sin() * self.count

    net = module_of(forward, count=torch.zeros(()))
    program = export(net, (torch.ones(2),)).run_decompositions()
    assert program.graph_signature.buffers_to_mutate == {"iadd": "count"} and list(program.graph_signature.user_inputs_to_mutate.values()) == ["x"]
    assert not any(str(node.target).endswith("_") for node in program.graph.nodes)
    module, reference = program.module(), copy.deepcopy(net)
    for turn in range(3):
        x, y = torch.ones(2) * turn, torch.ones(2) * turn
        assert torch.equal(module(x), reference(y)) and torch.equal(x, y)


def test_checks_and_prints(capsys):
    def forward(self, x):
        print("exporting", x.shape[0])
        total = x.sum().item()
        torch._check(total > 0)
        return x * total

    program = export(module_of(forward), (torch.ones(2),))
    assert capsys.readouterr().out == "exporting 2\n"
    assert program(torch.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(AssertionError):
        program(-torch.ones(2))
    assert capsys.readouterr().out == ""


def test_modules_share_the_program_s_state():
    program = export(nn.Linear(2, 1), (torch.ones(1, 2),))
    program.module().load_state_dict({"weight": torch.ones(1, 2), "bias": torch.zeros(1)})
    assert program.state_dict["weight"].tolist() == [[1.0, 1.0]] and program(torch.ones(1, 2)).item() == 2.0


def test_nested_inputs_and_outputs():
    Point = collections.namedtuple("Point", "a b")
    x = torch.ones(2)
    program = export(module_of(lambda self, p, d, *rest: (Point(p.a * 2, d["k"][0]), {"r": rest[0], "n": None})),
                     (Point(x, x), {"k": [x * 3]}, x))
    out, more = program(Point(x, x), {"k": [x * 3]}, x)
    assert type(out) is Point and out.b.tolist() == [3.0, 3.0] and more["n"] is None
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    out, _ = torch.export.load(file)(Point(x, x), {"k": [x * 3]}, x)
    assert out._fields == ("a", "b")


def test_dataclasses():
    @dataclasses.dataclass
    class Batch:
        x: torch.Tensor
        scale: torch.Tensor

    torch.export.register_dataclass(Batch)
    program = export(module_of(lambda self, batch: Batch(batch.x * batch.scale, batch.scale)), (Batch(torch.ones(2), torch.tensor(2.0)),))
    assert program(Batch(torch.ones(2), torch.tensor(3.0))).x.tolist() == [3.0, 3.0]
    with pytest.raises(NotImplementedError, match="inputs or outputs with a Batch"):
        torch.export.save(program, io.BytesIO())


def test_frozen_parameters_and_modes_around_export():
    frozen = nn.Linear(2, 1).requires_grad_(False)
    module = export(frozen, (torch.ones(1, 2),)).module()
    assert [parameter.requires_grad for parameter in module.parameters()] == [False, False]
    file = io.BytesIO()
    torch.export.save(export(frozen, (torch.ones(1, 2),)), file)
    file.seek(0)
    assert [parameter.requires_grad for parameter in torch.export.load(file).parameters()] == [False, False]
    with torch.inference_mode():
        program = export(nn.Linear(2, 1), (torch.ones(1, 2),))
    assert program(torch.ones(1, 2)).requires_grad
    assert export(torch.compile(frozen), (torch.ones(1, 2),))(torch.ones(1, 2)).shape == (1, 1)


def test_sizes_that_depend_on_values_are_never_fixed():
    def forward(self, x, n):
        k = n.item()
        torch._check_is_size(k)
        found, part = x.nonzero(), x[:k]
        return {"rows": found.shape[0], "columns": found.shape[1], "all": found.numel(), "scaled": found.size(0) * x, "part": part * 2, "length": part.shape[0],
                "zeros": torch.zeros(k, 2), "k": k + 1, "mask": x[x > 1].shape[0], "unique": x.unique().shape[0], "half": k / 2}

    program = export(module_of(forward), (torch.arange(8.0), torch.tensor(3)))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    for run in (program, torch.export.load(file), program.module()):
        x, n = torch.tensor([1.0, 0, 2, 2, 0, 0, 0, 5]), torch.tensor(5)
        out = run(x, n)
        assert [out[name] for name in ("rows", "columns", "all", "length", "k", "mask", "unique", "half")] == [4, 1, 4, 5, 6, 3, 4, 2.5]
        assert all(type(out[name]) in (int, float) for name in ("rows", "length", "k", "half"))
        assert torch.equal(out["scaled"], 4 * x) and torch.equal(out["part"], x[:5] * 2) and out["zeros"].shape == (5, 2)
        with pytest.raises(RuntimeError, match="Runtime assertion failed"):
            run(x, torch.tensor(-1))


@pytest.mark.parametrize("use", [lambda x: range(x.nonzero().shape[0]), lambda x: len(x.nonzero()), lambda x: x if x.nonzero().shape[0] > 2 else -x])
def test_sizes_that_depend_on_values_decide_nothing(use):
    with pytest.raises(UserError, match="Could not guard on data-dependent expression"):
        export(module_of(lambda self, x: [x * i for i in use(x)] if isinstance(use(x), range) else use(x) * x), (torch.ones(3),))


def test_numbers_of_parts():
    def halves(self, x):
        one, two = x.chunk(2)
        return one + two

    def pairs(self, x):
        return [part.sum() for part in x.split(2)]
    program = export(module_of(halves), (torch.arange(4.0),), dynamic_shapes=({0: 2 * Dim("n", min=1)},))
    assert program(torch.arange(6.0)).tolist() == [3.0, 5.0, 7.0]
    with pytest.raises(UserError, match=r"n = Dim\('n', min=3, max=4\)"):
        export(module_of(pairs), (torch.arange(4.0),), dynamic_shapes=({0: Dim("n")},))
    assert [part.shape[0] for part in export(module_of(lambda self, x: x.tensor_split(3)), (torch.arange(6.0),), dynamic_shapes=({0: Dim("n", min=3)},))(
        torch.arange(7.0))] == [3, 2, 2]


def test_kinds_of_containers_stay():
    program = export(module_of(lambda self, p: collections.OrderedDict(x=p["a"] + 1)), (collections.OrderedDict(a=torch.zeros(1)),))
    assert type(program(collections.OrderedDict(a=torch.zeros(1)))) is collections.OrderedDict


def test_keywords_that_do_not_fit():
    def forward(self, x, *, scale):
        return x * scale
    program = export(module_of(forward), (torch.ones(2),), {"scale": torch.ones(2)})
    with pytest.raises(ValueError, match=r"Ran into a kwarg keyword mismatch: Got the following keywords \['z'\] but expected \['scale'\]"):
        program(torch.ones(2), z=torch.ones(2))


def test_cond_on_a_free_size_keeps_both_branches():
    class Long(torch.nn.Module):
        def forward(self, x):
            return torch.cond(4 < x.shape[0], lambda x: x.sin(), lambda x: x.cos(), (x,))

    program = export(Long(), (torch.ones(3, 2),), dynamic_shapes={"x": {0: torch.export.Dim("rows", min=1, max=9)}})
    for size in (1, 4, 5, 9):
        x = torch.ones(size, 2)
        assert torch.equal(program(x), x.sin() if size > 4 else x.cos())


def test_named_results_are_outputs():
    class Most(torch.nn.Module):
        def forward(self, x):
            return x.max(-1), {"s": torch.linalg.svd(x)}

    program = export(Most(), (torch.randn(2, 3),))
    for run in (program, program.module()):
        found, parts = run(torch.ones(2, 3))
        assert found.values.tolist() == [1.0, 1.0] and found.indices.tolist() == [0, 0] and parts["s"].S.shape == (2,)


class Force(torch.nn.Module):
    """Minus the gradient of a network's sum, by autograd.grad or by func.grad."""

    def __init__(self, functional):
        super().__init__()
        self.functional = functional
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))

    def forward(self, place):
        if self.functional:
            return -torch.func.grad(lambda at: self.net(at).sum())(place)
        place = place.detach().requires_grad_()
        (slope,) = torch.autograd.grad(self.net(place).sum(), place)
        return -slope


@pytest.mark.parametrize("functional", [False, True])
def test_derivatives_within_forward(functional):
    import io
    model = Force(functional)
    program = export(model, (torch.randn(3, 2),), dynamic_shapes=({0: torch.export.Dim("rows", min=1)},))
    file = io.BytesIO()
    torch.export.save(program, file)
    for native in (False, True):
        file.seek(0)
        loaded = torch.export.load(file, native=native)
        for size in (1, 3, 7):
            place = torch.randn(size, 2)
            assert torch.allclose(loaded(place), model(place), atol=1e-6)


def test_numbers_of_a_tensor():
    """`float()` and `int()` of a tensor are numbers that each run finds, as `item()` is."""
    class Numbers(nn.Module):
        def forward(self, x, n, y):
            return x * (1.0 / float(n)), x[:int(y)], x * int(n)

    program = export(Numbers(), (torch.ones(4), torch.tensor(2), torch.tensor([1.5])))
    first, second, third = program(torch.ones(4), torch.tensor(4), torch.tensor([3.9]))
    assert first.tolist() == [0.25] * 4 and second.tolist() == [1.0] * 3 and third.tolist() == [4.0] * 4
    norm = nn.BatchNorm1d(2, momentum=None)
    program = export(copy.deepcopy(norm), (torch.randn(3, 2),))
    for _ in range(3):
        x = torch.randn(3, 2)
        assert torch.allclose(program(x), norm(x), atol=1e-6)
    for name, value in norm.state_dict().items():
        assert torch.allclose(program.state_dict[name], value)


def test_warnings_come_while_exporting():
    class Warns(nn.Module):
        def forward(self, x):
            if x.shape[0] > 1:
                warnings.warn("many rows", stacklevel=3)
            return x + 1

    with pytest.warns(UserWarning, match="many rows"):
        program = export(Warns(), (torch.ones(3),), dynamic_shapes=({0: Dim.AUTO},))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert program(torch.ones(4)).tolist() == [2.0] * 4


def test_classes_of_an_adaptive_softmax():
    """Their numbers are checked by what indexes with them."""
    program = export(nn.AdaptiveLogSoftmaxWithLoss(4, 4, [2]), (torch.ones(2, 4), torch.tensor([0, 3])))
    assert program(torch.ones(2, 4), torch.tensor([3, 1])).output.shape == (2,)
    for bad in (4, -1):
        with pytest.raises(RuntimeError, match="out of bounds"):
            program(torch.ones(2, 4), torch.tensor([0, bad]))


def test_shapes_among_the_outputs():
    """They come as tuples, free sizes in them."""
    class Shapes(nn.Module):
        def forward(self, x):
            return x + 1, x.shape, {"size": x[1:].size()}

    program = export(Shapes(), (torch.ones(4, 3),), dynamic_shapes=({0: Dim("rows")},))
    assert program(torch.ones(6, 3))[1:] == ((6, 3), {"size": (5, 3)})
