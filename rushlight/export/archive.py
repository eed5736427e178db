"""`save` and `load` of exported programs: one zip with a JSON description and safetensors weights; the same program, the same bytes.

Reading trusts nothing: the zip's directory, the JSON's depth and size, every node and every tensor are checked before
use, and a graph may call ops only.  `load` needs neither nn nor capture.  docs/format.md describes the file.
"""

import importlib
import io
import json
import os
import re
from collections.abc import Sequence
from typing import Any

from ..core.errors import FormatError
from ..serialize.atomic import replace
from ..serialize.safetensors_file import read_safetensors, unique, write_safetensors
from ..serialize.source import Source, shown
from ..serialize.zip_read import Archive
from ..serialize.zip_write import write_archive
from ..tensor import Parameter, Tensor
from .encode import QUALIFIED, Malformed, decode_examples, decode_program, encode_program, need
from .graph_signature import InputKind
from .program import ExportedProgram

FORMAT, VERSION = "rushlight-export", [1, 1]
PROGRAM, WEIGHTS, EXAMPLES, EXTRA = "program.json", "weights.safetensors", "examples.safetensors", "extra/"
NATIVE = re.compile(r"native/(machine\.json|[0-9a-f]{40}\.o)\Z")
LARGEST = 64 << 20  # bytes of JSON
DEEPEST = 200  # brackets open at once
TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
DAMAGED = "the file is damaged or was made to harm: get it again from where it came"


