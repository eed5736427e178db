"""Work that several rules of one node share: done for the first that asks, handed to the others, dropped with the gradient.

A rule computes the gradient of one input; attention and the norms would do the same work two or three times. The clock of
nodes and writes (tensor.tick) tells whether anything happened since: only rules that run right after each other share.
"""
import threading
import weakref

from ..tensor import tick

NUMBERS = (int, float, bool)


class SharedWork(threading.local):
    """The last results of one function, as long as the gradient they came from lives."""

    key = results = None
    time = 0

    def get(self, g, compute, *values):
        """`compute(g, *values)`, or what it gave the last time if all arguments are the same objects (or equal numbers)."""
        key, now = self.key, tick()
        if key is not None and now == self.time + 1 and key[0]() is g and len(key) == len(values) + 1 and all(
                old is new or type(new) in NUMBERS and old == new for old, new in zip(key[1:], values)):
            self.time = now
            return self.results
        self.results = compute(g, *values)
        self.key, self.time = (weakref.ref(g, self.drop), *values), tick()
        return self.results

    def drop(self, reference):
        """The gradient died: let go of what was computed from it."""
        if self.key is not None and self.key[0] is reference:
            self.key = self.results = None
