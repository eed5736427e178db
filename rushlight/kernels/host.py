"""What is known of the processor and the compiler that code is made for, also without the compiler in the process.

`Host` is what machine code depends on besides its text.  LLVM says it, and takes long to load, so a record of what it said
is kept in the cache directory (`remember`).  LLVM reads nothing but the CPUID instruction for it; so a record has what
that gave, word by word, and code that asks again, and holds (`recall`) where all words are the same and llvmlite is the
same installation.  Anything else leads to LLVM itself.
"""

import ctypes
import functools
import importlib.util
import os
import sys
from typing import NamedTuple

from . import cache, objects

# Leaves of CPUID, and their parts, from which a processor's name and features follow.
LEAVES = ((0, 0), (1, 0), (7, 0), (7, 1), (0xD, 1), (0x14, 0), (0x19, 0), (0x1E, 1), (0x24, 0), (0x29, 0), (0x80000000, 0), (0x80000001, 0),
          (0x80000007, 0), (0x80000008, 0), (0x80000021, 0))
# Registers (of eax, ebx, ecx, edx) that differ from one core or moment to the next, and say nothing of features: core numbers, sizes in use.
VARYING = {(1, 0): {1}, (0xD, 1): {1, 2, 3}}
OSXSAVE = 1 << 27  # of leaf 1's ecx: xgetbv says which registers the system keeps
ARCH_PRCTL, REQUEST, TILE_DATA = 158, 0x1023, 18  # the system call of x86-64 Linux that asks for more registers, and the number of AMX's tiles

QUESTIONS_IR = """
define void @identify(i32 %leaf, i32 %part, ptr %words) nounwind {
  %all = call { i32, i32, i32, i32 } asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx}"(i32 %leaf, i32 %part)
  %a = extractvalue { i32, i32, i32, i32 } %all, 0
  %b = extractvalue { i32, i32, i32, i32 } %all, 1
  %c = extractvalue { i32, i32, i32, i32 } %all, 2
  %d = extractvalue { i32, i32, i32, i32 } %all, 3
  %b.p = getelementptr inbounds i32, ptr %words, i64 1
  %c.p = getelementptr inbounds i32, ptr %words, i64 2
  %d.p = getelementptr inbounds i32, ptr %words, i64 3
  store i32 %a, ptr %words, align 4
  store i32 %b, ptr %b.p, align 4
  store i32 %c, ptr %c.p, align 4
  store i32 %d, ptr %d.p, align 4
  ret void
}
define i32 @kept() nounwind {
  %both = call { i32, i32 } asm sideeffect "xgetbv", "={ax},={dx},{cx}"(i32 0)
  %low = extractvalue { i32, i32 } %both, 0
  ret i32 %low
}
"""


class Host(NamedTuple):
    """The processor that code is made for, and what makes it."""

    cpu: str
    features: frozenset[str]
    flags: str  # the features as LLVM's target machine takes them
    version: str
    triple: str

    @property
    def vector_bits(self) -> int:
        if {"avx512f", "avx512dq", "avx512vl"} <= self.features:
            return 512
        return 256 if "avx2" in self.features else 128


@functools.cache
def tiles_are_kept() -> bool:
    """Ask the system to keep AMX's tile registers for this process.

    Linux does so only for who asks, once; the answer holds for all its threads, and for its children until they run another program.
    """
    if not objects.supported():
        return False
    words = [ctypes.c_long(word) for word in (ARCH_PRCTL, REQUEST, TILE_DATA)]
    return ctypes.CDLL(None).syscall(*words) == 0


def granted(host: Host) -> Host:
    """The host less the tiles that the system does not let this process use: all code is made, and found in the cache, for what is left.

    >>> granted(Host("cpu", frozenset(["avx"]), "+avx", "", "x86_64")).flags
    '+avx'
    """
    tiles = {name for name in host.features if name.startswith("amx-")}
    if not tiles or tiles_are_kept():
        return host
    flags = ",".join("-" + flag[1:] if flag[1:] in tiles else flag for flag in host.flags.split(","))
    return host._replace(features=host.features - tiles, flags=flags)


def compiler() -> tuple | None:
    """What tells one installation of llvmlite from another, without importing it; None if that cannot be told."""
    try:
        found = importlib.util.find_spec("llvmlite")
        if found is None or not found.origin:
            return None
        folder = os.path.dirname(found.origin)
        states = [os.stat(os.path.join(folder, *name)) for name in (("__init__.py",), ("_version.py",), ("binding", "libllvmlite.so"))]
    except (ValueError, OSError, ImportError):
        return None
    return folder, *[(state.st_ino, state.st_size, state.st_mtime_ns) for state in states]


def record_name(target: str) -> str | None:
    installed = compiler()
    return None if installed is None else cache.key("host 1", target, sys.platform, repr(installed))


def recall(target: str) -> Host | None:
    """The host as LLVM described it before, if processor and compiler are the same as then."""
    name = record_name(target) if objects.supported() else None
    content = cache.load(name) if name else None
    if content is None:
        return None
    head, _, image = content.partition(b"\n\n")
    try:
        cpu, features, flags, version, triple, words = head.decode().split("\n")
        return Host(cpu, frozenset(features.split()), flags, version, triple) if answers(image) == [int(word, 16) for word in words.split()] else None
    except (ValueError, KeyError, NotImplementedError):
        return None


def remember(target: str, host: Host, image: bytes) -> None:
    """Keep what LLVM said; `image` is the object of `QUESTIONS_IR`, made for any x86-64 processor."""
    name = record_name(target)
    try:
        words = answers(image)
    except (ValueError, KeyError, NotImplementedError):  # an object that is not loaded here: nothing to gain
        return
    if name:
        lines = host.cpu, " ".join(sorted(host.features)), host.flags, host.version, host.triple, " ".join(f"{word:x}" for word in words)
        cache.store(name, "\n".join(lines).encode() + b"\n\n" + image)


def answers(image: bytes) -> list[int]:
    """What the processor says of itself, by the code of `QUESTIONS_IR`."""
    code = objects.load(image, lambda name: None)
    identify = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(code["identify"])
    words, found = (ctypes.c_uint32 * 4)(), []
    last = {}
    for leaf, part in LEAVES:
        group = leaf & 0x80000000  # leaves above the last of their group give what happens to be there
        if group in last and leaf > last[group]:
            found += [0] * 4
            continue
        identify(leaf, part, words)
        last.setdefault(group, words[0])
        found += [0 if at in VARYING.get((leaf, part), ()) else words[at] for at in range(4)]
    if found[4 * LEAVES.index((1, 0)) + 2] & OSXSAVE:
        found.append(ctypes.CFUNCTYPE(ctypes.c_uint32)(code["kept"])())
    return found
