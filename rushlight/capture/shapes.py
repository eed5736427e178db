"""Sizes and Python numbers that stay symbolic: what varied between calls becomes an input, not a guard by value.

A `Symbol` (symbols.py) is an int or float with an expression over sources.  A comparison is decided by the present value and
adds the guard that it stays so; whatever needs the plain number fixes it.  The sizes of inner tensors are found by running
the graph so far at other sizes (`Shapes.size_expression`).  Read `Shapes.make_symbol` first.
"""

import collections
import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd.recorded import gradients, leaf_gradients
from ..core import modes
from ..core.size import Size
from ..graph import map_nodes
from ..ops import zeros_like
from ..ops.patches import unfold
from ..tensor import Tensor, wrap
from .counted import sizes_that_count
from .faults import runs_natively
from .loading import SCALARS
from .machine import Break
from .sources import Source
from .symbols import RELATIONS, Held, Symbol, plain_text
from .tensors import FACTS, Tensors, changes, public_name
from .traced import Traced, set_mode

# Functions of math that give a number for every finite one (those in `DOMAINS`: for what lies between its bounds).
MATH = {name: getattr(math, name) for name in ("sqrt log log2 log10 log1p exp expm1 sin cos tan asin acos atan sinh cosh tanh asinh "
                                               "floor ceil trunc").split()}
EXP = 700
DOMAINS = {**dict.fromkeys(("sqrt", "log", "log2", "log10"), (0, math.inf)), "log1p": (-1, math.inf), **dict.fromkeys(("asin", "acos"), (-1, 1)),
           **dict.fromkeys(("exp", "expm1"), (-math.inf, EXP)), **dict.fromkeys(("sinh", "cosh"), (-EXP, EXP))}
