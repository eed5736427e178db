"""Reading pickles as data: an interpreter of the opcodes that plain containers need, and of no others.

Nothing is imported and nothing is called by name: a global is looked up in the caller's table of builders, and
what is not in it is refused. Opcodes, memory, depth and the size of what shared parts stand for have budgets.
Read `Reader.run` first; the table for torch files is in torch_names.
"""
import struct
from collections import Counter, OrderedDict

from ..core.errors import UnpicklingError

OPCODES = 10_000_000
MEMORY = 64 << 20  # bytes of Python objects allowed beside 16 for each byte of pickle
DEPTH = 256
LEAVES = 10_000_000  # what a value may stand for, counting shared parts each time, beside 64 times its own size
MARK = object()
CONVERT = "convert the file once with the program that wrote it, trusted: torch.save(model.state_dict(), new)"


class Global:
    """A name that the pickle mentions, and what stands for it."""

    __slots__ = ("name", "build", "value")

    def __init__(self, name, build=None, value=None):
        self.name, self.build, self.value = name, build, value


class Pending:
    """A value on its way, which a later opcode finishes; in the end none may be left. Storages are such too."""

    def __init__(self):
        self.places = []  # where the memo holds it

    def finish(self, reader, state):
        """The value, from the state that BUILD brings."""
        raise reader.refusal(f"BUILD on {type(self).__name__}")


