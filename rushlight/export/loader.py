"""Run an exported program with NumPy alone: copy this one file beside the archive, `load(path)(x)`.

    from loader import load
    print(load("classifier.pt2")(numpy_array))

Slow but sure: each op is a NumPy expression in a table, and nothing else can be called. It checks the inputs as the full
runtime does, has no gradients and no bfloat16, and raises NotImplementedError naming an op that the table lacks.
It imports nothing of rushlight. Read `load`, then `Program.__call__`.
"""
import json
import math
import operator
import zipfile

import numpy as np

DTYPES = {"BOOL": "?", "U8": "u1", "I8": "i1", "I16": "<i2", "U16": "<u2", "F16": "<f2", "I32": "<i4", "U32": "<u4", "F32": "<f4", "F64": "<f8",
          "I64": "<i8", "U64": "<u8", "C64": "<c8"}
NAMES = {"bool": "?", "uint8": "u1", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "float16": "f2", "float32": "f4", "float64": "f8",
         "complex64": "c8", "complex128": "c16"}
OPS = {}


def op(*names):
    """Enter a function in the table under these names."""
    def enter(function):
        for name in names:
            OPS[name] = function
        return function
    return enter


def load(path):
    """The program of an archive; a dict of programs if it has several entry points. ValueError for a file that is none."""
    with zipfile.ZipFile(path) as archive:
        others = [name for name in archive.namelist() if not name.startswith(("extra/", "native/"))]  # native code is not looked at
        if set(others) - {"program.json", "weights.safetensors"}:
            raise ValueError(f"{path}: unknown records")
        if any(info.file_size > 2 * info.compress_size + (1 << 20) for info in archive.infolist()):
            raise ValueError(f"{path}: a record unpacks to far more than it is")
        described = json.loads(archive.read("program.json"))
        tensors = safetensors(archive.read("weights.safetensors"))
    if described.get("format") != "rushlight-export" or described["version"][0] != 1:
        raise ValueError(f"{path}: not a program of format 1")
    programs = {name: Program(entry, tensors) for name, entry in described["entries"].items()}
    return programs["forward"] if list(programs) == ["forward"] else programs


def safetensors(raw):
    """Name -> array."""
    size = int.from_bytes(raw[:8], "little")
    if size > len(raw) - 8:
        raise ValueError("weights.safetensors: its header is longer than the file")
    header, body = json.loads(raw[8:8 + size]), memoryview(raw)[8 + size:]
    arrays = {}
    for name, item in header.items():
        if name != "__metadata__":
            first, last = item["data_offsets"]
            arrays[name] = np.frombuffer(body[first:last], DTYPES[item["dtype"]]).reshape(item["shape"]).copy()
    return arrays


