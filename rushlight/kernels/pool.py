"""The native thread pool: workers that wait in machine code for pieces of a job.

A worker spins a short while, then sleeps on a semaphore; the caller of `parallel` works along and waits only for
workers that took a piece.  Made on first use, again in a forked child, and again when the number of threads changes.
"""

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.parallel import Threads
from . import later, llvm

# The pool's words (64-bit), a cache line apart where threads meet.
LOCK, OPEN, NEXT, ACTIVE, SLEEPING = 0, 8, 16, 24, 32
TASK, FRAME, COUNT, GRAIN, SERIAL, STOP, WORKERS, PARALLEL = 40, 41, 42, 43, 44, 45, 46, 47
SEMAPHORE, WORDS = 48, 64
SPINS = 400
TASK_TYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

POOL_IR = f"""
declare i32 @sem_wait(ptr)
declare i32 @sem_post(ptr)

define internal void @pieces(ptr %pool) nounwind {{
entry:
  %next = getelementptr inbounds i64, ptr %pool, i64 {NEXT}
  %task.p = getelementptr inbounds i64, ptr %pool, i64 {TASK}
  %task = load ptr, ptr %task.p, align 8
  %frame.p = getelementptr inbounds i64, ptr %pool, i64 {FRAME}
  %frame = load ptr, ptr %frame.p, align 8
  %count.p = getelementptr inbounds i64, ptr %pool, i64 {COUNT}
  %count = load i64, ptr %count.p, align 8
  %grain.p = getelementptr inbounds i64, ptr %pool, i64 {GRAIN}
  %grain = load i64, ptr %grain.p, align 8
  br label %take
take:
  %begin = atomicrmw add ptr %next, i64 %grain seq_cst
  %left = icmp slt i64 %begin, %count
  br i1 %left, label %work, label %done
work:
  %to = add i64 %begin, %grain
  %over = icmp sgt i64 %to, %count
  %end = select i1 %over, i64 %count, i64 %to
  call void %task(ptr %frame, i64 %begin, i64 %end)
  br label %take
done:
  ret void
}}

define void @worker(ptr %pool) PLAIN {{
entry:
  %open.p = getelementptr inbounds i64, ptr %pool, i64 {OPEN}
  %active.p = getelementptr inbounds i64, ptr %pool, i64 {ACTIVE}
  %sleeping.p = getelementptr inbounds i64, ptr %pool, i64 {SLEEPING}
  %stop.p = getelementptr inbounds i64, ptr %pool, i64 {STOP}
  %sem = getelementptr inbounds i64, ptr %pool, i64 {SEMAPHORE}
  br label %wait
wait:
  %seen = phi i64 [ 0, %entry ], [ %job, %leave ]
  br label %spin
spin:
  %turns = phi i64 [ 0, %wait ], [ %more, %pause ], [ 0, %woken ]
  %job = load atomic i64, ptr %open.p seq_cst, align 8
  %some = icmp ne i64 %job, 0
  %new = icmp ne i64 %job, %seen
  %go = and i1 %some, %new
  br i1 %go, label %enter, label %idle
idle:
  %tired = icmp uge i64 %turns, {SPINS}
  br i1 %tired, label %park, label %pause
pause:
  %more = add i64 %turns, 1
  fence seq_cst
  PAUSE
  br label %spin
park:
  %stop = load atomic i64, ptr %stop.p seq_cst, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %end, label %register
register:
  %before = atomicrmw add ptr %sleeping.p, i64 1 seq_cst
  %job2 = load atomic i64, ptr %open.p seq_cst, align 8
  %some2 = icmp ne i64 %job2, 0
  %new2 = icmp ne i64 %job2, %seen
  %go2 = and i1 %some2, %new2
  %stop2 = load atomic i64, ptr %stop.p seq_cst, align 8
  %stopped2 = icmp ne i64 %stop2, 0
  %awake = or i1 %go2, %stopped2
  br i1 %awake, label %withdraw, label %sleep
withdraw:
  %now = load atomic i64, ptr %sleeping.p seq_cst, align 8
  %none = icmp eq i64 %now, 0
  br i1 %none, label %sleep, label %retract
retract:
  %fewer = sub i64 %now, 1
  %try = cmpxchg ptr %sleeping.p, i64 %now, i64 %fewer seq_cst seq_cst
  %won = extractvalue {{ i64, i1 }} %try, 1
  br i1 %won, label %woken, label %withdraw
sleep:
  %got = call i32 @sem_wait(ptr %sem)
  %interrupted = icmp ne i32 %got, 0
  br i1 %interrupted, label %sleep, label %woken
woken:
  br label %spin
enter:
  %a = atomicrmw add ptr %active.p, i64 1 seq_cst
  %still = load atomic i64, ptr %open.p seq_cst, align 8
  %same = icmp eq i64 %still, %job
  br i1 %same, label %run, label %leave
run:
  call void @pieces(ptr %pool)
  br label %leave
leave:
  %b = atomicrmw sub ptr %active.p, i64 1 seq_cst
  br label %wait
end:
  ret void
}}

define void @wake(ptr %pool, i64 %limit) PLAIN {{
entry:
  %sleeping.p = getelementptr inbounds i64, ptr %pool, i64 {SLEEPING}
  %sem = getelementptr inbounds i64, ptr %pool, i64 {SEMAPHORE}
  br label %look
look:
  %left = phi i64 [ %limit, %entry ], [ %left, %again ], [ %less, %post ]
  %n = load atomic i64, ptr %sleeping.p seq_cst, align 8
  %some = icmp ne i64 %n, 0
  %want = icmp ne i64 %left, 0
  %both = and i1 %some, %want
  br i1 %both, label %claim, label %done
claim:
  %fewer = sub i64 %n, 1
  %try = cmpxchg ptr %sleeping.p, i64 %n, i64 %fewer seq_cst seq_cst
  %won = extractvalue {{ i64, i1 }} %try, 1
  br i1 %won, label %post, label %again
again:
  br label %look
post:
  %less = sub i64 %left, 1
  %r = call i32 @sem_post(ptr %sem)
  br label %look
done:
  ret void
}}

define void @parallel(ptr %pool, ptr %task, ptr %frame, i64 %count, i64 %grain) nounwind {{
entry:
  %workers.p = getelementptr inbounds i64, ptr %pool, i64 {WORKERS}
  %workers = load i64, ptr %workers.p, align 8
  %alone = icmp eq i64 %workers, 0
  %small = icmp sle i64 %count, %grain
  %no = or i1 %alone, %small
  br i1 %no, label %serial, label %try
try:
  %lock = getelementptr inbounds i64, ptr %pool, i64 {LOCK}
  %got = cmpxchg ptr %lock, i64 0, i64 1 seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %got, 1
  br i1 %mine, label %launch, label %serial
serial:
  call void %task(ptr %frame, i64 0, i64 %count)
  ret void
launch:
  %task.p = getelementptr inbounds i64, ptr %pool, i64 {TASK}
  store ptr %task, ptr %task.p, align 8
  %frame.p = getelementptr inbounds i64, ptr %pool, i64 {FRAME}
  store ptr %frame, ptr %frame.p, align 8
  %count.p = getelementptr inbounds i64, ptr %pool, i64 {COUNT}
  store i64 %count, ptr %count.p, align 8
  %grain.p = getelementptr inbounds i64, ptr %pool, i64 {GRAIN}
  store i64 %grain, ptr %grain.p, align 8
  %next.p = getelementptr inbounds i64, ptr %pool, i64 {NEXT}
  store atomic i64 0, ptr %next.p seq_cst, align 8
  %serial.p = getelementptr inbounds i64, ptr %pool, i64 {SERIAL}
  %old = load i64, ptr %serial.p, align 8
  %job = add i64 %old, 1
  store i64 %job, ptr %serial.p, align 8
  %open.p = getelementptr inbounds i64, ptr %pool, i64 {OPEN}
  store atomic i64 %job, ptr %open.p seq_cst, align 8
  %less = add i64 %count, -1
  %most = sdiv i64 %less, %grain
  call void @wake(ptr %pool, i64 %most)
  call void @pieces(ptr %pool)
  store atomic i64 0, ptr %open.p seq_cst, align 8
  %active.p = getelementptr inbounds i64, ptr %pool, i64 {ACTIVE}
  br label %finish
finish:
  %active = load atomic i64, ptr %active.p seq_cst, align 8
  %busy = icmp ne i64 %active, 0
  br i1 %busy, label %hold, label %free
hold:
  PAUSE
  br label %finish
free:
  store atomic i64 0, ptr %lock seq_cst, align 8
  ret void
}}

define ptr @parallel_address() nounwind {{
  ret ptr @parallel
}}
"""


