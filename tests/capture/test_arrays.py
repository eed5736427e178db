"""NumPy's arrays inside compiled functions: the same arrays and numbers as NumPy gives, as one graph where it can be one."""

import numpy as np
import pytest

import rushlight as torch
from tests.capture.comparing_arrays import same

A = np.array([[0.5, -1.25, 2.0], [3.5, 0.25, -0.75]])
WHOLE = np.array([[3, -1, 4], [1, -5, 9]])
GIVEN = {
    "a": A, "b": A * 0.5 + 0.25, "v": A[0] + 2, "i": WHOLE, "j": WHOLE[1], "m": A > 0.3, "f": A.astype(np.float32), "h": A.astype(np.float16), "u": np.abs(WHOLE).astype(np.uint8),
    "s": WHOLE.astype(np.int16), "c": A + 1j * A, "z": np.array(2.5), "p": np.abs(A) + 0.1,
}
# Captured whole.
CAPTURED = """
np.sin(a) * 2 + np.cos(b) | np.exp(f) | np.sqrt(p) | np.log1p(p) - np.log(p) | np.exp(i) | np.sin(s) | np.sqrt(u) | np.tanh(h) + 0.1 | h * 0.1 | f * 0.1 | f + a
f * np.float64(2) | f * np.float32(2) | i + 2.5 | i / 2 | i * True | u + 3 | u + i | s * i | m + m | m & (a > 0) | m | (b < 0) | ~m | ~i | -a | -i | +f | abs(a) | abs(i)
a // 0.5 | a % 0.7 | np.floor(a) % 1 | np.floor(a) % -1.0 | -a % a | np.fmod(a, 0.7) | p ** 2 | p ** 0.5 | i ** 2 | s ** 2 | a ** 3 | a - v | a * v | v @ a.T | a @ b.T | np.matmul(i, i.T) | np.dot(v, v) | np.dot(a, v) | np.inner(v, v)
np.outer(v, v) | np.maximum(a, b) | np.minimum(a, 0.3) | np.maximum(i, 2) | np.fmax(a, b) | np.hypot(a, b) | np.arctan2(a, b) | np.copysign(a, -1.0) | np.logaddexp(a, b) | np.isnan(a)
np.isfinite(a / 1.0) | a > b | a >= 0.5 | i == 3 | i != j | u < 5 | np.logical_and(a > 0, m) | np.logical_not(i) | np.square(i) | np.positive(a) | np.floor(a) | np.ceil(f) | np.trunc(a)
np.rint(a) | np.sign(c) if False else a | np.deg2rad(a) | np.conjugate(c) | c * 2 | c + a | np.absolute(c) | np.reciprocal(a) | np.fabs(a) | np.invert(m) | np.bitwise_xor(i, 3)
a.sum() | a.sum(axis=0) | a.sum(1) | a.sum((0, 1)) | a.sum(axis=1, keepdims=True) | f.sum() | np.sum(i) | np.sum(s) | np.sum(m) | np.sum(s, axis=0) | np.sum(f, dtype=np.float64) | np.sum(a, axis=-1)
a.mean() | i.mean() | f.mean(axis=1) | h.mean() | np.mean(m) | np.prod(a) | np.prod(i, axis=1) | a.std() | a.var(axis=0) | a.std(ddof=1) | np.var(a, axis=1, keepdims=True) | i.std()
a.max() | a.min(axis=1) | np.max(i) | np.amin(a, axis=0, keepdims=True) | i.argmax() | a.argmin(axis=1) | np.argmax(a, axis=0) | m.any() | m.all(axis=1) | np.any(a > 3) | np.all(i, axis=0)
np.cumsum(a, axis=1) | a.cumsum() | np.cumsum(i) | np.cumsum(s) | np.cumprod(a, axis=0) | np.clip(a, -1, 1) | a.clip(0, None) | i.clip(0, 3) | np.clip(f, 0.25, 1.5)
np.where(a > 0, a, b) | np.where(m, 1.0, f) | np.where(m, 1, i) | np.where(a > 0, 0, f) | np.where(i, a, 0) | np.where(m, np.nan, a)
a.T | a.T @ a | a.transpose() | a.transpose(1, 0) | np.transpose(a, (1, 0)) | a.reshape(3, 2) | a.reshape((6,)) | a.reshape(-1) | np.reshape(a, (1, -1)) | a.ravel() | a.flatten() | np.ravel(i)
np.expand_dims(a, 0) | np.squeeze(a[None]) | a[None].squeeze(0) | np.swapaxes(a, 0, 1) | np.moveaxis(a, 0, 1) | np.roll(a, 1) | np.roll(a, 1, axis=1) | np.tile(v, 2) | np.tile(v, (2, 1)) | np.repeat(v, 2)
np.repeat(a, 2, axis=0) | np.concatenate([a, b]) | np.concatenate((a, f), axis=1) | np.concatenate([i, a]) | np.stack([a, b], axis=1) | np.vstack([v, v]) | np.hstack([a, b]) | np.copy(a) | a.copy()
a.astype(np.float32) | a.astype("float16") | a.astype(int) | i.astype(float) | f.astype(np.float64) | m.astype(np.float32) | a.astype(bool) | i.astype(np.int8) | u.astype(np.int64) | a.astype(float)
a[0] | a[0, 1] | a[-1] | a[:, 1] | a[..., 0] | a[0, ...] | a[0, 1, ...] | a[1:] | a[:, ::2] | a[None] | a[:, None, :] | v[1] | v[[0, 2]] | a[[1, 0]] | a[:, [2, 0]] | v[np.argmax(v)] | a[i.argmin(axis=0) % 2 * 0] if False else a
v[j % 3] if False else v | a[np.array([1, 0, 1])] | len(a) | a.shape | a.ndim | a.size | a.dtype | f.dtype == np.float32 | isinstance(a, np.ndarray) | isinstance(a.sum(), np.floating) | type(a) is np.ndarray
type(f.sum()) is np.float32 | [row.sum() for row in a] | [x for x in v] | sum(v) | a.shape[0] * 2 | z * 2 | z + a | z.shape | [*v] | max(len(a), 3) | list(v[:2])
np.zeros(3) + v | np.ones((2, 3)) * a | np.full(3, 2.5) + v | np.full((2,), 7) | np.zeros_like(a) | np.ones_like(i) | np.full_like(f, 3) | np.zeros(a.shape, dtype=np.float32) | np.zeros((len(a), 2), int)
np.arange(3) * v | np.arange(1, 7, 2) | np.linspace(0, 1, 3) + v | np.eye(3) @ v | np.array([1, 2, 3]) + j | np.array([1.5, 2.5, 3.5], dtype=np.float32) * v | np.array([[1, 2, 3]]) + i | np.asarray(a) is a
np.array(a) | np.array([a.sum(), b.sum()]) | np.array([v, v * 2]) | np.asarray([1, 2, 3]) * j | np.identity(2) | np.array([], dtype=float) | np.add(v, [1, 2, 3])
torch.from_numpy(a) * 2 | torch.as_tensor(f) + 1 | torch.tensor(a) | torch.tensor(f, dtype=torch.float64) | torch.from_numpy(np.sin(a)) | torch.as_tensor(i.astype(np.float32)) | torch.asarray(a)
(torch.from_numpy(a) * 2).numpy() + 1 | torch.from_numpy(a).numpy() | np.asarray(torch.from_numpy(a) + 1) | np.array(torch.from_numpy(a)) | torch.from_numpy(a).detach().cpu().numpy().mean()
(a.dot(v) > 1).any() | np.where(a.sum(axis=1) > 0, 1, -1) | (a - a.mean(axis=0)) / a.std(axis=0) | np.exp(v - v.max()) / np.exp(v - v.max()).sum() | ((a @ v) ** 2).sum() ** 0.5
"""
# Left to NumPy: values, text, shapes that depend on values, and what has no exact counterpart.
BROKEN = """
a.conj() | a.conjugate() | np.dot(a, 2) | np.dot(2, i) | np.inner(a, 2.5) | np.outer(a, 2) | a[m] | a[a > 0] | np.nonzero(i) | float(a.sum()) | int(i[0, 0]) | a.tolist() | a.sum().item() | str(v) | f"{a.sum():.2f}" | repr(v) | np.sign(a) | np.percentile(a, 50) | np.median(a) | i // 2 | i % 2
np.linalg.norm(v) | np.einsum("ij,ij->", a, b) | v[::-1] | np.flip(v) | np.sum(u) | u.sum(axis=0) | a.astype(np.uint8) | c.real | a.flat[0] | a.strides | a.flags.c_contiguous | v.base is None | 2.5 in a | a == None
1.0 if a.sum() > 0 else 2.0 | np.array_equal(a, b) | np.allclose(a, a) | hash(a.sum()) | {a.sum(): 1} | np.unique(i) | np.sort(v) | np.argsort(v) | v[v.argmax()] | np.histogram(v) | i << 1 | divmod(a, 0.5)
np.broadcast_to(v, (2, 3)) | a.sum(axis=(0,), dtype=np.float32) | np.sum(a, where=m) | np.sum(a, initial=2.0) | np.add(a, b, dtype=np.float64) | np.arange(0, 1, 0.25) + 1 | np.array([a.sum(), 1.0]) | a + torch.ones(3)
torch.ones(3) * v.sum() | torch.ones(2).double() + a[:, 0] | a.dtype.name | np.round(a, 1) | a.round() | i ** -1 if False else i | np.random.rand(0) | np.array(["x"]) | np.array([1, "x"]) | v.argsort() | [float(x) for x in v]
np.reshape(a, (3, 2), order="F") | np.concatenate([a, b], axis=None) | a.view(np.int64) | bool(m.any()) | any(x > 3 for x in v) | sorted(v) | max(v) | a.repeat([1, 2], axis=0) | np.trace(a) | np.diag(v) | np.triu(a) | np.clip(u, -1, 3) | np.float32(v[0]) | np.float64(v.sum())
(lambda q: (q.__iadd__(1), q))(a.copy()) | np.sum([1, 2, 3]) | np.mean([1.0, 2.0]) | np.sqrt(2) | np.float32(3) * 2 | np.pi * v[0] | np.prod((2, 3)) | np.shape(a) | np.ndim(a) | a.__class__.__name__
"""
REFUSED = """
a + np.ones(4) | a.reshape(5) | a.sum(axis=4) | a[5] | v[1, 2] | a @ a | -m | m - m | u + 300 | np.concatenate([a, v]) | a.nothing | np.squeeze(a, 0) | np.stack([a, v]) | np.transpose(a, (0, 0)) | len(z) | iter(z) | bool(a)
np.expand_dims(a, 7) | i ** -1 | v[1.5] | a.max(axis=3) | np.full(2, "x") + 1 | np.zeros(-1) | a.astype("nothing") | np.swapaxes(a, 0, 5) | a < "x" and a | torch.from_numpy(a.sum()) | np.where(m, a, np.ones(5))
"""


