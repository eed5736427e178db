"""Work that several rules of one node share: done for the first that asks, handed to the others, dropped with the gradient.

A rule computes the gradient of one input; attention and the norms would do the same work two or three times.
"""
import threading
import weakref


class SharedWork(threading.local):
    """The last results of one function, as long as the gradient they came from lives."""

    key = results = None

    def get(self, g, other, compute, *values):
        """`compute(g, other, *values)`, or what it gave the last time if `g` and `other` are the same objects."""
        key = self.key
        if key is not None and key[0]() is g and key[1] is other:
            return self.results
        self.results = compute(g, other, *values)
        self.key = weakref.ref(g, self.drop), other
        return self.results

    def drop(self, reference):
        """The gradient died: let go of what was computed from it."""
        if self.key is not None and self.key[0] is reference:
            self.key = self.results = None
