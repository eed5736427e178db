"""What varies becomes symbolic: sizes, ints and floats, with guards on what the code asked of them."""

import itertools
import math
import warnings

import numpy as np
import pytest

import rushlight as torch

from .counting import compiled


def run(function, calls, **options):
    torch._dynamo.reset()
    fast, found = compiled(function, **options)
    for args in calls:
        got, want = fast(*args), function(*args)
        assert str(got) == str(want)
    return len(found)


def sizes(*numbers):
    return [(torch.arange(float(n)),) for n in numbers]


def test_automatic_after_the_first_change():
    assert run(lambda x: torch.sin(x) * x.shape[0], sizes(3, 4, 5, 9, 3)) == 2


def test_dynamic_from_the_start_and_never():
    assert run(lambda x: x.reshape(-1, 1) + x.numel(), sizes(3, 4, 7), dynamic=True) == 1
    assert run(lambda x: torch.sin(x), sizes(3, 4, 7), dynamic=False) == 3


@pytest.mark.parametrize("cut", [
    lambda x: [part * 2 for part in x.split(4, dim=2)],
    lambda x: x.split([3, 9], 2)[1].transpose(0, 1) + 1,
    lambda x: [part.sum(1) for part in x.chunk(3, -1)],
    lambda x: [part + 1 for part in x.unbind(2)],
    lambda x: torch.stack([row * i for i, row in enumerate(x.transpose(0, 2))]),
])
def test_only_the_size_that_is_cut_is_fixed(cut):
    assert run(cut, [(torch.arange(2.0 * n * 12).reshape(2, n, 12),) for n in (5, 6, 9, 3)]) == 2


def test_zero_and_one_are_special():
    assert run(lambda x: torch.sin(x) + 1, sizes(4, 1, 5, 0, 6)) == 4


def test_a_branch_on_a_size_adds_a_guard():
    assert run(lambda x: torch.sin(x) if x.shape[0] > 5 else torch.cos(x), sizes(3, 4, 5, 6, 7, 20, 3)) == 3


def test_sizes_of_inner_tensors():
    def f(x, y):
        b, n = x.shape
        z = (x.reshape(b * n) * n).view(n, b).t() + y[:b].unsqueeze(1)
        both = torch.cat([z, torch.zeros(b, 2 * n + 1)], 1)
        return both.shape[1] * 2, z.numel() // b, both.sum(1)
    calls = [(torch.arange(float(b * n)).reshape(b, n), torch.arange(float(b + 1))) for b, n in ((4, 3), (5, 3), (5, 4), (7, 2))]
    assert run(f, calls, dynamic=True) == 1


def test_numbers_become_inputs():
    assert run(lambda x, k: torch.sin(x) * k + k ** 2, [(torch.ones(2), k) for k in (2, 3, 4, 100, -5)]) == 1
    assert run(lambda x, k: torch.sin(x) * k, [(torch.ones(2), k) for k in (0.5, 0.25, 3.0)]) == 1
    assert run(lambda x, k: torch.sin(x) * k, [(torch.ones(2), k) for k in (0, 1, 2, 3)]) == 2  # 0 and 1 are taken as they are


def test_a_number_that_is_needed_as_such_is_fixed():
    def f(x, k):
        return [x * i for i in range(k)], f"{k:03d}", {k: 1}
    assert run(f, [(torch.ones(2), k) for k in (2, 3, 4, 2)]) == 3


def test_mark_dynamic_and_its_violation():
    x = torch.ones(4)
    torch._dynamo.mark_dynamic(x, 0)
    fast, found = compiled(lambda x: torch.sin(x) * x.shape[0])
    fast(x)
    fast(torch.ones(5))
    assert len(found) <= 2
    y = torch.ones(4)
    torch._dynamo.mark_dynamic(y, 0)
    torch._dynamo.reset()
    fast, _ = compiled(lambda x: torch.sin(x) if x.shape[0] == 4 else x)
    with pytest.raises(RuntimeError, match="Constraints violated"):
        fast(y)


def test_a_wrong_shape_still_raises_the_plain_error():
    torch._dynamo.reset()
    fast, _ = compiled(lambda x, y: x + y, dynamic=True)
    fast(torch.ones(3), torch.ones(3))
    with pytest.raises(RuntimeError, match="size"):
        fast(torch.ones(3), torch.ones(4))


