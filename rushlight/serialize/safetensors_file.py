"""The safetensors format: a JSON header and the tensors' bytes; no code, and every byte accounted for.

Our own reader, because its errors name the tensor and the byte range, and because nothing may be allocated before the
header is known to fit the file. Written and read files are those of the safetensors library.
"""
import json

import numpy as np

from ..core import dtypes
from ..tensor import Tensor, wrap
from .source import shown

HEADER_LIMIT = 100_000_000
NAMES = {"BOOL": dtypes.bool, "U8": dtypes.uint8, "I8": dtypes.int8, "I16": dtypes.int16, "U16": dtypes.uint16, "F16": dtypes.float16,
         "BF16": dtypes.bfloat16, "I32": dtypes.int32, "U32": dtypes.uint32, "F32": dtypes.float32, "F64": dtypes.float64,
         "I64": dtypes.int64, "U64": dtypes.uint64, "C64": dtypes.complex64}
BY_DTYPE = {dtype: name for name, dtype in NAMES.items()}
DAMAGED = "the file is damaged or was made to harm: get it again from where it came"
NEST = 8  # a header nests three deep; much more would only exhaust the JSON parser


def write_safetensors(tensors, stream, where, metadata=None):
    """Write a dict of tensors by name. TypeError for anything else; the same tensors give the same bytes."""
    if not isinstance(tensors, dict):
        raise TypeError(f"{where}: a .safetensors file holds a dict of tensors by name, got {type(tensors).__name__}. Save "
                        "model.state_dict(), or use a name that ends in .pt")
    for name, tensor in tensors.items():
        if type(name) is not str:
            raise TypeError(f"{where}: tensor names are text, got {name!r}")
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{where}: a .safetensors file holds only tensors, got {type(tensor).__name__} for '{shown(name)}'. Use a "
                            "name that ends in .pt to save other data too")
        if tensor._dtype not in BY_DTYPE:
            raise TypeError(f"{where}: safetensors has no {tensor._dtype}, the dtype of '{shown(name)}'. Use a name that ends in .pt")
    header = {"__metadata__": {"format": "pt"} if metadata is None else metadata}
    # the widest elements first, so that every tensor is aligned
    order = sorted(tensors, key=lambda name: (-tensors[name]._dtype.itemsize, name))
    at = 0
    for name in order:
        tensor = tensors[name]
        header[name] = {"dtype": BY_DTYPE[tensor._dtype], "shape": list(tensor._array.shape), "data_offsets": [at, at + tensor._array.nbytes]}
        at += tensor._array.nbytes
    header = {name: header[name] for name in ("__metadata__", *tensors)}  # read back in the dict's own order
    raw = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    raw += b" " * (-len(raw) % 8)
    stream.write(len(raw).to_bytes(8, "little") + raw)
    for name in order:
        array = np.ascontiguousarray(tensors[name]._array)
        if array.nbytes:
            stream.write(memoryview(array.reshape(-1).view(np.uint8)))


def read_safetensors(source):
    """The tensors of a safetensors file by name, in the header's order."""
    start, header = read_header(source)
    entries = {}
    for name, entry in header.items():
        if name == "__metadata__":
            check_metadata(source, entry)
        else:
            entries[name] = check_entry(source, name, entry)
    check_layout(source, start, entries)
    tensors = {}
    for name, (dtype, shape, first, last) in entries.items():
        if first == last:
            array = np.empty(shape, dtype.numpy)
        else:
            array = source.array(start + first, last - first, f"tensor '{shown(name)}'").view(dtype.numpy).reshape(shape)
            if dtype is dtypes.bool and (array.view(np.uint8) > 1).any():
                raise source.error(f"tensor '{shown(name)}' is bool: expected bytes 0 and 1, got others", DAMAGED)
        tensors[name] = wrap(array, dtype)
    return tensors


def read_header(source):
    """Where the data starts, and the header as a dict; FormatError when it is not one."""
    if source.size < 8:
        raise source.error(f"ends in the header's length: expected 8 bytes, got {source.size}", "a partial download or copy? get the "
                           "file again")
    length = int.from_bytes(source.read(0, 8), "little")
    if length > HEADER_LIMIT or length > source.size - 8:
        raise source.error(f"header says {length} bytes, file has {source.size}: expected a header of at most "
                           f"{min(HEADER_LIMIT, source.size - 8)}", "not a safetensors file, or a partial download")
    raw = source.read(8, length, "the header")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise source.error(f"header is not UTF-8: byte {8 + problem.start} is {raw[problem.start]:#04x}", DAMAGED) from None
    if not text.startswith("{"):
        raise source.error(f"header starts with {shown(text[:10])!r}: expected '{{'", "not a safetensors file")
    check_nesting(source, raw)
    try:
        header = json.loads(text, object_pairs_hook=lambda pairs: unique(source, pairs), parse_constant=lambda name: refuse_number(source, name),
                            parse_int=lambda digits: parse_int(source, digits))
    except json.JSONDecodeError as problem:
        raise source.error(f"header is not JSON: {problem.msg} at byte {8 + problem.pos}", DAMAGED) from None
    if type(header) is not dict:
        raise source.error("header: expected one JSON object", DAMAGED)
    return 8 + length, header