def listed(text):
    return [one.strip() for line in text.strip().splitlines() for one in split(line)]


def split(line):
    """The expressions of a line: a bar with spaces around it stands between them, but for those in `m | (...)`."""
    return [part.replace("\0", " | ") for part in line.replace("m | (b", "m\0(b").split(" | ")]


def function(text):
    scope = {"np": np, "torch": torch}
    exec(f"def f({', '.join(GIVEN)}):\n    return {text}", scope)
    return scope["f"]


def fresh():
    return {name: value.copy() for name, value in GIVEN.items()}


@pytest.mark.parametrize("text", listed(CAPTURED))
def test_captured_as_one_graph(text):
    f = function(text)
    made = torch.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        same(made(**fresh()), f(**fresh()))


@pytest.mark.parametrize("text", listed(BROKEN))
def test_left_to_numpy(text):
    f = function(text)
    made = torch.compile(f, backend="eager")
    for _ in range(2):
        same(made(**fresh()), f(**fresh()))


@pytest.mark.parametrize("text", listed(REFUSED))
def test_refused_in_the_words_of_numpy(text):
    f = function(text)
    made = torch.compile(f, backend="eager")
    with pytest.raises(Exception) as want:
        f(**fresh())
    for _ in range(2):
        with pytest.raises(type(want.value)) as got:
            made(**fresh())
        assert str(got.value) == str(want.value)


