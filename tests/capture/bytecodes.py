"""A table of programs, one for each bytecode of CPython 3.11, 3.12 and 3.13 that a function's body can hold.

`TABLE` maps opcodes to the body of `f(x, n, box, items, table)`; what its code, or that of a function or class inside it,
is compiled to must hold them.  `ABSENT` says why the others cannot be there.  `variants` puts a graph break into a body:
before and after each statement, and inside each expression.  test_bytecodes.py runs them.
"""

import ast
import copy
import dis
from collections.abc import Iterator
from types import CodeType

HEADER = '''
G = 10
COUNT = 0


class Box:
    kind = 1

    def __init__(self, value):
        self.value, self.log = value, []

    def scale(self, t, by=2):
        self.log.append(by)
        return t * (self.value + by)


class Wide(Box):
    __match_args__ = ("value", "log")

    def scale(self, t, by=2):
        return super().scale(t, by) + super(Wide, self).kind


class Scope:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("in")
        return 7

    def __exit__(self, kind, error, trace):
        self.log.append(kind and kind.__name__)
        return self.swallow

    async def __aenter__(self):
        self.log.append("async in")
        return 8

    async def __aexit__(self, kind, error, trace):
        self.log.append("async out")
        return self.swallow


class Steps:
    """An asynchronous iterator."""

    def __init__(self, count):
        self.count = count

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.count:
            raise StopAsyncIteration
        self.count -= 1
        return self.count


def drive(coroutine):
    """What a coroutine returns that waits for nothing."""
    try:
        while True:
            coroutine.send(None)
    except StopIteration as stop:
        return stop.value


def spread(t, *rest, **named):
    return t * (1 + len(rest)) + sum(named.values())


def produce(t, count):
    for at in range(count):
        got = yield t + at
        if got:
            t = t * got
    return count
'''

LONG = "n = " * 140 + "n + 1000"  # longer than a jump without a prefix

