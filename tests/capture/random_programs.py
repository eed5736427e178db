"""Runs random programs compiled and as written and compares all that can be seen of them.

`python -m tests.capture.random_programs --count 3000` is the full run; `--first` is the first seed, `--show N` prints N
programs that differ, made as small as they can be.  A program is called several times with other sizes, values and flags, and what it reads from
outside changes in between.  Compared are results (their numbers, layout, and which objects and memory they share),
arguments, globals, printed text, exceptions with their lines, random numbers and gradients.
"""

import argparse
import ast
import collections
import contextlib
import enum
import gc
import inspect
import io
import itertools
import linecache
import math
import random
import re
import sys
import traceback
import types

import numpy as np

import rushlight as torch
from rushlight.capture.machine import Generator
from tests.capture import random_writer, wide_writer, wider_writer

# What happens between two calls.
EVENTS = [
    "G += 1", "G = 2.5", "net.train()", "net.eval()", "net.lin.register_forward_hook(lambda m, i, o: o + 1)", "net.lin.weight.data.add_(0.5)",
    "net.lin.weight = nn.Parameter(torch.ones(3, 3).double())", "Box.step = 5", "Box.scale = lambda self, t, by=1: t - by", "helper.__defaults__ = (3,)",
    "LOG.clear()", "net.drop.p = 0.0", "Box.__len__ = lambda self: 3", "Box.twice = property(lambda self: self.value + 7)", "net.parts.append(nn.Tanh())",
    "net.register_forward_pre_hook(lambda m, i: (i[0] * 2,))", "net.__class__ = type('Sub', (Net,), {'forward': lambda self, t: t * 2})",
    "native = torch.compiler.disable(lambda v, *m: v * 2)", "torch.set_default_dtype(torch.float64)", "torch.set_grad_enabled(False)",
    "torch.set_grad_enabled(True)", "deep = lambda t, k: t - k", "helper.__code__ = (lambda t, k=2, *r, z=0, **n: t + k).__code__", "Box.extra = 3",
    "net.lin = nn.Linear(3, 3, bias=False).double()", "CACHE[1] = 2", "math = types_like_math", "Special.__bases__ = (Point,)", "net.calls = True",
]


def arguments(scope, chosen):
    """The arguments of one call, and the leaves that may get a gradient."""
    size = chosen.choice([3, 3, 3, 3, 4, 5])
    dtype = chosen.choice([torch.float64, torch.float64, torch.float64, torch.float32])
    leaf = torch.linspace(-1, 1.5, size, dtype=dtype)
    other = torch.linspace(0.5, 2, size, dtype=dtype)
    if chosen.random() < 0.4:
        leaf.requires_grad_()
    x = leaf * 1.0 if chosen.random() < 0.7 else leaf
    y = chosen.choice([other, other, other, x, x.view(-1), x[:], x.detach()])
    n = chosen.choice([2, 2, 2, 1, 3, 5, 0, 7, True, -1])
    flag = chosen.choice([True, True, False, None, "text", 1, 2.5])
    items = [torch.ones(size, dtype=dtype), torch.linspace(0, 1, size, dtype=dtype), chosen.choice([x, other * 2])][:chosen.choice([3, 3, 3, 2])]
    table = {"a": torch.full((size,), 0.5, dtype=dtype), "b": items[0]}
    if chosen.random() < 0.2:
        table["c"] = chosen.choice([3, y])
    box = (scope["Box"] if chosen.random() < 0.7 else scope["Special"])(chosen.choice([n, n + 1, 2]))
    return (x, y, n, flag, items, table, box), [leaf, other]


class Snapshot:
    """A value as nested lists that tell all that can be seen of it: identities and shared memory as numbers."""

    def __init__(self, loose):
        self.seen, self.memory, self.keep = {}, {}, []
        self.loose = loose  # whether strides may differ

    def place_of(self, value):
        """The number of the storage that a tensor lies in."""
        return self.memory.setdefault(value.untyped_storage().data_ptr(), len(self.memory))

    def of(self, value):
        kind = type(value)
        if value is None or kind in (bool, int, str, bytes):
            return [kind.__name__, value]
        if kind in (float, complex):
            return ["float", np.asarray(value)]
        if isinstance(value, enum.Enum):
            return [kind.__name__, value.name]
        if kind in (tuple, torch.Size):
            return [kind.__name__, *map(self.of, value)]
        number = self.seen.get(id(value))
        if number is not None:
            return ["seen", number]
        self.seen[id(value)] = len(self.seen)
        self.keep.append(value)
        if isinstance(value, torch.Tensor):
            array = value.detach().numpy()
            memory = self.place_of(value) if value.numel() else None
            return ["tensor", kind.__name__, memory, tuple(value.shape), [] if self.loose else value.stride(), str(value.dtype), value.requires_grad, value.is_leaf, np.array(array)]
        if isinstance(value, dict):
            return [kind.__name__, *([self.of(key), self.of(item)] for key, item in value.items())]
        if isinstance(value, (set, frozenset)):
            return [kind.__name__, *sorted(map(repr, value))]
        if isinstance(value, (list, tuple, collections.deque)):
            return [kind.__name__, *map(self.of, value)]
        if isinstance(value, np.generic):
            return [kind.__name__, np.asarray(value)]
        if isinstance(value, BaseException):
            return [kind.__name__, self.of(value.args), lines_of(value), self.of(value.__cause__), self.of(value.__context__), value.__suppress_context__]
        if isinstance(value, (types.GeneratorType, Generator, *TURNS)):  # a captured `zip` of Python code is a generator
            return ["generator", *map(self.of, itertools.islice(value, 5))]
        if isinstance(value, (types.FunctionType, type, types.ModuleType)):
            return [kind.__name__, getattr(value, "__qualname__", value.__name__)]
        if isinstance(value, torch.nn.Module):
            return [kind.__name__, value.training, self.of(getattr(value, "calls", None)), len(value._forward_hooks), self.of(dict(value.state_dict(keep_vars=True)))]
        if hasattr(value, "__dict__"):
            return [kind.__name__, *([key, self.of(item)] for key, item in vars(value).items())]
        return [kind.__name__, str(value) if isinstance(value, (slice, range)) else ""]