# What writes show of the memory that results share. Each runs on a, (2, 3), and its transposed is turned: NumPy hands such orders on.
MEMORY = """
r = +a; r[0] = 100 | r = np.positive(a); r[0] = 100 | r = np.clip(a, None, None); r[0] = 100 | r = a.conj(); r[0] = 100 | r = np.conjugate(a); r[0] = 100
r = a[0, 0]; a += 1 | r = np.zeros_like(a.T); r.ravel()[0] = 5 | r = np.full_like(a.T, 2); r.ravel()[0] = 5 | r = np.concatenate([a.T, a.T]); r.ravel()[0] = 5
r = np.cumsum(a.T, axis=0); r.ravel()[0] = 5 | r = a.T.copy(); r.ravel()[0] = 5 | r = np.copy(a.T); r.ravel()[0] = 5 | r = np.array([a.T, a.T]); r.ravel()[0] = 5
r = a.T + 1; r.ravel()[0] = 5 | r = np.sin(a.T); r.reshape(-1)[0] = 5 | r = a.T.astype(np.float32); r.reshape(-1)[0] = 5 | r = a.T + np.ones((3, 2)); r.ravel()[0] = 5
r = np.where(a.T > 1, a.T, 0.0); r.ravel()[0] = 5 | r = a.T[[0, 1]]; r.ravel()[0] = 5 | r = np.tile(a.T, 2); r.ravel()[0] = 5 | r = a.T @ a; r.ravel()[0] = 5
"""
PLACES = "t[0, :, [0, 1]] | t[0, None, [0, 1]] | t[1, [0, 1]] | t[[0, 1], 0] | t[[0, 1], :, 1] | t[:, 0, [1, 2]] | t[np.int64(0), :, [0, 1]]"
REST = """
np.sum(t, axis=()) | np.mean(t, axis=()) | t.max(axis=()) | np.any(t, axis=()) | np.argmax(t, keepdims=True) | np.eye(0) | np.eye(0, 3) | np.identity(0) | t.sum().reshape(1)
(t * np.nan).astype(int) | (t * np.inf).astype(int) | (t * 1e20).astype(int) | (t * 1e10).astype(np.int32) | ((t + 1) * np.inf).astype(np.int16)
"""


