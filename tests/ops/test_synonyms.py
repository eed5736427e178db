"""NumPy's names of arguments (`axis`, `keepdims`), and what a function says of an argument that is no tensor."""
import inspect

import pytest

import rushlight as torch

X = torch.tensor([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
REDUCTIONS = ("all any amax amin argmax argmin logsumexp max mean median min mode nanmean nanmedian nansum prod std sum var").split()
OTHERS = ("argsort count_nonzero cummax cummin cumprod cumsum diff log_softmax logcumsumexp softmax sort squeeze unbind unsqueeze").split()


def same(found, expected):
    if isinstance(expected, torch.Tensor):
        return torch.equal(found, expected)
    return all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("name", REDUCTIONS + OTHERS)
def test_axis_is_dim(name):
    for call in (getattr(torch, name), lambda x, **named: getattr(x, name)(**named)):
        assert same(call(X, axis=1), call(X, dim=1))
        if name in REDUCTIONS:
            assert same(call(X, axis=0, keepdims=True), call(X, dim=0, keepdim=True))


def test_axis_of_functions_of_several_tensors_and_in_place():
    assert torch.cat([X, X], axis=1).shape == (2, 6) and torch.concat([X, X], axis=1).shape == (2, 6)
    assert torch.stack([X, X], axis=-1).shape == (2, 3, 2)
    assert torch.std_mean(X, axis=1)[1].tolist() == [2.0, 5.0]
    assert torch.topk(X, 1, axis=0)[0].tolist() == [[6.0, 5.0, 4.0]]
    assert torch.repeat_interleave(X, 2, axis=0).shape == (4, 3)
    assert X.clone().cumsum_(axis=1).equal(X.cumsum(1))
    x = X.clone().requires_grad_()
    x.mean(axis=0).sum().backward()
    assert x.grad.unique().tolist() == [0.5]


def test_axis_in_a_compiled_function():
    assert torch.compile(lambda x: torch.sum(x, axis=1, keepdims=True))(X).tolist() == [[6.0], [15.0]]


def test_the_signature_is_the_written_one():
    assert str(inspect.signature(torch.sum)) == "(input, dim=None, keepdim=False, *, dtype=None, out=None)"


@pytest.mark.parametrize("name, rest", [("cumsum", (0,)), ("flip", ((0,),)), ("amax", ()), ("argmax", ()), ("diff", ()), ("flatten", ()), ("softmax", (0,)),
                                        ("exp_", ()), ("clamp_", (0,))])
@pytest.mark.parametrize("value, kind", [("text", "str"), (None, "NoneType"), ([1.0], "list")])
def test_no_tensor(name, rest, value, kind):
    with pytest.raises(TypeError, match=rf"^{name}\(\): argument 'input' \(position 1\) must be Tensor, not {kind}"):
        getattr(torch, name)(value, *rest)


def test_a_missing_dim_is_told():
    for function in (torch.cumsum, torch.unsqueeze):
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'dim'"):
            function(X)
