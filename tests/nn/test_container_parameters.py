"""ParameterList and ParameterDict: what is put in becomes parameters, other values stay."""
import pytest

import rushlight as torch

nn = torch.nn


def test_parameter_list():
    weights = nn.ParameterList([nn.Parameter(torch.ones(2)), torch.zeros(1), "text"])
    weights.append(torch.ones(3))
    assert [n for n, _ in weights.named_parameters()] == ["0", "1", "3"] and weights[2] == "text" and len(weights) == 4
    assert [tuple(w.shape) for w in weights[:2]] == [(2,), (1,)]
    weights[1] = torch.ones(5)
    assert isinstance(weights[1], nn.Parameter) and weights[1].shape == (5,)
    with pytest.raises(IndexError, match="index 9 is out of range"):
        weights[9]


def test_parameter_dict():
    book = nn.ParameterDict({"b": torch.zeros(2), "a": nn.Parameter(torch.ones(1))})
    assert list(book) == ["a", "b"] and all(isinstance(p, nn.Parameter) for p in book.values())
    book["c"] = 3
    assert book.get("d", 4) == 4 and book.setdefault("e", 5) == 5 and book.pop("c") == 3
    assert book.popitem() == ("e", 5) and "a" in book and list(reversed(book)) == ["b", "a"]
    assert list(book | nn.ParameterDict({"z": torch.ones(1)})) == ["a", "b", "z"]
    del book["a"]
    assert [n for n, _ in book.named_parameters()] == ["b"]
    with pytest.raises(TypeError, match="not a string"):
        book[1] = 3


def test_they_print_their_entries():
    assert "(0): Parameter containing: [torch.float32 of size 2x3]" in repr(nn.ParameterList([torch.ones(2, 3)]))
    assert "(b): Object of type: int" in repr(nn.ParameterDict({"b": 4}))
