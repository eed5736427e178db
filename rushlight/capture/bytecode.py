"""Code objects as lists of instructions, the same on CPython 3.11, 3.12 and 3.13.

The only file that knows Python versions: it drops what carries no meaning (caches, prefixes), splits superinstructions,
gives jumps their target as an index, and renames what differs only in spelling.  Read `decode` first.
"""

import dis
import sys
from types import CodeType
from typing import Any

VERSION = sys.version_info[:2]
NOTHING = frozenset({"CACHE", "EXTENDED_ARG", "PRECALL", "RESUME", "NOP", "MAKE_CELL_DONE", "END_SEND_NOP",
                     "ENTER_EXECUTOR", "RESUME_CHECK", "SETUP_ANNOTATIONS_NOP"})
# op -> (canonical op, fixed value); what a value of None means is said by the canonical op.
RENAMED = {
    "POP_JUMP_FORWARD_IF_TRUE": "POP_JUMP_IF_TRUE", "POP_JUMP_BACKWARD_IF_TRUE": "POP_JUMP_IF_TRUE",
    "POP_JUMP_FORWARD_IF_FALSE": "POP_JUMP_IF_FALSE", "POP_JUMP_BACKWARD_IF_FALSE": "POP_JUMP_IF_FALSE",
    "POP_JUMP_FORWARD_IF_NONE": "POP_JUMP_IF_NONE", "POP_JUMP_BACKWARD_IF_NONE": "POP_JUMP_IF_NONE",
    "POP_JUMP_FORWARD_IF_NOT_NONE": "POP_JUMP_IF_NOT_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE": "POP_JUMP_IF_NOT_NONE",
    "JUMP_FORWARD": "JUMP", "JUMP_BACKWARD": "JUMP", "JUMP_BACKWARD_NO_INTERRUPT": "JUMP",
    "LOAD_FAST_CHECK": "LOAD_FAST", "LOAD_CLASSDEREF": "LOAD_DEREF",
}
CONVERSIONS = {0: None, 1: str, 2: repr, 3: ascii}
COMPARE = ("<", "<=", "==", "!=", ">", ">=")
UNARY = {"UNARY_POSITIVE": "+", "UNARY_NEGATIVE": "-", "UNARY_INVERT": "~"}
JUMPS = frozenset(dis.hasjrel + dis.hasjabs)
WITH_ARGUMENT = frozenset(dis.hasarg if VERSION >= (3, 12) else range(dis.HAVE_ARGUMENT, 256))
UNSUPPORTED = frozenset({
    "GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "BEFORE_ASYNC_WITH", "END_ASYNC_FOR", "ASYNC_GEN_WRAP", "CHECK_EG_MATCH",
    "PREP_RERAISE_STAR", "IMPORT_STAR", "PRINT_EXPR", "LOAD_NAME", "STORE_NAME", "DELETE_NAME", "SETUP_ANNOTATIONS",
    "LOAD_LOCALS", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_FROM_DICT_OR_DEREF", "CLEANUP_THROW_ASYNC", "INTERPRETER_EXIT",
    "EXIT_INIT_CHECK",
})


class Ins:
    """One instruction: canonical op, its resolved value, the index it may jump to, the user's line."""

    __slots__ = ("op", "value", "target", "line", "index")

    def __init__(self, op: str, value: Any, target: int | None, line: int | None):
        self.op, self.value, self.target, self.line = op, value, target, line
        self.index = -1

    def __repr__(self) -> str:
        arrow = "" if self.target is None else f" -> {self.target}"
        return f"{self.index:4} {self.op} {self.value!r}{arrow}"


class Program:
    """A decoded code object: `instructions`, `handlers[i]` = (target, depth, push lasti) or None."""

    __slots__ = ("code", "instructions", "handlers", "unsupported", "names", "is_generator")

    def __init__(self, code: CodeType):
        self.code = code
        self.names = slot_names(code)
        self.is_generator = bool(code.co_flags & 0x20)
        self.unsupported: str | None = None
        self.instructions, self.handlers = [], []


def slot_names(code: CodeType) -> list[str]:
    """The names of the frame's slots: locals, then cells that are no locals, then free variables."""
    return [*code.co_varnames, *(name for name in code.co_cellvars if name not in code.co_varnames), *code.co_freevars]


_programs: dict[CodeType, Program] = {}
_by_identity: dict[int, Program] = {}


def decode(code: CodeType) -> Program:
    """The program of a code object; kept, since code objects never change."""
    program = _by_identity.get(id(code))
    if program is None:
        program = _by_identity[id(code)] = translate(code)
    return program


def caches(number: int, name: str) -> int:
    """How many words of cache follow an instruction."""
    return dis._inline_cache_entries.get(name, 0) if VERSION >= (3, 13) else dis._inline_cache_entries[number]


