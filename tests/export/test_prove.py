"""Declared sizes: relations are proved or refused with the fix to paste in."""
import pytest

import rushlight as torch
from rushlight.export import Dim, UserError, dims, export
from rushlight.export.checks import ValueRanges
from tests.export.test_build import module_of

nn = torch.nn


def refused(forward, *args, **options):
    with pytest.raises(UserError) as info:
        export(module_of(forward), args, **options)
    return str(info.value)


def test_range_is_checked_on_every_call():
    program = export(nn.Linear(2, 1), (torch.ones(3, 2),), dynamic_shapes={"input": {0: Dim("b", min=3, max=8)}})
    assert list(program.range_constraints.values()) == [ValueRanges(3, 8)]
    assert program(torch.ones(8, 2)).shape == (8, 1)
    for size, text in ((9, "<= 8"), (1, ">= 3")):
        with pytest.raises(AssertionError, match=rf"Guard failed: input.size\(\)\[0\] {text}"):
            program(torch.ones(size, 2))
    with pytest.raises(AssertionError, match=r"Guard failed: input.size\(\)\[1\] == 2"):
        program(torch.ones(3, 3))
    with pytest.raises(AssertionError, match=r"Guard failed: input.dim\(\) == 2"):
        program(torch.ones(2))
    with pytest.raises(AssertionError, match=r"Guard failed: input.dtype == torch.float32"):
        program(torch.ones(3, 2, dtype=torch.float64))


def test_one_size_only():
    text = refused(lambda self, x: x + torch.ones(4, 2), torch.ones(4, 2), dynamic_shapes={"x": {0: Dim("rows")}})
    assert text.startswith("Constraints violated (rows)!") and "specialized it to be a constant (4)" in text and text.endswith("rows = 4")


def test_branch_narrows_the_range():
    text = refused(lambda self, x: x * 2 if x.shape[0] > 5 else x, torch.ones(7), dynamic_shapes={"x": {0: Dim("b", min=2, max=16)}})
    assert "Not all values of b = L['x'].size()[0] in the specified range 2 <= b <= 16" in text
    assert text.endswith("b = Dim('b', min=6, max=16)")


def test_multiples_are_suggested():
    text = refused(lambda self, x: x if x.shape[0] % 2 == 0 else x + 1, torch.ones(8), dynamic_shapes={"x": {0: Dim("a")}})
    assert "% 2) == 0" in text and text.endswith("_a = Dim('_a', min=1)\n  a = 2*_a")
    half = Dim("half", min=1, max=50)
    program = export(module_of(lambda self, x: x if x.shape[0] % 2 == 0 else x + 1), (torch.ones(8),), dynamic_shapes={"x": {0: 2 * half}})
    assert program(torch.zeros(6)).tolist() == [0] * 6
    with pytest.raises(AssertionError, match="Guard failed"):
        program(torch.zeros(7))


