"""Exported programs as ONNX models: one rule per op in a table, what has no rule is taken apart into ops that have one.

The onnx package is loaded when `export` is called; it is an optional extra.  Read `Writer.node` first, then a rule.
"""

import importlib
import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import dtypes, modes
from ..core.pytree import tree_flatten, tree_leaves, tree_map
from ..graph import GraphModule, Interpreter, Node
from ..graph.node import RANDOM
from ..ops import full_like, zeros
from ..ops import tensor as as_tensor
from ..recurrent import PACKING
from ..tensor import Tensor
from .checks import evaluate
from .graph_signature import InputKind
from .onnx_apart import APART
from .program import ExportedProgram, call, switch_mode
from .static_function import finished
from .static_graph import UNKNOWN, Graph, NoValue
from .targets import name_of
from .writes import without_writes

OPSET = 20
TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11, "uint16": 4,
         "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16}
RULES: dict[str, Callable] = {}
ROWWISE: dict[str, Any] = {}  # the kind of packed batches and what writes ops on them, set by onnx_recurrent
# Primitives that are a form of another op.
SAME = {"sum_dims": "sum", "mean_dims": "mean", "sum_all": "sum", "mean_all": "mean", "pow_scalar": "pow", "pow_tensor": "pow", "rrelu_fixed": "rrelu",
        "amax_all": "amax", "view": "reshape", "unsafe_view": "reshape", "clamp_numbers": "clamp", "bmm_batch": "bmm", "slice_index": "getitem",
        "length": "sqrt", "squeeze_one": "squeeze", "conv": "convolution", "max_all": "amax", "min_all": "amin", "median_all": "median",
        "nanmedian_all": "nanmedian", "filled": "full_like", "zeroed": "zeros_like", "order": "argsort", "nll_loss2d": "nll_loss", "negative": "neg", "absolute": "abs", "concatenate": "cat"}


# Ops that take a dim, of which a tensor of no dims has none: it is done as a tensor of one element.
OF_ONE = frozenset("softmax log_softmax softmin logsumexp cumsum cumprod cummax cummin logcumsumexp topk sort argsort argmax argmin max min median nanmedian kthvalue gather "
                   "scatter scatter_add scatter_reduce index_select index_add index_copy index_fill index_reduce squeeze transpose swapaxes swapdims flip amax amin sum mean prod any "
                   "all std var nansum movedim norm vector_norm linalg_vector_norm linalg_norm".split())
SPATIAL = re.compile(r"(conv|conv_transpose|max_pool|avg_pool|adaptive_avg_pool|adaptive_max_pool|lp_pool)([123])d")  # they take images without a batch, ONNX does not
TAKE_PACKED = frozenset("pad_packed_sequence pack_padded_sequence lstm gru rnn_tanh rnn_relu".split())


class Value:
    """A value of the ONNX graph: its name, dtype and example shape."""

    __slots__ = ("name", "dtype", "shape")

    def __init__(self, name: str, dtype: Any, shape: tuple):
        self.name, self.dtype, self.shape = name, dtype, shape


def rule(*names: str) -> Callable:
    """Register a rule: (writer, *args, **kwargs) -> Value, with the arguments of the op."""
    def register(function: Callable) -> Callable:
        for name in names:
            RULES[name] = function
        return function
    return register


