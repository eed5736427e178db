"""Instructions that leave the straight line: loops, generators, exceptions, with, calls, functions and match.

Written as those in `instructions.py`, and kept in the same table.
"""

from typing import Any

from .instructions import SEND_POPS, op, popn, popped
from .machine import NULL, RETURN, YIELD, Turns

# -- loops and generators ------------------------------------------------------------------------------------------------


@op("GET_ITER")
def get_iter(m, f, i):
    f.stack.append(m.begin_loop(f, i, popped(m, f)))


@op("GET_YIELD_FROM_ITER")
def get_yield_from_iter(m, f, i):
    f.stack.append(m.iter(popped(m, f)))


@op("FOR_ITER")
def for_iter(m, f, i):
    iterator = m.value(f.stack[-1])
    try:
        value = m.next_turn(f, i, iterator) if type(iterator) is Turns else m.next(iterator)
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
    raise popped(m, f)


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
    manager = m.manager(popped(m, f))
    enter = m.enter_attr(manager, "__enter__")
    f.stack.append(m.enter_attr(manager, "__exit__"))
    f.stack.append(m.call(enter, (), {}))


@op("WITH_EXCEPT_START")
def with_except_start(m, f, i):
    error, leave = m.value(f.stack[-1]), m.value(f.stack[-4])
    f.stack.append(m.call(leave, (type(error), error, m.traceback_of(error)), {}))


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
