"""A graph as an object file with one plain C function: no Python, no threads, no allocation, nothing to link with but memcpy and its like.

The kernels are those of any program; only the entry differs: it takes pointers, calls every step in turn on the caller's thread, and keeps
temporaries in memory that the caller gives.  Values that are known (weights) are constants of the object.  Read `standalone` first.
"""

import struct
from typing import Any, NamedTuple

import numpy as np

from . import llvm
from .arrays import Array, Source
from .ir import Type, Value
from .lower import Lowering, buffers_used
from .make import Unsupported
from .program import Layout, arena_layout, arrange, numpy_dtype

CALLED = frozenset(("memcpy", "memset", "memmove"))  # what every C library, and a compiler without one, has
C_TYPES = {"float32": "float", "float64": "double", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t", "bool": "uint8_t",
           "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t", "float16": "uint16_t", "bfloat16": "uint16_t"}


class Argument(NamedTuple):
    """One pointer that the function takes."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def c(self) -> str:
        return C_TYPES[self.dtype]


class Standalone(NamedTuple):
    """An object file's content and how its function is called."""

    image: bytes
    inputs: list[Argument]
    outputs: list[Argument]
    workspace: int  # bytes, aligned to 64


def standalone(module: Any, examples: list[Any], known: dict[int, np.ndarray], name: str) -> Standalone:
    """The object of `int64_t name(inputs..., outputs..., workspace)`; `known` has the values of the placeholders that are no inputs.

    All arrays are dense, of the examples' shapes.  Raises `Unsupported` naming the first node that is no native code.
    """
    lowering = Lowering(module, examples)
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node in module.graph.nodes:
        if node.op.startswith("call") and node not in lowering.native and node not in lowering.constants:
            raise Unsupported(f"{node.name}: {lowering.reasons.get(node.name, 'it is not native code')}")
        if node.op.startswith("call") and node.is_impure():
            raise Unsupported(f"{node.name} writes in place")
    if len(lowering.segments) > 1:
        raise Unsupported("more than one program")
    segment = lowering.segment(0)
    arrays, outputs = [], []
    for at, node in enumerate(module.graph.output_node().args[0]):
        value = segment.values.get(node, segment.inputs.get(node)) if not isinstance(node, (int, float, str, type(None))) else None
        if value is None and node in placeholders:
            value = lowering.read(node, segment, 0)
        if not isinstance(value, Array):
            raise Unsupported(f"output {at}, which is no tensor that is computed")
        arrays.append(value)
        outputs.append(Argument(f"out{at}", value.dtype, value.shape))
    made = arrange(list(dict.fromkeys(arrays)))
    places = [list(dict.fromkeys(arrays)).index(array) for array in arrays]
    used = buffers_used(made.outputs)
    sources = {source.buffer: node for node, source in segment.inputs.items() if source.buffer in used}
    inputs = [Argument(node.name, lowering.known[node].dtype, lowering.known[node].shape)
              for at, node in enumerate(placeholders) if at not in known and lowering.known.get(node) is not None]
    held = {buffer: known[placeholders.index(node)] for buffer, node in sources.items() if placeholders.index(node) in known}
    given = {buffer: node.name for buffer, node in sources.items() if buffer not in held}
    for node, source in segment.inputs.items():
        if source.buffer in given and source.strides != dense(source):
            raise Unsupported(f"{node.name}, whose example is not dense")
    write_c_entry(made, name, inputs, outputs, places, given, held)
    text = str(made.module)
    llvm.lint(text)
    image = llvm.engine().machine.emit_object(llvm.optimise(text))
    strange = undefined(image) - CALLED
    if strange:
        raise Unsupported(f"the function {sorted(strange)[0]} of the C library")
    return Standalone(image, inputs, outputs, -(-arena_layout(made.spans)[1] // 64) * 64)


def dense(source: Source) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(source.shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def write_c_entry(made: Layout, name: str, inputs: list[Argument], outputs: list[Argument], places: list[int], given: dict[str, str],
                  held: dict[str, np.ndarray]) -> None:
    """`i64 name(ptr inputs..., ptr outputs..., ptr workspace)`: 0, or -2 when an index was out of range."""
    module, pointer, i64 = made.module, Type("ptr"), Type("i64")
    for function in module.functions.values():
        function.linkage = "internal"
    f = module.function(name, "i64", [(f"o{i}", pointer) for i in range(len(inputs) + len(outputs))] + [("workspace", pointer)], "nounwind")
    by_name = {argument.name: parameter for argument, parameter in zip(inputs, f.parameters)}
    address: dict[str, Value] = {buffer: by_name[argument] for buffer, argument in given.items()}
    results = f.parameters[len(inputs):len(inputs) + len(outputs)]
    for at, place in enumerate(places):
        address.setdefault(f"out{place}", results[at])
    for buffer, array in held.items():
        content = array.tobytes()
        symbol = f"held_{buffer}"
        body = "".join(f"\\{byte:02X}" for byte in content)
        module.globals[symbol] = f'@{symbol} = internal unnamed_addr constant [{len(content)} x i8] c"{body}", align 64'
        address[buffer] = Value(f, f"@{symbol}", pointer)
    for buffer, offset in arena_layout(made.spans)[0].items():
        address[buffer] = f.address(f.parameters[-1], f.i64(offset), "i8")
    faults = any("fault" in step.buffers for step in made.steps)
    if faults:
        address["fault"] = f.alloca(i64, 1, 8)
        f.store(f.i64(0), address["fault"], 8)
    frame = f.alloca(pointer, max([len(step.buffers) for step in made.steps], default=0) + 1, 16)
    for step in made.steps:
        for at, buffer in enumerate(step.buffers):
            base, offset = buffer if isinstance(buffer, tuple) else (buffer, 0)
            there = f.address(address[base], f.i64(offset), "i8")
            f.store(there, f.address(frame, f.i64(at), "ptr"), 8)
        f.do(f"call void @{step.function}({frame}, i64 0, i64 {step.items})")
    for at, place in enumerate(places):  # a value that is returned twice is copied
        if address[f"out{place}"] is not results[at]:
            size = int(np.prod(outputs[at].shape, dtype=np.int64)) * numpy_dtype(outputs[at].dtype).itemsize
            module.declare("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
            f.do(f"call void @llvm.memcpy.p0.p0.i64({results[at]}, {address[f'out{place}']}, i64 {size}, i1 false)")
    if faults:
        f.ret(f.load(i64, address["fault"], 8).differs(0).select(f.i64(-2), f.i64(0)))
    else:
        f.ret(f.i64(0))


def undefined(image: bytes) -> set[str]:
    """The symbols that an ELF64 object needs from elsewhere; of another format nothing is known, and nothing said."""
    if image[:5] != b"\x7fELF\x02":
        return set()
    table, = struct.unpack_from("<Q", image, 40)
    size, count = struct.unpack_from("<HH", image, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, table + at * size) for at in range(count)]
    found = set()
    for section in sections:
        if section[1] != 2:  # SHT_SYMTAB
            continue
        names = sections[section[6]]
        for start in range(section[4], section[4] + section[5], 24):
            name, _, _, index = struct.unpack_from("<IBBH", image, start)
            if index == 0 and name:
                at = names[4] + name
                found.add(image[at:image.index(b"\0", at)].decode())
    return found