def test_strides_of_inputs_of_varying_sizes_are_noticed():
    made = [torch.ones(4, 6), torch.ones(6, 4).t(), torch.ones(8, 6)[::2], torch.ones(4, 12)[:, ::2], torch.ones(4, 1).expand(4, 6),
            torch.ones(1).expand(5, 6), torch.ones(5, 1).expand(5, 7), torch.ones(7, 5).t()]
    functions = [lambda x: (x.stride(), x + 1), lambda x: ((x * 2).stride(), x), lambda x: (x.t().is_contiguous(), x.reshape(-1).sum())]
    for function in functions:
        torch._dynamo.reset()
        fast = torch.compile(function, backend="eager", dynamic=True)
        for x in made:
            assert fast(x)[0] == function(x)[0]


def test_methods_of_types_see_the_plain_value_of_what_varies():
    def f(x, names, n):
        return torch.sin(x) * int.bit_length(n), sorted(names, key=str.lower), str.upper(names[0])

    compiled = torch.compile(f, backend="eager", fullgraph=True)
    for names, n in ((["b", "A"], 5), (["a", "C"], 9), (["q", "z"], 1)):
        assert [v.tolist() if isinstance(v, torch.Tensor) else v for v in compiled(torch.ones(2), names, n)] == [
            v.tolist() if isinstance(v, torch.Tensor) else v for v in f(torch.ones(2), names, n)]


@pytest.mark.parametrize("function", [
    lambda x: torch.sin(x) if x.shape[0] == 3 else x, lambda x: torch.sin(x).view(3, 2), lambda x: torch.sin(x) + torch.ones(3, 2),
    lambda x: sum(torch.sin(x[i]) for i in range(x.shape[0])), lambda x: sum(torch.sin(row) for row in x)])
def test_marked_sizes_that_the_code_fixes_are_refused(function):
    """By Python, or by an op that takes no other size; the backend has seen the graph by then, as PyTorch's has."""
    fast, graphs = compiled(function)
    x = torch.ones(3, 2)
    torch._dynamo.mark_dynamic(x, 0)
    with pytest.raises(RuntimeError, match=r"^Constraints violated \(L\['x'\].size\(\)\[0\]\)!(.|\n)*specialized it to be a constant \(3\)") as caught:
        fast(x)
    assert type(caught.value).__name__ == "ConstraintViolationError" and len(graphs) == 1
    y = torch.ones(3, 2)
    torch._dynamo.maybe_mark_dynamic(y, 0)
    assert torch.allclose(fast(y), function(y))


def test_marked_sizes_that_only_some_values_fit_are_taken():
    fast, graphs = compiled(lambda x: torch.sin(x).view(2, -1))
    for rows in (4, 6, 8):
        x = torch.ones(rows, 3)
        torch._dynamo.mark_dynamic(x, 0)
        assert fast(x).shape == (2, 3 * rows // 2)
    assert len(graphs) == 1


def test_marked_ranges():
    fast, graphs = compiled(lambda x: torch.sin(x) * x.shape[0])
    for rows in (3, 4, 10):
        x = torch.ones(rows)
        torch._dynamo.mark_dynamic(x, 0, min=2, max=10)
        assert torch.allclose(fast(x), torch.sin(x) * rows)
    assert len(graphs) == 1
    x = torch.ones(20)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=10)
    with pytest.raises(RuntimeError, match=r"^20 not in range \[2, 10\]"):
        fast(x)
    assert torch.allclose(fast(torch.ones(20)), torch.sin(torch.ones(20)) * 20)
    fast, _ = compiled(lambda x: torch.sin(x) if x.shape[0] < 5 else x)
    x = torch.ones(3)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=10)
    with pytest.raises(RuntimeError, match="satisfy the generated guard 2 <= .* and .* <= 4"):
        fast(x)


def test_sizes_are_open_from_the_start_where_none_is_taken_as_static():
    with torch._dynamo.config.patch(assume_static_by_default=False):
        assert run(lambda x: torch.sin(x) * x.shape[0], [(torch.ones(n),) for n in (3, 4, 5)]) == 1


