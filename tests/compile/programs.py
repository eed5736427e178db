"""Random Python functions: loops, branches, containers, closures, exceptions, generators and tensor ops.

`program(seed)` gives source text of `f(x, y, n, flag, items, table, box)`; equal seeds give equal programs.
"""

import random

UNARY = ["torch.sin", "torch.cos", "torch.tanh", "torch.exp", "torch.relu", "torch.neg"]
HEADER = '''
class Box:
    def __init__(self, value):
        self.value = value
        self.log = []

    def scale(self, t):
        self.log.append(self.value)
        return t * self.value

    @property
    def twice(self):
        return self.value * 2


class Scope:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, kind, value, trace):
        self.log.append("out" if kind is None else kind.__name__)
        return kind is KeyError


def helper(t, k=2, *rest, **named):
    if k > 3:
        return torch.cos(t) - k
    return t * k + len(rest) + len(named)


def produce(t, k):
    for i in range(k):
        got = yield t + i
        if got:
            t = t * got
    return k


def deep(t, k):
    return t if k <= 0 else deep(torch.sin(t) + k, k - 1)
'''


class Writer:
    """Writes one random program."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.tensors, self.numbers = ["x", "y"], ["n"]
        self.count = 0

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def pick(self, *options):
        return self.random.choice(options)

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def tensor(self) -> str:
        t, k = self.random.choice(self.tensors), self.number()
        return self.pick(
            lambda: f"{self.random.choice(UNARY)}({t})", lambda: f"({t} + {self.random.choice(self.tensors)})",
            lambda: f"({t} * {k})", lambda: f"({t} - {self.random.choice(self.tensors)} * 0.5)", lambda: f"helper({t}, {k})",
            lambda: f"helper({t}, {k}, 1, z=2)", lambda: f"torch.clamp({t}, -2, 2)", lambda: f"box.scale({t})",
            lambda: f"({t} if {self.test()} else -{t})", lambda: f"torch.where({t} > 0, {t}, {t} * 0.1)",
            lambda: f"sum([{t}, {t} * 2])", lambda: f"deep({t}, {self.random.randint(0, 3)})", lambda: f"{t}.reshape(-1)[:].reshape({t}.shape)",
            lambda: f"items[{self.random.randint(0, 1)}] * 1.0", lambda: f"(lambda a, b={k}: a + b)({t})", lambda: f"{t}.clone()",
            lambda: f"table.get('{self.pick('a', 'b', 'q')}', {t})", lambda: f"({t} + {t}.sum())", lambda: f"({t} * {t}.shape[0])",
            lambda: f"torch.stack([{t}, {t}]).mean(0)", lambda: f"max([{t}, {t}], key=lambda v: v.shape[0])",
        )()

    def number(self) -> str:
        a = self.random.choice(self.numbers)
        return self.pick(lambda: a, lambda: str(self.random.randint(-2, 5)), lambda: f"({a} + {self.random.randint(-1, 3)})",
                         lambda: "len(items)", lambda: f"({a} * 2)", lambda: f"({a} % 3)", lambda: "x.shape[0]", lambda: "box.value",
                         lambda: "box.twice", lambda: "len(table)", lambda: f"max({a}, 1)", lambda: f"abs({a})")()

    def test(self) -> str:
        return self.pick(lambda: f"{self.number()} > {self.number()}", lambda: "flag", lambda: "not flag", lambda: "'a' in table",
                         lambda: f"{self.number()} == {self.random.randint(0, 4)}", lambda: "isinstance(n, int)",
                         lambda: f"{self.number()} % 2", lambda: "x is y", lambda: "len(box.log) > 2")()

    def statement(self, depth: int, loops: int) -> None:
        kind = self.random.random()
        if kind < 0.3:
            name = self.fresh("t") if self.random.random() < 0.6 else self.random.choice([*self.tensors[2:], "x"])
            self.line(depth, f"{name} = {self.tensor()}")
            if name not in self.tensors and depth == 1:
                self.tensors.append(name)
        elif kind < 0.38:
            name = self.fresh("k")
            self.line(depth, f"{name} = {self.number()}")
            if depth == 1:
                self.numbers.append(name)
        elif kind < 0.48:
            self.line(depth, self.pick(
                f"items.append({self.tensor()})", f"table['{self.pick('a', 'c', 'd')}'] = {self.tensor()}", f"box.value += {self.random.randint(0, 2)}",
                f"box.log.append({self.number()})", f"items[0] = {self.tensor()}", "table.pop('c', None)", f"box.extra = {self.tensor()}",
                "items.reverse()", f"out.append({self.tensor()})", f"out.append({self.number()})", f"out.extend([{self.number()}, {self.tensor()}])",
                f"table.update(z={self.number()})", f"{self.random.choice(self.tensors)}.add_(1)"))
        elif kind < 0.58 and depth < 4:
            self.line(depth, f"if {self.test()}:")
            self.block(depth + 1, loops)
            if self.random.random() < 0.5:
                self.line(depth, "else:")
                self.block(depth + 1, loops)
        elif kind < 0.68 and depth < 4 and loops < 2:
            name = self.fresh("i")
            self.line(depth, self.pick(f"for {name} in range({self.random.randint(0, 3)}):", f"for {name} in range(n % 4):",
                                       f"for {name}, _ in enumerate(list(items)):", f"for {name} in [1, 2, 3][:n % 3]:"))
            self.numbers.append(name)
            self.block(depth + 1, loops + 1)
            if self.random.random() < 0.3:
                self.line(depth + 1, f"if {self.test()}:")
                self.line(depth + 2, self.pick("break", "continue"))
            self.numbers.remove(name)
        elif kind < 0.76 and depth < 4:
            self.line(depth, "try:")
            self.block(depth + 1, loops)
            self.line(depth + 1, self.pick("table['missing']", "[][n]", "raise ValueError(n)", "out.append(1)", f"if {self.test()}: raise KeyError('k')",
                                           "x @ torch.ones(99, 99)"))
            self.line(depth, self.pick("except (KeyError, IndexError) as error:", "except Exception as error:", "except ValueError as error:"))
            self.line(depth + 1, "out.append(type(error).__name__)")
            if self.random.random() < 0.5:
                self.line(depth, "finally:")
                self.block(depth + 1, loops)
        elif kind < 0.82 and depth < 4:
            self.line(depth, self.pick("with torch.no_grad():", "with Scope(out):", "with Scope(out), torch.no_grad():"))
            self.block(depth + 1, loops)
        elif kind < 0.9:
            self.line(depth, self.pick(
                f"out.append([{self.random.choice(UNARY)}(v) for v in items if {self.test()}])", f"out += list(produce({self.tensor()}, 2))",
                "out.append({k: v for k, v in table.items() if k != 'a'})", f"out.append(sorted([{self.number()}, {self.number()}], key=lambda v: -v))",
                "out.append(tuple(a + b for a, b in zip(items, items)))", f"out.append(any(v > 2 for v in [{self.number()}, {self.number()}]))",
                "out.append(f'{n}-{len(items)}-{flag!r:>6}')", f"g = produce({self.tensor()}, 2); out.append(next(g)); out.append(g.send(2))"))
        elif kind < 0.96:
            self.line(depth, self.pick(
                f"out.append({self.random.choice(self.tensors)}.sum().item())", f"if {self.random.choice(self.tensors)}.sum() > 0: out.append('positive')",
                "torch._dynamo.graph_break()", f"out.append(float({self.random.choice(self.tensors)}.mean()) > 0)", "untraced(out)",
                f"out.append(bool(({self.random.choice(self.tensors)} > 1).any()))"))
        else:
            cell = self.fresh("c")
            self.line(depth, f"{cell} = {self.number()}")
            self.line(depth, f"def inner{cell}(t):")
            self.line(depth + 1, f"nonlocal {cell}")
            self.line(depth + 1, f"{cell} += 1")
            self.line(depth + 1, f"return t + {cell}")
            self.line(depth, f"out.append(inner{cell}({self.tensor()}) + inner{cell}(x)); out.append({cell})")

    def block(self, depth: int, loops: int) -> None:
        tensors, numbers = list(self.tensors), list(self.numbers)
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth, loops)
        self.tensors, self.numbers = tensors, numbers


def program(seed: int) -> str:
    """Source of a random program."""
    writer = Writer(seed)
    writer.line(0, "def f(x, y, n, flag, items, table, box):")
    writer.line(1, "out = []")
    for _ in range(writer.random.randint(3, 9)):
        writer.statement(1, 0)
    writer.line(1, f"return out, {', '.join(writer.tensors)}, n")
    return HEADER + "\n\n" + "\n".join(writer.lines) + "\n"
