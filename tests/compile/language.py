"""Language features through `compile`, one function each; test_language.py runs all of them compiled and as written.

Functions above `across` use a feature, those below it use it across graph breaks.
"""

# ruff: noqa: E501, E701, E702, E731, E741, F841, B023, B006
import bisect
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import heapq
import itertools
import math
import operator
import re
import string
import threading
import time
import types
import typing
import warnings
import weakref

import numpy as np

import rushlight as torch

DEPTH = [0]


def plain(value):
    """A value as something that compares by ==; what contains itself is cut."""
    DEPTH[0] += 1
    try:
        return "..." if DEPTH[0] > 14 else plain_parts(value)
    finally:
        DEPTH[0] -= 1


def plain_parts(v):
    if isinstance(v, torch.Tensor):
        return ("T", v.requires_grad, [round(x, 4) for x in v.detach().reshape(-1).float().tolist()], tuple(v.shape), str(v.dtype))
    if isinstance(v, (list, tuple, collections.deque)):
        return [type(v).__name__] + [plain(x) for x in v]
    if isinstance(v, dict):
        return {str(k): plain(x) for k, x in v.items()}
    if dataclasses.is_dataclass(v) and not isinstance(v, type):
        return (type(v).__name__, plain(vars(v)) if hasattr(v, "__dict__") else repr(v))
    if isinstance(v, float):
        return round(v, 5)
    if isinstance(v, (set, frozenset)):
        return sorted(map(str, v))
    return v if type(v).__module__ == "builtins" else (type(v).__name__, plain(getattr(v, "__dict__", {})))


CASES = []


def case(*argsets, **opt):
    def add(f):
        CASES.append((f, argsets, opt))
        return f

    return add


X = lambda: torch.tensor([0.5, 1.0])


@dataclasses.dataclass
class P:
    a: typing.Any
    b: int = 2
    c: list = dataclasses.field(default_factory=list)

    def norm(self):
        return self.a * self.b


@dataclasses.dataclass(frozen=True)
class Q:
    a: typing.Any
    b: int = 3


@case(lambda: (X(), P(1.0)), lambda: (X(), P(2.0, 5)))
def dc(x, p):
    q = P(torch.sin(x) * p.b, c=[1])
    r = dataclasses.replace(p, b=7)
    p.c.append(x)
    d = dataclasses.asdict(P(1, 2))
    return q, r.b, q.norm(), p.c, d, Q(x).b, Q(1) == Q(1), dataclasses.fields(p)[0].name


@case(lambda: (X(), 3))
def part(x, n):
    f = functools.partial(torch.clamp, min=0.6)
    g = functools.partial(lambda a, b, c=1: a * b + c, x, c=n)
    return (
        f(x),
        g(2),
        functools.reduce(lambda a, b: a + b, [x, x, x]),
        functools.reduce(operator.mul, [1, 2, n]),
        list(map(lambda t: t + 1, [x])),
        list(filter(None, [0, 1, n])),
    )


@case(
    lambda: (X(), {"kind": "lin", "w": 2}),
    lambda: (X(), {"kind": "other"}),
    lambda: (X(), [1, 2, 3]),
    lambda: (X(), 5),
    lambda: (X(), P(3)),
)
def mat(x, v):
    match v:
        case {"kind": "lin", "w": w}:
            return torch.sin(x) * w
        case {"kind": k, **rest}:
            return torch.cos(x), k, rest
        case [a, *b]:
            return x * a, b
        case P(a=z):
            return x + z
        case int(n) if n > 3:
            return x - n
        case _:
            return x


class Base:
    k = 2

    def __init__(self, v):
        self.v = v

    def go(self, x):
        return x * self.v

    @classmethod
    def make(cls, v):
        return cls(v)

    @staticmethod
    def st(x):
        return torch.sin(x)

    def __add__(self, o):
        return Base(self.v + (o.v if isinstance(o, Base) else o))

    def __radd__(self, o):
        return Base(o + self.v)

    def __eq__(self, o):
        return isinstance(o, Base) and self.v == o.v

    def __hash__(self):
        return hash(self.v)

    def __lt__(self, o):
        return self.v < o.v

    def __bool__(self):
        return self.v > 1

    def __len__(self):
        return 3

    def __getitem__(self, i):
        return self.v + i

    def __iter__(self):
        return iter([self.v, 1])

    def __contains__(self, i):
        return i == self.v

    def __call__(self, x):
        return x + self.v

    def __repr__(self):
        return f"Base({self.v})"

    def __neg__(self):
        return Base(-self.v)


