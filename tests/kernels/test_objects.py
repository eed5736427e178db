"""The loader of object files: what it links, what it refuses, and that damage never gets further than an error."""

import ctypes
import gc
import os
import random
import struct
import threading

import pytest

import rushlight as torch
from rushlight.kernels import cache, dicts, launch, llvm, objects, pool

pytestmark = pytest.mark.skipif(not llvm.available() or not objects.supported(), reason="no objects of x86-64 Linux here")

# Every kind of relocation that our modules have: near data and code, calls of ours and of the C library, tables of
# addresses, words by the global offset table, jump tables, and data that is written.
KINDS = """
@numbers = internal constant [4 x i64] [i64 3, i64 5, i64 7, i64 11], align 8
@functions = internal constant [2 x ptr] [ptr @twice, ptr @thrice], align 8
@count = internal global i64 0, align 8
@many = internal global [4096 x i64] zeroinitializer, align 64
@shared = global i64 40, align 8
declare ptr @memset(ptr, i32, i64)
declare double @pow(double, double)
define internal i64 @twice(i64 %x) noinline nounwind {
  %y = mul i64 %x, 2
  ret i64 %y
}
define i64 @thrice(i64 %x) noinline nounwind {
  %y = mul i64 %x, 3
  ret i64 %y
}
define i64 @by_table(i64 %which, i64 %x) nounwind {
  %p = getelementptr inbounds ptr, ptr @functions, i64 %which
  %f = load ptr, ptr %p, align 8
  %y = call i64 %f(i64 %x)
  ret i64 %y
}
define i64 @number(i64 %i) nounwind {
  %p = getelementptr inbounds i64, ptr @numbers, i64 %i
  %y = load i64, ptr %p, align 8
  ret i64 %y
}
define i64 @counted() nounwind {
  %old = load i64, ptr @count, align 8
  %new = add i64 %old, 1
  store i64 %new, ptr @count, align 8
  ret i64 %new
}
define i64 @fill(i32 %byte) nounwind {
  %p = call ptr @memset(ptr @many, i32 %byte, i64 32768)
  %last = getelementptr inbounds i64, ptr @many, i64 4095
  %y = load i64, ptr %last, align 8
  ret i64 %y
}
define double @power(double %x) nounwind {
  %y = call double @pow(double %x, double 3.5)
  ret double %y
}
define i64 @common() nounwind {
  %old = load i64, ptr @shared, align 8
  %new = add i64 %old, 2
  store i64 %new, ptr @shared, align 8
  ret i64 %new
}
define ptr @address() nounwind {
  ret ptr @thrice
}
define i64 @chosen(i64 %x) nounwind {
  switch i64 %x, label %other [ i64 0, label %a
                                i64 1, label %b
                                i64 2, label %c
                                i64 3, label %d
                                i64 4, label %e ]
a:
  %r0 = call i64 @thrice(i64 100)
  ret i64 %r0
b:
  %r1 = call i64 @twice(i64 %x)
  ret i64 %r1
c:
  %r2 = call i64 @counted()
  ret i64 %r2
d:
  ret i64 77
e:
  %r4 = call i64 @common()
  ret i64 %r4
other:
  ret i64 -1
}
"""


def compiled(text, target="host"):
    with llvm.target(target) as made:
        assert made.vector_bits
        return llvm.engine().machine.emit(llvm.optimise(text))


def call(code, name, *arguments, result=ctypes.c_int64, kind=ctypes.c_int64):
    return ctypes.CFUNCTYPE(result, *[kind] * len(arguments))(code[name])(*arguments)


def kinds_in(image):
    return {kind for _, rows in objects.Object(image).relocations() for _, kind, _, _ in rows}


