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
    (lambda: torch.zeros(2, dtype=torch.int64).__setitem__(0, 2 ** 63), ValueError, "Overflow when unpacking long long"),
    (lambda: torch.ones(1, dtype=torch.int64) * 10 ** 20, OverflowError, "int too big to convert"),
    (lambda: 10 ** 20 + torch.ones(1), OverflowError, "int too big to convert"),
    (lambda: torch.ones(1, dtype=torch.float16) < 2 ** 64, OverflowError, "int too big to convert"),
    (lambda: torch.ones(1, dtype=torch.int32) // (-2 ** 63 - 1), OverflowError, "can't convert negative int to unsigned"),
    (lambda: torch.ones(1) ** 10 ** 20, OverflowError, "int too big to convert"),
    (lambda: torch.full((2,), 10 ** 20), OverflowError, "int too big to convert"),
    (lambda: torch.ones(2).clamp(max=10 ** 20), OverflowError, "int too big to convert"),
    (lambda: torch.where(torch.ones(1) > 0, 10 ** 20, 1), OverflowError, "int too big to convert"),
    (lambda: torch.ones(2, dtype=torch.int32).clamp(max=2 ** 40), RuntimeError, "value cannot be converted to type int without overflow"),
    (lambda: torch.ones(2, dtype=torch.int64).clamp(max=2 ** 63), RuntimeError, "value cannot be converted to type int64_t without overflow"),
    (lambda: torch.ones(2, dtype=torch.int32).add(torch.ones(2, dtype=torch.int32), alpha=2 ** 40), RuntimeError, "type int without overflow"),
    (lambda: torch.where(torch.ones(1) > 0, torch.ones(1, dtype=torch.int32), 2 ** 40), RuntimeError, "type int without overflow"),
    (lambda: torch.ones(2, dtype=torch.uint8) ** 300, RuntimeError, "type uint8_t without overflow"),
    (lambda: torch.ones(2, dtype=torch.int8).new_full((1,), 300), RuntimeError, "type int8_t without overflow"),
    (lambda: torch.nn.functional.pad(torch.ones(2, dtype=torch.int32), (1, 1), value=2 ** 40), RuntimeError, "type int without overflow"),
    (lambda: torch.addcmul(*[torch.ones(2, dtype=torch.int8)] * 3, value=300), RuntimeError, "type int8_t without overflow"),
    (lambda: torch.full((2,), 70000.0, dtype=torch.float16), RuntimeError, "type c10::Half without overflow"),
    (lambda: torch.ones(2, dtype=torch.float16).masked_fill(torch.tensor([True, False]), -1e9), RuntimeError, "type c10::Half without overflow"),
    (lambda: torch.ones(2, dtype=torch.bfloat16).fill_(1e39), RuntimeError, "type c10::BFloat16 without overflow"),
    (lambda: torch.ones(2).fill_(-1e39), RuntimeError, "type float without overflow"),
    (lambda: torch.ones(2).clamp(max=1j), RuntimeError, "value cannot be converted to type"),
])
def test_numbers_that_do_not_fit_are_refused(make, kind, words):
    with pytest.raises(kind, match=words):
        make()


def test_numbers_of_64_bits_without_a_sign_wrap():
    x = torch.tensor([1, 2])
    assert (x * 2 ** 63).tolist() == [-2 ** 63, 0] and (x + (2 ** 64 - 1)).tolist() == [0, 1] and ((2 ** 63) - x).tolist() == [2 ** 63 - 1, 2 ** 63 - 2]
    assert (x & 2 ** 64 - 1).tolist() == [1, 2] and (x.int() * (2 ** 64 - 1)).tolist() == [-1, -2]
    assert (x.double() * 2 ** 63).tolist() == [2.0 ** 63, 2.0 ** 64]


def test_limits_promote_bools():
    x = torch.tensor([True, False])
    assert x.clamp(max=5).dtype is torch.int64 and x.clamp(2, 3).tolist() == [2, 2]
    for limit, words in ((dict(min=True), "clamp_min_scalar_cpu"), (dict(max=True), "clamp_max_scalar_cpu"), (dict(min=False, max=True), "clamp_scalar_cpu")):
        with pytest.raises(NotImplementedError, match=f'"{words}" not implemented for \'Bool\''):
            x.clamp(**limit)
    with pytest.raises(NotImplementedError, match="lerp_kernel_scalar"):
        torch.lerp(torch.tensor([1]), torch.tensor([2]), 0.5)


def test_shifts_by_negative_counts_leave_no_bit():
    x = torch.tensor([-5, 3], dtype=torch.int8)
    assert (x << -1).tolist() == [0, 0] and (x >> -1).tolist() == [-1, 0] and (x >> 100).tolist() == [-1, 0]
    assert (torch.tensor([200], dtype=torch.uint8) >> torch.tensor([8], dtype=torch.uint8)).tolist() == [0]
    assert (7 << torch.tensor([-1, 1])).tolist() == [0, 14]


def test_negatives_of_unsigned_types_wrap_and_half_types_become_infinite_where_they_are_data():
    assert torch.tensor([-1, -255], dtype=torch.uint8).tolist() == [255, 1]
    assert torch.full((1,), -1, dtype=torch.uint8).item() == 255
    assert torch.full((1,), 70000.0, dtype=torch.float16).item() == float("inf")
    x = torch.ones(2, dtype=torch.float16)
    x[0] = 70000.0
    assert x.tolist() == [float("inf"), 1.0] and torch.tensor(70000.0, dtype=torch.float16).item() == float("inf") and (x * 70000)[1].item() == float("inf")
    assert torch.tensor([float("nan"), 1e20]).int().tolist() == [-2 ** 31] * 2


def test_the_dim_that_does_not_broadcast_is_named_from_the_end():
    with pytest.raises(RuntimeError, match=r"tensor a \(3\) must match the size of tensor b \(2\) at non-singleton dimension 1"):
        torch.ones(2, 3) * torch.ones(3, 2)
