"""Graphs as one object file with plain C functions: no Python, no threads, no allocation, nothing to link with but memcpy and its like.

The kernels are those of any program; only the entry differs: it takes pointers, calls every step in turn on the caller's thread, and keeps
temporaries in memory that the caller gives.  Values that are known (weights) are constants of the object.  Sizes that stay open are
arguments: see standalone_sizes.py.  Read `standalone` first.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..graph.node import target_name
from . import binding, llvm, objects
from .arrays import Array, Source
from .ir import Function, Module, Type, Value
from .lower import Lowering, buffers_used
from .make import Unsupported
from .program import Layout, arena_layout, arrange, numpy_dtype
from .sizes import Sizes

CALLED = frozenset(("memcpy", "memset", "memmove"))  # what every C library, and a compiler without one, has
C_TYPES = {"float32": "float", "float64": "double", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t", "bool": "uint8_t",
           "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t", "float16": "uint16_t", "bfloat16": "uint16_t"}


class Argument(NamedTuple):
    """One pointer that a function takes."""

    name: str
    dtype: str
    shape: tuple

    @property
    def c(self) -> str:
        return C_TYPES[self.dtype]


class Plan(NamedTuple):
    """What one function computes for one set of sizes, or with some of them open, before it has an entry."""

    made: Layout
    inputs: list[Argument]
    outputs: list[Argument]
    places: list[int]  # of each output among those that are computed
    given: dict[str, str]  # buffer -> input
    held: dict[str, np.ndarray]  # buffer -> weights
    lowering: Lowering


class Standalone(NamedTuple):
    """How a function is called: `sizes` are its leading arguments, and `workspace` its bytes (None: they depend on the sizes)."""

    name: str
    sizes: list[str]
    inputs: list[Argument]
    outputs: list[Argument]
    workspace: int | None


class Object:
    """The object file in the making: modules that are optimised each for itself and linked, with each weight once."""

    def __init__(self) -> None:
        self.context = binding.Context(llvm.engine().library)
        self.whole: binding.Module | None = None
        self.weights: dict[str, bytes] = {}
        self.internal: list[str] = []  # functions that only this object calls

    def held(self, array: np.ndarray) -> str:
        """The symbol of a constant."""
        content = array.tobytes()
        symbol = f"held_{hashlib.sha256(content).hexdigest()[:32]}"
        self.weights[symbol] = content
        return symbol

    def add(self, text: str, checked: bool = True) -> None:
        """One module; `checked`: it calls nothing of other modules."""
        if checked:
            llvm.lint(text)
        used = "\n".join(f"@{symbol} = external constant [{len(content)} x i8], align 64" for symbol, content in self.weights.items() if f"@{symbol}" in text)
        self.merge(llvm.optimise(f"{used}\n{text}", self.context))

    def merge(self, module: binding.Module) -> None:
        if self.whole is None:
            self.whole = module
        else:
            self.whole.link_in(module)

    def image(self) -> bytes:
        for symbol, content in self.weights.items():
            body = "".join(f"\\{byte:02X}" for byte in content)
            self.merge(llvm.optimise(f'@{symbol} = constant [{len(content)} x i8] c"{body}", align 64\n', self.context))
        assert self.whole is not None
        for name in (*self.internal, *self.weights):
            self.whole.hide(name)
        image = llvm.emitted(self.whole)
        strange = objects.undefined(image) - CALLED
        if strange:
            raise Unsupported(f"the function {sorted(strange)[0]} of the C library")
        return image


def standalone(functions: Sequence[Callable[[Object], Standalone]]) -> tuple[bytes, list[Standalone]]:
    """The object with these functions, each written by `fixed` or by `standalone_sizes.sized`.

    Raises `Unsupported` naming the first node that is no native code.
    """
    whole = Object()
    made = [write(whole) for write in functions]
    return whole.image(), made


def fixed(whole: Object, name: str, module: Any, examples: list[Any], known: dict[int, np.ndarray]) -> Standalone:
    """`int64_t name(inputs..., outputs..., workspace)` for dense arrays of the examples' shapes; `known` has the values of other placeholders."""
    plan = planned(module, examples, known, None)
    for function in plan.made.module.functions.values():
        function.linkage = "internal"
    f = plan.made.module.function(name, "i64", [(f"o{i}", Type("ptr")) for i in range(len(plan.inputs) + len(plan.outputs))] + [("workspace", Type("ptr"))], "nounwind")
    offsets, size = arena_layout(plan.made.spans)
    write_steps(f, whole, plan, f.parameters[:-1], f.parameters[-1], {key: f.i64(offset) for key, offset in offsets.items()})
    whole.add(str(plan.made.module))
    return Standalone(name, [], plan.inputs, plan.outputs, -(-size // 64) * 64)


def planned(module: Any, examples: list[Any], known: dict[int, np.ndarray], sizes: Sizes | None) -> Plan:
    """Lower a graph as a whole; with `sizes`, the dims that the placeholders' "open_dims" name are symbols of it."""
    lowering = Lowering(module, examples, sizes)
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node in module.graph.nodes:
        if node.op.startswith("call") and node not in lowering.native and node not in lowering.constants:
            raise Unsupported(f"{node.name}: {lowering.reasons.get(node.name, 'it is not native code')}")
        if node.op.startswith("call") and node.is_impure() and not (node in lowering.native and target_name(node.target) == "dropout"):  # one that is off
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
    made = arrange(list(dict.fromkeys(arrays)), module=Module(anywhere=True))
    places = [list(dict.fromkeys(arrays)).index(array) for array in arrays]
    used = buffers_used(made.outputs)
    sources = {source.buffer: node for node, source in segment.inputs.items() if source.buffer in used}
    inputs = [Argument(node.name, lowering.known[node].dtype, lowering.known[node].shape)
              for at, node in enumerate(placeholders) if at not in known and lowering.known.get(node) is not None]
    held = {buffer: known[placeholders.index(node)] for buffer, node in sources.items() if placeholders.index(node) in known}
    given = {buffer: node.name for buffer, node in sources.items() if buffer not in held}
    for node, source in segment.inputs.items():
        if source.buffer in given and list(map(str, source.strides)) != list(map(str, dense(source))):
            raise Unsupported(f"{node.name}, whose example is not dense")
    return Plan(made, inputs, outputs, places, given, held, lowering)


def dense(source: Source) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(source.shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def write_steps(f: Function, whole: Object, plan: Plan, pointers: Sequence[Value], workspace: Value, offsets: dict[str, Value],
                table: Value | None = None) -> None:
    """The function's body: every step in turn; returns 0, or -2 when an index was out of range."""
    made, pointer, i64 = plan.made, Type("ptr"), Type("i64")
    by_name = {argument.name: parameter for argument, parameter in zip(plan.inputs, pointers)}
    address: dict[str, Value] = {buffer: by_name[argument] for buffer, argument in plan.given.items()}
    results = pointers[len(plan.inputs):]
    for at, place in enumerate(plan.places):
        address.setdefault(f"out{place}", results[at])
    for buffer, array in plan.held.items():
        address[buffer] = Value(f, f"@{whole.held(array)}", pointer)
    for buffer, offset in offsets.items():
        address[buffer] = f.address(workspace, offset, "i8")
    if table is not None:
        address["sizes"] = table
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
        f.do(f"call void @{step.function}({frame}, i64 0, {f.i64(step.items)})")
    for at, place in enumerate(plan.places):  # a value that is returned twice is copied
        if address[f"out{place}"] is not results[at]:
            size: Any = numpy_dtype(plan.outputs[at].dtype).itemsize
            for have in plan.outputs[at].shape:
                size = size * have
            made.module.declare("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
            f.do(f"call void @llvm.memcpy.p0.p0.i64({results[at]}, {address[f'out{place}']}, {f.i64(size)}, i1 false)")
    if faults:
        f.ret(f.load(i64, address["fault"], 8).differs(0).select(f.i64(-2), f.i64(0)))
    else:
        f.ret(f.i64(0))