class Mix:
    def go(self, x):
        return super().go(x) + 1


class Kid(Mix, Base):
    def __init__(self, v):
        super().__init__(v + 1)

    def go(self, x):
        return super().go(x) * 10


@case(lambda: (X(), Base(2)), lambda: (X(), Kid(1)), lambda: (X(), Base(0)))
def cls(x, b):
    c = b + b
    d = 1 + b
    e = Kid(3)
    return (
        b.go(x),
        e.go(x),
        Base.make(4).go(x),
        b.st(x),
        c.v,
        d.v,
        b == Base(2),
        b < c,
        bool(b),
        len(b),
        b[1],
        list(b),
        2 in b,
        b(x),
        f"{b}",
        (-b).v,
        max([b, c]).v,
        sorted([c, b])[0].v,
        isinstance(e, Base),
        type(e).__mro__[1].__name__,
        {b: 1} == {Base(2): 1} if False else 0,
    )


@case(lambda: (X(), [1, 2, 3]), lambda: (X(), [3]))
def lists(x, l):
    l.insert(0, x)
    l.extend([7, 8])
    a = l.pop()
    del l[-1]
    l[1:1] = [9]
    l.sort(key=lambda v: 0 if isinstance(v, torch.Tensor) else v)
    m = l * 2
    b = l.index(9)
    l.remove(9)
    l2 = l.copy()
    l.clear()
    l += [1]
    return (
        torch.sin(x),
        a,
        m,
        b,
        l2,
        l,
        [*l2],
        l2[::-1],
        l2[1:],
        sum([1, 2]),
        min([3, 1]),
        [1, 2] < [1, 3],
        list(reversed([1, 2])),
        any([]),
        all([]),
        l2.count(9),
    )


@case(lambda: (X(), torch.float64), lambda: (X(), torch.int64), lambda: (X(), None))
def dts(x, d):
    y = x.to(d) if d is not None else x
    return (
        y + 1,
        y.dtype == torch.float32,
        torch.zeros(2, dtype=d),
        torch.zeros_like(x),
        torch.full((2,), 3.0),
        torch.arange(3),
        x.new_zeros(2),
        torch.tensor([1, 2]),
        torch.tensor(2.5),
        torch.ones(2, 3).shape,
        torch.eye(2),
        x.type(torch.float64),
        x.double().float(),
        torch.linspace(0, 1, 3),
        torch.finfo(torch.float32).eps,
    )


@case(lambda: (X(), 2), lambda: (X(), 3))
def npc(x, n):
    a = np.arange(n) * 2
    b = float(np.sqrt(n))
    return torch.sin(x) * b, int(a.sum()), torch.from_numpy(a.astype(np.float32)), np.float32(2.0) * 1, x * np.float64(2)


@case(lambda: (X(), 2))
def item(x, n):
    v = x.sum().item()
    w = int(x[0] * 10)
    z = float(x.max())
    l = x.tolist()
    return torch.sin(x) * v, w, z, l, x.argmax().item(), len(x), [t * 2 for t in x]


@case(lambda: (X(), 1), lambda: (X(), 0))
def tryf(x, n):
    log = []

    def inner():
        try:
            log.append("a")
            if n:
                return torch.sin(x)
            raise ValueError("q")
        except ValueError as e:
            log.append(repr(e))
            return torch.cos(x)
        finally:
            log.append("z")

    r = inner()
    try:
        try:
            1 / n
        except ZeroDivisionError:
            log.append("zd")
            raise RuntimeError("x") from None
        else:
            log.append("else")
    except RuntimeError as e:
        log.append((str(e), e.__cause__, e.__suppress_context__))
    for i in range(3):
        try:
            if i == 1:
                continue
            if i == 2:
                break
        finally:
            log.append(i)
    return r, log