def lines_of(error):
    lines = [f"{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith("<program")]
    if isinstance(error, UnboundLocalError) and sys.version_info < (3, 12):
        lines[-1:] = [line.partition(" ")[2] for line in lines[-1:]]  # warm code does a store and the load after it as one, on the store's line
    return lines


def same(one, other, exact):
    """Whether two snapshots tell the same; numbers may differ by rounding if not `exact`."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if exact or one.dtype.kind not in "fc":
            return np.array_equal(one, other, equal_nan=one.dtype.kind in "fc") and np.array_equal(np.signbit(one), np.signbit(other))
        rough = 1e-3 if one.dtype == np.float32 else 1e-7
        return np.allclose(one, other, rtol=rough, atol=rough, equal_nan=True)
    if isinstance(one, str) and not exact:  # a compiled graph is one node of the history, and its name may wrap a line
        return isinstance(other, str) and GRAD_FN.sub("", one).split() == GRAD_FN.sub("", other).split()
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(same(a, b, exact) for a, b in zip(one, other))
    return type(one) is type(other) and one == other


def first_difference(one, other, exact, path=""):
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other):
        for at, (a, b) in enumerate(zip(one, other)):
            if not same(a, b, exact):
                return first_difference(a, b, exact, f"{path}[{at}]")
    if isinstance(one, list) and isinstance(other, list):
        at = next((at for at, (a, b) in enumerate(zip(one, other)) if not same(a, b, exact)), min(len(one), len(other)))
        one, other, path = one[at:], other[at:], f"{path}[{at}:]"
    return f"{path}: want {str(one)[:600]}\n{' ' * len(path)}   got {str(other)[:600]}"


def gradients(result, leaves, parameters):
    """Backward from all floating results; the gradients, or the type of the error."""
    found, seen = [], set()

    def collect(value, depth=0):
        if isinstance(value, torch.Tensor):
            if value.requires_grad and id(value) not in seen and value.is_floating_point():
                seen.add(id(value))
                found.append(value)
        elif depth < 4 and isinstance(value, (list, tuple, dict)):
            for item in value.values() if isinstance(value, dict) else value:
                collect(item, depth + 1)
    collect(result)
    try:
        if found:
            with torch.enable_grad():
                sum((value.double() * (at + 1)).sum() for at, value in enumerate(found)).backward()
    except RuntimeError as error:
        return "modified since" if "modified by an inplace operation" in str(error) else type(error).__name__
    grads = [None if leaf._grad is None else np.array(leaf._grad.numpy()) for leaf in (*leaves, *parameters)]
    for leaf in (*leaves, *parameters):
        leaf.grad = None
    return [len(found), *grads]


def clear_frames():
    """Let the frames in tracebacks of kept exceptions go.

    They hold all that the function named, such as a generator in the middle of its `try`, for as long as the exception lives.  Captured
    pieces have only the lines of such frames, so there what they named goes when the call ends.
    """
    for error in [item for item in gc.get_objects(0) if isinstance(item, BaseException)]:
        place = error.__traceback__
        while place is not None:
            if not place.tb_frame.f_code.co_flags & inspect.CO_GENERATOR:
                with contextlib.suppress(RuntimeError):  # it runs
                    place.tb_frame.clear()
            place = place.tb_next


def refused(want, got):
    """Take over what was wanted where a native backward refuses, since an input of its graph was written to afterwards.

    It keeps inputs and computes cheap values of the forward again, where an op of its own would have kept its result: the backward of
    `tanh(y) * 2` needs y.  PyTorch's inductor raises the same error for the same programs.
    """
    for one, other in zip(want, got):
        if other[7] == "modified since" and one[7] != "RuntimeError":
            other[7] = one[7]


TURNS = (zip, map, filter, enumerate, itertools.count)
GRAD_FN = re.compile(r"grad_fn=<\w+>")
GLOBALS = ("G", "TOTAL", "LOG", "CACHE", "net", "Box", "helper")


def outcomes(source, name, seed, make, loose, calls=7):
    """What each call shows."""
    scope = {"torch": torch, "__name__": "program", "types_like_math": types.SimpleNamespace(**vars(math))}
    torch.manual_seed(0)
    exec(compile(source, name, "exec"), scope)
    function, chosen, found = make(scope["f"]), random.Random(seed), []
    kept = []
    try:
        for _ in range(calls):
            made, leaves = arguments(scope, chosen)
            torch.manual_seed(seed)
            out, snapshot, result = io.StringIO(), Snapshot(loose), None
            with contextlib.redirect_stdout(out):
                try:
                    result = function(*made)
                    clear_frames()
                    shown = ["result", snapshot.of(result)]
                except Exception as error:
                    clear_frames()
                    shown = ["raised", str(error), snapshot.of(error)]
            after = snapshot.of(list(made))
            state = [[key, snapshot.of(scope.get(key))] for key in GLOBALS]
            classes = [sorted(vars(scope["Box"])), scope["Box"].step]
            drawn = torch.rand(1).item()
            grads = gradients(result, leaves, scope["net"].parameters() if isinstance(scope["net"], torch.nn.Module) else ())
            found.append([shown, after, state, classes, out.getvalue(), torch.is_grad_enabled(), drawn, grads])
            kept.append((result, made))
            for _ in range(chosen.choice([0, 0, 0, 1, 1, 2])):
                try:
                    exec(chosen.choice(EVENTS), scope)
                except Exception as error:
                    found[-1].append(type(error).__name__)
    finally:
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
    return found


def options_of(seed):
    """How a program is compiled: backend, loops, dynamic."""
    return {"backend": "inductor" if seed % 3 == 2 else "eager", "dynamic": {0: True, 1: False}.get(seed % 7)}, bool(seed // 3 % 2)


def difference(source, seed):
    """The first difference of a program between compiled and as written, or None."""
    name = f"<program {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    options, loops = options_of(seed)
    torch._dynamo.reset()
    gc.collect()
    gc.disable()  # what a call leaves behind is freed when the call ends, or it differs
    exact = options["backend"] == "eager"
    want = outcomes(source, name, seed, lambda f: f, not exact)
    with torch._dynamo.config.patch(break_in_loops=loops):
        try:
            got = outcomes(source, name, seed, lambda f: torch.compile(f, **options), not exact)
        except Exception:
            return traceback.format_exc()[-1500:]
        finally:
            gc.enable()
    if torch._dynamo.utils.counters["faults"]:
        return f"errors of the interpreter's own: {torch._dynamo.utils.counters.pop('faults')}"
    if not exact:
        refused(want, got)
    return None if same(want, got, exact) else first_difference(want, got, exact)


def smaller(source):
    """The program with one statement of `f` less, for each of them; large ones first."""
    begin = source.index("def f(x, y")
    head, text = source[:begin], source[begin:]
    for wanted in itertools.count():
        tree = ast.parse(text)
        found = [(block, at) for node in ast.walk(tree) for field in ("body", "orelse", "finalbody", "handlers")
                 if isinstance(block := getattr(node, field, None), list) and node is not tree for at in range(len(block))
                 if not isinstance(node, ast.While)]  # nothing that may count its turns
        found.sort(key=lambda place: -len(list(ast.walk(place[0][place[1]]))))
        if wanted >= 2 * len(found):
            return
        block, at = found[wanted // 2]
        if wanted % 2:  # keep what is inside
            block[at:at + 1] = getattr(block[at], "body", [ast.Pass()])
        else:
            del block[at]
        try:
            made = ast.unparse(tree).replace("\n\n", "\n")
            compile(made, "<smaller>", "exec")
        except (SyntaxError, ValueError):
            continue
        yield f"{head}{made}\n"


def shrink(source, seed):
    """The smallest program found that still differs."""
    while True:
        for made in smaller(source):
            if len(made) < len(source) and difference(made, seed) is not None:
                source = made
                break
        else:
            return source


def check(seed, shrunk=False, writer=random_writer):
    """What to say of a program that differs, or None."""
    source = writer.program(seed)
    found = difference(source, seed)
    if found is None:
        return None
    if shrunk:
        source = shrink(source, seed)
        found = difference(source, seed)
    options, loops = options_of(seed)
    first = writer.HEADER.count("\n") + 3
    text = "\n".join(f"{at:4} {line}" for at, line in enumerate(source.splitlines(), 1) if at >= first)
    return f"program {seed} {options} loops={loops}\n{text}\n{found}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--show", type=int, default=5)
    parser.add_argument("--wide", action="store_true", help="programs of more kinds")
    parser.add_argument("--wider", action="store_true", help="programs of yet more kinds")
    options = parser.parse_args()
    writer = wider_writer if options.wider else wide_writer if options.wide else random_writer
    failed = []
    for seed in range(options.first, options.first + options.count):
        found = check(seed, shrunk=len(failed) < options.show, writer=writer)
        if found is not None:
            failed.append(seed)
            if len(failed) <= options.show:
                print(f"--- {found}", flush=True)
    print(f"{len(failed)} of {options.count} programs differ: {failed[:50]}")
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())
