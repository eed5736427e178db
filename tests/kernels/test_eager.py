"""Eager ops on large arrays run on kernels, and give what NumPy's kernels give."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.core.parallel import Threads
from rushlight.kernels import eager, llvm, opened
from rushlight.ops import functional as F
from rushlight.ops import generate, record
from rushlight.tensor import wrap

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
RNG = np.random.default_rng(0)
SHAPES = [(300, 500), (131, 1001), (1 << 17,), (3, 7, 6251)]
POINTS = {"exp": torch.exp, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "gelu": F.gelu, "relu": torch.relu, "silu": F.silu,
          "add": lambda x: x + x, "mul": lambda x: x * x}


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """With kernels that are waited for: also where the cache has none yet."""
    eager.install()
    monkeypatch.setattr(Threads, "deterministic", True)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", POINTS)
def test_points(name, shape):
    x = wrap(RNG.normal(size=shape).astype(np.float32))
    small = wrap(x._array.ravel()[:1000].copy())
    want = POINTS[name](small)
    for _ in range(4):
        got = POINTS[name](x)
    assert got.shape == x.shape and got.dtype is torch.float32
    np.testing.assert_allclose(got._array.ravel()[:1000], want._array, rtol=2e-6, atol=1e-6)
    whole = np.concatenate([POINTS[name](wrap(part))._array for part in np.array_split(x._array.ravel(), 7)])
    np.testing.assert_allclose(got._array.ravel(), whole, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm"])
@pytest.mark.parametrize("shape", [(300, 500), (3, 700, 101)])
def test_rows(name, shape):
    function = {"softmax": lambda x: torch.softmax(x, -1), "log_softmax": lambda x: torch.log_softmax(x, -1),
                "layer_norm": lambda x: F.layer_norm(x, shape[-1:])}[name]
    x = wrap(RNG.normal(size=shape).astype(np.float32)).requires_grad_()
    g = RNG.normal(size=shape).astype(np.float32)
    for _ in range(4):
        x.grad = None
        y = function(x)
        y.backward(wrap(g))
    for row in (0, 2):
        part = x.detach()[row:row + 1].clone().requires_grad_()
        z = function(part)
        z.backward(wrap(g[row:row + 1]))
        np.testing.assert_allclose(y._array[row:row + 1], z._array, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(x.grad._array[row:row + 1], part.grad._array, rtol=1e-4, atol=1e-5)


def test_what_does_not_fit_stays_with_numpy():
    x = wrap(RNG.normal(size=(600, 500)).astype(np.float32))
    for _ in range(4):
        np.testing.assert_array_equal((x.t() + x.t())._array, (x._array.T * 2))
        np.testing.assert_array_equal((x + x[0])._array, x._array + x._array[0])
        assert torch.softmax(x, 0).shape == (600, 500)
        assert (x.double() + x.double()).dtype is torch.float64


def test_special_values():
    x = np.tile(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3e38, -3e38], np.float32), 1 << 15)
    for _ in range(4):
        got = torch.exp(wrap(x))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got._array, np.exp(x), rtol=1e-6)


def test_convolutions_and_their_gradients():
    x = wrap(RNG.normal(size=(8, 8, 64, 64)).astype(np.float32)).requires_grad_()
    w = wrap(RNG.normal(size=(16, 8, 3, 3)).astype(np.float32)).requires_grad_()
    b = wrap(RNG.normal(size=16).astype(np.float32))
    seen = []
    for _ in range(4):
        x.grad = w.grad = None
        y = F.conv2d(x, w, b, padding=1)
        y.sin().sum().backward()
        seen.append([t.detach().numpy().copy() for t in (y, x.grad, w.grad)])
    for first, last in zip(seen[0], seen[-1]):
        np.testing.assert_allclose(first, last, rtol=2e-4, atol=2e-3)
    assert any(key[0] == "_convolution" and made is not None for key, made in eager._kernels.items())


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [((200, 190), (190, 230)), ((5, 130, 90), (5, 90, 100)), ((2, 3, 70, 101), (2, 3, 101, 90))])
def test_large_products_of_bfloat16_are_rounded_once(shape, turned):
    from rushlight.kernels import matmul_half

    rng = np.random.default_rng(0)
    a, b = (torch.from_numpy(rng.normal(size=size).astype(np.float32)).bfloat16() for size in shape)
    left = a.mT.contiguous().mT if turned else a
    got, want = (left @ b), a.float() @ b.float()
    assert got.dtype == torch.bfloat16
    assert torch.allclose(got.float(), want, rtol=1 / 128, atol=1e-4)
    # Rounded once, from sums in float32: nothing is further from the exact result than half a unit and the sum's own error.
    assert ((got.float() - want).abs() <= want.abs() / 256 + 1e-3).all()
    if matmul_half.usable():
        assert any(key[0] in eager.PRODUCTS and made is not None for key, made in eager._kernels.items())


@pytest.mark.parametrize("shape", [(130, 190), (3, 50, 190)])
def test_large_linear_layers_of_bfloat16_are_rounded_once(shape):
    from rushlight.kernels import matmul_half

    x, w, b = (torch.from_numpy(RNG.normal(size=size).astype(np.float32)).bfloat16() for size in (shape, (230, 190), (230,)))
    got, want = F.linear(x, w, b), x.float() @ w.float().T + b.float()
    assert got.dtype == torch.bfloat16 and got.shape == want.shape
    assert ((got.float() - want).abs() <= want.abs() / 256 + 1e-3).all()
    if matmul_half.usable():
        assert any(key[0] in eager.LINEAR and made is not None for key, made in eager._kernels.items())


@pytest.mark.parametrize("product, shapes", [
    (F.linear, [(160, 190), (230, 190), (230,)]), (F.linear, [(4, 50, 190), (230, 190), (230,)]), (torch.mm, [(160, 190), (190, 230)]),
    (torch.bmm, [(5, 130, 90), (5, 90, 100)]), (torch.matmul, [(2, 3, 70, 101), (2, 3, 101, 90)])])
def test_gradients_of_large_products_of_bfloat16(product, shapes):
    operands = [torch.from_numpy(RNG.normal(size=size).astype(np.float32)).bfloat16() for size in shapes]
    leaves, wide = ([kind(t).requires_grad_() for t in operands] for kind in (torch.clone, torch.Tensor.float))
    g = torch.from_numpy(RNG.normal(size=product(*operands).shape).astype(np.float32)).bfloat16()
    product(*leaves).backward(g)
    product(*wide).backward(g.float())
    for leaf, exact in zip(leaves, wide):
        assert leaf.grad.dtype == torch.bfloat16 and leaf.grad.shape == leaf.shape
        assert ((leaf.grad.float() - exact.grad).abs() <= exact.grad.abs() / 256 + 2e-3).all()


FUNCTIONS = "sinh cosh asin acos atan asinh acosh atanh erfc sgn sign lgamma frac".split()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_numpy_has_slowly(name):
    values = RNG.normal(size=(300, 500)).astype(np.float32) * 3
    values[0, :6] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]
    x = wrap(values)
    with np.errstate(all="ignore"):
        got = getattr(torch, name)(x)._array
        want = np.concatenate([getattr(torch, name)(wrap(part))._array for part in values])
    np.testing.assert_allclose(got.ravel(), want, rtol=2e-6, atol=1e-6)


ACTIVATIONS = {"elu": {"alpha": 1.5}, "selu": {}, "celu": {"alpha": 0.7}, "leaky_relu": {"negative_slope": 0.2}, "softplus": {}, "mish": {}, "silu": {},
               "hardswish": {}, "hardsigmoid": {}, "hardtanh": {"min_val": -0.5, "max_val": 2.0}, "relu6": {}, "hardshrink": {"lambd": 0.3},
               "softshrink": {"lambd": 0.3}, "logsigmoid": {}}


@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_activations_and_their_gradients(name):
    values = RNG.normal(size=(300, 500)).astype(np.float32) * 3
    values[0, :8] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.3, -0.3, 2.0]
    g = RNG.normal(size=values.shape).astype(np.float32)
    g[1, :2] = [np.inf, np.nan]
    found = []
    with np.errstate(all="ignore"):
        for rows in (slice(None), slice(0, 100), slice(100, 300)):
            x = wrap(values[rows].copy()).requires_grad_()
            y = getattr(F, name)(x, **ACTIVATIONS[name])
            y.backward(wrap(g[rows].copy()))
            found.append((y.detach()._array, x.grad._array))
    for whole, first, rest in zip(*found):
        np.testing.assert_allclose(whole, np.concatenate([first, rest]), rtol=3e-6, atol=1e-6)


ARGUMENTS = {"_polygamma": (1,), "_elu": (1.5, 1.0, 1.0), "_celu": (1.3, 1.0, 1 / 1.3), "_leaky_relu": (0.2,), "_rrelu_fixed": (0.2,), "_softplus": (1.0, 20.0), "_hardtanh": (-0.5, 2.0),
             "hardshrink": (0.3,), "softshrink": (0.3,), "threshold": (0.1, 2.0), "logit": (None,), "_clamp_numbers": (-0.5, 1.5), "_nan_to_num": (1.0, 2.0, -3.0), "_gelu": ("none",)}
CORNERS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 1e-40, 3e38, -3e38, 1e-45, 7.0, 4.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(generate.ELEMENTWISE))
def test_large_arrays_of_any_layout_give_what_small_ones_give(name, dtype):
    op = record.REGISTRY[name]
    function, count, extra = op.function, len(op.tensors), ARGUMENTS.get(name, ())
    arrays = [(RNG.normal(size=(300, 500)) * 3).astype(dtype), (RNG.normal(size=(300, 500)) * 2).astype(dtype), RNG.uniform(0, 1, (300, 500)).astype(dtype)]
    with np.errstate(all="ignore"):
        corners = [corner.astype(dtype).ravel() for corner in np.meshgrid(CORNERS, CORNERS)]
    arrays[0][0, :256], arrays[1][0, :256] = corners
    arrays[0][299, 490:] = np.inf  # what is left of the last block
    arrays = arrays[:count]
    near = {"rtol": 1e-6, "atol": 1e-6} if dtype is np.float32 else {"rtol": 1e-12, "atol": 1e-13}

    def by_parts(call, *whole):
        return np.concatenate([call(*[wrap(array[k:k + 100].copy()) for array in whole])._array for k in range(0, 300, 100)])

    want = by_parts(lambda *parts: function(*parts, *extra), *arrays)
    np.testing.assert_allclose(function(*map(wrap, arrays), *extra)._array, want, **near)
    assert any(key[0] == name and made is not None for key, made in eager._kernels.items())
    turned = [wrap(np.ascontiguousarray(array.T)).t() for array in arrays]
    got = function(*turned, *extra)
    assert got.stride() == turned[0].stride()
    np.testing.assert_allclose(got._array, want, **near)
    if count == 2 and op.numbers != "none":
        np.testing.assert_allclose(function(wrap(arrays[0]), 0.7)._array, by_parts(lambda part: function(part, 0.7), arrays[0]), **near)
    in_place = getattr(torch.Tensor, name.lstrip("_") + "_", None)
    if in_place is not None and count <= 2 and name != "_nan_to_num":
        written = wrap(arrays[0].copy())
        place = written.data_ptr()
        in_place(written, *map(wrap, arrays[1:]), *extra)
        np.testing.assert_allclose(written._array, want, **near)
        assert written.data_ptr() == place


@pytest.mark.parametrize("name", [name for name in sorted(generate.ELEMENTWISE) if generate.has_large(record.REGISTRY[name])])
def test_gradients_of_large_arrays_are_those_of_small_ones(name):
    op = record.REGISTRY[name]
    count, extra = len(op.tensors), (0,) if name == "_polygamma" else ARGUMENTS.get(name, ())  # beyond the trigamma function NumPy takes long
    arrays = [(RNG.normal(size=(300, 500)) * 2).astype(np.float32) for _ in range(count + 1)]
    with np.errstate(all="ignore"):
        corners = [corner.astype(np.float32).ravel() for corner in np.meshgrid(CORNERS[:10], CORNERS[:10])]
    for array, corner in zip(arrays[:-1], corners):
        array[0, :100] = corner

    def gradients(*parts):
        tensors = [wrap(part.copy()).requires_grad_() for part in parts[:-1]]
        try:
            op.function(*tensors, *extra).backward(wrap(parts[-1].copy()))
        except (NotImplementedError, RuntimeError) as error:  # it has no derivative: then so for all sizes
            return [str(error)]
        return [tensor.grad._array for tensor in tensors]

    whole = gradients(*arrays)
    parts = [gradients(*[array[k:k + 100] for array in arrays]) for k in range(0, 300, 100)]
    for found, *pieces in zip(whole, *parts):
        if isinstance(found, str):
            assert found == pieces[0]
        else:
            np.testing.assert_allclose(found, np.concatenate(pieces), rtol=1e-5, atol=4e-6)


def test_large_nodes_keep_the_rules_of_saved_tensors():
    x = wrap(RNG.normal(size=(300, 500)).astype(np.float32)).requires_grad_()
    y = x.tanh()
    assert type(y.grad_fn).__name__ == "TanhBackward0"
    y.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.sum().backward()
    z = x.sin()
    (first,) = torch.autograd.grad(z.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    np.testing.assert_allclose(second._array, -np.sin(x.detach()._array), rtol=1e-5, atol=1e-6)
    row = wrap(RNG.normal(size=500).astype(np.float32)).requires_grad_()
    (x * row).sum().backward()
    np.testing.assert_allclose(row.grad._array, x.detach()._array.sum(0), rtol=1e-4, atol=1e-3)


def test_in_place_ops_that_read_what_they_write():
    x = RNG.normal(size=400_000).astype(np.float32)
    whole = wrap(x.copy())
    whole.add_(whole)
    np.testing.assert_array_equal(whole._array, x + x)
    base = wrap(np.repeat(x, 2))
    base[::2].mul_(base[1::2])  # neither lies dense
    np.testing.assert_array_equal(base._array[::2], x * x)
    whole = wrap(x.copy())
    whole.add_(whole, alpha=2)
    np.testing.assert_allclose(whole._array, x * 3, rtol=1e-6)
    version = whole._version
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        whole.add_(wrap(np.ones((2, 1), np.float32)))
    assert whole._version == version
    np.testing.assert_allclose(whole._array, x * 3, rtol=1e-6)


INDEXED = [((400, 500), 0), ((400, 500), 1), ((7, 300, 80), 1), ((7, 300, 80), 2), ((200_000,), 0)]


def index_for(shape, dim, kind):
    if kind == "own":
        return RNG.integers(0, shape[dim], shape)
    line = RNG.integers(0, shape[dim], shape[dim]).reshape([-1 if at == dim else 1 for at in range(len(shape))])
    return np.broadcast_to(line, shape)


@pytest.mark.parametrize("kind", ["own", "expanded"])
@pytest.mark.parametrize("shape,dim", INDEXED)
def test_reading_and_adding_along_a_dim(shape, dim, kind):
    x, y = (RNG.integers(-9, 9, shape).astype(np.float32) for _ in range(2))
    index = index_for(shape, dim, kind)
    places = tuple(index if at == dim else grid for at, grid in enumerate(np.indices(shape)))
    added = x.copy()
    np.add.at(added, places, y)
    read = np.zeros(shape, np.float32)
    np.add.at(read, places, y)
    a, b, i = wrap(x).requires_grad_(), wrap(y).requires_grad_(), wrap(index)
    np.testing.assert_array_equal(a.gather(dim, i).detach()._array, np.take_along_axis(x, index, dim))
    a.gather(dim, i).backward(wrap(y))
    np.testing.assert_array_equal(a.grad._array, read)
    np.testing.assert_array_equal(a.scatter_add(dim, i, b).detach()._array, added)
    order = RNG.permuted(np.broadcast_to(np.arange(shape[dim]).reshape([-1 if at == dim else 1 for at in range(len(shape))]), shape), axis=dim)
    np.testing.assert_array_equal(np.take_along_axis(a.scatter(dim, wrap(order), b).detach()._array, order, dim), y)
    a.grad = None
    a.scatter(dim, wrap(order), b).sum().backward()
    assert not a.grad._array.any() and (b.grad._array == 1).all()


@pytest.mark.parametrize("shape,dim", INDEXED)
def test_slices_by_their_numbers(shape, dim):
    x, y = (RNG.integers(-9, 9, shape).astype(np.float32) for _ in range(2))
    index = RNG.integers(0, shape[dim], shape[dim])
    place = (slice(None),) * dim + (index,)
    want, read = x.copy(), np.zeros(shape, np.float32)
    np.add.at(want, place, y)
    np.add.at(read, place, y)
    a = wrap(x).requires_grad_()
    np.testing.assert_array_equal(a.index_add(dim, wrap(index), wrap(y)).detach()._array, want)
    order = RNG.permutation(shape[dim])
    np.testing.assert_array_equal(a.index_copy(dim, wrap(order), wrap(y)).detach()._array, np.take(y, np.argsort(order), dim))
    a.index_select(dim, wrap(index)).backward(wrap(y))
    np.testing.assert_array_equal(a.grad._array, read)


def test_an_index_out_of_range_touches_nothing():
    x = wrap(RNG.normal(size=(400, 500)).astype(np.float32))
    index = RNG.integers(0, 500, (400, 500))
    for bad in (500, -1, 1 << 62, -1 << 62):
        index[399, 499] = bad
        for act in (lambda i: x.gather(1, i), lambda i: x.scatter_add(1, i, x), lambda i: x.scatter(1, i, x)):
            with pytest.raises(RuntimeError, match=f"index {bad} is out of bounds for dimension 1 with size 500"):
                act(wrap(index))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape,dims", [((300, 500), (1,)), ((40, 70, 61), (1, 2)), ((3, 70_001), (-1,)), ((1 << 17, 3), (1,)), ((262_147,), (0,))])
def test_sums_and_norms_of_rows(shape, dims, dtype):
    x = wrap(RNG.normal(size=shape).astype(dtype))
    exact = x._array.astype(np.longdouble)
    loose = {"rtol": 1e-6 if dtype is np.float32 else 1e-13, "atol": 1e-4 if dtype is np.float32 else 1e-11}
    for keepdim in (False, True):
        for got, want in ((x.sum(dims, keepdim), exact.sum(axis=dims, keepdims=keepdim)), (x.mean(dims, keepdim), exact.mean(axis=dims, keepdims=keepdim)),
                          (torch.linalg.vector_norm(x, 2, dims, keepdim), np.sqrt(np.square(exact).sum(axis=dims, keepdims=keepdim)))):
            assert got.shape == want.shape and got._array.dtype == dtype
            np.testing.assert_allclose(got._array, want.astype(dtype), **loose)
    np.testing.assert_allclose(float(x.sum()), float(exact.sum()), **loose)  # the numbers may well cancel out
    np.testing.assert_allclose(float(x.norm()), float(np.sqrt(np.square(exact).sum())), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_sums_norms_and_products_in_any_order_of_memory(order, dtype):
    x = wrap(RNG.uniform(0.9, 1.1, (43, 64, 81)).astype(dtype)).permute(*order)
    x[3, 2, 1] = -1
    exact, loose = x._array.astype(np.float64), {"rtol": 2e-5 if dtype is np.float32 else 1e-12}
    for dim in (0, 1, 2):
        for keepdim in (False, True):
            named = {"axis": dim, "keepdims": keepdim}
            np.testing.assert_allclose(x.sum(dim, keepdim)._array, exact.sum(**named), **loose)
            np.testing.assert_allclose(x.prod(dim, keepdim)._array, exact.prod(**named), **loose)
            np.testing.assert_allclose(x.norm(dim=dim, keepdim=keepdim)._array, np.sqrt(np.square(exact).sum(**named)), **loose)
    for dims in ((0, 1), (1, 2), (0, 2), (0, 1, 2)):
        np.testing.assert_allclose(x.mean(dims, True)._array, exact.mean(dims, keepdims=True), **loose)
    np.testing.assert_allclose([float(x.sum()), float(x.norm())], [exact.sum(), np.sqrt(np.square(exact).sum())], **loose)
    ones = x.sign()
    assert float(ones.prod()) == -1 and float(ones.abs().prod()) == 1


def test_products_beyond_the_range_of_float32_half_way():
    rows = np.tile(np.array([1e30, 1e-30], np.float32).repeat(256), (300, 1))
    assert np.allclose(wrap(rows).prod(1)._array, 1) and np.isnan(wrap(np.where(rows == rows[0, 0], np.nan, rows).astype(np.float32)).prod(1)._array).all()


def test_sums_of_rows_with_nan_and_infinity():
    values = np.ones((300, 500), np.float32)
    values[0, 3], values[1, 499], values[2, 0], values[2, 1] = np.nan, np.inf, np.inf, -np.inf
    found = wrap(values).sum(1)._array
    assert np.isnan(found[[0, 2]]).all() and found[1] == np.inf and (found[3:] == 500).all()
    assert np.isnan(float(wrap(values).sum())) and float(wrap(np.full((512, 512), 1e30, np.float32)).norm()) == np.inf


@pytest.mark.parametrize("target", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64"])
def test_casts_of_large_arrays_are_numpys(source, target):
    with np.errstate(over="ignore"):
        values = (RNG.normal(size=(301, 503)) * np.exp(RNG.normal(size=(301, 503)) * 20)).astype(np.float32)
        values[0, :8] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 65519.9, 65520.0, 1e-7]
        x = wrap(values).to(getattr(torch, source))
        got, want = x.to(getattr(torch, target)), x._array.astype(getattr(torch, target).numpy)
    assert got._array.dtype == want.dtype
    np.testing.assert_array_equal(got._array.astype(np.float64), want.astype(np.float64))
    leaf = wrap(values).to(getattr(torch, source)).requires_grad_()
    leaf.to(getattr(torch, target)).backward(torch.full(leaf.shape, 1.5, dtype=getattr(torch, target)))
    assert leaf.grad.dtype is leaf.dtype and bool((leaf.grad == 1.5).all())


@pytest.mark.parametrize("bounds", [{"args": (-1, 1)}, {"min": 0.5}, {"max": 0}, {"min": -1, "max": 0.25}, {"args": ("row", "column")}, {"max": "whole"}])
def test_clamp_in_place(bounds):
    made = {"row": torch.zeros(503), "column": torch.ones(301, 1), "whole": torch.rand(301, 503)}
    args, kwargs = [made.get(b, b) for b in bounds.get("args", ())], {name: made.get(b, b) for name, b in bounds.items() if name != "args"}
    x = wrap(RNG.normal(size=(301, 503)).astype(np.float32))
    x[0, 0] = float("nan")
    want, array = x.clamp(*args, **kwargs), x._array
    assert x.clamp_(*args, **kwargs) is x and x._array is array
    np.testing.assert_array_equal(x.numpy(), want.numpy())


SCALED = {"add_": (1, {"alpha": 0.3}), "sub_": (1, {"alpha": -2}), "addcmul_": (2, {"value": 0.7}), "addcdiv_": (2, {"value": -1.5}), "addcmul_ without": (2, {})}


@pytest.mark.parametrize("layout", ["plain", "turned", "itself", "row", "double", "part"])
@pytest.mark.parametrize("name", SCALED)
def test_in_place_ops_with_a_number(name, layout):
    count, named = SCALED[name]
    method = name.split()[0]
    x, *others = (wrap(RNG.uniform(0.5, 2, (401, 403)).astype(np.float32)) for _ in range(count + 1))
    if layout == "turned":
        x, others = x.t(), [other.t() for other in others]
    elif layout == "itself":
        others[-1] = x
    elif layout == "row":
        others[0] = others[0][0]
    elif layout == "double":
        others[0] = others[0].double()
    elif layout == "part":
        x, others = x[:, 1:], [other[:, :-1] for other in others]
    want = getattr(x, method[:-1])(*[other.clone() for other in others], **named).float()
    place, version = x.data_ptr(), x._version
    assert getattr(x, method)(*others, **named) is x
    assert x.data_ptr() == place and x._version == version + 1 and x.dtype is torch.float32
    np.testing.assert_allclose(x._array, want._array, rtol=1e-6)


def test_numbers_of_in_place_ops_make_no_new_kernels():
    x, y = torch.ones(400, 400), torch.ones(400, 400)
    x.add_(y, alpha=0.5)
    before = len(eager._kernels)
    for number in range(20):
        x.add_(y, alpha=number)
    assert len(eager._kernels) == before and bool((x == 1 + 0.5 + 190).all())


def test_uses_that_do_not_come_again_take_no_room(monkeypatch):
    monkeypatch.setattr(eager, "_kernels", made := {})
    monkeypatch.setattr(eager, "_uses", uses := {})
    monkeypatch.setattr(eager, "MOST", 4)
    for step in range(20):  # slices of ever other arrays
        assert eager.kernel((opened.OPEN, "exp", (("array", "float32", (True, True), (1000 + step, 1)),), "float32", 2), example=[500, 400]) is None
    assert not made and len(uses) <= 4
    x = torch.rand(300, 500)
    large = x.exp()
    assert [key[0] for key in made] == ["exp"] and None not in made.values()
    assert torch.allclose(large, torch.cat([x[:100].exp(), x[100:].exp()]))
