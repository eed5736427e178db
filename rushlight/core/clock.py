"""One clock for graph nodes and writes, and the counter of a storage's writes.

Autograd compares the two: a saved tensor whose storage was written at a later time than its node's is refused.
"""
import itertools
import operator
import sys

TIMES = itertools.count(1)
# One clock for graph nodes and writes: what is newer has the larger number. Generated functions (ops/generate.py) say
# `next(TIMES)`, which takes 25 ns less than adding 1 to a global; it is one C call, so no two threads get the same time.
tick = TIMES.__next__
LOG = 64  # writes remembered per storage; older ones are only counted


def line_of(code, instruction):
    """The line of an instruction: what `f_lineno` would have said, which takes 200 ns more than `f_lasti`, or thousands in a long function."""
    return next((line for start, end, line in code.co_lines() if start <= instruction < end), None)


class Counter:
    """The version of a storage, shared by all views of it: how often, when and where it was written."""

    __slots__ = ("value", "last", "log", "followed")

    def __init__(self):
        self.value, self.last, self.log = 0, 0, []

    def bump(self):
        """Record one write, and which of the user's lines made it."""
        self.value += 1
        self.last = at = tick()
        frame = user_frame(3)  # beyond who calls this
        log = self.log
        log.append((at, frame.f_code, frame.f_lasti))
        if len(log) > LOG:
            del log[:LOG // 2]


class Ledger:
    """The writes of a compiled program into many storages at once: one note a run, whatever their number."""

    __slots__ = ("count", "last", "log")

    def __init__(self):
        self.count, self.last, self.log = 0, 0, []

    def note(self, frame):
        """One run, by the user's line where `frame` stands."""
        self.count += 1
        self.last = at = tick()
        log = self.log
        log.append((at, frame.f_code, frame.f_lasti))
        if len(log) > LOG:
            del log[:LOG // 2]


VALUE, LAST, ENTRIES = (vars(Counter)[name] for name in ("value", "last", "log"))  # the slots themselves


def catch_up(counter):
    """Take over what the ledgers noted since the last time."""
    if any(ledger.count != seen for ledger, seen in counter.followed):
        log, last = ENTRIES.__get__(counter), LAST.__get__(counter)
        for ledger, seen in counter.followed:
            new = ledger.count - seen
            if new:
                VALUE.__set__(counter, VALUE.__get__(counter) + new)
                log += ledger.log[-new:]
                last = max(last, ledger.last)
        log.sort(key=operator.itemgetter(0))
        del log[:-LOG]
        LAST.__set__(counter, last)
        counter.followed = tuple([(ledger, ledger.count) for ledger, _ in counter.followed])


def following(slot):
    """The slot as an attribute that is up to date."""
    def get(counter):
        catch_up(counter)
        return slot.__get__(counter)

    def set(counter, value):
        catch_up(counter)
        slot.__set__(counter, value)

    return property(get, set)


class Follower(Counter):
    """The counter of a storage that compiled programs write too: it looks into their ledgers when it is asked."""

    __slots__ = ()
    value, last, log = map(following, (VALUE, LAST, ENTRIES))

    @staticmethod
    def make(counter, ledger):
        """Let a counter follow a ledger from now on; it stays the same object."""
        if type(counter) is not Follower:
            counter.followed = ()
            counter.__class__ = Follower
        if all(one is not ledger for one, _ in counter.followed):
            catch_up(counter)
            counter.followed = (*counter.followed, (ledger, ledger.count))


def user_frame(depth=1):
    """The nearest frame outside this package, from `depth` up."""
    frame = sys._getframe(depth)
    while frame.f_globals.get("__name__", "").startswith("rushlight"):
        if frame.f_back is None:
            break
        frame = frame.f_back
    return frame
