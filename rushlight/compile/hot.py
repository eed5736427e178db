"""The hot path of a compiled function: one Python function, written for the very objects that it was last called with.

After some hits of one entry its function is written anew with the user's own parameters: the guards that are words of memory
(facts.py) and the call of the program are one builtin, what is left of both is Python around it.  Whatever has changed, and
whatever it is not made for, goes on to the function written before and at last the ordinary way (dispatch.py), which loses
nothing but the time for the looks.
Read `Writer.directly` first.
"""

import re
import threading
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from ..autograd.node import Freed
from ..capture.guards import Guard, define
from ..capture.sources import LOADERS, Source, Text
from ..capture.trace import Entry, Failed, guard_names
from ..capture.traced import MODES
from ..core import memory, modes
from ..core.clock import TIMES, Follower, tick, user_frame
from ..core.parallel import free_in_child
from ..kernels import launch, pool
from ..kernels.differentiate import CompiledBackward
from ..kernels.launch import Direct
from ..kernels.making import Item, Making
from ..kernels.rows import ADDRESS, LOAD, NUMBER, OBJECT, TENSORS, TYPE, VALUE, places
from ..kernels.runtime import Misfit
from ..kernels.step import Spent
from ..kernels.structs import DATA
from ..tensor import OutputEdge, Tensor, counter_of, new, wrap
from .config import config
from .facts import Facts, Left

