"""Writes LLVM IR as text: modules, functions, blocks, and typed values with Python's operators.

A `Type` is an element (`float`, `double`, `i32`, ...) and a number of lanes; a `Value` knows its type and the function
being written.  Constants fold nowhere: LLVM does that.  What
was computed in the same block already is not written again, and `hoisted` writes before the loop that is open: both spare LLVM most of
its work.  Knows no graph and no loop.
"""

import re
import struct
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .sizes import Fixed, Size, is_open

FLOATS = ("float", "double", "half")
BITS = {"float": 32, "double": 64, "half": 16, "i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i128": 128}
SUFFIX = {"float": "f32", "double": "f64", "half": "f16"}
# Instructions that give the same for the same operands.
PURE = frozenset("add sub mul sdiv udiv srem urem and or xor shl lshr ashr fadd fsub fmul fdiv fneg icmp fcmp select getelementptr insertelement "
                 "shufflevector extractelement bitcast sext zext trunc sitofp uitofp fptosi fpext fptrunc".split())
SYMBOL = re.compile(r"@[\w.$]+")


class Type(NamedTuple):
    element: str
    lanes: int = 1

    def __str__(self) -> str:
        return self.element if self.lanes == 1 else f"<{self.lanes} x {self.element}>"

    @property
    def is_float(self) -> bool:
        return self.element in FLOATS

    @property
    def bits(self) -> int:
        return BITS[self.element]

    @property
    def mangled(self) -> str:
        name = SUFFIX.get(self.element, self.element)
        return name if self.lanes == 1 else f"v{self.lanes}{name}"

    def of(self, element: str) -> "Type":
        return Type(element, self.lanes)

    @property
    def integer(self) -> "Type":
        """The integer type of the same width."""
        return Type(f"i{self.bits}", self.lanes)


def literal(type: Type, value: Any) -> str:
    """A constant's text; floats are given by their bits, so nothing is rounded."""
    if type.is_float:
        number = float(value)
        if type.element == "half":
            text = "0xH" + struct.pack(">e", number).hex().upper()
        else:
            if type.element == "float":
                number = struct.unpack("f", struct.pack("f", number))[0] if abs(number) != float("inf") else number
            text = "0x" + struct.pack(">d", number).hex().upper()
    elif type.element == "i1":
        text = "true" if value else "false"
    else:
        bits = BITS[type.element]
        number = int(value) & ((1 << bits) - 1)
        text = str(number - (1 << bits) if number >> (bits - 1) else number)
    return text if type.lanes == 1 else f"splat ({type.element} {text})"