class Writer:
    """Collects ONNX nodes and initializers."""

    def __init__(self, onnx: Any):
        self.onnx = onnx
        self.nodes: list = []
        self.initializers: dict[str, Any] = {}
        self.count = 0
        self.open: list[str] = []  # the ops that are being taken apart
        self.shapes: dict[Node, tuple] = {}  # of the program's nodes, free sizes as UNKNOWN; empty where no size is free

    # -- making nodes ------------------------------------------------------------------------------------------------

    def emit(self, kind: str, inputs: list, dtype: Any, shape: tuple, outputs: int = 1, **attributes: Any) -> Any:
        """One ONNX node; inputs are Values, names or None."""
        self.count += 1
        names = [f"{kind.lower()}_{self.count}" + (f"_{at}" if outputs > 1 else "") for at in range(outputs)]
        texts = ["" if item is None else item if isinstance(item, str) else item.name for item in inputs]
        while texts and not texts[-1]:  # some runtimes crash on an empty name at the end
            texts.pop()
        self.nodes.append(self.onnx.helper.make_node(kind, texts, names, name=names[0], **attributes))
        values = [Value(name, dtype, shape) for name in names]
        return values[0] if outputs == 1 else values

    def constant(self, value: Any, dtype: Any) -> Value:
        """An initializer."""
        array = np.asarray(value, dtype.numpy)
        self.count += 1
        name = f"constant_{self.count}"
        self.initializers[name] = self.onnx.numpy_helper.from_array(array, name)
        return Value(name, dtype, array.shape)

    def ints(self, values: Any) -> Any:
        """A list of sizes, some of which may be values of the graph, as one int64 tensor."""
        values = list(values) if isinstance(values, (list, tuple)) else [values]
        if self.shapes and any(type(item) is int and item and item % UNKNOWN == 0 for item in values):
            raise Unsupported  # a free size as a number: taken apart, the op reads it when the model runs
        if not any(isinstance(item, Value) for item in values):
            return self.constant(values, dtypes.int64)
        one = self.constant([1], dtypes.int64)
        parts = [self.emit("Reshape", [item, one], dtypes.int64, (1,)) if isinstance(item, Value) else self.constant([item], dtypes.int64) for item in values]
        return self.emit("Concat", parts, dtypes.int64, (len(parts),), axis=0)

    def cast(self, value: Any, dtype: Any) -> Value:
        if dtype.is_complex:
            raise NotImplementedError("onnx.export: complex numbers")
        if not isinstance(value, Value):
            return self.constant(value, dtype)
        return value if value.dtype is dtype else self.emit("Cast", [value], dtype, value.shape, to=TYPES[dtype.name])

    # -- one node of the program -------------------------------------------------------------------------------------

    def node(self, name: str, args: list, kwargs: dict, result: Any, function: Any) -> Any:
        """The value of a call of an op; `result`: example of what it gives."""
        private = name.rpartition(".")[2]
        plain = private.lstrip("_")
        plain = SAME.get(plain, plain)
        found = RULES.get(name) or RULES.get(private) or RULES.get(plain)
        self.result = result
        if plain not in TAKE_PACKED and not (plain == "getitem" and isinstance(args[0], (tuple, list))) and any(
                isinstance(leaf, ROWWISE["kind"]) for leaf in tree_leaves((args, kwargs))):
            return ROWWISE["write"](self, plain, found, args, kwargs)
        first = args[0] if args else None
        if isinstance(first, Value) and not first.shape and plain in OF_ONE and not isinstance(result, (tuple, list)):
            return self.lifted(name, args, kwargs, result, function, lambda value: not value.shape, [])
        spatial = SPATIAL.fullmatch(plain)
        if spatial and isinstance(first, Value) and len(first.shape) == int(spatial[2]) + 1:
            return self.lifted(name, args, kwargs, result, function, lambda value: value is first, None)
        if found is not None:
            try:
                return found(self, *args, **kwargs)
            except (Unsupported, TypeError):  # of such arguments
                pass
        return self.apart(plain, args, kwargs, APART.get(plain, function))

    def lifted(self, name: str, args: list, kwargs: dict, result: Any, function: Any, which: Callable, shape: list | None) -> Any:
        """A call with a dim of size 1 in front of those arguments, and without it in the results; of that `shape`, where it is known."""
        axis = self.ints([0])
        up = lambda leaf: self.emit("Unsqueeze", [leaf, axis], leaf.dtype, (1, *leaf.shape)) if isinstance(leaf, Value) and which(leaf) else leaf  # noqa: E731

        def down(leaf: Any) -> Any:
            if shape is None:
                return self.emit("Squeeze", [leaf, axis], leaf.dtype, tuple(leaf.shape[1:]))
            return self.emit("Reshape", [leaf, self.constant(shape, dtypes.int64)], leaf.dtype, tuple(shape))
        raised = Value("", result.dtype, (1, *result.shape)) if hasattr(result, "shape") else result
        return tree_map(down, self.node(name, tree_map(up, args), tree_map(up, kwargs), raised, function))

    def out(self) -> tuple[Any, tuple]:
        """Dtype and shape of the op's result."""
        return self.result.dtype, tuple(self.result.shape)

    def apart(self, name: str, args: list, kwargs: dict, function: Any) -> Any:
        """Take an op apart into primitives, by running it on values of a static graph."""
        if name in self.open and name not in APART or len(self.open) > 20 or name in RANDOM and name not in APART:
            raise NotImplementedError(f"onnx.export: the op {name}")
        self.open.append(name)
        graph, outer = Graph(), {}

        def stand(value: Any) -> Any:
            if isinstance(value, Value):
                key = f"in_{len(outer)}"
                node = graph.nodes.create_node("placeholder", key, name=key)
                outer[node.name] = value
                graph.unknown = graph.unknown or any(size and size % UNKNOWN == 0 for size in value.shape)
                return graph.wrap(node, np.zeros(value.shape, value.dtype.numpy), value.dtype)
            if isinstance(value, (list, tuple)):
                return type(value)(map(stand, value))
            return value
        with graph.as_default():
            try:
                output = function(*map(stand, args), **{key: stand(value) for key, value in kwargs.items()})
            except NotImplementedError as error:
                raise error if str(error).startswith("onnx.export") else NotImplementedError(f"onnx.export: the op {name}") from None
            except Exception as error:  # it asks for values, which are not there, or finds the zeros in their place odd
                free = " with such free sizes" if graph.unknown else ""
                reason = "" if isinstance(error, NoValue) else f": {error}"
                raise NotImplementedError(f"onnx.export: the op {name}{free}{reason}") from None
        leaves, _ = tree_flatten(output)
        module = finished(graph, [graph.node_of(leaf) for leaf in leaves if isinstance(leaf, Tensor)])
        meta = {node.name: node.meta.get("val") for node in graph.nodes.nodes}
        env: dict = {}
        for node in module.graph.nodes:
            if node.op == "placeholder":
                env[node] = outer[node.target]
            elif node.op == "get_attr":
                tensor = getattr(module, node.target)
                env[node] = self.constant(tensor._array, tensor._dtype)
            elif node.op == "output":
                values = [env[item] for item in node.args[0]]
                self.open.remove(name)
                return values[0] if isinstance(output, Tensor) else type(output)(values)
            else:
                self.call(node, env, meta.get(node.name))
        return None

    def call(self, node: Node, env: dict, example: Any) -> None:
        args = [resolve(item, env) for item in node.args]
        kwargs = {key: resolve(item, env) for key, item in node.kwargs.items()}
        if node.op == "call_method":
            name, function = f"Tensor.{node.target}", getattr(Tensor, node.target)
        else:
            name, function = name_of(node.target), node.target
        if node.target is switch_mode:
            return
        if node in self.shapes and example is not None:
            example = Value(node.name, example.dtype, self.shapes[node])
        if name is None:
            raise NotImplementedError(f"onnx.export: {node.target}")
        env[node] = self.node(name, args, kwargs, example, function)


    # -- graphs inside -----------------------------------------------------------------------------------------------

    def walk(self, module: Any, env: dict) -> list:
        """Write the nodes of a graph, which writes nothing, and whose placeholders have their values; the outputs."""
        for node in module.graph.nodes:
            if node.op == "get_attr":
                env[node] = module.get_submodule(node.target)
            elif node.op == "output":
                result = node.args[0]
                return [resolve(item, env) for item in (result if isinstance(result, (tuple, list)) else [result])]
            elif node.op != "placeholder":
                self.call(node, env, node.meta.get("val"))
        return []

    def inner(self, module: Any, values: list, *more: Callable) -> list:
        """`walk` with the placeholders' values in order; of `more`, functions of the outputs, the results come first."""
        module = without_writes(module, [zeros(value.shape, dtype=value.dtype) if isinstance(value, Value) else value for value in values])
        outputs = self.walk(module, dict(zip((node for node in module.graph.nodes if node.op == "placeholder"), values)))
        return [value for function in more for value in function(outputs)] + outputs

    def body(self, name: str, inputs: list[Value], write: Callable) -> tuple[Any, list]:
        """A graph inside: its nodes are those that `write` makes; and its outputs. It sees the values outside of it."""
        before, self.nodes = self.nodes, []
        values = [self.cast(value, value.dtype) if isinstance(value, Value) else self.constant(value, as_tensor(value)._dtype) for value in write()]
        self.count += 1
        names = [f"{name}_{self.count}_out_{at}" for at in range(len(values))]
        for value, text in zip(values, names):
            self.nodes.append(self.onnx.helper.make_node("Identity", [value.name], [text]))
        info = self.onnx.helper.make_tensor_value_info
        graph = self.onnx.helper.make_graph(
            self.nodes, f"{name}_{self.count}", [info(value.name, TYPES[value.dtype.name], [None] * len(value.shape)) for value in inputs],
            [info(text, TYPES[value.dtype.name], [None] * len(value.shape)) for value, text in zip(values, names)])
        self.nodes = before
        return graph, values


