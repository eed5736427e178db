"""Writes random Python programs for `compile`: equal seeds give equal programs.

`program(seed)` is the source of a module with `f(x, y, n, flag, items, table, box)`.  The text runs with `torch` as a global.
Every construct that a user's function may hold has a line in one of the `Writer`'s tables; random_programs.py runs the programs.
"""

import random

HEADER = '''
import collections, contextlib, dataclasses, enum, functools, itertools, math, operator

nn = torch.nn
G = 3
LOG = []
CACHE = {}
gb = torch._dynamo.graph_break


def brk(value):
    torch._dynamo.graph_break()
    return value


@torch.compiler.disable
def native(value, *more):
    LOG.append(len(more))
    return value


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


@dataclasses.dataclass
class Point:
    a: object
    b: int = 2

    def move(self, by):
        self.b += by
        return Point(self.a * by, self.b)


Pair = collections.namedtuple("Pair", "left right")


class Box:
    step = 1

    def __init__(self, value):
        self.value = value
        self.log = []

    def scale(self, t, by=1):
        self.log.append(self.value)
        return t * (self.value * by)

    @property
    def twice(self):
        return self.value * 2

    @twice.setter
    def twice(self, value):
        self.value = value // 2

    @classmethod
    def make(cls, value):
        return cls(value + cls.step)

    @staticmethod
    def shift(t, k):
        return t + k

    def __len__(self):
        return len(self.log)

    def __call__(self, t):
        return t + self.step

    def __getitem__(self, key):
        if key > 3:
            raise IndexError(key)
        return self.value + key

    def __eq__(self, other):
        return isinstance(other, Box) and self.value == other.value

    def __hash__(self):
        return hash(self.value)

    def __bool__(self):
        return self.value != 3

    def __add__(self, other):
        return self.value + other

    def __contains__(self, item):
        return item in self.log

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, trace):
        self.log.append("exit" if kind is None else kind.__name__)
        return kind is ZeroDivisionError


class Special(Box):
    step = 2

    def scale(self, t, by=1):
        return super().scale(t, by) + 1

    def __getattr__(self, name):
        if name.startswith("any_"):
            return len(name)
        raise AttributeError(name)


class Scope:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, kind, value, trace):
        self.log.append("out" if kind is None else kind.__name__)
        return kind is KeyError


@contextlib.contextmanager
def managed(log, value):
    log.append(value)
    try:
        yield value + 1
    except IndexError as error:
        log.append(type(error).__name__)
    finally:
        log.append("left")


def helper(t, k=2, *rest, z=0, **named):
    if k > 3:
        return torch.cos(t) - k
    return t * k + len(rest) + len(named) + z


def produce(t, k):
    for i in range(k):
        got = yield t + i
        if got:
            t = t * got
    return k


def guarded(t, log):
    try:
        yield t
        yield t * 2
    except ValueError as error:
        log.append(str(error))
        yield t - 1
    finally:
        log.append("done")


def deep(t, k):
    return t if k <= 0 else deep(torch.sin(t) + k, k - 1)


def note(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        LOG.append(function.__name__)
        return function(*args, **kwargs)
    return inner


@note
def noted(t, k=1):
    return t + k


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3).double()
        self.drop = nn.Dropout(0.5)
        self.parts = nn.ModuleList([nn.Linear(3, 3).double(), nn.Tanh()])
        self.register_buffer("count", torch.zeros(1, dtype=torch.float64))
        self.calls = 0

    def forward(self, t):
        self.calls += 1
        if self.training:
            self.count += 1
        t = self.drop(self.lin(t))
        for part in self.parts:
            t = part(t)
        return t + self.count


torch.manual_seed(5)
net = Net()
'''

UNARY = ["torch.sin", "torch.cos", "torch.tanh", "torch.relu", "torch.neg", "torch.abs", "torch.sigmoid"]
ERRORS = ["KeyError", "IndexError", "ValueError", "ZeroDivisionError", "RuntimeError", "TypeError", "AttributeError"]