@pytest.mark.parametrize("target", ["host", *llvm.TARGETS])
def test_every_kind_of_relocation_is_linked(target):
    image = compiled(KINDS, target)
    assert {objects.WORD, objects.NEAR, objects.CALL} <= kinds_in(image) and kinds_in(image) & objects.TABLE
    code = objects.load(image, llvm.symbol_address)
    assert [call(code, "by_table", which, 10) for which in (0, 1)] == [20, 30]
    assert [call(code, "number", i) for i in range(4)] == [3, 5, 7, 11]
    assert [call(code, "counted") for _ in range(3)] == [1, 2, 3]
    assert call(code, "fill", 1) == 0x0101010101010101
    assert call(code, "power", 4.0, result=ctypes.c_double, kind=ctypes.c_double) == 128.0
    assert [call(code, "common") for _ in range(2)] == [42, 44]
    assert call(code, "address", result=ctypes.c_void_p) == code["thrice"]
    assert [call(code, "chosen", x) for x in (0, 1, 2, 3, 4, 5, -1)] == [300, 2, 4, 77, 46, -1, -1]
    assert "twice" not in code  # internal


@pytest.mark.parametrize("target", ["host", *llvm.TARGETS])
def test_what_every_process_needs_is_loaded_here(target, monkeypatch):
    """Code of ours that llvmlite had to link would be slow to start, and nobody would notice."""
    monkeypatch.setattr(llvm, "linked_by_llvm", None)
    with llvm.target(target):
        for text, names in ((pool.pool_ir(), ("worker", "wake", "parallel")), (launch.MAKE_IR + launch.LAUNCH_IR, ("launch",)), (dicts.CHANGED_IR, ("changed", "words"))):
            llvm.link(text, names)
        x = torch.randn(40, 50)
        for f in (lambda x: (x.sin() * x).sum(-1), lambda x: x @ x.T, lambda x: torch.softmax(x, -1), lambda x: x.lgamma(), lambda x: torch.pow(x.abs(), 1.7),
                  lambda x: x.half().float().cumsum(0)):
            assert torch.allclose(torch.compile(f)(x), f(x), atol=1e-3)


def test_code_is_never_writable():
    code = objects.load(compiled(KINDS), llvm.symbol_address)
    with open("/proc/self/maps") as file:
        rows = [(*(int(end, 16) for end in line.split()[0].split("-")), line.split()[1]) for line in file]
    now = {name: next(flags for low, high, flags in rows if low <= code[name] < high) for name in ("thrice", "shared")}
    assert now == {"thrice": "r-xp", "shared": "rw-p"}


def test_memory_goes_with_the_code():
    image = compiled(KINDS)

    def mapped():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0])

    objects.load(image, llvm.symbol_address)
    before = mapped()
    for _ in range(200):
        objects.load(image, llvm.symbol_address)
    assert mapped() - before < 100  # pages; one takes ten
    kept = [objects.load(image, llvm.symbol_address) for _ in range(20)]
    assert len({code["thrice"] for code in kept}) == 20
    assert {call(code, "counted") for code in kept} == {1}


