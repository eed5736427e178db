"""Code that is in use soon, and made well later: LLVM makes it quickly first, and once more, with care, on a thread.

`link` is for code whose caller can change over while it is in use, and that computes nothing with floats: both say the same.  What
was made with care is in the cache for the next process.  A process that ends before goes without it, and never waits for more than
the code that is being made.  A child of `fork` keeps what its parent had.
"""

import atexit
import os
import threading
from collections.abc import Callable

from . import llvm

PATIENCE = 1.0  # seconds that a process has been at work before anything is made once more: it may be a short one
Wish = tuple[str, tuple[str, ...], Callable[[llvm.Library], None]]
_wishes: list[Wish] = []
_thread: threading.Thread | None = None
_ending = threading.Event()


def link(text: str, exports: tuple[str, ...], improve: Callable[[llvm.Library], None]) -> llvm.Library:
    """The library of IR text; where it is not in the cache, made quickly, and `improve` is called, on a thread, with a better one."""
    global _thread
    found = llvm.fetched(llvm.entry(text), exports, text)
    if found is not None:
        return found
    library = llvm.link(text, exports, quick=True)
    _wishes.append((text, exports, improve))
    if _thread is None:
        _thread = threading.Thread(target=work, name="rushlight-later", daemon=True)
        _thread.start()
    return library


def work() -> None:
    global _thread
    while not _ending.wait(PATIENCE):
        if not _wishes:
            _thread = None
            return
        text, exports, improve = _wishes.pop()
        try:
            better = llvm.link(text, exports)
        except (llvm.CompileError, OSError):  # what there is serves as well
            continue
        improve(better)


def end() -> None:
    """LLVM must not be at work while its library is taken down."""
    _ending.set()
    if _thread is not None:
        _thread.join()


def forget() -> None:
    """In a child of `fork` no thread runs on."""
    global _thread
    _thread = None
    _wishes.clear()


atexit.register(end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)
