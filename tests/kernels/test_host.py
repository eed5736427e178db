"""What is known of the processor without LLVM: a record holds for the very same processor and compiler only."""

import os
import subprocess
import sys

import pytest

import rushlight as torch
from rushlight.kernels import cache, host, llvm, objects

pytestmark = pytest.mark.skipif(not llvm.available() or not objects.supported(), reason="no objects of x86-64 Linux here")
CHAIN = """
import sys, warnings
warnings.simplefilter("error")
import rushlight as torch
f = torch.compile(lambda x, y: torch.tanh(torch.sin(x) * y + torch.exp(-x * x)).sum(-1))
x, y = torch.linspace(-3, 3, 512).reshape(8, 64), torch.ones(8, 64)
print(float(f(x, y).sum()), "llvmlite" in sys.modules)
"""


def fresh(code=CHAIN, **environment):
    found = {name: value for name, value in os.environ.items() if not name.startswith("RUSHLIGHT_C")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                          env=found | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment)
    assert not done.returncode, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("target", ["host", *llvm.TARGETS])
def test_a_second_process_needs_no_llvm(target, tmp_path):
    first, second = (fresh(RUSHLIGHT_CACHE_DIR=str(tmp_path / "kept"), RUSHLIGHT_CPU=target) for _ in range(2))
    assert first[0] == second[0] and (first[1], second[1]) == ("True", "False")
    # Another target finds none of its code there, nor a description.
    other = fresh(RUSHLIGHT_CACHE_DIR=str(tmp_path / "kept"), RUSHLIGHT_CPU="avx2" if target != "avx2" else "host")
    assert other[1] == "True" and abs(float(other[0]) - float(first[0])) < 1e-3


def test_without_a_cache_llvm_is_asked_each_time(tmp_path):
    for _ in range(2):
        assert fresh(RUSHLIGHT_CACHE_DIR=str(tmp_path / "kept"), RUSHLIGHT_CACHE="0")[1] == "True"
    assert not (tmp_path / "kept").exists()


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A cache with the record of this host."""
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.delenv("RUSHLIGHT_CACHE", raising=False)
    image = llvm.engine().questions()
    host.remember("host", llvm.host(), image)
    return host.record_name("host")


def test_the_record_of_a_host_holds_for_it(kept):
    assert host.recall("host") == llvm.host() and host.recall("avx2") is None


def test_it_holds_for_no_other_processor(kept, monkeypatch):
    said = host.answers(cache.load(kept).partition(b"\n\n")[2])
    assert said[:4] != [0] * 4 and len(said) in (4 * len(host.LEAVES), 4 * len(host.LEAVES) + 1)
    for at in range(len(said)):
        changed = [word ^ (at == i) for i, word in enumerate(said)]
        with monkeypatch.context() as other:
            other.setattr(host, "answers", lambda image, changed=changed: changed)
            assert host.recall("host") is None


def test_it_holds_for_no_other_compiler(kept, monkeypatch):
    folder, *states = host.compiler()
    for other in (None, ("elsewhere", *states), (folder, *states[:2], (0, 0, 0))):
        with monkeypatch.context() as changed:
            changed.setattr(host, "compiler", lambda other=other: other)
            assert host.recall("host") is None


def test_a_damaged_record_is_no_record(kept):
    whole = cache.load(kept)
    head, _, image = whole.partition(b"\n\n")
    for bad in (b"", b"\n\n", head, head + b"\n\n", head + b"\n\n" + image[:100], b"\n\n" + image, b"a\nb\nc\nd\ne\n\n" + image, b"a\nb\nc\nd\ne\nxyz\n\n" + image,
                head[:-20] + b"\n\n" + image, head + b"\nmore\n\n" + image, b"\xff\xfe\n\n" + image, head + b"\n\n" + b"\0" * len(image)):
        cache.store(kept, bad)
        assert host.recall("host") is None


def test_llvm_that_differs_from_the_record_makes_no_code(monkeypatch):
    """It would be another processor's; the graph runs by its ops."""
    monkeypatch.setattr(llvm, "_host", llvm.host()._replace(version="another"))
    with pytest.raises(llvm.NotMade, match="llvmlite is another one"):
        llvm.link("define i64 @f(i64 %x) nounwind {\n  %y = add i64 %x, 777\n  ret i64 %y\n}\n", ("f",))
    x = torch.randn(3, 5)
    assert torch.equal(torch.compile(lambda x: (x * 1.1235).sin())(x), (x * 1.1235).sin())
