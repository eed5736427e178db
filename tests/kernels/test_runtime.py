"""Programs at the edges: memory bounds, threads, forks, interruption, layouts."""

import ctypes
import mmap
import os
import threading

import numpy as np
import pytest

from rushlight.kernels import llvm, pool, program
from rushlight.kernels.arrays import Source
from rushlight.kernels.make import Maker
from rushlight.kernels.rules import RULES
from rushlight.kernels.runtime import Misfit

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
RNG = np.random.default_rng(0)
LIBC = ctypes.CDLL(None, use_errno=True)
PAGE = mmap.PAGESIZE


def compiled(build, *arrays):
    make = Maker()
    inputs = [make.intern(Source, f"in{i}", a.shape, str(a.dtype), tuple(s // a.itemsize for s in a.strides), 0)
              for i, a in enumerate(arrays)]
    outputs = build(make, *inputs)
    outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
    return program.compile_arrays(inputs, outputs, [(a.shape, a.strides, a.dtype) for a in arrays])


class Guarded:
    """An array that ends (or begins) exactly at a page that may not be touched."""

    def __init__(self, array, end=True):
        size = array.nbytes
        pages = -(-size // PAGE)
        self.map = mmap.mmap(-1, (pages + 2) * PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        assert base % PAGE == 0
        offset = PAGE + (pages * PAGE - size if end else 0)
        self.array = np.ndarray(array.shape, array.dtype, self.map, offset)
        self.array[...] = array
        for page in (0, pages + 1):
            assert LIBC.mprotect(ctypes.c_void_p(base + page * PAGE), PAGE, 0) == 0
        self.base, self.pages = base, pages

    def release(self):
        for page in (0, self.pages + 1):
            LIBC.mprotect(ctypes.c_void_p(self.base + page * PAGE), PAGE, 3)


def run_guarded(native, arrays, end):
    guards = [Guarded(a, end) for a in arrays]
    outs = [Guarded(np.zeros(shape, dtype), end) for shape, dtype in native.outputs]
    try:
        code = native.run(pool.pool().address, 0, native.inputs, [g.array for g in (*guards, *outs)])
        assert code == 0
        return [g.array.copy() for g in outs]
    finally:
        for g in (*guards, *outs):
            g.release()


CASES = {
    "pointwise": lambda m, x, y: m.point("add", m.float_point("exp", x), y),
    "row added": lambda m, x, y: m.point("add", x, m.slice(y, 0, 0, 1, 1)),
    "row compared": lambda m, x, y: m.point("gt", x, m.slice(y, 0, 0, 1, 1), dtype="bool"),
    "rows": lambda m, x, y: RULES["softmax"](m, x, 1),
    "columns": lambda m, x, y: RULES["sum"](m, x, 0),
    "everything": lambda m, x, y: RULES["sum"](m, x),
    "transposed": lambda m, x, y: m.point("add", m.permute(x, [1, 0]), m.permute(y, [1, 0])),
    "product": lambda m, x, y: RULES["matmul"](m, x, m.permute(y, [1, 0])),
    "product of what is computed": lambda m, x, y: RULES["matmul"](m, x, m.permute(m.point("add", y, m.slice(y, 0, 0, 1, 1)), [1, 0])),
    "other product": lambda m, x, y: RULES["matmul"](m, m.permute(x, [1, 0]), y),
    "sliced": lambda m, x, y: m.slice(m.point("mul", x, y), 1, x.shape[1] // 2, x.shape[1], 2),
    "joined": lambda m, x, y: RULES["cat"](m, [x, y], 1),
    "convolution": lambda m, x, y: RULES["conv1d"](m, m.unsqueeze(x, 0), m.unsqueeze(m.permute(m.slice(y, 0, 0, 1, 1), [1, 0]), 1),
                                                   None, 1, 1) if x.shape[0] == 1 else RULES["conv1d"](
                                                       m, m.unsqueeze(x, 1), m.reshape(m.slice(y, 1, 0, 1, 1), (y.shape[0], 1, 1))),
}


TARGETS = ["host", *llvm.TARGETS]


@pytest.fixture(params=TARGETS)
def target(request):
    """Code for each processor that this one can stand in for."""
    try:
        with llvm.target(request.param) as made:
            yield made
    except ValueError as lacking:
        pytest.skip(str(lacking))


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 16), (2, 17), (5, 33), (13, 100), (40, 67)])
@pytest.mark.parametrize("case", CASES)
def test_no_kernel_leaves_its_buffers(case, shape, target):
    x, y = (RNG.normal(size=shape).astype(np.float32) for _ in range(2))
    native = compiled(lambda m, a, b: CASES[case](m, a, b), x, y)
    arrays = [x, y][:len(native.inputs)]
    want = native.call(*arrays)
    for end in (True, False):
        for got, expected in zip(run_guarded(native, arrays, end), want):
            np.testing.assert_array_equal(got, expected)


def convolved(m, x, w):
    return RULES["conv2d"](m, x, w, None, 1, 1)


def weight_gradient(m, x, g):
    return RULES["conv_weight"](m, g, x, (5, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [(5, 7), (9, 16), (4, 33)])
def test_convolutions_stay_in_their_buffers_and_are_right(size, dtype, target):
    torch = pytest.importorskip("torch")
    x, w = RNG.normal(size=(2, 3, *size)).astype(dtype), RNG.normal(size=(5, 3, 3, 3)).astype(dtype)
    g = RNG.normal(size=(2, 5, *size)).astype(dtype)
    want = torch.conv2d(*map(torch.from_numpy, (x, w)), padding=1).numpy()
    want_weight = torch.nn.grad.conv2d_weight(torch.from_numpy(x), w.shape, torch.from_numpy(g), padding=1).numpy()
    for build, arrays, exact in ((convolved, [x, w], want), (weight_gradient, [x, g], want_weight)):
        native = compiled(build, *arrays)
        for end in (True, False):
            np.testing.assert_allclose(run_guarded(native, arrays, end)[0], exact, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (3, 5, 7), (17, 33, 9), (64, 64, 64), (31, 130, 257), (130, 31, 400), (4, 4, 3000), (5, 9, 8192), (33, 17, 16 * 700)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_with_odd_tails(m, n, k, dtype, target):
    a, b = RNG.normal(size=(m, k)).astype(dtype), RNG.normal(size=(k, n)).astype(dtype)
    native = compiled(lambda make, a, b: RULES["matmul"](make, a, b), a, b)
    for end in (True, False):
        np.testing.assert_allclose(run_guarded(native, [a, b], end)[0], a.astype(np.float64) @ b, rtol=1e-4, atol=2e-3 if dtype == np.float32 else 1e-11)


@pytest.mark.parametrize("name", ["index_select", "gather", "embedding"])
@pytest.mark.parametrize("bad", [-1, 9, 1 << 40, -(1 << 62)])
def test_bad_indices_are_faults_and_touch_nothing(name, bad, target):
    x = RNG.normal(size=(9, 5)).astype(np.float32)
    index = np.array([[0, 1, 2, 8, 3]] * 3) if name == "gather" else np.array([0, 8, 3])
    build = {"index_select": lambda m, x, i: RULES["index_select"](m, x, 0, i), "gather": lambda m, x, i: RULES["gather"](m, x, 0, i),
             "embedding": lambda m, x, i: RULES["embedding"](m, i, x)}[name]
    native = compiled(build, x, index)
    want = np.take_along_axis(x, index, 0) if name == "gather" else x[index]
    for end in (True, False):
        np.testing.assert_array_equal(run_guarded(native, [x, index], end)[0], want)
    index.flat[1] = bad
    guards = [Guarded(a) for a in (x, index, np.zeros_like(want))]
    try:
        code = native.run(pool.pool().address, 0, native.inputs, [g.array for g in guards])
    finally:
        for guard in guards:
            guard.release()
    assert code == -2
    with pytest.raises(IndexError):
        native.call(x, index)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_are_rounded_alike_for_every_target(dtype, target):
    kind = np.dtype(np.float16) if dtype == "float16" else program.numpy_dtype("bfloat16")
    x = np.concatenate([RNG.normal(size=3000) * 10.0 ** RNG.integers(-9, 5, 3000), [0.0, -0.0, np.inf, -np.inf, np.nan, 65519.9, 65520.0, 6e-8, 2.9e-8]])
    x = x.astype(np.float32)
    native = compiled(lambda m, x: (m.cast(x, dtype), m.cast(m.cast(x, dtype), "float32")), x)
    half, back = native.call(x)
    with np.errstate(all="ignore"):
        import ml_dtypes
        want = x.astype(kind if dtype == "float16" else ml_dtypes.bfloat16)
    np.testing.assert_array_equal(back, want.astype(np.float32))
    assert half.dtype == kind


def test_large_results_are_written_past_the_caches_and_are_right(target):
    x = RNG.normal(size=(1 << 11, 1 << 10)).astype(np.float32)
    native = compiled(lambda m, x: (m.point("add", x, 1), RULES["sum"](m, x, 1)), x)
    assert "nontemporal" in native.library.text
    assert "@llvm.x86.sse.sfence" in native.library.text or not target.triple.startswith("x86")
    for _ in range(3):
        added, total = native.call(x)
        np.testing.assert_array_equal(added, x + 1)
    odd = RNG.normal(size=(1 << 11, 1025)).astype(np.float32)
    native = compiled(lambda m, x: RULES["softmax"](m, x, 1), odd)
    exact = np.exp(odd.astype(np.float64))
    np.testing.assert_allclose(native.call(odd)[0], exact / exact.sum(1, keepdims=True), rtol=1e-5)


def test_input_tables_are_checked_natively():
    x = RNG.normal(size=(4, 6)).astype(np.float32)
    native = compiled(lambda m, x: m.point("add", x, 1), x)
    np.testing.assert_array_equal(native.call(x)[0], x + 1)
    np.testing.assert_array_equal(native.call(np.asfortranarray(x))[0], x + 1)
    np.testing.assert_array_equal(native.call(x.astype(">f4").astype("<f4"))[0], x + 1)
    for bad in (x[:3], x.astype(np.float64), x.reshape(6, 4), x[None]):
        with pytest.raises(ValueError, match="expects input 0"):
            native.call(bad)
    with pytest.raises(ValueError, match="expects input 0"):
        native.call([1, 2])


def test_two_threads_may_run_one_program():
    x = RNG.normal(size=(300, 400)).astype(np.float32)
    native = compiled(lambda m, x: RULES["matmul"](m, RULES["softmax"](m, x, 1), m.permute(x, [1, 0])), x)
    want, failures = native.call(x)[0], []

    def work():
        for _ in range(20):
            if not np.array_equal(native.call(x)[0], want):
                failures.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_thread_count_does_not_change_the_bits(threads):
    x = RNG.normal(size=(513, 300)).astype(np.float32)
    native = compiled(lambda m, x: (RULES["sum"](m, x), RULES["sum"](m, m.float_point("exp", x), 0), RULES["softmax"](m, x, 0)), x)
    before = pool.get_num_threads()
    try:
        pool.set_num_threads(1)
        want = native.call(x)
        pool.set_num_threads(threads)
        for _ in range(5):
            for a, b in zip(native.call(x), want):
                np.testing.assert_array_equal(a, b)
    finally:
        pool.set_num_threads(before)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_the_pool_is_made_again_in_a_forked_child():
    x = RNG.normal(size=(2000, 300)).astype(np.float32)
    native = compiled(lambda m, x: m.float_point("exp", x), x)
    before = pool.get_num_threads()
    try:
        pool.set_num_threads(3)
        want = native.call(x)[0]
        for _ in range(5):
            pid = os.fork()
            if not pid:
                try:
                    os._exit(0 if np.array_equal(native.call(x)[0], want) else 3)
                finally:
                    os._exit(4)
            assert os.waitpid(pid, 0)[1] == 0
    finally:
        pool.set_num_threads(before)


def test_thread_counts_are_checked():
    for bad in (0, -1, 2.0, True, "2"):
        with pytest.raises(RuntimeError, match="set_num_threads"):
            pool.set_num_threads(bad)


def test_memory_of_large_results_is_reused_only_when_free():
    x = RNG.normal(size=(700, 700)).astype(np.float32)
    native = compiled(lambda m, x: m.point("add", x, 1), x)
    first = native.call(x)[0]
    second = native.call(x)[0]
    assert not np.shares_memory(first, second)
    view, place = second[3:5], second.ctypes.data
    del second
    third = native.call(x)[0]
    assert not np.shares_memory(third, view) and not np.shares_memory(third, first)
    np.testing.assert_array_equal(first, x + 1)
    places = {place, third.ctypes.data}
    del third, view
    for _ in range(3):
        native.call(x)
    again = native.call(x)[0]
    assert again.ctypes.data in places
    np.testing.assert_array_equal(again, x + 1)


@pytest.mark.parametrize("count", [255, 256, 1100])
def test_many_arrays(count, target):
    """ctypes takes no more than 1024 arguments; the addresses of all inputs and results come in one table."""
    arrays = [RNG.normal(size=3 + i % 5).astype(np.float32) for i in range(count)]
    native = compiled(lambda m, *xs: tuple(m.point("mul", x, i) for i, x in enumerate(xs)), *arrays)
    for got, x, i in zip(native.call(*arrays), arrays, range(count), strict=True):
        np.testing.assert_array_equal(got, x * np.float32(i))
    strided = [np.repeat(x, 2)[::2] for x in arrays]
    for got, x, i in zip(native.call(*strided), arrays, range(count), strict=True):
        np.testing.assert_array_equal(got, x * np.float32(i))
    for at in (0, count - 1):
        for bad in (arrays[at][:-1], arrays[at].astype(np.float64), None):
            with pytest.raises(Misfit, match=f"expects input {at} "):
                native.call(*arrays[:at], bad, *arrays[at + 1:])
    with pytest.raises(TypeError, match=f"takes {2 * count} arrays, got {2 * count - 1}"):
        native.run(pool.pool().address, 0, native.inputs, [*arrays, *arrays[1:]])


@pytest.mark.parametrize("end", [True, False])
def test_a_table_of_arrays_is_read_within_bounds(end):
    arrays = [RNG.normal(size=5).astype(np.float32) for _ in range(300)]

    def total(m, first, *rest):
        for x in rest:
            first = m.point("add", first, x)
        return first

    out, = run_guarded(compiled(total, *arrays), arrays, end)
    np.testing.assert_allclose(out, np.sum(arrays, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("rows, target_dims", [(300, None), (3, None), (20, [1])])
def test_parts_that_a_guard_keeps_out_are_not_read(rows, target_dims, end):
    """A part of a join is numbered from where the join begins, which is an address before that part: nothing lies there."""
    first, guarded = RNG.normal(size=(rows, 3)).astype(np.float32), Guarded(RNG.normal(size=(rows, 4)).astype(np.float32), end)
    second = guarded.array[:, 0 if not end else 1::3]

    def joined(m, a, b):
        parts = RULES["cat"](m, [m.point("add", a, 1), RULES["abs"](m, b), b], 1)
        return RULES["sum"](m, parts) if target_dims is None else RULES["sum"](m, parts, *target_dims)

    native = compiled(joined, first, second)
    try:
        out = np.empty(*native.outputs[0])
        assert native.run(pool.pool().address, 0, native.inputs, [first, second, out]) == 0
    finally:
        guarded.release()
    want = np.concatenate([first + 1, np.abs(second), second], 1).astype(np.float64)
    np.testing.assert_allclose(out, want.sum() if target_dims is None else want.sum(*target_dims), rtol=1e-4, atol=1e-3)