@case(lambda: (X(),), lambda: (X(),))
def rnd(x):
    return (
        torch.rand(2) + x,
        torch.randn(2),
        torch.randint(0, 10, (3,)),
        torch.randperm(4),
        torch.nn.functional.dropout(x, 0.5),
        torch.bernoulli(torch.full((3,), 0.5)),
    )


G = {"c": 0}
COUNT = 0


@case(lambda: (X(),), lambda: (X(),), lambda: (X(),))
def glob(x):
    global COUNT
    COUNT += 1
    G["c"] += 1
    G.setdefault("l", []).append(COUNT)
    return x * COUNT, G["c"], len(G["l"])


@case(lambda: (X(), 2), lambda: (X(), 4))
def gens(x, n):
    def g(k):
        for i in range(k):
            yield x * i

    def h():
        a = yield 1
        b = yield a
        return a, b

    t = h()
    next(t)
    t.send(5)
    try:
        t.send(6)
    except StopIteration as e:
        r = e.value
    z = (v for v in g(n))
    first = next(z)
    rest = list(z)
    return (
        list(g(n)),
        r,
        first,
        rest,
        dict(enumerate(g(2))),
        list(zip(g(2), itertools.count())),
        sum(g(n)),
        [*g(1)],
        max(len(v) for v in g(2)),
        tuple(g(1)),
        set(i for i in range(n)),
    )


@case(lambda: (X(), "ab c"), lambda: (X(), "Q"))
def strs(x, s):
    return (
        torch.sin(x),
        s.upper(),
        s.split(),
        s[::-1],
        f"{s!r:>8}|{len(s):03d}|{3.14159:.2f}",
        "%s-%d" % (s, 2),
        "-".join([s, s]),
        s.encode(),
        s.find("b"),
        s * 2,
        s in "xab cx",
        s.startswith("a"),
        sorted(s),
        "{:>5}".format(s),
        s.replace("a", "z"),
        re.sub("[a-b]", "_", s),
        s.isalpha(),
        ord(s[0]),
        s.partition(" "),
        s.zfill(6),
        s.title(),
        string.ascii_letters[:3],
    )


@case(lambda: (X(),))
def colls(x):
    d = collections.defaultdict(list)
    d["a"].append(x)
    c = collections.Counter("hello")
    q = collections.deque([1, 2, 3], maxlen=3)
    q.append(4)
    q.appendleft(0)
    o = collections.OrderedDict(a=1)
    o["b"] = 2
    o.move_to_end("a")
    N = collections.namedtuple("N", "p q")
    n = N(1, x)
    ch = collections.ChainMap({"a": 1}, {"b": 2}) if False else 0
    h = [3, 1, 2]
    heapq.heapify(h)
    heapq.heappush(h, 0)
    return (
        dict(d),
        c.most_common(1),
        list(q),
        list(o),
        n.p,
        n._asdict()["p"],
        heapq.heappop(h),
        bisect.bisect([1, 2, 3], 2),
        torch.sin(x),
        frozenset([1, 2]),
        {1, 2} | {3},
        {1, 2} & {2},
        {**{"a": 1}, "b": 2},
        copy.copy([1]),
        copy.deepcopy({"a": [1]}),
    )


class E(enum.Enum):
    A = 1
    B = 2

    def f(self, x):
        return x * self.value


class Fl(enum.IntFlag):
    R = 1
    W = 2


@case(lambda: (X(), E.A), lambda: (X(), E.B))
def enums(x, e):
    return e.f(x), e is E.A, e.name, E(2).name, E["A"].value, [m.name for m in E], {E.A: 1}.get(e), Fl.R | Fl.W, isinstance(e, E)


@case(lambda: (torch.ones(2, requires_grad=True),), lambda: (torch.ones(2, requires_grad=True),))
def grads(w):
    y = (w * w).sum()
    (g,) = torch.autograd.grad(y, w, create_graph=True)
    z = w.detach() + 1
    with torch.no_grad():
        k = w * 2
    with torch.enable_grad():
        m = w * 3
    return y, g, z, k, m, w.requires_grad, y.requires_grad, torch.is_grad_enabled()