class Value:
    """An SSA value (or constant); operators emit instructions into `function`."""

    __slots__ = ("function", "text", "type")

    def __init__(self, function: "Function", text: str, type: Type):
        self.function, self.text, self.type = function, text, type

    def __str__(self) -> str:
        return f"{self.type} {self.text}"

    def constant(self, value: Any) -> "Value":
        if type(value) is Size:
            return self.function.splat(self.function.size(value), self.type.lanes)
        return Value(self.function, literal(self.type, value), self.type)

    def coerce(self, other: Any) -> "Value":
        return other if isinstance(other, Value) else self.constant(other)

    def _binary(self, other: Any, float_name: str, integer_name: str) -> "Value":
        name = float_name if self.type.is_float else integer_name
        return self.function.op(name, self, self.coerce(other))

    def __add__(self, other: Any) -> "Value":
        return self._binary(other, "fadd", "add")

    def __radd__(self, other: Any) -> "Value":
        return self.constant(other) + self

    def __sub__(self, other: Any) -> "Value":
        return self._binary(other, "fsub", "sub")

    def __rsub__(self, other: Any) -> "Value":
        return self.constant(other) - self

    def __mul__(self, other: Any) -> "Value":
        return self._binary(other, "fmul", "mul")

    def __rmul__(self, other: Any) -> "Value":
        return self.constant(other) * self

    def __truediv__(self, other: Any) -> "Value":
        return self.function.op("fdiv", self, self.coerce(other))

    def __rtruediv__(self, other: Any) -> "Value":
        return self.constant(other) / self

    def __neg__(self) -> "Value":
        if self.type.is_float:
            return self.function.emit(self.type, f"fneg {self}")
        return self.constant(0) - self

    def __and__(self, other: Any) -> "Value":
        return self.function.op("and", self, self.coerce(other))

    def __or__(self, other: Any) -> "Value":
        return self.function.op("or", self, self.coerce(other))

    def __xor__(self, other: Any) -> "Value":
        return self.function.op("xor", self, self.coerce(other))

    def __invert__(self) -> "Value":
        return self ^ (True if self.type.element == "i1" else -1)

    def __lshift__(self, other: Any) -> "Value":
        return self.function.op("shl", self, self.coerce(other))

    def __rshift__(self, other: Any) -> "Value":
        return self.function.op("ashr", self, self.coerce(other))

    def lshr(self, other: Any) -> "Value":
        return self.function.op("lshr", self, self.coerce(other))

    def compare(self, predicate: str, other: Any) -> "Value":
        other = self.coerce(other)
        name = "fcmp" if self.type.is_float else "icmp"
        return self.function.emit(self.type.of("i1"), f"{name} {predicate} {self}, {other.text}")

    def __lt__(self, other: Any) -> "Value":
        return self.compare("olt" if self.type.is_float else "slt", other)

    def __le__(self, other: Any) -> "Value":
        return self.compare("ole" if self.type.is_float else "sle", other)

    def __gt__(self, other: Any) -> "Value":
        return self.compare("ogt" if self.type.is_float else "sgt", other)

    def __ge__(self, other: Any) -> "Value":
        return self.compare("oge" if self.type.is_float else "sge", other)

    def equal(self, other: Any) -> "Value":
        return self.compare("oeq" if self.type.is_float else "eq", other)

    def differs(self, other: Any) -> "Value":
        return self.compare("une" if self.type.is_float else "ne", other)

    def is_nan(self) -> "Value":
        return self.compare("uno", self)

    def select(self, yes: Any, no: Any) -> "Value":
        """`yes` where this i1 holds, else `no`; one of them must be a Value."""
        kind = yes if isinstance(yes, Value) else no
        yes, no = kind.coerce(yes), kind.coerce(no)
        return self.function.emit(yes.type, f"select {self}, {yes}, {no}")

    def cast(self, name: str, element: str) -> "Value":
        type = self.type.of(element)
        return self if type == self.type else self.function.emit(type, f"{name} {self} to {type}")

    def bitcast(self, element: str) -> "Value":
        return self.cast("bitcast", element)

    def fma(self, factor: Any, addend: Any) -> "Value":
        """self * factor + addend, rounded once."""
        return self.function.intrinsic("fma", self, self.coerce(factor), self.coerce(addend))

    def __abs__(self) -> "Value":
        if self.type.is_float:
            return self.function.intrinsic("fabs", self)
        return (self < 0).select(-self, self)

    def rint(self) -> "Value":
        return self.function.intrinsic("roundeven", self)

    def sqrt(self) -> "Value":
        return self.function.intrinsic("sqrt", self)

    def copysign(self, sign: "Value") -> "Value":
        return self.function.intrinsic("copysign", self, sign)

    def below(self, limit: Any) -> "Value":
        """min(self, limit), NaN kept: the order of the operands is the one x86's minps has."""
        limit = self.coerce(limit)
        return (limit < self).select(limit, self)

    def above(self, limit: Any) -> "Value":
        """max(self, limit), NaN kept."""
        limit = self.coerce(limit)
        return (limit > self).select(limit, self)

    def polynomial(self, *coefficients: float) -> "Value":
        """Horner's rule by fma, highest power first."""
        total = self.constant(coefficients[0])
        for coefficient in coefficients[1:]:
            total = total.fma(self, coefficient)
        return total


class Preheader(NamedTuple):
    """The place before a loop, for what does not change in it."""

    lines: list[str]
    written: dict[str, Value]