def save(ep: Any, f: Any, *, extra_files: dict | None = None, opset_version: dict | None = None, pickle_protocol: int = 2,
         aot: bool | Sequence | dict = False) -> None:
    """Save a program to a path or a binary file object; a path is replaced in one step.

    Args:
        ep: what `export` returned.
        f: a path (conventionally ending in .pt2) or a file object opened for writing bytes.
        extra_files: name -> text or bytes to keep beside the program.
        aot: put native code for this machine into the file, for sizes as in the example inputs; a list of more inputs (tuples; for
            several entry points a dict of such lists) compiles for their sizes too. `load(f, native=True)` uses it.

    >>> import rushlight as torch, io
    >>> file = io.BytesIO()
    >>> torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.zeros(2),)), file)
    >>> _ = file.seek(0)
    >>> torch.export.load(file)(torch.tensor([-1.0, 1.0]))
    tensor([0., 1.])
    """
    if not isinstance(ep, (ExportedProgram, Package)):
        raise TypeError(f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead.")
    programs = ep.programs if isinstance(ep, Package) else {"forward": ep}
    records = pack(programs, extra_files or {})
    if aot is not False:
        records += native_part().records(programs, aot)
    if isinstance(f, (str, os.PathLike)):
        replace(f, lambda stream: write_archive(stream, records))
    else:
        write_archive(f, records)


def native_part() -> Any:
    """The part that knows machine code, loaded when it is asked for: a program runs without the compiler."""
    return importlib.import_module(".native", __package__)


def pack(programs: dict[str, Any], extra: dict) -> list[tuple]:
    """The records of an archive of programs that share one state."""
    tensors: dict[str, Tensor] = {}
    described: dict[str, dict] = {}
    aliases: dict[str, str] = {}
    examples: dict[str, Tensor] = {}
    for program in programs.values():
        aliases.update(program.aliases)
        for table, prefix in ((program.state, "state."), (program._constants, "constant.")):
            for name, tensor in table.items():
                key = prefix + name
                need(QUALIFIED.match(name), f"a name of a tensor without control characters, not {name!r}")
                if key not in tensors:
                    tensors[key] = tensor.detach()
                    described[key] = {"requires_grad": bool(tensor.requires_grad), "parameter": isinstance(tensor, Parameter)}
    text = {"format": FORMAT, "version": VERSION, "tensors": described, "aliases": aliases,
            "entries": {name: encode_program(program, name, examples) for name, program in programs.items()}}
    weights = io.BytesIO()
    write_safetensors(tensors, weights, "export.save")
    raw = json.dumps(text, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode("utf-8", "surrogatepass")
    records = [(PROGRAM, raw), (WEIGHTS, weights.getbuffer())]
    if examples:
        inputs = io.BytesIO()
        write_safetensors(examples, inputs, "export.save")
        records.append((EXAMPLES, inputs.getvalue()))
    for name, content in sorted(extra.items()):
        records.append((EXTRA + name, content.encode() if isinstance(content, str) else content))
    return records


def load(f: Any, *, extra_files: dict | None = None, expected_opset_version: dict | None = None, native: bool = False) -> Any:
    """Load a program that `save` wrote, from a path or a binary file object. No code of the file is run unless `native` is given.

    Args:
        f: a path or a file object.
        extra_files: a dict whose keys name extra files; their contents are put into it.
        native: run the program as native code: the file's own, from `save(aot=True)`, where it was made for exactly this machine, else
            compiled here. Results then carry no gradient. The file's machine code can do whatever this process may: give
            `native=True` for files that you trust as you trust a program.

    Returns an `ExportedProgram`, which can be called; or, of a file with several entry points, their `Package`.
    Raises FormatError, whose text starts with the path, for a file that is damaged, hostile, newer, or something else.
    """
    with Source(f) as source:
        return read(source, extra_files, native=native)


def read(source: Source, extra_files: dict | None, allowed: tuple = (), native: bool = False) -> Any:
    archive = Archive(source)
    names = set(archive.records)
    if PROGRAM not in names or WEIGHTS not in names:
        if any("models/" in name or name.endswith("serialized_exported_program.json") for name in names):
            raise source.error("a program of PyTorch's torch.export", "export the model with rushlight, or to ONNX")
        if any(name.endswith("constants.pkl") for name in names):
            raise source.error("a TorchScript file", "export the model with rushlight.export")
        raise source.error(f"expected the records {PROGRAM} and {WEIGHTS}, got {', '.join(map(shown, sorted(names)[:5])) or 'none'}",
                           "give a file that export.save wrote")
    strange = [name for name in names if name not in (PROGRAM, WEIGHTS, EXAMPLES, *allowed) and not name.startswith(EXTRA) and not NATIVE.match(name)]
    if strange:
        raise source.error(f"unknown record '{shown(strange[0])}'", DAMAGED)
    value = parse(source, archive)
    tensors = tensors_of(source, archive, WEIGHTS)
    examples = tensors_of(source, archive, EXAMPLES) if EXAMPLES in names else {}
    try:
        programs = build(value, tensors, examples)
    except Malformed as problem:
        raise source.error(f"{PROGRAM}: expected {problem}", DAMAGED) from None
    except (TypeError, ValueError, KeyError, AttributeError, IndexError, RecursionError, SyntaxError, OverflowError, RuntimeError) as problem:
        raise source.error(f"{PROGRAM} describes no program ({type(problem).__name__}: {shown(str(problem))})", DAMAGED) from None
    if native:
        adopt_native(source, archive, programs)
    if extra_files is not None:
        for name in extra_files:
            if EXTRA + name in names:
                content = archive.read(EXTRA + name)
                try:
                    extra_files[name] = content.decode()
                except UnicodeDecodeError:
                    extra_files[name] = content
    if list(programs) == ["forward"]:
        return programs["forward"]
    return Package(programs)


def tensors_of(source: Source, archive: Archive, record: str) -> dict[str, Tensor]:
    """The tensors of a record."""
    file = io.BytesIO(archive.read(record))
    file.name = f"{source.name}:{record}"
    with Source(file) as inner:
        return read_safetensors(inner)


def adopt_native(source: Source, archive: Archive, programs: dict) -> None:
    part = native_part()

    def read_object(name: str) -> bytes:
        if name not in archive.records:
            raise source.error(f"the record '{shown(name)}' is missing", DAMAGED)
        return archive.read(name)
    described = parse_json(source, archive, part.MACHINE) if part.MACHINE in archive.records else None
    part.adopt(programs, described, read_object, lambda text: source.error(f"{part.MACHINE} {text}", DAMAGED))


def parse_json(source: Source, archive: Archive, record: str) -> Any:
    """The JSON of a record, its size and depth checked first."""
    if archive.records[record].size > LARGEST:
        raise source.error(f"{record} has {archive.records[record].size} bytes: expected at most {LARGEST}", DAMAGED)
    raw = archive.read(record)
    depth = deepest = 0
    for token in TOKENS.finditer(raw):
        char = raw[token.start()]
        if char in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in b"]}":
            depth -= 1
    if deepest > DEEPEST:
        raise source.error(f"{record} nests {deepest} deep: expected {DEEPEST} at most", DAMAGED)
    try:
        return json.loads(raw.decode("utf-8"), object_pairs_hook=lambda pairs: unique(source, pairs), parse_constant=refuse, parse_int=whole)
    except (UnicodeDecodeError, json.JSONDecodeError, ValueError, RecursionError) as problem:
        if isinstance(problem, FormatError):
            raise
        raise source.error(f"{record} is not JSON: {shown(str(problem))}", DAMAGED) from None


def parse(source: Source, archive: Archive) -> dict:
    """The description of the programs, of a version that is known."""
    value = parse_json(source, archive, PROGRAM)
    if type(value) is not dict or value.get("format") != FORMAT:
        raise source.error(f"{PROGRAM} is not of the format {FORMAT}", "give a file that export.save wrote")
    version = value.get("version")
    if type(version) is not list or len(version) != 2 or any(type(part) is not int for part in version):
        raise source.error(f"{PROGRAM} has no version", DAMAGED)
    if version[0] != VERSION[0]:
        raise source.error(f"made with format {version[0]}.{version[1]}, this release reads {VERSION[0]}.x", "update rushlight, or save the program anew")
    return value


def refuse(name: str) -> Any:
    raise ValueError(f"the number {name}")


def whole(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def build(value: dict, raw: dict[str, Tensor], examples: dict[str, Tensor]) -> dict[str, ExportedProgram]:
    """The programs over one state."""
    described, aliases, entries = value.get("tensors"), value.get("aliases"), value.get("entries")
    need(type(described) is dict and set(described) == set(raw), "a description for every tensor")
    need(type(entries) is dict and entries and all(name.isidentifier() for name in entries), "entries with names")
    tensors: dict[tuple, Tensor] = {}
    for key, item in described.items():
        need(type(item) is dict and set(item) == {"requires_grad", "parameter"} and all(type(flag) is bool for flag in item.values()), f"flags of {shown(key)!r}")
        prefix, _, name = key.partition(".")
        need(prefix in ("state", "constant") and QUALIFIED.match(name), f"a tensor's name, not {shown(key)!r}")
        tensor = raw[key]
        if item["parameter"]:
            tensor = Parameter(tensor, item["requires_grad"])
        elif item["requires_grad"]:
            tensor = tensor.requires_grad_()
        tensors[prefix == "constant", name] = tensor
    state = {name: tensor for (constant, name), tensor in tensors.items() if not constant}
    constants = {name: tensor for (constant, name), tensor in tensors.items() if constant}
    need(type(aliases) is dict and all(type(first) is str and first in state and QUALIFIED.match(name) for name, first in aliases.items()), "aliases of parameters")
    programs = {}
    for name, item in entries.items():
        module, signature, checks, out_spec = decode_program(item, tensors)
        for spec in signature.input_specs:
            if spec.kind is InputKind.PARAMETER:
                need(isinstance(state[spec.target], Parameter), f"a parameter {shown(spec.target)!r}")
        used = {spec.target for spec in signature.input_specs if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER)}
        mine = {key: tensor for key, tensor in state.items() if key in used}
        given = decode_examples(item["examples"], examples) if "examples" in item else None
        need(given is None or type(given) is tuple and len(given) == 2 and type(given[0]) is tuple and type(given[1]) is dict, "example inputs")
        programs[name] = ExportedProgram(module, signature, mine, constants, checks, out_spec, given, modules=item.get("modules", []),
                                         names={alias: first for alias, first in aliases.items() if first in used})
    return programs


class Package:
    """Several programs over one state: `package.name(...)` runs one, and what it writes to the state the others see."""

    def __init__(self, programs: dict[str, ExportedProgram]):
        self.programs = programs

    def __getattr__(self, name: str) -> ExportedProgram:
        programs = self.__dict__.get("programs", {})
        if name not in programs:
            raise AttributeError(f"this package has the entry points {', '.join(programs)}; got {name!r}")
        return programs[name]

    def __getitem__(self, name: str) -> ExportedProgram:
        return getattr(self, name)

    def __iter__(self) -> Any:
        return iter(self.programs)

    def __len__(self) -> int:
        return len(self.programs)

    @property
    def state_dict(self) -> dict:
        return {name: value for program in self.programs.values() for name, value in program.state_dict.items()}

    def __repr__(self) -> str:
        return f"Package({', '.join(self.programs)})"


__all__ = ["FormatError", "Package", "load", "save"]
