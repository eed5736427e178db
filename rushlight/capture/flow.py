"""Where the ways through a program meet: the instruction after both arms of a jump, and the names that are read behind it.

Exceptions are left out of the ways: an arm that raises is none that a fork takes.  Read `join` first.
"""

from functools import cache

from .bytecode import Ins, Program

EXIT = -1  # in the place of an instruction: the end of the frame
WIDE = 600  # instructions that may lie between a jump and where its ways meet
STOPS = ("YIELD_VALUE", "SEND", "RETURN_GENERATOR")
LOOKS = frozenset({"locals", "vars", "dir", "eval", "exec", "super"})  # what reads names without a load


def successors(ins: Ins) -> tuple[int, ...]:
    if ins.op == "RETURN_VALUE":
        return (EXIT,)
    if ins.op in ("RAISE_VARARGS", "RERAISE"):
        return ()
    if ins.op == "JUMP":
        return () if ins.target is None else (ins.target,)
    return (ins.index + 1,) if ins.target is None else (ins.index + 1, ins.target)


def reached(program: Program, starts: tuple[int, ...], wall: int) -> dict[int, int]:
    """The instructions that can come after some, those behind `wall` left out: each with the one that it was first reached from."""
    found = dict.fromkeys((at for at in starts if at != wall), EXIT)
    waiting = list(found)
    while waiting:
        at = waiting.pop()
        for one in successors(program.instructions[at]) if at != EXIT else ():
            if one != wall and one not in found:
                found[one] = at
                waiting.append(one)
    return found


@cache
def join(program: Program, at: int) -> int | None:
    """The first instruction that all ways from a jump come to (or EXIT); None where one goes back behind the jump before."""
    starts = successors(program.instructions[at])
    found = reached(program, starts, at)
    if EXIT not in found:
        return None
    path, one = [EXIT], found[EXIT]
    while one != EXIT:
        path.append(one)
        one = found[one]
    for wall in reversed(path):
        between = reached(program, starts, wall)
        if EXIT not in between or wall == EXIT:
            fits = len(between) <= WIDE and all(one > at and program.instructions[one].op not in STOPS for one in between)
            return wall if fits else None
    return None


@cache
def live(program: Program) -> list[int]:
    """For each instruction the slots that may be read from there on, as bits."""
    if LOOKS & {*program.code.co_names}:
        return [-1] * len(program.instructions)
    found = [0] * len(program.instructions)
    changed = True
    while changed:
        changed = False
        for ins in reversed(program.instructions):
            bits = 0
            for one in successors(ins):
                bits |= 0 if one == EXIT or one >= len(found) else found[one]
            if ins.op in ("STORE_FAST", "DELETE_FAST"):
                bits &= ~(1 << ins.value)
            if ins.op in ("LOAD_FAST", "LOAD_FAST_AND_CLEAR", "DELETE_FAST", "LOAD_CLOSURE", "LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF"):
                bits |= 1 << ins.value
            handler = program.handlers[ins.index]
            if handler is not None:
                bits |= found[handler[0]]
            if bits != found[ins.index]:
                found[ins.index], changed = bits, True
    return found
