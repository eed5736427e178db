"""What LLVM is asked, by the functions of binding.py: LLVM IR text in, machine code out.

Owns the target machine of this host, the pass pipeline, the verifier, the module linter and the linked libraries.
Everything that it compiles goes through `link`; a library stays loaded as long as its `Library` object lives.
LLVM is loaded when something has to be compiled: `host` often knows from the cache what it would say, and
objects out of the cache are loaded by objects.py.  `available()` says whether code can be made here at all.
"""

import contextlib
import ctypes
import functools
import itertools
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ..core.generator import hold_all, release_all
from . import binding, cache, objects
from .host import QUESTIONS_IR, Host, granted, recall, remember

# Everything generated code may call: what the pool and the arena need, and what LLVM itself emits for fma, memcpy and
# the functions of the C mathematics library that are not generated here.
SYMBOLS = frozenset(
    ("sem_wait sem_post aligned_alloc madvise free memcpy memset memmove fma fmaf floor floorf ceil ceilf trunc truncf rint rintf "
     "nearbyint nearbyintf roundeven roundevenf fmod fmodf pow powf ").split()
    + [name + suffix for suffix in ("", "f") for name in
       ("lgamma tgamma erf erfc exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh "
        "atanh atan2 hypot nextafter cbrt ldexp frexp").split()])

HOST: dict[str, int] = {}  # functions of ours that native code may call, by name: their addresses

MAX_INSTRUCTIONS = 60_000
LINKS = 32  # libraries that are linked by one JIT of LLVM's
# Kernels are vectorised and unrolled by construction, their loops are written as LLVM would turn them, and equal instructions of a block
# once, so a few passes do what the whole O2 pipeline did (measured: the same speed); loop invariants are moved out, and instructions
# are combined, by the code generator.
PASSES = ("AlwaysInliner", "SROA", "SimplifyCFG")
# Attributes of functions that hardly ever run, or in which what they call takes the time: their code is made in a fraction of the time.
PLAIN = 'noinline nounwind "plain"'
OPTIONS = "7 " + " ".join(PASSES)  # bumped when the pipeline changes, so that cached objects are not mixed

_lock = threading.RLock()
_serial = itertools.count()
_engine: Any = None
_host: Host | None = None
_refused = False


class CompileError(RuntimeError):
    """Generated IR was refused by the linter or the verifier: always a defect of rushlight."""


class NotMade(CompileError):
    """Code that cannot be made here: no defect, its graph runs by its ops."""


class TooLarge(NotMade):
    """A module of more code than is compiled at once."""


# Processors that code can be made for besides this one: `RUSHLIGHT_CPU` names one, and tests run every kernel for each.
TARGETS = {
    "avx2": ("x86-64-v3", "avx avx2 bmi bmi2 cmov cx16 cx8 f16c fma fxsr lzcnt mmx movbe popcnt sahf sse sse2 sse3 sse4.1 sse4.2 ssse3 xsave"),
    "baseline": ("x86-64", "cmov cx8 fxsr mmx sse sse2"),
}


class Engine:
    """The LLVM state for one target: target machine, passes, and the JIT where objects are not loaded by objects.py."""

    def __init__(self, target: str = "host") -> None:
        self.library = library = binding.Library()
        self.triple, known = library.triple, library.features
        if target == "host":
            cpu, features = library.cpu, {name for name, on in known.items() if on}
            # LLVM prefers 256-bit vectors on several CPUs; our kernels choose their own width.
            flags = ",".join([*(f"{'+' if on else '-'}{name}" for name, on in known.items()), "-prefer-256-bit"])
        else:
            if target not in TARGETS or not self.triple.startswith("x86_64"):
                raise ValueError(f"RUSHLIGHT_CPU is {target!r}; expected 'host'" + "".join(f", '{name}'" for name in TARGETS) + " (x86-64 only)")
            cpu, names = TARGETS[target]
            features = set(names.split())
            missing = {name for name in features if not known.get(name, True)}
            if missing:
                raise ValueError(f"RUSHLIGHT_CPU is {target!r}, but this processor lacks {sorted(missing)[0]}")
            flags = ",".join(f"+{name}" for name in sorted(features))
        self.described = Host(cpu, frozenset(features), flags, f"llvmlite {library.version} llvm {library.llvm_version}", self.triple)
        self.host = granted(self.described)
        self.machine = binding.Machine(library, self.host.cpu, self.host.flags)
        self.header = f'target datalayout = "{self.machine.layout}"\ntarget triple = "{self.triple}"\n'
        self.passes = binding.Passes(self.machine, PASSES)
        self.linker, self.linked = None, 0

    @functools.cached_property
    def quick(self) -> binding.Machine:
        """What makes machine code in a fraction of the time that runs slower."""
        return binding.Machine(self.library, self.host.cpu, self.host.flags, 0)

    def questions(self) -> bytes:
        """The object of `QUESTIONS_IR` for any processor of this architecture."""
        return binding.Machine(self.library, "generic", "", 0).emit(self.parsed(QUESTIONS_IR))

    def parsed(self, text: str, context: binding.Context | None = None) -> binding.Module:
        try:
            return binding.Module(context or binding.Context(self.library), self.header + text)
        except RuntimeError as error:
            raise CompileError(f"LLVM refused generated IR: {error}") from None

    def jit(self) -> Any:
        """What links; a new one from time to time, for it keeps about 10 KB of every library, also of those that were dropped."""
        import llvmlite.binding as llvmlite

        if self.linker is None or self.linked == LINKS:
            target = llvmlite.Target.from_triple(self.triple)
            machine = target.create_target_machine(cpu=self.host.cpu, features=self.host.flags, opt=2, reloc="pic", codemodel="default")
            self.linker, self.linked = llvmlite.create_lljit_compiler(machine, use_jit_link=True), 0
        self.linked += 1
        return self.linker


