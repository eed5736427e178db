"""Results without their numbers: while a graph is captured, what an op gives needs a shape, a dtype and a layout.

The tracer asks for outlines around each op; the kernels for large arrays then give memory that nothing has touched instead of
computing, and say so.  Where the numbers turn out to matter (an op refuses them), the tracer begins again with real ones.
"""
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Outline(threading.local):
    """Of a thread: whether outlines will do, and whether one was given."""

    enough = False
    given = False


outline = Outline()


@contextmanager
def outlines(enough: bool) -> Iterator[None]:
    """Inside, large arrays need no numbers, if `enough`."""
    outline.enough = enough
    try:
        yield
    finally:
        outline.enough = False
