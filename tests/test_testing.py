"""`torch.testing`: what assert_close accepts, its messages, and the ranges of make_tensor."""
import math

import numpy as np
import pytest

import rushlight as torch

close, T = torch.testing.assert_close, torch.tensor
NAN = math.nan

EQUAL = [(T([1.0]), T([1.0 + 1e-6])), (1.0, 1.0), (True, True), (None, None), ([T([1])], (T([1]),)), ({"a": 1}, {"a": 1}),
         (np.array([1.0]), np.array([1.0])), (torch.ones(2).half(), torch.ones(2).half() * 1.0005), (T([]), T([]))]


@pytest.mark.parametrize("actual, expected", EQUAL)
def test_what_is_close(actual, expected):
    close(actual, expected)


DIFFERENT = [
    (T([1.0, 2.0, 3.0]), T([1.0, 2.1, 3.5]), {}, "Tensor-likes are not close!\n\nMismatched elements: 2 / 3 (66.7%)\nGreatest absolute difference: 0.5 at "
     "index (2,) (up to 1e-05 allowed)\nGreatest relative difference: 0.1428571492433548 at index (2,) (up to 1.3e-06 allowed)"),
    (T(1.0), T(2.0), {}, "Scalars are not close!\n\nExpected 2.0 but got 1.0.\nAbsolute difference: 1.0 (up to 1e-05 allowed)\n"
     "Relative difference: 0.5 (up to 1.3e-06 allowed)"),
    (1, 2, {}, "Scalars are not equal!\n\nExpected 2 but got 1.\nAbsolute difference: 1\nRelative difference: 0.5"),
    (True, False, {}, "Booleans mismatch: True is not False"),
    (1.0, 1, {}, "The (d)types do not match: <class 'float'> != <class 'int'>."),
    (T([1, 2]), T([1.0, 2.0]), {}, "The values for attribute 'dtype' do not match: torch.int64 != torch.float32."),
    (T([1.0]), T([1.0, 2.0]), {}, "The values for attribute 'shape' do not match: torch.Size([1]) != torch.Size([2])."),
    ({"a": 1}, {"b": 1}, {}, "The keys of the mappings do not match:\nMissing keys in the actual mapping: ['b']\n"
     "Additional keys in the actual mapping: ['a']"),
    ([1], [1, 2], {}, "The length of the sequences mismatch: 1 != 2"),
    (None, T(1.0), {}, "None mismatch: None is not 1.0"),
    ([1, [2]], [1, [3]], {}, "Scalars are not equal!\n\nExpected 3 but got 2.\nAbsolute difference: 1\nRelative difference: 0.3333333333333333\n\n"
     "The failure occurred for item [1][0]"),
    (T([1.0]), T([2.0]), {"msg": "mine"}, "mine"),
    (T([True]), T([False]), {}, "Tensor-likes are not equal!\n\nMismatched elements: 1 / 1 (100.0%)\nGreatest absolute difference: 1 at index (0,)\n"
     "Greatest relative difference: inf at index (0,)"),
]


@pytest.mark.parametrize("actual, expected, options, text", DIFFERENT)
def test_messages(actual, expected, options, text):
    with pytest.raises(AssertionError) as error:
        close(actual, expected, **options)
    assert str(error.value) == text


def test_message_from_a_function():
    with pytest.raises(AssertionError, match="^before: Scalars are not equal!"):
        close(1, 2, msg=lambda text: "before: " + text)


def test_nan_is_close_only_when_asked():
    with pytest.raises(AssertionError, match="Greatest absolute difference: nan"):
        close(T([NAN]), T([NAN]))
    close(T([NAN]), T([NAN]), equal_nan=True)


def test_one_tolerance_alone_is_refused():
    with pytest.raises(ValueError, match="Both 'rtol' and 'atol' must be either specified or omitted, but got no atol."):
        close(T([1.0]), T([1.0]), rtol=0.1)


def test_foreign_types_are_refused():
    with pytest.raises(TypeError, match="No comparison pair was able to handle inputs of type <class 'str'> and <class 'str'>."):
        close("a", "a")


@pytest.mark.parametrize("name", ["bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32", "float64", "complex64"])
def test_make_tensor_stays_in_its_range(name):
    dtype = getattr(torch, name)
    x = torch.testing.make_tensor(50, 3, dtype=dtype, device="cpu", low=0, high=2)
    assert x.dtype is dtype and x.shape == (50, 3)
    real = torch.view_as_real(x) if dtype.is_complex else x.to(torch.float64)
    assert (real >= 0).all() and (real <= 2).all()


def test_make_tensor_options():
    x = torch.testing.make_tensor((2, 3), dtype=torch.float32, device="cpu", noncontiguous=True, requires_grad=True)
    assert not x.is_contiguous() and x.requires_grad and x.is_leaf
    assert (torch.testing.make_tensor(100, dtype=torch.int64, device="cpu", low=0, high=2, exclude_zero=True) == 1).all()


@pytest.mark.parametrize("options, text", [
    ({"dtype": torch.float32, "low": 3, "high": 1}, "`low` must be less than `high`, but got 3 >= 1"),
    ({"dtype": torch.float32, "low": NAN}, "`low` and `high` cannot be NaN"),
    ({"dtype": torch.int64, "requires_grad": True}, "`requires_grad=True` is not supported for boolean and integral dtypes"),
    ({"dtype": torch.uint8, "low": -20, "high": -10}, "The value interval specified by `low` and `high` is"),
])
def test_make_tensor_refuses(options, text):
    with pytest.raises(ValueError, match=text):
        torch.testing.make_tensor(2, device="cpu", **options)
