"""Reading zip archives that may be broken or hostile: torch files and .npz.

Python's zipfile believes more than it should: duplicate names, records that overlap, local headers that say
something else than the directory. Here the whole directory is checked before any record is read: names, sizes,
ratio, overlap, encryption, and each record's checksum when it is read. Read `Archive.__init__` first.
"""
import struct
import zlib

import numpy as np

from .source import shown

END = struct.Struct("<4s4H2LH")
END64 = struct.Struct("<4sQ2H2L4Q")
LOCATOR = struct.Struct("<4sLQL")
CENTRAL = struct.Struct("<4s6H3L5H2L")
LOCAL = struct.Struct("<4s5H3L2H")
STORED, DEFLATED = 0, 8
FREE = 64 << 20  # bytes that any file may unpack to
RATIO = 20
SMALL = 1 << 20  # records up to this size may have any ratio
BROKEN = "the file is damaged or was made to harm: get it again from where it came"


class Record:
    """One file of the archive: where its bytes stand and what they must be."""

    __slots__ = ("name", "method", "flags", "crc", "packed", "size", "header", "data")


class Archive:
    """A zip archive by record name; `source` stays open as long as it is used."""

    def __init__(self, source):
        self.source = source
        start, size, count = self.find_directory()
        self.records = self.parse_directory(source.read(start, size, "the zip directory"), start, count)
        self.check_limits()

    def error(self, problem, fix=BROKEN):
        return self.source.error(problem, fix)

    def find_directory(self):
        """Offset, size and entry count of the central directory."""
        source = self.source
        tail_size = min(source.size, END.size + 0xFFFF)
        tail = source.read(source.size - tail_size, tail_size, "the zip directory")
        at = tail.rfind(b"PK\x05\x06")
        if at < 0 or at + END.size > len(tail):
            raise self.error(f"ends before its zip directory: expected an end record, got none in {source.size} bytes",
                             "a partial download or copy? get the file again")
        end = source.size - tail_size + at
        _, disk, first_disk, here, count, size, start, comment = END.unpack_from(tail, at)
        if at + END.size + comment != len(tail):
            raise self.error(f"zip end record: expected {comment} bytes of comment after it, got {len(tail) - at - END.size}")
        if end >= LOCATOR.size and 0xFFFFFFFF in (size, start) or 0xFFFF in (count, here) or disk == 0xFFFF:
            sign, _, at64, _ = LOCATOR.unpack(source.read(end - LOCATOR.size, LOCATOR.size, "the zip64 locator"))
            if sign != b"PK\x06\x07":
                raise self.error("zip64 sizes without a zip64 end record")
            sign, _, _, _, disk, first_disk, here, count, size, start = END64.unpack(source.read(at64, END64.size, "the zip64 end"))
            if sign != b"PK\x06\x06":
                raise self.error("zip64 locator points to no end record")
            end = at64
        if disk or first_disk or here != count:
            raise self.error("archive in several parts: expected one file")
        if start + size > end or count * CENTRAL.size > size:
            raise self.error(f"zip directory of {count} entries: expected {size} bytes at {start}, which the file has no room for")
        return start, size, count

    def parse_directory(self, data, start, count):
        """The records by name, each checked against the others and its local header."""
        records, at = {}, 0
        for _ in range(count):
            if at + CENTRAL.size > len(data):
                raise self.error("zip directory ends within an entry")
            (sign, _, _, flags, method, _, _, crc, packed, size, name_size, extra_size, comment_size, disk, _, _,
             header) = CENTRAL.unpack_from(data, at)
            at += CENTRAL.size
            following = at + name_size + extra_size + comment_size
            if sign != b"PK\x01\x02" or following > len(data):
                raise self.error("zip directory entry is damaged")
            record = Record()
            record.name = self.checked_name(data[at:at + name_size])
            packed, size, header = self.wide(data[at + name_size:at + name_size + extra_size], packed, size, header, record.name)
            record.method, record.flags, record.crc = method, flags, crc
            record.packed, record.size, record.header = packed, size, header
            if record.name in records:
                raise self.error(f"two records named '{shown(record.name)}': expected each once")
            if flags & 0x2041:
                raise self.error(f"record '{shown(record.name)}' is encrypted: expected plain", "unpack it with its password first")
            if method not in (STORED, DEFLATED):
                raise self.error(f"record '{shown(record.name)}': expected stored or deflated data, got method {method}")
            if method == STORED and packed != size:
                raise self.error(f"record '{shown(record.name)}': stored as {packed} bytes, declared as {size}")
            if disk not in (0, 0xFFFF):
                raise self.error("archive in several parts: expected one file")
            records[record.name] = record
            at = following
        end = 0
        for record in sorted(records.values(), key=lambda record: record.header):
            if record.header < end:
                raise self.error(f"record '{shown(record.name)}' overlaps the one before it")
            end = self.check_local(record)
            if end > start:
                raise self.error(f"record '{shown(record.name)}' runs into the zip directory")
        return records

    def checked_name(self, raw):
        """A record's name as text: relative, inside the archive."""
        try:
            name = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise self.error(f"record name {raw[:40]!r} is not UTF-8") from None
        parts = name.split("/")
        if not name or name.startswith("/") or "\\" in name or "\0" in name or ".." in parts or ":" in parts[0]:
            raise self.error(f"record name '{shown(name)}' leads outside the archive")
        return name

    def wide(self, extra, packed, size, header, name):
        """The three numbers, with 64-bit ones from the zip64 extra field where the 32-bit ones are full."""
        numbers, at = [size, packed, header], 0
        while at + 4 <= len(extra):
            kind, length = struct.unpack_from("<2H", extra, at)
            if kind == 1:
                field, used = extra[at + 4:at + 4 + length], 0
                for i, number in enumerate(numbers):
                    if number == 0xFFFFFFFF:
                        if used + 8 > len(field):
                            raise self.error(f"record '{shown(name)}': zip64 sizes are cut off")
                        numbers[i] = struct.unpack_from("<Q", field, used)[0]
                        used += 8
            at += 4 + length
        return numbers[1], numbers[0], numbers[2]

    def check_local(self, record):
        """Compare the local header with the directory, set where the data starts, and return where it ends."""
        what = f"record '{shown(record.name)}'"
        fixed = self.source.read(record.header, LOCAL.size, what)
        sign, _, flags, method, _, _, crc, packed, size, name_size, extra_size = LOCAL.unpack(fixed)
        if sign != b"PK\x03\x04":
            raise self.error(f"{what}: no local header where the directory points")
        rest = self.source.read(record.header + LOCAL.size, name_size + extra_size, what)
        later = flags & 8  # sizes stand after the data
        if (rest[:name_size] != record.name.encode() or method != record.method
                or not (later and not (crc or packed or size)) and (crc != record.crc or not self.agree(rest[name_size:], packed, size,
                                                                                                      record))):
            raise self.error(f"{what}: local header and directory say different things")
        record.data = record.header + LOCAL.size + name_size + extra_size
        return record.data + self.source.checked(record.data, record.packed, what)

    def agree(self, extra, packed, size, record):
        """Whether the local sizes, widened by their own extra field, are the directory's."""
        packed, size, _ = self.wide(extra, packed, size, 0, record.name)
        return packed == record.packed and size == record.size

    def check_limits(self):
        """No record and no archive may unpack to far more than it is."""
        total = 0
        for record in self.records.values():
            total += record.size
            if record.size > SMALL and record.size > RATIO * max(record.packed, 1):
                raise self.error(f"record '{shown(record.name)}' would unpack {record.packed} bytes to {record.size}: expected at most "
                                 f"{RATIO} times", "if you trust it, unpack it with other tools and save it anew")
        if total > 2 * self.source.size + FREE:
            raise self.error(f"would unpack {self.source.size} bytes to {total}: expected at most twice the file and {FREE >> 20} MB",
                             "if you trust it, unpack it with other tools and save it anew")

    def array(self, name):
        """A record's bytes as a writable uint8 array. Its checksum is verified, unless the file is mapped: that would read it all."""
        record, source = self.records[name], self.source
        if record.method == STORED and source.mapped and source.owned:
            return source.array(record.data, record.size, f"record '{shown(name)}'")
        return self.verified(record)

    def verified(self, record):
        """A record's bytes, read and checked."""
        what = f"record '{shown(record.name)}'"
        if record.method == STORED:
            data = np.empty(record.size, np.uint8)
            self.source.read_into(record.data, data, what)
        else:
            data = self.inflate(record, what)
        if zlib.crc32(data) != record.crc:
            raise self.error(f"{what}: checksum {zlib.crc32(data):08x}, expected {record.crc:08x}")
        return data

    def inflate(self, record, what):
        """Decompress into memory of the declared size, never more."""
        data, done = np.empty(record.size, np.uint8), 0
        machine, packed = zlib.decompressobj(-15), self.source.read(record.data, record.packed, what)
        try:
            while packed and done < record.size:
                piece = machine.decompress(packed, min(record.size - done, 1 << 24))
                data[done:done + len(piece)] = np.frombuffer(piece, np.uint8)
                done, packed = done + len(piece), machine.unconsumed_tail
                if not piece and not packed:
                    break
            excess = machine.decompress(packed, 1)
        except zlib.error as problem:
            raise self.error(f"{what}: cannot be decompressed ({problem})") from None
        if done != record.size or excess:
            raise self.error(f"{what}: unpacks to {'more' if excess else done} bytes, declared as {record.size}")
        return data

    def read(self, name):
        """A record's bytes, checked."""
        return self.verified(self.records[name]).tobytes()
