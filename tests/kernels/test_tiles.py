"""Products of bfloat16 by tiles: every layout and edge of the operands, what follows them, threads, forks, and who may use them."""
import os
import subprocess
import sys
import threading

import ml_dtypes
import numpy as np
import pytest

import rushlight as torch
from rushlight.graph import Graph, GraphModule
from rushlight.kernels import host, llvm, pool, standalone, tiles, work
from rushlight.kernels.rules import RULES

from .test_runtime import RNG, compiled, run_guarded

BFLOAT16 = ml_dtypes.bfloat16
needs_tiles = pytest.mark.skipif(not tiles.usable(), reason="this processor has no tiles, or the system does not grant them")


def normal(*shape, turned=False):
    """Random numbers; `turned`: the last two dims the other way round in memory."""
    values = RNG.normal(size=shape).astype(BFLOAT16)
    return np.swapaxes(np.ascontiguousarray(np.swapaxes(values, -1, -2)), -1, -2) if turned else values


def exact(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


def rounded_once(found, want, a, b):
    """Nothing is further from the exact result than half a unit of bfloat16 and the error of sums in float32."""
    assert found.dtype == BFLOAT16
    error = np.abs(found.astype(np.float64) - want)
    assert (error <= np.abs(want) / 256 + 1e-5 * exact(np.abs(a), np.abs(b))).all()


def product(make, a, b):
    return RULES["matmul"](make, a, b)


def in_float32(make, a, b):
    """The sums themselves, stored."""
    return make.external("matmul_bfloat16", [a, b], (*a.shape[:-1], b.shape[-1]), "float32")


def uses_tiles(native):
    return "tdpbf16ps" in native.stages.module


def swapped(build, turned):
    """The product of operands that are given the other way round where `turned` says so."""
    def run(make, *sides):
        return build(make, *[make.permute(side, [1, 0]) if other else side for side, other in zip(sides, turned)])
    return run


@needs_tiles
@pytest.mark.parametrize("m, k, n", [(2, 300, 70), (16, 64, 40), (32, 32, 64), (33, 31, 65), (64, 1024, 96), (131, 1600, 37), (70, 1, 900), (100, 2500, 530)])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_every_layout_and_edge(m, k, n, turned):
    a, b = (normal(*shape[::-1] if other else shape) for shape, other in zip(((m, k), (k, n)), turned))
    left, right = (side.T if other else side for side, other in zip((a, b), turned))
    native, sums = compiled(swapped(product, turned), a, b), compiled(swapped(in_float32, turned), a, b)
    assert uses_tiles(native) and uses_tiles(sums)
    for end in (True, False):
        rounded_once(run_guarded(native, [a, b], end)[0], exact(left, right), left, right)
        np.testing.assert_allclose(run_guarded(sums, [a, b], end)[0], exact(left, right), rtol=1e-4, atol=1e-3)


@needs_tiles
def test_elements_that_lie_apart():
    a, b = normal(70, 3, 90)[:, 1], normal(90, 140)[:, ::2]
    for left, right in ((a, b), (a[:, ::-1], b[::-1]), (normal(140, 90)[::2, ::3], normal(60, 40)[::2]), (np.broadcast_to(a[:1], a.shape), b)):
        rounded_once(compiled(product, left, right).call(left, right)[0], exact(left, right), left, right)


@needs_tiles
@pytest.mark.parametrize("left, right", [((5, 40, 70), (5, 70, 50)), ((3, 1, 64, 96), (4, 96, 64)), ((2, 3, 33, 65), (65, 80)), ((40, 70), (6, 70, 33)),
                                         ((300, 8, 64), (300, 64, 16))])
@pytest.mark.parametrize("turned", [False, True])
def test_batches(left, right, turned):
    a, b = normal(*left, turned=turned), normal(*right, turned=turned)
    native = compiled(product, a, b)
    assert uses_tiles(native)
    rounded_once(native.call(a, b)[0], exact(a, b), a, b)


FOLLOWING = {
    "bias and relu": (lambda m, x, w, b: RULES["relu"](m, RULES["linear"](m, x, w, b)), lambda sums, b: np.maximum(sums + b, 0)),
    "residual": (lambda m, x, w, b: m.point("add", RULES["linear"](m, x, w, b), b), lambda sums, b: (sums + b).astype(BFLOAT16).astype(np.float64) + b),
    "rows": (lambda m, x, w, b: RULES["softmax"](m, RULES["linear"](m, x, w, b), 1),
             lambda sums, b: np.exp(sums + b) / np.exp(sums + b).sum(1, keepdims=True)),
}


@needs_tiles
@pytest.mark.parametrize("m, k, n", [(64, 96, 128), (70, 33, 45), (300, 1700, 900), (37, 300, 1500)])
@pytest.mark.parametrize("case", FOLLOWING)
def test_what_follows_runs_inside(case, m, k, n):
    x, w, b = normal(m, k) / BFLOAT16(k ** 0.5), normal(n, k), normal(n)
    build, want = FOLLOWING[case]
    native = compiled(build, x, w, b)
    assert uses_tiles(native)
    whole = case == "rows" and n > 1024  # a row that is not finished by one task
    assert sum("in each block" in work.of_step(step).note for step in native.stages.steps) == (not whole)
    right = want(exact(x, w.T), b.astype(np.float64))
    for end in (True, False):
        (found,) = run_guarded(native, [x, w, b], end)
        # an exponential of what is rounded before it may be off by a unit of its argument
        np.testing.assert_allclose(found.astype(np.float64), right, rtol=1 / 16 if case == "rows" else 1 / 64, atol=1e-6 if case == "rows" else 0.02)


@needs_tiles
@pytest.mark.parametrize("m, k, n", [(700, 900, 650), (256, 300, 512), (1200, 64, 64), (40, 500, 1500)])
@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_the_same_bits_on_every_run(threads, m, k, n):
    a, b = normal(m, k), normal(k, n)
    before = pool.get_num_threads()
    try:
        pool.set_num_threads(threads)
        native = compiled(product, a, b)
        first = native.call(a, b)[0].copy()
        rounded_once(first, exact(a, b), a, b)
        for _ in range(5):
            np.testing.assert_array_equal(native.call(a, b)[0].view(np.int16), first.view(np.int16))
    finally:
        pool.set_num_threads(before)


@needs_tiles
def test_threads_of_the_user_at_once():
    a, b = normal(300, 500), normal(500, 400)
    native = compiled(product, a, b)
    want, wrong = native.call(a, b)[0].copy(), []

    def run():
        for _ in range(20):
            if not (native.call(a, b)[0] == want).all():
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


FORKED = """
import os
import rushlight as torch
from rushlight.kernels import tiles
a = torch.randn(300, 200).bfloat16()
f = torch.compile(lambda a: a @ a.T)
want = f(a)
assert tiles.usable() and torch.equal(want, a @ a.T)
child = os.fork()
if not child:
    os._exit(0 if torch.equal(f(a), want) and torch.equal(torch.compile(lambda a: (a @ a.T).relu())(a), want.relu()) else 1)
assert os.waitpid(child, 0)[1] == 0
"""


@needs_tiles
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_keeps_its_parents_tiles():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=120, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert not done.returncode, done.stderr


@needs_tiles
def test_infinities_and_nan_go_where_they_belong():
    a, b = normal(40, 70), normal(70, 50)
    a[3, 5], a[7, 69], a[39, 0] = np.inf, np.nan, -np.inf
    b[0, 0] = 0.0
    with np.errstate(invalid="ignore"):
        want = a.astype(np.float32) @ b.astype(np.float32)
    (found,) = compiled(product, a, b).call(a, b)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(want))
    np.testing.assert_array_equal(np.sign(found.astype(np.float32))[np.isinf(want)], np.sign(want)[np.isinf(want)])
    huge = np.full((40, 70), 3e38, BFLOAT16)
    assert np.isposinf(compiled(product, huge, normal(70, 50) ** 2 + 1).call(huge, normal(70, 50) ** 2 + 1)[0].astype(np.float32)).all()


