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