@pytest.mark.parametrize("text", [*[f"def f(a, t):\n    {one}\n    return r, a" for one in listed(MEMORY)],
                                  *[f"def f(a, t):\n    return {one}" for one in listed(PLACES) + listed(REST)]])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_memory_places_and_casts_are_those_of_numpy(text):
    scope = {"np": np}
    exec(text, scope)
    made = torch.compile(scope["f"])
    for _ in range(2):
        given = [(np.arange(6.0).reshape(2, 3), np.arange(24.0).reshape(2, 3, 4)) for _ in range(2)]
        same(made(*given[0]), scope["f"](*given[1]))
        same(given[0], given[1])


def test_two_ellipses_are_refused_as_by_numpy():
    with pytest.raises(IndexError):
        torch.compile(lambda t: t[..., ...])(np.zeros((2, 3)))


def test_numbers_read_of_arrays_end_no_graph():
    def f(x):
        a = x.numpy()
        mean, largest, first = float(np.mean(a)), a.max().item(), int(np.argmax(a))
        return torch.sin(x), mean, largest, first, torch.ones(1) + 1

    graphs = []
    made = torch.compile(f, backend=lambda module, inputs: graphs.append(module) or module.forward, fullgraph=True)
    for scale in (1.0, 2.0):
        assert made(torch.tensor([1.0, 3.0]) * scale)[1:4] == (2.0 * scale, 3.0 * scale, 1)
    assert len(graphs) == 1

    def written(x):
        a = x.numpy()
        before = a.sum().item()
        a += 1
        return torch.sin(x), before, a.sum().item()

    for wrap in (lambda f: f, lambda f: torch.compile(f, backend="eager")):
        assert wrap(written)(torch.tensor([1.0, 3.0]))[1:] == (4.0, 6.0)
