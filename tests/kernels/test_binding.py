"""The functions of llvmlite's library have the types that llvmlite itself gives them."""

import ctypes
import subprocess
import sys
from types import SimpleNamespace

import pytest

from rushlight.kernels import binding, llvm

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
DOUBLED = "define i64 @f(i64 %x) {\n  %y = add i64 %x, %x\n  ret i64 %y\n}\n"


def passing(kind):
    """How a value of a type of C is passed: any pointer to something unknown is one kind."""
    return ctypes.c_void_p if isinstance(kind, type) and issubclass(kind, ctypes._Pointer) and kind._type_ is not ctypes.c_char_p else kind


@pytest.mark.parametrize("name", binding.FUNCTIONS)
def test_each_function_has_llvmlites_own_types(name):
    import llvmlite.binding.ffi as theirs

    result, *arguments = binding.FUNCTIONS[name]
    function = getattr(theirs.lib, f"LLVMPY_{name}")
    if function.argtypes is not None:  # a few are left undeclared there
        assert [passing(kind) for kind in function.argtypes] == arguments
    expected = passing(function.restype)
    assert expected == result or result is None and expected is ctypes.c_int, "ctypes' own default stands for no result"


def test_it_loads_without_llvmlites_python():
    code = ("import sys; from rushlight.kernels import binding; library = binding.Library(); "
            "assert library.triple and library.cpu and library.llvm_version.count('.') == 2; "
            "print(sorted(name for name in sys.modules if name.startswith('llvmlite')))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['llvmlite', 'llvmlite._version', 'llvmlite.utils']"


def test_it_agrees_with_llvmlite():
    import llvmlite.binding as theirs

    library = binding.Library()
    assert library.triple == theirs.get_process_triple() and library.cpu == theirs.get_host_cpu_name()
    assert library.features == dict(theirs.get_host_cpu_features())
    assert library.llvm_version == ".".join(map(str, theirs.llvm_version_info))


@pytest.mark.parametrize("version", ["0.47.2", "0.51.0", "1.0.0"])
def test_an_untested_version_is_refused(version, monkeypatch):
    monkeypatch.setitem(sys.modules, "llvmlite", SimpleNamespace(__version__=version, __file__="nowhere"))
    with pytest.raises(ImportError, match=f"llvmlite is {version}; expected one from 0.48"):
        binding.Library()


def test_contexts_are_alone_and_modules_of_one_are_linked():
    library = llvm.engine().library
    context = binding.Context(library)
    both = binding.Module(context, DOUBLED)
    both.link_in(binding.Module(context, DOUBLED.replace("@f", "@g")))
    other = binding.Module(binding.Context(library), DOUBLED)
    machine = llvm.engine().machine
    assert b"g" in machine.emit(both) and "f:" in machine.emit(other, assembly=True).decode()
    both = binding.Module(binding.Context(library), DOUBLED)
    both.hide("f")
    both.hide("nothing of this name")
    assert ".globl" not in machine.emit(both, assembly=True).decode()


SPREAD = """define void @f(ptr %a, ptr %b, i64 %step, i64 %n) {
entry:
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %place = mul i64 %i, %step
  %p = getelementptr float, ptr %a, i64 %place
  %x = load float, ptr %p, align 4
  %q = getelementptr float, ptr %b, i64 %place
  store float %x, ptr %q, align 4
  %next = add nsw i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %body, label %exit
exit:
  ret void
}
"""


def test_the_option_that_is_set_while_code_is_made_is_gone_afterwards():
    import llvmlite.binding as theirs

    def made_by_llvmlite():
        machine = theirs.Target.from_default_triple().create_target_machine(opt=2)
        return machine.emit_assembly(theirs.parse_assembly(SPREAD, theirs.create_context()))

    library, machine = llvm.engine().library, llvm.engine().machine
    before = made_by_llvmlite()
    ours = machine.emit(binding.Module(binding.Context(library), SPREAD), assembly=True).decode()
    assert "mul" in ours and "mul" not in before, "strength reduction turns the product into sums"
    assert made_by_llvmlite() == before


@pytest.mark.parametrize("text", ["define", "define i64 @f() {\n  ret i32 0\n}\n", "define i64 @f() {\n  br label %nowhere\n}\n"])
def test_what_llvm_refuses_is_an_error(text):
    with pytest.raises(RuntimeError):
        binding.Module(binding.Context(llvm.engine().library), text)


def test_a_processor_that_llvm_does_not_know_is_an_error():
    library = binding.Library()
    assert library.say(library.GetTargetFromTriple, b"no-such-system")[0] is None
