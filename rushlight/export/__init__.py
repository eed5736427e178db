"""Export: a finished model as one graph with checked inputs, saved without its source; and the departing and static ways.

`export(module, args)` gives an `ExportedProgram`; `save` and `load` keep it as one file.  `load` needs neither nn nor
capture, so everything here is loaded when its name is first used.  Read `build.export` and `program.ExportedProgram`.
"""

import importlib
from typing import Any

NAMES = {"export": "build", "export_for_training": "build", "draft_export": "build", "register_dataclass": "build", "unflatten": "build",
         "default_decompositions": "decompose", "Package": "archive", "to_c": "c_code", "ExportedProgram": "program", "Dim": "dynamic_shapes", "dims": "dynamic_shapes", "ShapesCollection": "dynamic_shapes", "AdditionalInputs": "dynamic_shapes", "ConstraintViolationError": "dynamic_shapes",
         "UserError": "dynamic_shapes", "UnflattenedModule": "module", "ModuleCallEntry": "program", "save": "archive", "load": "archive", "FormatError": "archive", "ExportGraphSignature": "graph_signature",
         "ExportBackwardSignature": "graph_signature", "InputKind": "graph_signature", "InputSpec": "graph_signature", "OutputKind": "graph_signature",
         "OutputSpec": "graph_signature", "TensorArgument": "graph_signature", "ConstantArgument": "graph_signature", "SymIntArgument": "graph_signature"}
__all__ = ["Dim", "ExportedProgram", "FormatError", "UserError", "dims", "export", "load", "save"]


def __getattr__(name: str) -> Any:
    if name in NAMES:
        value = getattr(importlib.import_module("." + NAMES[name], __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'rushlight.export' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *NAMES})