def pool_ir() -> str:
    """The pool's text for this processor. What workers do between jobs is waiting, which no optimisation makes faster."""
    x86 = llvm.host().triple.startswith(("x86_64", "i686"))
    return POOL_IR.replace("PLAIN", llvm.PLAIN).replace("PAUSE", 'call void asm sideeffect "pause", ""()' if x86 else "fence seq_cst")


class Pool:
    """Parked worker threads and the memory in which they are given jobs.

    One thread needs no code: `PARALLEL` is then 0, and whoever has a job does it.
    """

    def __init__(self, threads: int):
        self.threads = threads
        raw = np.zeros(WORDS + 8, np.int64)
        start = (-raw.ctypes.data // 8) % 8
        self.memory = raw[start:start + WORDS]
        self.address = self.memory.ctypes.data
        # Workers, and programs that other threads run, use it and its code until the process ends, when no module is left to keep it.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        self.parallel: Callable = serial
        self.libraries: list[llvm.Library] = []  # all that ever gave out jobs
        if threads > 1:
            self.start()

    def start(self) -> None:
        """Make the workers, which are daemon threads that do not come back to Python until the pool is closed."""
        self.library = later.link(pool_ir(), ("worker", "wake", "parallel"), self.change_over)
        libc = ctypes.CDLL(None)
        libc.sem_init(ctypes.c_void_p(self.address + 8 * SEMAPHORE), 0, 0)
        self.change_over(self.library)
        self._wake = self.library.function("wake", None, ctypes.c_void_p, ctypes.c_int64)
        loop = self.library.function("worker", None, ctypes.c_void_p)
        self.memory[WORKERS] = self.threads - 1
        for i in range(self.threads - 1):
            threading.Thread(target=loop, args=(self.address,), name=f"rushlight-{i}", daemon=True).start()

    def change_over(self, library: llvm.Library) -> None:
        """Jobs are given out by this code from now on; the workers stay in that which they began in, and those who are giving one out in theirs."""
        self.libraries = [*self.libraries, library]
        self.memory[PARALLEL] = library.address("parallel")
        self.parallel = library.function("parallel", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

    def close(self) -> None:
        """Let the workers end."""
        self.memory[WORKERS], self.memory[STOP] = 0, 1
        if self.threads > 1:
            self._wake(self.address, self.threads)


def serial(pool: int, task: int, frame: Any, count: int, grain: int) -> None:
    """What `parallel` does where there are no workers."""
    TASK_TYPE(task)(frame, 0, count)


_pool: Pool | None = None
_pool_lock = threading.Lock()


def get_num_threads() -> int:
    return Threads.count


def set_num_threads(count: int) -> None:
    """Use `count` threads from the next call on."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise RuntimeError(f"set_num_threads expects a positive integer, got {count!r}")
    Threads.count = count


def pool() -> Pool:
    """The process's pool, made on first use and made again when the number of threads changed."""
    global _pool
    found = _pool
    if found is None or found.threads != Threads.count:
        with _pool_lock:
            found = _pool
            if found is None or found.threads != Threads.count:
                _pool = Pool(Threads.count)
                if found is not None:
                    found.close()
                found = _pool
    return found


def _after_fork() -> None:
    # The workers exist in the parent only, and locks may have been held by them.
    global _pool, _pool_lock
    _pool, _pool_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