HITS = 3  # of one entry until its function is written
KEPT = 3  # functions, for modes, sizes or flags that take turns
QUICK = 300e-6  # seconds; a call that takes longer lets go of the GIL, and saves little here
PATIENCE = 48  # hits until a function counts as one of longer calls
RESULT, RESULTS = re.compile(r"o\[\d+\]$"), re.compile(r"\bo\[(\d+)\]")
NONE: Item = ("object", None)
UNPACKED, PACKED = "def call(*args, **kwargs):", "def packed(args, kwargs):"  # heads of functions that know no names of their arguments
WORD = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|(?<![\w.])[A-Za-z_]\w*\b(?! *=[^=])""")  # a string, or a name that is read
TAKEN = re.compile(r"([SKvat]\d+|o|result|spent|node|frame)$|R_")  # names that the text uses itself


WRITING = threading.Lock()
free_in_child(WRITING)
MISSING = object()  # stands for an argument that was not given


def given_of(optional: dict) -> dict:
    return {name: value for name, value in optional.items() if value is not MISSING}


class Hot:
    """The function that a compiled function is for now, and when to write it anew."""

    def __init__(self, function: FunctionType, first: tuple, cold: Callable):
        self.function, self.first = function, first
        self.cold = cold
        self.scope: dict[str, Any] = {"__name__": __name__, "R_cold": cold}
        exec("def call(*args, **kwargs):\n  result = [args, kwargs]\n  del args, kwargs\n  return R_cold(result)", self.scope)
        self.call: Any = self.scope.pop("call")
        self.plain: CodeType = self.call.__code__
        # The same for a caller that has a tuple and a dict of its own (module.py): nothing is packed once more.
        exec(f"{PACKED} return R_cold([args, kwargs])", self.scope)
        self.packed: Any = self.scope.pop("packed")
        self.packed_plain: CodeType = self.packed.__code__
        self.hits: dict[Entry, tuple[int, float]] = {}  # the ordinary way: how many, and the seconds of the quickest, as any may have had to wait
        self.needed, self.serial = HITS, 0
        self.recent: list[tuple] = []  # the shapes of the last hits
        self.chain: list[Written] = []  # the functions written last, newest first: each goes on to the next
        self.versions: dict[int, int] = {}  # of the dicts that the present function looks at, which may be gone by now
        self.restless: set[int] = set()
        self.tell: Callable | None = None  # is told of each launcher that is the whole of a call `packed`, or that none is (module.py)
        self.taken: dict[int, int] = {}  # how often a function took over the memory of an entry's gradients

    def hit(self, entry: Entry, roots: list, seconds: float, binder: Callable, after: Callable) -> None:
        """Count a hit the ordinary way; when it is one of many, write the function for it."""
        hits, quickest = self.hits.get(entry, (0, seconds))
        hits, quickest = self.hits[entry] = hits + 1, min(quickest, seconds)
        shapes = tuple([root._array.shape for root in roots if type(root) in TENSORS])
        again = shapes in self.recent  # what is written holds for these sizes only: not worth it where each call brings others
        self.recent = [shapes, *self.recent[:KEPT - 1]]
        if hits >= self.needed and again:
            self.hits.clear()
            self.needed = min(self.needed * 2, 1 << 16)
            if launch.supported() and WRITING.acquire(blocking=False):
                try:
                    self.arm(entry, roots, quickest, binder, after)
                finally:
                    WRITING.release()

    def reset(self) -> None:
        """Back to the ordinary way."""
        self.call.__code__, self.call.__defaults__, self.call.__kwdefaults__ = self.plain, None, None
        self.packed.__code__ = self.packed_plain
        if self.tell is not None:
            self.tell(None)
        self.hits, self.needed, self.chain = {}, HITS, []

    def arm(self, entry: Entry, roots: list, seconds: float, binder: Callable, after: Callable) -> None:
        direct = getattr(entry.run.__globals__.get("graph"), "direct", None)
        if direct is not None and seconds > QUICK and self.needed <= PATIENCE:  # it may have had to wait for other processes
            return
        if entry.guard(*roots) is not True:  # the call has changed what it looks at
            return
        try:
            facts = self.facts(entry, roots)
            changed = {at for at, version in facts.versions.items() if self.versions.get(at, version) != version}
            if changed:
                self.restless |= changed
                facts = self.facts(entry, roots)
        except Left:
            return
        self.versions = facts.versions
        writer = Writer(self, entry, facts, binder, after)
        try:
            if direct is None or entry.recipe is None or seconds > QUICK:
                raise Left
            times = self.taken[id(entry)] = self.taken.get(id(entry), 0) + 1
            writer.directly(direct, times <= 3)  # it fails each time where someone holds them
        except Left:
            writer.ordinarily()
        self.install(writer)

    def facts(self, entry: Entry, roots: list) -> Facts:
        """What the guards ask for, as it is now."""
        facts = Facts(entry.guards, roots, self.restless)
        facts.settings(self.function, config)
        return facts

    def install(self, writer: "Writer") -> None:
        """Let the function be this one. Names of the one before stay, since it may be running; older ones go."""
        self.serial += 1
        used: dict[str, Any] = {}

        def numbered(found: re.Match) -> str:
            name = found[0]
            if name not in writer.scope:
                return name
            used[f"{name}_{self.serial}"] = writer.scope[name]
            return f"{name}_{self.serial}"

        text = WORD.sub(numbered, "\n".join(writer.text())) + "\n"
        made = define(text, "call", {})["call"]
        for name in [*self.scope]:
            number = name.rpartition("_")[2]
            if number.isdigit() and int(number) < self.serial - 1:
                del self.scope[name]
        defaults = None if writer.generic else (MISSING,) * len(self.function.__defaults__ or ())
        keywords = None if writer.generic else self.function.__kwdefaults__
        scope = {"__builtins__": __builtins__, "__name__": __name__, **used}
        own = FunctionType(made.__code__, scope, "call", defaults)
        own.__kwdefaults__ = keywords
        # What looks at a dict that has changed since will never hold again.
        still = [kept for kept in self.chain if all(writer.facts.versions.get(at, version) == version for at, version in kept.versions.items())]
        self.chain = [Written(own, scope, f"R_cold_{self.serial}", writer.facts.versions, made), *still[:KEPT - 1]]
        for kept, following in zip(self.chain, [*self.chain[1:], None]):
            kept.scope[kept.cold] = self.cold if following is None else through(following.function)
        self.scope.update(scope)
        self.call.__code__, self.call.__defaults__, self.call.__kwdefaults__ = made.__code__, defaults, keywords
        self.repack(text)
        if self.tell is not None:
            self.tell(writer.scope["R_launch"] if writer.short else None)

    def repack(self, text: str) -> None:
        """Let `packed` do what the function of this text does."""
        if text.startswith(UNPACKED):
            packed = define(text.replace(UNPACKED, PACKED, 1), "packed", {})["packed"]
        else:
            packed = define(f"{PACKED} return R_call(*args, **kwargs)\n", "packed", {})["packed"]
            self.scope["R_call"] = self.call
        self.packed.__code__ = packed.__code__
        self.packed.text = packed  # keeps its text, which is shown in tracebacks


class Written(NamedTuple):
    """A function that was written for one state of things; it may hold again."""

    function: Callable
    scope: dict[str, Any]  # its globals
    cold: str  # the name under which it finds what to do when it does not hold
    versions: dict[int, int]
    text: Any  # what keeps its text, which is shown in tracebacks


def through(function: Callable) -> Callable:
    return lambda given: function(*given.pop(0), **given.pop())


class Writer:
    """Writes one such function."""

    def __init__(self, hot: Hot, entry: Entry, facts: Facts, binder: Callable, after: Callable):
        self.hot, self.entry, self.facts = hot, entry, facts
        self.recipe: Any = entry.recipe
        given = {name: value for name, value in entry.run.__globals__.items() if name != "__builtins__"}
        self.scope: dict[str, Any] = {**given, "R_cold": hot.cold, "R_binder": binder, "R_after": after,
                                      "R_entry": entry, "R_run": entry.run,
                                      "R_missing": MISSING, "R_given": given_of,
                                      **{f"R_default{i}": value for i, value in enumerate(hot.function.__defaults__ or ())},
                                      **{f"R_first{i}": value for i, value in enumerate(hot.first)}}
        self.lines: list[str] = []
        self.numbers: list[str] = []  # the variables of `facts.varying`
        self.short = False  # whether a launcher over a module, its arguments and their names is all
        self.signature()
        self.forget = f"{' = '.join([*self.taken, *self.roots, 'None'])}"  # only the user's function itself holds its arguments
        self.otherwise = f"result = [{self.arguments}]; {self.forget}; return R_cold(result)"

    def const(self, prefix: str, value: Any) -> str:
        """A name for an object."""
        name = f"R_{prefix}{len(self.scope)}"
        self.scope[name] = value
        return name

    # -- parameters --------------------------------------------------------------------------------------------------

    def signature(self) -> None:
        """The user's parameters, so that Python binds them; `*args, **kwargs` and the binder where their names are taken."""
        function, bound = self.hot.function, len(self.hot.first)
        code = function.__code__
        names = code.co_varnames
        plain = code.co_argcount
        keyword_only = names[plain:plain + code.co_kwonlyargcount]
        count = plain + code.co_kwonlyargcount
        star = names[count] if code.co_flags & 4 else None
        stars = names[count + (star is not None)] if code.co_flags & 8 else None
        all_names = [*names[:count], *filter(None, (star, stars))]
        defaults = len(function.__defaults__ or ())
        self.generic = (bound > plain - defaults or code.co_posonlyargcount > plain - defaults
                        or any(name in self.scope or TAKEN.match(name) for name in all_names))
        self.roots = [f"S{i}" for i in range(len(all_names))]
        if self.generic or star is not None and defaults:  # what `*args` holds comes behind the optional ones
            self.generic = True
            given = "".join(f"R_first{i}, " for i in range(bound))
            self.head = UNPACKED
            self.aliases = [f"{', '.join(self.roots)}, = R_binder({given}*args, **kwargs)"] if self.roots else [f"R_binder({given}*args, **kwargs)"]
            self.arguments, self.taken = "args, kwargs", ["args", "kwargs"]
            return
        parts, passed, by_name, optional = [], [], [], []
        values = {name: name for name in all_names} | {names[i]: f"R_first{i}" for i in range(bound)}
        for at, name in enumerate(names[bound:plain], bound):
            if at >= plain - defaults:  # the default is looked up here: it may be another one at the next call
                parts.append(f"{name}=None")
                values[name] = f"R_default{at - plain + defaults} if {name} is R_missing else {name}"
                optional.append(f"{name!r}: {name}")
            else:
                parts.append(name)
                passed.append(name)
            if at + 1 == code.co_posonlyargcount:
                parts.append("/")
        if star is not None or keyword_only:
            parts.append("*" + (star or ""))
        if star is not None:
            passed.append("*" + star)
        for name in keyword_only:
            parts.append(name + ("=None" if name in (function.__kwdefaults__ or {}) else ""))
            by_name.append(f"{name!r}: {name}")
        if stars is not None:
            parts.append("**" + stars)
            by_name.append("**" + stars)
        self.taken = [name for name in all_names if name not in names[:bound]]
        self.head = f"def call({', '.join(parts)}):"
        self.aliases = [f"{root} = {values[name]}" for root, name in zip(self.roots, all_names)]
        given = f"**R_given({{{', '.join(optional)}}})"
        if self.head == UNPACKED:
            self.arguments = "args, kwargs"
            return
        self.arguments = f"({', '.join(passed)}{',' if passed else ''}), {{{', '.join([*by_name, *[given] * bool(optional)])}}}"

    def text(self) -> list[str]:
        return [self.head, *["  " + line for line in (*self.aliases, *self.lines)]]

    # -- guards ------------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """What the launcher cannot say: numbers that vary, and the guards that are left."""
        text = Text({**LOADERS, "MODES": MODES, "Defaults": modes.Defaults, **guard_names()})
        body: list[str] = []
        self.numbers = [text.source(source, body) for source in self.facts.varying]
        for guard in self.facts.left:
            body += self.condition(guard, text)
        for name, value in text.constants.items():
            if name in self.scope and self.scope[name] is not value:
                body = [re.sub(rf"\b{name}\b", f"left_{name}", line) for line in body]
                name = f"left_{name}"
            self.scope[name] = value
        if body:  # the ordinary way is gone outside of the handler: what the user's code raises there has nothing to do with this
            self.scope["R_changed"] = ValueError
            self.lines += ["o = None", "try:", *["  " + line for line in body], "except Exception:", "  o = 0", f"if o is not None: {self.otherwise}"]

    def condition(self, guard: Guard, text: Text) -> list[str]:
        loads: list[str] = []
        value = text.source(guard.source, loads) if guard.source is not None else ""
        operands = [text.const(operand) for operand in guard.operands]
        operands += [text.source(other, loads) for other in guard.others]
        if not guard.condition:  # it is enough that the value is there
            return loads
        return [*loads, f"if not ({guard.condition.format(*operands, v=value)}): raise R_changed"]

    # -- bodies ------------------------------------------------------------------------------------------------------

    def ordinarily(self) -> None:
        """Only the guards are short: the entry runs as it does otherwise."""
        self.look()
        self.scope["R_launch"] = launch.launcher(self.facts.rows, self.facts.held)
        self.scope["R_Failed"] = Failed
        names = ", ".join(self.roots)
        self.lines.append(f"if R_launch({', '.join([*self.roots, *self.numbers])}): {self.otherwise}")
        if self.entry.boxed:
            self.lines += [f"result = [{names}]", self.forget, "return R_after(R_entry, None, result)"]
        else:
            self.lines += [f"result = R_run({names})", f"if type(result) is R_Failed: return R_after(R_entry, result, [{names}])", "return result"]

    def directly(self, direct: Direct, take_over: bool) -> None:
        """The program is called with no Python in between. Raises Left, before anything is written, where it cannot be."""
        program, recipe, facts, rows = direct.program, self.recipe, self.facts, self.facts.rows
        if modes.inference_enabled():
            raise Left
        if direct.pair is not None and not modes.grad_enabled() or program.calls:  # what it calls in Python must not be called twice
            raise Left
        given = [recipe.inputs[source] if type(source) is int else source for source in direct.sources]
        spread = [self.place(source, symbol) for source, symbol in zip(given, direct.symbols)]
        if direct.differentiable and modes.grad_enabled() and any(getattr(value, "_requires_grad", False) for _, value in spread):
            raise Left
        try:
            layout = program.layout([value._array if isinstance(value, Tensor) else np.array(value) for _, value in spread])
        except Misfit:
            raise Left from None
        inputs = []
        for (register, value), symbol, expected in zip(spread, direct.symbols, layout.inputs, strict=True):
            if symbol is None:
                rows.array(register, *expected)
            inputs.append((register, DATA, LOAD) if symbol is None else self.number(register, value, symbol in layout.sizes))
        if any(np.prod(shape, dtype=np.int64) * dtype.itemsize >= memory.SMALL for shape, dtype in layout.outputs):
            raise Left
        facts.threads()
        if direct.ledger is not None:
            self.follow(direct.ledger, [self.place(recipe.inputs[source] if type(source) is int else source, None, True)[1] for source in direct.written])
        # A check that fails leaves the gradients of the call before as they are.
        taken = self.gradients(direct, layout.outputs) if take_over and direct.cut is None and not program.checks else {}
        aside = [recipe.inputs[at] for at in direct.cut.given] if direct.cut is not None else []
        for source in aside:
            if source not in facts.varying:
                self.value(source)  # raises Left while nothing is written
        making, arrays = Making(), {}
        for at, (shape, dtype) in enumerate(layout.outputs):
            if at not in taken:
                arrays[at] = making.array(shape, dtype)
        nodes, recording = [NONE] * len(direct.results), []
        if direct.pair is not None:
            nodes, recording = self.history(direct, layout, making, arrays)
        items = [NONE if at in taken else self.result(making, arrays[at], dtype, live, node) for (at, dtype, live), node in zip(direct.results, nodes)]
        skipped = {f"{owner}._grad = {text}" for owner, text, _ in recipe.gradients if RESULT.match(text) and not direct.cut and items[int(text[2:-1])] is NONE}
        after = [line for line in recipe.lines if line not in skipped]
        used = {int(number) for line in after for number in RESULTS.findall(line)}
        # One result is the answer itself, not a tuple around it.
        alone = len(used) == 1 and not recording and direct.cut is None and items[min(used)] is not NONE
        if alone:
            making.answer = items[min(used)][1]
        else:
            making.tuple([*items, *[("made", array) for array in arrays.values() if recording]])
        self.look()
        beside = list(map(self.value, aside))
        self.scope["R_launch"] = launch.launcher(rows, (facts.held, direct, layout), program, inputs, [taken.get(at) for at in range(len(layout.outputs))],
                                                 pool.pool().address, layout.table, making=making)
        lines = [f"o = R_launch({', '.join([*self.roots, *self.numbers])})", f"if o is None: {self.otherwise}", *recording]
        spent = [number for number, (_, _, live) in enumerate(direct.results) if live and direct.pair is None]
        if direct.ledger is not None or spent:
            self.scope.update(R_ledger=direct.ledger, R_user_frame=user_frame, R_Spent=Spent, R_Freed=Freed, R_tick=tick, R_new=new)
            lines += ["frame = R_user_frame(2)", "R_ledger.note(frame)"][:1 + (direct.ledger is not None)]
        if spent:
            lines += ["spent = R_new(R_Spent)", "spent.rare, spent.edges, spent.seq, spent.freed = None, (), R_tick(), R_Freed(frame)"]
            lines += [f"o[{number}]._node = spent" for number in spent if not alone or number in used]
        if direct.cut is not None:
            lines.append(f"o = {self.const('cut', direct.cut.cut)}({', '.join([f'*o[:{len(items)}]', *beside])})")
        lines += self.needed(after) + after
        self.short = (alone and not self.lines and not self.numbers and RESULTS.sub("o", lines[2]) == "return o" and self.head == UNPACKED and len(self.hot.first) == 1
                      and self.aliases == ["S0 = R_first0", "S1 = args", "S2 = kwargs"])
        self.lines += [RESULTS.sub("o", line) for line in lines] if alone else lines

    def result(self, making: Making, array: int, dtype: Any, live: bool, node: Item) -> Item:
        """A tensor for one of the program's arrays."""
        values = {"_array": ("made", array), "_dtype": ("object", dtype), "_requires_grad": ("object", live), "_node": node if live else NONE}
        return "made", making.object(Tensor, self.facts.slots, values | dict.fromkeys(("_grad", "_meta", "_shape"), NONE))

    def history(self, direct: Direct, layout: Any, making: Making, arrays: dict[int, int]) -> tuple[list[Item], list[str]]:
        """The node of each result of the first program of a pair, for the second; and lines that record it where the launcher cannot."""
        pair = direct.pair
        sources = [self.recipe.inputs[i] if i >= 0 else value for i, value in pair.sources]
        shapes = [layout.outputs[pick][0] for pick, _, differentiable in pair.picks if differentiable] if pair.open else None
        numbers = iter(range(pair.recorded))
        try:
            node = self.recorded(pair, sources, shapes, making, arrays)
        except Left:
            tensors = [self.value(source) for source in sources]
            for at, dtype in pair.givens:
                self.scope.update(R_wrap=wrap, R_array=np.array)
                tensors[at] = f"R_wrap(R_array({tensors[at]}, {self.const('dtype', dtype.numpy)}), {self.const('dtype', dtype)})"
            self.scope.update(R_Node=CompiledBackward, R_pair=pair, R_Edge=OutputEdge)
            texts = {at: f"o[{number}]" for number, at in enumerate(arrays, len(direct.results))}
            kept = ", ".join(texts[at] + ".copy()" * (at in pair.copied) for at in pair.kept)
            lines = [f"node = R_Node(R_pair, [{', '.join(tensors)}], [{kept}], {pair.recorded})", f"node.shapes = {self.const('shapes', shapes)}"]
            lines += [f"o[{number}]._node = " + ("node" if pair.recorded == 1 else f"R_Edge(node, {next(numbers)})")
                      for number, (_, _, differentiable) in enumerate(pair.picks) if differentiable]
            return [NONE] * len(direct.results), lines
        if pair.recorded == 1:
            return [node] * len(pair.picks), []
        where = places(OutputEdge, ("node", "number"))
        return [("made", making.object(OutputEdge, where, {"node": node, "number": ("object", next(numbers))})) if differentiable else NONE
                for _, _, differentiable in pair.picks], []

    def recorded(self, pair: Any, sources: list, shapes: Any, making: Making, arrays: dict[int, int]) -> Item:
        """The node that the launcher makes, as `CompiledBackward` would make itself."""
        where, facts = places(CompiledBackward, ("rare", "pair", "_outputs", "shapes", "kept", "guard", "edges", "seq")), self.facts
        if pair.givens or pair.copied or not where or any(source not in facts.tensors for source in sources):
            raise Left
        edges: list[Item] = []
        for source in sources:
            needs, has = facts.tensors[source]
            edges.append(NONE if not needs else ("made", making.hold(self.node(source))) if has else self.item(source))
        kept = [making.tuple([self.item(source) for source in sources]), making.tuple([("made", arrays[at]) for at in pair.kept])]
        values: dict[str, Item] = {"rare": NONE, "pair": ("object", pair), "_outputs": ("object", pair.recorded), "shapes": ("object", shapes),
                                   "guard": ("object", ()), "kept": ("made", making.tuple([("made", one) for one in kept])),
                                   "edges": ("made", making.tuple(edges)), "seq": ("made", making.step(TIMES))}
        return "made", making.object(CompiledBackward, where, values)

    def item(self, source: Any) -> Item:
        """An input of the graph, for the launcher."""
        if isinstance(source, Source) and self.facts.moving(source):
            return "register", self.facts.register(source)
        return "object", self.facts.fixed(source) if isinstance(source, Source) else source

    def node(self, source: Any) -> int:
        """The register of the history of an input of the graph."""
        (kind, value), rows, place = self.item(source), self.facts.rows, self.facts.slots["_node"]
        return rows.load(value, place) if kind == "register" else rows.load(0, id(value) + place)

    def value(self, source: Any) -> str:
        """An expression for an input of the graph, whose place the launcher has looked at."""
        if not isinstance(source, Source):
            return self.const("value", source)
        if source in self.facts.varying:
            return self.numbers[self.facts.varying[source]]
        if source.kind == "shape" or not self.facts.moving(source):
            return self.const("value", self.facts.number(source) if source.kind == "shape" else self.facts.fixed(source))
        return f"S{source.key}" if source.kind == "root" else f"{self.value(source.base)}[{source.key}]"

    def number(self, register: int, value: Any, matters: bool) -> tuple[int, int, int]:
        """The row that gives the address of a Python number; where its value matters to more than the arithmetic, it is the same at each call."""
        if not register:
            word = np.array(value)
            self.facts.held.append(word)
            return 0, word.ctypes.data, ADDRESS
        rows = self.facts.rows
        rows.same(register, TYPE, id(type(value)))
        if type(value) is float:
            return register, NUMBER, ADDRESS
        word_register = rows.integer(register)
        if matters:
            rows.same(word_register, 0, value, OBJECT)
        return word_register, 0, VALUE

    def place(self, source: Any, symbol: str | None = None, fixed: bool = False) -> tuple[int, Any]:
        """The register of a tensor's array, and the tensor as it is now; where `fixed`, it must be the same at each call.

        For a number (of that symbol) the register of the object, or 0 where it is the same at each call, and its value.
        """
        facts = self.facts
        if symbol is not None:
            if not isinstance(source, Source):
                raise Left
            if source.kind == "shape" or not facts.moving(source):
                return 0, facts.number(source)
            value = facts.find(source)
            if type(value) not in (int, float):
                raise Left
            return facts.register(source), value
        if isinstance(source, Source) and facts.moving(source):
            tensor = facts.find(source)
            if fixed or type(tensor) not in TENSORS:
                raise Left
            register = facts.register(source)
            facts.rows.same(register, TYPE, id(type(tensor)))
            return facts.rows.load(register, facts.slots["_array"]), tensor
        tensor = facts.fixed(source) if isinstance(source, Source) else source
        if not isinstance(tensor, Tensor):
            raise Left
        if isinstance(source, Source) and source.kind not in ("const", "state", "dict_item", "list_item", "tuple_item"):
            raise Left
        return facts.rows.load(0, id(tensor) + facts.slots["_array"]), tensor

    def gradients(self, direct: Direct, outputs: list[tuple]) -> dict[int, int]:
        """Outputs whose memory is that of the gradients before, where nobody else holds those: by number, the register."""
        lines, found = "\n".join(self.recipe.lines), {}
        if not launch.attributes_tell() or direct.program.faults:
            return found  # a program that stops half way has written some of them
        for owner, text, source in self.recipe.gradients:
            param = self.scope.get(owner)
            if source is not None and not self.facts.moving(source):
                try:
                    param = self.facts.fixed(source)
                except Left:
                    continue
            if not isinstance(param, Tensor) or lines.count(text) != 1 or not RESULT.match(text):
                continue
            at, dtype, live = direct.results[int(text[2:-1])]
            if live or sum(other == at for other, *_ in direct.results) != 1:
                continue
            shape, numpy_dtype = outputs[at]
            gradient = self.facts.rows.load(0, id(param) + self.facts.slots["_grad"])
            found[at] = self.facts.rows.fresh(gradient, dtype, np.empty(shape, numpy_dtype))
        return found

    def follow(self, ledger: Any, written: list[Tensor]) -> None:
        """The counters of what is written follow one ledger."""
        for tensor in written:
            counter, meta = counter_of(tensor), tensor._meta
            if meta.base is not None:
                raise Left
            Follower.make(counter, ledger)
            self.facts.tensor_hooks(tensor)

    def needed(self, lines: list[str]) -> list[str]:
        """The loads that these statements need."""
        text, kept = "\n".join(lines), []
        for load in reversed(self.recipe.loads):
            name = load.partition(" = ")[0]
            if re.search(rf"\b{name}\b", text):
                kept.append(load)
                text += "\n" + load
        return kept[::-1]
