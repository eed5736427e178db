"""What `jit.script` refuses, in torch's words, and what it takes and keeps through a file."""
import io
import math

import pytest

import rushlight as torch

jit = torch.jit
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
G = 0


def undefined(x):
    return undefined_name(x)  # noqa: F821


def mixed_branches(x, n: int):
    if n > 0:
        y = 1
    else:
        y = "a"
    return y


def one_branch(x, n: int):
    if n > 0:
        y = 1
    return y


def mixed_returns(x, n: int):
    if n > 0:
        return 1
    return "a"


def tries(x):
    try:
        return x
    except Exception:
        return x


def lambdas(x):
    f = lambda y: y  # noqa: E731
    return f(x)


def yields(x):
    yield x


def globals_(x):
    global G
    G = 1
    return x


def sets(x):
    return {1, 2}


def classes(x):
    class A:
        pass
    return x


def imports(x):
    import os  # noqa: F401
    return x


def no_method(x):
    return x.nonexistent()


def no_method_of_int(x: int):
    return x.sum()


def opens(x):
    return open(x)


def calls_what_is_refused(x):
    return sets(x)


@pytest.mark.parametrize("function, kind, text", [
    (undefined, RuntimeError, "undefined value undefined_name:"), (mixed_branches, RuntimeError, "Type mismatch: y is set to type int in the true branch and type "
                                                                                          "str in the false branch:"),
    (one_branch, RuntimeError, "y is not defined in the false branch:"),
    (mixed_returns, RuntimeError, "Previous return statement returned a value of type int but this return statement returns a value of type str:"),
    (tries, jit.UnsupportedNodeError, "try blocks aren't supported:"), (lambdas, jit.UnsupportedNodeError, "Lambda aren't supported:"),
    (yields, jit.UnsupportedNodeError, "Yield aren't supported:"), (globals_, jit.UnsupportedNodeError, "global variables aren't supported:"),
    (sets, jit.UnsupportedNodeError, "Set aren't supported:"), (classes, jit.UnsupportedNodeError, "class definitions aren't supported:"),
    (imports, jit.UnsupportedNodeError, "import statements aren't supported:"), (calls_what_is_refused, jit.UnsupportedNodeError, "Set aren't supported:"),
    (no_method, RuntimeError, r"'Tensor \(inferred\)' object has no attribute or method 'nonexistent'.:"),
    (no_method_of_int, RuntimeError, "'int' object has no attribute or method 'sum'.:"),
    (opens, RuntimeError, "Python builtin <built-in function open> is currently not supported in Torchscript:")])
def test_refused(function, kind, text):
    with pytest.raises(kind, match=text) as caught:
        jit.script(function)
    assert f'File "{__file__}", line' in str(caught.value)


def defined_by_leaving(x, n: int):
    if n > 2:
        y = 1
    elif n > 1:
        raise ValueError("two")
    else:
        return x
    return x * y


def decided_when_scripted(x, n: int | None):
    if n is not None:
        k = n
    else:
        k = 0
    if jit.is_scripting():
        z = 1
    if not isinstance(k, int):
        z = 2
    return x + k + z


def not_read(x, n: int):
    if n > 0:
        y = 1
    y = 2
    return x * y


def loops(x, n: int):
    for i in range(n):
        if i == 0:
            y = x
            continue
        y = y * 2  # noqa: F821
    while n > 0:
        n -= 1
    else:
        n = 7
    return y, n


def modes_and_modules(x):
    F = torch.nn.functional
    with torch.no_grad():
        y = F.relu(x)
    z = y + 1
    del z
    return y, isinstance(x, torch.Tensor), isinstance(3, (str, float)), f"{1}-{2}", "%d" % 3, math.pi, "ab".title()


def asserts(x, n: int):
    assert n == 0, "n must be 0"
    return x


@pytest.mark.parametrize("function, args", [(defined_by_leaving, (torch.ones(1), 3)), (defined_by_leaving, (torch.ones(1), 0)),
                                            (decided_when_scripted, (torch.ones(1), 3)), (decided_when_scripted, (torch.ones(1), None)),
                                            (not_read, (torch.ones(1), 1)), (loops, (torch.ones(1), 3)), (modes_and_modules, (torch.ones(1, requires_grad=True),))])
def test_taken_and_kept(function, args):
    scripted = jit.script(function)
    file = io.BytesIO()
    jit.save(scripted, file)
    file.seek(0)
    loaded = jit.load(file)
    jit_is_scripting = function is decided_when_scripted
    want = scripted(*args) if jit_is_scripting else function(*args)
    assert str(scripted(*args)) == str(want) == str(loaded(*args))


def test_what_scripts_raise():
    scripted = jit.script(asserts)
    file = io.BytesIO()
    jit.save(scripted, file)
    file.seek(0)
    for run in (scripted, jit.load(file)):
        with pytest.raises(jit.Error, match=r"The following operation failed in the TorchScript interpreter.(.|\n)*builtins.AssertionError: n must be 0"):
            run(torch.ones(1), 1)
        with pytest.raises(AssertionError):
            run(torch.ones(1), 1)
        with pytest.raises(RuntimeError, match=r"asserts\(\) is missing value for argument 'n'. Declaration: asserts"):
            run(torch.ones(1))
        with pytest.raises(RuntimeError, match=r"asserts\(\) expected at most 2 argument\(s\) but received 3"):
            run(torch.ones(1), 0, 0)


@pytest.mark.parametrize("text", ["{0.__class__}", "{0[0]}", "{:99999999}"])
def test_format_reads_nothing(text):
    scripted = jit.script(formats)
    file = io.BytesIO()
    jit.save(scripted, file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="a script may not format"):
        jit.load(file)(text)


def formats(text: str):
    return text.format(1)


class Dicts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ModuleDict({"a": torch.nn.Linear(2, 2), "b": torch.nn.Tanh()})

    def forward(self, x):
        for name, part in self.parts.items():
            x = part(x) + len(name)
        return x


class Missing(torch.nn.Module):
    def forward(self, x):
        return self.missing(x)


class Deep(torch.nn.Module):
    def helper(self, x):
        return {x}

    def forward(self, x):
        return self.helper(x)


def test_modules():
    scripted = jit.script(Dicts())
    file = io.BytesIO()
    jit.save(scripted, file)
    file.seek(0)
    loaded = jit.load(file)
    assert torch.equal(loaded(torch.ones(2)), scripted(torch.ones(2))) and type(loaded).__name__ == "RecursiveScriptModule"
    with pytest.raises(RuntimeError, match="Module 'Missing' has no attribute 'missing'"):
        jit.script(Missing())
    with pytest.raises(jit.UnsupportedNodeError, match="Set aren't supported"):
        jit.script(torch.nn.Sequential(Deep()))
    with pytest.raises(ValueError, match="The provided filename nowhere.pt does not exist"):
        jit.load("nowhere.pt")


def returns_both(x, n: int):
    if n > 0:
        return x
    return n


def defined_on_one_side(x):
    if x.sum() > 0:
        y = x
    return y  # noqa: F821 (that is the point)


def deletes(x):
    del x
    return x  # noqa: F821


@pytest.mark.parametrize("function, text", [
    (returns_both, r"Previous return statement returned a value of type Tensor \(inferred\) but this return statement returns a value of type int"),
    (defined_on_one_side, "y is not defined in the false branch"), (deletes, "undefined value x")])
def test_a_condition_on_data_is_not_decided_when_scripted(function, text):
    with pytest.raises(RuntimeError, match=text):
        torch.jit.script(function)
