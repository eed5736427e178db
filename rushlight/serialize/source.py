"""Where bytes come from when loading: a regular file or a file object, its size known before anything is read.

Never blocks and never trusts: what is not a regular file is refused before it is opened, every read checks that
the bytes are there, and each error starts with the file's name. Read `Source` first.
"""
import mmap
import os
import stat

import numpy as np

from ..core.errors import FormatError, SecurityError

PIECE = 1 << 24  # bytes a read, so that a lying size cannot make a large allocation elsewhere


class Source:
    """Bytes by offset, from a path or a file object. Use as a context manager."""

    def __init__(self, file, mapped=False):
        self.mapped, self.owned = mapped, False
        if isinstance(file, (str, os.PathLike)):
            self.name = shown(os.fspath(file))
            self.stream = self.open_regular(file)
            self.start, self.size, self.owned = 0, os.fstat(self.stream.fileno()).st_size, True
        else:
            self.name = shown(str(getattr(file, "name", None) or f"<{type(file).__name__}>"))
            self.stream = file
            self.start, self.size = self.measure(file)

    def open_regular(self, file):
        """Open a path that is a regular file; FormatError for a directory, FIFO, device or socket, FileNotFoundError for none."""
        kind = os.stat(file).st_mode
        if not stat.S_ISREG(kind):
            raise self.error(f"not a regular file: expected a saved file, got a {KINDS.get(stat.S_IFMT(kind), 'special file')}",
                             "give the path of a file that save() wrote")
        stream = os.fdopen(os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
                                   | getattr(os, "O_BINARY", 0)), "rb", buffering=0)
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):  # replaced between the two calls
            stream.close()
            raise self.error("not a regular file any more: it was replaced while being opened", "load it again")
        return stream

    def measure(self, file):
        """Start and size of a seekable file object; another one is read to its end."""
        if not hasattr(file, "read"):
            raise TypeError(f"load(): expected a path or a file object opened for reading, got {type(file).__name__}")
        if hasattr(file, "seek") and (not hasattr(file, "seekable") or file.seekable()):
            start = file.tell()
            end = file.seek(0, os.SEEK_END)
            end = file.tell() if end is None else end
            file.seek(start)
            return start, end - start
        data = file.read()
        if not isinstance(data, (bytes, bytearray)):
            raise TypeError(f"{self.name}: expected a file object opened in binary mode, got one that reads {type(data).__name__}")
        self.stream = Pieces(data)
        return 0, len(data)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.owned:
            self.stream.close()

    def read(self, offset, count, what="the file"):
        """The bytes at an offset; FormatError when they are not there."""
        buffer = bytearray(self.checked(offset, count, what))
        self.read_into(offset, buffer, what)
        return bytes(buffer)

    def checked(self, offset, count, what):
        """`count`, if so many bytes stand at the offset."""
        if offset < 0 or count < 0 or offset + count > self.size:
            missing = offset + count - self.size
            raise self.error(f"ends in {what}: expected {count} bytes at {offset}, {missing} bytes missing of a file of {self.size}",
                             "a partial download or copy? get the file again")
        return count

    def read_into(self, offset, buffer, what="the file"):
        """Fill a writable buffer from an offset."""
        view = memoryview(buffer).cast("B")
        self.checked(offset, len(view), what)
        self.stream.seek(self.start + offset)
        done = 0
        while done < len(view):
            piece = view[done:done + PIECE]
            if hasattr(self.stream, "readinto"):
                got = self.stream.readinto(piece) or 0
            else:
                data = self.stream.read(len(piece))
                if not isinstance(data, (bytes, bytearray)):
                    raise TypeError(f"{self.name}: expected a file object opened in binary mode, got one that reads "
                                    f"{type(data).__name__}")
                got = len(data)
                piece[:got] = data
            if not got:
                raise self.error(f"shrank while being read: expected {self.size} bytes, got {offset + done}",
                                 "another program is writing it; save under a new name and rename")
            done += got

    def array(self, offset, count, what="the file"):
        """A writable uint8 array of the bytes: read, or mapped privately when the source was opened so."""
        if self.mapped and self.owned and count:
            self.checked(offset, count, what)
            base = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
            mapping = mmap.mmap(self.stream.fileno(), offset - base + count, access=mmap.ACCESS_COPY, offset=base)
            if os.fstat(self.stream.fileno()).st_size < offset + count:
                raise self.error(f"shrank while being mapped: expected {self.size} bytes", "load it with mmap=False")
            return np.frombuffer(mapping, np.uint8, count, offset - base)
        result = np.empty(self.checked(offset, count, what), np.uint8)
        self.read_into(offset, result, what)
        return result

    def error(self, problem, fix, kind=FormatError):
        """An error about this file: its name, what was expected and came, what to do."""
        return kind(f"{self.name}: {problem}. To fix: {fix}.")

    def refusal(self, problem, fix):
        """A SecurityError about this file."""
        return self.error(problem, fix, SecurityError)


class Pieces:
    """Bytes with `seek` and `read`, for file objects that cannot seek."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def seek(self, at):
        self.at = at

    def read(self, count):
        return self.data[self.at:self.at + count]


KINDS = {stat.S_IFDIR: "directory", stat.S_IFIFO: "FIFO", stat.S_IFCHR: "character device", stat.S_IFBLK: "block device",
         stat.S_IFSOCK: "socket"}


def shown(name):
    """A name from a file or the user as printable text, control and direction characters escaped, cut at 200."""
    text = os.fsdecode(name) if isinstance(name, bytes) else name
    text = text if len(text) <= 200 else text[:200] + "..."
    return "".join(char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode() for char in text)
