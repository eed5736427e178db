"""Random programs of more kinds than random_writer's: descriptors, slots, metaclasses, copies, caches, NumPy, and more of the standard library.

`program(seed)` is as there; the two keep apart so that a seed stays the program that it was.
"""

from tests.capture import random_writer
from tests.capture.random_writer import UNARY, Writer

HEADER = random_writer.HEADER + '''

import copy, heapq, bisect, string, re, sys, types, typing, numbers, textwrap, logging, warnings, inspect
import numpy as np


class Scaled:
    """A descriptor that keeps its value in the instance."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return self if instance is None else getattr(instance, self.name, 1) * 2

    def __set__(self, instance, value):
        if value == 99:
            raise ValueError(self.name)
        setattr(instance, self.name, value)

    def __delete__(self, instance):
        delattr(instance, self.name)


class Lazy:
    """A descriptor without `__set__`: what the instance holds hides it."""

    def __init__(self, function):
        self.function = function

    def __get__(self, instance, owner):
        value = self.function(instance)
        instance.__dict__[self.function.__name__] = value
        return value


class Meta(type):
    def __call__(cls, *args, **kwargs):
        made = super().__call__(*args, **kwargs)
        made.tagged = cls.__name__
        return made

    def __contains__(cls, item):
        return item == cls.__name__

    @property
    def shout(cls):
        return cls.__name__.upper()


class Tagged(metaclass=Meta):
    registry = {}
    size = Scaled()

    def __init_subclass__(cls, /, key="none", **kwargs):
        super().__init_subclass__(**kwargs)
        Tagged.registry[key] = cls.__name__

    def __init__(self, size=1):
        self.size = size

    @Lazy
    def later(self):
        return self.size + 1

    @functools.cached_property
    def cached(self):
        LOG.append("cached")
        return self.size * 3


class Slotted:
    __slots__ = ("first", "second")

    def __init__(self, first, second=0):
        self.first, self.second = first, second

    def __iter__(self):
        yield self.first
        yield self.second

    def __lt__(self, other):
        return self.second < other.second

    def __copy__(self):
        return Slotted(self.first, self.second + 1)


@functools.total_ordering
class Ranked:
    def __init__(self, rank):
        self.rank = rank

    def __eq__(self, other):
        return self.rank == other.rank

    def __lt__(self, other):
        return self.rank < other.rank

    __hash__ = None


class Watched(dict):
    def __setitem__(self, key, value):
        LOG.append(key)
        super().__setitem__(key, value)

    def __missing__(self, key):
        return len(self)


class Grown(list):
    def append(self, item):
        super().append(item)
        super().append(len(self))


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


@dataclasses.dataclass(order=True, frozen=True)
class Fixed:
    rank: int
    parts: tuple = ()
    names: typing.ClassVar[list] = []


@dataclasses.dataclass
class Filled:
    a: object = None
    items: list = dataclasses.field(default_factory=list)
    total: int = dataclasses.field(init=False, default=0)

    def __post_init__(self):
        self.total = len(self.items) + 1


@functools.singledispatch
def told(value):
    return "other"


@told.register
def _(value: int):
    return "int"


@told.register
def _(value: list):
    return f"list {len(value)}"


@functools.lru_cache(None)
def remembered(k):
    return k * 7 + 1


def outer_of(t, *parts, first=1, **named):
    def middle(k):
        nonlocal first
        first += k

        def inner():
            nonlocal t
            t = t + first
            return t
        return inner
    return middle(len(parts))(), first, sorted(named)


def returns_late(t, log, k):
    for turn in range(3):
        try:
            if turn == k:
                return t * turn
            log.append(turn)
        finally:
            log.append("end")
            if k == 7:
                return t - 1
    return t


def delegates(t, k):
    got = yield from produce(t, k)
    try:
        yield t * got
    finally:
        LOG.append("delegated")


def tree_sum(tree):
    if isinstance(tree, (list, tuple)):
        return sum(tree_sum(part) for part in tree)
    if isinstance(tree, dict):
        return sum(map(tree_sum, tree.values()))
    return tree if isinstance(tree, (int, float, torch.Tensor)) else 0
'''