class Unsupported(Exception):
    """This rule does not cover these arguments; the op is taken apart instead."""


def resolve(value: Any, env: dict) -> Any:
    if isinstance(value, Node):
        return env[value]
    if isinstance(value, (list, tuple)):
        return type(value)(resolve(item, env) for item in value)
    if type(value) is slice:
        return slice(*(resolve(item, env) for item in (value.start, value.stop, value.step)))
    return value


def export(program: Any, path: Any = None, *args: Any, opset_version: int = OPSET, **options: Any) -> Any:
    """Write an exported program as an ONNX model; free sizes become named axes.

    Args:
        program: what `torch.export.export` returned; or a module, with its example inputs in `path`'s place as PyTorch has it:
            `onnx.export(module, args, path, dynamic_shapes=...)`.
        path: where to write; None only returns the model.

    Returns the onnx ModelProto, which was checked. Raises NotImplementedError naming an op that ONNX cannot express,
    ModuleNotFoundError if the onnx package is not installed.
    """
    if not isinstance(program, ExportedProgram):
        build = importlib.import_module(".build", __package__)
        inputs, path = path, args[0] if args else options.pop("f", None)
        program = build.export(program, inputs if isinstance(inputs, tuple) else (inputs,), options.get("kwargs"),
                               dynamic_shapes=options.get("dynamic_shapes"))
    try:
        onnx = importlib.import_module("onnx")
    except ModuleNotFoundError:
        raise ModuleNotFoundError("onnx.export needs the onnx package: pip install onnx") from None
    for part in ("onnx_more", "onnx_selecting", "onnx_random", "onnx_recurrent"):  # the last of the files with rules, they import the others
        importlib.import_module("." + part, __package__)
    model = write(onnx, program, opset_version)
    onnx.checker.check_model(model, full_check=True)
    if path is not None:
        onnx.save(model, os.fspath(path) if isinstance(path, (str, os.PathLike)) else path)
    return model


