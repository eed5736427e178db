"""Loads object files of x86-64 Linux in pure Python, so that code from the cache runs without LLVM in the process.

`load` is the function to read.  It knows the few sections and relocations that LLVM makes of our modules.  What is
beyond them is `Unknown`, and left to LLVM's own linker; what contradicts itself is `Damaged`.  Memory is never writable
and executable at once: it is written, then made readable and executable.  Nothing is registered anywhere (no
debugger, no unwinder), so dropping the `Code` frees all of it.
"""

import ctypes
import functools
import mmap
import os
import struct
import sys
from collections.abc import Callable
from typing import NamedTuple

HEADER, SECTION = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQIIQQ")
SYMBOL, RELOCATION = struct.Struct("<IBBHQQ"), struct.Struct("<QQq")
IDENTITY, RELOCATABLE, X86_64 = b"\x7fELF\x02\x01\x01\x00", 1, 62  # 64 bits, little-endian, System V
PROGBITS, SYMTAB, STRTAB, RELA, NOBITS, REL = 1, 2, 3, 4, 8, 9
SKIPPED = {0, PROGBITS, SYMTAB, STRTAB, RELA, 0x6FFF4C03}  # of what takes no memory; the last is LLVM's table of significant addresses
WRITE, ALLOCATE, EXECUTE, MERGE, STRINGS, INFO = 1, 2, 4, 16, 32, 64
UNDEFINED, RESERVED = 0, 0xFF00  # section numbers: of no section, and from which on they mean something else
WORD, NEAR, CALL = 1, 2, 4  # relocations: S + A in 64 bits; S + A - P in 32; the same for a call, which may go by a stub
TABLE = {9, 41, 42}  # relocations by a word that holds the address: word + A - P in 32 bits
LIMIT = 1 << 28  # bytes of one object in memory; any two places in it are near
PAGE = mmap.PAGESIZE
STUB = 16  # bytes: an indirect jump by a word, padding, and the word


class Damaged(ValueError):
    """An object whose tables contradict each other or its size, or which needs what it must not have."""


class Unknown(NotImplementedError):
    """An object of a kind that is not loaded here, or a system that refuses: LLVM's own linker may do it."""


class Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    about: int
    alignment: int
    entry: int


class Symbol(NamedTuple):
    name: int
    info: int
    other: int
    section: int
    value: int
    size: int


class Object:
    """The tables of an ELF64 object file; every offset and number in them lies inside the file."""

    def __init__(self, image: bytes):
        self.image = image
        if len(image) < HEADER.size or image[:8] != IDENTITY:
            raise Unknown("no 64-bit ELF object")
        _, kind, processor, version, start, _, table, _, size, _, parts, entry, count, names = HEADER.unpack_from(image)
        if kind != RELOCATABLE or processor != X86_64:
            raise Unknown(f"an ELF file of type {kind} for processor {processor}")
        if version != 1 or start or parts or size != HEADER.size or entry != SECTION.size or not 0 < count < RESERVED or names >= count:
            raise Damaged("the header of an object contradicts itself")
        if table % 8 or table > len(image) - count * SECTION.size:
            raise Damaged("the table of sections lies outside the object")
        self.sections = [Section._make(row) for row in SECTION.iter_unpack(image[table:table + count * SECTION.size])]
        for section in self.sections:
            self.check(section)
        tables = [section for section in self.sections if section.kind == SYMTAB]
        if len(tables) != 1 or tables[0].entry != SYMBOL.size or tables[0].size % SYMBOL.size:
            raise Damaged("an object needs one table of symbols")
        self.symbols = [Symbol._make(row) for row in SYMBOL.iter_unpack(self.content(tables[0]))]
        self.names = self.strings(tables[0].link)
        self.section_names = self.strings(names)
        for symbol in self.symbols:
            if symbol.section < RESERVED and (symbol.section >= count or symbol.value > self.sections[symbol.section].size):
                raise Damaged("a symbol lies outside its section")

    def check(self, section: Section) -> None:
        if section.kind != NOBITS and section.kind and (section.offset > len(self.image) or section.size > len(self.image) - section.offset):
            raise Damaged("a section lies outside the object")
        if section.size > LIMIT:
            raise Damaged(f"a section of {section.size} bytes")
        if section.alignment & (section.alignment - 1) or section.alignment > PAGE:
            raise Damaged(f"a section aligned to {section.alignment} bytes")

    def content(self, section: Section) -> bytes:
        return self.image[section.offset:section.offset + section.size]

    def strings(self, number: int) -> bytes:
        if number >= len(self.sections) or self.sections[number].kind != STRTAB:
            raise Damaged("names without a table of strings")
        return self.content(self.sections[number])

    def name(self, symbol: Symbol) -> str:
        return text(self.names, symbol.name)

    def relocations(self) -> list[tuple[int, list[tuple[int, int, int, int]]]]:
        """What is to be written into each section that takes memory: (place in it, kind, number of the symbol, addend)."""
        found = []
        for section in self.sections:
            if section.kind == REL:
                raise Unknown("relocations without addends")
            if section.kind != RELA:
                continue
            if section.entry != RELOCATION.size or section.size % RELOCATION.size or not 0 < section.about < len(self.sections):
                raise Damaged("a table of relocations contradicts itself")
            target, rows = self.sections[section.about], []
            if not target.flags & ALLOCATE:
                continue
            for place, info, addend in RELOCATION.iter_unpack(self.content(section)):
                kind, symbol = info & 0xFFFFFFFF, info >> 32
                width = 8 if kind == WORD else 4
                if symbol >= len(self.symbols) or target.kind == NOBITS or place > target.size - width or abs(addend) > LIMIT:
                    raise Damaged("a relocation outside its section, or of no symbol")
                if kind not in (WORD, NEAR, CALL) and kind not in TABLE or kind == NEAR and self.symbols[symbol].section == UNDEFINED:
                    raise Unknown(f"a relocation of type {kind}")
                rows.append((place, kind, symbol, addend))
            found.append((section.about, rows))
        return found


