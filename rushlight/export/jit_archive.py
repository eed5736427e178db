"""`jit.save` and `jit.load`: traced programs and scripted trees in the same checked archive as exported programs.

Read `load` first.
"""

import importlib
import io
import json
import os
from typing import Any

from ..core.errors import FormatError
from ..nn.module import Module
from ..serialize.atomic import replace
from ..serialize.safetensors_file import read_safetensors, write_safetensors
from ..serialize.source import Source, shown
from ..serialize.zip_read import Archive
from ..serialize.zip_write import write_archive
from ..tensor import Parameter, Tensor
from . import archive, targets
from .encode import QUALIFIED, Malformed, decode, encode, identifier, need
from .jit_language import Translator, check_functions
from .jit_module import SAVERS, LoadedTracedModule, ScriptFunction, ScriptModule, TracedFunction, TracedModule, deprecated
from .jit_python import functions_of
from .jit_script import ScriptedFunction, ScriptedModule, methods_of

SCRIPT = "script.json"
OWN = frozenset(("training", "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_original_class", "_original_name", "_epoch",
                 "_detour", "_was_called", "_compiled_call_impl"))


def save(m: Any, f: Any, _extra_files: dict | None = None) -> None:
    """Save a traced or scripted function or module to a path or a binary file object.

    Raises RuntimeError for scripted code that a file has no place for; the text names the line.
    """
    deprecated("torch.jit.save", "`torch.export`")
    write(m, f, _extra_files)


def write(m: Any, f: Any, _extra_files: dict | None = None) -> None:
    """`save` without its warning, which the methods `save` of scripts do not give."""
    if not isinstance(m, (ScriptModule, ScriptFunction)):
        raise RuntimeError(f"jit.save expects what jit.trace or jit.script returned, got a {type(m).__name__}")
    extra = {archive.EXTRA + name: content for name, content in (_extra_files or {}).items()}
    if isinstance(m, (TracedFunction, TracedModule)):
        program = m.program
        for program in m.programs.values() if isinstance(m, TracedModule) else ():  # the present values
            for name, value in m.named_parameters(remove_duplicate=False):
                program.state[name] = value
            for name, value in m.named_buffers(remove_duplicate=False):
                program.state[name] = value
        records = archive.pack(m.programs if isinstance(m, TracedModule) else {"forward": program}, {})
        about = {"kind": "traced module" if isinstance(m, TracedModule) else "traced function", "name": getattr(m, "original_name", getattr(m, "__name__", "")),
                 "training": {name: part.training for name, part in m.named_modules()} if isinstance(m, TracedModule) else {}}
        records.append((SCRIPT, json.dumps(about, separators=(",", ":")).encode()))
    else:
        records = script_records(m)
    records += [(name, content.encode() if isinstance(content, str) else content) for name, content in sorted(extra.items())]
    if isinstance(f, (str, os.PathLike)):
        replace(f, lambda stream: write_archive(stream, records))
    else:
        write_archive(f, records)


SAVERS["save"] = write


def script_records(m: Any) -> list[tuple]:
    """The records of a scripted function or module."""
    translator, tensors = Translator(), {}
    if isinstance(m, ScriptedFunction):
        number = translator.function(m._rushlight_original)
        about = {"kind": "script function", "number": number, "functions": translator.functions}
    else:
        tree = describe(m, "", translator, tensors)
        about = {"kind": "script module", "module": tree, "functions": translator.finish()}
    weights = io.BytesIO()
    write_safetensors({name: tensor.detach() for name, tensor in tensors.items()}, weights, "jit.save")
    return [(SCRIPT, json.dumps(about, separators=(",", ":"), allow_nan=False).encode()), (archive.WEIGHTS, weights.getbuffer())]


