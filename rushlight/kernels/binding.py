"""llvmlite's shared library, called directly: the two dozen C functions that `llvm` needs, with their types.

Importing `llvmlite.binding` takes 40 ms, of which 8 load the library: the rest is Python that nothing here uses (its IR
builder, importlib.resources, tempfile).  Each `Context` is alone in LLVM, so other users of llvmlite in this process are not
met and none of their locks is needed; the one thing shared is an option of LLVM's, set while `Machine.emit` runs.  Read
`FUNCTIONS` first; its types are those of the `TESTED` versions, and a test compares them with llvmlite's own.
"""

import ctypes
import os
from typing import Any

TESTED = (0, 48), (0, 51)  # versions of llvmlite: from, to below; pyproject.toml names the same
POINTER, TEXT, NUMBER, SAID = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)
INTERNAL = 8  # linkage

FUNCTIONS: dict[str, tuple] = {  # LLVMPY_...: result, arguments
    "InitializeNativeTarget": (None,),
    "InitializeNativeAsmPrinter": (None,),
    "InitializeNativeAsmParser": (None,),
    "GetVersionInfo": (ctypes.c_uint,),
    "GetProcessTriple": (None, SAID),
    "GetHostCPUFeatures": (NUMBER, SAID),
    "GetHostCPUName": (None, SAID),
    "DisposeString": (None, TEXT),
    "GetTargetFromTriple": (POINTER, TEXT, SAID),
    "CreateTargetMachine": (POINTER, POINTER, TEXT, TEXT, TEXT, NUMBER, TEXT, TEXT, NUMBER, NUMBER, TEXT),
    "DisposeTargetMachine": (None, POINTER),
    "CreateTargetMachineData": (POINTER, POINTER),
    "CopyStringRepOfTargetData": (None, POINTER, SAID),
    "DisposeTargetData": (None, POINTER),
    "SetCommandLine": (None, TEXT, TEXT),
    "TargetMachineEmitToMemory": (POINTER, POINTER, POINTER, NUMBER, SAID),
    "GetBufferStart": (POINTER, POINTER),
    "GetBufferSize": (ctypes.c_size_t, POINTER),
    "DisposeMemoryBuffer": (None, POINTER),
    "ContextCreate": (POINTER,),
    "ContextDispose": (None, POINTER),
    "ParseAssembly": (POINTER, POINTER, TEXT, SAID),
    "VerifyModule": (ctypes.c_bool, POINTER, SAID),
    "DisposeModule": (None, POINTER),
    "LinkModules": (NUMBER, POINTER, POINTER, SAID),
    "GetNamedFunction": (POINTER, POINTER, TEXT),
    "GetNamedGlobalVariable": (POINTER, POINTER, TEXT),
    "GetEnumAttributeKindForName": (ctypes.c_uint, TEXT, ctypes.c_size_t),
    "AddFunctionAttr": (None, POINTER, ctypes.c_uint),
    "SetLinkage": (None, POINTER, NUMBER),
    "CreatePipelineTuningOptions": (POINTER,),
    "CreatePassBuilder": (POINTER, POINTER, POINTER),
    "CreateNewModulePassManager": (POINTER,),
    "RunNewModulePassManager": (None, POINTER, POINTER, POINTER),
    "module_AddAlwaysInlinerPass": (None, POINTER),
    "module_AddSROAPass": (None, POINTER),
    "module_AddSimplifyCFGPass": (None, POINTER),
}


