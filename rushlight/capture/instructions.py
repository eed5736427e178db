"""What each instruction does, in terms of a machine's operations.

A handler takes the machine, the frame and the instruction, and returns None (go on), an index to jump to, or one of
RETURN and YIELD.  It may change the stack before an operation fails: the loop kept a copy.
"""

from types import CellType
from typing import Any

from .bytecode import VERSION
from .faults import runs_natively
from .machine import METHOD_NULL_FIRST, NULL

TABLE: dict = {}
SEND_POPS = VERSION < (3, 12)


def op(*names: str):
    def add(function):
        for name in names or (function.__name__,):
            TABLE[name] = function
        return function
    return add


def popped(m, f) -> Any:
    return m.value(f.stack.pop())


def popn(f, count: int) -> list:
    if not count:
        return []
    values = f.stack[-count:]
    del f.stack[-count:]
    return values


def kept(m, f, i) -> Any:
    """The container on the stack that the instruction adds to."""
    f.stack[-i.value] = target = m.value(f.stack[-i.value])
    return target


# -- stack and constants -------------------------------------------------------------------------------------------------


@op("POP_TOP", "END_FOR")
def pop_top(m, f, i):
    m.lets_go(f.stack.pop())


@op("END_SEND")
def end_send(m, f, i):
    del f.stack[-2]


@op("PUSH_NULL")
def push_null(m, f, i):
    f.stack.append(NULL)


@op("SWAP")
def swap(m, f, i):
    f.stack[-1], f.stack[-i.value] = f.stack[-i.value], f.stack[-1]


@op("COPY")
def copy(m, f, i):
    f.stack.append(f.stack[-i.value])


@op("LOAD_CONST")
def load_const(m, f, i):
    f.stack.append(i.value)


@op("LOAD_ASSERTION_ERROR")
def load_assertion_error(m, f, i):
    f.stack.append(AssertionError)


@op("LOAD_BUILD_CLASS")
def load_build_class(m, f, i):
    f.stack.append(f.builtins["__build_class__"])


# -- names ---------------------------------------------------------------------------------------------------------------


@op("LOAD_FAST")
def load_fast(m, f, i):
    value = f.fast[i.value]
    if value is NULL:
        name = f.program.names[i.value]
        raise UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value", name=name)
    f.stack.append(value)


@op("LOAD_CLOSURE")
def load_closure(m, f, i):
    f.stack.append(f.fast[i.value])