class Writer:
    """Writes one random program."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.tensors, self.numbers = ["x", "y"], ["n"]
        self.count = self.inside = 0
        self.loops = 0

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def one(self, *options):
        """One of the options; those that are functions are called."""
        found = self.random.choice(options)
        return found() if callable(found) else found

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    # -- expressions -------------------------------------------------------------------------------------------------

    def t(self) -> str:
        return self.random.choice(self.tensors)

    def tensor(self) -> str:
        """An expression for a float tensor of the size of x."""
        self.inside += 1
        try:
            if self.inside > 4:
                return self.t()
            return self.tensor_of(self.t(), self.number())
        finally:
            self.inside -= 1

    def tensor_of(self, t: str, k: str) -> str:
        r, tensor, test = self.random, self.tensor, self.test
        return self.one(
            lambda: f"{r.choice(UNARY)}({tensor()})", lambda: f"{r.choice(UNARY)}({t})", lambda: f"({t} + {self.t()})", lambda: f"({t} * {k})",
            lambda: f"({t} - {tensor()} * 0.5)", lambda: f"helper({t}, {k})", lambda: f"helper({t}, {k}, 1, q=2)",
            lambda: f"torch.clamp({tensor()}, -2, 2)", lambda: f"box.scale({t})", lambda: f"box.scale({t}, by={k})", lambda: f"box({t})",
            lambda: f"({t} if {test()} else -{t})", lambda: f"torch.where({t} > 0, {t}, {t} * 0.1)", lambda: f"sum([{t}, {t} * 2])",
            lambda: f"deep({t}, {r.randint(0, 3)})", lambda: f"{t}.reshape(-1)[:].reshape({t}.shape)", lambda: f"items[{r.randint(0, 2)}] * 1.0",
            lambda: f"(lambda a, b={k}: a + b)({t})", lambda: f"{t}.clone()", lambda: f"table.get('{r.choice('abq')}', {t})",
            lambda: f"({t} + {t}.sum())", lambda: f"({t} * {t}.shape[0])", lambda: f"torch.stack([{t}, {tensor()}]).mean(0)",
            lambda: f"max([{t}, {t}], key=lambda v: v.shape[0])", lambda: f"noted({t})", lambda: f"functools.reduce(operator.add, [{t}, {tensor()}])",
            lambda: f"Box.shift({t}, {k})", lambda: f"Box.make({k}).scale({t})", lambda: f"Special({k}).scale({t})", lambda: f"brk({t})",
            lambda: f"native({t})", lambda: f"Point({t}, {k}).move(2).a", lambda: f"Pair({t}, {k}).left", lambda: f"functools.partial(helper, {t})(k={k})",
            lambda: f"({t} / (1 + {t}.abs()))", lambda: f"{t}.detach()", lambda: f"[{t}, {tensor()}][{k} % 2]", lambda: f"{{0: {t}, 1: -{t}}}[{k} % 2]",
            lambda: f"torch.full_like({t}, {k})", lambda: f"torch.tanh({t}).mul(G)", lambda: f"({t} * {self.float()})",
            lambda: f"helper(*[{t}, {k}], **{{'z': {k}}})", lambda: f"next(iter([{t}]))", lambda: f"{t}.flip(0)", lambda: f"torch.cat([{t}, {t}])[:{t}.shape[0]]",
            lambda: f"torch.dropout({t}, 0.5, True)", lambda: f"torch.rand_like({t})", lambda: f"{t}.double()", lambda: f"(w := {t} + 1)",
            lambda: f"torch.as_tensor({k}) * {t}", lambda: f"{t}[{t} > 9].sum() + {t}", lambda: f"{t}.sum(0, keepdim=True).expand({t}.shape[0])",
            lambda: f"torch.cumsum({t}, 0)", lambda: f"{t}.view(-1).unsqueeze(0).squeeze(0)", lambda: f"torch.einsum('i,j->i', {t}, {t})",
            lambda: f"({t} @ {t}) * {self.t()}", lambda: f"net(x[:3].double()).sum() * {t}" if self.chance(0.5) else f"net.lin.weight.sum() + {t}")

    def number(self) -> str:
        a = self.random.choice(self.numbers)
        return self.one(a, a, lambda: str(self.random.randint(-2, 5)), lambda: f"({a} + {self.random.randint(-1, 3)})", "len(items)",
                        f"({a} * 2)", f"({a} % 3)", "x.shape[0]", "box.value", "box.twice", "len(table)", f"max({a}, 1)", f"abs({a})", "len(box)",
                        f"({a} // 2)", f"min({a}, 4)", "G", "box[1]", "box.step", f"({a} if flag else 1)", f"len(str({a}))", f"int({a} > 1)",
                        f"sum(range({a} % 5))", "x.dim()", f"({a} ^ 1)", f"-{a}", "Level.HIGH", f"({a} << 1) % 7", f"math.gcd({a}, 6)", "y.numel()",
                        "table.get('k', 2)", f"[4, 5, 6][{a} % 3]", f"divmod({a}, 2)[1]", "net.calls", f"round({a} / 2)", f"hash({a}) % 4", "(box + 1)")

    def float(self) -> str:
        a = self.random.choice(self.numbers)
        return self.one("0.5", "-0.0", "1e-3", f"({a} / 2)", f"float({a})", "math.pi", f"math.sqrt(abs({a}))", f"({a} * 0.25)", f"round({a} / 3, 2)")

    def test(self) -> str:
        k = self.number
        return self.one(
            lambda: f"{k()} > {k()}", "flag", "not flag", "'a' in table", lambda: f"{k()} == {self.random.randint(0, 4)}", "isinstance(n, int)",
            lambda: f"{k()} % 2", "x is y", "len(box.log) > 2", "box", "items", lambda: f"0 <= {k()} < 4", lambda: f"{k()} in (1, 2, 3)", "flag is None",
            "x.requires_grad", "torch.is_grad_enabled()", "hasattr(box, 'extra')", "net.training", lambda: f"{k()} > 1 and flag", lambda: f"flag or {k()} > 2",
            lambda: f"{self.t()}.sum() > {k()}", lambda: f"bool(({self.t()} > 1).any())", lambda: f"isinstance({self.t()}, torch.Tensor)", "type(box) is Box",
            "x.dtype == torch.float64", "callable(box)", lambda: f"any(v > 2 for v in [{k()}, {k()}])", "isinstance(flag, (int, str))", "1 in box",
            lambda: f"{self.t()}.shape == x.shape", "Colour.RED is Colour(1)", "flag == 'text'", "box == Box(2)", "n == True", "x.ndim == 1")

    def text(self) -> str:
        a = self.random.choice(self.numbers)
        return self.one("f'{n}-{len(items)}-{flag!r:>6}'", f"str({a})", f"f'{{{a}:>4}}|{{{a}!s:<3}}'", "'%s/%d' % (flag, n)", "'{}:{}'.format(n, len(table))",
                        f"'ab' * ({a} % 3)", "','.join(table)", "repr(sorted(table))", "type(box).__name__", "Colour.BLUE.name", f"f'{{{a} / 3:.2f}}'",
                        f"chr(97 + {a} % 5)", "str(x.shape)", "f'{x.shape[0]=}'", f"format({a}, '03d')", "repr(Pair(n, flag))", "str(x.dtype)")

    def value(self) -> str:
        """Anything that may be put into a result."""
        return self.one(self.tensor, self.tensor, self.number, self.number, self.text, self.float, lambda: f"bool({self.test()})", lambda: self.collection(), "None",
                        "Colour.RED", lambda: f"Pair({self.tensor()}, {self.number()})", lambda: f"Point({self.tensor()})", lambda: f"({self.test()})")

    def collection(self) -> str:
        t, k, n = self.tensor, self.number, self.random.choice(self.numbers)
        fn = self.random.choice(UNARY)
        return self.one(
            lambda: f"[{fn}(v) for v in items if {self.test()}]", lambda: "{k: v for k, v in table.items() if k != 'a'}", lambda: f"sorted([{k()}, {k()}], key=lambda v: -v)",
            "tuple(a + b for a, b in zip(items, items))", lambda: f"list(map(lambda v: v + {k()}, items))", lambda: f"list(enumerate([{k()}, {t()}]))",
            lambda: f"sorted({{{k()}, {k()}, 2}})", lambda: f"[i * j for i in range({n} % 3) for j in range(i)]", lambda: f"list(produce({t()}, 2))",
            lambda: f"list(itertools.chain([{k()}], [{t()}]))", lambda: f"dict(a={t()}, b={k()})", lambda: f"{{**table, 'm': {k()}}}", lambda: f"[*items, {t()}]",
            lambda: f"list(filter(None, [{k()}, {k()}]))", lambda: f"({t()}, [{k()}, {{'k': {t()}}}])", "list(reversed(items))", "items[::-1]", "items[1:]",
            lambda: f"[(v, k) for k, v in enumerate(items)]", lambda: f"dict(zip('ab', [{k()}, {t()}]))", lambda: f"collections.Counter([{k()}, {k()}, 1])",
            lambda: f"list(itertools.accumulate([{k()}, {k()}]))", lambda: f"[list(range(i)) for i in range({n} % 4)]", lambda: f"list(itertools.islice(itertools.count({k()}), 2))",
            lambda: f"set([{k()}]) | {{1}}", lambda: f"collections.OrderedDict(b={t()}, a={k()})", lambda: f"frozenset([{k()}])", lambda: f"slice({k()}, None)",
            lambda: f"[brk(v) for v in items]", lambda: f"sum(v.sum() for v in items)", "list(table.values())", lambda: f"collections.deque([{k()}, {t()}], maxlen=2)",
            lambda: f"x.tolist()", lambda: f"list({self.t()}.shape)", lambda: f"[v.item() for v in x]", lambda: f"dataclasses.asdict(Point({k()}))", lambda: f"vars(Point({k()}))",
            lambda: f"list(box[i] for i in range(3))", lambda: f"{self.t()}.chunk(2)", lambda: f"torch.split({self.t()}, 2)", lambda: f"{self.t()}.max(0)", lambda: f"list({self.t()})")

    # -- statements --------------------------------------------------------------------------------------------------

    def statement(self, depth: int) -> None:
        weights = [(30, self.assign), (16, self.change), (10, self.put), (9, self.branch), (9, self.loop), (8, self.handle), (5, self.manage), (6, self.closure),
                   (5, self.generate), (6, self.read), (3, self.choose), (4, self.inplace), (4, self.leave), (3, self.show), (3, self.unpack), (2, self.local_class)]
        if depth > 4:
            weights = [one for one in weights if one[1] in (self.assign, self.change, self.put, self.read, self.inplace, self.leave, self.show, self.unpack)]
        kind = self.random.choices([one for _, one in weights], [weight for weight, _ in weights])[0]
        kind(depth)

    def assign(self, depth: int) -> None:
        if self.chance(0.7):
            name = self.fresh("t") if self.chance(0.6) else self.random.choice([*self.tensors[2:], "x"])
            self.line(depth, f"{name} = {self.tensor()}")
            if name not in self.tensors and (depth == 1 or self.chance(0.1)):
                self.tensors.append(name)
        else:
            name = self.fresh("k")
            self.line(depth, f"{name} = {self.number()}")
            if depth == 1 or self.chance(0.1):
                self.numbers.append(name)

    def change(self, depth: int) -> None:
        r, t, k = self.random, self.tensor, self.number
        self.line(depth, self.one(
            lambda: f"items.append({t()})", lambda: f"table['{r.choice('acd')}'] = {t()}", lambda: f"box.value += {r.randint(0, 2)}", lambda: f"box.log.append({k()})",
            lambda: f"items[0] = {t()}", "table.pop('c', None)", lambda: f"box.extra = {t()}", "items.reverse()", lambda: f"table.update(z={k()})", "gb()",
            "del items[-1]", "box.twice = 7", lambda: f"setattr(box, 'extra', {k()})", lambda: f"table.setdefault('s', []).append({k()})", lambda: f"LOG.append({k()})",
            lambda: f"CACHE[{k()}] = {t()}", "items.insert(0, x)", lambda: f"items[1:] = [{t()}]", "items.sort(key=lambda v: v.shape[0])", lambda: f"items += [{t()}]",
            "table.pop('missing', 0)", "del table['a']", "del box.extra", "items.pop()", lambda: f"items.extend([{t()}] * 2)", "table.clear()", "box.log.clear()",
            "Box.step += 1", "net.calls += 2", "net.train(not net.training)", lambda: f"table |= {{'u': {k()}}}", "items = list(items)", "table = dict(table)",
            lambda: f"box = {r.choice(['Box', 'Special'])}({k()})", lambda: f"G2 = {k()}", "native(items, 1)", "torch.manual_seed(n % 3)", lambda: f"box.log[-1:] = [{k()}]"))

    def put(self, depth: int) -> None:
        self.line(depth, f"out.append({self.value()})")

    def read(self, depth: int) -> None:
        t = self.t()
        self.line(depth, self.one(
            f"out.append({t}.sum().item())", f"if {t}.sum() > 0: out.append('positive')", "gb()", f"out.append(float({t}.mean()) > 0)", "native(out)",
            f"out.append(bool(({t} > 1).any()))", f"out.append(int({t}[0] * 2))", f"if {t}.mean() > 0.5 and flag: out.append({self.tensor()})",
            f"out.append('yes' if ({t} > 0).all() else 'no')", f"out.append({t}.tolist())", f"out.append(len({t}))", f"assert {self.test()}, {self.text()}",
            f"while {t}.sum() < 5 and len(out) < 6: out.append({t}.shape)", f"out.append({t}.numpy().sum() > 0)", f"out.append(f'{{{t}.sum().item():.1f}}')"))

    def block(self, depth: int, most: int = 3) -> None:
        tensors, numbers = list(self.tensors), list(self.numbers)
        for _ in range(self.random.randint(1, most)):
            self.statement(depth)
        if self.chance(0.97):  # else: a name that may not be bound
            self.tensors, self.numbers = tensors, numbers

    def branch(self, depth: int) -> None:
        self.line(depth, f"if {self.test()}:")
        self.block(depth + 1)
        if self.chance(0.3):
            self.line(depth, f"elif {self.test()}:")
            self.block(depth + 1)
        if self.chance(0.5):
            self.line(depth, "else:")
            self.block(depth + 1)

    def loop(self, depth: int) -> None:
        if self.loops >= 2:
            return self.assign(depth)
        name, r = self.fresh("i"), self.random
        counted = self.chance(0.25)
        if counted:
            self.line(depth, f"{name} = 0")
            self.line(depth, f"while {name} < {r.choice(['n % 4', '3', 'min(len(items), 4)'])}:")
            self.line(depth + 1, f"{name} += 1")
        else:
            self.line(depth, self.one(
                lambda: f"for {name} in range({r.randint(0, 3)}):", f"for {name} in range(n % 4):", f"for {name}, _ in enumerate(list(items)):",
                f"for {name} in [1, 2, 3][:n % 3]:", f"for {name} in (lambda: (yield from [1, 2]))():", f"for {name}, _ in zip(range(3), table):",
                f"for {name} in map(int, ['1', '2']):", f"for {name} in sorted({{3, n % 5}}):", f"for {name} in iter([n, 2].pop, n):", f"for {name} in range(x.shape[0]):",
                f"for {name} in (k for k in range(n % 5) if k):", f"for {name} in reversed(range(2)):"))
        self.numbers.append(name)
        self.loops += 1
        self.block(depth + 1)
        if self.chance(0.4):
            self.line(depth + 1, f"if {self.test()}:")
            self.line(depth + 2, self.one("break", "continue", f"out.append({name}); break"))
        self.loops -= 1
        if name in self.numbers:
            self.numbers.remove(name)
        if self.chance(0.25):
            self.line(depth, "else:")
            self.block(depth + 1, 1)

    def handle(self, depth: int) -> None:
        r = self.random
        self.line(depth, "try:")
        self.block(depth + 1)
        self.line(depth + 1, self.one(
            "table['missing']", "[][n]", "raise ValueError(n)", "out.append(1)", lambda: f"if {self.test()}: raise KeyError('k')", "x @ torch.ones(99, 99)", "1 / 0",
            "box.nothing", "raise IndexError('at', n) from None", "int('no')", "None + 1", "next(iter(()))", "assert flag, 'not set'", "items[99]", "x[77]",
            lambda: f"out.append({self.tensor()})", "raise Colour", "a, b = items[0], *items", "gb(); raise ValueError('after a break')", "native(1); {}['gone']", "x.nothing",
            "torch.ones(2) + torch.ones(3)", "raise RuntimeError(box.value)"))
        if self.chance(0.12):
            self.line(depth, "finally:")
            return self.block(depth + 1, 2)
        for _ in range(r.randint(1, 2)):
            kinds = r.sample(ERRORS, 2)
            name = self.fresh("e")
            self.line(depth, self.one(f"except ({kinds[0]}, {kinds[1]}) as {name}:", f"except Exception as {name}:", f"except {kinds[0]} as {name}:", f"except LookupError as {name}:"))
            self.line(depth + 1, self.one(f"out.append(type({name}).__name__)", f"out.append(str({name}))", f"out.append({name}.args)", f"out.append(repr({name}))",
                                          f"kept = {name}; out.append(kept)"))
            if self.chance(0.3):
                self.block(depth + 1, 2)
            if self.chance(0.12):
                self.line(depth + 1, self.one("raise", f"raise RuntimeError('again') from {name}", "raise ValueError('other')"))
            if "Exception" in self.lines[-1]:
                break
        if self.chance(0.2):
            self.line(depth, "else:")
            self.block(depth + 1, 2)
        if self.chance(0.3):
            self.line(depth, "finally:")
            self.block(depth + 1, 2)

    def manage(self, depth: int) -> None:
        name = self.fresh("m")
        self.line(depth, self.one(
            "with torch.no_grad():", "with Scope(out):", "with Scope(out), torch.no_grad():", f"with managed(out, n) as {name}:", f"with box as {name}:",
            "with contextlib.suppress(KeyError, ValueError):", "with torch.enable_grad():", f"with torch.set_grad_enabled(bool({self.test()})):", "with contextlib.nullcontext():",
            "with contextlib.ExitStack() as stack:", f"with Scope(LOG) as {name}, managed(out, 1):"))
        if "ExitStack" in self.lines[-1]:
            self.line(depth + 1, self.one("stack.enter_context(Scope(out))", "stack.callback(out.append, 'called')"))
        self.block(depth + 1)
        if self.chance(0.3):
            self.line(depth + 1, self.one("raise KeyError('in with')", "[][5]", "1 / 0", f"if {self.test()}: raise ValueError('w')"))

    def closure(self, depth: int) -> None:
        cell, name = self.fresh("c"), self.fresh("g")
        self.line(depth, f"{cell} = {self.number()}")
        self.line(depth, self.one(f"def {name}(t, *rest, k={self.number()}):", f"def {name}(t, k={self.number()}, **named):", f"@note\n{'    ' * depth}def {name}(t, k=1):"))
        self.line(depth + 1, f"nonlocal {cell}")
        self.line(depth + 1, self.one(f"{cell} += 1", f"{cell} = {cell} * 2 % 5", f"global G; G += 1; {cell} += G", f"out.append({cell}); {cell} += k"))
        if self.chance(0.3):
            self.line(depth + 1, self.one("gb()", f"if {cell} > 3: return t", "native(t)", "box.log.append(k)", "if t.sum() > 1: t = t * 2", f"if {cell} > 2: raise ValueError({cell})"))
        self.line(depth + 1, f"return t + {cell} + k")
        self.line(depth, self.one(
            f"out.append({name}({self.tensor()}) + {name}(x)); out.append({cell})", f"out.append([{name}(v) for v in items]); out.append({cell})",
            f"table['f'] = {name}(x, k=2); out.append({cell})", f"out.append(list(map({name}, items)))", f"CACHE['f'] = {name}" if self.chance(0.3) else f"out.append({name}(y))"))

    def generate(self, depth: int) -> None:
        name = self.fresh("g")
        self.line(depth, self.one(
            lambda: f"{name} = produce({self.tensor()}, 2); out.append(next({name})); out.append({name}.send(2))", lambda: f"out += list(produce({self.tensor()}, 2))",
            lambda: f"{name} = guarded({self.tensor()}, out); out.append(next({name})); out.append({name}.throw(ValueError('thrown')))",
            lambda: f"{name} = guarded({self.tensor()}, out); out.append(next({name})); {name}.close()", lambda: f"out.append(sum(v for v in produce({self.tensor()}, 3)))",
            lambda: f"out.append(produce({self.tensor()}, 2))", lambda: f"a, b = produce({self.tensor()}, 2); out.append(a * b)",
            lambda: f"for v in guarded({self.tensor()}, out): out.append(v); gb()", lambda: f"out.append(next(produce({self.tensor()}, 0), None))",
            lambda: f"out.append(max(produce({self.tensor()}, 2), key=lambda v: v.shape[0]))", lambda: f"out.append(dict(enumerate(produce({self.tensor()}, 2))))"))

    def choose(self, depth: int) -> None:
        self.line(depth, self.one("match n:", "match (n, flag):", "match table:", "match box:", "match items:"))
        cases = {"n": ["1 | 2", "int(k) if k > 4", "_"], "(n, flag)": ["(1, _)", "(k, True) if k > 1", "(_, None | 'text')", "_"],
                 "table": ["{'c': v}", "{'a': v, **rest}", "_"], "box": ["Special(value=v)", "Box(value=2)", "_"], "items": ["[v]", "[v, w, *rest]", "_"]}
        for case in cases[self.lines[-1].split("match ")[1].rstrip(":")]:
            self.line(depth + 1, f"case {case}:")
            self.block(depth + 2, 2)

    def inplace(self, depth: int) -> None:
        t, k, view = self.t(), self.number(), self.fresh("v")
        self.line(depth, self.one(
            f"{t}.add_(1)", f"{t}.mul_({k})", f"{t}[0] = {k}", f"{t}[1:] += 1", f"{t} += 1", f"{t} *= {self.float()}", f"{view} = {t}[1:]; {view}.add_({k})",
            f"{view} = {t}.view(-1); {view}[0] = 2; out.append({view})", f"{t}.copy_({self.tensor()})", f"{t}.zero_()", f"{t}.clamp_(max=2)", f"items[0].add_(1)",
            f"table['b'].mul_(2)", f"{view} = {t}.clone(); {view}.sin_(); out.append({view})", f"torch.add({t}, 1, out={t})", f"{t}[{t} > 1] = 0", f"{t}.data.add_(1)",
            f"{view} = {t}.detach(); {view}.add_(1)", f"{view} = {t}[::2]; {t}.add_(1); out.append({view})", f"out.append({t}[0])", f"out.append({t}.view(-1))", "out.append(items)",
            f"{view} = {t}.expand(2, -1); out.append({view})", f"x, y = y, x"))

    def leave(self, depth: int) -> None:
        if depth > 1 and self.chance(0.5):
            self.line(depth, self.one(f"return {self.value()}", f"if {self.test()}: return out, {self.tensor()}", f"raise {self.random.choice(ERRORS)}({self.text()})"))
        else:
            self.line(depth, f"if {self.test()}: " + self.one(f"return {self.value()}", f"raise {self.random.choice(ERRORS)}({self.value()})", "return out", "return x"))

    def show(self, depth: int) -> None:
        self.line(depth, self.one(f"print({self.text()})", f"print({self.number()}, flag, sep='-')", f"print(n, end='')", f"print(len({self.collection()}))", "print()",
                                  f"print('v', {self.number()}, [n, flag])", f"print({self.t()}.shape)", f"print({self.t()}.sum().item() > 0)"))

    def unpack(self, depth: int) -> None:
        a, b = self.fresh("u"), self.fresh("u")
        self.line(depth, self.one(f"{a}, {b} = {self.number()}, {self.tensor()}", f"{a}, *{b} = items", f"({a}, {b}), *_ = [(1, 2)], n", f"{a}, {b} = x[:2]", f"{a} = {b} = {self.tensor()}",
                                  f"{a}, {b} = Pair({self.tensor()}, {self.number()})", f"[{a}, {b}] = sorted([n, 1])", f"{a}, {b} = table.popitem() if table else (0, 0)",
                                  f"{a}, {b} = {self.t()}.max(0)"))
        self.line(depth, f"out.append({a}); out.append({b})")

    def local_class(self, depth: int) -> None:
        name = self.fresh("C")
        self.line(depth, f"class {name}({self.one('Box', 'Special', 'object')}):")
        self.line(depth + 1, f"factor = {self.number()}")
        self.line(depth + 1, "def grow(self, t):")
        self.line(depth + 2, f"return t * self.factor + {self.number()}")
        self.line(depth, f"out.append({name}{'.make(2)' if self.chance(0.2) else '.factor' if self.chance(0.3) else f'.grow({name}, x)'})")

    def write(self) -> str:
        self.line(0, "def f(x, y, n, flag, items, table, box):")
        self.line(1, "out = []")
        if self.chance(0.15):
            self.line(1, "global G, TOTAL")
            self.line(1, "G = G + 1; TOTAL = n")
        for _ in range(self.random.randint(3, 8)):
            self.statement(1)
        self.line(1, f"return out, {', '.join(self.tensors)}, n")
        return "\n".join(self.lines) + "\n"


def program(seed: int, kind: type[Writer] = Writer, header: str = HEADER) -> str:
    """Source of a random program."""
    for attempt in range(100):
        text = kind(seed * 1000 + attempt).write()
        try:  # a global that is bound or used before, nonlocal at the wrong place: Python refuses some
            compile(text, "<program>", "exec")
        except SyntaxError:
            continue
        return header + "\n\n" + text
    raise ValueError(seed)
