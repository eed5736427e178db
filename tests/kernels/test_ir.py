"""The text of a module: functions that do the same are written once."""
import ctypes

from rushlight.kernels import llvm
from rushlight.kernels.ir import Module, Type

I64 = Type("i64")


def module_of_alikes():
    """inner1 and inner2 are alike; so are outer1 and outer2, once they call the same; inner3 is another."""
    module = Module()
    for at, step in ((1, 5), (2, 5), (3, 6)):
        inner = module.function(f"inner{at}", "i64", [("x", I64)], "noinline nounwind", "internal")
        inner.ret(inner.parameters[0] + step)
        outer = module.function(f"outer{at}", "i64", [("x", I64)], "noinline nounwind", "internal")
        outer.ret(outer.call(f"inner{at}", I64, outer.parameters[0]) * 2)
    module.globals["table"] = "@table = internal unnamed_addr constant [3 x ptr] [ptr @outer1, ptr @outer2, ptr @outer3], align 8"
    main = module.function("main", "i64", [("at", I64), ("x", I64)])
    at, x = main.parameters
    from_table = main.load(Type("ptr"), main.address(module_value(main, "@table"), at, "ptr"), 8)
    main.ret(main.emit(I64, f"call i64 {from_table.text}({x})"))
    return module


def module_value(function, text):
    from rushlight.kernels.ir import Value
    return Value(function, text, Type("ptr"))


def test_functions_of_one_text_are_written_once():
    text = module_of_alikes().united()
    assert [line.split("@")[1].split("(")[0] for line in text.splitlines() if line.startswith("define")] == [
        "inner1", "outer1", "inner3", "outer3", "main"]
    assert "[ptr @outer1, ptr @outer1, ptr @outer3]" in text


def test_what_was_united_computes_the_same():
    module = module_of_alikes()
    for text in (str(module), module.united()):
        main = llvm.link(text, ("main",)).function("main", ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
        assert [main(at, 10) for at in range(3)] == [30, 30, 32]


def test_a_name_that_begins_another_is_left_alone():
    module = Module()
    for name, step in (("f", 1), ("f1", 1), ("f10", 2)):
        function = module.function(name, "i64", [("x", I64)])
        function.ret(function.parameters[0] + step)
    caller = module.function("caller", "i64", [("x", I64)])
    caller.ret(caller.call("f1", I64, caller.parameters[0]) + caller.call("f10", I64, caller.parameters[0]))
    text = module.united()
    assert "@f1(" not in text and "call i64 @f(" in text and "call i64 @f10(" in text


def test_a_loop_that_never_turns_is_not_written_and_others_are_tested_once_a_turn():
    module = Module()
    f = module.function("total", "i64", [("first", I64), ("last", I64)])
    first, last = f.parameters
    sums = f.alloca(I64, 1, 8)
    f.store(f.i64(0), sums, 8)

    def add(i):
        f.store(f.load(I64, sums, 8) + i, sums, 8)

    f.loop(f.i64(3), f.i64(3), 1, add)
    assert "loop" not in str(module)
    f.loop(f.i64(0), f.i64(10), 4, add)  # 0 + 4 + 8
    f.loop(first, last, 1, lambda i: f.loop(f.i64(0), i, 1, add))
    f.ret(f.load(I64, sums, 8))
    assert str(module).count("phi") == 3
    total = llvm.link(str(module), ("total",)).function("total", ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    assert [total(0, 0), total(5, 2), total(0, 3), total(2, 5)] == [12, 12, 13, 12 + 1 + 3 + 6]
