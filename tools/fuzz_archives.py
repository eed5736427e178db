"""Mutated export archives: each must be refused with FormatError, or load and compute what it says; never crash, hang or grow.

    python tools/fuzz_archives.py [count] [seed] [program | native | package | script | trace]

Kinds of archives: a `program`; with `native` the same with native code, loaded with `native=True`; a `package` of two entry points that
share their state, one of them a training step; a `script`, which is loaded and not run, since a changed loop may have no end; a `trace`.
Bit flips, truncations, spliced bytes, renamed and repeated members, oversized headers, and edits of the JSON behind a right checksum. The
count defaults to 10,000; tests/export/test_archive.py runs a few hundred.
"""
import io
import json
import random
import resource
import struct
import sys
import time
import warnings
import zlib

import rushlight as torch
from rushlight.core.errors import FormatError
from rushlight.export.archive import PROGRAM, WEIGHTS
from rushlight.export.jit_archive import SCRIPT
from rushlight.export.native import MACHINE
from rushlight.serialize.source import Source
from rushlight.serialize.zip_read import Archive
from rushlight.serialize.zip_write import write_archive

BAD_VALUES = [None, True, -1, 2**62, 10**19, 1.5, "", "x", "__class__", "../../etc/passwd", "torch.load", "op.__import__", "os.system", [], {}, [[[[]]]],
              {"node": "nothing"}, {"tuple": 3}, {"dtype": "object"}, {"device": "cuda:0"}, {"float": "1"}, ["s0", 0, 0], "\u202e", "a\0b"]


class Net(torch.nn.Module):
    """A program with state, a free size, a branch and every kind of argument."""

    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 2)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x, options, scale=1.5):
        self.seen += 1
        y = torch.cond(x.sum() > 0, lambda t: self.lin(t), lambda t: self.lin(t) * -1, (x,))
        return {"y": torch.cat([y, y[:, 1:]], dim=1).to(torch.float64) * scale, "n": x.shape[0], "k": options["k"] + self.seen}


def archive(native: bool = False) -> bytes:
    """A small archive with something of everything."""
    torch.manual_seed(0)
    example = torch.ones(4, 3), {"k": torch.tensor(2)}
    program = torch.export.export(Net(), example, dynamic_shapes={"x": {0: torch.export.Dim("b", min=2, max=64)}, "options": {"k": None}})
    file = io.BytesIO()
    torch.export.save(program, file, extra_files={"note.txt": "hello"}, aot=native)
    return file.getvalue()


def package_archive() -> bytes:
    """Several entry points with one state: forward, and a training step."""
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)

    def train_step(x, y):
        optimizer.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    x, y = torch.ones(4, 3), torch.ones(4, 2)
    file = io.BytesIO()
    torch.export.save(torch.export.export({"forward": net, "train_step": train_step}, {"forward": (x,), "train_step": (x, y)}), file)
    return file.getvalue()


class Script(torch.nn.Module):
    """A script with every kind of statement."""

    def __init__(self):
        super().__init__()
        self.lin, self.count = torch.nn.Linear(3, 2), 0

    def forward(self, x, names: dict[str, int], scale: float = 1.5):
        self.count += 1
        found = [index * 2 for index in range(3) if index > 0]
        for at, (name, number) in enumerate(names.items()):
            if isinstance(name, str) and number >= -1:
                found.append(number)
            else:
                break
        while len(found) > 4:
            del found[0]
        with torch.no_grad():
            x[0, 1:] = x[0, :-1] * scale if at else -x[0, 1:]
        assert x.dim() == 2, f"{x.shape!r} {scale:.2f}"
        y = self.lin(x)
        y += 1
        return y, {"n": found[-1]}, "{}".format(at)  # noqa: UP032


def script_archive() -> bytes:
    """A saved script."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(Script()), file)
    return file.getvalue()


def trace_archive() -> bytes:
    """A saved trace."""
    torch.manual_seed(0)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).eval(), torch.ones(4, 3)), file)
    return file.getvalue()


DAMAGE = ("flip", "cut", "splice", "zero", "header")
KINDS = {"program": archive, "native": lambda: archive(True), "package": package_archive, "script": script_archive, "trace": trace_archive}


def records_of(data: bytes) -> list:
    with Source(io.BytesIO(data)) as source:
        found = Archive(source)
        return [(name, found.read(name)) for name in found.records]


def packed(records: list) -> bytes:
    file = io.BytesIO()
    write_archive(file, records)
    return file.getvalue()


def places(value, path=()):
    """Every place of a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def changed(value, rng):
    """The value with one place replaced, removed, repeated or swapped."""
    value = json.loads(json.dumps(value))
    path = rng.choice([path for path in places(value) if path])
    owner = value
    for key in path[:-1]:
        owner = owner[key]
    how = rng.randrange(5)
    if how == 0:
        owner[path[-1]] = rng.choice(BAD_VALUES)
    elif how == 1:
        del owner[path[-1]]
    elif how == 2 and isinstance(owner, list):
        owner.insert(rng.randrange(len(owner) + 1), owner[path[-1]])
    elif how == 3 and isinstance(owner[path[-1]], (int, float)) and not isinstance(owner[path[-1]], bool):
        owner[path[-1]] = rng.choice([owner[path[-1]] + 1, -owner[path[-1]], 2**40, 0])
    else:
        other = value
        for key in rng.choice(list(places(value))):
            other = other[key]
        owner[path[-1]] = json.loads(json.dumps(other))
    return value