def engine() -> Engine:
    """The engine, made on first use."""
    global _engine
    if _engine is None:
        with _lock:
            if _engine is None:
                _engine = Engine(os.environ.get("RUSHLIGHT_CPU", "host"))
    return _engine


def host() -> Host:
    """What code is made for: from the record in the cache if that holds, else from the engine."""
    global _host
    if _host is None:
        with _lock:
            if _host is None:
                target = os.environ.get("RUSHLIGHT_CPU", "host")
                known = recall(target) if _engine is None else None
                _host = granted(known) if known is not None else engine().host
                if known is None and objects.supported() and cache.directory() is not None:
                    remember(target, engine().described, engine().questions())
    return _host


@contextlib.contextmanager
def target(name: str) -> Iterator[Host]:
    """Make code for another processor of `TARGETS` inside: for tests. What was linked before stays as it is."""
    global _engine, _host
    before = _engine, _host
    _engine = Engine(name)
    _host = _engine.host
    try:
        yield _host
    finally:
        _engine, _host = before


def machine() -> tuple[str, ...]:
    """Everything but the text that machine code depends on: processor, features, compiler and system."""
    here = host()
    return here.cpu, here.flags, here.version, here.triple, OPTIONS


def available() -> bool:
    """True if machine code can be made and run here; where it cannot, that is said once."""
    global _refused
    if os.environ.get("RUSHLIGHT_JIT") == "0" or _refused:
        return False
    try:
        host()
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        _refused = True
        warnings.warn(f"no machine code can be made here, compiled graphs run by their ops: {type(error).__name__}: {error}",
                      RuntimeWarning, stacklevel=2)
        return False
    return True


@functools.cache
def symbol_address(name: str) -> int | None:
    """Where a function of the fixed list, or of ours, is in this process."""
    if name not in SYMBOLS:
        return HOST.get(name)
    for library in (None, "libm.so.6", "libc.so.6"):
        try:
            return ctypes.cast(getattr(ctypes.CDLL(library), name), ctypes.c_void_p).value
        except (AttributeError, OSError):
            continue
    return None


class Library:
    """Linked machine code, in the cache under `key`; `address(name)` is valid while this object lives."""

    def __init__(self, key: str, code: Any, exports: tuple[str, ...], text: "Text"):
        self.key, self._code, self.exports, self._text = key, code, exports, text

    @property
    def text(self) -> str:
        return written(self._text)

    def address(self, name: str) -> int:
        return self._code[name]

    def function(self, name: str, result: Any, *arguments: Any) -> Any:
        """A ctypes function that releases the GIL; it keeps the library alive."""
        function = ctypes.CFUNCTYPE(result, *arguments)(self.address(name))
        function.library = self
        return function

    @property
    def assembly(self) -> str:
        """The machine code as assembly text."""
        with _lock:
            return engine().machine.emit(optimise(self.text), assembly=True).decode()


def lint(text: str) -> None:
    """Raise CompileError where IR could misbehave: address arithmetic by integers, absolute addresses, odd symbols."""
    for banned in ("inttoptr", "ptrtoint"):
        if banned in text and re.search(rf"\b{banned}\b", text):
            raise CompileError(f"generated IR uses {banned}, which LLVM 22 miscompiles and the cache could not hold")
    for name in declared(text):
        if not name.startswith("llvm.") and name not in SYMBOLS and name not in HOST:
            raise CompileError(f"generated IR calls {name}, which is not on the list of allowed symbols")
    if "= external " in text and re.search(r"^@[^\n]*= external ", text, re.M):
        raise CompileError("generated IR refers to an external variable")
    count = text.count("\n  %") + text.count("\n  store") + text.count("\n  call")
    if count > MAX_INSTRUCTIONS:
        raise TooLarge(f"a generated module has {count} instructions, more than {MAX_INSTRUCTIONS}")


