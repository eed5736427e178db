"""No silent cliff: what grows, counts up or names an entry of a table is not translated again for each value."""

import collections

import pytest

import rushlight as torch

from .counting import compiled

X = torch.tensor([0.5, 1.0])
TABLE = {"a": 1.5, "b": 2.5, "c": 3.5, "d": 4.5}
WEIGHTS = [torch.ones(2) * k for k in range(12)]
SCALES = [0.1 * k for k in range(12)]
MIXED = {"a": 1, "b": 2.0, "c": True, "d": 4}


class Box:
    def __init__(self):
        self.n, self.log = 0, []

    def __repr__(self):
        return repr((self.n, self.log))


def check(function, calls, make, entries):
    """`calls` give the arguments behind the state that `make` makes; at most so many translations."""
    torch._dynamo.reset()
    fast, graphs = compiled(function)
    one, other = make(), make()
    for args in calls:
        want, got = function(X, one, *args), fast(X, other, *args)
        assert repr(got) == repr(want)
    assert repr(one) == repr(other)
    assert len(fast._rushlight_compiled.start.entries) <= entries


def setitem(x, d, k):
    d[k] = torch.cos(x)
    return torch.sin(x)


def add(x, names, k):
    names.add(k)
    return torch.sin(x)


def augmented(x, d, k):
    d["total"] = k
    d["total"] += 1
    d["seen"] = d["total"] * 2
    return torch.sin(x)


def count(x, box):
    box.n += 1
    box.log.append((box.n, x.sum().item()))
    return torch.sin(x) * box.n


def look(x, log):
    log.append(1)
    if len(log) % 2:
        log.append(2)
    return x * len(log), log[-1]


@pytest.mark.parametrize("function, make, entries", [
    (lambda x, s: (s.append(x.sum()), torch.sin(x))[1], list, 1),
    (lambda x, s: (s.append(1), torch.sin(x) * len(s))[1], list, 3),
    (lambda x, s: (s.extend([x, 2]), s.append(3), torch.sin(x))[2], list, 1),
    (lambda x, s: (s.append(2), torch.sin(x))[1], lambda: collections.deque(maxlen=4), 1),
    (lambda x, s: (s.append(x.sum().item()), torch.sin(x) * s[-1])[1], list, 1),
    (lambda x, s: (s.append(7), s[-2], s[-1], torch.sin(x))[1:], lambda: [5], 2),
    (look, list, 4), (count, Box, 2),
])
def test_what_grows(function, make, entries):
    check(function, [()] * 20, make, entries)


@pytest.mark.parametrize("function, make", [(setitem, dict), (add, set), (augmented, dict)])
def test_keys_that_are_new(function, make):
    for keys in (range(20), [f"k{k}" for k in range(20)], [k / 2 for k in range(20)]):
        if function is not augmented or type(keys) is range:
            check(function, [(key,) for key in keys], make, 3)


@pytest.mark.parametrize("function, keys", [
    (lambda x, _, m: x * TABLE[m], "abcd"), (lambda x, _, m: x * TABLE.get(m, 0.5), "abcd"), (lambda x, _, i: x * SCALES[i], range(12)),
    (lambda x, _, m: x * {"a": 1, "b": 2, "c": 3, "d": 4}[m], "abcd"), (lambda x, _, i: x * WEIGHTS[i], range(12)),
    (lambda x, _, i: x * (0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 11.5)[i], range(12)),
    (lambda x, _, m: torch.sin(x) if m == "a" else torch.cos(x), "abcdefghijklmn"), (lambda x, _, m: (torch.sin(x), f"run {m}"), "abcdefghijklmn"),
])
def test_tables_and_flags(function, keys):
    check(function, [(key,) for key in [*keys, *keys]], list, 3)


@pytest.mark.parametrize("use", ["TABLE[m]", "TABLE.get(m)", "m in TABLE", "len(m)", "[*m]", "m.upper()", "getattr(BOX, m)", "hasattr(BOX, m)", "m[0]", "'a' in m",
                                 "m + 'x'", "'x' + m", "m * 2", "{m: 1}", "m < 'b'", "m == 'b'", "m != 'b'", "bool(m)", "isinstance(m, str)", "type(m) is str",
                                 "m is None", "MIXED[m]", "x.to(DTYPES[m])", "sorted([m, 'b'])", "max(m, 'b')", "f'{m!r:>4}'", "'%s' % m", "hash(m)", "[m].index(m)",
                                 "m.join(['x', 'y'])", "','.join([m, m])", "str(m)", "list(zip(m, m))", "dict(**{m: 1})", "x if m else -x", "'{}'.format(m)"])