class Reader:
    """Interprets one pickle. `source` makes the errors, `names` maps 'module name' to a Global, `persistent` loads storages."""

    def __init__(self, data, source, names, persistent):
        self.data, self.source, self.names, self.persistent = data, source, names, persistent
        self.at, self.spent, self.limit = 0, 0, MEMORY + 16 * len(data)
        self.stack, self.memo = [], {}

    def error(self, problem):
        """A FormatError: the pickle is broken."""
        return self.source.error(f"pickle, byte {self.at}: {problem}", "the file is damaged: get it again from where it came")

    def refusal(self, problem):
        """A SecurityError: the pickle asks for what data does not need."""
        return self.source.refusal(f"pickle, byte {self.at}: {problem}", CONVERT)

    def unknown(self, problem):
        """The error for a class or function that is no data."""
        return UnpicklingError(str(self.refusal(problem)))

    def spend(self, size):
        """Count memory that an opcode takes."""
        self.spent += size
        if self.spent > self.limit:
            raise self.refusal(f"{len(self.data)} bytes of pickle would make more than {self.limit >> 20} MB of objects (budget)")

    def run(self):
        """The value of the pickle; FormatError or SecurityError for anything else than plain data."""
        data, steps = self.data, 0
        try:
            while True:
                code = data[self.at]
                self.at += 1
                if code == 0x2E:  # STOP
                    break
                steps += 1
                if steps > OPCODES:
                    raise self.refusal(f"more than {OPCODES} opcodes (budget)")
                action = ACTIONS.get(code)
                if action is None:
                    raise self.refusal(f"opcode {bytes([code])!r} is not one that plain data needs")
                action(self)
            value = self.stack.pop()
        except IndexError:
            raise self.error("ends in the middle" if self.at >= len(data) else "takes more from its stack than is there") from None
        except (KeyError, struct.error, UnicodeDecodeError, OverflowError) as problem:
            raise self.error(f"{type(problem).__name__}: {problem}") from None
        if value is MARK or self.stack:
            raise self.error("leaves more than one value")
        if type(value) is Global:
            value = self.plain(value)
        check_shape(value, self.refusal)
        return value

    def take(self, count):
        """The next bytes of the pickle."""
        end = self.at + count
        if end > len(self.data) or count < 0:
            raise self.error(f"expected {count} bytes, {len(self.data) - self.at} are left")
        piece = self.data[self.at:end]
        self.at = end
        return piece

    def line(self):
        """The next bytes up to a newline, as text."""
        end = self.data.find(b"\n", self.at, self.at + 1000)
        if end < 0:
            raise self.error("expected a line of text")
        piece = self.data[self.at:end].decode("utf-8")
        self.at = end + 1
        return piece

    def number(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def push(self, value, size=16):
        self.spend(size)
        self.stack.append(value)

    def since_mark(self):
        """What was pushed since the last mark, taken off the stack."""
        stack = self.stack
        for at in range(len(stack) - 1, -1, -1):
            if stack[at] is MARK:
                break
        else:
            raise self.error("takes items up to a mark that is not there")
        items = stack[at + 1:]
        del stack[at:]
        self.spend(8 * len(items))
        return [self.plain(item) for item in items]

    def pop(self):
        """The top of the stack as a plain value."""
        return self.plain(self.stack.pop())

    def plain(self, item):
        """A value, not a mark; a global that stands for a value becomes it."""
        if item is MARK:
            raise self.error("uses a mark as a value")
        if type(item) is Global and item.value is not None:
            return item.value
        return item

    def key(self, key, depth=3):
        """A dict key or set element: only what hashes quickly and safely."""
        kind = type(key)
        if kind in PLAIN or (kind is tuple and depth and all(self.key(part, depth - 1) is part for part in key)):
            return key
        if hasattr(key, "itemsize") and hasattr(key, "is_floating_point"):  # a dtype
            return key
        raise self.refusal(f"{kind.__name__} as a dict key or set element")

    def find(self, module, name):
        """Push what stands for a global, or refuse it."""
        found = self.names.get(f"{module} {name}")
        if found is None:
            raise self.unknown(f"Weights only load failed (there is no other way than weights_only=True): asks for `{module}.{name}`, which is not on the list of what data may need: expected tensors, numbers, "
                               "text and containers of them. A whole module or another object of a class was saved? Only its "
                               "state_dict() can be loaded")
        self.push(found)

    def items(self, mapping, items):
        """Put pairs into a dict."""
        if type(mapping) not in (dict, OrderedDict):
            raise self.refusal(f"SETITEM on {type(mapping).__name__}: expected a dict")
        self.spend(100 * len(items))
        if len(items) % 2:
            raise self.error("a dict gets a key without a value")
        for i in range(0, len(items), 2):
            mapping[self.key(items[i])] = items[i + 1]

    def append(self, target, items):
        """Put items at the end of a list."""
        if type(target) is not list:
            raise self.refusal(f"APPEND on {type(target).__name__}: expected a list")
        self.spend(8 * len(items))
        target.extend(items)

    def add(self, target, items):
        """Put elements into a set."""
        if type(target) is not set:
            raise self.refusal(f"ADDITEMS on {type(target).__name__}: expected a set")
        self.spend(60 * len(items))
        target.update(self.key(item) for item in items)

    def reduce(self):
        arguments, function = self.pop(), self.stack.pop()
        if type(function) is not Global or function.build is None:
            raise self.refusal(f"calls {getattr(function, 'name', type(function).__name__)}: expected the name of a known builder")
        if type(arguments) is not tuple:
            raise self.error(f"arguments of {function.name}: expected a tuple, got {type(arguments).__name__}")
        self.push(function.build(self, arguments), 100)

    def build(self):
        state, target = self.pop(), self.stack[-1]
        if type(target) is OrderedDict and type(state) is dict:
            for name, value in state.items():
                if type(name) is not str or name.startswith("__") or hasattr(OrderedDict, name):
                    raise self.refusal(f"sets attribute {name!r} of an OrderedDict")
                setattr(target, name, value)
        elif isinstance(target, Pending):
            self.stack[-1] = value = target.finish(self, state)
            for place in target.places:
                self.memo[place] = value
        else:
            raise self.refusal(f"BUILD on {type(target).__name__}: expected an OrderedDict or a NumPy array")

    def frame(self):
        length = self.number("<Q")
        if length > len(self.data) - self.at:
            raise self.error(f"frame of {length} bytes, {len(self.data) - self.at} are left")

    def protocol(self):
        version = self.take(1)[0]
        if version > 5:
            raise self.error(f"protocol {version}: expected at most 5")

    def remember(self, index):
        if index not in self.memo:
            self.spend(100)
        self.memo[index] = value = self.stack[-1]
        if value is MARK:
            raise self.error("remembers a mark")
        if isinstance(value, Pending):
            value.places.append(index)


PLAIN = {str, int, float, bool, type(None), bytes, complex}  # leaves that can be keys


INTERNAL = (Global, Pending)


def check_shape(value, refusal):
    """Refuse what nests too deep, contains itself, or stands for far more leaves than it has."""
    sizes, open_, stack = {}, set(), [(value, None)]
    count = 0
    while stack:
        item, children = stack.pop()
        if children is not None:  # all children are done: add them up
            open_.discard(id(item))
            sizes[id(item)] = 1 + sum(sizes.get(id(child), 1) for child in children)
            continue
        if id(item) in open_:
            raise refusal("a container that contains itself")
        parts = contents(item)
        if isinstance(item, INTERNAL):
            raise refusal(f"{getattr(item, 'name', type(item).__name__)} as a value: it is a name or a part of something else")
        if parts is None or id(item) in sizes:
            count += 1
            continue
        count += 1 + len(parts)
        open_.add(id(item))
        if len(open_) > DEPTH:
            raise refusal(f"containers nested deeper than {DEPTH}")
        stack.append((item, parts))
        stack.extend((part, None) for part in parts if type(part) not in PLAIN)
    if sizes.get(id(value), 1) > 64 * count + LEAVES:
        raise refusal(f"shared containers that stand for {sizes[id(value)]:.3g} leaves but hold {count} (budget)")


def contents(item):
    """The parts of a container, or None."""
    kind = type(item)
    if kind in (list, tuple, set, frozenset):
        return item
    if kind is dict or kind is Counter:
        return list(item.values())
    if kind is OrderedDict:
        return [*item.values(), *vars(item).values()]
    return None


def take_text(width):
    def action(reader):
        reader.push(reader.take(reader.number(width)).decode("utf-8", "surrogatepass"), 80)
    return action


def take_bytes(width):
    def action(reader):
        reader.push(reader.take(reader.number(width)), 40)
    return action


def tuple_of(count):
    def action(reader):
        items = [reader.pop() for _ in range(count)][::-1]
        reader.push(tuple(items), 40 + 8 * count)
    return action


def long_of(width):
    def action(reader):
        reader.push(int.from_bytes(reader.take(reader.number(width)), "little", signed=True), 32)
    return action


def number_of(form, size=32):
    return lambda reader: reader.push(reader.number(form), size)


def constant(value):
    return lambda reader: reader.push(value, 8)


def to_top(method):
    """One item goes into what is under it on the stack."""
    def action(reader):
        item = reader.pop()
        method(reader, reader.stack[-1], [item])
    return action


def to_mark(method):
    """All items since the mark go into what is under it."""
    def action(reader):
        items = reader.since_mark()
        method(reader, reader.stack[-1], items)
    return action


def set_item(reader):
    value, key = reader.pop(), reader.pop()
    reader.items(reader.stack[-1], [key, value])


def stack_global(reader):
    name, module = reader.pop(), reader.pop()
    if type(name) is not str or type(module) is not str:
        raise reader.error("a global named by something else than text")
    reader.find(module, name)


def frozen(reader):
    reader.push(frozenset([reader.key(item) for item in reader.since_mark()]), 200)


def mark_tuple(reader):
    items = reader.since_mark()
    reader.push(tuple(items), 40 + 8 * len(items))


def new_object(reader):
    reader.reduce()  # NEWOBJ: a class and its arguments; only the classes in the table have builders


ACTIONS = {ord(code): action for code, action in {
    "\x80": Reader.protocol, "\x95": Reader.frame,
    "(": lambda reader: reader.push(MARK, 8), "0": lambda reader: reader.stack.pop(), "1": lambda reader: reader.since_mark() and None,
    "N": constant(None), "\x88": constant(True), "\x89": constant(False),
    "J": number_of("<i"), "K": number_of("<B", 8), "M": number_of("<H"), "G": number_of(">d"),
    "\x8a": long_of("<B"), "\x8b": long_of("<i"),
    "X": take_text("<I"), "\x8c": take_text("<B"), "\x8d": take_text("<Q"),
    "B": take_bytes("<I"), "C": take_bytes("<B"), "\x8e": take_bytes("<Q"),
    "\x96": lambda reader: reader.push(bytearray(reader.take(reader.number("<Q"))), 60),
    "]": lambda reader: reader.push([], 56), "}": lambda reader: reader.push({}, 64), ")": constant(()),
    "\x8f": lambda reader: reader.push(set(), 216), "\x91": frozen,
    "\x85": tuple_of(1), "\x86": tuple_of(2), "\x87": tuple_of(3), "t": mark_tuple,
    "l": lambda reader: reader.push(reader.since_mark(), 56), "d": lambda reader: make_dict(reader),
    "a": to_top(Reader.append), "e": to_mark(Reader.append), "s": set_item, "u": to_mark(Reader.items), "\x90": to_mark(Reader.add),
    "q": lambda reader: reader.remember(reader.take(1)[0]), "r": lambda reader: reader.remember(reader.number("<I")),
    "\x94": lambda reader: reader.remember(len(reader.memo)),
    "h": lambda reader: reader.push(reader.memo[reader.take(1)[0]], 8),
    "j": lambda reader: reader.push(reader.memo[reader.number("<I")], 8),
    "c": lambda reader: reader.find(reader.line(), reader.line()), "\x93": stack_global,
    "R": Reader.reduce, "\x81": new_object, "b": Reader.build,
    "Q": lambda reader: reader.push(reader.persistent(reader, reader.pop()), 100),
}.items()}


def make_dict(reader):
    items, mapping = reader.since_mark(), {}
    reader.items(mapping, items)
    reader.push(mapping, 64)