def write(onnx: Any, program: ExportedProgram, opset: int) -> Any:
    """The ModelProto."""
    writer, helper = Writer(onnx), onnx.helper
    env: dict = {}
    module = functional(program)
    if program.checks.symbols:
        writer.shapes = free_shapes(program, module)
    state = dict(zip((spec.arg.name for spec in program.graph_signature.input_specs if spec.kind is not InputKind.USER_INPUT), program.state_values()))
    if program.graph_signature.mutated:
        raise NotImplementedError(f"onnx.export: a program that writes to {', '.join(program.graph_signature.mutated)}: ONNX models have no state")
    inputs = {}
    waiting = iter(program.checks.inputs)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            if node.name in state:
                tensor = state[node.name]
                writer.initializers[node.name] = onnx.numpy_helper.from_array(np.ascontiguousarray(tensor.detach()._array), node.name)
                env[node] = Value(node.name, tensor._dtype, tuple(tensor._array.shape))
                continue
            item = next(waiting)
            if item.number is not None:  # a scalar
                env[node] = Value(item.name, dtypes.int64, ())
                inputs[node] = helper.make_tensor_value_info(item.name, TYPES["int64"], [])
                continue
            if not item.tensor:
                env[node] = item.value
                continue
            env[node] = Value(item.name, item.dtype, writer.shapes.get(node, tuple(node.meta["val"].shape)))
            inputs[node] = helper.make_tensor_value_info(item.name, TYPES[item.dtype.name], [size if type(size) is int else axis(program, size) for size in item.shape])
    outputs = writer.walk(module, env)
    infos = []
    for at, value in enumerate(outputs):
        if not isinstance(value, Value):
            continue
        name = f"output_{at}"
        writer.nodes.append(helper.make_node("Identity", [value.name], [name]))
        infos.append(helper.make_tensor_value_info(name, TYPES[value.dtype.name], [None] * len(value.shape)))
    read = names_read(writer.nodes)
    held = [value for name, value in writer.initializers.items() if name in read]
    graph = helper.make_graph(writer.nodes, "program", [info for node, info in inputs.items()], infos, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], producer_name="rushlight")
    model.ir_version = min(model.ir_version, 10)
    return model


def names_read(nodes: Any) -> set[str]:
    """What ONNX nodes read, those of graphs inside too."""
    found: set[str] = set()
    for node in nodes:
        found.update(node.input)
        for attribute in node.attribute:
            found |= names_read(attribute.g.node)
    return found