def describe(module: Module, prefix: str, translator: Translator, tensors: dict) -> dict:
    """A module as data: its class if it is one of ours, else its methods as trees; state, attributes and children."""
    kind = module.__dict__.get("_original_class", type(module))
    library = kind.__module__.startswith("rushlight.nn")
    tree: dict = {"name": module.__dict__.get("_original_name", kind.__name__), "training": module.training, "library": kind.__name__ if library else None,
                  "parameters": {}, "buffers": {}, "attributes": {}, "children": {}, "methods": {}}
    for name, value in module._parameters.items():
        tree["parameters"][name] = None if value is None else {"key": keep(tensors, prefix + name, value), "requires_grad": value.requires_grad}
    for name, value in module._buffers.items():
        tree["buffers"][name] = None if value is None else {"key": keep(tensors, prefix + name, value),
                                                            "persistent": name not in module._non_persistent_buffers_set}
    state = {*module._parameters, *module._buffers, *module._modules}
    for name, value in vars(module).items():
        if name in OWN or name in state:
            continue
        if isinstance(value, Tensor):
            tree["buffers"][name] = {"key": keep(tensors, prefix + name, value), "persistent": False}
            continue
        function = targets.name_of(value) if callable(value) else None
        try:
            tree["attributes"][name] = {"op": function} if function else {"value": encode(value, name)}
        except (NotImplementedError, TypeError):
            continue  # hooks and other Python objects: a script that reads them fails when it is translated or run
    if not library:
        wanted = methods_of(kind)
        for name in wanted:
            mark = getattr(getattr(kind, name), "_rushlight_jit", None)
            number = None if mark == "ignore" else translator.method(name, kind, needed=name == "forward" or mark == "export")
            if number is not None:
                tree["methods"][name] = number
    for name, child in module._modules.items():
        tree["children"][name] = None if child is None else describe(child, f"{prefix}{name}.", translator, tensors)
    return tree


def keep(tensors: dict, name: str, value: Tensor) -> str:
    for known, tensor in tensors.items():
        if tensor is value:
            return known
    tensors[name] = value
    return name


# -- loading -------------------------------------------------------------------------------------------------------------


def load(f: Any, map_location: Any = None, _extra_files: dict | None = None, _restore_shapes: bool = False) -> Any:
    """Load what `jit.save` wrote, from a path or a binary file object. No code of the file is run: the functions of scripts are made from
    a checked tree, which can name ops and its own functions only.

    Raises FormatError for a file that is damaged, hostile or of another kind.
    """
    deprecated("torch.jit.load", "`torch.export`")
    if isinstance(f, (str, os.PathLike)) and not os.path.exists(f):
        raise ValueError(f"The provided filename {f} does not exist")
    with Source(f) as source:
        found = Archive(source)
        if SCRIPT not in found.records:
            raise source.error(f"expected the record {SCRIPT}, got {', '.join(map(shown, sorted(found.records)[:5]))}",
                               "give a file that jit.save wrote; export.load reads exported programs")
        about = archive.parse_json(source, found, SCRIPT)
        try:
            made = build(source, found, about)
        except FormatError:
            raise
        except Malformed as problem:
            raise source.error(f"{SCRIPT}: expected {problem}", archive.DAMAGED) from None
        except (TypeError, ValueError, KeyError, AttributeError, IndexError, RecursionError, SyntaxError, RuntimeError) as problem:
            raise source.error(f"{SCRIPT} describes no script ({type(problem).__name__}: {shown(str(problem))})", archive.DAMAGED) from None
        for name in _extra_files or ():
            if archive.EXTRA + name in found.records:
                _extra_files[name] = found.read(archive.EXTRA + name)
        return made


