"""The departing path: traces bake what Python decided and say so; scripts keep branches; both are saved without source."""
import io
import warnings

import pytest

import rushlight as torch
from rushlight.export import FormatError

nn, jit = torch.nn, torch.jit
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def reloaded(made):
    file = io.BytesIO()
    jit.save(made, file)
    file.seek(0)
    return jit.load(file)


# -- trace ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function, example, probe, traced", [
    (lambda x: torch.sin(x) if x.sum() > 0 else torch.cos(x), torch.ones(2), -torch.ones(2), lambda x: torch.sin(x)),
    (lambda x: x * float(x.max()), torch.tensor([1.0, 3.0]), torch.tensor([5.0, 2.0]), lambda x: x * 3),
    (lambda x: x * x.max().item(), torch.tensor([1.0, 3.0]), torch.tensor([5.0, 2.0]), lambda x: x * 3),
    (lambda x: x * len([row for row in x]), torch.ones(2), torch.ones(2), lambda x: x * 2),
    (lambda x: x * (2 if x.shape[0] > 1 else 3), torch.ones(2), torch.ones(1), lambda x: x * 2)])
def test_what_python_decided_is_baked_in(function, example, probe, traced):
    with pytest.warns(jit.TracerWarning, match="might cause the trace to be incorrect"):
        made = jit.trace(function, (example,))
    assert torch.allclose(made(probe), traced(probe))


def test_sizes_follow_where_they_are_recorded():
    def f(x):
        return torch.zeros(x.size(0), 2) + x[:, :2], x.reshape(x.shape[0] * x.shape[1]), torch.arange(x.shape[1])

    made = reloaded(jit.trace(f, torch.ones(2, 3)))
    x = torch.arange(20.0).reshape(4, 5)
    for mine, theirs in zip(made(x), f(x)):
        assert torch.equal(mine, theirs)


def test_traced_module():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)).eval()
    made = jit.trace(net, torch.ones(4, 2))
    loaded = reloaded(made)
    x = torch.randn(5, 2)
    assert torch.allclose(made(x), net(x)) and torch.allclose(loaded(x), net(x))
    assert list(loaded.state_dict()) == list(net.state_dict()) and not loaded.training
    with torch.no_grad():
        net[0].weight.fill_(2.0)
    assert torch.allclose(made(x), net(x))  # its parameters are the module's own
    loaded(x).sum().backward()
    assert loaded.get_parameter("0.weight").grad is not None


def test_check_trace():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        jit.trace(lambda x: x if x.sum() > 0 else -x, torch.ones(1), check_inputs=[(-torch.ones(1),)])
    assert any("does not match the corresponding output of the Python function" in str(item.message) for item in caught)


def test_deprecation():
    with pytest.warns(DeprecationWarning, match="Please switch to `torch.compile` or `torch.export`"):
        jit.trace(lambda x: x, torch.ones(1))
    with pytest.warns(DeprecationWarning, match="torch.jit.script"):
        jit.script(control)


def test_warnings_name_the_users_line():
    file = io.BytesIO()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        jit.trace(lambda x: [x + 1], torch.ones(1))
        jit.trace(lambda x: x + torch.rand(1), torch.ones(1))
        jit.trace_module(nn.Linear(2, 2), {"forward": torch.ones(1, 2)})
        jit.save(jit.script(control), file)
        file.seek(0)
        jit.load(file)
    assert len(said) >= 8
    assert {warning.filename for warning in said} == {__file__}, [str(warning) for warning in said if warning.filename != __file__]


# -- script --------------------------------------------------------------------------------------------------------------


def control(x: torch.Tensor, n: int):
    y = torch.zeros_like(x)
    for i in range(n):
        if float(x.sum()) > i:
            y = y + x * i
        elif i % 2 == 0:
            y -= x
        else:
            break
    while bool(y.sum() < 10):
        y = y * 2 + 1
    return y


def containers(xs: list[torch.Tensor], sizes: dict[str, int]) -> tuple[torch.Tensor, int, str]:
    total = torch.zeros(2)
    for x in xs:
        total += x
    count = 0
    for _, value in sizes.items():
        count += value
    doubled = [x * 2 for x in xs if x.sum() > 0]
    doubled.append(total)
    return total + doubled[0], count, f"{count}-{len(doubled)}"


