"""The cache of compiled objects on disk.

One file an entry, named by the hash of everything that the machine code depends on.  An entry is written beside its
place and renamed, carries a hash of its content, and is dropped with a warning when that does not match.  The
directory belongs to the user alone; where it cannot be had, nothing is cached.  `RUSHLIGHT_CACHE_DIR` moves it, and
`RUSHLIGHT_CACHE=0` turns it off.
"""

import functools
import hashlib
import os
import stat
import threading
import time
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..core.parallel import free_in_child

MAGIC = b"rushlight object 1\n"
LIMIT = 1 << 30  # bytes in all
STAMP, DAY = ".trimmed", 86400.0
_stores = 0


class Carried:
    """Objects that an archive brought and whose source is trusted: asked before the directory, as long as this lives."""

    def __init__(self, objects: dict[str, bytes]):
        self.objects = objects
        with _carrying:
            _carried.add(self)


_carried: "weakref.WeakSet[Carried]" = weakref.WeakSet()
_carrying = threading.Lock()
free_in_child(_carrying)
_recordings: list[dict[str, bytes]] = []


@contextmanager
def recording() -> Iterator[dict[str, bytes]]:
    """The objects that are linked meanwhile, by the names of their entries."""
    found: dict[str, bytes] = {}
    _recordings.append(found)
    try:
        yield found
    finally:
        _recordings[:] = [other for other in _recordings if other is not found]


def note(name: str, content: bytes) -> None:
    """An object was linked: for those who are recording."""
    for found in _recordings:
        found[name] = content


def key(*parts: str) -> str:
    """The name of an entry: a hash over all parts, each with its length."""
    digest = hashlib.blake2b(digest_size=20)
    for part in parts:
        data = part.encode()
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()


def directory() -> str | None:
    """The private directory, made if need be; None where caching is off or impossible."""
    if os.environ.get("RUSHLIGHT_CACHE") == "0":
        return None
    named = os.environ.get("RUSHLIGHT_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return _private(named or os.path.join(home, "rushlight"))


@functools.lru_cache(maxsize=8)
def _private(path: str) -> str | None:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode):
            raise OSError(f"{path} is not a directory")
        if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
            raise OSError(f"{path} belongs to or may be written by someone else")
        if not os.access(path, os.W_OK):
            raise OSError(f"{path} cannot be written")
    except OSError as error:
        warnings.warn(f"compiled kernels are not kept on disk: {error}; set RUSHLIGHT_CACHE_DIR to a private directory",
                      RuntimeWarning, stacklevel=2)
        return None
    return path


def load(name: str) -> bytes | None:
    """The entry's content, or None; a damaged entry is removed and reported."""
    with _carrying:
        brought = list(_carried)
    for one in brought:
        if name in one.objects:
            return one.objects[name]
    place = directory()
    if place is None:
        return None
    path = os.path.join(place, f"{name}.o")
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            data = file.read()
        os.utime(path)
    except OSError:
        return None
    head = len(MAGIC) + 32
    content = data[head:]
    if data[:len(MAGIC)] != MAGIC or hashlib.blake2b(name.encode() + content, digest_size=32).digest() != data[len(MAGIC):head]:
        warnings.warn(f"the cached kernel {path} is damaged; it is compiled again", RuntimeWarning, stacklevel=2)
        with suppress(FileNotFoundError):
            os.unlink(path)
        return None
    return content


def store(name: str, content: bytes) -> None:
    """Write an entry; failure only means that nothing is cached."""
    global _stores
    place = directory()
    if place is None:
        return
    digest = hashlib.blake2b(name.encode() + content, digest_size=32).digest()
    temporary = os.path.join(place, f".new-{os.urandom(8).hex()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0), 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(MAGIC + digest + content)
            os.replace(temporary, os.path.join(place, f"{name}.o"))
        except BaseException:
            os.unlink(temporary)
            raise
        _stores += 1
        if _stores % 256 == 0 or trimmed_before(place, DAY):
            trim(place)
    except OSError:
        return


def trimmed_before(place: str, seconds: float) -> bool:
    """Whether the directory was not trimmed for so long: looking at each of a hundred thousand entries takes a second."""
    try:
        return time.time() - os.stat(os.path.join(place, STAMP)).st_mtime > seconds
    except FileNotFoundError:
        return True


def trim(place: str, limit: int = LIMIT) -> None:
    """Remove the entries that were used longest ago until the rest fits in `limit` bytes."""
    with open(os.path.join(place, STAMP), "wb"):  # its time says when this was done last
        pass
    entries = []
    with os.scandir(place) as found:  # there may be tens of thousands: a Path for each would take longer than this
        for entry in found:
            if not entry.name.endswith(".o"):
                continue
            try:
                status = entry.stat()
            except OSError:
                continue  # another process removed it
            entries.append((status.st_mtime, status.st_size, entry.path))
    total = sum(size for _, size, _ in entries)
    if total <= limit:
        return
    for _, size, path in sorted(entries):
        if total <= limit:
            break
        with suppress(FileNotFoundError):
            os.unlink(path)
        total -= size