def build(source: Source, found: Archive, about: Any) -> Any:
    need(type(about) is dict, "an object")
    kind = about.get("kind")
    if kind in ("traced function", "traced module"):
        program = archive.read(source, None, allowed=(SCRIPT,))
        programs = program.programs if isinstance(program, archive.Package) else {"forward": program}
        program = programs.get("forward", next(iter(programs.values())))
        if kind == "traced function":
            made: Any = TracedFunction(program)
            made.__name__ = str(about.get("name"))
            return made
        made = LoadedTracedModule(program, None, programs)
        made.__dict__["_original_name"] = str(about.get("name"))
        training = about.get("training")
        need(type(training) is dict, "training flags")
        for name, value in training.items():
            owner = made
            for part in name.split(".") if name else ():
                need(identifier(part) or part.isdigit(), "names of modules")
                if part not in owner._modules:
                    owner.add_module(part, ScriptModule())
                owner = owner._modules[part]
            owner.__dict__["training"] = bool(value)
        return made
    functions = check_functions(about.get("functions"))
    made = functions_of(functions)
    if kind == "script function":
        need(type(about.get("number")) is int and 0 <= about["number"] < len(functions), "a function")
        return ScriptedFunction(made[about["number"]])
    need(kind == "script module", "a known kind")
    need(archive.WEIGHTS in found.records, "weights")
    file = io.BytesIO(found.read(archive.WEIGHTS))
    file.name = f"{source.name}:{archive.WEIGHTS}"
    with Source(file) as inner:
        tensors = read_safetensors(inner)
    return module_of(about.get("module"), tensors, {}, made, 0)


def module_of(tree: Any, tensors: dict, made: dict, functions: list, depth: int) -> Module:
    need(depth < 60 and type(tree) is dict and set(tree) == {"name", "training", "library", "parameters", "buffers", "attributes", "children", "methods"},
         "a module")
    if tree["library"] is None:
        methods = tree["methods"]
        need(type(methods) is dict and all(identifier(name) and not name.startswith("__") and type(number) is int and 0 <= number < len(functions)
                                           for name, number in methods.items()), "methods")
        body = {"__module__": "torch.jit", "_scripted": frozenset(methods), **{name: functions[number] for name, number in methods.items()}}
        module: Module = object.__new__(type("RecursiveScriptModule", (ScriptedModule, Module), body))
    else:
        kind = layer(tree["library"])
        need(kind is not None, f"a layer, not {str(tree['library'])[:60]!r}")
        module = object.__new__(kind)
    Module.__init__(module)
    fields = module.__dict__
    for name, item in tree["attributes"].items():
        need(identifier(name) and name not in OWN and not name.endswith("_hooks"), f"an attribute, not {str(name)[:60]!r}")
        need(type(item) is dict and set(item) in ({"op"}, {"value"}), "an attribute's value")
        if "op" in item:
            fields[name] = targets.find(item["op"])
            need(fields[name] is not None, "a known op")
        else:
            fields[name] = decode(item["value"], {})
    for name, item in tree["parameters"].items():
        need(QUALIFIED.match(name) and "." not in name, "a parameter's name")
        module.register_parameter(name, None if item is None else tensor_of(item, tensors, made, True))
    for name, item in tree["buffers"].items():
        need(QUALIFIED.match(name) and "." not in name, "a buffer's name")
        module.register_buffer(name, None if item is None else tensor_of(item, tensors, made, False), persistent=item is None or item.get("persistent") is not False)
    for name, item in tree["children"].items():
        need(QUALIFIED.match(name) and "." not in name, "a child's name")
        module.add_module(name, None if item is None else module_of(item, tensors, made, functions, depth + 1))
    if tree["library"] is None:
        fields["_original_class"], fields["_original_name"] = type(module), str(tree["name"])
    fields["training"] = bool(tree["training"])
    return module


def layer(name: Any) -> Any:
    """The class of ours of this name, or None."""
    importlib.import_module("rushlight.nn")
    waiting = [Module]
    while waiting:
        kind = waiting.pop()
        if kind.__name__ == name and kind.__module__.startswith("rushlight.nn"):
            return kind
        waiting += kind.__subclasses__()
    return None


def tensor_of(item: Any, tensors: dict, made: dict, parameter: bool) -> Tensor:
    need(type(item) is dict and type(item.get("key")) is str and item["key"] in tensors, "a tensor by its key")
    key = item["key"]
    if key not in made:
        made[key] = Parameter(tensors[key], bool(item.get("requires_grad"))) if parameter else tensors[key]
    need(isinstance(made[key], Parameter) == parameter, "a tensor of one kind")
    return made[key]
