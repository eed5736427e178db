"""Random programs of yet more kinds than wide_writer's: objects whose end does something, operators of the user's own, histories and gradients.

`program(seed)` is as there; a writer of its own, so that a seed of the others stays the program that it was.
"""

from tests.capture import random_writer, wide_writer
from tests.capture.wide_writer import Wide

HEADER = wide_writer.HEADER + '''

import abc, weakref


class Ends:
    """Says when it ends."""

    def __init__(self, name, log=LOG):
        self.name, self.log = name, log

    def __del__(self):
        self.log.append(f"end {self.name}")


class Held:
    pass


class Counted:
    """Holds on to its place between turns; an iterator of the user's own."""

    def __init__(self, stop):
        self.at, self.stop = 0, stop

    def __iter__(self):
        return self

    def __next__(self):
        if self.at >= self.stop:
            raise StopIteration
        self.at += 1
        return self.at

    def __length_hint__(self):
        return self.stop


class Spread:
    """A sequence by `__getitem__` alone."""

    def __init__(self, *parts):
        self.parts = parts

    def __getitem__(self, at):
        return self.parts[at]

    def __len__(self):
        return len(self.parts)


@functools.total_ordering
class Money:
    """A number of the user's own."""

    __slots__ = ("amount",)
    __match_args__ = ("amount",)

    def __init__(self, amount):
        self.amount = amount

    def __add__(self, other):
        return Money(self.amount + (other.amount if isinstance(other, Money) else other))

    __radd__ = __add__

    def __sub__(self, other):
        return NotImplemented if isinstance(other, str) else Money(self.amount - getattr(other, "amount", other))

    def __rsub__(self, other):
        return Money(other - self.amount)

    def __mul__(self, other):
        return Money(self.amount * other)

    def __rmul__(self, other):
        return other * self.amount

    def __matmul__(self, other):
        return self.amount, other

    def __iadd__(self, other):
        self.amount += other
        return self

    def __neg__(self):
        return Money(-self.amount)

    def __abs__(self):
        return abs(self.amount)

    def __invert__(self):
        return "inverted"

    def __floordiv__(self, other):
        return self.amount // other

    def __divmod__(self, other):
        return "divmod", other

    def __pow__(self, other, modulus=None):
        return self.amount ** other if modulus is None else modulus

    def __eq__(self, other):
        return isinstance(other, Money) and self.amount == other.amount

    def __lt__(self, other):
        return self.amount < getattr(other, "amount", other)

    def __hash__(self):
        return 7

    def __bool__(self):
        return self.amount != 0

    def __int__(self):
        return int(self.amount)

    def __index__(self):
        return int(self.amount)

    def __float__(self):
        return self.amount / 2

    def __round__(self, digits=0):
        return "round", digits

    def __format__(self, spec):
        return f"<{self.amount}|{spec}>"

    def __repr__(self):
        return f"Money({self.amount})"

    def __contains__(self, other):
        return self.amount == other

    def __reversed__(self):
        return iter([self.amount, "r"])


class Guarded:
    """All its attributes go through methods."""

    def __init__(self, **given):
        object.__setattr__(self, "store", dict(given))

    def __getattribute__(self, name):
        store = object.__getattribute__(self, "store")
        return store[name] if name in store else object.__getattribute__(self, name)

    def __getattr__(self, name):
        if name.startswith("no"):
            raise AttributeError(name)
        return f"missing {name}"

    def __setattr__(self, name, value):
        self.store[name] = value

    def __delattr__(self, name):
        del self.store[name]

    def __dir__(self):
        return ["one"]


class Animal(abc.ABC):
    kinds = []

    @abc.abstractmethod
    def speak(self, t):
        return t + 1

    @classmethod
    def __init_subclass__(cls, **more):
        super().__init_subclass__(**more)
        Animal.kinds.append(cls.__name__)

    @staticmethod
    def twice(t):
        return t * 2

    speaks = functools.partialmethod(twice.__func__)


class Dog(Animal):
    def speak(self, t):
        return super().speak(t) * 2


class Loud:
    def speak(self, t):
        return super().speak(t) - 0.5


class Beagle(Loud, Dog):
    def speak(self, t):
        return super().speak(t) + super(Loud, self).speak(t)


class Named(typing.NamedTuple):
    tensor: object
    count: int = 2

    def scaled(self, by=1):
        return self.tensor * self.count * by

    @property
    def both(self):
        return self.count, self.tensor


@dataclasses.dataclass(slots=True, kw_only=True)
class Options:
    rate: float = 0.5
    names: tuple = ()

    @property
    def half(self):
        return self.rate / 2


class Timed(contextlib.ContextDecorator):
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, kind, error, place):
        self.log.append("out" if kind is None else kind.__name__)
        return self.swallow


@Timed(LOG)
def timed(t, k=1):
    return t + k


class Routed:
    @functools.singledispatchmethod
    def route(self, value):
        return "other"

    @route.register
    def _(self, value: int):
        return value + 1

    @route.register(list)
    def _(self, value):
        return len(value)

    @functools.cache
    def kept(self, k):
        LOG.append("kept")
        return k * 2


def averager(t):
    total, count = t * 0, 0
    try:
        while True:
            got = yield total
            if got is None:
                continue
            total, count = total + got, count + 1
    except GeneratorExit:
        LOG.append(f"closed {count}")
        raise
    except ValueError as error:
        yield f"saw {error}"
    finally:
        LOG.append("averaged")


def stages(values):
    return (value + 1 for value in filter(None, (value for value in values)))


async def waits(t, k):
    if k > 1:
        gb()
    return t + k


def awaited(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value


@torch.compiler.disable
def made(name):
    return Ends(name)


@torch.compiler.disable
def eats(value, *more):
    value = None
    LOG.append("eaten")


def keeps(value, t):
    kept = value
    value = None
    gb()
    LOG.append("kept on")
    return t + 1


def forwards(*args, **kwargs):
    return helper(*args, **{**kwargs, "z": 1})


def collatz(k, depth=0):
    return depth if k <= 1 or depth > 4 else collatz(k // 2 if k % 2 == 0 else 3 * k + 1, depth=depth + 1)
'''