def declared(text: str) -> list[str]:
    """The functions that IR declares."""
    return re.findall(r"\ndeclare [^@]*@([\w.$]+)\(", f"\n{text}")  # a word to look for: `^` takes 60 times as long


def optimise(text: str, context: binding.Context | None = None) -> binding.Module:
    """Parse, verify and run the pass pipeline; `context` is given where modules are linked afterwards."""
    made = engine()
    module = made.parsed(text, context)
    with _lock:
        made.passes.run(module)
    for name in re.findall(r'\ndefine [^@\n]*@([\w.]+)\([^\n]*"plain"', f"\n{text}"):
        module.mark(name, "optnone")  # not before: the passes would say on stderr that they skip it
    return module


Text = str | Callable[[], str]  # IR, or what writes it where it is asked for


def written(text: Text) -> str:
    return text if isinstance(text, str) else text()


def entry(text: str, quick: bool = False) -> str:
    """The name in the cache of the object of IR text."""
    return cache.key(text, *machine(), *["quick"] * quick)


def link(text: str, exports: tuple[str, ...], quick: bool = False) -> Library:
    """Compile IR text, or fetch its object from the disk cache, and load it.  Of `quick` code see later.py."""
    key = entry(text, quick)
    library = fetched(key, exports, text)
    if library is None:
        image = compiled(text, quick)
        cache.store(key, image)
        cache.note(key, image)
        code = loaded(key, image, exports, text)
        if code is None:
            raise CompileError("LLVM made an object that cannot be loaded")
        library = Library(key, code, exports, text)
    return library


def fetched(key: str, exports: tuple[str, ...], text: Text) -> Library | None:
    """The object that the disk cache has under this key, loaded; None where it has none that can be."""
    image = cache.load(key)
    code = loaded(key, image, exports, text) if image is not None else None
    if code is None:
        return None
    cache.note(key, image)
    return Library(key, code, exports, text)


def compiled(text: str, quick: bool = False) -> bytes:
    """The object of IR text."""
    lint(text)
    with _lock:
        made = working()
        return made.quick.emit(made.parsed(text)) if quick else made.machine.emit(optimise(text))


def emitted(module: binding.Module) -> bytes:
    """The object of a module made elsewhere, while no other thread makes one."""
    with _lock:
        return engine().machine.emit(module)


def working() -> Engine:
    """The engine, where it is what `host` says, which may come from the cache."""
    try:
        made = engine()
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        raise NotMade(f"llvmlite, which was there before, does not load: {type(error).__name__}: {error}") from error
    if made.host != host():
        raise NotMade(f"llvmlite is another one than the cache says: it makes code for {made.host}, not for {host()}")
    return made


def loaded(key: str, image: bytes, exports: tuple[str, ...], text: Text) -> Any:
    """An object in memory, its addresses by name; None where it is damaged, which is said."""
    try:
        try:
            code = objects.load(image, symbol_address)
        except objects.Unknown:
            return linked_by_llvm(image, exports, written(text))
        if all(name in code for name in exports):
            return code
        raise objects.Damaged("a function is missing")
    except (objects.Damaged, RuntimeError) as error:
        warnings.warn(f"the object {key} is damaged ({error}); it is compiled again", RuntimeWarning, stacklevel=2)
        return None


def linked_by_llvm(image: bytes, exports: tuple[str, ...], text: str) -> Any:
    """An object that objects.py leaves to LLVM's own linker."""
    with _lock:
        made = working()
        import llvmlite.binding as llvmlite

        builder = llvmlite.JITLibraryBuilder().add_object_img(image)
        for name in exports:
            builder.export_symbol(name)
        for name in sorted(needed_symbols(text)):
            address = symbol_address(name)
            if address is not None:
                builder.import_symbol(name, address)
        jit = made.jit()
        tracker = builder.link(jit, f"rushlight{next(_serial)}")
        tracker.jit = jit  # which goes with its last library, after it
    return tracker


IMPLIED = {"memcpy", "memset", "memmove"}  # LLVM makes calls of these by itself


def needed_symbols(text: str) -> set[str]:
    names = {name for name in declared(text) if not name.startswith("llvm.")}
    if "fma" not in host().features and "llvm.fma" in text:
        names |= {"fma", "fmaf"}
    if "sse4.1" not in host().features:
        names |= {name + suffix for name in ("floor", "ceil", "trunc", "rint", "nearbyint", "roundeven")
                  for suffix in ("", "f")}
    return names | IMPLIED | ({"fmod", "fmodf"} if "frem" in text else set())


def hold() -> None:
    hold_all()  # first, as a draw does that has its code made
    _lock.acquire()


def release() -> None:
    _lock.release()
    release_all()


if hasattr(os, "register_at_fork"):  # a child whose parent's other thread was compiling would wait for it for ever
    os.register_at_fork(before=hold, after_in_parent=release, after_in_child=release)
