"""Code that is in use soon, and made well later: LLVM makes it quickly first, and once more, with care, on a thread.

`link` is for code whose caller can change over while it is in use, and that computes nothing with floats: both say the same.  What
was made with care is in the cache for the next process.  A process that ends before goes without it, and never waits for more than
the code that is being made.  A child of `fork` keeps what its parent had.

`linked` is for code in whose place something else serves meanwhile: where making it takes long, `Slow` is raised, and the caller has
`soon` do on the thread what it would have done.  With `threads.use_deterministic_algorithms` nothing else serves: who computes would
depend on the time.
"""

import atexit
import os
import threading
from collections.abc import Callable
from contextlib import suppress

from ..core.parallel import Threads, free_in_child
from . import llvm

LONG = 16_000  # characters of IR, for which LLVM takes some 50 ms
PATIENCE = 1.0  # seconds that a process has been at work before anything is made once more: it may be a short one
Wish = tuple[str, tuple[str, ...], Callable[[llvm.Library], None]]
_wishes: list[Wish] = []
_jobs: list[tuple[Callable[[], None], Callable[[], None]]] = []  # what is done as soon as can be, and what is done in a child of `fork` instead
_thread: threading.Thread | None = None
_starting = threading.Lock()
free_in_child(_starting)
_ending = threading.Event()
_called = threading.Event()  # there are jobs, or the process ends


class Slow(Exception):
    """The code is not in the cache, and making it takes long."""


def linked(text: str, exports: tuple[str, ...]) -> llvm.Library:
    """The library of IR text; `Slow` where that would take long."""
    if len(text) > LONG and threading.current_thread() is not _thread and not Threads.deterministic:
        found = llvm.fetched(llvm.entry(text), exports, text)
        if found is None:
            raise Slow
        return found
    return llvm.link(text, exports)


def soon(job: Callable[[], None], instead: Callable[[], None]) -> None:
    """Have a job done on the thread; in a child of `fork` in whose parent it was not done yet, `instead`."""
    _jobs.append((job, instead))
    _called.set()
    start()


def link(text: str, exports: tuple[str, ...], improve: Callable[[llvm.Library], None]) -> llvm.Library:
    """The library of IR text; where it is not in the cache, made quickly, and `improve` is called, on a thread, with a better one."""
    found = llvm.fetched(llvm.entry(text), exports, text)
    if found is not None:
        return found
    library = llvm.link(text, exports, quick=True)
    _wishes.append((text, exports, improve))
    start()
    return library


def start() -> None:
    global _thread
    with _starting:
        if _thread is None:
            _thread = threading.Thread(target=work, name="rushlight-later", daemon=True)
            _thread.start()


def work() -> None:
    global _thread
    while True:
        called = _called.wait(PATIENCE)
        if _ending.is_set():
            return
        if called:
            _called.clear()
            while _jobs and not _ending.is_set():
                with suppress(Exception):  # what there is serves as well
                    _jobs[0][0]()
                del _jobs[0]
            continue
        with _starting:
            if not _wishes:
                if _jobs:
                    continue
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
    _called.set()
    if _thread is not None:
        _thread.join()


def forget() -> None:
    """In a child of `fork` no thread runs on."""
    global _thread, _called
    _thread, _called = None, threading.Event()
    _wishes.clear()
    while _jobs:
        _jobs.pop()[1]()


atexit.register(end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)