def test_the_lesser_of_sizes_fixes_no_order():
    calls = [(torch.ones(n),) for n in (3, 4, 5, 6, 9)]
    assert run(lambda x: torch.sin(x)[:min(x.shape[0], 5)] * max(x.shape[0], 4), calls, dynamic=True) == 1
    assert run(lambda x: torch.sin(x) / math.sqrt(x.shape[0]), calls, dynamic=True) == 1


def test_errors_of_recompiling_have_pytorchs_names():
    fast, _ = compiled(lambda x: torch.sin(x), dynamic=False, fullgraph=True)
    with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit, match="recompile_limit reached with fullgraph=True"):
        for n in range(2, 12):
            fast(torch.ones(n))
    fast, _ = compiled(lambda x: torch.sin(x), dynamic=False)
    fast(torch.ones(2))
    with torch._dynamo.config.patch(error_on_recompile=True), pytest.raises(torch._dynamo.exc.RecompileError, match="^Recompiling function <lambda>"):
        fast(torch.ones(3))


def test_functions_of_numbers_that_vary_are_not_fixed():
    import bisect
    import math

    def f(x, state):
        at = state["at"]
        scale = math.cos(at / 7) + math.exp(-at) + max(0.0, 1 - at / 3) + math.floor(at / 2) + math.log(at + 1)
        if at in (3, 5):
            scale = scale + 100
        scale = scale + bisect.bisect_right([2, 6], at)
        state["at"] = at + 1
        state["scale"] = scale
        return x * 2

    compiled = torch.compile(f)
    one, two = {"at": 0}, {"at": 0}
    for _ in range(20):
        compiled(torch.ones(2), one)
        f(torch.ones(2), two)
        assert one == two
    assert len(compiled._rushlight_compiled.graphs) <= 8


@pytest.mark.parametrize("name", "sqrt exp expm1 log log2 log10 log1p tanh atan cos sin tan sinh cosh asinh floor ceil".split())
def test_functions_of_numbers_fix_none(name):
    function = getattr(math, name)
    assert run(lambda x, n: (x * function(n), function(n), type(function(n))), [(torch.ones(2), n / 4 + 0.1) for n in range(12)]) <= 2


def test_powers_of_numbers_fix_none():
    calls = [(torch.ones(2), n) for n in range(2, 12)]
    assert run(lambda x, n: (x * math.pow(n, -0.8), math.pow(0.7, n), math.pow(n, n / 7)), calls) <= 2

    def powers(x, base, exponent):
        try:
            return x * 2, math.pow(base, exponent)
        except (ValueError, OverflowError) as error:
            return x, repr(error)
    for odd in ((0, -1), (-1, 0.5), (-8, 3), (10.0, 400.0), (0.0, 0.0)):
        run(powers, [(torch.ones(1), *pair) for pair in ((2.0, 3.0), (3.0, 2.0), (4, 1.5), odd, (5.0, 2.0))])


def test_functions_of_numbers_where_they_end():
    def half(x, n):
        try:
            return x * 2, math.sqrt(n), math.log(n)
        except ValueError as error:
            return x, str(error)
    run(half, [(torch.ones(2), n) for n in (1.0, 2.0, 3.0, -1.0, -2.0, 0.0, 4.0)])

    def wave(x, n):
        return x, math.cos(n * n), math.floor(n)
    calls = [(torch.ones(2), n) for n in (1.5, 2.5, 1e200)]
    torch._dynamo.reset()
    fast = torch.compile(wave)
    for args in calls[:2]:
        assert str(fast(*args)) == str(wave(*args))
    with pytest.raises(ValueError, match="math domain error"):
        fast(*calls[2])


def test_membership_compares_with_each():
    assert run(lambda x, n: x + (1 if n in (3, 8) else 2), [(torch.ones(2), n) for n in range(12)]) <= 5
    assert run(lambda x, n: x + (1 if n in {3: 0, 8: 1} else 2), [(torch.ones(2), n) for n in range(12)]) <= 5
    assert run(lambda x, n: x + (1 if n not in {3, 8} else 2), [(torch.ones(2), n) for n in range(12)]) <= 5


def test_where_a_number_belongs():
    import bisect
    assert run(lambda x, n: x + bisect.bisect([3, 8], n) + bisect.bisect_left([3, 8], n), [(torch.ones(2), n) for n in range(14)]) <= 7