def text(strings: bytes, start: int) -> str:
    end = strings.find(b"\0", start)
    if end < 0:
        raise Damaged("a name without an end")
    try:
        return strings[start:end].decode("ascii")
    except UnicodeDecodeError:
        raise Damaged("a name that is no ASCII") from None


def undefined(image: bytes) -> set[str]:
    """The symbols that an object needs from elsewhere; of another format nothing is known, and nothing said."""
    try:
        made = Object(image)
    except Unknown:
        return set()
    return {made.name(symbol) for symbol in made.symbols if symbol.section == UNDEFINED and symbol.name}


class Code:
    """Machine code in memory, by the names of its global symbols; it stays there as long as this object lives."""

    def __init__(self, addresses: dict[str, int], memory: mmap.mmap):
        self._addresses, self._memory = addresses, memory

    def __getitem__(self, name: str) -> int:
        return self._addresses[name]

    def __contains__(self, name: str) -> bool:
        return name in self._addresses


def supported() -> bool:
    """Whether this is a system whose objects are loaded here."""
    return sys.platform == "linux" and os.uname().machine == "x86_64" and sys.maxsize > 1 << 32


def load(image: bytes, resolve: Callable[[str], int | None]) -> Code:
    """Put an object into memory and link it; `resolve` gives the address of a symbol from elsewhere, None where it is not allowed."""
    if not supported():
        raise Unknown("objects are loaded on x86-64 Linux only")
    made = Object(image)
    relocations = made.relocations()
    places, stubs, fixed, total = layout(made, relocations)
    try:
        memory = mmap.mmap(-1, total, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE)
    except OSError as error:
        raise Unknown(f"no memory for code: {error}") from None
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for number, start in places.items():
        if made.sections[number].kind != NOBITS:
            memory[start:start + made.sections[number].size] = made.content(made.sections[number])

    def address(number: int) -> int:
        symbol = made.symbols[number]
        if symbol.section in places:
            return base + places[symbol.section] + symbol.value
        found = resolve(made.name(symbol)) if symbol.section == UNDEFINED else None
        if not found:
            raise Damaged(f"an object needs {made.name(symbol)!r}, which is not on the list of allowed symbols")
        return found

    for number, start in stubs.items():  # jmp *2(%rip): by the word that follows
        memory[start:start + STUB] = b"\xff\x25\x02\x00\x00\x00\xcc\xcc" + address(number).to_bytes(8, "little")
    for section, rows in relocations:
        for offset, kind, number, addend in rows:
            place = places[section] + offset
            if kind == WORD:
                struct.pack_into("<Q", memory, place, address(number) + addend & 0xFFFFFFFFFFFFFFFF)
            elif kind in TABLE:
                struct.pack_into("<i", memory, place, stubs[number] + 8 + addend - place)
            elif number in stubs and made.symbols[number].section == UNDEFINED:
                struct.pack_into("<i", memory, place, stubs[number] + addend - place)
            else:
                struct.pack_into("<i", memory, place, address(number) + addend - base - place)
    protect(base, fixed)
    return Code({made.name(symbol): address(number) for number, symbol in enumerate(made.symbols)
                 if symbol.info >> 4 and symbol.section in places}, memory)


def layout(made: Object, relocations: list[tuple[int, list]]) -> tuple[dict[int, int], dict[int, int], int, int]:
    """Where each section and each symbol's stub is to lie, how many bytes will not be written again, and how many there are."""
    places: dict[int, int] = {}
    changing = []
    end = 0
    for number, section in enumerate(made.sections):
        if not section.flags & ALLOCATE:
            if section.kind not in SKIPPED:
                raise Unknown(f"a section of type {section.kind}")
            continue
        if section.kind not in (PROGBITS, NOBITS) or section.flags & ~(WRITE | ALLOCATE | EXECUTE | MERGE | STRINGS | INFO):
            raise Unknown(f"a section of type {section.kind} with flags {section.flags}")
        if section.flags & WRITE and not text(made.section_names, section.name).startswith(".data.rel.ro"):  # which only the linker writes
            changing.append(number)
            continue
        places[number], end = aligned(end, section)
    needed = {number for _, rows in relocations for _, kind, number, _ in rows if kind in TABLE or kind == CALL and made.symbols[number].section == UNDEFINED}
    end = -(-end // STUB) * STUB
    stubs = {number: end + STUB * at for at, number in enumerate(sorted(needed))}
    fixed = end = -(-(end + STUB * len(stubs)) // PAGE) * PAGE
    for number in changing:
        if made.sections[number].flags & EXECUTE:
            raise Unknown("code that is written")
        places[number], end = aligned(end, made.sections[number])
    if not 0 < end <= LIMIT:
        raise Damaged(f"an object that takes {end} bytes")
    return places, stubs, fixed, end


def aligned(end: int, section: Section) -> tuple[int, int]:
    """Where a section starts behind `end`, and where it ends."""
    step = section.alignment or 1
    start = -(-end // step) * step
    return start, start + section.size


@functools.cache
def c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def protect(base: int, size: int) -> None:
    """Make memory readable and executable, no longer writable."""
    if size and c_library().mprotect(ctypes.c_void_p(base), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        raise Unknown(f"this system refuses executable memory: {os.strerror(ctypes.get_errno())}")