@case(lambda: (torch.ones(2, requires_grad=True),))
def bw(w):
    l = (torch.sin(w) * w).sum()
    l.backward()
    g = w.grad.clone()
    w.grad = None
    l2 = (w**3).sum()
    l2.backward()
    return l, g, w.grad


@case(lambda: (torch.arange(6.0).reshape(2, 3),), lambda: (torch.arange(12.0).reshape(3, 4),), lambda: (torch.arange(20.0).reshape(4, 5),))
def shp(x):
    b, n = x.shape
    y = x.view(-1, b).t().reshape(n, b) if False else x.t()
    z = x[:, : n // 2]
    s = x.size(0) * 2
    return (
        y.contiguous(),
        z,
        s,
        x.shape,
        list(x.shape),
        x.numel() // n,
        torch.zeros(b, n).sum(),
        x.flatten(),
        x.unsqueeze(0).expand(2, b, n),
        x[..., -1],
        x[0],
        x[:, None],
        x.sum(0),
        x.mean(),
        x.max(1)[0],
        x.split(1)[0],
        torch.cat([x, x]),
        torch.stack([x, x]),
        x.chunk(2)[0],
        len(x),
        [r.sum() for r in x],
        x.permute(1, 0),
        x.repeat(1, 2),
        torch.where(x > 1, x, 0.0),
        x.masked_fill(x > 2, 0.0),
        x.argsort(1),
        x.topk(1)[0],
    )


@case(lambda: (X(),), lambda: (X(),))
def inpl(x):
    y = x.clone()
    y.add_(1)
    y[0] = 5
    y[1:] += 2
    z = y.view(2, 1)
    z.mul_(2)
    x.mul_(3)
    w = x.t() if x.dim() > 1 else x[:1]
    w.fill_(7)
    return y, z, x, w


@case(lambda: (X(), [1, (2, {"a": X()})]), lambda: (X(), [1, (2, {"a": X()})]))
def nest(x, s):
    def walk(v):
        if isinstance(v, torch.Tensor):
            return torch.sin(v)
        if isinstance(v, dict):
            return {k: walk(u) for k, u in v.items()}
        if isinstance(v, (list, tuple)):
            return type(v)(walk(u) for u in v)
        return v

    return walk(s), walk({"q": [x, (x,)]})


@case(lambda: (X(), 1), lambda: (X(), 2))
def warn(x, n):
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        warnings.warn(f"w{n}")
    return torch.sin(x), [str(i.message) for i in w]


@case(lambda: (X(),), lambda: (X(),))
def clsin(x):
    class L:
        n = 0

        def __init__(self, a):
            self.a = a
            L.n += 1

        def f(self):
            return self.a * 2

    o = L(torch.sin(x))
    o2 = L(1)
    return o.f(), L.n, type(o).__name__


@case(lambda: (X(),), lambda: (X(),))
def ctx(x):
    @contextlib.contextmanager
    def c(n):
        yield x * n

    with c(2) as a, contextlib.suppress(KeyError):
        b = torch.sin(a)
        {}["z"]
    with contextlib.ExitStack() as st:
        d = st.enter_context(c(3))
    return a, b, d


@case(lambda: (X(),), lambda: (X(),))
def tm(x):
    t = time.time()
    y = torch.sin(x)
    return y, time.time() >= t, time.perf_counter() > 0


@case(lambda: (X(), 5), lambda: (X(), 6), lambda: (X(), 7))
def nums(x, n):
    return (
        x * n,
        n // 2,
        n % 3,
        n**2,
        -n,
        n / 2,
        divmod(n, 3),
        abs(-n),
        round(n / 3, 2),
        pow(n, 2),
        bin(n),
        hex(n),
        int("7"),
        float("1.5"),
        complex(1, n),
        n & 3,
        n | 8,
        n ^ 1,
        n << 1,
        n >> 1,
        ~n,
        max(n, 6),
        min(n, 6),
        sum(range(n)),
        math.sqrt(n),
        math.floor(n / 2),
        math.pi,
        n == 5,
        n != 5,
        bool(n),
        isinstance(n, int),
        str(n),
        1 < n < 6,
        n.bit_length(),
        float(n),
        [0] * n,
    )


@case(lambda: (X(),), lambda: (X(),))
def rec(x):
    def fact(n):
        return 1 if n < 2 else n * fact(n - 1)

    def tree(d):
        return x if d == 0 else tree(d - 1) + tree(d - 1)

    return torch.sin(x) * fact(5), tree(3)


@case(lambda: (X(),), lambda: (X(),))
def attrs(x):
    ns = types.SimpleNamespace(a=1, b=x)
    ns.c = 2
    setattr(ns, "d", 3)
    return torch.sin(x) * ns.c, getattr(ns, "z", 9), hasattr(ns, "a"), vars(ns)["d"], ns.b


@case(lambda: (X(),), lambda: (X(),))
def modin(x):
    l = torch.nn.Linear(2, 2)
    torch.nn.init.ones_(l.weight)
    torch.nn.init.zeros_(l.bias)
    return torch.tanh(l(x[None])), sum(p.numel() for p in l.parameters())


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(2)])
        self.bn = torch.nn.BatchNorm1d(2)
        self.register_buffer("n", torch.zeros(1))
        self.d = torch.nn.ModuleDict({"a": torch.nn.ReLU()})
        self.calls = 0
        self.emb = torch.nn.Embedding(5, 2)
        self.gru = torch.nn.GRU(2, 2, batch_first=True)
        for p in self.parameters():
            torch.nn.init.constant_(p, 0.3)

    def forward(self, x):
        self.calls += 1
        self.n += 1
        for i, l in enumerate(self.l):
            x = self.d["a"](l(x)) + i
        return (
            self.bn(x),
            self.n.clone(),
            self.emb(torch.tensor([1, 2])),
            self.gru(x[:, None])[0],
            self.calls,
            len(list(self.parameters())),
            [n for n, _ in self.named_children()],
        )