def test_numbers_that_a_program_computes_stay_numbers():
    """Ops outside of it take them as Python numbers, not as float64 tensors (and did warn of copying one)."""
    def after_item(x):
        y = x * 2
        return torch.tensor(y.sum().item() + 1.0), torch.tensor([y[0].item() / 3, 1.0])

    fast = torch.compile(after_item)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (1.0, 2.0, 3.0, 5.0):
            for got, want in zip(fast(torch.full((3,), n)), after_item(torch.full((3,), n))):
                assert got.dtype is want.dtype is torch.float32 and torch.equal(got, want)


def test_numbers_read_from_texts_of_numbers():
    calls = [(torch.ones(2), n) for n in (2, 3, 5, True, 1, 4)]
    for f in (lambda x, n: (x + 1, int(str(n)) + n if type(n) is int else n), lambda x, n: (x, {int(f"{n + 0}"): n}, float(f"{n + 0}"), bool(str(n)))):
        run(f, calls)
    assert not torch._dynamo.utils.counters["faults"]


def test_a_count_from_a_bool_is_one_of_ints():
    calls = [(torch.ones(2), n) for n in (2, True, 1, 3, 0)]
    run(lambda x, n: (x, list(itertools.islice(itertools.count(max(n, 1)), 2)), list(itertools.islice(itertools.count(n == 1, 2), 2))), calls)


def test_numpy_on_plain_numbers_is_no_break():
    def f(x, n):
        return x * np.prod(x.shape) / np.sqrt(n), np.prod(x.shape[1:]), type(np.prod(x.shape)), np.log2(n) + np.max([n, 3]), np.sum((n, 1))

    fast, found = compiled(f, dynamic=False)
    for n in (4, 4, 16):
        assert str(fast(torch.ones(2, 3), n)) == str(f(torch.ones(2, 3), n))
    assert len(found) == 2
    run(f, [(torch.ones(size, 3), n) for size, n in ((2, 4), (3, 4), (4, 9), (4, 16))])  # sizes that vary: right, though it breaks


def test_iter_of_a_tensor_by_name():
    fast, found = compiled(lambda x: [row + 1 for row in x.__iter__()], fullgraph=True)
    assert [row.tolist() for row in fast(torch.ones(2, 2))] == [[2, 2], [2, 2]] and len(found) == 1


@pytest.mark.parametrize("fixed", ["x", "y"])
def test_sizes_that_are_one_are_fixed_together(fixed):
    """What asks for a size later finds all of them fixed: the one that the others follow is no longer among those that vary."""
    def f(x, y):
        stacked = torch.stack([x, y])
        size = stacked.shape[1]
        known = {3: 1}.get((x if fixed == "x" else y).shape[0], 2)
        return stacked + size, (y * 2).reshape(-1).shape[0] + known, (x * 2).reshape(-1).shape[0] + known

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(f, dynamic=True)
    for size in (3, 4, 3, 5, 7):
        x, y = torch.ones(size), torch.full((size,), 2.0)
        assert str(compiled(x, y)) == str(f(x, y))
    assert not torch._dynamo.utils.counters["faults"]


def test_native_code_writes_into_a_list_with_numbers_that_vary():
    import heapq

    def smallest(x, number):
        heap = [5, number, [number]]
        heap.pop()
        heapq.heapify(heap)
        heapq.heappush(heap, 0)
        return x + 1, heap, str({"a": [number]})

    made = torch.compile(smallest, backend="eager")
    for number in (1, 2, 7, 0):
        assert made(torch.ones(1), number)[1:] == smallest(torch.ones(1), number)[1:]


@pytest.mark.parametrize("dynamic", [None, True])
def test_texts_of_numbers_to_another_base(dynamic):
    """A text with a number that varies is the number itself only to the base ten."""
    def f(x, n):
        return x + int("{:b}".format(n), 2), int(f"{n:x}", base=16), int(str(n), n + 3), int("1" + str(n), 12), int(str(n))

    compiled = torch.compile(f, backend="eager", dynamic=dynamic)
    for n in (5, 6, 9, 4):
        want, got = f(torch.ones(1), n), compiled(torch.ones(1), n)
        assert (want[0].item(), *want[1:]) == (got[0].item(), *got[1:])