class Program:
    """One entry point: arrays in, arrays out."""

    def __init__(self, entry, tensors):
        self.entry = entry
        self.state = [tensors[("constant." if item["kind"] == "constant_tensor" else "state.") + item["target"]] for item in entry["state"]]

    def __call__(self, *args, **kwargs):
        entry = self.entry
        given = dict(zip(entry["arguments"], args)) | kwargs
        if set(given) != set(entry["arguments"]) or len(args) + len(kwargs) != len(given):
            raise ValueError(f"the program takes ({', '.join(entry['arguments'])})")
        leaves = []
        flatten({"tuple": entry["in_spec"]["tuple"]}, tuple(given[name] for name in entry["arguments"]), leaves)
        self.check(leaves)
        results = list(run(entry["graph"], [*self.state, *leaves]))
        for spec in entry["outputs"]:
            if not spec["kind"].endswith("_mutation"):
                break
            places = [item["target"] for item in entry["state"]] + [item["name"] for item in entry["inputs"]]
            [*self.state, *leaves][places.index(spec["target"])][...] = results.pop(0)
        return unflatten(entry["out_spec"], iter(results))

    def check(self, leaves):
        """AssertionError for the first input that does not fit."""
        sizes, ranges = {}, {item[0]: item[2:] for item in self.entry["symbols"]}
        for at, item in enumerate(self.entry["inputs"]):
            if "value" in item:
                if leaves[at] != value(item["value"], {}):
                    raise AssertionError(f"Guard failed: {item['name']} == {item['value']!r}")
                continue
            array = leaves[at] = np.asarray(leaves[at])
            if array.dtype != np.dtype(NAMES[item["dtype"]]):
                raise AssertionError(f"Guard failed: {item['name']}.dtype == {item['dtype']}: it is {array.dtype}")
            if array.ndim != len(item["shape"]):
                raise AssertionError(f"Guard failed: {item['name']}.dim() == {len(item['shape'])}: it has size {list(array.shape)}")
        for plain in (True, False):  # the sizes themselves first, then what is derived from them
            for at, item in enumerate(self.entry["inputs"]):
                for dim, wanted in enumerate(item.get("shape", ())):
                    size = leaves[at].shape[dim]
                    if isinstance(wanted, int):
                        good = size == wanted
                    elif plain is (wanted[1:] == [1, 0]):
                        symbol, factor, offset = wanted
                        known = sizes.setdefault(symbol, (size - offset) // factor)
                        low, high = ranges[symbol]
                        good = factor * known + offset == size and low <= known and (high is None or known <= high)
                    else:
                        continue
                    if not good:
                        raise AssertionError(f"Guard failed: {item['name']}.size()[{dim}] == {wanted}: it has size {list(leaves[at].shape)}")
        for kind, left, right, answer in self.entry["relations"]:
            if bool(expression([kind, left, right], sizes)) is not answer:
                raise AssertionError(f"Guard failed: {kind} of {left} and {right} is {answer}: the sizes are {sizes}")


def expression(item, sizes):
    if isinstance(item, str):
        return sizes[item]
    if isinstance(item, list):
        function = {"int": int, "float": float, "abs": abs, "min": min, "max": max}.get(item[0]) or getattr(operator, item[0])
        return function(*(expression(part, sizes) for part in item[1:]))
    return item


def flatten(spec, given, leaves):
    """Append the leaves of a structure."""
    if spec == "*":
        leaves.append(given)
        return
    (kind, body), = spec.items()
    if kind in ("dict", "odict"):
        if list(given) != body[0] and set(given) != set(body[0]):
            raise ValueError(f"expected a dict with the keys {body[0]}, got {list(given)}")
        parts, given = body[1], [given[key] for key in body[0]]
    else:
        parts = body[2] if kind == "namedtuple" else body
    if len(parts) != len(given):
        raise ValueError(f"expected {len(parts)} values, got {len(given)}")
    for part, item in zip(parts, given):
        flatten(part, item, leaves)


def unflatten(spec, leaves):
    if spec == "*":
        return next(leaves)
    (kind, body), = spec.items()
    if kind in ("dict", "odict"):
        return dict(zip(body[0], [unflatten(part, leaves) for part in body[1]]))
    made = [unflatten(part, leaves) for part in (body[2] if kind == "namedtuple" else body)]
    return made if kind == "list" else tuple(made)


def value(item, env):
    """An argument of a node."""
    if isinstance(item, list):
        return [value(part, env) for part in item]
    if not isinstance(item, dict):
        return item
    (kind, body), = item.items()
    if kind == "node":
        return env[body]
    if kind == "tuple":
        return tuple(value(part, env) for part in body)
    if kind == "slice":
        return slice(*(value(part, env) for part in body))
    if kind == "dict":
        return {key: value(part, env) for key, part in body}
    if kind == "float":
        return float(body)
    if kind == "complex":
        return complex(*map(float, body))
    if kind == "ellipsis":
        return ...
    return np.dtype(NAMES[body]) if kind == "dtype" else None


def run(graph, inputs):
    """The outputs of a graph."""
    env, waiting = {}, iter(inputs)
    with np.errstate(all="ignore"):
        for node in graph["nodes"]:
            kind, target = node["op"], node["target"]
            if kind == "placeholder":
                env[node["name"]] = next(waiting)
                continue
            args = [value(item, env) for item in node.get("args", [])]
            if kind == "output":
                return args[0]
            if kind == "get_attr":
                env[node["name"]] = graph["graphs"][target]
                continue
            named = {key: value(item, env) for key, item in node.get("kwargs", {}).items()}
            result = find(target)(*args, **named)
            known = node.get("type")
            if known and isinstance(result, (np.ndarray, np.generic)):
                result = np.asarray(result)
                if result.dtype != np.dtype(NAMES[known[0]]):  # NumPy promotes otherwise
                    result = result.astype(NAMES[known[0]])
            env[node["name"]] = result
    raise ValueError("the graph has no output")


def find(target):
    """The function of a target; an in-place op stores the result of the plain one."""
    plain = target.rpartition(".")[2]
    if plain in OPS:
        return OPS[plain]
    bare = plain.lstrip("_")
    if bare in OPS:
        return OPS[bare]
    name = plain[:-1] if plain.endswith("_") else plain[1:] if plain.startswith("i") else ""
    if name in OPS:
        def store(target, *args, **named):
            target[...] = OPS[name](target, *args, **named)
            return target
        return store
    raise NotImplementedError(f"loader: the op {target}")


# -- the table -----------------------------------------------------------------------------------------------------------

for _names, _function in {
        "abs": np.abs, "neg negative": np.negative, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10,
        "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
        "cosh": np.cosh, "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil, "round": np.round, "sign": np.sign, "reciprocal": np.reciprocal,
        "square": np.square, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "logical_not": np.logical_not, "invert bitwise_not": np.invert,
        "logical_and": np.logical_and, "logical_or": np.logical_or, "and_ bitwise_and": np.bitwise_and, "or_ bitwise_or": np.bitwise_or,
        "mul multiply": np.multiply, "truediv div divide true_divide": np.true_divide, "floordiv floor_divide": np.floor_divide, "mod remainder": np.mod,
        "pow": np.power, "maximum": np.maximum, "minimum": np.minimum, "gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal,
        "eq": np.equal, "ne": np.not_equal, "matmul mm bmm mv dot": np.matmul, "atan2": np.arctan2, "trunc": np.trunc}.items():
    op(*_names.split())(_function)
for _name in "int float bool min max".split():
    op(_name)(__builtins__[_name] if isinstance(__builtins__, dict) else getattr(__builtins__, _name))


@op("add")
def add(a, b, alpha=1):
    return np.add(a, b if alpha == 1 else b * alpha)


@op("sub", "subtract")
def sub(a, b, alpha=1):
    return np.subtract(a, b if alpha == 1 else b * alpha)


@op("getitem")
def getitem(x, index):
    return x[index]


@op("setitem")
def setitem(x, index, new):
    x[index] = new


@op("getattr")
def attribute(x, name):
    if name not in ("T", "mT", "real", "imag", "data"):
        raise NotImplementedError(f"loader: the attribute {name}")
    return np.swapaxes(x, -1, -2) if name == "mT" else x if name == "data" else getattr(x, name)


@op("size_of")
def size_of(x, dim):
    return np.asarray(x.shape[dim], np.int64)


@op("check_true")
def check_true(condition):
    if not condition:
        raise AssertionError("Runtime assertion failed: a condition that the exported program asserts does not hold")
    return condition


@op("relu")
def relu(x, inplace=False):
    return np.maximum(x, 0)


@op("sigmoid")
def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@op("silu")
def silu(x, inplace=False):
    return x * sigmoid(x)


@op("rsqrt")
def rsqrt(x):
    return 1 / np.sqrt(x)


@op("erf")
def erf(x):
    return np.vectorize(math.erf, otypes=[float])(x)


@op("gelu")
def gelu(x, approximate="none"):
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


@op("elu")
def elu(x, alpha=1.0, inplace=False):
    return np.where(x > 0, x, alpha * np.expm1(x))


@op("leaky_relu")
def leaky_relu(x, negative_slope=0.01, inplace=False):
    return np.where(x > 0, x, x * negative_slope)


@op("softplus")
def softplus(x, beta=1.0, threshold=20.0):
    return np.where(x * beta > threshold, x, np.log1p(np.exp(np.minimum(x * beta, threshold))) / beta)


@op("clamp", "clip")
def clamp(x, min=None, max=None):
    return np.clip(x, min, max)


@op("hardtanh")
def hardtanh(x, min_val=-1.0, max_val=1.0, inplace=False):
    return np.clip(x, min_val, max_val)


@op("relu6")
def relu6(x, inplace=False):
    return np.clip(x, 0, 6)


@op("where")
def where(condition, a, b):
    return np.where(condition, a, b)


@op("masked_fill")
def masked_fill(x, mask, new):
    return np.where(mask, new, x)


@op("softmax")
def softmax(x, dim=-1, *other, **named):
    shifted = np.exp(x - x.max(axis=dim, keepdims=True))
    return shifted / shifted.sum(axis=dim, keepdims=True)


@op("log_softmax")
def log_softmax(x, dim=-1, *other, **named):
    shifted = x - x.max(axis=dim, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=dim, keepdims=True))