NETS = {}


@case(*[lambda: (torch.arange(6.0).reshape(3, 2),)] * 4)
def net(x):
    return NETS["n"](x)


@case(lambda: (X(),), lambda: (X(),))
def hooks(x):
    w = x.clone().requires_grad_()
    y = w * 2
    seen = []
    h = y.register_hook(lambda g: seen.append(1) or g * 2)
    y.sum().backward()
    h.remove()
    return w.grad, seen


@case(lambda: (X(),), lambda: (X(),))
def dele(x):
    a = 1
    b = [x]
    del a
    try:
        a
    except UnboundLocalError as e:
        r = type(e).__name__
    d = {"k": x}
    del d["k"]
    return torch.sin(x), r, d, locals().keys() >= {"x", "b"}


@case(lambda: (X(), 1), lambda: (X(), 2))
def star(x, n, *a, k=3, **kw):
    def f(*a, **k):
        return a, k

    return f(x, *[1, 2], **{"z": n}), [*range(n)], {**kw}, k, (lambda *q: len(q))(1, 2)


@case(lambda: (X(),), lambda: (X(),))
def async_like(x):
    lock = threading.Lock()
    with lock:
        y = torch.sin(x)
    return y


@case(lambda: (X(),), lambda: (X(),))
def wr(x):
    b = Base(1)
    r = weakref.ref(b)
    return torch.sin(x), r() is b, id(b) == id(b)


brk = torch._dynamo.graph_break


@case(lambda: (X(), 3), lambda: (X(), 3), lambda: (X(), 5))
def gen_across(x, n):
    log = []

    def g():
        try:
            for i in range(n):
                r = yield x * i
                log.append(r)
        finally:
            log.append("fin")

    it = g()
    a = next(it)
    brk()
    b = it.send(7)
    brk()
    rest = list(it)
    return a, b, rest, log


@case(lambda: (X(),), lambda: (X(),))
def cell_across(x):
    n = 0
    items = []

    def inc(k):
        nonlocal n
        n += k
        items.append(n)
        return x * n

    a = inc(1)
    brk()
    b = inc(2)
    brk()
    c = inc(3)
    return a, b, c, n, items, [f(1) for f in [inc]]


@case(lambda: (X(), [1]), lambda: (X(), [1]))
def alias_across(x, l):
    a = l
    b = [l, l]
    brk()
    a.append(2)
    b[0].append(x)
    brk()
    return l is b[1], b, len(a)


