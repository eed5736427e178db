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
UNSUPPORTED = frozenset({
    "GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "BEFORE_ASYNC_WITH", "END_ASYNC_FOR", "ASYNC_GEN_WRAP", "CHECK_EG_MATCH",
    "PREP_RERAISE_STAR", "IMPORT_STAR", "PRINT_EXPR", "LOAD_NAME", "STORE_NAME", "DELETE_NAME", "SETUP_ANNOTATIONS",
    "LOAD_LOCALS", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_FROM_DICT_OR_DEREF", "CLEANUP_THROW_ASYNC", "INTERPRETER_EXIT",
    "EXIT_INIT_CHECK",
})


class Ins:
    """One instruction: canonical op, its resolved value, the index it may jump to, the user's line."""

    __slots__ = ("op", "value", "target", "line", "index", "positions")

    def __init__(self, op: str, value: Any, target: int | None, line: int | None, positions: Any):
        self.op, self.value, self.target, self.line, self.positions = op, value, target, line, positions
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


def translate(code: CodeType) -> Program:
    program = Program(code)
    if code.co_flags & (0x80 | 0x100 | 0x200):
        program.unsupported = "async function"
    start: dict[int, int] = {}  # byte offset -> index of the first instruction there
    pending: list[tuple[Ins, int]] = []
    out: list[Ins] = program.instructions
    kwnames: tuple = ()
    raw = [i for i in dis.get_instructions(code)]
    line = code.co_firstlineno
    for i in raw:
        start[i.offset] = len(out)
        positions = i.positions
        if positions is not None and positions.lineno is not None:
            line = positions.lineno
        name = i.opname
        if name == "KW_NAMES":
            kwnames = code.co_consts[i.arg]
            continue
        if name in NOTHING:
            continue
        if name in UNSUPPORTED:
            program.unsupported = program.unsupported or name
        for op, value, jump in expand(code, i, name, kwnames):
            ins = Ins(op, value, None, line, positions)
            if jump is not None:
                pending.append((ins, jump))
            out.append(ins)
        if name == "CALL":
            kwnames = ()
    end = raw[-1].offset + 2
    start.setdefault(end, len(out))
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


def expand(code: CodeType, i: dis.Instruction, name: str, kwnames: tuple) -> list[tuple[str, Any, int | None]]:
    """The canonical instructions of one raw instruction: (op, value, byte offset jumped to)."""
    arg = i.arg
    op = RENAMED.get(name, name)
    if i.opcode in dis.hasjrel or i.opcode in dis.hasjabs:
        return [(op, arg, i.argval)]
    if name == "LOAD_CONST":
        return [(op, i.argval, None)]
    if name == "RETURN_CONST":
        return [("LOAD_CONST", i.argval, None), ("RETURN_VALUE", None, None)]
    if name in ("LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST"):
        first, second = name.split("_FAST_")[0] + "_FAST", name.split("_FAST_")[1] + ("" if name.endswith("FAST") else "_FAST")
        return [(first, arg >> 4, None), (second, arg & 15, None)]
    if name == "LOAD_GLOBAL":
        variable = code.co_names[arg >> 1]
        if not arg & 1:
            return [(op, variable, None)]
        null = ("PUSH_NULL", None, None)
        return [(op, variable, None), null] if VERSION >= (3, 13) else [null, (op, variable, None)]
    if name == "LOAD_METHOD":
        return [("LOAD_METHOD", code.co_names[arg], None)]
    if name == "LOAD_ATTR":
        if VERSION >= (3, 12):
            return [("LOAD_METHOD" if arg & 1 else "LOAD_ATTR", code.co_names[arg >> 1], None)]
        return [(op, code.co_names[arg], None)]
    if name == "LOAD_SUPER_ATTR":
        # bit 0: a method load; bit 1: two-argument super, the only form that differs for nobody
        return [("LOAD_SUPER_ATTR", (code.co_names[arg >> 2], bool(arg & 1)), None)]
    if name in ("STORE_ATTR", "DELETE_ATTR", "IMPORT_NAME", "IMPORT_FROM", "STORE_GLOBAL", "DELETE_GLOBAL"):
        return [(op, code.co_names[arg], None)]
    if name == "COMPARE_OP":
        if VERSION >= (3, 13):
            both = [(op, COMPARE[arg >> 5], None)]
            return both + [("TO_BOOL", None, None)] if arg & 16 else both
        return [(op, COMPARE[arg >> 4] if VERSION >= (3, 12) else dis.cmp_op[arg], None)]
    if name == "BINARY_OP":
        return [(op, dis._nb_ops[arg][1], None)]
    if name in UNARY:
        return [("UNARY", UNARY[name], None)]
    if name == "CALL":
        return [(op, (arg, kwnames), None)]
    if name == "CALL_INTRINSIC_1":
        names = {3: "STOPITERATION_ERROR", 5: "UNARY_POSITIVE", 6: "LIST_TO_TUPLE"}
        kind = names.get(arg, f"CALL_INTRINSIC_1_{arg}")
        return [("UNARY", "+", None)] if kind == "UNARY_POSITIVE" else [(kind, None, None)]
    if name == "FORMAT_VALUE":
        return [("FORMAT_VALUE", (CONVERSIONS[arg & 3], bool(arg & 4)), None)]
    if name == "FORMAT_SIMPLE":
        return [("FORMAT_VALUE", (None, False), None)]
    if name == "FORMAT_WITH_SPEC":
        return [("FORMAT_VALUE", (None, True), None)]
    if name == "CONVERT_VALUE":
        return [("CONVERT_VALUE", CONVERSIONS[arg], None)]
    if name == "MAKE_FUNCTION":
        return [(op, arg or 0, None)]
    if name == "YIELD_VALUE":
        return [(op, None, None)]
    return [(op, arg, None)]


def unsupported(code: CodeType) -> str | None:
    """Why this code cannot be interpreted, or None."""
    return decode(code).unsupported
