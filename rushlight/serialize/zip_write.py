"""Writing a zip archive of stored records: the same records give the same bytes, each record's data 64-byte aligned."""
import struct
import zlib

from .zip_read import CENTRAL, END, END64, LOCAL, LOCATOR

ALIGNMENT = 64
DATE, TIME = 0x0021, 0  # the first day of zip's calendar: the time of writing is no content
FULL = 0xFFFFFFFF


def write_archive(stream, records, full=FULL):
    """Write `records`, pairs of a name and a buffer, to a binary stream. `full`: the size from which zip64 is used."""
    entries, at = [], 0
    for name, buffer in records:
        data, raw = memoryview(buffer).cast("B"), name.encode()
        size, crc, wide = len(data), zlib.crc32(data), len(data) >= full
        sizes = struct.pack("<2H2Q", 1, 16, size, size) if wide else b""
        start = at + LOCAL.size + len(raw) + len(sizes) + 4
        padding = -start % ALIGNMENT
        extra = sizes + struct.pack("<2H", 0x4246, padding) + b"Z" * padding  # "FB", as PyTorch marks its padding
        shown_size = FULL if wide else size
        header = LOCAL.pack(b"PK\x03\x04", 45 if wide else 20, 0x800, 0, TIME, DATE, crc, shown_size, shown_size, len(raw), len(extra))
        stream.write(header + raw + extra)
        stream.write(data)
        entries.append((raw, crc, size, at))
        at = start + padding + size
    directory = b"".join(central(*entry, full) for entry in entries)
    stream.write(directory + ending(len(entries), len(directory), at, full))


def central(raw, crc, size, at, full):
    """One directory entry."""
    wide_size, wide_at = size >= full, at >= full
    wide = (struct.pack("<2Q", size, size) if wide_size else b"") + (struct.pack("<Q", at) if wide_at else b"")
    extra = struct.pack("<2H", 1, len(wide)) + wide if wide else b""
    shown_size, version = FULL if wide_size else size, 45 if wide else 20
    return CENTRAL.pack(b"PK\x01\x02", version, version, 0x800, 0, TIME, DATE, crc, shown_size, shown_size, len(raw), len(extra), 0, 0,
                        0, 0, FULL if wide_at else at) + raw + extra


def ending(count, size, start, full):
    """The end records; the zip64 one always, as PyTorch writes it."""
    end64 = END64.pack(b"PK\x06\x06", END64.size - 12, 45, 45, 0, 0, count, count, size, start)
    locator = LOCATOR.pack(b"PK\x06\x07", 0, start + size, 1)
    shown_start = FULL if start >= full else start
    return end64 + locator + END.pack(b"PK\x05\x06", 0, 0, min(count, 0xFFFF), min(count, 0xFFFF), min(size, FULL), shown_start, 0)