def optional(x: torch.Tensor | None, y: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
    if x is None:
        return y * scale
    return x + y


def helper(x):
    return torch.nn.functional.relu(x)


def calls(x):
    a, b = helper(x), x.size(0)
    assert b > 0, "no rows"
    return a[:, 1:], b, x.shape


@pytest.mark.parametrize("function, arguments", [
    (control, [(torch.tensor([0.5, 1.0]), 3), (torch.tensor([-0.5, -1.0]), 4), (torch.tensor([9.0, 1.0]), 0)]),
    (containers, [([torch.ones(2), torch.ones(2)], {"a": 1, "b": 2})]),
    (optional, [(None, torch.ones(2)), (torch.ones(2), torch.ones(2)), (None, torch.ones(2), 3.0)]),
    (calls, [(torch.tensor([[1.0, -1.0, 2.0]]),)])], ids=["control", "containers", "optional", "calls"])
def test_scripted_function(function, arguments):
    made = jit.script(function)
    loaded = reloaded(made)
    again = reloaded(loaded)
    for args in arguments:
        want = str(function(*args))
        assert str(made(*args)) == str(loaded(*args)) == str(again(*args)) == want


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.BatchNorm1d(2))
        self.blocks = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
        self.power = 3
        self.register_buffer("shift", torch.tensor([1.0, -1.0]))

    def twice(self, x, n: int):
        for _ in range(n):
            x = x * 2
        return x

    @jit.export
    def extra(self, x):
        return self.twice(x, 1) + self.power

    @jit.ignore
    def plot(self, x):
        import os
        return os.getcwd()

    def forward(self, x):
        if x.sum() > 0:
            x = self.body(x)
        else:
            x = self.body(-x) - self.shift
        for block in self.blocks:
            x = torch.tanh(block(x))
        return self.twice(x, self.power) if self.training else x


def test_scripted_module():
    torch.manual_seed(0)
    net = Net()
    made = jit.script(net)
    assert isinstance(made, jit.ScriptModule) and made.original_name == "Net" and made.power == 3
    x = torch.tensor([[0.5, 1.0], [2.0, -1.0]])
    made.eval()
    net.eval()
    loaded = reloaded(made)
    for value in (x, -x):
        assert torch.allclose(made(value), net(value)) and torch.allclose(loaded(value), net(value), atol=1e-6)
    assert torch.equal(loaded.extra(x), net.extra(x))
    assert list(loaded.state_dict()) == list(net.state_dict()) and not loaded.training and not loaded.body[2].training
    loaded(x).sum().backward()
    net(x).sum().backward()
    for mine, theirs in zip(loaded.parameters(), net.parameters()):
        assert torch.allclose(mine.grad, theirs.grad, atol=1e-6)


@pytest.mark.parametrize("make, args", [
    (lambda: nn.LSTM(2, 3), (torch.ones(4, 1, 2),)), (lambda: nn.TransformerEncoderLayer(4, 2, 8).eval(), (torch.ones(3, 1, 4),)),
    (lambda: nn.Conv2d(1, 2, 3, padding=1), (torch.ones(1, 1, 4, 4),)), (lambda: nn.Embedding(3, 2), (torch.tensor([1, 2]),))])
def test_layers_of_ours_come_back(make, args):
    layer = make()
    loaded = reloaded(jit.script(layer))
    want, got = layer(*args), loaded(*args)
    want, got = (want[0], got[0]) if isinstance(want, tuple) else (want, got)
    assert torch.allclose(got, want, atol=1e-6)


def opens(x):
    return open("/etc/passwd").read()


def closes_over(x):
    return x + TABLE


def imports(x):
    import os
    return os.getcwd()


TABLE = torch.ones(2)


@pytest.mark.parametrize("function, text", [(opens, "Python builtin <built-in function open> is currently not supported in Torchscript"),
                                            (closes_over, "closed over global variable"), (imports, "import statements aren't supported")])
def test_what_cannot_be_saved(function, text):
    with pytest.raises(RuntimeError, match=text):
        jit.save(jit.script(function), io.BytesIO())


@pytest.mark.parametrize("change", [
    (b'"_":"Op","name":"nn.relu"', b'"_":"Op","name":"os.system"'), (b'"id":"x"', b'"id":"__builtins__"'), (b'"attr":"size"', b'"attr":"__class__"'),
    (b'"_":"Assert"', b'"_":"Import"'), (b'"name":"calls"', b'"name":"ca lls"'), (b'"number":1', b'"number":77'), (b'"kind":"script function"', b'"kind":"x"')])
