"""Open sizes: arithmetic, what is known of them, relations, and their text."""

import itertools
import operator
import random

import pytest

from rushlight.kernels.sizes import Fixed, Real, Size, Sizes, ceil_div, grain, possibly, same, typical


@pytest.fixture
def two():
    sizes = Sizes()
    return sizes, sizes.size(5), sizes.size(7)


def test_arithmetic_is_that_of_integers(two):
    sizes, a, b = two
    rng = random.Random(0)
    values = [a, b, 3, -2, 1]
    for _ in range(300):
        left, right = rng.choice(values), rng.choice(values)
        op = rng.choice([operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod])
        try:
            made = op(left, right)
        except (ZeroDivisionError, Fixed):
            continue
        assert typical(made) == op(typical(left), typical(right))
        if len(str(made)) < 60 and abs(typical(made)) < 10**6:
            values.append(made)
    made = [value for value in values if type(value) is Size]
    for x, y in itertools.product((2, 3, 5, 8), (2, 4, 7, 30)):
        scope = {"s5": x, "s7": y}
        assert a * b + a // 3 - (b + 1) % 4 is a * b + a // 3 - (b + 1) % 4
        for value in made:
            try:
                wanted = eval(str(value), {}, scope)
            except ZeroDivisionError:
                continue
            found = sizes.function(["s5", "s7"], [value])
            sizes.relations.clear()
            assert found(x, y) in ([wanted], None)


def test_what_all_sizes_answer_needs_no_relation(two):
    sizes, a, b = two
    assert a != 1 and a > 0 and a * b > a and a + 1 != a and bool(a) and a >= 2 and a * 12 % 4 == 0 and a * 6 // 3 is a * 2
    assert not a < 2 and not a * 64 < a and same((a, 3), [a, 3]) and not same((a,), (b,))
    assert (a * b) // b is a and ceil_div(a, 4) >= 1 and possibly(a % 4)
    assert not sizes.relations


def test_other_answers_are_relations(two):
    sizes, a, b = two
    assert a < b and a != 64 and a % 2 and not a > 16
    hold = sizes.function(["s5", "s7"], [a + b])
    assert hold(5, 7) == [12] and hold(3, 4) == [7]
    assert [hold(*bad) for bad in ((7, 5), (64, 65), (6, 7), (17, 30), (1, 7), (5, 0))] == [None] * 6


def test_the_plain_number_fixes_the_symbols(two):
    _, a, b = two
    for use in (int, range, lambda n: [0] * n, lambda n: n == 5, lambda n: n - 5 == 0, float, lambda n: 1.0 / n > 0.1):
        with pytest.raises(Fixed) as caught:
            use(a)
        assert caught.value.symbols == {"s5"}
    with pytest.raises(Fixed) as caught:
        int(a * b)
    assert caught.value.symbols == {"s5", "s7"}
    assert Sizes(["s5"]).size(5) == 5 and type(Sizes(["s5"]).size(5)) is int


def test_sizes_of_nothing_and_of_one_are_numbers():
    assert [type(Sizes().size(n)) for n in (0, 1, 2)] == [int, int, Size]


def test_floats_of_sizes_are_expressions(two):
    _, a, _ = two
    assert type(2.0 / (a - 1)) is Real and type(a / 2) is Real and type(a * 0.5) is Real and type(1 - a / 2) is Real


def test_shares_of_work(two):
    _, a, _ = two
    assert str(grain(a, a * 10, 1000, 4)) == "(-(-(s5) // 4) if 10*s5 >= 1000 else s5)"
