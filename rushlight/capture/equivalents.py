"""Library functions that call back into Python, written in Python so that the tracer can follow them.

Each behaves as the C function of the same name; the tracer interprets it instead.  `EQUIVALENTS` maps one to the other.
"""

import builtins
import collections
import functools
import itertools
import operator
from typing import Any

MISSING = object()


def any(iterable):
    for item in iterable:
        if item:
            return True
    return False


def all(iterable):
    for item in iterable:
        if not item:
            return False
    return True


def sum(iterable, /, start=0):
    if isinstance(start, str):
        raise TypeError("sum() can't sum strings [use ''.join(seq) instead]")
    total = start
    for item in iterable:
        total = total + item
    return total


def least(name, better, args, key, default):
    if len(args) > 1:
        if default is not MISSING:
            raise TypeError(f"Cannot specify a default for {name}() with multiple positional arguments")
        items = args
    elif args:
        items = args[0]
    else:
        raise TypeError(f"{name} expected at least 1 argument, got 0")
    best = chosen = MISSING
    for item in items:
        rank = item if key is None else key(item)
        if chosen is MISSING or better(rank, best):
            best, chosen = rank, item
    if chosen is MISSING:
        if default is MISSING:
            raise ValueError(f"{name}() iterable argument is empty")
        return default
    return chosen


def min(*args, key=None, default=MISSING):
    return least("min", lambda a, b: a < b, args, key, default)


def max(*args, key=None, default=MISSING):
    return least("max", lambda a, b: a > b, args, key, default)


def merged(left, right, less):
    out, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if less(right[j][0], left[i][0]):
            out.append(right[j])
            j += 1
        else:
            out.append(left[i])
            i += 1
    out.extend(left[i:])
    out.extend(right[j:])
    return out


def merge_sort(pairs, less):
    if len(pairs) < 2:
        return pairs
    half = len(pairs) // 2
    return merged(merge_sort(pairs[:half], less), merge_sort(pairs[half:], less), less)


def sorted(iterable, /, *, key=None, reverse=False):
    pairs = [(item if key is None else key(item), item) for item in iterable]
    if reverse:
        pairs.reverse()
    pairs = merge_sort(pairs, lambda a, b: a < b)
    if reverse:
        pairs.reverse()
    return [item for _, item in pairs]


def list_sort(self, *, key=None, reverse=False):
    self[:] = sorted(self, key=key, reverse=reverse)


def list_make(iterable=()):
    return [item for item in sized(iterable)]


def tuple_make(iterable=()):
    return (*[item for item in sized(iterable)],)


def sized(iterable):
    """Its iterator; after that its length is asked for, which Python makes room by."""
    iterator = iter(iterable)
    if hasattr(type(iterable), "__len__"):
        len(iterable)
    return iterator


def set_make(iterable=()):
    return {item for item in iterable}


def frozenset_make(iterable=()):
    return frozenset().union([item for item in iterable])


def dict_make(*args, **kwargs):
    out = {}
    dict_update(out, *args, **kwargs)
    return out


def dict_update(self, *args, **kwargs):
    for source in args:
        if hasattr(source, "keys"):
            for key in source.keys():
                self[key] = source[key]
        else:
            for key, value in source:
                self[key] = value
    for key, value in kwargs.items():
        self[key] = value


def list_extend(self, iterable):
    for item in sized(iterable):
        self.append(item)


def map(function, *iterables):
    if len(iterables) == 1:
        for item in iterables[0]:
            yield function(item)
        return
    for items in zip(*iterables):
        yield function(*items)


def filter(function, iterable):
    for item in iterable:
        if item if function is None else function(item):
            yield item


def zip(*iterables, strict=False):
    iterators = [iter(iterable) for iterable in iterables]
    while iterators:
        items = []
        for iterator in iterators:
            item = next(iterator, MISSING)
            if item is MISSING:
                if strict:
                    at = len(items)
                    if items:
                        plural = " " if at == 1 else "s 1-"
                        raise ValueError(f"zip() argument {at + 1} is shorter than argument{plural}{at}")
                    for place, other in enumerate(iterators[1:], 2):
                        if next(other, MISSING) is not MISSING:
                            plural = " " if place == 2 else "s 1-"
                            raise ValueError(f"zip() argument {place} is longer than argument{plural}{place - 1}")
                return
            items.append(item)
        yield (*items,)


