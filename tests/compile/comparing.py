"""What the tests of compiled steps share: one small model and its data, values made plain, and a step compiled here beside PyTorch's eager one."""
import numpy as np
import pytest

import rushlight


def model(T, bias=True):
    T.manual_seed(0)
    return T.nn.Sequential(T.nn.Linear(6, 16, bias=bias), T.nn.Tanh(), T.nn.Linear(16, 3, bias=bias))


def data(T, at):
    random = np.random.RandomState(at)
    return T.from_numpy(random.randn(8, 6).astype(np.float32)), T.from_numpy(random.randint(0, 3, 8))


def plain(value):
    """Anything as nested lists of arrays."""
    if hasattr(value, "detach"):
        return value.detach().numpy().copy()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def close(found, want, where="result", tolerance=2e-5):
    if isinstance(want, dict):
        assert found.keys() == want.keys(), where
        for key in want:
            close(found[key], want[key], f"{where}.{key}", tolerance)
    elif isinstance(want, list):
        assert len(found) == len(want), where
        for at, (one, two) in enumerate(zip(found, want)):
            close(one, two, f"{where}[{at}]", tolerance)
    elif isinstance(want, np.ndarray):
        assert found.dtype == want.dtype and found.shape == want.shape, where
        np.testing.assert_allclose(found, want, rtol=1e-3, atol=tolerance, err_msg=where)
    elif isinstance(want, float):
        assert found == pytest.approx(want, rel=1e-3, abs=tolerance), where
    else:
        assert found == want, where


def against_torch(make, steps=7, native=True, tolerance=2e-5):
    """make(T) -> (step(x, y), observe()); the step compiled here and eager in PyTorch agree after each call."""
    ours, seen = make(rushlight)
    torch = pytest.importorskip("torch")
    theirs, wanted = make(torch)
    compiled = rushlight.compile(ours)
    for at in range(steps):
        close(plain(compiled(*data(rushlight, at))), plain(theirs(*data(torch, at))), f"result of step {at}", tolerance)
        close(plain(seen()), plain(wanted()), f"after step {at}", tolerance)
    if native:
        assert is_native(compiled)
    return compiled


def is_native(compiled):
    entries = compiled._rushlight_compiled.start.entries
    return bool(entries) and all(hasattr(getattr(entry.run.__globals__.get("graph"), "lowered", None), "native") for entry in entries)


def observed(net, *optimizers):
    """Parameters, buffers, gradients and optimizer state."""
    def observe():
        return {"state": dict(net.state_dict()), "grads": [p.grad for p in net.parameters()],
                "optimizers": [{str(key): value for key, value in opt.state_dict()["state"].items()} for opt in optimizers]}
    return observe


def in_one_program(step):
    """Whether a compiled step is one native program that calls nothing."""
    made = step._rushlight_compiled
    return not made.breaks and is_native(step) and not any(
        entry.run.__globals__["graph"].lowered.native.calls for entry in made.start.entries)
