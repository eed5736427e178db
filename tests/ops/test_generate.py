"""The generated functions: what they look like, that they show in tracebacks, that references to stubs stay good."""
import inspect
import linecache
import subprocess
import sys

import pytest

import rushlight as torch
from rushlight.ops import generate
from rushlight.ops.record import REGISTRY, pointwise, primitive


def test_source_is_straight_line_python():
    text = generate.source(REGISTRY["mul"])
    compile(text, "mul", "exec")
    assert "def mul(input, other" in text and "def apply(" in text and "for " not in text


def test_rules_are_inlined():
    assert "g_input = (g * other)" in generate.source(REGISTRY["mul"])
    assert generate.inlined(REGISTRY["tanh"], "input") == "(g * (1 - out * out))"


def test_a_reference_taken_before_the_first_call_becomes_the_real_function():
    code = ("import rushlight as torch; from rushlight.ops.record import REGISTRY; f = torch.tanh; before = f.__code__;"
            "f(torch.ones(1)); assert f.__code__ is not before and torch.tanh is f and REGISTRY['tanh'].function is f")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_backward_pass_is_compiled_when_one_comes():
    code = ("import rushlight as torch, linecache; from rushlight.ops.record import REGISTRY; x = torch.ones(2, requires_grad=True)\n"
            "y = x.tanh().sum(); assert '<rushlight op tanh>' in linecache.cache and '<rushlight op tanh (backward)>' not in linecache.cache\n"
            "node = y.grad_fn.next_functions[0][0]; stub = type(node).propagate\n"
            "y.backward(); assert '<rushlight op tanh (backward)>' in linecache.cache and type(node).propagate is not stub\n"
            "expected = x.grad.clone(); x.grad = None; x.tanh().sum().backward(); assert torch.equal(x.grad, expected)\n"
            "z = x.cos(); (first,) = torch.autograd.grad(z.sum(), x); assert torch.allclose(first, -x.detach().sin())")
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("shape", [(3, 4), (1024, 512)])  # the numbers of a large one are not computed
def test_capture_compiles_no_function_of_an_op(shape):
    code = ("import rushlight as torch, linecache\n"
            "f = lambda x, y: torch.tanh(torch.sin(x) * y - torch.exp(-x * x)).sum(-1)\n"
            f"x, y = torch.ones{shape}, torch.ones{shape}; got = torch.compile(f)(x, y)\n"
            "assert not [name for name in linecache.cache if name.startswith('<rushlight op') and any(op in name for op in ('sin', 'tanh', 'exp', 'mul', 'sub', 'neg'))]\n"
            "assert torch.allclose(got, f(x, y)) and '<rushlight op sin>' in linecache.cache\n"
            "assert torch.allclose(torch.compile(lambda x: x.sum(-1, keepdim=True) / x.mean(-1, True))(x), torch.tensor(float(x.shape[1])).expand(x.shape[0], 1))\n"
            "for wrong in (lambda x: torch.sin(x, 3), lambda x: x.__mul__(x, x), lambda x: torch.tan()):\n"
            "    try: torch.compile(wrong)(x)\n"
            "    except TypeError: continue\n"
            "    raise AssertionError('no error')")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_capture_of_a_backward_pass_compiles_no_function_of_an_op():
    code = ("import rushlight as torch, linecache\n"
            "w = torch.full((3, 3), 0.5, requires_grad=True)\n"
            "def f(x):\n"
            "    y = (torch.tanh(x @ w) * x).clone().sum()\n"
            "    return torch.autograd.grad(y, w)[0].sum(0)\n"
            "x = torch.ones(2, 3); got = torch.compile(f)(x)\n"
            "assert not [name for name in linecache.cache if name.startswith('<rushlight op')], list(linecache.cache)\n"
            "assert torch.allclose(got, f(x)) and '<rushlight op tanh (backward)>' in linecache.cache")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_op_that_is_captured_often_is_compiled():
    code = ("import rushlight as torch, linecache\n"
            "def f(x):\n"
            "    for _ in range(60): x = torch.sin(x) + 0.5\n"
            "    return torch.cos(x)\n"
            "x = torch.ones(2, requires_grad=True); got = torch.compile(f)(x)\n"
            "assert '<rushlight op sin>' in linecache.cache and '<rushlight op cos>' not in linecache.cache\n"
            "assert torch.allclose(got, f(x))")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_signature_and_docstring_are_the_record_s():
    assert list(inspect.signature(torch.atan2).parameters) == ["input", "other"]
    assert "angle" in torch.atan2.__doc__


def test_generated_lines_are_in_linecache():
    torch.tanh(torch.ones(1))
    assert "def tanh" in linecache.getline("<rushlight op tanh>", 1)


def test_a_rule_that_asks_for_what_the_op_lacks_is_an_error_that_names_it():
    with pytest.raises(TypeError, match="op wrong_one .*asks for 'missing'"):
        @pointwise(None, grad=dict(input=lambda g, missing: g))
        def wrong_one(input): ...
    with pytest.raises(TypeError, match="no tensor of the op"):
        @primitive(grad=dict(dim=lambda g: g))
        def wrong_two(input, dim): ...
    with pytest.raises(TypeError, match="two ops are named mul"):
        @pointwise(None)
        def mul(input): ...


def test_negative_zero_is_not_taken_for_zero():
    x = torch.ones(1)
    assert (x * 0.0).item() == 0 and str((x * -0.0).item()) == "-0.0" and str((x * 0.0).item()) == "0.0"