def enumerate(iterable, start=0):
    number = start
    for item in iterable:
        yield number, item
        number += 1


def reversed(sequence):
    for at in range(len(sequence) - 1, -1, -1):
        yield sequence[at]


def reduce(function, sequence, initial=MISSING):
    iterator = iter(sequence)
    if initial is MISSING:
        value = next(iterator, MISSING)
        if value is MISSING:
            raise TypeError("reduce() of empty iterable with no initial value")
    else:
        value = initial
    for item in iterator:
        value = function(value, item)
    return value


def iter_call(function, sentinel):
    while True:
        value = function()
        if value == sentinel:
            return
        yield value


def iter_getitem(sequence):
    at = 0
    while True:
        try:
            item = sequence[at]
        except IndexError:
            return
        yield item
        at += 1


def chain(*iterables):
    for iterable in iterables:
        for item in iterable:
            yield item


def chain_from_iterable(iterables):
    for iterable in iterables:
        for item in iterable:
            yield item


def accumulate(iterable, func=None, *, initial=None):
    iterator = iter(iterable)
    total = initial
    if initial is None:
        total = next(iterator, MISSING)
        if total is MISSING:
            return
    yield total
    for item in iterator:
        total = total + item if func is None else func(total, item)
        yield total


def takewhile(predicate, iterable):
    for item in iterable:
        if not predicate(item):
            return
        yield item


def dropwhile(predicate, iterable):
    iterator = iter(iterable)
    for item in iterator:
        if not predicate(item):
            yield item
            break
    for item in iterator:
        yield item


def filterfalse(predicate, iterable):
    for item in iterable:
        if not (item if predicate is None else predicate(item)):
            yield item


def starmap(function, iterable):
    for args in iterable:
        yield function(*args)


def groupby(iterable, key=None):
    items = [(item if key is None else key(item), item) for item in iterable]
    at = 0
    while at < len(items):
        rank = items[at][0]
        group = []
        while at < len(items) and items[at][0] == rank:
            group.append(items[at][1])
            at += 1
        yield rank, iter(group)