@needs_tiles
def test_denormal_numbers_count_as_zeros_as_in_pytorch():
    original = pytest.importorskip("torch")
    values = {"operand": (1e-39, 1e30), "sum": (1e-20, 1e-20)}
    for left, right in values.values():
        a, b = np.full((64, 64), left, BFLOAT16), np.full((64, 64), right, BFLOAT16)
        (found,) = compiled(product, a, b).call(a, b)
        theirs = original.mm(*[original.from_numpy(side.view(np.int16)).view(original.bfloat16) for side in (a, b)])
        np.testing.assert_array_equal(found.astype(np.float32), theirs.float().numpy())


@pytest.mark.parametrize("m, k, n", [(0, 64, 900), (64, 0, 900), (900, 64, 0), (64, 1, 1000), (1, 500, 500), (500, 500, 1)])
def test_empty_and_single(m, k, n):
    a, b = torch.randn(m, k).bfloat16(), torch.randn(k, n).bfloat16()
    want = a.double() @ b.double()
    for found in (torch.compile(lambda a, b: a @ b)(a, b), a @ b):
        assert found.shape == (m, n) and found.dtype == torch.bfloat16
        assert torch.allclose(found.double(), want, rtol=1 / 128, atol=1e-3)


def test_sizes_that_stay_open():
    f = torch.compile(lambda a, w: torch.nn.functional.gelu(a @ w), dynamic=True)
    w = torch.randn(96, 130).bfloat16()
    for rows in (50, 64, 33, 257, 100):
        a = torch.randn(rows, 96).bfloat16()
        want = torch.nn.functional.gelu((a.float() @ w.float()).bfloat16())
        assert torch.allclose(f(a, w).float(), want.float(), rtol=1 / 64, atol=1 / 32)


