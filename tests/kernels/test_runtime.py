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
        code = native._native(pool.pool().address, native._state.ctypes.data, native._table.ctypes.data,
                              *[g.array for g in (*guards, *outs)])
        assert code == 0
        return [g.array.copy() for g in outs]
    finally:
        for g in (*guards, *outs):
            g.release()


CASES = {
    "pointwise": lambda m, x, y: m.point("add", m.float_point("exp", x), y),
    "rows": lambda m, x, y: RULES["softmax"](m, x, 1),
    "columns": lambda m, x, y: RULES["sum"](m, x, 0),
    "everything": lambda m, x, y: RULES["sum"](m, x),
    "transposed": lambda m, x, y: m.point("add", m.permute(x, [1, 0]), m.permute(y, [1, 0])),
    "product": lambda m, x, y: RULES["matmul"](m, x, m.permute(y, [1, 0])),
    "other product": lambda m, x, y: RULES["matmul"](m, m.permute(x, [1, 0]), y),
    "sliced": lambda m, x, y: m.slice(m.point("mul", x, y), 1, x.shape[1] // 2, x.shape[1], 2),
    "joined": lambda m, x, y: RULES["cat"](m, [x, y], 1),
    "convolution": lambda m, x, y: RULES["conv1d"](m, m.unsqueeze(x, 0), m.unsqueeze(m.permute(m.slice(y, 0, 0, 1, 1), [1, 0]), 1),
                                                   None, 1, 1) if x.shape[0] == 1 else RULES["conv1d"](
                                                       m, m.unsqueeze(x, 1), m.reshape(m.slice(y, 1, 0, 1, 1), (y.shape[0], 1, 1))),
}


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 16), (2, 17), (5, 33), (13, 100), (40, 67)])
@pytest.mark.parametrize("case", CASES)
def test_no_kernel_leaves_its_buffers(case, shape):
    x, y = (RNG.normal(size=shape).astype(np.float32) for _ in range(2))
    native = compiled(lambda m, a, b: CASES[case](m, a, b), x, y)
    arrays = [x, y][:len(native.inputs)]
    want = native.call(*arrays)
    for end in (True, False):
        for got, expected in zip(run_guarded(native, arrays, end), want):
            np.testing.assert_array_equal(got, expected)


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
