"""Type promotion against tables recorded from PyTorch 2.13."""
import pytest

import rushlight as torch

NAMES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
SHORT = dict(zip("b1 u1 i1 i2 i4 i8 f2 bf f4 f8 c8 cz".split(), NAMES))

# row and column in the order of NAMES; -- where PyTorch gives its half-precision complex, which is not here
PROMOTED = """
b1 u1 i1 i2 i4 i8 f2 bf f4 f8 c8 cz
u1 u1 i2 i2 i4 i8 f2 bf f4 f8 c8 cz
i1 i2 i1 i2 i4 i8 f2 bf f4 f8 c8 cz
i2 i2 i2 i2 i4 i8 f2 bf f4 f8 c8 cz
i4 i4 i4 i4 i4 i8 f2 bf f4 f8 c8 cz
i8 i8 i8 i8 i8 i8 f2 bf f4 f8 c8 cz
f2 f2 f2 f2 f2 f2 f2 f4 f4 f8 c8 cz
bf bf bf bf bf bf f4 bf f4 f8 c8 cz
f4 f4 f4 f4 f4 f4 f4 f4 f4 f8 c8 cz
f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 cz cz
c8 c8 c8 c8 c8 c8 c8 c8 c8 cz c8 cz
cz cz cz cz cz cz cz cz cz cz cz cz
"""

# what the tensor's dtype becomes beside a Python bool, int, float and complex, and what its quotient by an int is
WITH_NUMBERS = """
b1 i8 f4 c8 f4
u1 u1 f4 c8 f4
i1 i1 f4 c8 f4
i2 i2 f4 c8 f4
i4 i4 f4 c8 f4
i8 i8 f4 c8 f4
f2 f2 f2 -- f2
bf bf bf c8 bf
f4 f4 f4 c8 f4
f8 f8 f8 cz f8
c8 c8 c8 c8 c8
cz cz cz cz cz
"""

# a dimensioned tensor beside a 0-dim one
WITH_ZERO_DIM = """
b1 u1 i1 i2 i4 i8 f2 bf f4 f8 c8 cz
u1 u1 u1 u1 u1 u1 f2 bf f4 f8 c8 cz
i1 i1 i1 i1 i1 i1 f2 bf f4 f8 c8 cz
i2 i2 i2 i2 i2 i2 f2 bf f4 f8 c8 cz
i4 i4 i4 i4 i4 i4 f2 bf f4 f8 c8 cz
i8 i8 i8 i8 i8 i8 f2 bf f4 f8 c8 cz
f2 f2 f2 f2 f2 f2 f2 f2 f2 f2 -- --
bf bf bf bf bf bf bf bf bf bf c8 c8
f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 c8 c8
f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 cz cz
c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8
cz cz cz cz cz cz cz cz cz cz cz cz
"""


def expected(text, row):
    line = [line for line in text.split("\n") if line][row]
    return [None if short == "--" else getattr(torch, SHORT[short]) for short in line.split()]


def agree(got, wanted):
    return all(theirs is None or ours is theirs for ours, theirs in zip(got, wanted, strict=True))


def tensor(row, *shape):
    return torch.ones(*shape, dtype=getattr(torch, NAMES[row]))


rows = pytest.mark.parametrize("row", range(12), ids=NAMES)


@rows
def test_promote_types(row):
    got = [torch.promote_types(getattr(torch, NAMES[row]), getattr(torch, other)) for other in NAMES]
    assert agree(got, expected(PROMOTED, row)), got


@rows
def test_two_tensors(row):
    wanted = expected(PROMOTED, row)
    got = [None if wanted[other] is None else (tensor(row, 2) * tensor(other, 2)).dtype for other in range(12)]
    assert agree(got, wanted), got


@rows
def test_numbers(row):
    t, wanted = tensor(row, 2), expected(WITH_NUMBERS, row)
    got = [torch.result_type(t, value) if wanted[i] else None for i, value in enumerate((True, 2, 2.5, 2j))] + [(t / 2).dtype]
    assert agree(got, wanted), got


@rows
def test_zero_dim_tensors_are_weak(row):
    wanted = expected(WITH_ZERO_DIM, row)
    got = [None if wanted[other] is None else torch.result_type(tensor(row, 2), tensor(other, ())) for other in range(12)]
    assert agree(got, wanted), got


def test_can_cast():
    assert torch.can_cast(torch.int64, torch.float16) and torch.can_cast(torch.float64, torch.float32)
    assert not torch.can_cast(torch.float32, torch.int64) and not torch.can_cast(torch.complex64, torch.float64)
    assert not torch.can_cast(torch.int8, torch.bool) and torch.can_cast(torch.bool, torch.uint8)


def test_in_place_keeps_the_dtype_or_refuses():
    t = torch.ones(2, dtype=torch.int64)
    assert t.add_(2).dtype is torch.int64
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        t.add_(0.5)


def test_the_default_dtype_decides_for_integers():
    torch.set_default_dtype(torch.float64)
    assert (torch.ones(2, dtype=torch.int64) / 2).dtype is torch.float64 and torch.tensor(1.5).dtype is torch.float64


@pytest.mark.parametrize("make, kind, words", [
    (lambda: torch.full((1,), 300, dtype=torch.uint8), RuntimeError, "value cannot be converted to type uint8_t without overflow"),
    (lambda: torch.full((1,), 1e39), RuntimeError, "value cannot be converted to type float without overflow"),
    (lambda: torch.ones(1, dtype=torch.uint8).fill_(300), RuntimeError, "type uint8_t without overflow"),
    (lambda: torch.ones(2, dtype=torch.uint8).__setitem__(0, -300), RuntimeError, "type uint8_t without overflow"),
    (lambda: torch.tensor([-256], dtype=torch.uint8), RuntimeError, "type uint8 without overflow"),
    (lambda: torch.tensor([2 ** 40], dtype=torch.int32), RuntimeError, "type int32 without overflow"),
    (lambda: torch.tensor(2 ** 63), ValueError, "Overflow when unpacking long long"),
    (lambda: torch.ones(1, dtype=torch.int64) + 2 ** 63, ValueError, "Overflow when unpacking long long"),
])
def test_numbers_that_do_not_fit_are_refused(make, kind, words):
    with pytest.raises(kind, match=words):
        make()


def test_negatives_of_unsigned_types_wrap_and_half_types_become_infinite():
    assert torch.tensor([-1, -255], dtype=torch.uint8).tolist() == [255, 1]
    assert torch.full((1,), -1, dtype=torch.uint8).item() == 255
    assert torch.full((1,), 70000.0, dtype=torch.float16).item() == float("inf")
    assert torch.tensor([float("nan"), 1e20]).int().tolist() == [-2 ** 31] * 2


def test_the_dim_that_does_not_broadcast_is_named_from_the_end():
    with pytest.raises(RuntimeError, match=r"tensor a \(3\) must match the size of tensor b \(2\) at non-singleton dimension 1"):
        torch.ones(2, 3) * torch.ones(3, 2)
