"""A program of an archive with NumPy: reading, checks, and the graph node by node; the ops are in `OPS`.

Read `load`, then `Program.__call__`. It imports nothing of rushlight.
"""
import json
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
        if set(others) - {"program.json", "weights.safetensors", "examples.safetensors"}:
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
            if "number" in item:
                if type(leaves[at]) is not int:
                    raise AssertionError(f"Guard failed: isinstance({item['name']}, int): a {type(leaves[at]).__name__} was given")
                continue
            array = leaves[at] = np.asarray(leaves[at])
            if array.dtype != np.dtype(NAMES[item["dtype"]]):
                raise AssertionError(f"Guard failed: {item['name']}.dtype == {item['dtype']}: it is {array.dtype}")
            if array.ndim != len(item["shape"]):
                raise AssertionError(f"Guard failed: {item['name']}.dim() == {len(item['shape'])}: it has size {list(array.shape)}")
        for plain in (True, False):  # the sizes themselves first, then what is derived from them
            for at, item in enumerate(self.entry["inputs"]):
                for dim, wanted in enumerate(item.get("shape", [item["number"]] if "number" in item else ())):
                    size = leaves[at] if "number" in item else leaves[at].shape[dim]
                    if isinstance(wanted, int):
                        good = size == wanted
                    elif plain is (wanted[1:] == [1, 0]):
                        symbol, factor, offset = wanted
                        known = sizes.setdefault(symbol, (size - offset) // factor)
                        low, high = ranges[symbol]
                        good = factor * known + offset == size and (low is None or low <= known) and (high is None or known <= high)
                    else:
                        continue
                    if not good:
                        raise AssertionError(f"Guard failed: {item['name']} at {dim} == {wanted}: it is {size}")
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
            try:
                result = find(target)(*args, **named)
            except TypeError as error:
                if "argument" not in str(error):
                    raise
                raise NotImplementedError(f"loader: the op {target} with such arguments: {error}") from None
            if inplace(find(target), args, named):  # its input has the result from now on
                args[0][...] = result
                result = args[0]
            known = node.get("type")
            if known and isinstance(result, (np.ndarray, np.generic)):
                result = np.asarray(result)
                if result.dtype != np.dtype(NAMES[known[0]]):  # NumPy promotes otherwise
                    result = result.astype(NAMES[known[0]])
            env[node["name"]] = result
    raise ValueError("the graph has no output")


def inplace(function, args, named):
    """Whether a call says inplace=True, by name or by place."""
    if "inplace" in named:
        return named["inplace"]
    code = getattr(function, "__code__", None)
    names = code.co_varnames[:code.co_argcount] if code else ()
    return "inplace" in names[:len(args)] and args[names.index("inplace")] is True


def find(target):
    """The function of a target; an in-place op stores the result of the plain one."""
    place, _, plain = target.rpartition(".")
    if target in OPS or plain in OPS:  # what means something else in another place is entered with the place
        return OPS[target if target in OPS else plain]
    bare = plain.lstrip("_")
    if bare in OPS:
        return OPS[bare]
    name = plain[:-1] if plain.endswith("_") else plain[1:] if place == "operator" and plain.startswith("i") else ""
    if name in OPS:
        def store(target, *args, **named):
            target[...] = OPS[name](target, *args, **named)
            return target
        return store
    raise NotImplementedError(f"loader: the op {target}")