def test_threads_load_and_run_at_once():
    image, wrong = compiled(KINDS), []

    def work(seed):
        for i in range(50):
            code = objects.load(image, llvm.symbol_address)
            if call(code, "by_table", 1, seed + i) != 3 * (seed + i) or call(code, "counted") != 1:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_forked_child_has_data_of_its_own():
    code = objects.load(compiled(KINDS), llvm.symbol_address)
    assert call(code, "counted") == 1
    child = os.fork()
    if not child:
        os._exit(int(call(code, "counted") * 10 + call(code, "by_table", 1, 1)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 23
    assert call(code, "counted") == 2  # what the child wrote is not seen


def test_symbols_off_the_list_are_refused():
    image = compiled("declare i32 @system(ptr)\ndefine i32 @f(ptr %p) nounwind {\n  %x = call i32 @system(ptr %p)\n  ret i32 %x\n}\n")
    assert objects.undefined(image) == {"system"} and llvm.symbol_address("system") is None
    with pytest.raises(objects.Damaged, match="'system', which is not on the list"):
        objects.load(image, llvm.symbol_address)


def test_what_is_not_known_is_left_to_llvm():
    for text in ("@own = thread_local global i64 3\ndefine ptr @f() nounwind {\n  ret ptr @own\n}\n", "define void @f() {\n  ret void\n}\n"):  # the second may unwind
        with pytest.raises(objects.Unknown):
            objects.load(compiled(text), llvm.symbol_address)
    for image in (b"", b"\x7fELF", b"MZ" * 50, compiled(KINDS)[:16] + struct.pack("<HH", 2, 62) + compiled(KINDS)[20:]):
        with pytest.raises(objects.Unknown):
            objects.load(image, llvm.symbol_address)


def test_llvm_links_where_memory_cannot_be_made_executable(monkeypatch):
    def refuse(base, size):
        raise objects.Unknown("this system refuses executable memory")

    monkeypatch.setattr(objects, "protect", refuse)
    function = llvm.link("define i64 @f(i64 %x) nounwind {\n  %y = add i64 %x, 4242\n  ret i64 %y\n}\n", ("f",)).function("f", ctypes.c_int64, ctypes.c_int64)
    assert function(1) == 4243


def test_an_object_cut_short_is_refused():
    image = compiled(KINDS)
    for length in (*range(0, 200), *range(200, len(image), 7)):
        with pytest.raises((objects.Damaged, objects.Unknown)):
            objects.load(image[:length], llvm.symbol_address)


def numbers_of(image):
    """Where an object's header, sections, symbols and relocations lie: each byte of them is a number that could be wrong."""
    made = objects.Object(image)
    table = struct.unpack_from("<Q", image, 40)[0]
    places = [*range(64), *range(table, table + 64 * len(made.sections))]
    for section in made.sections:
        if section.kind in (objects.SYMTAB, objects.STRTAB, objects.RELA):
            places += range(section.offset, section.offset + section.size)
    return places


def test_no_flipped_bit_gets_further_than_an_error():
    """Bits of every number in every table: an error, or a load; nothing is run, since bytes of code may be anything."""
    image, outcomes, chance = compiled(KINDS), [], random.Random(7)
    for place in numbers_of(image):
        for bit in chance.sample(range(8), 2):
            changed = bytearray(image)
            changed[place] ^= 1 << bit
            try:
                objects.load(bytes(changed), llvm.symbol_address)
                outcomes.append("loaded")
            except (objects.Damaged, objects.Unknown) as error:
                outcomes.append(type(error).__name__)
    assert {"Damaged", "Unknown"} <= set(outcomes)


@pytest.mark.parametrize("seed", range(4))
def test_no_overwritten_numbers_get_further_than_an_error(seed):
    image, chance = compiled(KINDS), random.Random(seed)
    places = numbers_of(image)
    for _ in range(1000):
        changed = bytearray(image)
        for _ in range(chance.choice((1, 1, 2, 5))):
            at = chance.choice(places) & ~7
            changed[at:at + 8] = struct.pack("<Q", chance.choice((0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, len(image), chance.getrandbits(64), chance.getrandbits(16))))
        try:
            objects.load(bytes(changed), llvm.symbol_address)
        except (objects.Damaged, objects.Unknown):
            pass


def test_a_damaged_object_in_the_cache_is_compiled_again(tmp_path, monkeypatch):
    """One whose hash is right, as a faulty writer would leave it."""
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.delenv("RUSHLIGHT_CACHE", raising=False)
    text = "define i64 @f(i64 %x) nounwind {\n  %y = add i64 %x, 31\n  ret i64 %y\n}\n"
    key, good = cache.key(text, *llvm.machine()), compiled(text)
    table = struct.unpack_from("<Q", good, 40)[0]
    for bad in (good[:table + 64], good.replace(b"\0f\0", b"\0g\0"), good[:40] + b"\xff" * 8 + good[48:]):
        cache.store(key, bad)
        with pytest.warns(RuntimeWarning, match="damaged"):
            function = llvm.link(text, ("f",)).function("f", ctypes.c_int64, ctypes.c_int64)
        assert function(1) == 32 and cache.load(key) == good
    text = text.replace(" nounwind", "")  # which LLVM links
    key = cache.key(text, *llvm.machine())
    cache.store(key, compiled(text).replace(b"\0f\0", b"\0g\0"))
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert llvm.link(text, ("f",)).function("f", ctypes.c_int64, ctypes.c_int64)(2) == 33
