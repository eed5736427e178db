"""Collating: what becomes of each kind of item, and what cannot be collated."""
import collections

import numpy as np
import pytest

import rushlight as torch

data = torch.utils.data
Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(("batch", "dtype", "values"), [
    ([1, 2], torch.int64, [1, 2]),
    ([True, False], torch.bool, [True, False]),
    ([1.0, 2.0], torch.float64, [1.0, 2.0]),
    ([np.float32(1), np.float32(2)], torch.float32, [1.0, 2.0]),
    ([np.float64(1)], torch.float64, [1.0]),
    ([np.int16(3)], torch.int16, [3]),
    ([np.bool_(True)], torch.bool, [True]),
    ([np.arange(2), np.arange(2)], torch.int64, [[0, 1], [0, 1]]),
    ([np.float32(1) * np.ones(())], torch.float64, [1.0]),
    ([torch.tensor(1.0), torch.tensor(2.0)], torch.float32, [1.0, 2.0]),
    ([torch.ones(2, dtype=torch.uint8)], torch.uint8, [[1, 1]]),
])
def test_numbers_arrays_and_tensors(batch, dtype, values):
    collated = data.default_collate(batch)
    assert collated.dtype is dtype and collated.tolist() == values


def test_containers():
    assert data.default_collate(["a", "b"]) == ["a", "b"] and data.default_collate([b"a"]) == [b"a"]
    pair = data.default_collate([(1, "a"), (2, "b")])
    assert type(pair) is list and pair[0].tolist() == [1, 2] and pair[1] == ("a", "b")
    point = data.default_collate([Point(1, 2.0), Point(3, 4.0)])
    assert type(point) is Point and point.x.tolist() == [1, 3]
    kept = collections.defaultdict(list, a=1)
    mapping = data.default_collate([kept, kept])
    assert type(mapping) is collections.defaultdict and mapping["a"].tolist() == [1, 1] and kept["a"] == 1
    nested = data.default_collate([{"a": [1, {"b": 2}]}, {"a": [3, {"b": 4}]}])
    assert nested["a"][1]["b"].tolist() == [2, 4]


@pytest.mark.parametrize(("batch", "error", "words"), [
    ([torch.zeros(2, 3), torch.zeros(2, 4)], RuntimeError,
     r"stack expects each tensor to be equal size, but got \[2, 3\] at entry 0 and \[2, 4\] at entry 1"),
    ([[1, 2], [1]], RuntimeError, "each element in list of batch should be of equal size"),
    ([None], TypeError, "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class 'NoneType'>"),
    ([object()], TypeError, "found <class 'object'>"),
    ([np.array(["a"])], TypeError, "found <U1"),
])
def test_refusals(batch, error, words):
    with pytest.raises(error, match=words):
        data.default_collate(batch)


def test_the_map_can_be_extended():
    from rushlight.data.collate import collate, default_collate_fn_map

    class Word(str):
        pass

    joined = {**default_collate_fn_map, Word: lambda batch, *, collate_fn_map: "".join(batch)}
    assert collate([Word("a"), Word("b")], collate_fn_map=joined) == "ab"
    assert collate([[Word("a")], [Word("b")]], collate_fn_map=joined) == ["ab"]


def test_converting():
    converted = data.default_convert({"a": np.arange(2), "b": (np.float64(1), "text"), "c": Point(np.zeros(1), 2), "d": [np.array(["s"])]})
    assert converted["a"].tolist() == [0, 1] and type(converted["b"]) is list and converted["b"][0].dtype is torch.float64
    assert type(converted["c"]) is Point and converted["c"].y == 2 and isinstance(converted["d"][0], np.ndarray)
    tensor = torch.ones(1)
    assert data.default_convert(tensor) is tensor and data.default_convert(b"x") == b"x" and data.default_convert(3) == 3