@case(lambda: (X(),), lambda: (X(),))
def view_across(x):
    y = x.clone()
    v = y[:1]
    brk()
    v.fill_(9)
    brk()
    y.mul_(2)
    return y, v, y is v


@case(lambda: (X(), True), lambda: (X(), False), lambda: (X(), True))
def exc_across(x, f):
    log = []
    try:
        try:
            brk()
            log.append(1)
            if f:
                raise ValueError("a")
            brk()
        except ValueError as e:
            brk()
            log.append(str(e))
            raise KeyError("b") from e
        else:
            log.append("else")
            brk()
        finally:
            log.append("fin")
            brk()
    except KeyError as k:
        log.append((type(k.__cause__).__name__, type(k.__context__).__name__))
        brk()
        log.append(repr(k))
    return torch.sin(x), log


@case(lambda: (X(),), lambda: (X(),))
def with_across(x):
    log = []

    class C:
        def __enter__(s):
            log.append("in")
            brk()
            return s

        def __exit__(s, *a):
            log.append(a[0].__name__ if a[0] else None)
            brk()
            return True

    with C() as c:
        y = torch.sin(x)
        brk()
        raise RuntimeError("q")
    with C():
        brk()
    return y, log


@case(lambda: (X(), 4), lambda: (X(), 6))
def loop_else(x, n):
    for i in range(n):
        x = torch.sin(x) + i
        brk()
        if i == 4:
            break
        for j in (1, 2):
            if j == 2:
                continue
            x = x * j
    else:
        x = x - 100
    k = 0
    while k < n:
        k += 2
        x = x + k
        brk()
    return x, i, k


@case(lambda: (X(),), lambda: (X(),))
def nested_break(x):
    def a(y):
        z = b(torch.sin(y)) + 1
        return z * 2

    def b(y):
        w = torch.cos(y)
        brk()
        return c(w) - 1

    def c(y):
        brk()
        return torch.tanh(y)

    return a(x), [a(t) for t in (x, x + 1)]


@case(lambda: (X(), {"a": 1}), lambda: (X(), {"a": 1}), lambda: (X(), {"a": 1, "b": 2}))
def dictit(x, d):
    out = []
    for k, v in d.items():
        out.append((k, v * x))
        brk()
    it = iter(d)
    first = next(it)
    brk()
    out.append((first, next(it, None)))
    e = enumerate([x, x])
    next(e)
    brk()
    out.append(list(e))
    z = zip([1, 2], [3, 4])
    next(z)
    brk()
    out.append(list(z))
    m = map(lambda q: q + 1, [1, 2])
    next(m)
    brk()
    out.append(list(m))
    r = reversed([1, 2, 3])
    next(r)
    brk()
    out.append(list(r))
    return out


@case(lambda: (X(), Base(3)), lambda: (X(), Base(4)))
def obj_across(x, b):
    o = Kid(2)
    o.extra = [b]
    brk()
    o.extra.append(x)
    b.new = o
    b.v += 1
    brk()
    m = o.go
    brk()
    return m(x), b.v, o.extra[0] is b, b.new is o


@case(lambda: (torch.ones(2, requires_grad=True),), lambda: (torch.ones(2, requires_grad=True),))
def grad_across(w):
    y = w * 2
    brk()
    z = (y * y).sum()
    z.backward()
    g = w.grad
    brk()
    w.grad = None
    u = (y.detach() * w).sum()
    return g, u, w.grad, y.requires_grad


@case(lambda: (X(), 1), lambda: (X(), 2), lambda: (X(), 3), lambda: (X(), 2.5))
def late(x, n):
    fs = [lambda t, k=k: t * k + n for k in range(2)]
    brk()
    r = [f(x) for f in fs]
    p = functools.partial(fs[0], k=5)
    brk()
    return r, p(x), sorted([3, 1], key=lambda q: -q * n)


