"""NumPy's arrays in programs: written to, shared, of other kinds from call to call, and across breaks."""

import numpy as np
import pytest

import rushlight as torch
from tests.capture.comparing_arrays import same

HELD = {"array": np.arange(3.0)}


class Box:
    def __init__(self, a):
        self.a, self.n = a, 0

    def step(self, x):
        self.n += 1
        self.a = self.a + x
        return self.a


def line(turn):
    return (np.linspace(-1, 1, 5),)


def turns(*given):
    """Arguments that differ from call to call."""
    return lambda turn: given[turn % len(given)]()


def written(a):
    a[0] = 5
    a += 1
    a[1:3] *= 2
    a[a > 3] = 0
    return a


def written_view(a):
    b = a[1:]
    b[0] = 7.5
    c = a.copy()
    c[0] = 3
    a.T[1] = 2
    return a, b, c


def tensor_written_by_array(x):
    a = x.numpy()
    a += 1
    a[0] = 9
    return x * 2, a


def array_written_by_tensor(x):
    a = x.numpy()
    x.add_(1)
    return a, a.sum(), x


def shared_by_from_numpy(a):
    t = torch.from_numpy(a)
    t.mul_(3)
    a[0] = -1
    return t, a


def given_twice(a, b):
    a += 1
    return a + b, a is b


def overlapping(a, b):
    a += 1
    return a.copy(), b.copy()


def tensor_of_the_array(x, a):
    a += 1
    return x + 1, a


def broken(a):
    b = np.sin(a)
    c = np.sort(b)
    d = c * 2
    return d + b, d.sum() if float(d.sum()) > 0 else -d.sum()


def loops(a):
    out = np.zeros_like(a)
    for i in range(30):
        out = out + a * i
    for row in a:
        out += row
    return out


def sizes(a):
    n = a.shape[0]
    return a.reshape(n, 1) * np.ones((1, n)), a.sum() / n, np.zeros(n) + a, len(a), a.size


def item_set(a):
    a[0] = 1
    return a


def object_with_arrays(x):
    box = Box(x)
    box.step(x)
    box.step(x)
    return box.a, box.n


def held_array(x):
    HELD["array"][0] += x
    HELD["array"] = HELD["array"] * x
    return HELD["array"]


def containers(table, items):
    table["n"] = table["a"] + 1
    items.append(table["n"] * 2)
    items[0] += 1
    return table, items


def closures(a):
    def inner(b):
        return a * b
    return [inner(k) for k in (1, 2.5, a)]


def generators(a):
    def steps():
        for k in range(3):
            yield a * k
    return list(steps()), sum(steps())


def refusal(a):
    try:
        return a + np.ones(3)
    except ValueError as error:
        return str(error)


def numbers(a):
    s = a.sum()
    s += 1
    t = s
    t *= 2
    return s, t, s * a, -s, abs(s), s > 2, s.astype(np.float32), [s, t]


def not_a_number(a):
    return (np.max(a), np.min(a), np.argmax(a), np.maximum(a, 0), np.fmax(a, 0), np.clip(a, -1, 1), np.sum(a), np.minimum(a, np.nan), a == a,
            np.any(a))


def whole_numbers(i):
    return i + 2**31, i * i, i.sum(), np.prod(i), i - 200, abs(i), -i, i + np.int8(1)


def indexed(a, i):
    return a[i], a[i, 0], a[i[0]], a[..., i], a[i > 0]


def converted(a):
    return a.astype(np.int32), a.astype(np.int8), a.astype(np.float32)


def items_set(a, i):
    a[i] = [7, 8]
    a[-1:] = a[:1]
    a[::2] = np.float32(0.1)
    a[1] = True
    return a


def augmented(a, b):
    a -= b
    a /= 2
    a **= 2
    a //= 0.5
    a %= 3
    a @= a.T @ a
    return a


def added_to(a, b):
    a += b
    return a


def gradients(x):
    y = (x * 2).detach().numpy()
    return (x * torch.from_numpy(y)).sum().detach(), y


def read_only(turn):
    a = np.arange(4.0)
    a.flags.writeable = not turn % 2
    return (a,)


def one_or_two(turn):
    q = np.arange(6.0)
    return [(q, q), (q, q.copy()), (q[:3], q[1:4]), (q[:3], q[3:]), (q[1:4], q), (q[2:], q)][turn % 6]


