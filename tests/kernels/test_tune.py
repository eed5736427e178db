"""mode="max-autotune": products are measured once, remembered, and right in every shape that may be chosen."""
import numpy as np
import pytest

import rushlight as torch
from rushlight.kernels import cache, llvm, matmul, tune
from rushlight.kernels.arrays import Source
from rushlight.kernels.panels import Shape
from rushlight.kernels.rules import RULES

from .test_runtime import RNG, compiled, run_guarded

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.delenv("RUSHLIGHT_CACHE", raising=False)
    cache._private.cache_clear()
    monkeypatch.setattr(tune, "_known", {})
    yield
    cache._private.cache_clear()


def every_shape(first, sources, registers):
    found = {first}
    for changes in (tune.tiles, tune.tasks, tune.packing):
        for shape in list(found):
            found.update(changes(shape, sources, registers))
    return sorted(found)


@pytest.mark.parametrize("turned", [False, True])
def test_every_candidate_gives_the_product_and_stays_inside(turned):
    a, b = RNG.standard_normal((67, 33)).astype(np.float32), RNG.standard_normal((45, 33) if turned else (33, 45)).astype(np.float32)

    def build(make, x, y):
        return RULES["matmul"](make, x, make.permute(y, [1, 0]) if turned else y)

    seen = []
    token = matmul.DECIDE.set(lambda array, sources, first, registers: seen.append(every_shape(first, sources, registers)) or first)
    try:
        compiled(build, a, b)
    finally:
        matmul.DECIDE.reset(token)
    assert len(seen[0]) > 20
    for shape in seen[0][::7]:
        token = matmul.DECIDE.set(lambda *_, shape=shape: shape)
        try:
            native = compiled(build, a, b)
        finally:
            matmul.DECIDE.reset(token)
        for end in (True, False):
            np.testing.assert_allclose(run_guarded(native, [a, b], end)[0], a @ (b.T if turned else b), rtol=1e-4, atol=1e-4, err_msg=str(shape))


def test_what_won_is_remembered(fresh, monkeypatch):
    a, b = RNG.standard_normal((128, 96)).astype(np.float32), RNG.standard_normal((96, 160)).astype(np.float32)
    build = lambda make, x, y: RULES["matmul"](make, x, y)  # noqa: E731
    searches = []
    search = tune.search
    monkeypatch.setattr(tune, "search", lambda *args: searches.append(args) or search(*args))
    for again in range(3):
        with tune.measured():
            native = compiled(build, a, b)
        np.testing.assert_allclose(native.call(a, b)[0], a @ b, rtol=1e-4, atol=1e-4)
        if again == 1:
            tune._known.clear()  # a later process finds it on the disk
    assert len(searches) == 1


def test_measuring_ends(fresh, monkeypatch):
    """After its seconds a graph's products are cut up as without measuring, and nothing is remembered of them."""
    a = RNG.standard_normal((128, 128)).astype(np.float32)
    monkeypatch.setattr(tune, "SECONDS", 0.0)
    monkeypatch.setattr(tune, "search", None)
    with tune.measured():
        native = compiled(lambda make, x, y: RULES["matmul"](make, x, y), a, a)
    np.testing.assert_allclose(native.call(a, a)[0], a @ a, rtol=1e-4, atol=1e-4)
    assert not tune._known


def test_a_wrong_entry_is_not_used(fresh):
    first = Shape(1, 8, 8, 8, 4, 8, 1, 1, 1, False, True, 8)
    turned = [Source("a", (8, 8), "float32", (8, 1)), Source("b", (8, 8), "float32", (1, 8))]
    for content in (b"[1, 2]", b"{}", b"[1, 9, 8, 8, 4, 8, 1, 1, 1, false, true, 8]", b'[1, 8, 8, 8, "x", 8, 1, 1, 1, false, true, 8]',
                    b"[1, 8, 8, 8, 4, 8, 1, 1, 1, false, false, 8]", b"[1, 8, 8, 8, 0, 8, 1, 1, 1, false, true, 8]", b"[1, 8, 8, 8, 4, 8, 1, 1, 1, false, true, 0]"):
        cache.store("entry", content)
        assert tune.remembered("entry", first, turned) is None
    cache.store("entry", b"[1, 8, 8, 8, 8, 8, 1, 1, 1, true, true, 8]")
    assert tune.remembered("entry", first, turned) == first._replace(rows=8, pack_a=True)


def test_compile_mode(fresh):
    layer = torch.nn.Linear(96, 128)
    run = torch.compile(layer, mode="max-autotune")
    x = torch.randn(64, 96)
    with torch.no_grad():
        assert torch.allclose(run(x), layer(x), atol=1e-4)
    assert tune._known
    assert torch.compile(layer, mode="reduce-overhead")(x).shape == (64, 128)


def test_clocks_that_are_too_few_are_refused():
    x = RNG.normal(size=(8, 8)).astype(np.float32)
    native = compiled(lambda make, a: make.float_point("exp", a), x)
    with pytest.raises(ValueError, match="words of int64"):
        native.time_steps(np.zeros(len(native.stages.steps), np.int64))