@op("dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d")
def dropout(x, p=0.5, training=True, inplace=False):
    if training and p:
        raise NotImplementedError("loader: dropout in training mode")
    return x


@op("linear")
def linear(x, weight, bias=None):
    out = x @ weight.T
    return out if bias is None else out + bias


@op("addmm")
def addmm(x, a, b, beta=1, alpha=1):
    return beta * x + alpha * (a @ b)


def reduction(function, name):
    def reduce(x, dim=None, keepdim=False, dtype=None):
        return function(x, axis=tuple(dim) if isinstance(dim, list) else dim, keepdims=keepdim)
    op(name)(reduce)


for _name, _function in {"sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min, "any": np.any, "all": np.all, "prod": np.prod}.items():
    reduction(_function, _name)


@op("var")
def var(x, dim=None, unbiased=True, keepdim=False, correction=None):
    return np.var(x, axis=dim, ddof=int(unbiased) if correction is None else correction, keepdims=keepdim)


@op("norm")
def norm(x, p=2, dim=None, keepdim=False, dtype=None):
    if p not in (2, "fro"):
        raise NotImplementedError("loader: norm other than 2")
    return np.sqrt((np.abs(x) ** 2).sum(axis=dim, keepdims=keepdim))


@op("argmax")
def argmax(x, dim=None, keepdim=False):
    return np.argmax(x, axis=dim, keepdims=keepdim)


@op("argmin")
def argmin(x, dim=None, keepdim=False):
    return np.argmin(x, axis=dim, keepdims=keepdim)


@op("cumsum")
def cumsum(x, dim, dtype=None):
    return np.cumsum(x, axis=dim)


def several(given):
    return list(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else list(given)


@op("size")
def size(x, dim=None):
    return x.shape if dim is None else x.shape[dim]


@op("reshape", "view")
def reshape(x, *shape, **named):
    return x.reshape(several(shape or tuple(named.values())))


@op("flatten")
def flatten_dims(x, start_dim=0, end_dim=-1):
    end = end_dim % x.ndim
    return x.reshape([*x.shape[:start_dim % x.ndim], -1, *x.shape[end + 1:]])


@op("transpose", "swapaxes")
def transpose(x, a, b):
    return np.swapaxes(x, a, b)


@op("t")
def t(x):
    return x.T


@op("permute")
def permute(x, *dims):
    return x.transpose(several(dims))


@op("unsqueeze")
def unsqueeze(x, dim):
    return np.expand_dims(x, dim)


@op("squeeze")
def squeeze(x, dim=None):
    dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    return np.squeeze(x, tuple(at for at in dims if x.shape[at] == 1))


@op("expand", "broadcast_to")
def expand(x, *shape):
    wanted = several(shape)
    lead = len(wanted) - x.ndim
    return np.broadcast_to(x, [x.shape[at - lead] if item == -1 else item for at, item in enumerate(wanted)])


@op("repeat")
def repeat(x, *sizes):
    return np.tile(x, several(sizes))


@op("cat", "concat")
def cat(tensors, dim=0):
    return np.concatenate(tensors, axis=dim)


@op("stack")
def stack(tensors, dim=0):
    return np.stack(tensors, axis=dim)


@op("chunk")
def chunk(x, chunks, dim=0):
    each = -(-x.shape[dim] // chunks)
    return split(x, each, dim)


@op("split", "split_with_sizes")
def split(x, sizes, dim=0):
    have = x.shape[dim]
    ends = list(range(sizes, have, sizes)) if isinstance(sizes, int) else list(np.cumsum(sizes)[:-1])
    return tuple(np.split(x, ends, axis=dim))


@op("unbind")
def unbind(x, dim=0):
    return tuple(np.moveaxis(x, dim, 0))


@op("select")
def select(x, dim, index):
    return np.take(x, index, axis=dim)


@op("narrow")
def narrow(x, dim, start, length):
    return np.take(x, np.arange(start, start + length), axis=dim)


@op("embedding")
def embedding(index, weight, *other, **named):
    return weight[index]


@op("index_select")
def index_select(x, dim, index):
    return np.take(x, index, axis=dim)


@op("gather")
def gather(x, dim, index, sparse_grad=False):
    return np.take_along_axis(x, index, axis=dim)


@op("pad")
def pad(x, pad, mode="constant", value=None):
    pairs = list(zip(pad[::2], pad[1::2]))[::-1]
    width = [(0, 0)] * (x.ndim - len(pairs)) + pairs
    return np.pad(x, width, constant_values=value or 0) if mode == "constant" else np.pad(
        x, width, {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode])


@op("to", "type_as", "detach", "contiguous", "float", "double", "long", "int", "bool", "half", "requires_grad_", "alias", "check_true")
def same(x, *other, **named):
    return x  # the dtype is that of the node's type


@op("clone")
def clone(x, *other, **named):
    return x.copy()


@op("copy_")
def copy_(x, new, *other):
    x[...] = new
    return x


@op("switch_mode")
def switch_mode(name, mode):
    return None


@op("zeros")
def zeros(*shape, dtype=None, **named):
    return np.zeros(several(shape), dtype or np.float32)


@op("ones")
def ones(*shape, dtype=None, **named):
    return np.ones(several(shape), dtype or np.float32)


@op("full")
def full(shape, fill_value, dtype=None, **named):
    return np.full(shape, fill_value, dtype)


@op("zeros_like")
def zeros_like(x, **named):
    return np.zeros_like(x)


@op("ones_like")
def ones_like(x, **named):
    return np.ones_like(x)


@op("full_like")
def full_like(x, fill_value, **named):
    return np.full_like(x, fill_value)


@op("arange")
def arange(*args, dtype=None, **named):
    return np.arange(*args, dtype=dtype)


@op("tensor")
def tensor(data, dtype=None, **named):
    return np.array(data, dtype or (np.float32 if np.asarray(data).dtype.kind == "f" else None))


@op("tril")
def tril(x, diagonal=0):
    return np.tril(x, diagonal)


@op("triu")
def triu(x, diagonal=0):
    return np.triu(x, diagonal)


@op("layer_norm")
def layer_norm(x, shape, weight=None, bias=None, eps=1e-5, *other):
    dims = tuple(range(x.ndim - len(shape), x.ndim))
    out = (x - x.mean(dims, keepdims=True)) / np.sqrt(x.var(dims, keepdims=True) + eps)
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


@op("batch_norm")
def batch_norm(x, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5, *other):
    if training:
        raise NotImplementedError("loader: batch_norm in training mode")
    sides = [1, -1] + [1] * (x.ndim - 2)
    out = (x - mean.reshape(sides)) / np.sqrt(var.reshape(sides) + eps)
    out = out if weight is None else out * weight.reshape(sides)
    return out if bias is None else out + bias.reshape(sides)


def spread(item, count):
    return [item] * count if isinstance(item, int) else list(item) * (count if len(item) == 1 else 1)


def windows(x, kernel, stride, dilation):
    """The windows of the last dims: (..., places, kernel)."""
    count = len(kernel)
    spans = [step * (size - 1) + 1 for step, size in zip(dilation, kernel)]
    view = np.lib.stride_tricks.sliding_window_view(x, spans, axis=tuple(range(-count, 0)))
    return view[(..., *(slice(None, None, step) for step in stride), *(slice(None, None, step) for step in dilation))]


@op("conv1d", "conv2d", "conv3d")
def conv(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    count = weight.ndim - 2
    batched = x if x.ndim == count + 2 else x[None]
    stride, dilation = spread(stride, count), spread(dilation, count)
    if padding == "same":
        total = [step * (size - 1) for step, size in zip(dilation, weight.shape[2:])]
        sides = [(item // 2, item - item // 2) for item in total]
    else:
        sides = [(item, item) for item in spread(0 if padding == "valid" else padding, count)]
    batched = np.pad(batched, [(0, 0), (0, 0), *sides])
    view = windows(batched, weight.shape[2:], stride, dilation)
    parts = []
    for part, kernel in zip(np.split(view, groups, axis=1), np.split(weight, groups, axis=0)):
        axes = list(range(2 + count, 2 + 2 * count))
        out = np.tensordot(part, kernel, ([1, *axes], [1, *range(2, 2 + count)]))
        parts.append(np.moveaxis(out, -1, 1))
    out = np.concatenate(parts, axis=1)
    out = out if bias is None else out + bias.reshape([1, -1] + [1] * count)
    return out if x.ndim == count + 2 else out[0]


def pool(x, kernel_size, stride, padding, dilation, ceil_mode, function, fill, count):
    kernel = spread(kernel_size, count)
    stride = spread(stride, count) if stride else kernel
    sides = [(item, item) for item in spread(padding, count)]
    if ceil_mode:
        raise NotImplementedError("loader: pooling with ceil_mode")
    x = np.pad(x, [(0, 0)] * (x.ndim - count) + sides, constant_values=fill)
    return function(windows(x, kernel, stride, spread(dilation, count)), axis=tuple(range(-count, 0)))


def pools(count):
    @op(f"max_pool{count}d")
    def max_pool(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        return pool(x, kernel_size, stride, padding, dilation, ceil_mode, np.max, -np.inf, count)

    @op(f"avg_pool{count}d")
    def avg_pool(x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        if padding not in (0, (0,) * count) and not count_include_pad or divisor_override:
            raise NotImplementedError("loader: avg_pool without padding in its count")
        return pool(x, kernel_size, stride, padding, 1, ceil_mode, np.mean, 0, count)

    @op(f"adaptive_avg_pool{count}d")
    def adaptive_avg_pool(x, output_size):
        wanted = spread(output_size, count)
        for at, size in enumerate(wanted):
            axis = x.ndim - count + at
            have = x.shape[axis]
            if size is not None:
                ends = [(place * have // size, -(-(place + 1) * have // size)) for place in range(size)]
                x = np.stack([np.take(x, range(*end), axis=axis).mean(axis) for end in ends], axis=axis)
        return x


for _count in (1, 2, 3):
    pools(_count)


@op("scaled_dot_product_attention")
def attention(query, key, values, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    scores = query @ np.swapaxes(key, -1, -2) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == bool else scores + attn_mask
    return softmax(scores) @ values


@op("cond")
def cond(pred, true_graph, false_graph, operands):
    return tuple(run(true_graph if bool(pred) else false_graph, operands))


@op("while_loop")
def while_loop(test, body, carried, extra=()):
    while bool(run(test, [*carried, *extra])):
        carried = run(body, [*carried, *extra])
    return tuple(carried)


# -- more activations ----------------------------------------------------------------------------------------------------


@op("selu")
def selu(x, inplace=False):
    return 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))


@op("celu")
def celu(x, alpha=1.0, inplace=False):
    return np.where(x > 0, x, alpha * np.expm1(x / alpha))


@op("mish")
def mish(x, inplace=False):
    return x * np.tanh(np.logaddexp(0, x))


@op("hardsigmoid")
def hardsigmoid(x, inplace=False):
    return np.clip(x + 3, 0, 6) / 6


@op("hardswish")
def hardswish(x, inplace=False):
    return x * hardsigmoid(x)


@op("hardshrink")
def hardshrink(x, lambd=0.5):
    return np.where(np.abs(x) > lambd, x, 0)


@op("softshrink")
def softshrink(x, lambd=0.5):
    return np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, 0))


@op("softsign")
def softsign(x):
    return x / (np.abs(x) + 1)


@op("tanhshrink")
def tanhshrink(x):
    return x - np.tanh(x)


@op("threshold")
def threshold(x, threshold, value, inplace=False):
    return np.where(x > threshold, x, value)


@op("logsigmoid")
def logsigmoid(x):
    return -np.logaddexp(0, -x)


@op("softmin")
def softmin(x, dim=-1, *other, **named):
    return softmax(-x, dim)


@op("glu")
def glu(x, dim=-1):
    first, second = np.split(x, 2, axis=dim)
    return first * sigmoid(second)


@op("prelu")
def prelu(x, weight):
    return np.where(x > 0, x, x * (weight.reshape([-1] + [1] * (x.ndim - 2)) if weight.size > 1 and x.ndim > 1 else weight))


@op("rrelu")
def rrelu(x, lower=1 / 8, upper=1 / 3, training=False, inplace=False):
    if training:
        raise NotImplementedError("loader: rrelu in training mode")
    return np.where(x >= 0, x, x * ((lower + upper) / 2))


# -- more layers ---------------------------------------------------------------------------------------------------------


@op("group_norm")
def group_norm(x, num_groups, weight=None, bias=None, eps=1e-5, *other):
    grouped = x.reshape(x.shape[0], num_groups, -1)
    out = ((grouped - grouped.mean(-1, keepdims=True)) / np.sqrt(grouped.var(-1, keepdims=True) + eps)).reshape(x.shape)
    sides = [-1] + [1] * (x.ndim - 2)
    out = out if weight is None else out * weight.reshape(sides)
    return out if bias is None else out + bias.reshape(sides)


@op("instance_norm")
def instance_norm(x, mean=None, var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5, *other):
    if not use_input_stats:
        return batch_norm(x, mean, var, weight, bias, eps=eps)
    return group_norm(x, x.shape[1], weight, bias, eps)


@op("rms_norm")
def rms_norm(x, shape, weight=None, eps=None):
    dims = tuple(range(x.ndim - len(shape), x.ndim))
    out = x / np.sqrt((x * x).mean(dims, keepdims=True) + (np.finfo(x.dtype).eps if eps is None else eps))
    return out if weight is None else out * weight


@op("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    count = weight.ndim - 2
    batched = x if x.ndim == count + 2 else x[None]
    stride, padding, extra, dilation = (spread(item, count) for item in (stride, padding, output_padding, dilation))
    parts = []
    for part, kernel in zip(np.split(batched, groups, axis=1), np.split(weight, groups, axis=0)):
        sizes = [(have - 1) * step + wide * (size - 1) + 1 + more
                 for have, step, size, wide, more in zip(batched.shape[2:], stride, kernel.shape[2:], dilation, extra)]
        out = np.zeros([batched.shape[0], kernel.shape[1], *sizes], batched.dtype)
        for place in np.ndindex(*kernel.shape[2:]):
            there = tuple(slice(at * wide, at * wide + (have - 1) * step + 1, step)
                          for at, wide, have, step in zip(place, dilation, batched.shape[2:], stride))
            out[(slice(None), slice(None), *there)] += np.moveaxis(np.tensordot(part, kernel[(slice(None), slice(None), *place)], ([1], [0])), -1, 1)
        parts.append(out[(slice(None), slice(None), *(slice(side, size - side) for side, size in zip(padding, sizes)))])
    out = np.concatenate(parts, axis=1)
    out = out if bias is None else out + bias.reshape([1, -1] + [1] * count)
    return out if x.ndim == count + 2 else out[0]


def adaptive_max_pools(count):
    @op(f"adaptive_max_pool{count}d")
    def adaptive_max_pool(x, output_size, return_indices=False):
        if return_indices:
            raise NotImplementedError("loader: pooling with indices")
        for at, size in enumerate(spread(output_size, count)):
            axis = x.ndim - count + at
            have = x.shape[axis]
            if size is not None:
                ends = [(place * have // size, -(-(place + 1) * have // size)) for place in range(size)]
                x = np.stack([np.take(x, range(*end), axis=axis).max(axis) for end in ends], axis=axis)
        return x


for _count in (1, 2, 3):
    adaptive_max_pools(_count)


@op("pixel_shuffle")
def pixel_shuffle(x, r):
    *lead, channels, height, width = x.shape
    return np.transpose(x.reshape(-1, channels // r ** 2, r, r, height, width), (0, 1, 4, 2, 5, 3)).reshape(*lead, channels // r ** 2, height * r, width * r)


@op("pixel_unshuffle")
def pixel_unshuffle(x, r):
    *lead, channels, height, width = x.shape
    return np.transpose(x.reshape(-1, channels, height // r, r, width // r, r), (0, 1, 3, 5, 2, 4)).reshape(*lead, channels * r * r, height // r, width // r)


@op("channel_shuffle")
def channel_shuffle(x, groups):
    return np.swapaxes(x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]), 1, 2).reshape(x.shape)


@op("unflatten")
def unflatten_dim(x, dim, sizes):
    dim %= x.ndim
    return x.reshape([*x.shape[:dim], *sizes, *x.shape[dim + 1:]])


@op("bilinear")
def bilinear(a, b, weight, bias=None):
    out = np.einsum("...i,oij,...j->...o", a, weight, b)
    return out if bias is None else out + bias


@op("interpolate")
def interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False):
    count = x.ndim - 2
    if mode not in ("nearest", "linear", "bilinear", "trilinear") or antialias:
        raise NotImplementedError(f"loader: interpolate with mode {mode!r}")
    for at in range(count):
        axis, have = at + 2, x.shape[at + 2]
        factor = None if scale_factor is None else spread(scale_factor, count)[at] if not isinstance(scale_factor, float) else scale_factor
        wanted = spread(size, count)[at] if size is not None else int(have * factor)
        step = have / wanted if factor is None or recompute_scale_factor else 1 / factor
        places = np.arange(wanted)
        if mode == "nearest":
            x = np.take(x, np.minimum((places * step).astype(int), have - 1), axis=axis)
            continue
        where = places * ((have - 1) / max(wanted - 1, 1)) if align_corners else np.maximum((places + 0.5) * step - 0.5, 0)
        low = np.minimum(where.astype(int), have - 1)
        part = (where - low).astype(x.dtype).reshape([-1] + [1] * (x.ndim - axis - 1))
        x = np.take(x, low, axis=axis) * (1 - part) + np.take(x, np.minimum(low + 1, have - 1), axis=axis) * part
    return x


@op("multi_head_attention_forward")
def multi_head_attention(query, key, values, embed_dim, heads, in_weight, in_bias, bias_k, bias_v, add_zero_attn, dropout_p, out_weight, out_bias, training=True,
                         key_padding_mask=None, need_weights=True, attn_mask=None, use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None,
                         v_proj_weight=None, static_k=None, static_v=None, average_attn_weights=True, is_causal=False):
    if training and dropout_p or add_zero_attn or bias_k is not None or key_padding_mask is not None or static_k is not None or query.ndim != 3:
        raise NotImplementedError("loader: attention with these options")
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else np.split(in_weight, 3)
    biases = (None,) * 3 if in_bias is None else np.split(in_bias, 3)
    length, batch, width = query.shape

    def headed(x, weight, bias):
        return linear(x, weight, bias).reshape(x.shape[0], batch, heads, -1).transpose(1, 2, 0, 3)
    q, k, v = (headed(x, weight, bias) for x, weight, bias in zip((query, key, values), weights, biases))
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    if attn_mask is not None:
        scores = np.where(attn_mask, -np.inf, scores) if attn_mask.dtype == bool else scores + attn_mask
    scores = softmax(scores)
    out = linear((scores @ v).transpose(2, 0, 1, 3).reshape(length, batch, width), out_weight, out_bias)
    return out, (scores.mean(1) if average_attn_weights else scores) if need_weights else None


# -- losses --------------------------------------------------------------------------------------------------------------


def lowered(loss, reduction):
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def losses(name, formula):
    def loss(x, target, *other, reduction="mean", **named):
        named = {key: item for key, item in named.items() if key not in ("size_average", "reduce") and item is not None}
        return lowered(formula(x, target, **named), reduction)
    op(name)(loss)


for _name, _formula in {
        "mse_loss": lambda x, y: (x - y) ** 2, "l1_loss": lambda x, y: np.abs(x - y),
        "smooth_l1_loss": lambda x, y, beta=1.0: np.where(np.abs(x - y) < beta, (x - y) ** 2 * 0.5 / beta, np.abs(x - y) - 0.5 * beta),
        "huber_loss": lambda x, y, delta=1.0: np.where(np.abs(x - y) <= delta, (x - y) ** 2 * 0.5, delta * (np.abs(x - y) - 0.5 * delta)),
        "soft_margin_loss": lambda x, y: np.log1p(np.exp(-y * x)),
        "binary_cross_entropy_with_logits": lambda x, y: np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x)))}.items():
    losses(_name, _formula)


@op("nll_loss")
def nll_loss(x, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    kept = target != ignore_index
    safe = np.where(kept, target, 0)
    each = -np.take_along_axis(x, np.expand_dims(safe, 1), axis=1).squeeze(1)
    scale = kept * (np.ones(x.shape[1], x.dtype) if weight is None else weight)[safe]
    return (each * scale).sum() / scale.sum() if reduction == "mean" else lowered(each * scale, reduction)


@op("cross_entropy")
def cross_entropy(x, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0):
    if label_smoothing or target.dtype.kind == "f":
        raise NotImplementedError("loader: cross_entropy with smoothing or probabilities")
    return nll_loss(log_softmax(x, 1), target, weight, None, ignore_index, None, reduction)
