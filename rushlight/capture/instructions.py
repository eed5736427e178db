"""What each instruction does, in terms of a machine's operations.

A handler takes the machine, the frame and the instruction, and returns None (go on), an index to jump to, or one of
RETURN and YIELD.  It may change the stack before an operation fails: the loop kept a copy.
"""

from types import CellType, FunctionType
from typing import Any

from .bytecode import VERSION
from .machine import NULL, RETURN, YIELD, Generator, Machine

TABLE: dict = {}
METHOD_NULL_FIRST = VERSION < (3, 13)
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
    f.stack.pop()


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
    f.fast[i.value] = f.stack.pop()


@op("DELETE_FAST")
def delete_fast(m, f, i):
    if f.fast[i.value] is NULL:
        name = f.program.names[i.value]
        raise UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value", name=name)
    f.fast[i.value] = NULL


@op("MAKE_CELL")
def make_cell(m, f, i):
    value = f.fast[i.value]
    f.fast[i.value] = CellType() if value is NULL else CellType(value)


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
    value = popped(m, f)
    if METHOD_NULL_FIRST:
        f.stack.append(NULL)
        f.stack.append(m.getattr(value, i.value))
    else:
        f.stack.append(m.getattr(value, i.value))
        f.stack.append(NULL)


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
        raise ImportError(f"cannot import name {i.value!r} from {module.__name__!r}", name=module.__name__) from None


# -- operations ----------------------------------------------------------------------------------------------------------


@op("UNARY")
def unary(m, f, i):
    f.stack.append(m.unary(i.value, popped(m, f)))


@op("UNARY_NOT")
def unary_not(m, f, i):
    f.stack.append(not m.truth(popped(m, f)))


@op("TO_BOOL")
def to_bool(m, f, i):
    f.stack.append(m.truth(popped(m, f)))


@op("BINARY_OP")
def binary_op(m, f, i):
    right = popped(m, f)
    f.stack.append(m.binary(i.value, popped(m, f), right))


@op("COMPARE_OP")
def compare_op(m, f, i):
    right = popped(m, f)
    f.stack.append(m.compare(i.value, popped(m, f), right))


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
    f.stack.append(m.getitem(popped(m, f), key))


@op("STORE_SUBSCR")
def store_subscr(m, f, i):
    key, container = popped(m, f), popped(m, f)
    m.setitem(container, key, popped(m, f))


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
    f.stack.append(m.format(value, spec))


@op("CONVERT_VALUE")
def convert_value(m, f, i):
    f.stack.append(m.call_plain(i.value, popped(m, f)))


# -- jumps ---------------------------------------------------------------------------------------------------------------


@op("JUMP")
def jump(m, f, i):
    return i.target


@op("POP_JUMP_IF_TRUE")
def pop_jump_if_true(m, f, i):
    return i.target if m.truth(popped(m, f)) else None


@op("POP_JUMP_IF_FALSE")
def pop_jump_if_false(m, f, i):
    return None if m.truth(popped(m, f)) else i.target


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
    f.stack.append(popn(f, i.value))


@op("BUILD_SET")
def build_set(m, f, i):
    f.stack.append({m.key(m.value(item)) for item in popn(f, i.value)})


@op("BUILD_MAP")
def build_map(m, f, i):
    items = popn(f, 2 * i.value)
    f.stack.append({m.key(m.value(key)): value for key, value in zip(items[::2], items[1::2])})


@op("BUILD_CONST_KEY_MAP")
def build_const_key_map(m, f, i):
    keys = f.stack.pop()
    f.stack.append(dict(zip(keys, popn(f, i.value))))


@op("BUILD_STRING")
def build_string(m, f, i):
    f.stack.append("".join(map(m.value, popn(f, i.value))))


@op("BUILD_SLICE")
def build_slice(m, f, i):
    f.stack.append(slice(*[m.value(item) for item in popn(f, i.value)]))


@op("LIST_TO_TUPLE")
def list_to_tuple(m, f, i):
    f.stack.append(tuple(f.stack.pop()))


@op("LIST_APPEND")
def list_append(m, f, i):
    value = f.stack.pop()
    kept(m, f, i).append(value)


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
    target = kept(m, f, i)
    for key, item in m.mapping(value, "argument after ** must be a mapping").items():
        if key in target:
            raise TypeError(f"got multiple values for keyword argument '{key}'")
        target[key] = item


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


# -- loops and generators ------------------------------------------------------------------------------------------------


@op("GET_ITER")
def get_iter(m, f, i):
    f.stack.append(m.iter(popped(m, f)))


@op("GET_YIELD_FROM_ITER")
def get_yield_from_iter(m, f, i):
    f.stack.append(m.iter(popped(m, f)))


@op("FOR_ITER")
def for_iter(m, f, i):
    try:
        value = m.next(m.value(f.stack[-1]))
    except StopIteration:
        f.stack.pop()
        return i.target
    f.stack.append(value)


@op("SEND")
def send(m, f, i):
    value, receiver = popped(m, f), m.value(f.stack[-1])
    try:
        if value is None:
            produced = m.next(receiver)
        else:
            produced = m.call_plain(m.getattr(receiver, "send"), value)
    except StopIteration as stop:
        if SEND_POPS:
            f.stack.pop()
        f.stack.append(stop.value)
        return i.target
    f.stack.append(produced)