def translate(code: CodeType) -> Program:
    program = Program(code)
    if code.co_flags & (0x80 | 0x100 | 0x200):
        program.unsupported = "async function"
    start: dict[int, int] = {}  # byte offset -> index of the first instruction there
    pending: list[tuple[Ins, int]] = []
    out: list[Ins] = program.instructions
    kwnames: tuple = ()
    raw, line, arg = code.co_code, code.co_firstlineno, 0
    for offset, (place, *_) in zip(range(0, len(raw), 2), code.co_positions()):  # `dis.get_instructions` takes 10 us an instruction
        number, arg = raw[offset], arg << 8 | raw[offset + 1]
        name = dis.opname[number]
        if name == "CACHE":
            arg = 0
            continue
        start[offset] = len(out)
        line = line if place is None else place
        if name == "EXTENDED_ARG":
            continue
        if name == "KW_NAMES":
            kwnames = code.co_consts[arg]
        elif name not in NOTHING:
            if name in UNSUPPORTED:
                program.unsupported = program.unsupported or name
            jumps = number in JUMPS
            for op, value in expand(code, name, arg if number in WITH_ARGUMENT else None, kwnames):
                ins = Ins(op, value, None, line)
                if jumps:
                    pending.append((ins, offset + 2 * (1 + caches(number, name) + (-arg if "BACKWARD" in name else arg))))
                out.append(ins)
            if name == "CALL":
                kwnames = ()
        arg = 0
    start.setdefault(len(raw), len(out))
    for ins, offset in pending:
        ins.target = start[offset]
    for index, ins in enumerate(out):
        ins.index = index
    for ins in out:
        if ins.op == "FOR_ITER":  # at the end of a loop CPython pops the iterator and steps over the marker there
            while ins.target < len(out) and out[ins.target].op == "END_FOR":
                ins.target += 1
                if VERSION >= (3, 13) and out[ins.target].op == "POP_TOP":
                    ins.target += 1
                    break
    handlers: list = [None] * len(out)
    # Later entries of the table never overlap earlier ones: CPython emits disjoint ranges.
    for entry in dis._parse_exception_table(code):
        first, last = start.get(entry.start), start.get(entry.end)
        if last is None:
            last = min((at for offset, at in start.items() if offset >= entry.end), default=len(out))
        for index in range(first, last):
            handlers[index] = (start[entry.target], entry.depth, entry.lasti)
    program.handlers = handlers
    return program


def expand(code: CodeType, name: str, arg: Any, kwnames: tuple) -> list[tuple[str, Any]]:
    """The canonical instructions of one raw instruction: (op, value)."""
    op = RENAMED.get(name, name)
    if name == "LOAD_CONST":
        return [(op, code.co_consts[arg])]
    if name == "RETURN_CONST":
        return [("LOAD_CONST", code.co_consts[arg]), ("RETURN_VALUE", None)]
    if name in ("LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST"):
        first, second = name.split("_FAST_")[0] + "_FAST", name.split("_FAST_")[1] + ("" if name.endswith("FAST") else "_FAST")
        return [(first, arg >> 4), (second, arg & 15)]
    if name == "LOAD_GLOBAL":
        variable = code.co_names[arg >> 1]
        if not arg & 1:
            return [(op, variable)]
        null = ("PUSH_NULL", None)
        return [(op, variable), null] if VERSION >= (3, 13) else [null, (op, variable)]
    if name == "LOAD_METHOD":
        return [("LOAD_METHOD", code.co_names[arg])]
    if name == "LOAD_ATTR":
        if VERSION >= (3, 12):
            return [("LOAD_METHOD" if arg & 1 else "LOAD_ATTR", code.co_names[arg >> 1])]
        return [(op, code.co_names[arg])]
    if name == "LOAD_SUPER_ATTR":
        # bit 0: a method load; bit 1: two-argument super, the only form that differs for nobody
        return [("LOAD_SUPER_ATTR", (code.co_names[arg >> 2], bool(arg & 1)))]
    if name in ("STORE_ATTR", "DELETE_ATTR", "IMPORT_NAME", "IMPORT_FROM", "STORE_GLOBAL", "DELETE_GLOBAL"):
        return [(op, code.co_names[arg])]
    if name == "COMPARE_OP":
        if VERSION >= (3, 13):
            both = [(op, COMPARE[arg >> 5])]
            return both + [("TO_BOOL", None)] if arg & 16 else both
        return [(op, COMPARE[arg >> 4] if VERSION >= (3, 12) else dis.cmp_op[arg])]
    if name == "BINARY_OP":
        return [(op, dis._nb_ops[arg][1])]
    if name in UNARY:
        return [("UNARY", UNARY[name])]
    if name == "CALL":
        return [(op, (arg, kwnames))]
    if name == "CALL_INTRINSIC_1":
        names = {3: "STOPITERATION_ERROR", 5: "UNARY_POSITIVE", 6: "LIST_TO_TUPLE"}
        kind = names.get(arg, f"CALL_INTRINSIC_1_{arg}")
        return [("UNARY", "+")] if kind == "UNARY_POSITIVE" else [(kind, None)]
    if name == "FORMAT_VALUE":
        return [("FORMAT_VALUE", (CONVERSIONS[arg & 3], bool(arg & 4)))]
    if name == "FORMAT_SIMPLE":
        return [("FORMAT_VALUE", (None, False))]
    if name == "FORMAT_WITH_SPEC":
        return [("FORMAT_VALUE", (None, True))]
    if name == "CONVERT_VALUE":
        return [("CONVERT_VALUE", CONVERSIONS[arg])]
    if name == "MAKE_FUNCTION":
        return [(op, arg or 0)]
    if name == "YIELD_VALUE":
        return [(op, None)]
    return [(op, arg)]


def unsupported(code: CodeType) -> str | None:
    """Why this code cannot be interpreted, or None."""
    return decode(code).unsupported