def test_hostile_scripts(change):
    from tests.export.test_archive import fuzz

    file = io.BytesIO()
    jit.save(jit.script(calls), file)
    records = dict(fuzz.records_of(file.getvalue()))
    raw = records["script.json"].replace(*change)
    assert raw != records["script.json"]
    with pytest.raises(FormatError):
        jit.load(io.BytesIO(fuzz.packed([(name, raw if name == "script.json" else content) for name, content in records.items()])))


def test_attributes_outside_the_list_are_not_read():
    from tests.export.test_archive import fuzz

    file = io.BytesIO()
    jit.save(jit.script(calls), file)
    records = dict(fuzz.records_of(file.getvalue()))
    raw = records["script.json"].replace(b'"attr":"size"', b'"attr":"register_hook"')
    loaded = jit.load(io.BytesIO(fuzz.packed([(name, raw if name == "script.json" else content) for name, content in records.items()])))
    with pytest.raises(jit.NotSupportedError, match="may not read the attribute"):
        loaded(torch.ones(1, 3))


def test_methods_by_name():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(2, 2)

        def forward(self, x):
            return self.lin(x)

        def twice(self, x):
            return self.lin(x) * 2

    net = Net()
    loaded = reloaded(jit.trace_module(net, {"forward": torch.ones(1, 2), "twice": torch.ones(1, 2)}))
    x = torch.randn(3, 2)
    assert torch.allclose(loaded(x), net(x)) and torch.allclose(loaded.twice(x), net.twice(x))


def test_tracing_is_one_real_run():
    norm = nn.BatchNorm1d(3)
    made = jit.trace(norm, torch.randn(4, 3), check_trace=False)
    made(torch.randn(4, 3))
    assert norm.num_batches_tracked == 2