@op("RETURN_GENERATOR")
def return_generator(m, f, i):
    f.pc += 1
    f.stack.append(m.make_generator(f))
    return RETURN


@op("YIELD_VALUE")
def yield_value(m, f, i):
    return YIELD


@op("CLEANUP_THROW")
def cleanup_throw(m, f, i):
    # stack: receiver, last sent, exception
    error = f.stack[-1]
    if isinstance(error, StopIteration):
        del f.stack[-3:]
        f.stack.extend((None, error.value))
        return None
    raise error


@op("RETURN_VALUE")
def return_value(m, f, i):
    return RETURN


# -- exceptions and with -------------------------------------------------------------------------------------------------


@op("PUSH_EXC_INFO")
def push_exc_info(m, f, i):
    error = f.stack.pop()
    f.stack.extend((m.handled, error))
    m.handled = error


@op("POP_EXCEPT")
def pop_except(m, f, i):
    m.handled = m.value(f.stack.pop())


@op("CHECK_EXC_MATCH")
def check_exc_match(m, f, i):
    kind = popped(m, f)
    for one in kind if isinstance(kind, tuple) else (kind,):
        one = m.value(one)
        if not (isinstance(one, type) and issubclass(one, BaseException)):
            raise TypeError("catching classes that do not inherit from BaseException is not allowed")
    kinds = tuple(map(m.value, kind)) if isinstance(kind, tuple) else kind
    f.stack.append(isinstance(m.value(f.stack[-1]), kinds))


@op("RERAISE")
def reraise(m, f, i):
    error = popped(m, f)
    raise error


@op("RAISE_VARARGS")
def raise_varargs(m, f, i):
    if i.value == 0:
        if m.handled is None:
            raise RuntimeError("No active exception to reraise")
        raise m.handled
    cause = popped(m, f) if i.value == 2 else NULL
    error = popped(m, f)
    if isinstance(error, type) and issubclass(error, BaseException):
        error = m.call_plain(error)
    if not isinstance(error, BaseException):
        raise TypeError("exceptions must derive from BaseException")
    if cause is not NULL:
        if isinstance(cause, type) and issubclass(cause, BaseException):
            cause = m.call_plain(cause)
        error.__cause__ = cause
        error.__suppress_context__ = True
    raise error


@op("BEFORE_WITH")
def before_with(m, f, i):
    manager = popped(m, f)
    enter = m.enter_attr(manager, "__enter__")
    f.stack.append(m.enter_attr(manager, "__exit__"))
    f.stack.append(m.call(enter, (), {}))


@op("WITH_EXCEPT_START")
def with_except_start(m, f, i):
    error, leave = m.value(f.stack[-1]), m.value(f.stack[-4])
    f.stack.append(m.call(leave, (type(error), error, error.__traceback__), {}))


@op("STOPITERATION_ERROR")
def stopiteration_error(m, f, i):
    error = f.stack[-1]
    if isinstance(error, StopIteration):
        new = RuntimeError("generator raised StopIteration")
        new.__cause__ = new.__context__ = error
        f.stack[-1] = new


# -- calls and functions -------------------------------------------------------------------------------------------------


def callee(f, args: list) -> tuple[Any, tuple]:
    """Take the callable and the null or self below the arguments from the stack."""
    second, first = f.stack.pop(), f.stack.pop()
    if first is NULL:
        return second, tuple(args)
    if second is NULL:
        return first, tuple(args)
    return first, (second, *args)


@op("CALL")
def call(m, f, i):
    count, names = i.value
    args = popn(f, count)
    kwargs = dict(zip(names, args[len(args) - len(names):])) if names else {}
    if names:
        del args[len(args) - len(names):]
    function, args = callee(f, args)
    f.stack.append(m.call_from(f, m.value(function), args, kwargs))


@op("CALL_KW")
def call_kw(m, f, i):
    names = f.stack.pop()
    args = popn(f, i.value)
    kwargs = dict(zip(names, args[len(args) - len(names):]))
    del args[len(args) - len(names):]
    function, args = callee(f, args)
    f.stack.append(m.call_from(f, m.value(function), args, kwargs))


@op("CALL_FUNCTION_EX")
def call_function_ex(m, f, i):
    kwargs = dict(m.mapping(popped(m, f))) if i.value & 1 else {}
    args = popped(m, f)
    if type(args) is not tuple:
        args = tuple(m.unpack(args))
    function, args = callee(f, list(args))
    f.stack.append(m.call_from(f, m.value(function), args, kwargs))


@op("MAKE_FUNCTION")
def make_function_(m, f, i):
    code = f.stack.pop()
    closure = f.stack.pop() if i.value & 8 else None
    annotations = popped(m, f) if i.value & 4 else None
    keywords = popped(m, f) if i.value & 2 else None
    defaults = popped(m, f) if i.value & 1 else None
    function = m.make_function(code, f, closure)
    for flag, value in ((1, defaults), (2, keywords), (4, annotations)):
        if value is not None:
            m.set_function(function, flag, value)
    f.stack.append(function)