@case(lambda: (X(),), lambda: (X(),))
def sets(x):
    s = {1, 2}
    brk()
    s.add(3)
    t = frozenset(s)
    d = collections.deque([1, 2, 3], maxlen=3)
    brk()
    d.append(x)
    c = collections.Counter("aab")
    c["z"] += 2
    dd = collections.defaultdict(list)
    dd["k"].append(1)
    brk()
    dd["q"].append(2)
    o = collections.OrderedDict(a=1)
    brk()
    o["b"] = x
    return s, t, d, dict(c), dict(dd), list(o), type(o).__name__


@case(lambda: (X(),), lambda: (X(),))
def excobj(x):
    class MyE(Exception):
        def __init__(s, a):
            super().__init__(a)
            s.a = a

    e = MyE(x)
    brk()
    try:
        raise e
    except MyE as q:
        brk()
        r = q.a
        same = q is e
    return r, same, e.args[0] is r


@case(lambda: (X(), [X(), X()]), lambda: (X(), [X(), X()]))
def tens_keys(x, l):
    d = {l[0]: 1, l[1]: 2}
    brk()
    d[x] = 3
    return d[l[1]], d[x], len(d), l[0] in d


@case(lambda: (X(), 3), lambda: (X(), 7), lambda: (X(), 8))
def dyn_state(x, n):
    y = x * n
    m = n * 2
    l = [n, m]
    brk()
    z = y + m
    l.append(n + m)
    d = {"n": n}
    brk()
    return z, l, d, f"{n}", n // 2, [0] * n


@case(lambda: (torch.arange(4.0),), lambda: (torch.arange(6.0),), lambda: (torch.arange(7.0),))
def dyn_shape(x):
    n = x.shape[0]
    y = x.view(1, n)
    brk()
    z = y.expand(3, n).sum()
    h = x[: n // 2]
    brk()
    return z, h, h.shape[0], torch.zeros(n) + x, x.shape


@case(lambda: (X(),), lambda: (X(),))
def comp(x):
    a = [y.sum().item() > 0 for y in (x, -x)]
    b = {k: float(v) for k, v in zip("ab", x)}
    c = sum(t for t in x)
    e = any(t > 0 for t in x)
    return a, b, c, e, [[i * j for j in range(2)] for i in range(2)], {t.item() for t in x}


@case(lambda: (X(), "s"), lambda: (X(), "t"))
def native_cb(x, s):
    import json as J

    r = J.dumps({"a": [1, 2], "s": s})
    q = re.sub("[a-z]", lambda m: m.group().upper(), s)
    h = heapq.nlargest(2, [3, 1, 2], key=lambda v: -v)
    t = list(itertools.starmap(lambda a, b: a + b, [(1, 2)]))
    g = operator.attrgetter("shape")(x)
    return torch.sin(x), r, q, h, t, g, bytes(s, "ascii"), max(s, key=ord)


@case(lambda: (X(),), lambda: (X(),))
def varscope(x):
    a = 1
    d = dict(locals())
    v = vars(types.SimpleNamespace(z=1))
    g = globals().get("brk") is brk
    e = eval("a+1", {"a": 4})
    return sorted(d), v, g, e, torch.sin(x)


class Meta(type):
    def __call__(cls, *a):
        o = super().__call__(*a)
        o.m = 1
        return o

    @property
    def prop(cls):
        return 7


class WithMeta(metaclass=Meta):
    __slots__ = ("v", "m")

    def __init__(self, v):
        self.v = v

    def __getattr__(self, n):
        return n


class Desc:
    def __set_name__(s, o, n):
        s.n = "_" + n

    def __get__(s, o, t=None):
        return s if o is None else getattr(o, s.n, 0)

    def __set__(s, o, v):
        setattr(o, s.n, v * 2)


class HasD:
    d = Desc()
    cp = functools.cached_property(lambda s: [s.d])

    def __setattr__(s, n, v):
        object.__setattr__(s, n, v)

    def __delattr__(s, n):
        object.__delattr__(s, n)


@case(lambda: (X(), HasD()), lambda: (X(), HasD()))
def meta(x, h):
    w = WithMeta(torch.sin(x))
    h.d = 3
    h.z = 1
    del h.z
    c = h.cp
    return w.v, w.m, WithMeta.prop, w.zzz, h.d, c, h.cp is c, hasattr(h, "z"), isinstance(w, WithMeta)