@op("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(m, f, i):
    f.stack.append(f.fast[i.value])
    f.fast[i.value] = NULL


@op("STORE_FAST")
def store_fast(m, f, i):
    before = f.fast[i.value]
    f.fast[i.value] = f.stack.pop()
    if before is not NULL:
        m.lets_go(before)


@op("DELETE_FAST")
def delete_fast(m, f, i):
    if f.fast[i.value] is NULL:
        name = f.program.names[i.value]
        raise UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value", name=name)
    m.lets_go(f.fast[i.value])
    f.fast[i.value] = NULL


@op("MAKE_CELL")
def make_cell(m, f, i):
    value = f.fast[i.value]
    f.fast[i.value] = m.born(CellType() if value is NULL else CellType(value))


@op("COPY_FREE_VARS")
def copy_free_vars(m, f, i):
    f.fast[len(f.fast) - i.value:] = f.function.__closure__


@op("LOAD_DEREF")
def load_deref(m, f, i):
    name = f.program.names[i.value]
    try:
        f.stack.append(m.load_cell(f.fast[i.value], name))
    except NameError:
        if name in f.program.code.co_freevars:
            raise
        words = f"cannot access local variable '{name}' where it is not associated with a value"
        raise UnboundLocalError(words, name=name) from None


@op("STORE_DEREF")
def store_deref(m, f, i):
    m.store_cell(f.fast[i.value], f.stack.pop())


@op("DELETE_DEREF")
def delete_deref(m, f, i):
    m.load_cell(f.fast[i.value], f.program.names[i.value])
    m.delete_cell(f.fast[i.value])


@op("LOAD_GLOBAL")
def load_global(m, f, i):
    f.stack.append(m.load_global(f, i.value))


@op("STORE_GLOBAL")
def store_global(m, f, i):
    m.store_global(f, i.value, popped(m, f))


@op("DELETE_GLOBAL")
def delete_global(m, f, i):
    m.delete_global(f, i.value)


@op("LOAD_ATTR")
def load_attr(m, f, i):
    f.stack.append(m.getattr(popped(m, f), i.value))


@op("LOAD_METHOD")
def load_method(m, f, i):
    method = m.bound_method(f.stack.pop(), i.value)
    f.stack.extend((NULL, method) if METHOD_NULL_FIRST else (method, NULL))


@op("LOAD_SUPER_ATTR")
def load_super_attr(m, f, i):
    name, method = i.value
    value, start = popped(m, f), None
    start = popped(m, f)
    popped(m, f)
    result = m.load_super(start, value, name)
    f.stack.extend((result,) if not method else (NULL, result) if METHOD_NULL_FIRST else (result, NULL))


@op("STORE_ATTR")
def store_attr(m, f, i):
    target = popped(m, f)
    m.setattr(target, i.value, popped(m, f))


@op("DELETE_ATTR")
def delete_attr(m, f, i):
    m.delattr(popped(m, f), i.value)


@op("IMPORT_NAME")
def import_name(m, f, i):
    names, level = f.stack.pop(), f.stack.pop()
    f.stack.append(m.import_name(f, i.value, names, level))


@op("IMPORT_FROM")
def import_from(m, f, i):
    module = m.value(f.stack[-1])
    try:
        f.stack.append(m.getattr(module, i.value))
    except AttributeError:
        f.stack.append(import_again(module, i.value))


def import_again(module, name: str) -> Any:
    """What Python's own import finds, a submodule that is loaded but no attribute, or raises."""
    scope: dict = {}
    try:
        exec(f"from {module.__name__} import {name} as found", scope)
    except ImportError as error:
        raise error.with_traceback(None) from None
    return scope["found"]


# -- operations ----------------------------------------------------------------------------------------------------------


@op("UNARY")
def unary(m, f, i):
    f.stack.append(m.unary(i.value, popped(m, f)))


@op("UNARY_NOT")
def unary_not(m, f, i):
    f.stack.append(not m.truth(popped(m, f)))


@op("TO_BOOL")
def to_bool(m, f, i):
    f.stack.append(m.to_bool(f, i, popped(m, f)))


@op("BINARY_OP")
def binary_op(m, f, i):
    left, right = map(m.value, popn(f, 2))
    f.stack.append(m.binary(i.value, left, right))


@op("COMPARE_OP")
def compare_op(m, f, i):
    left, right = map(m.value, popn(f, 2))
    f.stack.append(m.compare_at(f, i, left, right))


@op("IS_OP")
def is_op(m, f, i):
    right = popped(m, f)
    f.stack.append(m.same(popped(m, f), right) != bool(i.value))


@op("CONTAINS_OP")
def contains_op(m, f, i):
    container = popped(m, f)
    f.stack.append(m.contains(container, popped(m, f)) != bool(i.value))


@op("BINARY_SUBSCR")
def binary_subscr(m, f, i):
    key = popped(m, f)
    f.stack.append(m.item_at(f.stack.pop(), key))


@op("STORE_SUBSCR")
def store_subscr(m, f, i):
    key, container = popped(m, f), f.stack.pop()
    m.setitem_at(container, key, f.stack.pop())


@op("DELETE_SUBSCR")
def delete_subscr(m, f, i):
    key = popped(m, f)
    m.delitem(popped(m, f), key)


@op("BINARY_SLICE")
def binary_slice(m, f, i):
    stop, start = popped(m, f), popped(m, f)
    f.stack.append(m.getitem(popped(m, f), slice(start, stop)))


@op("STORE_SLICE")
def store_slice(m, f, i):
    stop, start, container = popped(m, f), popped(m, f), popped(m, f)
    m.setitem(container, slice(start, stop), popped(m, f))


@op("FORMAT_VALUE")
def format_value(m, f, i):
    convert, has_spec = i.value
    spec = popped(m, f) if has_spec else ""
    value = popped(m, f)
    if convert is not None:
        value = m.call_plain(convert, value)
    f.stack.append(m.format_at(f, i, value, spec))


@op("CONVERT_VALUE")
def convert_value(m, f, i):
    f.stack.append(m.call_plain(i.value, popped(m, f)))


# -- jumps ---------------------------------------------------------------------------------------------------------------


@op("JUMP")
def jump(m, f, i):
    return i.target


@op("POP_JUMP_IF_TRUE")
def pop_jump_if_true(m, f, i):
    return m.branch(f, i, popped(m, f), i.target, i.index + 1)


@op("POP_JUMP_IF_FALSE")
def pop_jump_if_false(m, f, i):
    return m.branch(f, i, popped(m, f), i.index + 1, i.target)


@op("POP_JUMP_IF_NONE")
def pop_jump_if_none(m, f, i):
    return i.target if popped(m, f) is None else None


@op("POP_JUMP_IF_NOT_NONE")
def pop_jump_if_not_none(m, f, i):
    return i.target if popped(m, f) is not None else None


@op("JUMP_IF_TRUE_OR_POP")
def jump_if_true_or_pop(m, f, i):
    if m.truth(m.value(f.stack[-1])):
        return i.target
    f.stack.pop()


@op("JUMP_IF_FALSE_OR_POP")
def jump_if_false_or_pop(m, f, i):
    if not m.truth(m.value(f.stack[-1])):
        return i.target
    f.stack.pop()


# -- containers ----------------------------------------------------------------------------------------------------------


@op("BUILD_TUPLE")
def build_tuple(m, f, i):
    f.stack.append(tuple(popn(f, i.value)))


@op("BUILD_LIST")
def build_list(m, f, i):
    f.stack.append(m.born(popn(f, i.value)))


@op("BUILD_SET")
@runs_natively
def build_set(m, f, i):
    f.stack.append({m.key(m.value(item)) for item in popn(f, i.value)})


@op("BUILD_MAP")
@runs_natively
def build_map(m, f, i):
    items = popn(f, 2 * i.value)
    f.stack.append(m.born({m.key(m.value(key)): value for key, value in zip(items[::2], items[1::2])}))


@op("BUILD_CONST_KEY_MAP")
@runs_natively
def build_const_key_map(m, f, i):
    keys = f.stack.pop()
    f.stack.append(dict(zip(keys, popn(f, i.value))))


@op("BUILD_STRING")
def build_string(m, f, i):
    f.stack.append(m.join(popn(f, i.value)))


@op("BUILD_SLICE")
def build_slice(m, f, i):
    f.stack.append(slice(*[m.value(item) for item in popn(f, i.value)]))


@op("LIST_TO_TUPLE")
def list_to_tuple(m, f, i):
    f.stack.append(tuple(f.stack.pop()))


@op("LIST_APPEND")
def list_append(m, f, i):
    value, items = f.stack.pop(), kept(m, f, i)
    m.appended(items)
    items.append(value)


@op("SET_ADD")
def set_add(m, f, i):
    value = popped(m, f)
    kept(m, f, i).add(m.key(value))


@op("MAP_ADD")
def map_add(m, f, i):
    value, key = f.stack.pop(), popped(m, f)
    kept(m, f, i)[m.key(key)] = value


@op("LIST_EXTEND")
def list_extend(m, f, i):
    value = popped(m, f)
    try:
        items = m.unpack(value)
    except TypeError as error:
        if m.iterable(value):
            raise
        error.args = (f"Value after * must be an iterable, not {type(value).__name__}",)
        raise
    kept(m, f, i).extend(items)


@op("SET_UPDATE")
def set_update(m, f, i):
    items = m.unpack(popped(m, f))
    kept(m, f, i).update(m.key(m.value(item)) for item in items)


@op("DICT_UPDATE")
def dict_update(m, f, i):
    value = popped(m, f)
    kept(m, f, i).update(m.mapping(value))


@op("DICT_MERGE")
def dict_merge(m, f, i):
    value = popped(m, f)
    target, below = kept(m, f, i), f.stack[-i.value - 2]
    called = function_text(m.value(f.stack[-i.value - 3] if below is NULL else below))
    for key, item in m.mapping(value, f"{called} argument after ** must be a mapping").items():
        if key in target:
            raise TypeError(f"{called} got multiple values for keyword argument '{key}'")
        target[key] = item


def function_text(function: Any) -> str:
    """How Python's messages name what is called."""
    name, module = getattr(function, "__qualname__", None), getattr(function, "__module__", None)
    if name is None:
        return str(function)
    return f"{name}()" if module in (None, "builtins") else f"{module}.{name}()"


@op("UNPACK_SEQUENCE")
def unpack_sequence(m, f, i):
    items = exactly(m, popped(m, f), i.value)
    f.stack.extend(reversed(items))


def exactly(m, value, count: int) -> list:
    if type(value) in (tuple, list):
        items = list(value)
    else:
        items = m.unpack_some(value, count + 1)
    if len(items) < count:
        raise ValueError(f"not enough values to unpack (expected {count}, got {len(items)})")
    if len(items) > count:
        raise ValueError(f"too many values to unpack (expected {count})")
    return items


@op("UNPACK_EX")
def unpack_ex(m, f, i):
    before, after = i.value & 0xFF, i.value >> 8
    items = list(m.unpack(popped(m, f)))
    if len(items) < before + after:
        raise ValueError(f"not enough values to unpack (expected at least {before + after}, got {len(items)})")
    middle = items[before:len(items) - after]
    f.stack.extend(reversed([*items[:before], middle, *items[len(items) - after:]]))