def test_wrong_use():
    with pytest.raises(RuntimeError, match="cannot be traced. Only Tensors"):
        jit.trace(lambda x, n: x * n, (torch.ones(1), 3))
    with pytest.raises(RuntimeError, match="Only tensors, lists, tuples of tensors"):
        jit.trace(lambda x: (x, 3), (torch.ones(1),))
    with pytest.raises(RuntimeError, match="Encountering a dict at the output of the tracer"):
        jit.trace(lambda x: {"a": x}, (torch.ones(1),))
    with pytest.raises(RuntimeError, match="Expected a single top-level function"):
        jit.script(lambda x: x)
    with pytest.raises(RuntimeError, match="jit.save expects"):
        jit.save(nn.ReLU(), io.BytesIO())
    file = io.BytesIO()
    torch.export.save(torch.export.export(nn.ReLU(), (torch.ones(1),)), file)
    file.seek(0)
    with pytest.raises(FormatError, match="export.load reads exported programs"):
        jit.load(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = io.BytesIO()
        jit.save(jit.script(calls), file)
    file.seek(0)
    with pytest.raises(FormatError, match="expected the records program.json"):
        torch.export.load(file)


def noted(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    return result, [str(item.message) for item in caught if item.category is jit.TracerWarning]


@pytest.mark.parametrize("function, text", [
    (lambda x: x * len(x), "Using len to get tensor shape might cause the trace to be incorrect."), (lambda x: [x, x], "Encountering a list at the output of the tracer"),
    (lambda x: x + torch.from_numpy(x.numpy()), "Converting a tensor to a NumPy array might cause the trace"),
    (lambda x: x + torch.rand(2), "Trace had nondeterministic nodes. Did you forget call .eval() on your model?")])
def test_trace_warnings(function, text):
    _, said = noted(lambda: jit.trace(function, torch.ones(2)))
    assert any(message.startswith(text) for message in said)


@pytest.mark.filterwarnings("ignore")
def test_trace_words():
    traced = jit.trace(nn.Sequential(nn.Linear(2, 2)), torch.ones(2))
    with pytest.raises(RuntimeError, match=r"forward\(\) expected at most 1 argument\(s\) but received 2 argument\(s\)"):
        traced(torch.ones(2), torch.ones(2))
    with pytest.raises(RuntimeError, match=r"forward\(\) is missing value for argument 'input'"):
        traced()
    with pytest.raises(RuntimeError, match="The traced function didn't return any values! Side-effects are not captured in traces"):
        jit.trace(lambda x: None, torch.ones(1))
    with pytest.raises(RuntimeError, match="Cannot insert a Tensor that requires grad as a constant"):
        jit.trace(lambda x: x + TRAINED, torch.ones(2))
    assert jit.trace(lambda x: x + 1 if jit.is_tracing() else x, torch.ones(1), check_trace=False)(torch.ones(1)) == 2
    assert repr(traced) == "Sequential(\n  original_name=Sequential\n  (0): Linear(original_name=Linear)\n)"


TRAINED = torch.ones(2, requires_grad=True)


# -- scripts compile -----------------------------------------------------------------------------------------------------


def test_from_the_second_call_on_it_is_compiled():
    """Branches on data, loops, text and state come out the same before and after, in this process and from a file."""
    made = jit.script(control)
    loaded = reloaded(made)
    for turn in range(6):
        for args in ((torch.tensor([0.5, 1.0]), 3), (torch.tensor([-0.5, -1.0]), 4), (torch.tensor([9.0, 1.0]), turn)):
            assert torch.equal(made(*args), control(*args)) and torch.equal(loaded(*args), control(*args))
    assert made._run._rushlight_compiled is not None and loaded._run._rushlight_compiled is not None

    class Counts(nn.Module):
        def __init__(this):  # noqa: N805 (a module's first argument has any name)
            super().__init__()
            this.layer, this.calls = nn.Linear(2, 2), 0

        def forward(this, x):  # noqa: N805
            this.calls += 1
            return torch.tanh(this.layer(x)) * this.calls

    net = Counts()
    x = torch.randn(3, 2)
    parts = [jit.script(net), reloaded(jit.script(net))]
    for call in range(1, 6):
        for part in parts:
            assert torch.allclose(part(x), torch.tanh(net.layer(x)) * call, atol=1e-6) and part.calls == call
            assert (part._compiled_call_impl is not None) == (call > 1)
    traced = jit.trace(net.layer, x)
    for _ in range(4):
        assert torch.allclose(traced(x), net.layer(x), atol=1e-6)
    assert traced._compiled_call_impl is not None


def test_scripts_within_compiled_code():
    made, other = jit.script(helper), jit.script(within)
    x = torch.tensor([-1.0, 2.0])
    compiled = torch.compile(lambda x: made(x) + other(x))
    for _ in range(3):
        assert compiled(x).tolist() == [2.0, 4.0] and other(x).tolist() == [2.0, 2.0] and within(x).tolist() == [1.0, 1.0]
    assert not jit.is_scripting()


def within(x):
    return x * 0 + (2 if jit.is_scripting() else 1)


def test_what_a_script_prints():
    made = jit.script(calls)
    assert made.code.startswith("def calls(x):") and "a[:, 1:]" in made.code
    again = reloaded(made)
    assert again.code == "def calls(x):\n    a, b = (helper(x), x.size(0))\n    assert b > 0, 'no rows'\n    return (a[:, 1:], b, x.shape)\n"
    assert str(again.graph) == str(made.graph) == "graph(%x):\n  a, b = (helper(x), x.size(0))\n  assert b > 0, 'no rows'\n  return (a[:, 1:], b, x.shape)\n"
    assert "if x.sum() > 0:" in jit.script(Net()).code and "torch.tanh(block(x))" in str(jit.script(Net()).graph)


def raises(x, name: str):
    if x.sum() > 5:
        raise ValueError(f"{name} is too big")
    return x + 1


def test_errors_name_the_line_of_the_script():
    made = jit.script(raises)
    for script, place in ((made, f'File "{__file__}", line '), (reloaded(made), 'File "<script ')):
        for _ in range(3):
            assert script(torch.ones(1), "x").tolist() == [2.0]
            with pytest.raises(jit.Error, match="x is too big") as caught:
                script(torch.ones(9), "x")
            assert isinstance(caught.value, ValueError)
            lines = str(caught.value).splitlines()
            assert lines[0] == "The following operation failed in the TorchScript interpreter." and lines[2].startswith("  " + place) and len(lines) == 4


@pytest.mark.parametrize("old, new", [
    ('{"_":"Name","id":"x"}', '[{"_":"Name","id":"_"},{"_":"Name","id":"_builtins__"}]'),  # two names are not one
    ('"op":"Add"', '"op":"main"'), ('"op":"Add"', '"op":"Name"'), ('{"_":"Name","id":"x"}', '"x"'), ('"names":["x"]', '"names":["__attribute"]'),
    ('"names":["x"]', '"names":["x","x"]')])
def test_hostile_trees(old, new):
    from tests.export.test_archive import fuzz
    file = io.BytesIO()
    jit.save(jit.script(plus), file)
    records = dict(fuzz.records_of(file.getvalue()))
    assert old.encode() in records["script.json"]
    records["script.json"] = records["script.json"].replace(old.encode(), new.encode())
    with pytest.raises(FormatError):
        jit.load(io.BytesIO(fuzz.packed(list(records.items()))))


def plus(x):
    return x + 1


def test_mutated_scripts():
    from tests.export.test_archive import fuzz
    assert fuzz.main(200, 3, "script")["json", "refused"] > 10


# -- types, freezing, marks -----------------------------------------------------------------------------------------------


def typed(x, sizes: list[int], scale: float = 1.0, names: dict[str, int] | None = None, flag: bool = False) -> torch.Tensor:
    return x * scale if flag else x + sizes[0]


@pytest.mark.parametrize("args, kwargs, text", [
    ((3, [1]), {}, "typed() Expected a value of type 'Tensor (inferred)' for argument 'x' but instead found type 'int'."),
    ((torch.ones(1), [1.5]), {}, "typed() Expected a value of type 'List[int]' for argument 'sizes' but instead found type 'list'."),
    ((torch.ones(1), [1], "a"), {}, "typed() Expected a value of type 'float' for argument 'scale' but instead found type 'str'."),
    ((torch.ones(1), [1]), {"names": {"a": "b"}}, "typed() Expected a value of type 'Optional[Dict[str, int]]' for argument 'names' but instead found type 'dict'."),
    ((torch.ones(1),), {}, "typed() is missing value for argument 'sizes'. Declaration: typed(Tensor x, int[] sizes, float scale=1.0, Dict(str, int)? names=None, bool flag=False)"),
    ((torch.ones(1), [1]), {"other": 1}, "Unknown keyword argument 'other' for operator 'typed'. Schema: typed(Tensor x, "),
    ((torch.ones(1), [1], 1.0, None, False, 1), {}, "typed() expected at most 5 argument(s) but received 6 argument(s). Declaration: typed(")])
def test_arguments_of_another_type(args, kwargs, text):
    made = jit.script(typed)
    for script in (made, reloaded(made), reloaded(reloaded(made))):
        assert script(torch.ones(1), (2,), 2).item() == 3.0  # a tuple for a list, a whole number for a float
        with pytest.raises(RuntimeError) as caught:
            script(*args, **kwargs)
        assert str(caught.value).startswith(text)


def test_types_of_values():
    assert jit.isinstance([1], list[int]) and not jit.isinstance([1.0], list[int]) and jit.isinstance((1, "a"), tuple[int, str])
    assert jit.isinstance({"a": torch.ones(1)}, dict[str, torch.Tensor]) and jit.isinstance(3, (str, int))


def test_freezing():
    net = jit.script(Net().eval())
    whole = jit.freeze(net)
    kept = jit.freeze(net, preserved_attrs=["extra", "shift"])
    x = torch.randn(3, 2)
    for frozen in (whole, reloaded(whole)):
        for _ in range(3):
            assert torch.allclose(frozen(x), net(x), atol=1e-6)
    assert not list(whole.parameters()) and not list(whole.state_dict()) and not hasattr(whole, "extra") and list(net.parameters())
    assert torch.equal(kept.extra(x), net.extra(x)) and list(kept.state_dict()) == ["shift"]
    with torch.no_grad():
        net.shift.add_(1.0)
    assert not torch.allclose(whole(-x.abs()), net(-x.abs()))  # constants are copies
    traced = jit.trace(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval(), x)
    frozen = jit.freeze(traced)
    assert torch.allclose(frozen(x), traced(x)) and not list(frozen.state_dict())
    for module, text in ((nn.Linear(2, 2), "Freezing expects a ScriptModule as input"), (jit.script(nn.Linear(2, 2)), "only implemented for modules in eval mode")):
        with pytest.raises(RuntimeError, match=text):
            jit.freeze(module)


def test_marked_methods():
    class Ignores(nn.Module):
        @jit.ignore
        def python(self, x):
            return x + 1

        def forward(self, x):
            return self.python(x)

    class Asks(Ignores):
        def forward(self, x):
            if not jit.is_scripting():
                return self.python(x)
            return x + 2

    made = jit.script(Ignores())
    assert made(torch.ones(1)).item() == 2.0
    with pytest.raises(RuntimeError, match="Could not export Python function call 'python'. Remove calls to Python functions before export"):
        jit.save(made, io.BytesIO())
    asks = jit.script(Asks())
    assert asks(torch.ones(1)).item() == reloaded(asks)(torch.ones(1)).item() == 3.0 and Asks()(torch.ones(1)).item() == 2.0
    with pytest.raises(RuntimeError, match="cannot be compiled since it inherits from nn.Module, pass an instance instead"):
        jit.script(nn.Linear)


class LeavesOut(nn.Module):
    @jit.unused
    def memory_efficient(self, x):
        return [lambda: x, x + 10][1]

    @jit.unused
    @property
    def size(self):
        return object()

    def plot(self, x):
        try:
            return x
        finally:
            pass

    def raw(self, x):
        return x + len(b"ab")

    def forward(self, x, sparing: bool = False):
        if sparing:
            return self.memory_efficient(x)
        return x * 2


@jit.unused
def debug(x):
    return x + 1


def calls_debug(x):
    return debug(x) * 2


def test_unused():
    """What is marked raises where a script calls it, also in the compiled and the loaded script; elsewhere it runs."""
    for made in (jit.script(LeavesOut()), reloaded(jit.script(LeavesOut())), jit.freeze(jit.script(LeavesOut().eval()))):
        for _ in range(3):
            assert made(torch.ones(1)).item() == 2.0
            with pytest.raises(RuntimeError, match="This Python function is annotated to be ignored and cannot be run"):
                made(torch.ones(1), True)
    assert LeavesOut()(torch.ones(1), True).item() == jit.script(LeavesOut()).memory_efficient(torch.ones(1)).item() == 11.0
    assert jit.trace(calls_debug, (torch.ones(1),))(torch.ones(1)).item() == calls_debug(torch.ones(1)).item() == 4.0
    for scripted in (jit.script(calls_debug), jit.script(debug)):
        with pytest.raises(jit.Error, match="annotated to be ignored"):
            scripted(torch.ones(1))
    with pytest.warns(FutureWarning, match=r"ignore\(True\) has been deprecated"):
        assert jit.ignore(drop=True)(helper)._rushlight_jit == "unused"
    with pytest.raises(RuntimeError, match="Argument to @torch.jit.ignore must be a bool or a function but got 3"):
        jit.ignore(drop=3)


def test_ignored_function_is_not_saved():
    @jit.ignore
    def python(x):
        return x + 1

    def calls(x):
        return python(x)

    made = jit.script(calls)
    assert made(torch.ones(1)).item() == 2.0
    with pytest.raises(RuntimeError, match="Could not export Python function call 'python'"):
        jit.save(made, io.BytesIO())


def test_untranslatable_method():
    """It is left out of the file if nothing calls it, and refused if something does."""
    class Calls(LeavesOut):
        def forward(self, x):
            return self.raw(x)

    assert reloaded(jit.script(LeavesOut()))(torch.ones(1)).item() == 2.0
    with pytest.raises(RuntimeError, match="a constant of type bytes"):
        jit.save(jit.script(Calls()), io.BytesIO())


def test_as_they_were_written():
    made = jit.script(helper)
    with jit.optimized_execution(False):
        for _ in range(3):
            assert made(torch.ones(1)).item() == 1.0
    assert made.schema == "helper(Tensor x)" and made.name == "helper"


def test_tensors_that_a_trace_holds():
    for function, text in ((lambda x: x + torch.tensor([1.0]), "torch.tensor results are registered as constants in the trace"),
                           (lambda x: x + torch.from_numpy(x.numpy()), "torch.from_numpy results are registered as constants")):
        _, said = noted(lambda function=function: jit.trace(function, torch.ones(1)))
        assert any(message.startswith(text) for message in said), said