@op("SET_FUNCTION_ATTRIBUTE")
def set_function_attribute(m, f, i):
    function, value = f.stack.pop(), popped(m, f)
    if i.value == 8:
        new = m.make_function(function.__code__, f, value)
        new.__defaults__, new.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
        new.__annotations__ = function.__annotations__
        function = new
    else:
        m.set_function(function, i.value, value)
    f.stack.append(function)


# -- match ---------------------------------------------------------------------------------------------------------------


@op("GET_LEN")
def get_len(m, f, i):
    f.stack.append(m.call_plain(len, m.value(f.stack[-1])))


@op("MATCH_MAPPING")
def match_mapping(m, f, i):
    f.stack.append(bool(m.kind_of(f.stack[-1]).__flags__ & 1 << 6))


@op("MATCH_SEQUENCE")
def match_sequence(m, f, i):
    f.stack.append(bool(m.kind_of(f.stack[-1]).__flags__ & 1 << 5))


@op("MATCH_KEYS")
def match_keys(m, f, i):
    keys, subject = m.value(f.stack[-1]), m.value(f.stack[-2])
    if len(set(keys)) != len(keys):
        raise ValueError("mapping pattern checks duplicate key")
    found = []
    for key in keys:
        value = m.call_plain(m.getattr(subject, "get"), key, NULL)
        if value is NULL:
            f.stack.append(None)
            return
        found.append(value)
    f.stack.append(tuple(found))


@op("MATCH_CLASS")
def match_class(m, f, i):
    names, kind, subject = popped(m, f), popped(m, f), popped(m, f)
    if not isinstance(kind, type):
        raise TypeError("called match pattern must be a class")
    if not m.call_plain(isinstance, subject, kind):
        f.stack.append(None)
        return
    found, positional = [], i.value
    if positional:
        allowed = getattr(kind, "__match_args__", None)
        if allowed is None and kind in (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple):
            if positional > 1:
                raise TypeError(f"{kind.__name__}() accepts 1 positional sub-pattern ({positional} given)")
            found.append(subject)
        else:
            allowed = allowed or ()
            if positional > len(allowed):
                raise TypeError(f"{kind.__name__}() accepts {len(allowed)} positional sub-patterns ({positional} given)")
            names = (*allowed[:positional], *names)
    for name in names:
        try:
            found.append(m.getattr(subject, name))
        except AttributeError:
            f.stack.append(None)
            return
    f.stack.append(tuple(found))


class Defaults(Machine):
    """The operations that only instructions use."""

    table = TABLE
    generator_class = Generator

    def key(self, value: Any) -> Any:
        return value

    def kind_of(self, value: Any) -> type:
        return type(self.value(value))

    def call_plain(self, function: Any, *args: Any) -> Any:
        return self.call(function, args, {})

    def iterable(self, value: Any) -> bool:
        return hasattr(type(value), "__iter__") or hasattr(type(value), "__getitem__")

    def mapping(self, value: Any, words: str = "") -> dict:
        if not hasattr(value, "keys"):
            raise TypeError(f"{words or 'object is not a mapping'}, not {type(value).__name__}" if words else
                            f"'{type(value).__name__}' object is not a mapping")
        return dict(value)

    def unpack_some(self, value: Any, limit: int) -> list:
        """At most `limit` items: a sequence that goes on for ever is not read to its end."""
        try:
            iterator = self.iter(value)
        except TypeError:
            if self.iterable(value):
                raise
            raise TypeError(f"cannot unpack non-iterable {type(value).__name__} object") from None
        items = []
        while len(items) < limit:
            try:
                items.append(self.next(iterator))
            except StopIteration:
                break
        return items

    def make_generator(self, frame: Any) -> Any:
        from_machine = self.generator_class(self, frame)
        frame.generator = from_machine
        return from_machine

    def set_function(self, function: Any, flag: int, value: Any) -> None:
        if flag == 1:
            function.__defaults__ = value
        elif flag == 2:
            function.__kwdefaults__ = value
        elif isinstance(value, tuple):
            function.__annotations__ = dict(zip(value[::2], value[1::2]))
        else:
            function.__annotations__ = value

    def make_function(self, code: Any, frame: Any, closure: Any = None) -> Any:
        if closure is None and code.co_freevars:  # 3.13 gives the cells in an instruction of their own
            closure = tuple(CellType() for _ in code.co_freevars)
        return FunctionType(code, frame.globals, code.co_name, None, closure)



class Native(Defaults):
    """Runs frames with Python's own operations: what is left when a frame cannot be captured from its middle on."""

    def deliver(self, frame: Any, value: Any) -> None:
        """Give a frame that waits at a call the call's value."""
        ins = frame.program.instructions[frame.pc]
        if ins.op not in ("STORE_ATTR", "STORE_SUBSCR", "DELETE_ATTR", "DELETE_SUBSCR"):
            frame.stack.append(value)
            if ins.op == "LOAD_METHOD" and not METHOD_NULL_FIRST:
                frame.stack.append(NULL)
        frame.pc += 1