class Wider(Wide):
    """Writes one of them."""

    def tensor_of(self, t: str, k: str) -> str:
        if not self.chance(0.25):
            return super().tensor_of(t, k)
        tensor, test = self.tensor, self.test
        return self.one(
            lambda: f"({t} * Money({k}).amount)", lambda: f"(Money({t}) + {tensor()}).amount", lambda: f"({t} * Money({k}))", lambda: f"sum([Money({t}), Money({t})], Money(0)).amount",
            lambda: f"Beagle().speak({t})", lambda: f"Dog().speaks({t})" if False else f"Dog.twice({t})", lambda: f"Named({t}, {k}).scaled()", lambda: f"Named({t})._replace(count={k}).both[1]",
            lambda: f"timed({t}, k={k})", lambda: f"awaited(waits({t}, {k}))", lambda: f"forwards({t}, {k}, q=1)", lambda: f"Spread({t}, {tensor()})[0]", lambda: f"[*Spread({t}, {k})][0]",
            lambda: f"Guarded(v={t}).v", lambda: f"(lambda *, a, b={k}: a * b)(a={t})", lambda: f"(lambda a, /, *b, c=1, **d: a + c + len(b) + len(d))({t}, 1, e=2)",
            lambda: f"functools.reduce(lambda a, b: a + b, [{t}, {k}, {tensor()}])", lambda: f"({t} if {test()} else {tensor()} if {test()} else {t} * 2)", lambda: f"keeps(made({k}), {t})",
            lambda: f"keeps(Ends({k}), {t})", lambda: f"list(stages([{k}, 0, {k}]))[0] * {t}" if self.chance(0.3) else f"({t} + sum(stages([1, {k}])))", lambda: f"sum(({t} for _ in range(2)), {tensor()})",
            lambda: f"torch.atleast_1d({t})", lambda: f"{t}.unfold(0, 2, 1).sum(1).sum() * {t}", lambda: f"torch.nn.functional.softmax({t}, 0)", lambda: f"{t}.narrow(0, 0, {t}.shape[0])",
            lambda: f"{t}[torch.arange({t}.shape[0])]", lambda: f"{t}.index_select(0, torch.arange({t}.shape[0]))", lambda: f"torch.cat([{t}[:1], {t}[1:]])", lambda: f"{t}[::2].sum() + {t}", lambda: f"{t}.roll({k})",
            lambda: f"({t}.unsqueeze(1) * {t}).sum(-1)", lambda: f"torch.nn.functional.layer_norm({t}, {t}.shape[-1:])", lambda: f"{t}.masked_fill({t} > 1, 0.5)", lambda: f"torch.lerp({t}, {tensor()}, 0.3)",
            lambda: f"torch.outer({t}, {t})[0]", lambda: f"{t}.sort().values", lambda: f"{t}.cumprod(0)", lambda: f"torch.autograd.grad((h := {t}.detach().clone().requires_grad_()).square().sum(), h)[0]",
            lambda: f"({t} ** 2).clamp(min=1e-3).sqrt()", lambda: f"{t}.type_as(x) + x", lambda: f"{t}.to(torch.float32).to({t}.dtype)", lambda: f"{t}.contiguous().view({t}.shape)", lambda: f"{t}.expand_as({t})")

    def number(self) -> str:
        if not self.chance(0.2):
            return super().number()
        a = self.random.choice(self.numbers)
        return self.one(f"int(Money({a}))", f"(Money({a}) // 2)", f"[5, 6, 7][Money(1)]", f"abs(Money({a}))", f"Money({a}) ** 2", f"len(Spread(1, {a}))", f"sum(Counted({a} % 4))", f"max(Counted(3))", f"collatz({a})",
                        f"Named(1, {a}).count", f"Named(1).index(2)", f"len(Animal.kinds)", f"Routed().route({a})", f"Routed().route([{a}])", f"Routed().kept({a})", f"(yes := {a}) + 1", f"len(f'{{{a}:+05d}}')",
                        f"int('{{:b}}'.format(abs({a})), 2)", f"sum(v for v in range({a} % 4) if v % 2)", f"next((v for v in range(9) if v > {a}), -1)", f"len([*zip(range(3), 'ab')])", f"(1 < {a} < 5) + 0",
                        f"{a} if {a} else 1", f"int(complex({a}, 1).imag)", f"len({{*range({a} % 4)}} & {{1, 2}})", f"functools.partial(max, 2)({a})", f"operator.add({a}, 1)", f"min(({a}, 'a'), (9, 'b'))[0]",
                        f"len('a-b-c'.split('-', {a} % 2))", f"range(0, 20, 3)[{a} % 3]", f"range(9)[::2].index(4)", f"'abcabc'.rfind('b')", f"bytes([1, 2])[{a} % 2]", f"int.from_bytes(b'a', 'big')")

    def text(self) -> str:
        if not self.chance(0.2):
            return super().text()
        a = self.random.choice(self.numbers)
        return self.one(f"f'{{Money({a}):x}}'", f"format(Money({a}), 'spec')", f"repr(Money({a}))", f"~Money({a})", f"Guarded().other", f"'{{:>6.1f}}|{{:<4}}|{{:^5}}'.format({a} / 2, {a}, 'm')", f"f'{{{a}:#x}}'", f"f'{{{a}:,}}'",
                        f"'abc'[::{self.one(1, -1, 2)}]", f"'a,b;c'.replace(',', ';').split(';')[{a} % 3]", "'Hello'.swapcase().center(9, '*')", f"'x={{x}}'.format_map({{'x': {a}}})", "'a b'.title().zfill(6)",
                        f"'{{0[a]}}'.format({{'a': {a}}})", f"str(b'ab', 'ascii')", "'tEst'.casefold().removeprefix('t')", "'a\\tb'.expandtabs(4)", "'%5.2f|%-4s|%x' % (1.5, 'a', 255)", f"'ab'.join('-' * 2)",
                        f"repr(Options(rate={a}))", f"repr(Named(1, {a}))", f"'abc'.translate(str.maketrans('ab', 'xy'))", f"str({a}).rjust(3, '0')", f"f'{{\"in\" if {a} > 1 else \"out\"}}'", "type(Dog()).__mro__[1].__name__")

    def collection(self) -> str:
        if not self.chance(0.25):
            return super().collection()
        t, k = self.tensor, self.number
        return self.one(
            lambda: f"[*Counted({k()} % 4)]", lambda: f"list(reversed(Money({k()})))", lambda: f"sorted([Money({k()}), Money(1)])", lambda: f"{{Money({k()}): 1, Money(2): 2}}", lambda: f"Money({k()}) @ {k()}", lambda: f"divmod(Money(1), {k()})",
            lambda: f"[a for a, b in itertools.product([1, {k()}], 'ab')]", lambda: f"[x2 := {k()}, x2 * 2]", lambda: f"[last := v for v in range(3)]", lambda: f"dict(sorted({{'b': {k()}, 'a': 1}}.items(), key=lambda p: p[0]))",
            lambda: f"{{**{{'a': 1}}, **dict(b={t()})}}", lambda: f"{{'a': 1}} | {{'b': {t()}}}", lambda: f"{{k: [*v] for k, v in itertools.groupby('aab')}}", lambda: f"list(map(lambda a, b: a * b, [{k()}, 2], [3, 4]))",
            lambda: f"[*itertools.tee([{k()}, 1], 2)[1]]", lambda: f"list(itertools.chain.from_iterable([[{k()}], (2,)]))", lambda: f"[*itertools.repeat({k()}, 2)]", lambda: f"list(range(10)[{k()}::-2])", lambda: f"[1, 2, 3, 4][{k()}:-1]",
            lambda: f"list(zip([{k()}], [1], strict=True))", lambda: f"(lambda v, w=[]: w.append(v) or w)({k()})", lambda: f"[f() for f in [lambda i=i: i for i in range(3)]]", lambda: f"[f() for f in [lambda: i for i in range(3)]]",
            lambda: f"{{1, 2, {k()}}} - {{2}} | {{9}}", lambda: f"{{1}} <= {{1, {k()}}}", lambda: f"{{'a': 1}}.keys() | {{'b'}} == {{'a', 'b'}}", lambda: f"list({{'a': {k()}}}.items())", lambda: f"max([{k()}, 3], default=0)", lambda: f"[*stages([{k()}, 1])]",
            lambda: f"Named({t()}, {k()})", lambda: f"Named({t()})._asdict()", lambda: f"[*Spread({t()}, {k()})]", lambda: f"sorted('bca', reverse=True)", lambda: f"[all([]), any([{k()}])]", lambda: f"list(Options(names=('a', {k()})).names)",
            lambda: f"[i for i in range(9) if i % 2 if i > {k()}]", lambda: f"[[j for j in range(i)] for i in range(3)]", lambda: f"list(dict.fromkeys([{k()}, 1, 1]))", lambda: f"tuple(v for v in Counted(2))", lambda: f"[{t()}.shape, {t()}.dtype]",
            lambda: f"[w() is None for w in [weakref.ref(Held())]]", lambda: f"[{k()}, *[1] * 2, *(3,)]", lambda: f"collections.Counter('abca').most_common(1)", lambda: f"[isinstance(v, (int, list)) for v in (1, [], {t()})]", lambda: f"torch.unbind(torch.stack([{t()}] * 2))",
            lambda: f"[v.requires_grad for v in ({t()}, {t()}.detach())]", lambda: f"{t()}.unsqueeze(0).tolist()", lambda: f"[{t()}.is_leaf, {t()}.grad_fn is None]", lambda: f"list({t()}.size()) + [{t()}.numel()]", lambda: f"sorted(Guarded(b=1, a={k()}).store)")

    def statement(self, depth: int) -> None:
        if depth < 4 and self.chance(0.16):
            return self.random.choice([self.end, self.end, self.watch, self.suspend, self.count_up, self.learn, self.view, self.attribute, self.decorate, self.take_apart, self.try_all, self.remove])(depth)
        super().statement(depth)

    def end(self, depth: int) -> None:
        """An object that says when it ends."""
        name, k = self.fresh("d"), self.number
        self.line(depth, f"{name} = {self.one('made(1)', lambda: f'made({k()})', lambda: f'[made({k()})]', lambda: f'Ends({k()})', lambda: f'{{1: made({k()})}}', lambda: f'Point(made({k()}))')}")
        for _ in range(self.random.randint(1, 3)):
            self.line(depth, self.one("gb()", f"LOG.append({k()})", f"{name} = None", f"{name} = made(3)", f"out.append(type({name}).__name__)", f"eats({name})", f"box.extra = {name}", f"table['d'] = {name}", f"out.append(keeps({name}, x))",
                                      f"x = x + {k()}", "box.extra = None", "table.pop('d', None)", f"{name} = [{name}]", "eats(made(4))", f"if {self.test()}: {name} = None"))

    def watch(self, depth: int) -> None:
        name, seen = self.fresh("w"), self.fresh("r")
        self.line(depth, f"{name} = {self.one('Held()', 'Held()', 'Point(1)', self.tensor)}")
        self.line(depth, f"{seen} = weakref.ref({name}{self.one('', '', ', lambda _: LOG.append(1)')})")
        for _ in range(self.random.randint(1, 3)):
            self.line(depth, self.one("gb()", f"{name} = None", f"out.append({seen}() is None)", f"out.append({seen}() is {name})", "native(1)", f"{name} = [{name}]"))

    def suspend(self, depth: int) -> None:
        """A generator that waits in its `try` while the graph breaks."""
        name, t = self.fresh("g"), self.tensor
        self.line(depth, f"{name} = {self.one(lambda: f'averager({t()})', lambda: f'guarded({t()}, out)', lambda: f'delegates({t()}, 2)', lambda: f'zip(averager({t()}), [1, 2])', lambda: f'enumerate(guarded({t()}, out))')}")
        plain = "zip" not in self.lines[-1] and "enumerate" not in self.lines[-1]  # captured, those two are generators
        self.line(depth, f"out.append(next({name}))")
        for _ in range(self.random.randint(1, 4)):
            self.line(depth, self.one("gb()", f"out.append(next({name}, 'end'))", f"{name} = None", f"{name} = iter([1, 2])", f"LOG.append('on')", f"box.extra = {name}",
                                      *([f"out.append({name}.send({self.number()}))", f"{name}.close()", f"out.append({name}.throw(ValueError('in')))", f"out.append({name}.send({t()}))"] if plain else [f"out.append([*{name}])"])))

    def count_up(self, depth: int) -> None:
        name = self.fresh("q")
        self.line(depth, f"{name} = {self.one('Counted(3)', 'Money(2)', 'iter(Spread(1, 2, 3))', 'itertools.count(1)', 'iter({1: 2, 3: 4})')}")
        made = self.lines[-1]
        if "Money" in made:
            self.line(depth, self.one(f"{name} += {self.number()}; out.append({name}.amount)", f"{name} = {name} * 2 - 1; out.append({name})", f"out.append(3 - {name}); out.append(-{name})", f"out.append(2 in {name})", f"out.append({name} - 'a')",
                                      f"match {name}:\n{'    ' * depth}    case Money(2): out.append('two')\n{'    ' * depth}    case Money(amount=a): out.append(a)", f"out.append(round({name}))", f"out.append({name} < Money(5) >= 1)"))
        else:
            self.line(depth, self.one(f"out.append(next({name})); gb(); out.append(next({name}))", f"for v in {name}:\n{'    ' * depth}    if v > 2: break\n{'    ' * depth}    out.append(v)", f"out.append([*zip(range(2), {name})])", f"a, b, *_ = itertools.islice({name}, 2); out.append(a + b)"))

    def learn(self, depth: int) -> None:
        """Histories and gradients."""
        name, t = self.fresh("p"), self.t()
        self.line(depth, f"{name} = {t}.detach().clone(){self.one('', '.requires_grad_()', '.requires_grad_()')}")
        self.line(depth, self.one(
            f"({name} * {name}).sum().backward() if {name}.requires_grad else None; out.append({name}.grad)", f"{name}.requires_grad_(not {name}.requires_grad); out.append(({name} * 2).requires_grad)",
            f"({name} * 2).sum().backward(); ({name} * 3).sum().backward(); out.append({name}.grad)" if ".requires" in self.lines[-1] else f"out.append({name}.grad)", f"with torch.no_grad(): {name}.mul_(2); out.append(({name} + 1).requires_grad)",
            f"{name}.grad = torch.ones_like({name}); gb(); out.append({name}.grad)", f"{name}.grad = None; out.append({name}.grad is None)", f"out.append(({name} * x).detach().requires_grad)", f"q = {name} * 2; q.retain_grad() if q.requires_grad else None; q.sum().backward() if q.requires_grad else None; out.append(q.grad if q.requires_grad else 0)",
            f"out.append(torch.autograd.grad(({name} ** 2).sum(), {name})[0])" if ".requires" in self.lines[-1] else f"out.append({name}.is_leaf)", f"{name}.data = {name}.data * 2; out.append({name})", f"with torch.no_grad(): out.append(({name} * 2).requires_grad); gb(); out.append(torch.is_grad_enabled())",
            f"out.append(net.lin.weight.grad is None); net.zero_grad()", f"(net(x[:3].double()).sum() * 2).backward() if x.shape[0] == 3 else None; net.zero_grad()"))

    def view(self, depth: int) -> None:
        t, v = self.t(), self.fresh("v")
        self.line(depth, f"{v} = {self.one(f'{t}.clone()', f'{t} * 1.0', f'{t}.detach().clone()')}")
        self.line(depth, self.one(
            f"w = {v}[1:]; w += 1; {v}[0] = 2; out.append(w)", f"w = {v}.view(1, -1); w[0, 0] = 5; out.append({v})", f"a, b = {v}[:1], {v}[1:]; a.mul_(2); b.copy_(a); out.append({v})", f"w = {v}.unsqueeze(0).t(); w.zero_(); out.append({v})",
            f"{v}[{v} > 0] *= 2; out.append({v})", f"{v}[[0, 1]] = {v}[[1, 0]]; out.append({v})", f"{v}[-1], {v}[0] = {v}[0], {v}[-1]; out.append({v})", f"w = {v}.diagonal() if {v}.dim() > 1 else {v}[::2]; w.fill_(1); out.append({v})",
            f"{v}.index_fill_(0, torch.tensor([0]), 3.0); out.append({v})", f"{v}.unsqueeze_(0); out.append({v}.shape)", f"torch.mul({v}, 2, out={v}); out.append({v})", f"w = {v}.numpy() if not {v}.requires_grad else 0; {v}.data[0] = 7; out.append(w)", f"w = [{v}[i] for i in range(2)]; w[0].add_(1); out.append({v})"))

    def attribute(self, depth: int) -> None:
        name, k = self.fresh("o"), self.number
        self.line(depth, f"{name} = {self.one(lambda: f'Guarded(one={k()})', lambda: f'Options(rate={k()})', 'Held()', lambda: f'Slotted({k()})', 'Dog()')}")
        made = self.lines[-1]
        if "Guarded" in made:
            self.line(depth, self.one(f"{name}.two = {k()}; out.append({name}.two)", f"del {name}.one; out.append({name}.one)", f"out.append(hasattr({name}, 'nothing'))", f"{name}.one += 1; gb(); out.append({name}.one)", f"out.append(getattr({name}, 'none', 3))", f"out.append(dir({name}))"))
        elif "Options" in made:
            self.line(depth, self.one(f"{name}.rate += 1; out.append({name}.half)", f"out.append(dataclasses.replace({name}, names=(1,)).names)", f"{name}.other = 1", f"out.append({name} == Options(rate={k()}))", f"gb(); out.append({name})"))
        else:
            self.line(depth, self.one(f"setattr({name}, 'first', {k()}); out.append({name}.first)", f"{name}.first = {k()}; del {name}.first; out.append(hasattr({name}, 'first'))", f"out.append(getattr({name}, 'first', None))", f"{name}.first = x; gb(); out.append({name}.first + 1)", f"out.append(isinstance({name}, Animal))", f"{name}.__class__ = Held; out.append(type({name}).__name__)"))

    def decorate(self, depth: int) -> None:
        name = self.fresh("h")
        self.line(depth, self.one(f"@Timed(out, {self.one(True, False)})", "@note", "@functools.wraps(helper)", "@functools.lru_cache(None)", "@functools.partial"))
        if "lru" in self.lines[-1]:
            self.line(depth, f"def {name}(k=1): return k * 2")
            return self.line(depth, f"out.append({name}({self.number()}) + {name}(2))")
        self.line(depth, f"def {name}(t, k={self.number()}, *, z={self.number()}):")
        self.line(depth + 1, self.one("gb()", "pass", "if k > 2: raise KeyError(k)", "out.append(k)", "with torch.no_grad(): t = t * 2", f"{self.fresh('i')} = [Ends(1)]"))
        self.line(depth + 1, "return t + k - z")
        self.line(depth, f"out.append({name}({self.tensor()}{self.one('', ', 2', ', z=1', ', k=3')}))")

    def take_apart(self, depth: int) -> None:
        a, k, t = self.fresh("u"), self.number, self.tensor
        self.line(depth, self.one(
            lambda: f"{a}, *_, last = [{k()}, 2, 3]; out.append(last)", lambda: f"({a}, (b, *c)), d = ({k()}, (1, 2, 3)), 4; out.append(c)", lambda: f"for {a}, (b, c) in [({k()}, (1, 2))]: out.append(b + c)", lambda: f"{a} = (*items, *table.values()); out.append(len({a}))",
            lambda: f"{a}, b = b2, _ = {t()}, {k()}; out.append({a})", lambda: f"items[0], {a} = {t()}, items[0]; out.append({a})", lambda: f"table['q'], box.extra = {k()}, {t()}; out.append(box.extra)", lambda: f"{a} = [1, 2, 3, 4]; {a}[::2] = [{k()}, 0]; del {a}[1]; out.append({a})",
            lambda: f"{a} = [3, 1, 2]; {a}.sort(key=lambda v: (v % 2, v)); out.append({a})", lambda: f"{a} = {{'a': {{'b': {t()}}}}}; {a}['a']['b'] += 1; out.append({a})", lambda: f"{a} = [[0] * 2] * 2; {a}[0][1] = {k()}; out.append({a})",
            lambda: f"if ({a} := {k()}) > 1 and (b := {a} + 1): out.append(b)", lambda: f"{a} = b = []; b.append({k()}); out.append({a})", lambda: f"out.append((lambda **kw: sorted(kw))(**{{'a': 1, 'b': {k()}}}))", lambda: f"{a}, b = (1,) * {k()}"))

    def try_all(self, depth: int) -> None:
        """`try`, `except`, `else` and `finally` with what can happen in each."""
        self.line(depth, "try:")
        self.line(depth + 1, self.one(f"out.append({self.tensor()})", "raise KeyError('k') from ValueError('v')", "d = made(5); gb()", "raise ExceptionGroup('g', [ValueError(1), KeyError(2)])", "gb(); items[50]", "d = guarded(x, out); next(d); gb()", f"raise {self.one('StopIteration(3)', 'OSError(2, str(n))', 'UnicodeError', 'NotImplementedError()')}"))
        self.line(depth, self.one("except* ValueError as e:", "except (KeyError, IndexError) as e:", "except Exception as e:", "except AssertionError as e:"))
        self.line(depth + 1, self.one("out.append(repr(e))", "out.append(type(e.__cause__).__name__)", "gb(); out.append(str(e))", "e.add_note('more'); out.append(e.__notes__)", "out.append(e.args)", "pass"))
        if self.chance(0.4):
            self.line(depth, "else:")
            self.line(depth + 1, self.one("out.append('else')", "d = None; gb()", f"x = {self.tensor()}"))
        if self.chance(0.5):
            self.line(depth, "finally:")
            self.line(depth + 1, self.one("d = None; out.append('f')", "gb()", f"LOG.append({self.number()})", "del d"))

    def remove(self, depth: int) -> None:
        name = self.fresh("z")
        self.line(depth, f"{name} = {self.one(self.tensor, self.number, 'made(6)', '[1, 2]')}")
        self.line(depth, self.one(f"del {name}; gb()", f"del {name}; out.append({name})", f"gb(); del {name}; LOG.append('gone')", f"out.append({name if 'made' not in self.lines[-1] else 1}); del {name}"))


def program(seed: int) -> str:
    """Source of a random program."""
    return random_writer.program(seed, Wider, HEADER)