def mutate(data: bytes, records: list, rng) -> tuple[str, bytes]:
    """One mutated archive and what was done."""
    kind = rng.choice(["flip", "flip", "cut", "splice", "zero", "rename", "repeat", "drop", "header", "json", "json", "json", "json", "text", "grow", "weights"])
    array = bytearray(data)
    if kind == "flip":
        for _ in range(rng.choice([1, 1, 2, 8])):
            array[rng.randrange(len(array))] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        array = array[:rng.randrange(len(array))]
    elif kind == "splice":
        at, size = rng.randrange(len(array)), rng.randrange(1, 64)
        array[at:at + size] = bytes(rng.randrange(256) for _ in range(rng.randrange(64)))
    elif kind == "zero":
        at = rng.randrange(len(array))
        array[at:at + rng.randrange(1, 200)] = bytes(rng.randrange(1, 200))
    elif kind == "rename":
        name = rng.choice([name.encode() for name, _ in records])
        new = rng.choice([b"../../../../x", b"/etc/passwd", b"extra/../p", b"program.json", b"models/a", b"\xff\xfe"])[:len(name)].ljust(len(name), b"_")
        array = bytearray(bytes(array).replace(name, new, rng.choice([1, 2])))
    elif kind == "header":
        at = bytes(array).rfind(b"PK\x01\x02" if rng.random() < 0.5 else b"PK\x05\x06")
        field = rng.choice([8, 10, 12, 20, 24, 28, 30, 42]) if at >= 0 else 0
        struct.pack_into("<H" if rng.random() < 0.5 else "<I", array, min(at + field, len(array) - 4), rng.choice([0, 1, 0xFFFF, 0x7FFF]))
    else:
        records = list(records)
        if kind == "repeat":
            records.append(rng.choice(records))
        elif kind == "drop":
            del records[rng.randrange(len(records))]
        elif kind == "json":
            member = SCRIPT if SCRIPT in dict(records) else MACHINE if MACHINE in dict(records) and rng.random() < 0.5 else PROGRAM
            value = json.loads(dict(records)[member])
            for _ in range(rng.choice([1, 1, 1, 3])):
                value = changed(value, rng)
            raw = json.dumps(value).encode("utf-8", "surrogatepass")
            records = [(name, raw if name == member else content) for name, content in records]
        elif kind == "text":
            raw = rng.choice([b"[" * 100000, b"{" * 5000, b"null", b"{}", b'{"format":"rushlight-export","version":[9,0]}', b"\xff", b"1" * 5000, b"NaN",
                              b'{"format":"rushlight-export","version":[1,0],"tensors":{},"entries":{},"aliases":{}}'])
            records = [(name, raw if name in (PROGRAM, SCRIPT) else content) for name, content in records]
        elif kind == "grow":
            content = b"\0" * (1 << 20)
            machine = zlib.compressobj(9, zlib.DEFLATED, -15)
            machine.compress(content)
            records.append(("extra/big", content[:rng.randrange(1 << 20)]))
        elif kind == "weights":
            raw = bytearray(dict(records)[WEIGHTS])
            how = rng.randrange(3)
            if how == 0:
                struct.pack_into("<Q", raw, 0, rng.choice([0, 2**63, 10**9, len(raw), 7]))
            elif how == 1:
                length = int.from_bytes(raw[:8], "little")
                header = changed(json.loads(raw[8:8 + length]), rng)
                text = json.dumps(header).encode("utf-8", "surrogatepass")
                raw = bytearray(len(text).to_bytes(8, "little") + text + raw[8 + length:])
            else:
                raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
            records = [(name, bytes(raw) if name == WEIGHTS else content) for name, content in records]
        array = bytearray(packed(records))
    return kind, bytes(array)


def attempt(data: bytes, kind: str = "program", results: list | None = None) -> str:
    """`refused` or `loaded`; anything but FormatError is an error of ours. A loaded program is also run, a script is not.

    `results` takes what it gives.
    """
    results = [] if results is None else results
    load = torch.jit.load if kind in ("script", "trace") else lambda file: torch.export.load(file, native=kind == "native")
    try:
        program = load(io.BytesIO(data))
    except FormatError:
        return "refused"
    if kind == "script":
        return "loaded"
    x, options, y = torch.ones(4, 3), {"k": torch.tensor(2)}, torch.ones(4, 2)
    try:
        if isinstance(program, torch.export.Package):
            for name, entry in program.programs.items():
                results.append(entry(x, y) if name == "train_step" else entry(x))
        else:
            results.append(program(x) if kind == "trace" else program(x, options))
    except (RecursionError, MemoryError, SystemError):
        raise
    except Exception:  # a changed program may be wrong in any ordinary way when it runs
        return "loaded, raises"
    return "loaded"


def main(count: int = 10000, seed: int = 0, kind: str = "program") -> dict:
    """Run `count` mutations of an archive of one kind; the number of each outcome by mutation."""
    rng, data = random.Random(seed), KINDS[kind]()
    records, found, slowest = records_of(data), {}, 0.0
    right: list = []
    assert attempt(data, kind, right) == "loaded"
    for number in range(count):
        how, mutated = mutate(data, records, rng)
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results: list = []
                outcome = attempt(mutated, kind, results)
                # Damage to the bytes is found, or was where nothing is read; an edit behind a right checksum may mean something else.
                assert outcome == "refused" or how not in DAMAGE or repr(results) == repr(right), "loaded, but computes something else"
        except BaseException as error:
            raise AssertionError(f"mutation {number} ({how}, {kind}, seed {seed}): {type(error).__name__}: {error}") from error
        slowest = max(slowest, time.perf_counter() - start)
        found[how, outcome] = found.get((how, outcome), 0) + 1
    found["slowest, s"] = round(slowest, 3)
    return found


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    for outcome, number in sorted(main(*map(int, sys.argv[1:3]), *sys.argv[3:4]).items(), key=str):
        print(outcome, number)