TABLE: dict[tuple[str, ...], str] = {
    # values and names
    ("LOAD_CONST", "LOAD_FAST", "STORE_FAST", "RETURN_VALUE", "RESUME"): """
        y = torch.sin(x)
        z = y * 3
        return z + n
    """,
    ("LOAD_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST", "STORE_FAST_LOAD_FAST"): """
        a, b = torch.sin(x), n
        c = a * b
        c = c + sum([d + b for d in items])
        return a, b, c
    """,
    ("RETURN_CONST",): """
        box.value = torch.sin(x)
        if n > 2:
            return "large"
        box.value = torch.cos(x) + n
    """,
    ("POP_TOP", "NOP"): """
        y = torch.sin(x)
        box.scale(y)
        try:
            pass
        finally:
            box.log.append(n)
        return y
    """,
    ("COPY", "SWAP"): """
        y = torch.sin(x)
        a = b = y * n
        items[n - 1] += 5
        if 0 < n + len(items) < 9:
            a = a + 1
        return a, b
    """,
    ("EXTENDED_ARG", "JUMP_FORWARD", "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_IF_FALSE", "COMPARE_OP"): f"""
        y = torch.sin(x)
        if n > 2:
            {LONG}
        else:
            n = n - 1
        for k in items:
            y = y + k
        return y + n
    """,
    ("LOAD_GLOBAL", "STORE_GLOBAL"): """
        global COUNT
        COUNT = COUNT + n
        y = torch.sin(x) * G
        COUNT += G
        return y + COUNT
    """,
    ("DELETE_GLOBAL",): """
        global COUNT, LATER
        LATER = torch.sin(x)
        y = LATER * n
        del LATER
        if n > 2:
            del LATER
        return y
    """,
    ("DELETE_FAST", "LOAD_FAST_CHECK"): """
        y = torch.sin(x)
        if n > 1:
            k = y * 2
        if n == 3:
            del k
        return y, k
    """,
    ("MAKE_CELL", "LOAD_CLOSURE", "STORE_DEREF", "LOAD_DEREF", "COPY_FREE_VARS", "MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE"): """
        total = torch.sin(x)
        def add(k: int, by=n, *, more=2):
            nonlocal total
            total = total + k * by + more
            return total
        first = add(1)
        return first, add(2, more=3), total
    """,
    ("DELETE_DEREF",): """
        y = torch.sin(x)
        def read():
            return y
        z = read() + n
        del y
        if n > 2:
            read()
        return z
    """,
    # operators
    ("BINARY_OP",): """
        y = torch.sin(x) + n - 2
        y *= 3
        y = y / 4 ** 0.5
        k = (7 // n) % 4 << 1 | 8 & 12 ^ 3
        k -= 2
        return y, k >> 1
    """,
    ("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT", "UNARY_NOT"): """
        y = -torch.sin(x)
        k = +y + ~n
        return k, not n, not items[3:]
    """,
    ("CONTAINS_OP", "IS_OP"): """
        y = torch.sin(x)
        if n in items:
            y = y + 1
        flags = [y is x, x is not y, "a" in table, "q" not in table]
        return y, flags
    """,
    ("TO_BOOL", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_IF_TRUE"): """
        y = torch.sin(x)
        if not (items[5:] or n > 2):
            y = y * 2
        while not box.log:
            box.log.append(n)
        return y
    """,
    ("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP"): """
        y = torch.sin(x)
        a = box.log or n
        b = n > 1 and items
        return y, a, b, y.sum() > 0 and n
    """,
    ("POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE"): """
        y = torch.sin(x)
        found = table.get("q" if n > 1 else "a")
        if found is None:
            y = y + 1
        if found is not None:
            y = y * 2
        return y
    """,
    ("BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR"): """
        y = torch.sin(x)
        items[0] = y[1] * n
        table["new"] = items[n - 1]
        del items[1]
        return y, table["a"], items[3 - n]
    """,
    ("BINARY_SLICE", "STORE_SLICE", "BUILD_SLICE"): """
        y = torch.sin(x)
        z = y[1:] * n
        items[:1] = [5, n]
        y[0:2] = 1.0
        return z, y[::2], items[1:n], items[::-1]
    """,
    ("LOAD_ATTR", "STORE_ATTR", "DELETE_ATTR"): """
        y = torch.sin(x)
        box.extra = y * box.value
        box.value += n
        z = box.extra
        if n > 2:
            del box.extra
        return z, box.value
    """,
    ("LOAD_METHOD", "PRECALL", "CALL"): """
        y = torch.sin(x)
        z = box.scale(y)
        items.append(z.shape[0])
        return z.sum(), len(items), max(n, 2)
    """,
    ("LOAD_SUPER_ATTR",): """
        y = torch.sin(x)
        class Inner(Box):
            def scale(self, t, by=2):
                return super().scale(t, by) + super().kind
        return Wide(n).scale(y), Inner(3).scale(y)
    """,
    ("KW_NAMES", "CALL_KW"): """
        y = torch.sin(x)
        z = box.scale(y, by=n)
        return spread(z, 1, a=n, b=2), dict(k=n)
    """,
    ("CALL_FUNCTION_EX", "DICT_MERGE", "LIST_EXTEND", "LIST_TO_TUPLE"): """
        y = torch.sin(x)
        more = {"c": n}
        z = spread(y, *items, n, **more)
        return spread(z, *items, 3, a=1, **more, **({"a": 2} if n > 2 else {}))
    """,
    # containers
    ("BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "SET_UPDATE"): """
        y = torch.sin(x)
        a = (y, n)
        b = [*a, y * 2]
        c = {n, 2, *items}
        d = {1, 2, 3, 4}
        return a, b, sorted(c), sorted(d)
    """,
    ("BUILD_MAP", "DICT_UPDATE", "BUILD_CONST_KEY_MAP"): """
        y = torch.sin(x)
        a = {"y": y, n: 2}
        b = {"k": n, "y": y * 2}
        return a, b, {**b, **table}
    """,
    ("LIST_APPEND", "SET_ADD", "MAP_ADD", "GET_ITER", "FOR_ITER", "JUMP_BACKWARD"): """
        y = torch.sin(x)
        a = [y + k for k in items if k != n]
        b = {k % n for k in items}
        c = {k: y * k for k in items}
        total = y
        for k in items:
            if k == 2:
                continue
            total = total + k
        else:
            total = total * 2
        return a, sorted(b), c, total
    """,
    ("LOAD_FAST_AND_CLEAR", "END_FOR"): """
        k = n
        y = torch.sin(x)
        a = [y * k for k in items]
        b = [[y + i for i in range(k)] for k in (1, 2)]
        return a, b, k
    """,
    ("UNPACK_SEQUENCE", "UNPACK_EX"): """
        y = torch.sin(x)
        a, (b, c) = y, items[:2]
        first, *middle, last = items
        if n > 2:
            d, e, h = items[:n - 1]
        return a * b, c, first, middle, last
    """,
    ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE", "BUILD_STRING"): """
        y = torch.sin(x)
        text = f"{n}, {n:>4} and {box.value!r:^8} {items!s} {y.shape[0]:{n}}"
        return y, text
    """,
    # jumps backwards
    ("POP_JUMP_BACKWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_FALSE"): """
        y = torch.sin(x)
        k = 0
        while k < n:
            y = y + k
            k += 1
        while not k < 0:
            k -= 1
            y = y * 2
        return y
    """,
    ("POP_JUMP_BACKWARD_IF_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE"): """
        y = torch.sin(x)
        left = items
        while left is not None:
            y = y + left[0]
            left = left[1:] or None
        while left is None:
            left = y * n
        return left
    """,
    # generators
    ("RETURN_GENERATOR", "YIELD_VALUE", "CALL_INTRINSIC_1"): """
        def count(t):
            for k in items:
                got = yield t + k
                box.log.append(got)
        running = count(torch.sin(x))
        a = next(running)
        b = running.send(n)
        return a, b, list(running), sum(k * n for k in items)
    """,
    ("SEND", "GET_YIELD_FROM_ITER", "JUMP_BACKWARD_NO_INTERRUPT", "END_SEND"): """
        def outer(t):
            back = yield from produce(t, n)
            yield t * back
            yield from items
        made = list(outer(torch.sin(x)))
        return made
    """,
    ("CLEANUP_THROW",): """
        def outer(t):
            try:
                yield from produce(t, n)
            except ValueError as error:
                yield t + len(str(error))
        running = outer(torch.sin(x))
        first = next(running)
        second = running.throw(ValueError("seen"))
        return first, second, list(running)
    """,
    # exceptions and with
    ("PUSH_EXC_INFO", "CHECK_EXC_MATCH", "POP_EXCEPT", "RERAISE", "RAISE_VARARGS"): """
        y = torch.sin(x)
        try:
            if n > 1:
                raise KeyError(n) from None
            y = y * items[n + 5]
        except (IndexError, AttributeError) as error:
            box.log.append(str(error))
            y = y + 1
        except KeyError:
            if n > 2:
                raise
            y = y - 1
        finally:
            box.log.append("finally")
        return y
    """,
    ("LOAD_ASSERTION_ERROR",): """
        y = torch.sin(x)
        assert n < 3, f"{n} is too large"
        return y
    """,
    ("BEFORE_WITH", "WITH_EXCEPT_START"): """
        y = torch.sin(x)
        with Scope(box.log) as got, Scope(box.log, swallow=n < 3):
            y = y + got
            if n > 1:
                y = y * table["missing"]
        return y
    """,
    ("CHECK_EG_MATCH", "PREP_RERAISE_STAR", "CALL_INTRINSIC_2"): """
        y = torch.sin(x)
        try:
            if n > 1:
                raise ExceptionGroup("two", [KeyError("k"), ValueError(n)])
            y = y + 1
        except* KeyError as group:
            box.log.append(len(group.exceptions))
            y = y * 2
        return y
    """,
    # match
    ("MATCH_SEQUENCE", "GET_LEN"): """
        y = torch.sin(x)
        match items[:n]:
            case [a]:
                y = y + a
            case [a, *rest]:
                y = y * a + len(rest)
        return y
    """,
    ("MATCH_MAPPING", "MATCH_KEYS"): """
        y = torch.sin(x)
        match table:
            case {"z": k}:
                y = y - k
            case {"a": k, **rest} if n < 3:
                y = y * k + len(rest)
            case _:
                y = y + 100
        return y
    """,
    ("MATCH_CLASS",): """
        y = torch.sin(x)
        match box if n < 3 else n:
            case Wide(v, log=entries):
                y = y * v + len(entries)
            case Box(value=v):
                y = y + v
            case int(k):
                y = y - k
        return y
    """,
    # imports
    ("IMPORT_NAME", "IMPORT_FROM"): """
        import math
        from os import path as where, sep
        y = torch.sin(x) * math.sqrt(n)
        from math import nothing
        return y, where, sep
    """,
    # classes
    ("LOAD_BUILD_CLASS", "PUSH_NULL", "LOAD_NAME", "STORE_NAME", "DELETE_NAME"): """
        y = torch.sin(x)
        class Inner(Box, metaclass=type):
            factor = G * 2
            other = factor + 1
            del factor
            def twice(self, t):
                return self.scale(t) * self.other
        made = Inner(n)
        return made.twice(y), Inner.other
    """,
    ("SETUP_ANNOTATIONS",): """
        y = torch.sin(x)
        class Inner:
            size: int = 3
            name: str
        return y * Inner.size, Inner.__annotations__
    """,
    ("LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "LOAD_LOCALS"): """
        y = torch.sin(x)
        k = n
        class Inner:
            n = k + 1
            t = y * n
        return Inner.t, Inner.n, n
    """,
    ("LOAD_FROM_DICT_OR_GLOBALS",): """
        y = torch.sin(x)
        class Inner:
            kind = int
            def scale[T](self, by: kind, t: T, more: G = 2):
                return t * by + more
        return Inner().scale(n, y), Inner.scale.__annotations__["more"]
    """,
    # coroutines
    ("GET_AWAITABLE",): """
        async def double(t):
            return t * 2
        async def go(t):
            return await double(t) + n
        return drive(go(torch.sin(x)))
    """,
    ("GET_AITER", "GET_ANEXT", "END_ASYNC_FOR"): """
        async def go(t):
            async for k in Steps(n):
                t = t + k
            return t
        return drive(go(torch.sin(x)))
    """,
    ("BEFORE_ASYNC_WITH",): """
        async def go(t):
            async with Scope(box.log) as k:
                t = t * k
            return t
        return drive(go(torch.sin(x)))
    """,
    ("ASYNC_GEN_WRAP",): """
        async def steps(t):
            for k in items:
                yield t + k
        async def go(t):
            return [value async for value in steps(t)]
        return drive(go(torch.sin(x)))
    """,
}

ABSENT = {
    "CACHE": "room for the interpreter's notes behind an instruction; dis leaves it out",
    "IMPORT_STAR": "`from m import *` is allowed at module level only",
    "PRINT_EXPR": "made for what is typed at the prompt",
    "INTERPRETER_EXIT": "ends the interpreter's own entry frame",
    "ENTER_EXECUTOR": "written over a jump by CPython's own compiler; dis shows the jump",
    "EXIT_INIT_CHECK": "part of a frame that the interpreter makes for __init__",
    "RESERVED": "no instruction: the interpreter's code for one that is not known",
}


def absent(name: str) -> str | None:
    """Why no function's code holds this opcode, or None."""
    if dis.opmap[name] >= 256:
        return "the compiler's own, replaced before the code is made"
    if name.startswith("INSTRUMENTED_"):
        return "written over an instruction while a debugger or profiler watches; dis shows that instruction"
    return ABSENT.get(name)


def source(body: str) -> str:
    lines = body.strip("\n").splitlines()
    deep = len(lines[0]) - len(lines[0].lstrip())
    return "def f(x, n, box, items, table):\n" + "".join(f"    {line[deep:]}\n" for line in lines if line.strip())


def opcodes(code: CodeType) -> set[str]:
    """The opcodes of a code object and of all inside it."""
    found = {ins.opname for ins in dis.get_instructions(code)}
    return found.union(*(opcodes(const) for const in code.co_consts if isinstance(const, CodeType)))


# -- breaks --------------------------------------------------------------------------------------------------------------

BREAK = "torch._dynamo.graph_break()"
ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)


def blocks(tree: ast.AST) -> list[list[ast.stmt]]:
    """The lists of statements inside the function."""
    return [block for node in ast.walk(tree) for field in ("body", "orelse", "finalbody")
            if isinstance(block := getattr(node, field, None), list) and block and not isinstance(node, ast.Module)]


def expressions(node: ast.AST, found: list | None = None) -> list[tuple[ast.AST, str, int | None]]:
    """The places of expressions that may be put in brackets: (parent, field, index in a list)."""
    found = [] if found is None else found
    for field, value in ast.iter_fields(node):
        if isinstance(node, ast.match_case) and field == "pattern" or isinstance(node, ast.JoinedStr) and field != "values" or (
                field in ("annotation", "returns", "type_params", "format_spec", "decorator_list") or isinstance(node, ast.Import)):
            continue
        for at, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST):
                continue
            if isinstance(child, ast.expr) and not isinstance(child, (ast.Starred, ast.Slice)) and (
                    isinstance(getattr(child, "ctx", ast.Load()), ast.Load)) and not isinstance(node, ast.JoinedStr):
                found.append((node, field, at))
            expressions(child, found)
    return found