TEXT = {"add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "floordiv": "({} // {})", "truediv": "({} / {})", "mod": "({} % {})",
        "pow": "({} ** {})", "lshift": "({} << {})", "rshift": "({} >> {})", "neg": "(-{})", "abs": "abs({})", "and_": "({} & {})",
        "or_": "({} | {})", "xor": "({} ^ {})", "invert": "(~{})", "int": "int({})", "float": "float({})", "pos": "(+{})",
        **{name: f"{name}({{}})" for name in MATH}, "format": "format({}, {})", "min": "min({}, {})", "max": "max({}, {})"}
VARIABLE_RESULTS = frozenset({"split", "chunk", "unbind", "tensor_split", "hsplit", "vsplit", "dsplit", "split_with_sizes", "unsafe_chunk", "unsafe_split",
                              "broadcast_tensors", "meshgrid", "__iter__"})


LATE = frozenset({"add", "sub", "mul", "neg", "pos", "abs"})  # raise for no int or float, whatever its value
COLLECTIONS = frozenset({dict, collections.OrderedDict, collections.Counter, collections.defaultdict, set, frozenset, list, tuple})
FEW = 64  # numbers that one is looked for among by comparing it with each
DISPLAYS = {"tuple": "({})", "list": "[{}]", "set": "set(({}))", "frozenset": "frozenset(({}))", "dict": "dict(({}))"}


class Shapes(Tensors):
    """Part of the tracer: symbolic ints and floats."""

    def __init__(self, policy: Any):
        super().__init__(policy)
        self.symbols: dict[Source, Symbol] = {}
        self.symbol_nodes: dict[tuple, Any] = {}
        self.variations: dict[tuple, list] = {}
        self.sizes: dict[Any, tuple] = {}
        self.stride = 1  # sizes are tried this far apart
        self.compared: list[Symbol] = []  # the numbers that vary and were compared

    # -- making ------------------------------------------------------------------------------------------------------

    def make_symbol(self, source: Source, raw: Any) -> Symbol:
        symbol = self.symbols.get(source)
        if symbol is None:
            symbol = self.symbols[source] = Symbol(self, ("source", source), raw)
            self.policy.any_dynamic |= type(raw) is int
            if source.kind == "number":
                pass
            elif source.kind != "shape":
                name = type(raw).__name__
                self.guards.add("type", source, "type({v}) is " + name, words=f"type({source.name}) is {name}")
                if name == "float":
                    self.guards.add("finite", source, "{v} - {v} == 0", words=f"{source.name} is finite")
        return symbol

    def size_symbol(self, tensor: Traced, dim: int) -> Symbol:
        return self.make_symbol(self.sources.step("shape", tensor.source, dim), tensor.real._array.shape[dim])

    def is_symbol(self, value: Any) -> bool:
        return type(value) is Symbol

    def symbol_kind(self, value: Symbol) -> type:
        return type(value.hint)

    def same(self, left: Any, right: Any) -> bool:
        """Python has one object for each small int: numbers of one type must be known to say whether they are one."""
        if left is not right and (type(left) is Symbol or type(right) is Symbol):
            hints = [value.hint if type(value) is Symbol else value for value in (left, right)]
            return type(hints[0]) is type(hints[1]) and operator.is_(*(value.concrete() if type(value) is Symbol else value for value in (left, right)))
        return super().same(left, right)

    def symbol_hint(self, value: Symbol) -> Any:
        return value.hint if value.later is None and type(value.hint) is not str else value.concrete()

    def symbol_source(self, value: Symbol) -> Any:
        return value.expression[1] if value.expression[0] == "source" else None

    def convert_symbol(self, kind: type, value: Symbol) -> Any:
        if kind is type(value.hint):
            return value
        if type(value.hint) is str:  # what a text says of a number depends on all of the text
            return kind(value.concrete())
        return self.operate(kind.__name__, kind, value)

    # -- arithmetic and relations ------------------------------------------------------------------------------------

    @runs_natively
    def operate(self, name: str, function: Callable, *operands: Any) -> Any:
        hints = [item.hint if type(item) is Symbol else item for item in operands]
        late = next((item.later for item in operands if type(item) is Symbol and item.later is not None), None)
        if late is not None and name not in LATE and not (name == "truediv" and type(operands[1]) in (int, float) and operands[1]):
            self.give_up(late)
        result = function(*hints)  # raises as the plain numbers do, e.g. for a division by zero
        if name in ("floordiv", "truediv", "mod") and type(operands[1]) is Symbol:
            self.relate("ne", operands[1], 0)
        if name == "pow" and type(hints[0]) is float and type(operands[1]) is Symbol and operands[0] > 0:
            # A positive number to any power stays one, where that is not too large.
            if type(operands[0]) is Symbol or operands[0] > 1:
                height = self.operate("log", math.log, operands[0]) if type(operands[0]) is Symbol else math.log(operands[0])
                self.relate("lt", self.operate("mul", operator.mul, operands[1], height), EXP)
        elif name in ("pow", "lshift", "rshift") and type(operands[1]) is Symbol:
            operands = (operands[0], operands[1].concrete())
            if type(operands[0]) is not Symbol:
                return result
        if type(result) not in (int, float):
            for item in operands:
                if type(item) is Symbol:
                    item.concrete()
            return result
        made = Symbol(self, (name, *(item.expression if type(item) is Symbol else item for item in operands)), result)
        made.later = late
        return made

    def give_up(self, mark: Any) -> Any:
        """A value that is known only when the graph has run is needed now."""
        raise mark.cause

    def relate(self, name: str, left: Any, right: Any) -> bool:
        """Decide a comparison by the present values and guard that it stays so."""
        for item in (left, right):
            if type(item) is Symbol and item.later is not None:
                self.give_up(item.later)
        hints = [item.hint if type(item) is Symbol else item for item in (left, right)]
        answer = bool(getattr(operator, name)(*hints))
        self.compared += [item for item in (left, right) if type(item) is Symbol and not item.soft and type(item.hint) is not str]
        sources: list[Source] = []
        parts = [self.expression_text(item.expression if type(item) is Symbol else item, sources) for item in (left, right)]
        if not sources:
            return answer
        text = RELATIONS[name].format(*parts)
        text = text if answer else f"not ({text})"
        words = text.format(*(source.name for source in sources))
        self.guards.add("relation", None, text, words=words, others=tuple(sources))
        self.policy.on_relation(sources, text)
        if name == "eq" and answer:
            for item, other in ((left, right), (right, left)):
                if type(item) is Symbol and type(other) is not Symbol:
                    item.fixed = True
                    self.policy.on_fixed(self, item, other)
        return answer

    def keep_sign(self, symbol: Symbol) -> None:
        """Guard which of the two zeros a number is."""
        sources: list[Source] = []
        text = f"copysign(1, {self.expression_text(symbol.expression, sources)}) == {math.copysign(1, symbol.hint)}"
        if sources:
            self.guards.add("relation", None, text, words=text.format(*(source.name for source in sources)), others=tuple(sources))

    def expression_text(self, expression: Any, sources: list) -> str:
        """Python text; `sources` takes what it loads, named by its place there."""
        if type(expression) is Held:
            sources.append(expression)
            return f"{{{len(sources) - 1}}}"
        if type(expression) is not tuple:
            return plain_text(expression)
        kind, *parts = expression
        if kind in ("source", "value"):
            found = next((at for at, item in enumerate(sources) if item is parts[0]), len(sources))
            if found == len(sources):
                sources.append(parts[0])
            return f"{{{found}}}"
        if kind == "event":
            return f"e{parts[0]}"
        if kind == "do":
            function, args, named = parts
            texts = [self.expression_text(arg, sources) for arg in args]
            texts += [f"{key}={self.expression_text(item, sources)}" for key, item in named.items()]
            return f"{self.expression_text(function, sources)}({', '.join(texts)})"
        if kind in DISPLAYS:
            return DISPLAYS[kind].format("".join(self.expression_text(part, sources) + ", " for part in parts))
        if kind == "join":
            return f"''.join(({''.join(self.expression_text(part, sources) + ', ' for part in parts)}))"
        if expression[0] in RELATIONS:
            return f"({RELATIONS[expression[0]].format(*(self.expression_text(part, sources) for part in expression[1:]))})"
        return TEXT[expression[0]].format(*(self.expression_text(part, sources) for part in expression[1:]))

    def symbol_text(self, value: Symbol, rebuild: Any) -> str:
        return self.expression_in(value.expression, rebuild)

    def expression_in(self, expression: Any, rebuild: Any) -> str:
        """The text of an expression in the generated code."""
        sources: list = []
        text = self.expression_text(expression, sources)
        return text.format(*(rebuild.source(item) if type(item) is Source else rebuild.text.const(item.value) if type(item) is Held
                             else rebuild.name(item) for item in sources))

    # -- in the graph ------------------------------------------------------------------------------------------------

    def give_numbers(self, rebuild: Any) -> None:
        """Let a piece without ops have a graph all the same that gives the numbers it compared: PyTorch's comparisons are ops, so it
        does not take such a function for one with nothing to compile."""
        for symbol in self.compared:
            source = self.symbol_source(symbol)
            if source is not None and symbol.later is None and source.kind != "shape":
                rebuild.outputs.setdefault(self.symbol_node(symbol), len(rebuild.outputs))

    def symbol_node(self, value: Symbol) -> Any:
        if value.later is not None:
            self.give_up(value.later)
        if type(value.hint) is str:
            return value.concrete()
        return self.expression_node(value.expression)

    def expression_node(self, expression: Any) -> Any:
        if type(expression) is not tuple:
            return expression
        key = tuple(id(part) if type(part) is Source else part for part in expression)
        node = self.symbol_nodes.get(key)
        if node is not None:
            return node
        if expression[0] == "source":
            source = expression[1]
            if source.kind == "shape":
                tensor = next(item for item in self.inputs if type(item) is Traced and item.source is source.base)
                node = self.graph.call_function(Tensor.size, (tensor.node, source.key))
                node.meta["val"] = node.meta["example_value"] = self.symbols[source].hint
            else:
                node = self.placeholder(source)
                node.meta["val"] = node.meta["example_value"] = self.symbols[source].hint
                self.inputs.append(self.symbols[source])
        else:
            function = {"int": int, "float": float, **MATH, "min": min, "max": max}.get(expression[0]) or getattr(operator, expression[0])
            node = self.graph.call_function(function, tuple(self.expression_node(part) for part in expression[1:]))
        self.symbol_nodes[key] = node
        return node

    def input_source(self, item: Any) -> Any:
        return item.expression[1] if type(item) is Symbol else item.source

    def input_text(self, item: Any, rebuild: Any) -> str:
        return rebuild.source(self.input_source(item))

    def example(self, item: Any) -> Any:
        return item.hint if type(item) is Symbol else item.real

    # -- sizes of tensors --------------------------------------------------------------------------------------------

    def symbolic_shape(self, value: Traced) -> Any:
        return tuple.__new__(Size, self.shape_of(value))

    def symbolic_fact(self, name: str, args: tuple, kwargs: dict, result: Any) -> Any:
        tensor = args[0]
        if type(tensor) is not Traced:
            return result
        shape = self.shape_of(tensor)
        if name in ("numel", "nelement"):
            return math.prod(shape)
        if name == "__len__":
            return shape[0]
        dim = args[1] if len(args) > 1 else kwargs.get("dim")
        return tuple.__new__(Size, shape) if dim is None else shape[dim]

    def shape_of(self, value: Traced) -> tuple:
        """The sizes: symbols where they may differ on another run."""
        hints = value.stand_in._array.shape
        if value.source is not None and value.real is not None and hints == value.real._array.shape:
            dynamic = self.policy.dynamic_dims(self, value.source, value.real)
            return tuple(self.size_symbol(value, at) if at in dynamic else size for at, size in enumerate(hints))
        for symbol in self.symbols.values():
            if symbol.soft and type(symbol.hint) is int and ("source", id(symbol.expression[1])) in self.symbol_nodes:
                symbol.concrete()
        if not self.all_symbols():
            return hints
        known = self.sizes.get(value.node)
        if known is None:
            known = self.sizes[value.node] = tuple(self.size_expression(value, at, size) for at, size in enumerate(hints))
        return known

    def all_symbols(self) -> list[Symbol]:
        """Every size and number that may vary; the sizes count whether Python asked for them or not."""
        for item in list(self.inputs):
            if type(item) is Traced and item.source is not None:
                for dim in self.policy.dynamic_dims(self, item.source, item.real):
                    self.size_symbol(item, dim)
        return [symbol for symbol in self.symbols.values() if not symbol.fixed and not symbol.soft and type(symbol.hint) is int]

    def size_expression(self, value: Traced, dim: int, size: int) -> Any:
        """The size as a polynomial of the symbols, found from running the graph at other sizes; else what it depends on is fixed."""
        symbols = self.all_symbols()
        while True:
            expression = self.polynomial(value, dim, size, symbols)
            if expression is not None:
                return expression
            stuck = self.stuck(value, symbols)
            for symbol in stuck:
                symbol.concrete()
            symbols = [symbol for symbol in symbols if not symbol.fixed]
            if not symbols:
                return size

    def polynomial(self, value: Traced, dim: int, size: int, symbols: list[Symbol]) -> Any:
        """The size over the symbols; None if no polynomial fits, or too few other sizes run to tell."""
        for grouped in (False, True):
            leads = list({symbol.hint if grouped else symbol.expression: symbol for symbol in reversed(symbols)}.values())
            points = []
            for assignment, env in self.vary(symbols, grouped):
                result = self.evaluate(value.node, env, assignment)
                if result is not None:
                    points.append((assignment, result.shape[dim]))
            if all(other == size for _, other in points) and len(points) > len(symbols):
                return size
            pairs = [(one, two) for at, one in enumerate(leads) for two in leads[at + 1:]]
            for terms in ([(one,) for one in leads], pairs, [*((one,) for one in leads), *pairs]):
                factors = fit(terms, points, size)
                if factors is not None:
                    break
            else:
                continue
            if grouped:  # sizes that are equal now may have to be: one symbol for all, as PyTorch does
                for symbol in symbols:
                    lead = next(one for one in leads if one.hint == symbol.hint)
                    if lead is not symbol:
                        self.relate("eq", lead, symbol)
                        symbol.expression = lead.expression
            expression: Any = factors[0]
            for factor, term in zip(factors[1:], terms):
                if factor:
                    product = math.prod(term[1:], start=term[0])
                    product = product if factor == 1 else product * factor
                    expression = product if type(expression) is int and expression == 0 else expression + product
            return expression
        return None

    def stuck(self, value: Traced, symbols: list[Symbol]) -> list[Symbol]:
        """The symbols that have their present value wherever the graph runs; all of them if there are none or no more is known."""
        moved = {source for grouped in (False, True) for assignment, env in self.vary(symbols, grouped)
                 if self.evaluate(value.node, env, assignment) is not None
                 for source in assignment if assignment[source] != self.symbols[source].hint}
        still = [symbol for symbol in symbols if symbol.expression[1] not in moved]
        return still or symbols

    def vary(self, symbols: list[Symbol], grouped: bool) -> list[tuple[dict, dict]]:
        """The assignments to try, by the symbols' sources, each with the values of the nodes computed so far.

        Sizes that were found to be one stay equal; grouped: all that are equal now.
        """
        key = (tuple((id(symbol), id(symbol.expression[1])) for symbol in symbols), grouped)
        found = self.variations.get(key)
        if found is None:
            own = {source: symbol for source, symbol in self.symbols.items() if any(symbol is one for one in symbols)}
            hints = {source: symbol.hint for source, symbol in own.items()}
            together: dict[Any, list] = {}
            for source, symbol in own.items():
                together.setdefault(symbol.hint if grouped else symbol.expression[1], []).append(source)
            groups = list(together.values())
            count = range(len(groups))
            moves: list[dict] = [{}]
            moves += [{at: by} for at in count for by in (1, 2, -1)]
            if len(groups) > 1:
                moves += [{at: by for at in count} for by in (1, 2, 4)]
                moves += [{other: 9 + other if other != at else by for other in count} for at in count for by in (1, 3)]
                moves.append({at: 2 * at + 3 for at in count})
            found = self.variations[key] = []
            for move in moves:
                assignment = {source: hints[source] + self.stride * move.get(at, 0) for at, group in enumerate(groups) for source in group}
                if all(size > 1 for size in assignment.values()):
                    found.append((assignment, {}))
        return found

    def evaluate(self, wanted: Any, env: dict, assignment: dict) -> Any:
        """The value of a node when the symbols are as assigned, or None if the graph does not run so."""
        if wanted in env:
            return env[wanted]
        if env.get("failed"):
            return None
        before = {"grad": modes.GRAD.get()}
        try:
            for node in self.graph.nodes:
                if node in env:
                    continue
                if node.op == "placeholder":
                    env[node] = self.varied_input(node, assignment)
                elif node.op == "get_attr":
                    env[node] = self.held[node.target]
                elif node.op == "call_function" and node.target is not set_mode:
                    fetch = lambda used: env[used]  # noqa: E731
                    args, kwargs = map_nodes(node.args, fetch), map_nodes(node.kwargs, fetch)
                    if node.target is leaf_gradients or node.target is gradients:  # they have the sizes of what they are taken of
                        env[node] = tuple(map(zeros_like, args[2 if node.target is leaf_gradients else 1]))
                    else:
                        env[node] = node.target(*args, **kwargs)
                if node is wanted:
                    break
        except Exception:
            env["failed"] = True
            return None
        finally:
            modes.GRAD.set(before["grad"])
        return env.get(wanted)

    def fixed_by_ops(self, symbol: Symbol) -> bool:
        """Whether the graph runs at no other size than this."""
        symbols = self.all_symbols()
        nodes = [node for node in self.graph.nodes if node.op == "call_function"]
        if symbol.fixed or symbol not in symbols or not nodes:
            return False
        trials = self.vary(symbols, True)
        moved = [(assignment, env) for assignment, env in trials if assignment[symbol.expression[1]] != symbol.hint]
        still = next(((assignment, env) for assignment, env in trials if assignment[symbol.expression[1]] == symbol.hint), None)

        def runs(trial: tuple[dict, dict]) -> bool:
            assignment, env = trial
            self.evaluate(nodes[-1], env, assignment)
            return not env.get("failed")

        return bool(moved) and still is not None and runs(still) and not any(map(runs, moved))

    def varied_input(self, node: Any, assignment: dict) -> Any:
        for item in self.inputs:
            if type(item) is Symbol:
                if self.symbol_nodes.get(("source", id(item.expression[1]))) is node:
                    return assignment.get(item.expression[1], item.hint)
            elif item.node is node:
                shape = list(item.real._array.shape)
                for source, size in assignment.items():
                    if source.kind == "shape" and source.base is item.source:
                        shape[source.key] = size
                return wrap(np.zeros(shape, item.real._array.dtype), item.real._dtype)
        raise KeyError(node)

    def in_optimizer(self) -> bool:
        """Step counts and rates kept in tensors are read by our optimizers as numbers."""
        return "/rushlight/optim/" in self.active[-1].program.code.co_filename

    def fix_all_sizes(self) -> None:
        """An error was raised that may show any size."""
        if self.policy.any_dynamic:
            for symbol in self.all_symbols():
                symbol.concrete()

    def fix_sizes(self, value: Any, name: str = "", args: tuple = (), kwargs: Any = None) -> None:
        """The sizes of a tensor decide more than the graph can say: fix them, or of an op of several results those that count."""
        if type(value) is Traced:
            shape = self.shape_of(value)
            for dim in sizes_that_count(name, args, kwargs or {}, len(shape)):
                if type(shape[dim]) is Symbol:
                    shape[dim].concrete()

    def input_number(self, value: Traced) -> Any:
        """`.item()` of an input that nothing has written yet: a number input of the graph."""
        raw = value.real
        if raw is None or raw._array.size != 1 or raw._array.dtype.kind not in "fi" or raw._dtype.name in ("float16", "bfloat16"):
            return None
        if any(changes(node) for node in self.graph.nodes if node.op == "call_function" and self.shares_memory(node, raw)):
            return None
        number = raw._array.item()
        if type(number) is float and number - number != 0:
            return None
        return self.make_symbol(self.sources.step("number", value.source, ()), number)

    def shares_memory(self, node: Any, raw: Tensor) -> bool:
        """Whether the node may write where the input lies."""
        copied = self.known[id(raw)].value.stand_in._array
        return any(self.lies_in(used, copied) for used in node.all_input_nodes)

    def call_op(self, function: Any, args: tuple, kwargs: dict) -> Any:
        if public_name(function) == "item" and args and type(self.value(args[0])) is Traced and self.in_optimizer():
            self.note(None)
            number = self.input_number(self.value(args[0]))
            if number is not None:
                return number
        args = tuple(map(self.value, args))  # a number among them may be the first that varies
        kwargs = {key: self.value(item) for key, item in kwargs.items()}
        if self.policy.any_dynamic:
            name = getattr(function, "__name__", "")
            if name == "stride" and self.keeps_layout(self.value(args[0]), "is_contiguous"):
                shape = self.shape_of(self.value(args[0]))
                strides = tuple(math.prod(shape[at + 1:]) for at in range(len(shape)))
                dim = self.value(args[1]) if len(args) > 1 else self.value(kwargs.get("dim"))
                return strides if dim is None else strides[dim]
            if name in VARIABLE_RESULTS or name in FACTS:  # how many results there are, or which size is asked for
                args = tuple(map(self.plain_number, args))
                kwargs = {key: self.plain_number(item) for key, item in kwargs.items()}
            if name in VARIABLE_RESULTS or name in ("unfold", "as_strided") and function is not unfold or (
                    name in ("stride", "is_contiguous") and not self.keeps_layout(self.value(args[0]), name)):
                for arg in args[:1]:
                    for item in arg if isinstance(arg, (list, tuple)) else (arg,):
                        self.fix_sizes(self.value(item), name, args, kwargs)
                for source, strides in self.strided:
                    self.guards.add("layout", source, "{v}._array.strides == {0}", strides, words=f"tensor {source.name!r} strides == {strides}")
        args, kwargs = self.with_signs(function, args, kwargs)
        return super().call_op(function, args, kwargs)

    def with_signs(self, function: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """A size, dim or index that is negative says something else (-1: as it was, or from the end), so its sign is guarded."""
        name = public_name(function)
        if name in NUMBERS or name.endswith("_") and name.strip("_") in NUMBERS or getattr(function, "__module__", "") == "_operator" and name not in (
                "getitem", "setitem", "delitem"):
            return args, kwargs
        symbols = [value for value in symbols_within([*args, *kwargs.values()]) if type(value.hint) is int]
        if any(value.hint < 0 for value in symbols):
            return tuple(map(self.fixed_signs, args)), {key: self.fixed_signs(item) for key, item in kwargs.items()}
        for value in symbols:
            self.relate("ge", value, 0)
        return args, kwargs

    def fixed_signs(self, value: Any) -> Any:
        """The value with each number that is negative as it is, and each other one not negative."""
        if type(value) is slice:
            return slice(*map(self.fixed_signs, (value.start, value.stop, value.step)))
        if type(value) in (tuple, list, Size) and any(type(item) in (Symbol, slice) for item in value):
            return type(value)(map(self.fixed_signs, value))
        if type(value) is not Symbol or type(value.hint) is not int:
            return value
        if value.hint < 0:
            return value.concrete()
        self.relate("ge", value, 0)
        return value

    def keeps_layout(self, value: Any, name: str) -> bool:
        """Whether an input is guarded to be contiguous, which decides the answer whatever its sizes."""
        return name == "is_contiguous" and type(value) is Traced and value.source is not None and value.real._array.flags.c_contiguous

    def iterate_tensor(self, value: Tensor) -> Any:
        if self.policy.any_dynamic:
            self.fix_sizes(value, "__iter__")
        return super().iterate_tensor(value)

    # -- places that need the plain number ---------------------------------------------------------------------------

    def plain_number(self, value: Any, depth: int = 0) -> Any:
        """The value with every symbol in it fixed, in place where the container can change: native code may write into it."""
        kind = type(value)
        if kind is Symbol:
            return value.concrete()
        if kind in SCALARS or depth > 7:
            return value
        if kind in (list, collections.deque):
            places: Any = enumerate(list(value))
        elif kind in (dict, collections.OrderedDict, collections.defaultdict, collections.Counter):
            places = list(dict.items(value))
        elif isinstance(value, tuple):
            items = [self.plain_number(item, depth + 1) for item in value]
            changed = any(new is not old for new, old in zip(items, value))
            return value if not changed else kind(items) if kind in (tuple, Size) else tuple.__new__(kind, items)
        else:
            return value
        for at, item in places:
            new = self.plain_number(item, depth + 1)
            if new is not item:
                value[at] = new
        return value

    def iter(self, value: Any) -> Any:
        return super().iter(value.concrete() if type(value) is Symbol else value)

    def contains(self, container: Any, item: Any) -> bool:
        if type(item) is Symbol and type(item.hint) is not str and type(container) in COLLECTIONS:
            keys = [self.value(key) for key in self.iter(container)] if 0 < len(container) <= FEW else [None]
            if all(type(key) in (int, float) for key in keys):  # each is compared, so that only being one of them is guarded
                return any([self.relate("eq", item, key) for key in keys])
        return super().contains(container.concrete() if type(container) is Symbol else container, item)

    def getitem(self, container: Any, key: Any) -> Any:
        return super().getitem(container.concrete() if type(container) is Symbol else container, key)

    def key(self, value: Any) -> Any:
        return super().key(self.plain_number(self.resolve(value)))

    def extreme(self, function: Any, args: tuple) -> Any:
        """`min` or `max` of numbers some of which are symbols: for ints an expression, so that no order of them is fixed; of others one."""
        numbers = [self.value(arg) for arg in args]
        if len(numbers) > 1 and any(type(number) is Symbol and type(number.hint) is float for number in numbers) and all(
                type(number) in (int, float) or type(number) is Symbol and type(number.hint) is not str for number in numbers):
            return functools.reduce(lambda one, two: two if self.relate("gt" if function is max else "lt", two, one) else one, numbers)
        if len(numbers) > 1 and {type(number) for number in numbers} == {int, Symbol} and all(
                type(number) is int or type(number.hint) is int for number in numbers):
            return functools.reduce(lambda one, two: self.operate(function.__name__, function, one, two), numbers)
        return None

    def native(self, function: Any, args: tuple, kwargs: dict) -> Any:
        if function in EXTREMES and not kwargs:
            found = self.extreme(function, args)
            if found is not None:
                return found
        if function not in KEEPS_SYMBOLS:
            args = tuple(self.plain_number(self.value(arg)) for arg in args)
            kwargs = {key: self.plain_number(self.value(item)) for key, item in kwargs.items()}
        return super().native(function, args, kwargs)

    def inline_attribute(self, value: Any, name: str) -> Any:
        """An attribute read whose failure is an answer."""
        try:
            return self.getattr(value, name)
        except Break as signal:
            signal.opaque = True
            raise


def symbols_within(values: Any) -> list:
    found = []
    for value in values:
        if type(value) is Symbol:
            found.append(value)
        elif isinstance(value, (tuple, list)):
            found += symbols_within(value)
        elif type(value) is slice:
            found += symbols_within((value.start, value.stop, value.step))
    return found


# Ops that take a number as a number, whose sign is nothing special.
NUMBERS = frozenset("add sub rsub subtract mul multiply div divide true_divide floor_divide remainder fmod pow float_power copysign "
                    "addcmul addcdiv addmm addbmm baddbmm addmv addr lerp maximum minimum clamp clip clamp_min clamp_max fill where masked_fill "
                    "eq ne lt le gt ge greater less greater_equal less_equal not_equal bitwise_and bitwise_or bitwise_xor "
                    "atan2 hypot arange tensor as_tensor scalar_tensor full_like iadd".split())


def fit(terms: list, points: list, size: int) -> list[int] | None:
    """Integers c with size = c[0] + sum(c[i] * product of term i) at all points, if the points decide them."""
    rows = [[1, *(math.prod(assignment[symbol.expression[1]] for symbol in term) for term in terms)] for assignment, _ in points]
    if len(rows) <= len(terms) + 1:
        return None
    matrix, wanted = np.array(rows, float), np.array([other for _, other in points], float)
    found, _, rank, _ = np.linalg.lstsq(matrix, wanted, rcond=None)
    factors = [round(value) for value in found.tolist()]
    exact = all(sum(factor * value for factor, value in zip(factors, row)) == other for row, (_, other) in zip(rows, points))
    if not exact or rank < len(terms) + 1:
        return None
    return factors


class Kept(frozenset):
    """Functions that work on symbols as they are."""

    def __contains__(self, function: Any) -> bool:
        try:
            return super().__contains__(function)
        except TypeError:
            return False


EXTREMES = Kept({min, max})
KEEPS_SYMBOLS = Kept({min, max, sum, abs, list, tuple, zip, enumerate, reversed, iter, divmod, dict, slice,
                      *(getattr(operator, name) for name in "add sub mul floordiv truediv mod pow neg pos abs lt le eq ne gt ge and_ or_ xor invert".split())})
