"""Writing a file so that a crash at any moment leaves the old file or the new one, whole.

The bytes go to a new file beside the target, are forced to disk, and take the target's name in one step; then the
folder is forced to disk. A target that is a symbolic link keeps being one: what it points to is replaced.
A killed process can leave a file named `.NAME.*.tmp` behind; it is never read and may be deleted.
"""
import os
import stat

from .source import shown


def replace(path, write):
    """Call `write(stream)` on a new binary file and make it the file at `path`; OSError as the system gives it."""
    target = os.path.realpath(path)
    try:
        old = os.stat(target)
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        return write_special(path, target, old, write)
    folder, name = os.path.split(target)
    temporary, descriptor = create_beside(folder, name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            write(stream)
            stream.flush()
            keep_mode(stream.fileno(), old)
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise
    sync_folder(folder)


def create_beside(folder, name):
    """A new empty file in the folder, open for writing, that nobody else can have opened."""
    stem = name.encode("utf-8", "surrogateescape")[:180].decode("utf-8", "ignore")
    flags = (os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
             | getattr(os, "O_BINARY", 0))
    while True:
        temporary = os.path.join(folder, f".{stem}.{os.urandom(6).hex()}.tmp")
        try:
            return temporary, os.open(temporary, flags, 0o666)
        except FileExistsError:
            continue


def keep_mode(descriptor, old):
    """Give the new file the old one's mode and, where allowed, its owner."""
    if old is None or not hasattr(os, "fchmod"):
        return
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except OSError:
            pass  # not ours to give away: the mode still holds
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def sync_folder(folder):
    """Force the folder's entry to disk, where folders can be opened."""
    try:
        descriptor = os.open(folder or ".", os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # some network file systems cannot; the rename itself holds
    finally:
        os.close(descriptor)


def write_special(path, target, old, write):
    """Write to a device such as /dev/null; refuse folders, FIFOs and sockets."""
    if stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(f"{shown(os.fspath(path))}: expected a file name to save to, got a directory")
    if not stat.S_ISCHR(old.st_mode):
        raise OSError(f"{shown(os.fspath(path))}: expected a regular file to save to, got a FIFO, socket or block device")
    with open(target, "wb") as stream:
        write(stream)
