"""dtypes: names, sizes, kinds, limits, and the way to NumPy and back."""
import copy
import pickle

import numpy as np
import pytest

import rushlight as torch

TABLE = [  # name, bytes, floating, complex, signed
    ("bool", 1, False, False, False), ("uint8", 1, False, False, False), ("int8", 1, False, False, True), ("int16", 2, False, False, True),
    ("int32", 4, False, False, True), ("int64", 8, False, False, True), ("float16", 2, True, False, True), ("bfloat16", 2, True, False, True),
    ("float32", 4, True, False, True), ("float64", 8, True, False, True), ("complex64", 8, False, True, True), ("complex128", 16, False, True, True),
]


@pytest.mark.parametrize("name, size, floating, is_complex, signed", TABLE, ids=[row[0] for row in TABLE])
def test_what_a_dtype_is(name, size, floating, is_complex, signed):
    dtype = getattr(torch, name)
    assert (dtype.itemsize, dtype.is_floating_point, dtype.is_complex, dtype.is_signed) == (size, floating, is_complex, signed)
    assert repr(dtype) == f"torch.{name}"
    assert pickle.loads(pickle.dumps(dtype)) is dtype and copy.deepcopy(dtype) is dtype


def test_other_names():
    assert torch.float is torch.float32 and torch.double is torch.float64 and torch.half is torch.float16 and torch.long is torch.int64
    assert torch.int is torch.int32 and torch.short is torch.int16 and torch.cfloat is torch.complex64


@pytest.mark.parametrize("name", [row[0] for row in TABLE if row[0] != "bfloat16"])
def test_numpy_and_back(name):
    t = torch.ones(2, dtype=getattr(torch, name))
    assert t.numpy().dtype == np.dtype(name) and torch.from_numpy(t.numpy()).dtype is t.dtype


def test_finfo_and_iinfo():
    assert torch.finfo(torch.float32).eps == np.finfo(np.float32).eps and torch.finfo(torch.bfloat16).eps == 0.0078125
    assert torch.finfo(torch.float16).max == 65504 and torch.finfo(torch.bfloat16).tiny == torch.finfo(torch.float32).tiny
    assert torch.iinfo(torch.int8).min == -128 and torch.iinfo(torch.uint8).max == 255


def test_bfloat16_rounds_once_to_even():
    assert torch.tensor([1.00390625, 1.01171875], dtype=torch.bfloat16).tolist() == [1.0, 1.015625]
    assert torch.rand(10_000, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16).sum().item() > 4800, "summed in float32"


def test_conversions():
    t = torch.tensor([1.7, -1.7])
    assert t.to(torch.int64).tolist() == [1, -1] and t.bool().tolist() == [True, True] and t.half().dtype is torch.float16
    assert t.to(t.dtype) is t and t.type(torch.float64).dtype is torch.float64 and t.type() == "torch.FloatTensor"