def check_nesting(source, raw):
    """Refuse deep nesting before the parser recurses into it."""
    array = np.frombuffer(raw, np.uint8)
    opens = (array == 0x7B) | (array == 0x5B)
    closes = (array == 0x7D) | (array == 0x5D)
    depth = np.cumsum(opens.astype(np.int8) - closes.astype(np.int8), dtype=np.int64)
    if depth.size and depth.max() > NEST + np.count_nonzero(array == 0x22):  # brackets within names are no nesting
        raise source.error(f"header nests {int(depth.max())} deep: expected {NEST} at most, at byte {8 + int(depth.argmax())}", DAMAGED)
    if depth.size and depth.max() > 500:
        raise source.error(f"header has {int(depth.max())} open brackets at byte {8 + int(depth.argmax())}: expected a flat one", DAMAGED)


def unique(source, pairs):
    """A dict of the pairs; an error for a key that comes twice."""
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise source.error(f"header has the key '{shown(twice)}' twice", DAMAGED)
    return result


def refuse_number(source, name):
    raise source.error(f"header has the number {name}", DAMAGED)


def parse_int(source, digits):
    if len(digits) > 20:
        raise source.error(f"header has a number of {len(digits)} digits", DAMAGED)
    return int(digits)


def check_metadata(source, entry):
    """Text by text, nothing else."""
    if type(entry) is not dict or any(type(value) is not str for value in entry.values()):
        raise source.error("__metadata__: expected text for every key", DAMAGED)


def check_entry(source, name, entry):
    """Dtype, shape and byte range of one tensor, each in its bounds."""
    what = f"tensor '{shown(name)}'"
    if type(entry) is not dict or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise source.error(f"{what}: expected dtype, shape and data_offsets", DAMAGED)
    dtype = NAMES.get(entry["dtype"]) if type(entry["dtype"]) is str else None
    if dtype is None:
        raise source.error(f"{what}: unknown dtype {shown(str(entry['dtype']))!r}, expected one of {', '.join(NAMES)}",
                           "convert it to one of these with the program that wrote it")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if type(shape) is not list or len(shape) > 64 or any(type(size) is not int or size < 0 for size in shape):
        raise source.error(f"{what}: shape {shown(str(shape))}: expected at most 64 ints from 0", DAMAGED)
    if type(offsets) is not list or len(offsets) != 2 or any(type(at) is not int or at < 0 for at in offsets):
        raise source.error(f"{what}: data_offsets {shown(str(offsets))}: expected two ints from 0", DAMAGED)
    needed, extent = dtype.itemsize, dtype.itemsize
    for size in shape:
        needed *= size
        extent *= max(size, 1)  # [0, 2**62] overflows too, though it holds nothing
    if extent >= 1 << 63:
        raise source.error(f"{what}: shape {shown(str(shape))} overflows 63 bits", DAMAGED)
    first, last = offsets
    if last - first != needed:
        raise source.error(f"{what}: shape {shown(str(shape))} of {dtype} needs {needed} bytes, data_offsets give {last - first}", DAMAGED)
    return dtype, shape, first, last


def check_layout(source, start, entries):
    """The tensors fill the rest of the file: no overlap, no hole, nothing after them."""
    end, previous, have = 0, "the header", source.size - start
    for name, (_, _, first, last) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if first < end:
            raise source.error(f"tensors '{shown(previous)}' and '{shown(name)}' overlap at bytes {first} to {end}", DAMAGED)
        if first > end:
            raise source.error(f"a hole of {first - end} bytes before tensor '{shown(name)}', bytes {end} to {first}", DAMAGED)
        if last > have:
            raise source.error(f"ends in tensor '{shown(name)}': expected {last} bytes of data, {last - have} bytes missing",
                               "partial download? get the file again")
        end, previous = last, name
    if end != have:
        raise source.error(f"{have - end} bytes after the last tensor: expected the file to end at byte {start + end}, it has "
                           f"{source.size}", DAMAGED)