class Library:
    """The library with its functions as attributes; code is made for the kind of processor that this process runs on."""

    def __init__(self) -> None:
        import llvmlite
        from llvmlite.utils import get_library_name

        self.version = llvmlite.__version__
        if not TESTED[0] <= tuple(map(int, self.version.split(".")[:2])) < TESTED[1]:
            low, high = (".".join(map(str, bound)) for bound in TESTED)
            raise ImportError(f"llvmlite is {self.version}; expected one from {low} to below {high}")
        library = ctypes.CDLL(os.path.join(os.path.dirname(llvmlite.__file__), "binding", get_library_name()))
        for name, (result, *arguments) in FUNCTIONS.items():
            function = getattr(library, f"LLVMPY_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        self.InitializeNativeTarget()
        self.InitializeNativeAsmPrinter()
        self.InitializeNativeAsmParser()

    def __getattr__(self, name: str) -> Any:  # for type checkers: the functions are set by name
        raise AttributeError(f"no function LLVMPY_{name}")

    def say(self, function: Any, *arguments: Any) -> tuple[Any, str]:
        """A call whose last argument takes a text: its result, and the text."""
        said = ctypes.c_char_p()
        result = function(*arguments, ctypes.byref(said))
        if not said:
            return result, ""
        text = (said.value or b"").decode()
        self.DisposeString(said)
        return result, text

    def option(self, text: str) -> None:
        """Set an option of LLVM's command line, for the whole process; one that this LLVM lacks would end the process."""
        self.SetCommandLine(b"rushlight", text.encode())

    @property
    def llvm_version(self) -> str:
        packed = self.GetVersionInfo()
        return ".".join(str(packed >> shift & 0xFF) for shift in (16, 8, 0))

    @property
    def triple(self) -> str:
        return self.say(self.GetProcessTriple)[1]

    @property
    def cpu(self) -> str:
        return self.say(self.GetHostCPUName)[1]

    @property
    def features(self) -> dict[str, bool]:
        """What this processor has and lacks, in the order of names; empty where LLVM cannot tell."""
        known, text = self.say(self.GetHostCPUFeatures)
        return {flag[1:]: flag[0] == "+" for flag in sorted(text.split(","), key=lambda flag: flag[1:]) if flag} if known else {}


class Context:
    """What modules of one text, or modules that are linked to one, share."""

    def __init__(self, library: Library):
        self.library, self.handle = library, library.ContextCreate()

    def __del__(self) -> None:
        self.library.ContextDispose(self.handle)


class Module:
    """IR that was parsed and verified; RuntimeError where LLVM refuses it."""

    def __init__(self, context: Context, text: str):
        library = context.library
        self.context, self.library = context, library
        self.handle, refused = library.say(library.ParseAssembly, context.handle, text.encode())
        if self.handle is None:
            raise RuntimeError(refused)
        wrong, refused = library.say(library.VerifyModule, self.handle)
        if wrong:
            raise RuntimeError(refused)

    def __del__(self) -> None:
        if getattr(self, "handle", None) is not None:
            self.library.DisposeModule(self.handle)

    def link_in(self, other: "Module") -> None:
        """Take over what another module of the same context has; that one is gone then."""
        wrong, refused = self.library.say(self.library.LinkModules, self.handle, other.handle)
        other.handle = None
        if wrong:
            raise RuntimeError(refused)

    def mark(self, function: str, attribute: str) -> None:
        """Give a function of this module an attribute."""
        kind = self.library.GetEnumAttributeKindForName(attribute.encode(), len(attribute))
        self.library.AddFunctionAttr(self.library.GetNamedFunction(self.handle, function.encode()), kind)

    def hide(self, name: str) -> None:
        """Make a function or variable internal, if there is one of this name."""
        for find in (self.library.GetNamedFunction, self.library.GetNamedGlobalVariable):
            found = find(self.handle, name.encode())
            if found is not None:
                self.library.SetLinkage(found, INTERNAL)


class Machine:
    """What makes machine code for one processor; `level` 0 takes a fraction of the time, and its code runs slower."""

    def __init__(self, library: Library, cpu: str, flags: str, level: int = 2):
        self.library, triple = library, library.triple.encode()
        target, refused = library.say(library.GetTargetFromTriple, triple)
        if target is None:
            raise RuntimeError(refused)
        self.handle = library.CreateTargetMachine(target, triple, cpu.encode(), flags.encode(), level, b"pic", b"default", 0, 0, b"")
        if self.handle is None:
            raise RuntimeError(f"LLVM makes no code for {cpu}")

    def __del__(self) -> None:
        if getattr(self, "handle", None) is not None:
            self.library.DisposeTargetMachine(self.handle)

    @property
    def layout(self) -> str:
        data = self.library.CreateTargetMachineData(self.handle)
        try:
            return self.library.say(self.library.CopyStringRepOfTargetData, data)[1]
        finally:
            self.library.DisposeTargetData(data)

    def emit(self, module: Module, assembly: bool = False) -> bytes:
        """The object file of a module, or its assembly text. By one thread at a time: an option is set meanwhile.

        LLVM's loop strength reduction is left out: it takes a third of the time, and the loops of kernels are no faster for it,
        for their addresses are a pointer and the loop's counter from the start.
        """
        self.library.option("-disable-lsr=true")
        try:
            buffer, refused = self.library.say(self.library.TargetMachineEmitToMemory, self.handle, module.handle, int(not assembly))
        finally:
            self.library.option("-disable-lsr=false")
        if buffer is None:
            raise RuntimeError(refused)
        try:
            return ctypes.string_at(self.library.GetBufferStart(buffer), self.library.GetBufferSize(buffer))
        finally:
            self.library.DisposeMemoryBuffer(buffer)


class Passes:
    """A list of passes by name, run in order. Made once, since llvmlite frees neither wholly; for one thread at a time."""

    def __init__(self, machine: Machine, names: tuple[str, ...]):
        self.machine, library = machine, machine.library
        self.builder = library.CreatePassBuilder(machine.handle, library.CreatePipelineTuningOptions())
        self.handle = library.CreateNewModulePassManager()
        for name in names:
            getattr(library, f"module_Add{name}Pass")(self.handle)

    def run(self, module: Module) -> None:
        self.machine.library.RunNewModulePassManager(self.handle, module.handle, self.builder)
