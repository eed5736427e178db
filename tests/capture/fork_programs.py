"""Random functions full of tests on tensors: `f(x, y, h)` assigns, nests, aliases, writes in place, returns from arms; equal seeds give equal texts.

`python -m tests.capture.fork_programs --count 2000` compares them compiled and as written: results, what shares memory with what, gradients.
"""

import argparse
import random

import rushlight as torch
from rushlight.compile import api, policy


class Writer:
    def __init__(self, seed: int):
        self.chosen, self.lines, self.seed = random.Random(seed), [], seed

    def one(self, *texts: str) -> str:
        return self.chosen.choice(texts)

    def name(self) -> str:
        return self.one("a", "b", "c", "x", "y", "h")

    def value(self) -> str:
        n, m = self.name(), self.name()
        return self.one(f"{n} * 0.5", f"{n} + {m}", f"torch.sqrt({n})", f"torch.log({n})", f"{n} / {m}", f"torch.tanh({n})", f"torch.where({n} > 0, {n}, {m})", n, f"{n}.detach()",
                        f"{n} - {n}.mean()", f"{n}.view(-1)", f"{n}[:]", f"({n} @ {m}) * {n}", f"{n}[index]", f"torch.relu({n})", f"{n}.clone()", f"{n} * count",
                        f"({n} if {self.test()} else {m})", f"clipped({n})")

    def test(self) -> str:
        n = self.name()
        return self.one(f"{n}.sum() > 0", f"{n}.max() < 1", f"torch.isnan({n}).any()", f"not ({n}.mean() > 0.2)", f"{n}.sum() > 0 and {n}.max() > 1", f"{n}[:1] > 0", f"({n} > 0).all()",
                        f"{n}[0] > 0 or {n}[1] > 0")

    def block(self, depth: int, inside: int) -> None:
        for _ in range(self.chosen.randint(1, 3)):
            self.statement(depth, inside)

    def statement(self, depth: int, inside: int) -> None:
        line = lambda text: self.lines.append("    " * depth + text)  # noqa: E731
        kind = self.chosen.random()
        if kind < 0.5 or inside > 2:
            line(f"{self.name()} = {self.value()}")
        elif kind < 0.85:
            line(f"if {self.test()}:")
            self.block(depth + 1, inside + 1)
            if self.chosen.random() < 0.5:
                line("else:")
                self.block(depth + 1, inside + 1)
        elif kind < 0.88:
            line(self.one("count += 1", "found.append(a)", f"{self.name()} = {self.name()}.data.mul_(1.5)", "a, b = b, a", "state = (a, h)", "count = 1"))
        elif kind < 0.92:
            line(f"found.append({self.name()} is {self.name()})")
        elif kind < 0.96:
            line("for t in range(2):")
            self.block(depth + 1, inside + 1)
        else:
            line(f"return {self.name()}, {self.name()} * 2" if inside else "pass")

    def text(self) -> str:
        self.block(1, 0)
        self.block(1, 0)
        end = self.one("return a, b", "return a", "return a * 1, b * 2, c * 3", "return (a + b).sum() + c.sum(), found", "return found, state[0] * 2, x")
        head = ["index = torch.tensor([0, 1, 2])", "def clipped(v):", "    n = v.norm()", "    if n > 1:", "        return v / n", "    return v",
                "def f(x, y, h):", "    a, b, c, count, found, state = x * 1, y * 2, h + 1, 0, [], (x, y)"]
        return "\n".join([*head, *self.lines, f"    {end}"]) + "\n"


def outcome(function, seed: int) -> list:
    chosen, shown = random.Random(seed), []
    for _ in range(6):
        leaves = [torch.tensor([chosen.uniform(-1, 1.5) for _ in range(3)], dtype=torch.float64) for _ in range(3)]
        for leaf in leaves[:chosen.randint(0, 3)]:
            leaf.requires_grad_()
        given = [leaf if chosen.random() < 0.3 else leaf * 1 for leaf in leaves]
        if chosen.random() < 0.2:
            given[1] = given[0]
        shown.append(look(function, given, leaves))
    return shown


def look(function, given: list, leaves: list) -> list:
    try:
        result = function(*given)
    except RuntimeError as error:
        return [type(error).__name__, str(error)[:60]]
    tensors: list = []

    def walk(value) -> list:
        if isinstance(value, torch.Tensor):
            tensors.append(value)
            return [tuple(value.shape), value.stride(), str(value.dtype), value.requires_grad, value.is_leaf, value.detach().tolist()]
        return [walk(item) for item in value] if isinstance(value, (tuple, list)) else [value]

    seen = walk(result)
    every = [*tensors, *given]
    shared = [[one is other, one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()] for one in every for other in every]
    total = sum((one.sum() for one in tensors if one.requires_grad), torch.zeros((), dtype=torch.float64))
    grads = []
    if total.requires_grad:
        try:
            total.backward()
            grads = [None if leaf.grad is None else leaf.grad.tolist() for leaf in leaves]
        except RuntimeError as error:
            grads = [str(error)[:30]]
    return [seen, shared, [one.detach().tolist() for one in given], grads]


class Placed:
    """Lets the eager backend stand for our own programs, so that forks are taken without compiling machine code."""

    def __enter__(self):
        self.before = policy.PLACED
        policy.PLACED = (*policy.PLACED, api.find_backend("eager"))

    def __exit__(self, *exc):
        policy.PLACED = self.before


def difference(seed: int) -> tuple[str | None, int]:
    """What differs, or None; and how many tests needed no break."""
    text = Writer(seed).text()
    scope: dict = {"torch": torch}
    exec(compile(text, f"<fork {seed}>", "exec"), scope)
    want = outcome(scope["f"], seed)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    with Placed(), torch._dynamo.config.patch(break_in_loops=True, recompile_limit=64):
        made = torch.compile(scope["f"], backend="eager")
        got = outcome(made, seed)
    forks = sum(one.code.count("torch.where(") for one in made._rushlight_compiled.graphs)
    if torch._dynamo.utils.counters["faults"]:
        return f"{text}\nfaults: {dict(torch._dynamo.utils.counters['faults'])}", forks
    return (None if same(want, got) else f"{text}\nwant {want}\ngot  {got}"), forks


def same(one, other) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other or one != one and other != other or isinstance(one, float) and isinstance(other, float) and abs(one - other) < 1e-9 * (1 + abs(one))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    failed, forks = [], 0
    for seed in range(options.first, options.first + options.count):
        found, count = difference(seed)
        forks += count
        if found is not None:
            failed.append(seed)
            if len(failed) < 4:
                print(f"--- {seed}\n{found}", flush=True)
    print(f"{len(failed)} of {options.count} differ: {failed[:50]}; {forks} calls of where in their graphs")
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())