def islice(iterable, *args):
    limits = slice(*args)
    start, stop, step = map(limit_of, (limits.start, limits.stop, limits.step))
    words = "Stop argument" if len(args) == 1 else "Indices"
    if start is not None and start < 0 or stop is not None and stop < 0:
        raise ValueError(f"{words} for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    if step is not None and step < 1:
        raise ValueError("Step for islice() must be a positive integer or None.")
    return sliced(iterable, slice(start, stop, step))


def limit_of(value):
    """A limit of islice as an int; -1 for what is none."""
    if value is None or isinstance(value, int):
        return value
    return operator.index(value) if hasattr(type(value), "__index__") else -1


def sliced(iterable, limits):
    start, stop, step = limits.start or 0, limits.stop, limits.step or 1
    wanted, at = start, 0
    if stop is not None and stop <= start:
        for _ in iterable:
            at += 1
            if at >= stop:
                break
        return
    for item in iterable:
        if at == wanted:
            yield item
            wanted += step
        at += 1
        if stop is not None and (at >= stop or wanted >= stop):
            return


def compress(data, selectors):
    for item, chosen in zip(data, selectors):
        if chosen:
            yield item


def pairwise(iterable):
    before = MISSING
    for item in iterable:
        if before is not MISSING:
            yield before, item
        before = item


def cycle(iterable):
    saved = []
    for item in iterable:
        yield item
        saved.append(item)
    while saved:
        for item in saved:
            yield item


def count(start=0, step=1):
    value = int(start) if isinstance(start, int) and isinstance(step, int) and step == 1 else start  # then the builtin counts plain ints
    while True:
        yield value
        value += step


def repeat(object, times=None):
    if times is None:
        while True:
            yield object
    for _ in range(times):
        yield object


def zip_longest(*iterables, fillvalue=None):
    iterators = [iter(iterable) for iterable in iterables]
    left = [True] * len(iterators)
    while True:
        items = []
        for at, iterator in enumerate(iterators):
            item = next(iterator, MISSING) if left[at] else MISSING
            if item is MISSING:
                left[at] = False
                item = fillvalue
            items.append(item)
        if True not in left:
            return
        yield (*items,)


def product(*iterables, repeat=1):
    return iter(list(itertools.product(*[list(iterable) for iterable in iterables], repeat=repeat)))


def combinations(iterable, r):
    return iter(list(itertools.combinations(list(iterable), r)))


def permutations(iterable, r=None):
    return iter(list(itertools.permutations(list(iterable), r)))


def partial_call(made, args, keywords):
    return made.func(*made.args, *args, **{**made.keywords, **keywords})


def construct(kind, args, kwargs):
    made = kind.__new__(kind, *args, **kwargs)
    if isinstance(made, kind):
        made.__init__(*args, **kwargs)
    return made


def construct_init(made, initialise, args, kwargs):
    initialise(made, *args, **kwargs)
    return made


def construct_new(create, kind, args, kwargs):
    made = create(kind, *args, **kwargs)
    if isinstance(made, kind):
        initialise = kind.__init__
        if initialise is not object.__init__:
            initialise(made, *args, **kwargs)
    return made


def default_missing(self, key):
    if self.default_factory is None:
        raise KeyError(key)
    value = self.default_factory()
    self[key] = value
    return value


def attrgetter_call(names, value):
    found = []
    for name in names:
        item = value
        for part in name.split("."):
            item = getattr(item, part)
        found.append(item)
    return found[0] if len(found) == 1 else (*found,)


def itemgetter_call(keys, value):
    return value[keys[0]] if len(keys) == 1 else (*[value[key] for key in keys],)


def methodcaller_call(name, args, kwargs, value):
    return getattr(value, name)(*args, **kwargs)


def contains_by_iteration(container, item):
    for one in container:
        if one is item or one == item:
            return True
    return False


def repr_list(self):
    return "[" + ", ".join([repr(item) for item in self]) + "]"


def join(self, iterable):
    return self.join([item for item in iterable])


def counter_make(iterable=None, /, **kwargs):
    counts = collections.Counter()
    if hasattr(iterable, "keys"):
        for key in iterable.keys():
            counts[key] = iterable[key]
    elif iterable is not None:
        for item in iterable:
            counts[item] = counts.get(item, 0) + 1
    for key, value in kwargs.items():
        counts[key] = counts.get(key, 0) + value
    return counts


def deque_make(iterable=(), maxlen=None):
    made = collections.deque((), maxlen)
    for item in iterable:
        made.append(item)
    return made


EQUIVALENTS: dict[Any, Any] = {
    builtins.any: any, builtins.all: all, builtins.sum: sum, builtins.min: min, builtins.max: max,
    builtins.sorted: sorted, builtins.map: map, builtins.filter: filter, builtins.zip: zip,
    builtins.enumerate: enumerate, functools.reduce: reduce, itertools.chain: chain,
    itertools.chain.from_iterable: chain_from_iterable, itertools.accumulate: accumulate,
    itertools.takewhile: takewhile, itertools.dropwhile: dropwhile, itertools.filterfalse: filterfalse,
    itertools.starmap: starmap, itertools.groupby: groupby, itertools.islice: islice, itertools.compress: compress,
    itertools.pairwise: pairwise, itertools.cycle: cycle, itertools.count: count, itertools.repeat: repeat,
    itertools.zip_longest: zip_longest, itertools.product: product, itertools.combinations: combinations,
    itertools.permutations: permutations, list: list_make, tuple: tuple_make, set: set_make, frozenset: frozenset_make,
    dict: dict_make, collections.deque: deque_make, collections.Counter: counter_make,
}
# Methods of builtin types that take an iterable or a function.
METHODS: dict[Any, Any] = {
    (list, "sort"): list_sort, (list, "extend"): list_extend, (dict, "update"): dict_update, (str, "join"): join,
}
__all__ = ["EQUIVALENTS", "METHODS"]