def functional(program: ExportedProgram) -> GraphModule:
    """The program's graph without writes into its own values."""
    if program.example_inputs is not None:
        leaves = program.checks.bind(*program.example_inputs)
    else:
        vals = [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"][len(program.state_values()):]
        leaves = [zeros(tuple(val.shape), dtype=item.dtype) if item.tensor else item.value for item, val in zip(program.checks.inputs, vals)]
    try:
        return without_writes(program.graph_module, [*program.state_values(), *leaves])
    except NotImplementedError as error:
        raise NotImplementedError(f"onnx.export: {error}") from None


def free_shapes(program: ExportedProgram, module: GraphModule) -> dict[Node, tuple]:
    """The shapes of a program's values, UNKNOWN for what varies with the free sizes: found by running it (`module`) at other sizes."""
    nodes = [node for node in module.graph.nodes if node.op == "placeholder"][len(program.state_values()):]
    base: dict[str, int] = {}
    for node, item in zip(nodes, program.checks.inputs):
        for have, size in zip(node.meta["val"].shape if item.tensor else (item.value,), item.sizes):
            if type(size) is tuple:
                base.setdefault(size[0], (have - size[2]) // size[1])
    first = shapes_at(program, module, base)
    found = {node: list(shape) for node, shape in first.items()}
    for name, symbol in program.checks.symbols.items():
        # Sizes that must be equal may be several symbols: where one alone cannot move, all do.
        moves = [{**base, name: other} for other in (base[name] + 1, base[name] + 2, base[name] - 1, 2 * base[name])]
        moves += [{key: size + step for key, size in base.items()} for step in (1, 2)] + [{key: 2 * size for key, size in base.items()}]
        second = next((shapes for sizes in moves if (shapes := tried(program, module, sizes)) is not None), None)
        if second is None:
            raise NotImplementedError(f"onnx.export: the program runs at no other size of {symbol.label}: what depends on it cannot be told")
        for node, shape in second.items():
            found[node] = [UNKNOWN if one != two else size for one, two, size in zip(first[node], shape, found[node])]
    return {node: tuple(shape) for node, shape in found.items()}


def tried(program: ExportedProgram, module: GraphModule, sizes: dict[str, int]) -> dict[Node, tuple] | None:
    """The shapes at these sizes, None where the program does not take them."""
    symbols = program.checks.symbols
    if not all(symbols[name].lower <= size <= symbols[name].upper for name, size in sizes.items()) or not all(
            holds(relation, sizes) for relation in program.checks.relations):
        return None
    try:
        return shapes_at(program, module, sizes)
    except (RuntimeError, ValueError, IndexError, TypeError, AssertionError):
        return None


def holds(relation: tuple, sizes: dict) -> bool:
    kind, left, right, answer = relation
    return bool(evaluate((kind, left, right), sizes)) is answer


class Shapes(Interpreter):
    """Runs a program and notes the shapes of its values."""

    found: dict[Node, tuple]

    def call_function(self, target: Any, args: tuple, kwargs: dict) -> Any:
        if target is PACKING["_pack_padded_sequence"]:  # the lengths are zeros here: take full ones
            input, lengths, first = args
            args = input, full_like(lengths, input.shape[1 if first else 0]), first
        return super().call_function(target, args, kwargs)

    def run_node(self, node: Node) -> Any:
        value = super().run_node(node)
        if isinstance(value, Tensor):
            self.found[node] = tuple(value._array.shape)
        return value


def shapes_at(program: ExportedProgram, module: GraphModule, sizes: dict[str, int]) -> dict[Node, tuple]:
    """The shapes when the free sizes are these; the inputs are zeros, the state is copied."""
    inputs: list = [value.detach().clone() for value in program.state_values()]
    for item in program.checks.inputs:
        shape = [size if type(size) is int else size[1] * sizes[size[0]] + size[2] for size in item.shape or ()]
        value = item.value if item.number is None else item.number[1] * sizes[item.number[0]] + item.number[2]
        inputs.append(zeros(shape, dtype=item.dtype) if item.tensor else value)
    run = Shapes(module)
    run.found = {}
    with modes.no_grad():
        call(run.run, inputs)
    return run.found


def axis(program: ExportedProgram, size: tuple) -> str:
    """The name of a free size."""
    symbol, factor, offset = size
    label = program.checks.symbols[symbol].label
    label = label if label.isidentifier() else symbol
    text = label if factor == 1 else f"{factor}*{label}"
    return text + (f"+{offset}" if offset > 0 else f"-{-offset}" if offset else "")