class Function:
    """A function being written; `block` starts a basic block, instructions go to the last one."""

    def __init__(self, module: "Module", name: str, result: str, parameters: list[tuple[str, Type]], attributes: str = "",
                 linkage: str = "", notes: dict[str, str] | None = None):
        self.module, self.name, self.result = module, name, result
        self.attributes, self.linkage = attributes, linkage
        self.notes = notes or {}
        self.parameters = [Value(self, f"%{key}", type) for key, type in parameters]
        self.lines: list[Any] = ["entry:"]  # of text, and a `Preheader` for each loop
        self.written: dict[str, Value] = {}  # the pure instructions of the present block
        self.preheaders: list[Preheader] = []  # of the loops that are open
        self.allocas: list[str] = []
        self.sizes = Sized(self)
        self.count = 0
        self.label = "entry"

    def fresh(self, hint: str = "v") -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def emit(self, type: Type, text: str) -> Value:
        return self._written(self.lines, self.written, type, text)

    def _written(self, lines: list, written: "dict[str, Value]", type: Type, text: str) -> Value:
        pure = text[:text.find(" ")] in PURE
        if pure and text in written:
            return written[text]
        self.count += 1
        value = Value(self, f"%v{self.count}", type)
        lines.append(f"  {value.text} = {text}")
        if pure:
            written[text] = value
        return value

    def hoisted(self, depth: int, type: Type, text: str) -> Value:
        """A pure instruction that uses nothing of loops deeper than `depth`: written before the next of those that are open."""
        if depth >= len(self.preheaders):
            return self.emit(type, text)
        preheader = self.preheaders[depth]
        return self._written(preheader.lines, preheader.written, type, text)

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def op(self, name: str, left: Value, right: Value) -> Value:
        if name == "mul" and right.text == "1" or name == "add" and right.text == "0":
            return left
        if name == "add" and left.text == "0":
            return right
        return self.emit(left.type, f"{name} {left}, {right.text}")

    def constant(self, type: Type, value: Any) -> Value:
        return Value(self, literal(type, value), type)

    def i64(self, value: int | Size) -> Value:
        return self.size(value) if type(value) is Size else Value(self, str(value), Type("i64"))

    def size(self, size: Size) -> Value:
        """An open size, computed once at the beginning of the function."""
        return Value(self, self.sizes.text(size), Type("i64"))

    def intrinsic(self, name: str, *args: Value, result: Type | None = None, types: tuple | None = None) -> Value:
        result = result or args[0].type
        mangled = ".".join(["llvm", name, *[t.mangled for t in (types or (args[0].type,))]])
        return self.call(mangled, result, *args, declare=True)

    def call(self, name: str, result: Type | None, *args: Value, declare: bool = False) -> Value | None:
        kind = str(result) if result else "void"
        if declare:
            self.module.declare(f"declare {kind} @{name}({', '.join(str(a.type) for a in args)})")
        text = f"call {kind} @{name}({', '.join(map(str, args))})"
        if result is None:
            self.do(text)
            return None
        return self.emit(result, text)

    def block(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.label, self.written = label, {}

    def branch(self, label: str) -> None:
        self.do(f"br label %{label}")

    def branch_if(self, condition: Value, yes: str, no: str, rarely: bool = False) -> None:
        """Go to `yes` or `no`; with `rarely`, what `yes` needs is kept out of the way of the rest."""
        note = ""
        if rarely:
            self.module.globals["rarely"] = '!1 = !{!"branch_weights", i32 1, i32 1000000}'
            note = ", !prof !1"
        self.do(f"br {condition}, label %{yes}, label %{no}{note}")

    def ret(self, value: Value | None = None) -> None:
        self.do(f"ret {value}" if value is not None else "ret void")

    def phi(self, type: Type, incoming: list[tuple[str, str]]) -> Value:
        return self.emit(type, f"phi {type} " + ", ".join(f"[ {text}, %{label} ]" for text, label in incoming))

    # -- memory ------------------------------------------------------------------------------------------------------

    def alloca(self, type: Type, count: int | Size = 1, align: int = 64) -> Value:
        """Stack memory in the entry block."""
        name = f"%{self.fresh('stack')}"
        lines = self.sizes.lines if is_open(count) else self.allocas
        lines.append(f"  {name} = alloca {type}, i64 {self.sizes.text(count)}, align {align}")
        return Value(self, name, Type("ptr"))

    def address(self, base: Value, index: Value, element: str) -> Value:
        return self.emit(Type("ptr"), f"getelementptr inbounds {element}, {base}, {index}")

    def load(self, type: Type, pointer: Value, align: int, note: str = "") -> Value:
        return self.emit(type, f"load {type}, {pointer}, align {align}{note}")

    def store(self, value: Value, pointer: Value, align: int, note: str = "") -> None:
        self.do(f"store {value}, {pointer}, align {align}{note}")

    # -- lanes -------------------------------------------------------------------------------------------------------

    def splat(self, value: Value, lanes: int) -> Value:
        if lanes == 1 or value.type.lanes == lanes:
            return value
        type = Type(value.type.element, lanes)
        first = self.emit(type, f"insertelement {type} poison, {value}, i64 0")
        return self.emit(type, f"shufflevector {first}, {type} poison, <{lanes} x i32> zeroinitializer")

    def iota(self, element: str, lanes: int) -> Value:
        type = Type(element, lanes)
        if lanes == 1:
            return self.constant(type, 0)
        numbers = [literal(Type(element), i) for i in range(lanes)]
        return Value(self, "<" + ", ".join(f"{element} {n}" for n in numbers) + ">", type)

    def extract(self, value: Value, lane: int | Value) -> Value:
        text = lane if isinstance(lane, Value) else f"i64 {lane}"
        return self.emit(Type(value.type.element), f"extractelement {value}, {text}")

    def insert(self, vector: Value, value: Value, lane: int | Value) -> Value:
        text = lane if isinstance(lane, Value) else f"i64 {lane}"
        return self.emit(vector.type, f"insertelement {vector}, {value}, {text}")

    def store_first(self, value: Value, pointer: Value, count: int, align: int) -> None:
        """The first `count` lanes, in parts of 1, 2, 4, ...: a masked store takes some 20 cycles where there are no mask registers."""
        kind, first = value.type, 0
        if count < kind.lanes and kind.lanes * kind.bits >= 512:
            mask = ", ".join(f"i1 {'true' if i < count else 'false'}" for i in range(kind.lanes))
            symbol = f"llvm.masked.store.{kind.mangled}.p0"
            self.module.declare(f"declare void @{symbol}({kind}, ptr, {Type('i1', kind.lanes)})")
            self.do(f"call void @{symbol}({value}, ptr align {align} {pointer.text}, {Type('i1', kind.lanes)} <{mask}>)")
            return
        while first < count:
            lanes = min(kind.lanes, 1 << (count - first).bit_length() - 1)
            place = self.address(pointer, self.i64(first), kind.element) if first else pointer
            if lanes == 1:
                self.store(self.extract(value, first), place, align)
            elif lanes == kind.lanes:
                self.store(value, place, align)
            else:
                picks = ", ".join(f"i32 {i}" for i in range(first, first + lanes))
                self.store(self.emit(Type(kind.element, lanes), f"shufflevector {value}, {kind} poison, <{lanes} x i32> <{picks}>"), place, align)
            first += lanes

    def every_other(self, kind: Type, pointer: Value, align: int, mask: Value | None) -> Value:
        """Lanes from pointer[0], pointer[2], ... where `mask` holds, zeros elsewhere: two loads that touch nothing else."""
        lanes, parts = kind.lanes, []
        asked = mask if mask is not None else self.constant(Type("i1", lanes), True)
        symbol = f"llvm.masked.load.{kind.mangled}.p0"
        self.module.declare(f"declare {kind} @{symbol}(ptr, {asked.type}, {kind})")
        for half in (0, 1):
            picks = ", ".join(f"i32 {half * lanes // 2 + i // 2 if i % 2 == 0 else lanes}" for i in range(lanes))
            own = self.emit(asked.type, f"shufflevector {asked}, {asked.type} zeroinitializer, <{lanes} x i32> <{picks}>")
            place = self.emit(Type("ptr"), f"getelementptr {kind.element}, {pointer}, i64 {half * lanes}")
            parts.append(self.emit(kind, f"call {kind} @{symbol}(ptr align {align} {place.text}, {own}, {kind} zeroinitializer)"))
        picks = ", ".join(f"i32 {2 * i}" for i in range(lanes))
        return self.emit(kind, f"shufflevector {parts[0]}, {parts[1]}, <{lanes} x i32> <{picks}>")

    # -- loops -------------------------------------------------------------------------------------------------------

    def loop(self, start: Value, stop: Value, step: int, body: Callable[[Value], None], note: str = "") -> None:
        """for i in range(start, stop, step): body(i)."""
        fixed = start.text.isdigit() and stop.text.isdigit()
        if fixed and int(start.text) >= int(stop.text):
            return
        tag = self.fresh("loop")
        before = self.label
        preheader = Preheader([], {})
        self.lines.append(preheader)
        self.preheaders.append(preheader)
        inside, after = f"{tag}.body", f"{tag}.exit"
        # The test stands before the loop and at its end, as LLVM would turn it.
        if fixed:
            self.branch(inside)
        else:
            self.branch_if(start < stop, inside, after)
        self.block(inside)
        index, at = Value(self, f"%{tag}.i", Type("i64")), len(self.lines)
        body(index)
        self.preheaders.pop()
        self.lines.insert(at, f"  {index.text} = phi i64 [ {start.text}, %{before} ], [ %{tag}.n, %{self.label} ]")
        following = Value(self, f"%{tag}.n", Type("i64"))
        self.do(f"{following.text} = add nsw i64 {index.text}, {step}")
        self.do(f"br {following < stop}, label %{inside}, label %{after}{note}")
        self.block(after)

    def when(self, condition: Value, body: Callable[[], None]) -> None:
        """if condition: body()."""
        tag = self.fresh("if")
        self.branch_if(condition, f"{tag}.then", f"{tag}.end")
        self.block(f"{tag}.then")
        body()
        self.branch(f"{tag}.end")
        self.block(f"{tag}.end")

    def value_if(self, condition: Value, body: Callable[[], Value], other: Value) -> Value:
        """body() if condition else other, which is known already."""
        tag, before = self.fresh("if"), self.label
        self.branch_if(condition, f"{tag}.then", f"{tag}.end")
        self.block(f"{tag}.then")
        value, inside = body(), self.label
        self.branch(f"{tag}.end")
        self.block(f"{tag}.end")
        return self.phi(value.type, [(value.text, inside), (other.text, before)])

    def either(self, condition: Value, yes: Callable[[], object], no: Callable[[], object]) -> None:
        """yes() if condition else no()."""
        tag = self.fresh("either")
        self.branch_if(condition, f"{tag}.yes", f"{tag}.no")
        for label, body in (("yes", yes), ("no", no)):
            self.block(f"{tag}.{label}")
            body()
            self.branch(f"{tag}.end")
        self.block(f"{tag}.end")

    def __str__(self) -> str:
        parameters = ", ".join(f"{p.type} {self.notes.get(p.text[1:], '')} {p.text}".replace("  ", " ") for p in self.parameters)
        head = f"define {self.linkage} {self.result} @{self.name}({parameters}) {self.attributes} {{".replace("  ", " ")
        lines = [text for line in self.lines for text in (line.lines if isinstance(line, Preheader) else (line,))]
        return "\n".join([head, lines[0], *self.allocas, *self.sizes.lines, *lines[1:], "}"])


class Sized:
    """The open sizes of one function: instructions at its beginning that compute them from the program's table of symbols.

    A task finds the table in the last slot of its frame; other functions have none and take sizes as arguments.
    """

    def __init__(self, function: Function):
        self.function = function
        self.slot: int | None = None
        self.lines: list[str] = []
        self.known: dict[object, str] = {}

    @property
    def used(self) -> bool:
        return bool(self.lines)

    def line(self, text: str) -> str:
        name = f"%z{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def text(self, size: Any) -> str:
        """The operand for a size."""
        if type(size) is int:
            return str(size)
        if self.slot is None:
            raise Fixed(size.symbols)
        self.function.module.sizes = size.sizes
        self.function.module.sized.update(size.symbols)
        found = self.known.get(size)
        if found is not None:
            return found
        total = None
        for names, coefficient in size.terms:
            product = None
            for name in names:
                factor = self.factor(size.sizes, name)
                product = factor if product is None else self.line(f"mul nsw i64 {product}, {factor}")
            if product is None:
                product = str(coefficient)
            elif coefficient != 1:
                product = self.line(f"mul nsw i64 {product}, {coefficient}")
            total = product if total is None else self.line(f"add nsw i64 {total}, {product}")
        self.known[size] = total
        return total

    def factor(self, sizes: Any, name: str) -> str:
        """A symbol from the table, or a quotient (rounded down)."""
        found = self.known.get(name)
        if found is not None:
            return found
        if name in sizes.quotients:
            a, b = map(self.text, sizes.quotients[name])
            whole, rest = self.line(f"sdiv i64 {a}, {b}"), self.line(f"srem i64 {a}, {b}")
            odd, apart = self.line(f"icmp ne i64 {rest}, 0"), self.line(f"icmp slt i64 {self.line(f'xor i64 {a}, {b}')}, 0")
            down = self.line(f"and i1 {odd}, {apart}")
            found = self.line(f"add i64 {whole}, {self.line(f'sext i1 {down} to i64')}")
        else:
            table = self.known.get("")
            if table is None:
                slot = self.line(f"getelementptr inbounds ptr, ptr {self.function.parameters[0].text}, i64 {self.slot}")
                table = self.known[""] = self.line(f"load ptr, ptr {slot}, align 8")
            place = self.line(f"getelementptr inbounds i64, ptr {table}, i64 {sizes.order.index(name)}")
            found = self.line(f"load i64, ptr {place}, align 8")
        self.known[name] = found
        return found


class Module:
    """Functions, declarations and constants that are compiled together.

    `anywhere`: the code will also run in processes that rushlight is not in, which have asked the system for nothing.
    """

    def __init__(self, anywhere: bool = False) -> None:
        self.anywhere = anywhere
        self.functions: dict[str, Function] = {}
        self.declarations: dict[str, None] = {}
        self.globals: dict[str, str] = {}
        self.sizes: Any = None  # what its open sizes are symbols of
        self.sized: set[str] = set()  # the symbols that its code reads
        self.shared: dict[object, object] = {}  # what was written already, by what it does: equal kernels are one function

    def declare(self, text: str) -> None:
        self.declarations[text] = None

    def function(self, name: str, result: str, parameters: list[tuple[str, Type]], attributes: str = "nounwind",
                 linkage: str = "", notes: dict[str, str] | None = None) -> Function:
        function = self.functions[name] = Function(self, name, result, parameters, attributes, linkage, notes)
        return function

    def table(self, name: str, type: str, numbers: list[int]) -> str:
        """A constant array; returns its symbol."""
        body = ", ".join(f"{type} {literal(Type(type), n)}" for n in numbers)
        self.globals[name] = f"@{name} = internal unnamed_addr constant [{len(numbers)} x {type}] [{body}], align 64"
        return f"@{name}"

    def __str__(self) -> str:
        return self.written(self.globals, map(str, self.functions.values()))

    def united(self) -> str:
        """The text with one function in place of several whose text is the same, and then of those that differed by which they call."""
        known, texts = dict(self.globals), {name: str(function) for name, function in self.functions.items()}
        while True:
            first: dict[str, str] = {}
            instead = {}
            for name, text in texts.items():
                kept = first.setdefault(text.replace(f"@{name}(", "@(", 1), name)
                if kept != name:
                    instead[f"@{name}"] = f"@{kept}"
            if not instead:
                return self.written(known, texts.values())
            for these in (known, texts):
                for name, text in these.items():
                    these[name] = SYMBOL.sub(lambda found: instead.get(found[0], found[0]), text)
            texts = {name: text for name, text in texts.items() if f"@{name}" not in instead}

    def written(self, known: dict[str, str], functions: Iterable[str]) -> str:
        return "\n\n".join(["\n".join(known.values()), *functions, "\n".join(self.declarations)]) + "\n"