def test_equal_sizes():
    a, c = dims("a", "c")
    text = refused(lambda self, x, y: x + y, torch.ones(7), torch.ones(7), dynamic_shapes={"x": {0: a}, "y": {0: c}})
    assert "The values of c = L['y'].size()[0] and a = L['x'].size()[0] must always be equal." in text and text.endswith("c = a")
    program = export(module_of(lambda self, x, y: x + y), (torch.ones(7), torch.ones(7)), dynamic_shapes={"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}})
    assert len(program.range_constraints) == 1
    assert program(torch.ones(3), torch.ones(3)).shape == (3,)
    with pytest.raises(AssertionError, match=r"Guard failed: y.size\(\)\[0\] == x.size\(\)\[0\]"):
        program(torch.ones(3), torch.ones(4))


def test_derived_sizes():
    b = Dim("b", min=2, max=64)
    program = export(module_of(lambda self, x, y: x.repeat(2) * y[1:]), (torch.ones(3), torch.ones(7)), dynamic_shapes={"x": {0: b}, "y": {0: 2 * b + 1}})
    assert program(torch.ones(5), torch.ones(11)).shape == (10,)
    with pytest.raises(AssertionError, match=r"Guard failed: y.size\(\)\[0\] == 2 \* x.size\(\)\[0\] \+ 1"):
        program(torch.ones(5), torch.ones(12))
    with pytest.raises(UserError, match="to be of the form 2"):
        export(module_of(lambda self, x, y: x.repeat(2) * y), (torch.ones(3), torch.ones(5)), dynamic_shapes={"x": {0: b}, "y": {0: 2 * b}})


def test_auto_and_static():
    auto = {"x": {0: Dim.AUTO, 1: Dim.AUTO}}
    program = export(module_of(lambda self, x: x + torch.ones(4, 1)), (torch.ones(4, 3),), dynamic_shapes=auto)
    assert program(torch.ones(4, 9)).shape == (4, 9)
    with pytest.raises(AssertionError, match=r"x.size\(\)\[0\] == 4"):
        program(torch.ones(5, 3))
    assert "Dim.DYNAMIC" in refused(lambda self, x: x + torch.ones(4), torch.ones(4), dynamic_shapes={"x": {0: Dim.DYNAMIC}})
    assert export(nn.ReLU(), (torch.ones(4),), dynamic_shapes={"input": {0: Dim.STATIC}}).range_constraints == {}


def test_sizes_reach_the_outputs():
    program = export(module_of(lambda self, x: (x.reshape(-1), x.shape[0] * 2 + 1)), (torch.ones(3, 2),), dynamic_shapes={"x": {0: Dim("n", max=99)}})
    flat, number = program(torch.ones(5, 2))
    assert flat.shape == (10,) and number == 11


@pytest.mark.parametrize("forward", [
    lambda self, x: x.reshape(x.shape[0], -1), lambda self, x: x.view(-1, x.size(0)).t(), lambda self, x: torch.zeros(x.shape[0], 3) + 1,
    lambda self, x: x[:, : x.shape[1] // 2], lambda self, x: torch.cat([x, x[: x.shape[0] - 1]]), lambda self, x: x.expand(2, *x.shape),
    lambda self, x: x.sum() / x.shape[0], lambda self, x: torch.arange(x.shape[0]), lambda self, x: x.flatten() if x.dim() > 1 else x,
    lambda self, x: torch.ones(x.numel()), lambda self, x: torch.stack([x, x]).chunk(2, 2)[0], lambda self, x: (x.shape[0], x)[1]])
def test_sizes_in_use(forward):
    """Programs with sizes of their inputs inside are exported for all sizes, and compute what the module computes."""
    module = module_of(forward)
    program = export(module, (torch.arange(12.0).reshape(2, 6),), dynamic_shapes={"x": {0: Dim("rows", min=1)}})
    for rows in (1, 2, 5):
        x = torch.randn(rows, 6)
        assert torch.equal(program(x), module(x))


def test_bad_declarations():
    with pytest.raises(AssertionError, match="inconsistent min=5, max=2"):
        Dim("b", min=5, max=2)
    with pytest.raises(AssertionError, match="valid identifier"):
        Dim("a b")
    b = Dim("b")
    assert "dim 3" in refused(lambda self, x: x, torch.ones(2), dynamic_shapes={"x": {3: b}})
    assert "must always be equal" in refused(lambda self, x, y: x, torch.ones(2), torch.ones(3), dynamic_shapes={"x": {0: b}, "y": {0: b}})
    assert "2 not in range [4, int_oo]" in refused(lambda self, x: x, torch.ones(2), dynamic_shapes={"x": {0: Dim("k", min=4)}})
    assert "non-tensor type" in refused(lambda self, x, n: x, torch.ones(2), 3, dynamic_shapes={"x": None, "n": {0: b}})


def test_sizes_that_must_be_equal_three_at_once():
    """No one of them and no pair can change alone; a size of the same number that the code fixes stays out of it."""
    def forward(self, x, y, z, w):
        return x + y * z, w @ torch.ones(5, 2)
    given = *(torch.ones(5, 3) for _ in range(3)), torch.ones(5)
    program = export(module_of(forward), given, dynamic_shapes=[{0: Dim.AUTO, 1: Dim.AUTO}] * 3 + [{0: Dim.AUTO}])
    assert len(program.range_constraints) == 2
    other = torch.ones(7, 4)
    assert program(other, other, other, torch.ones(5))[0].shape == (7, 4)
    with pytest.raises(AssertionError, match=r"Guard failed: z.size\(\)\[0\] == x.size\(\)\[0\]"):
        program(other, other, torch.ones(6, 4), torch.ones(5))
    text = refused(forward, *given, dynamic_shapes=[*({0: dim} for dim in dims("b", "c", "d")), None])
    assert text.startswith("Constraints violated (c, d)!") and text.endswith("Suggested fixes:\n  c = b\n  d = b")


def test_sizes_beside_one_that_the_code_fixes():
    """All sizes may be free, the features cannot: length and batch stay free, though they are the same number in the example."""
    free = [{0: Dim.AUTO, 1: Dim.AUTO}] * 3
    attention = nn.MultiheadAttention(3, 3).eval()
    program = export(attention, (torch.randn(3, 3),) * 3, dynamic_shapes=free)
    query, key = torch.randn(5, 3), torch.randn(7, 3)
    assert torch.allclose(program(query, key, key)[0], attention(query, key, key)[0], atol=1e-6)
    with pytest.raises(AssertionError, match=r"Guard failed: query.size\(\)\[1\] == 3"):
        program(torch.ones(5, 4), key, key)


def test_free_sizes_with_masks():
    """Sizes that were found to be one move together when sizes of later tensors are found."""
    layer = nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0).eval()
    masks = {"tgt_key_padding_mask": torch.zeros(3, dtype=torch.bool), "memory_key_padding_mask": torch.zeros(3, dtype=torch.bool)}
    free = {name: {0: Dim.AUTO} for name in masks} | {"tgt": {0: Dim.AUTO, 1: Dim.AUTO}, "memory": {0: Dim.AUTO, 1: Dim.AUTO}}
    program = export(layer, (torch.randn(3, 4), torch.randn(3, 4)), masks, dynamic_shapes=free)
    longer = {name: torch.tensor([False] * 4 + [True]) for name in masks}
    given = torch.randn(5, 4), torch.randn(5, 4)
    assert torch.allclose(program(*given, **longer), layer(*given, **longer), atol=1e-6)