PROGRAMS = [
    (written, line), (written_view, line), (tensor_written_by_array, lambda turn: (torch.ones(4),)), (array_written_by_tensor, lambda turn: (torch.ones(4),)),
    (shared_by_from_numpy, line), (given_twice, lambda turn: one_or_two(turn % 2)), (overlapping, lambda turn: one_or_two(2 + turn)),
    (tensor_of_the_array, lambda turn: (lambda q: (torch.from_numpy(q), q))(np.arange(4.0))), (broken, line), (loops, line),
    (sizes, lambda turn: (np.linspace(0, 1, 3 + turn),)), (item_set, read_only), (lambda a: a * 2, read_only), (object_with_arrays, line),
    (held_array, lambda turn: (HELD.update(array=np.arange(3.0)), 2.0)[1:]), (containers, lambda turn: ({"a": np.ones(2)}, [np.zeros(2)])), (closures, line),
    (generators, line), (refusal, line), (numbers, line), (not_a_number, lambda turn: (np.array([1, np.nan, -np.inf, np.inf, -0.0]),)),
    (whole_numbers, lambda turn: (np.array([100, -128, 127, 5]).astype(["i1", "i2", "i4", "i8"][turn]),)),
    (indexed, lambda turn: (np.arange(9.0).reshape(3, 3), np.array([0, 2, 1]))), (lambda a, i: a[i] * 2, lambda turn: (np.arange(3.0), np.array([0, 2 + turn]))),
    (converted, lambda turn: (np.array([1.9, -1.9, 100.2]),)), (items_set, lambda turn: (np.arange(6.0).astype(["f8", "f4", "i8", "f2"][turn]), np.array([1, 2]))),
    (augmented, lambda turn: (np.arange(9.0).reshape(3, 3), np.ones((3, 3)))), (added_to, lambda turn: (np.arange(3), 0.5)),
    (added_to, lambda turn: (np.arange(3, dtype="f4"), np.arange(3) * 0.1)), (added_to, lambda turn: (np.arange(3.0), np.ones((2, 3)) if turn % 2 else np.ones(1))),
    (lambda a: a * 2 + 1, lambda turn: (np.arange(4).astype(["f8", "f4", "i8", "u1"][turn]),)),
    (lambda a: (a * 2 + 1, a.sum(0), a[0]), turns(lambda: (np.arange(6.0).reshape(2, 3),), lambda: (np.arange(6.0).reshape(2, 3)[::-1],),
                                                  lambda: (np.asfortranarray(np.arange(6.0).reshape(2, 3)),), lambda: (np.arange(12.0).reshape(2, 6)[:, ::2],))),
    (lambda a: a * 2, turns(lambda: (np.array([1, 2], dtype=object),), lambda: (np.array([1, 2]),), lambda: (np.matrix([[1, 2]]),),
                            lambda: (np.ma.masked_array([1.0, 2.0], [0, 1]),))),
    (lambda a: a["x"] * 2, lambda turn: (np.array([(1, 2.0)], dtype=[("x", int), ("y", float)]),)), (lambda a: a == "b", lambda turn: (np.array(["a", "b"]),)),
    (lambda x, k: x * k, lambda turn: (np.ones(3, np.float32), [np.float64(2), np.float32(2), 2, 2.5][turn])), (lambda a: a.max(), lambda turn: (np.zeros(turn % 2),)),
    (lambda a: (a.sum(), a * 2), lambda turn: (np.zeros(turn),)), (gradients, lambda turn: (torch.ones(3, requires_grad=True),)),
]


def outcome(f, given):
    try:
        return f(*given), list(given)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=[f.__name__ for f, _ in PROGRAMS])
def test_programs(number, backend):
    f, given = PROGRAMS[number]
    made = torch.compile(f, backend=backend)
    for turn in range(4):
        want = outcome(f, given(turn))
        same(outcome(made, given(turn)), want)


def test_a_tensor_with_a_history_has_no_array():
    made = torch.compile(lambda x: x.numpy(), backend="eager")
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        made(torch.ones(2, requires_grad=True))


def test_sizes_vary_in_one_graph():
    graphs = []
    made = torch.compile(lambda a: np.sin(a) / len(a), backend=lambda graph, examples: graphs.append(graph) or graph, fullgraph=True)
    for size in (3, 4, 5, 7):
        a = np.linspace(0, 1, size)
        same(made(a), np.sin(a) / size)
    assert len(graphs) == 2


def test_wrap_numpy_is_part_of_the_graph():
    dot = torch.compiler.wrap_numpy(lambda a, b: np.sum(a * b))
    made = torch.compile(lambda x: dot(x, x) + 1, backend="eager", fullgraph=True)
    same(made(torch.ones(3)), torch.tensor(4.0))


def test_arrays_are_left_alone_where_the_settings_say_so():
    def f(a, x):
        b = np.zeros(2) + a
        return np.sin(b) + x.numpy(), torch.from_numpy(b) * 2

    with torch._dynamo.config.patch(trace_numpy=False):
        report = torch._dynamo.explain(f)(np.ones(2), torch.ones(2))
    assert {reason.kind for reason in report.break_reasons} >= {"NumPy call"}
    same(torch.compile(f, backend="eager", fullgraph=True)(np.ones(2), torch.ones(2)), f(np.ones(2), torch.ones(2)))