class Wide(Writer):
    """Writes one of them."""

    def tensor_of(self, t: str, k: str) -> str:
        if not self.chance(0.3):
            return super().tensor_of(t, k)
        tensor = self.tensor
        return self.one(
            lambda: f"({t} * Tagged({k}).size)", lambda: f"({t} + Tagged({k}).later)", lambda: f"({t} * Tagged(2).cached)", lambda: f"copy.copy({t})",
            lambda: f"copy.deepcopy(Point({k}, 2)).a * {t}", lambda: f"outer_of({t}, 1, 2, first={k})[0]", lambda: f"returns_late({t}, LOG, {k})",
            lambda: f"tree_sum([{t}, ({t}, {{'q': {k}}})])", lambda: f"operator.itemgetter(0)([{tensor()}])", lambda: f"operator.attrgetter('a')(Point({t}))",
            lambda: f"operator.methodcaller('mul', {k})({t})", lambda: f"next(delegates({t}, 2))", lambda: f"list(delegates({t}, 1))[-1]",
            lambda: f"Slotted({t}, {k}).first", lambda: f"sum(itertools.starmap(operator.mul, [({t}, 2), ({t}, {k})]))", lambda: f"({t} * remembered({k}))",
            lambda: f"torch.from_numpy(np.ones({t}.shape[0])).to({t}.dtype) * {t}", lambda: f"torch.tensor(np.arange({t}.shape[0]) * 0.5).to({t}.dtype)",
            lambda: f"Watched(a={t})['a']", lambda: f"(lambda *a, **k: a[-1] * len(k))(1, {t}, z=1)", lambda: f"functools.reduce(torch.add, [{t}, {tensor()}], {t})",
            lambda: f"types.SimpleNamespace(v={t}).v", lambda: f"collections.ChainMap({{'v': {t}}}, table)['v']", lambda: f"getattr(Tagged(), 'size') * {t}",
            lambda: f"({t} + len([*zip('abc', range(9))]))", lambda: f"type('Q', (Box,), {{'step': {k}}})(1)({t})", lambda: f"eval('a + 1', {{'a': {t}}})",
            lambda: f"({t} + globals()['G'])", lambda: f"{t}.apply_(abs) if False else {t}", lambda: f"np.add({t}.detach(), 1) * {t}" if self.chance(0.3) else t)

    def number(self) -> str:
        if not self.chance(0.25):
            return super().number()
        a = self.random.choice(self.numbers)
        return self.one(f"Tagged({a}).size", "len(Tagged.registry)", f"remembered({a})", f"operator.index({a})", f"bisect.bisect([1, 3, 5], {a})", f"int(np.int64({a}))",
                        f"sum(divmod({a}, 3))", f"math.comb(5, abs({a}) % 5)", f"len(list(itertools.product('ab', repeat={a} % 3)))", "Access.READ.value",
                        f"(Access.READ | Access.WRITE).value", f"len(Watched(a={a}))", f"Watched()[{a}]", f"Fixed({a}).rank", "Filled([1]).total", f"Ranked({a}).rank",
                        f"(Ranked({a}) <= Ranked(2))", f"max({a}, 2, key=lambda v: -v)", f"len('{{:>5}}'.format({a}))", f"int(str({a}))", f"[*range(3)][{a} % 3]",
                        "Tagged.size.name.count('_')", "'Tagged' in Tagged", f"({a}).bit_length()", f"int(f'{{abs({a})}}', 16)", f"sys._getframe().f_code.co_argcount",
                        f"len(inspect.signature(helper).parameters)", f"({a} or 4)", f"({a} and 4)", f"len(locals())", f"globals().get('G', 0)")

    def text(self) -> str:
        if not self.chance(0.25):
            return super().text()
        a = self.random.choice(self.numbers)
        return self.one(f"told({a})", "told(items)", "told(flag)", "Tagged.shout", "Tagged().tagged", f"repr(Fixed({a}))", f"repr(Filled({a}))", "repr(Access.READ)", f"str(Level.LOW)",
                        f"re.sub('[0-9]', '#', str({a}))", "string.ascii_lowercase[:3]", f"textwrap.shorten('a b c', 3, placeholder='')", f"'%(k)s' % {{'k': {a}}}",
                        "'a,b'.partition(',')[2]", f"'x'.join(map(str, [{a}, 1]))", f"f'{{{a}:{{3}}}}'", f"f'{{box.value!r}}{{{a}=}}'", f"bytes([abs({a}) % 9]).hex()", "ascii('é')",
                        f"str(types.SimpleNamespace(k={a}))", f"'{{0}}{{k}}'.format(1, k={a})", "sys._getframe().f_code.co_name", "str(inspect.signature(note))", "f.__name__")

    def collection(self) -> str:
        if not self.chance(0.3):
            return super().collection()
        t, k = self.tensor, self.number
        fn = self.random.choice(UNARY)
        return self.one(
            lambda: f"[(key, list(group)) for key, group in itertools.groupby([1, 1, {k()}])]", lambda: f"list(itertools.zip_longest([{k()}], [{t()}, 2]))",
            lambda: f"list(itertools.takewhile(lambda v: v < 3, [1, {k()}, 5]))", lambda: f"list(itertools.pairwise([{k()}, {k()}, 1]))", lambda: f"list(itertools.combinations([{k()}, 2, 3], 2))",
            lambda: f"list(itertools.permutations([{k()}, {t()}]))", lambda: f"list(itertools.compress([{t()}, 2], [1, {k()}]))", lambda: f"list(itertools.dropwhile(bool, [1, 0, {k()}]))",
            lambda: f"[*map(operator.add, [{k()}], [{k()}])]", lambda: f"collections.defaultdict(list, a=[{t()}])", lambda: f"copy.copy([{t()}, {k()}])", lambda: f"copy.deepcopy({{'a': [{k()}]}})",
            lambda: f"heapq.nsmallest(2, [{k()}, 4, {k()}])", lambda: f"sorted([Ranked({k()}), Ranked(2)])[0].rank", lambda: f"sorted([3, {k()}], key=functools.cmp_to_key(lambda a, b: b - a))",
            lambda: f"list(Slotted({t()}, {k()}))", lambda: f"dict.fromkeys('ab', {k()})", lambda: f"{{key: {fn}({t()}) for key in 'ab'}}", lambda: f"{{{k()}, *[{k()}]}}", lambda: f"[*table, *items]",
            lambda: f"np.array([{k()}, 2])", lambda: f"np.stack([np.ones(2) * {k()}] * 2).sum(0).tolist()", lambda: f"{t()}.detach().numpy() + 1", lambda: f"outer_of({t()}, q={k()})", lambda: f"Grown([{k()}])",
            lambda: f"vars(types.SimpleNamespace(a={t()}))", lambda: f"dataclasses.replace(Filled({t()}), items=[{k()}])", lambda: f"dataclasses.astuple(Filled({k()}))", lambda: f"[f.name for f in dataclasses.fields(Filled)]",
            lambda: f"list(inspect.signature(helper).parameters)", lambda: f"[kind.name for kind in Access]", lambda: f"list(zip(*[[{k()}, 1], [{t()}, 2]]))", lambda: f"re.findall('[a-z]', 'a1b')",
            lambda: f"list(filter(lambda v: v is not None, [{t()}, None]))", lambda: f"Fixed({k()}) < Fixed(2)", lambda: f"{{**collections.ChainMap(table, {{'z': {k()}}})}}", lambda: f"sorted(vars(Tagged({k()})))",
            lambda: f"[(i, j) for i in range(2) if i for j in [{k()}]]", lambda: f"(lambda: [(yield), {k()}])", lambda: f"list(iter({t()}))[:1]", lambda: f"any(v.sum() > 0 for v in items)")

    def statement(self, depth: int) -> None:
        if depth < 4 and self.chance(0.12):
            return self.random.choice([self.put_slots, self.change_sets, self.finish, self.describe, self.build_class, self.say])(depth)
        super().statement(depth)

    def put_slots(self, depth: int) -> None:
        name = self.fresh("s")
        self.line(depth, f"{name} = Slotted({self.tensor()}, {self.number()})")
        self.line(depth, self.one(f"{name}.second += 1; out.append({name}.second)", f"a, b = {name}; out.append(b)", f"del {name}.first; out.append(hasattr({name}, 'first'))", f"out.append(copy.copy({name}).second)",
                                  f"out.append(min({name}, Slotted(1, 3)).second)", f"{name}.first = {self.number()}; gb(); out.append({name}.first)"))

    def change_sets(self, depth: int) -> None:
        name, k = self.fresh("z"), self.number
        self.line(depth, f"{name} = {self.one('{1, 2}', 'set()', lambda: f'{{{k()}}}', 'collections.defaultdict(int)', 'Watched(a=1)', 'Grown([1])', 'bytearray(3)', 'collections.deque([1, 2], 3)')}")
        made = self.lines[-1]
        if "Watched" in made or "defaultdict" in made:
            self.line(depth, self.one(f"{name}['b'] = {k()}", f"{name}['a'] += {k()}", f"{name}.update(c={k()})", f"{name}.setdefault('d', {k()})", f"out.append({name}['miss'])"))
        elif "Grown" in made or "deque" in made or "bytearray" in made:
            self.line(depth, self.one(f"{name}.append({self.random.randint(0, 9)})", f"{name}.extend([1, 2])", f"{name}[0] = 4", f"{name}.pop()", f"{name}.reverse()"))
        else:
            self.line(depth, self.one(f"{name}.add({k()})", f"{name} |= {{{k()}}}", f"{name}.discard({k()})", f"{name}.remove({k()})", f"{name} ^= {{1, 5}}", f"{name}.update([{k()}])", f"{name} -= {{1}}", f"{name}.pop()"))
        if self.chance(0.4):
            self.line(depth, "gb()")
        self.line(depth, f"out.append(sorted({name}, key=str) if type({name}) is set else {name})")

    def finish(self, depth: int) -> None:
        """A `try` whose `finally` leaves too."""
        self.line(depth, f"for turn in range({self.random.randint(1, 3)}):")
        self.line(depth + 1, "try:")
        self.line(depth + 2, self.one(f"if {self.test()}: return out, x", f"if turn == {self.number()}: continue", "raise KeyError(turn)", f"out.append({self.tensor()})", "x[turn + 99]", "gb()"))
        if self.chance(0.5):
            self.line(depth + 1, f"except {self.one('LookupError', 'KeyError', 'Exception')} as caught:")
            self.line(depth + 2, self.one("out.append(repr(caught))", "raise ValueError(turn) from caught", "break", "gb(); out.append(str(caught))", "out.append(sys.exc_info()[0].__name__)"))
        self.line(depth + 1, "finally:")
        self.line(depth + 2, self.one("out.append('f')", "if turn > 1: break", f"if {self.test()}: return out", "gb(); out.append(turn)", f"out.append({self.number()})"))

    def describe(self, depth: int) -> None:
        name = self.fresh("d")
        self.line(depth, f"{name} = Tagged({self.number()})")
        self.line(depth, self.one(f"{name}.size = {self.number()}; out.append({name}.size)", f"del {name}.size; out.append({name}.size)", f"{name}.size = 99", f"out.append({name}.later); out.append(vars({name}))",
                                  f"{name}.later = 3; out.append({name}.later)", f"out.append({name}.cached); gb(); out.append({name}.cached)", f"{name}.size += 1; out.append({name}.size)", f"out.append({name}.tagged)"))

    def build_class(self, depth: int) -> None:
        name = self.fresh("K")
        self.line(depth, f"class {name}(Tagged, key={self.text()}):")
        self.line(depth + 1, self.one("extra = Scaled()", f"size = {self.number()}", "def __len__(self): return 4", f"@property\n{'    ' * (depth + 1)}def size(self): return 5", "__slots__ = ()"))
        self.line(depth, self.one(f"out.append(Tagged.registry.popitem())", f"out.append({name}.__name__)", f"out.append(issubclass({name}, Tagged))", f"out.append({name}.__mro__[1].__name__)", f"out.append(len({name}(2)))"))

    def say(self, depth: int) -> None:
        self.line(depth, self.one(f"logging.getLogger('program').info('%s', {self.number()})", f"globals()['TOTAL'] = {self.number()}", f"exec('LOG.append(1)')", "warnings.warn('w')" if self.chance(0.2) else "pass",
                                  f"setattr(sys.modules[__name__] if __name__ in sys.modules else types.SimpleNamespace(), 'q', 1)", f"out.append(sys._getframe().f_lineno)", f"out.append([*locals()][:2])"))


def program(seed: int) -> str:
    """Source of a random program."""
    return random_writer.program(seed, Wide, HEADER)