def test_texts_that_vary(use):
    scope = {"torch": torch, "TABLE": TABLE, "MIXED": MIXED, "BOX": Box(), "DTYPES": dict.fromkeys("abcd", torch.float64)}
    vars(scope["BOX"]).update(a=1, b=2.0, c="3")
    scope["BOX"].d = None
    exec(f"def f(x, _, m): return torch.sin(x), {use}", scope)
    check(scope["f"], [(key,) for key in "abcdab"], list, 8)


def test_the_same_container_twice():
    def both(x, a, b):
        a.append(1)
        b.append(2)
        a.append(3)
        return x * len(b)

    def keys(x, a, b):
        a["k"] = 5
        return x * b["k"]

    def objects(x, a, b):
        a.n += 1
        return x * b.n

    def ways(x, a, b):
        a.append(1)
        for item in b:
            x = x * item
        a.append(2)
        return x, len(a)
    for function, make in ((both, list), (keys, lambda: {"k": 1}), (objects, Box), (ways, lambda: [4])):
        fast, _ = compiled(function)
        for _ in range(3):
            assert repr(fast(X, make(), make())) == repr(function(X, make(), make()))
            one, other = make(), make()
            assert repr((fast(X, one, one), one)) == repr((function(X, other, other), other))


def test_reached_in_two_ways():
    def f(x, box, log):
        log.append(1)
        box.log.append(2)
        n = len(log)
        total = sum(box.log)
        log.append(3)
        return x * n, total

    fast, _ = compiled(f)
    for shared in (True, False, True):
        results = []
        for run in (f, fast):
            box = Box()
            log = box.log if shared else [9]
            results.append(repr([run(X, box, log), run(X, box, log), box, log]))
        assert results[0] == results[1]


def test_an_iterator_of_a_list_that_grew_in_the_same_piece():
    def f(x, items):
        items.extend([1, 2, 3])
        total = []
        for item in items:
            total.append(item)
            torch._dynamo.graph_break()
        return torch.sin(x), total, items

    with torch._dynamo.config.patch(break_in_loops=True):
        fast, _ = compiled(f)
        for _ in range(2):
            assert repr(fast(X, [])) == repr(f(X, []))
            assert repr(fast(X, [0])) == repr(f(X, [0]))


def test_loops_that_are_cut():
    def counted(x, n):
        for i in range(n):
            x = torch.sin(x) * (i + 1)
            torch._dynamo.graph_break()
        return x

    def items(x, n):
        weights, out = [torch.ones(2) * k for k in range(n)], []
        for w in weights:
            x = torch.tanh(x * w)
            out.append(x if x.sum() > 0 else -x)
        return out

    def grows(x, n):
        work = [1]
        for item in work:
            x = x + item
            torch._dynamo.graph_break()
            if len(work) < n:
                work.append(item + 1)
        return x, work

    def shrinks(x, n):
        work = list(range(n))
        for item in work:
            torch._dynamo.graph_break()
            x = torch.sin(x) + item
            work.pop()
        return x, work

    def changed(x, n):
        work = list(range(n))
        for at, item in zip(range(n), work):
            x = torch.sin(x) + item
            torch._dynamo.graph_break()
            if at + 1 < n:
                work[at + 1] = 7
        return x, work

    def twice(x, n):
        steps = iter(range(n))
        for i in steps:
            x = x + i
            torch._dynamo.graph_break()
            x = x * next(steps, 5)
        return x

    with torch._dynamo.config.patch(break_in_loops=True):
        for function in (counted, items, grows, shrinks, changed, twice):
            torch._dynamo.reset()
            fast, graphs = compiled(function)
            for n in (3, 4, 0, 1, 2, 9, 3):
                assert repr(fast(X, n)) == repr(function(X, n)), (function.__name__, n)
            assert len(graphs) < 9
