"""Every pointwise record and activation: compiled gives what eager gives, over dtypes, broadcasting and special values."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.graph import Graph, GraphModule
from rushlight.kernels import llvm, lower
from rushlight.kernels.rules import RULES
from rushlight.ops import functional
from rushlight.ops.record import REGISTRY
from rushlight.tensor import wrap

from .test_runtime import compiled

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
RNG = np.random.default_rng(0)
POINTWISE = [name for name, op in sorted(REGISTRY.items())
             if op.kind == "op" and op.family == "pointwise" and name in RULES and set(op.params) <= set(op.tensors)]
COMPOSITES = ("relu6 hardtanh leaky_relu elu selu celu silu mish hardswish hardsigmoid softplus softsign tanhshrink gelu "
              "logsigmoid hardshrink softmin").split()
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, np.inf, -np.inf, np.nan, 1e-40, 1e30, 20.5, -90.0])


def inputs(count, dtype):
    """A special-values grid where there are two, and broadcasting shapes."""
    if dtype == "bool":
        arrays = [RNG.integers(0, 2, size=s).astype(bool) for s in ((3, 17), (17,), (3, 1))]
    elif dtype.startswith("int") or dtype == "uint8":
        arrays = [RNG.integers(1, 9, size=s).astype(dtype) for s in ((3, 17), (17,), (3, 1))]
    else:
        n = len(SPECIAL)
        arrays = [np.tile(SPECIAL, (n, 1)).astype(dtype), SPECIAL[:, None].astype(dtype), RNG.normal(size=(n, n)).astype(dtype)]
    return [wrap(a) for a in arrays[:count]]


def same(got, want, name):
    assert got.dtype is want.dtype and got.shape == want.shape, name
    a, b = got._array, want._array
    if a.dtype.kind in "fV":
        a, b = a.astype(np.float64), b.astype(np.float64)
        tolerance = 4e-7 * 4 if want.dtype is torch.float32 else 1e-14
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=1e-7 if name == "_normal_cdf" else 1e-37, err_msg=name)
    else:
        np.testing.assert_array_equal(a, b, err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool"])
@pytest.mark.parametrize("name", POINTWISE)
@pytest.mark.filterwarnings("ignore")
def test_pointwise_records(module, name, dtype):
    op = REGISTRY[name]
    args = inputs(len(op.tensors), dtype)
    if name == "_where":
        args[0] = args[0] > 0
    if name in ("sign", "sgn"):
        args = [torch.nan_to_num(a) if a.is_floating_point() else a for a in args]
    gm = module(lambda g, *x: g.call_function(op.function, x), len(args))
    try:
        want = gm(*args)
    except (RuntimeError, TypeError) as error:
        with pytest.raises(type(error)):
            lower(gm, args)(*args)
        return
    same(lower(gm, args)(*args), want, name)


@pytest.mark.parametrize("name", COMPOSITES)
@pytest.mark.filterwarnings("ignore")
def test_activations(module, name):
    function = getattr(functional, name)
    args = inputs(1, "float32")
    options = {"dim": 1} if name == "softmin" else {}
    gm = module(lambda g, x: g.call_function(function, (x,), options), 1)
    run = lower(gm, args)
    assert hasattr(run, "program"), "not native"
    finite = [wrap(np.clip(np.nan_to_num(args[0]._array, nan=0.1), -80, 80))]
    got, want = run(*finite), gm(*finite)
    np.testing.assert_allclose(got._array, want._array, rtol=3e-6, atol=5e-6 if name == "gelu" else 1e-7)
    if name != "gelu":  # eager's gives -inf at -inf, where PyTorch and kernels give NaN
        assert np.array_equal(np.isnan(run(*args)._array), np.isnan(gm(*args)._array))


@pytest.mark.parametrize("numbers", [(2,), (2.5,), (-1,), (0.5,), (3,), (1,)])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "uint8"])
@pytest.mark.parametrize("name", "add sub mul div pow maximum eq lt ge remainder fmod bitwise_and atan2 rsub".split())
@pytest.mark.filterwarnings("ignore")
def test_numbers_as_operands(module, name, dtype, numbers):
    function = getattr(torch, name)
    args = inputs(1, dtype)
    gm = module(lambda g, x: g.call_function(function, (x, *numbers)), 1)
    try:
        want = gm(*args)
    except (RuntimeError, TypeError, OverflowError, AttributeError) as error:
        with pytest.raises(type(error)):
            lower(gm, args)(*args)
        return
    same(lower(gm, args)(*args), want, name)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dim,keepdim", [(None, False), (0, False), (1, True), (-1, False)])
def test_first_place_of_an_extremum(name, dim, keepdim):
    x = RNG.integers(0, 5, (6, 9, 7)).astype(np.float32)
    x[1, 2, 3] = x[4, 5, 6] = np.nan
    found = compiled(lambda make, a: RULES[name](make, a, dim, keepdim), x).call(x)[0]
    want = getattr(torch.from_numpy(x), name)(dim, keepdim).numpy()
    assert found.dtype == np.int64 and np.array_equal(found, want)


def test_place_of_integers():
    x = RNG.integers(-9, 9, (5, 8))
    assert np.array_equal(compiled(lambda make, a: RULES["argmax"](make, a, 1), x).call(x)[0], x.argmax(1))


@pytest.mark.parametrize("shape,dim", [((), None), ((), 0), ((1,), 0), ((1, 4), 0), ((4, 1, 3), 1), ((1, 1), None), ((5,), 0), ((2, 3), 1)])
@pytest.mark.parametrize("name", ["sum", "mean"])
def test_sum_of_negative_zeros(name, shape, dim):
    """It is +0.0, where it is a sum of one as well: `atan2` tells the two apart."""
    graph = Graph()
    nodes = graph.placeholder("x"), graph.placeholder("y")
    graph.output((graph.call_function(torch.atan2, (graph.call_method(name, (nodes[0], dim)), nodes[1])),))
    given = torch.full(shape, -0.0), torch.tensor(-1.0)
    [angle] = lower(GraphModule({}, graph), list(given))(*given)
    assert (angle > 3).all()