def variants(text: str) -> Iterator[tuple[str, str]]:
    """(where, text) for the text as it stands and with one break at each place."""
    yield "none", text
    tree = ast.parse(text)
    for number, block in enumerate(blocks(tree)):
        for at in range(len(block) + 1):
            if at == len(block) and isinstance(block[-1], ENDS):
                continue
            changed = copy.deepcopy(tree)
            target = blocks(changed)[number]
            target.insert(at, ast.parse(BREAK).body[0])
            line = getattr(block[min(at, len(block) - 1)], "lineno")
            yield f"{'before' if at < len(block) else 'after'} line {line}: {ast.unparse(block[min(at, len(block) - 1)]).splitlines()[0]}", \
                ast.unparse(ast.fix_missing_locations(changed))
    for number, (parent, field, at) in enumerate(expressions(tree)):
        changed = copy.deepcopy(tree)
        parent, field, at = expressions(changed)[number]
        old = getattr(parent, field) if at is None else getattr(parent, field)[at]
        new = ast.parse(f"({BREAK}, 0)[1]", mode="eval").body
        new.value.elts[1] = old
        if at is None:
            setattr(parent, field, new)
        else:
            getattr(parent, field)[at] = new
        yield f"inside line {old.lineno}: {ast.unparse(old)}", ast.unparse(ast.fix_missing_locations(changed))