def test_training_by_autocast_agrees_with_eager_mode():
    x, y = torch.randn(64, 100), torch.randint(0, 10, (64,))
    found = []
    for wrap in (torch.compile, lambda f: f):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(100, 128), torch.nn.GELU(), torch.nn.Linear(128, 10))

        def loss(x, y, net=net):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return torch.nn.functional.cross_entropy(net(x).float(), y)

        wrap(loss)(x, y).backward()
        found.append([p.grad for p in net.parameters()])
    for compiled_grad, eager_grad in zip(*found):
        assert torch.allclose(compiled_grad, eager_grad, rtol=1 / 16, atol=2e-3 * float(eager_grad.abs().max()) + 1e-4)


# -- who may use them ------------------------------------------------------------------------------------------------------

def test_what_the_system_refuses_is_no_feature(monkeypatch):
    described = host.Host("cpu", frozenset(["avx512f", "amx-tile", "amx-bf16"]), "+avx512f,+amx-tile,-avx,+amx-bf16", "1", "x86_64")
    monkeypatch.setattr(host, "tiles_are_kept", lambda: False)
    refused = host.granted(described)
    assert refused.features == {"avx512f"} and refused.flags == "+avx512f,-amx-tile,-avx,-amx-bf16"  # so code from a cache is another
    monkeypatch.setattr(host, "tiles_are_kept", lambda: True)
    assert host.granted(described) == described


def test_a_lesser_processor_has_none():
    try:
        with llvm.target("avx2"):
            assert not tiles.usable()
            a, b = normal(64, 64), normal(64, 64)
            assert not uses_tiles(compiled(product, a, b))
    except ValueError as lacking:
        pytest.skip(str(lacking))


@needs_tiles
def test_where_the_dot_instruction_serves(monkeypatch):
    """Processors with it and without tiles."""
    monkeypatch.setattr(tiles, "usable", lambda: False)
    a, b = normal(70, 90), normal(90, 130)
    native = compiled(product, a, b)
    assert "dpbf16ps" in native.stages.module and not uses_tiles(native)
    for end in (True, False):
        rounded_once(run_guarded(native, [a, b], end)[0], exact(a, b), a, b)


def test_code_for_other_processes_has_no_tiles():
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    graph.output((graph.call_function(torch.matmul, (x, y)),))
    plan = standalone.planned(GraphModule({}, graph), [torch.randn(64, 64).bfloat16() for _ in range(2)], {}, None)
    assert "tdpbf16ps" not in str(plan.made.module)
