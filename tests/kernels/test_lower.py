"""Graphs lowered and run: the same values as the interpreter, whatever is native and whatever is not."""

import operator

import numpy as np
import pytest

import rushlight as torch
from rushlight.graph import interpret
from rushlight.kernels import llvm, lower
from rushlight.ops import functional
from rushlight.tensor import wrap

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
RNG = np.random.default_rng(0)


def tensor(*shape, dtype=np.float32):
    return wrap(RNG.normal(size=shape).astype(dtype))


def test_a_chain_is_one_program(check):
    def build(g, x, y):
        a = g.call_function(torch.sin, (x,))
        b = g.call_function(operator.mul, (a, y))
        c = g.call_function(torch.exp, (g.call_function(operator.neg, (g.call_function(operator.mul, (x, x)),)),))
        d = g.call_function(torch.tanh, (g.call_function(torch.add, (b, c)),))
        return g.call_method("sum", (d, -1))

    program = check(build, tensor(37, 129), tensor(37, 129), native=1, tolerance=2e-5)
    assert len(program.programs[0].stages.kernels) == 1


@pytest.mark.parametrize("name", "exp log1p tanh sigmoid relu gelu silu softplus abs neg sqrt rsqrt mish hardswish logsigmoid hardsigmoid elu selu".split())
def test_unary_functions(check, name):
    function = getattr(torch, name, None) or getattr(functional, name)
    x = wrap(np.abs(RNG.normal(size=(5, 33)).astype(np.float32)) + 0.1)
    check(lambda g, x: g.call_function(function, (x,)), x, native=1)


def test_softmax_and_layer_norm_stay_one_kernel(check):
    softmax = check(lambda g, x: g.call_function(torch.softmax, (x, -1)), tensor(9, 100), native=1)
    assert len(softmax.programs[0].stages.kernels) == 1
    check(lambda g, x: g.call_function(torch.softmax, (x, 0)), tensor(9, 100), native=1)
    check(lambda g, x: g.call_function(torch.log_softmax, (x, 1)), tensor(3, 70, 5), native=1)


def test_unknown_ops_run_between_programs(check):
    def build(g, x):
        a = g.call_function(torch.exp, (x,))
        b = g.call_method("cumsum", (a, 0))
        b.meta["val"] = torch.empty(6, 7)
        return g.call_function(operator.add, (g.call_function(operator.mul, (b, 2.0)), a))

    check(build, tensor(6, 7), native=2)


def test_without_meta_the_rest_is_interpreted(check):
    def build(g, x):
        return g.call_function(operator.mul, (g.call_method("cumsum", (g.call_function(torch.exp, (x,)), 0)), 2.0))

    check(build, tensor(6, 7), native=1)


def test_writes_leave_the_graph_alone(module):
    def build(g, x):
        y = g.call_method("clone", (x,))
        g.call_method("add_", (y, 1))
        return y

    x = tensor(3)
    assert (lower(module(build, 1), [x])(x)._array == x._array + 1).all()


def test_views_of_inputs_keep_sharing_memory(module):
    def build(g, x):
        t = g.call_method("t", (x,))
        return t, g.call_function(operator.mul, (t, 2.0))

    x = tensor(3, 4)
    view, double = lower(module(build, 1), [x])(x)
    assert np.shares_memory(view._array, x._array)
    np.testing.assert_array_equal(double._array, x._array.T * 2)


def test_gradients_are_never_lost(module):
    x = tensor(3).requires_grad_()
    gm = module(lambda g, x: g.call_function(torch.exp, (x,)), 1)
    assert lower(gm, [x])(x).requires_grad
    with torch.no_grad():
        assert not lower(gm, [x])(x).requires_grad


def test_other_layouts_are_copied_and_other_shapes_refused(module):
    x = tensor(4, 5)
    run = lower(module(lambda g, x: g.call_function(torch.exp, (x,)), 1), [x])
    strange = wrap(np.asfortranarray(x._array))
    np.testing.assert_array_equal(run(strange)._array, run(x)._array)
    with pytest.raises(ValueError, match=r"expects input 0 to be float32\[4, 5\]"):
        run(tensor(5, 4))
    with pytest.raises(ValueError, match="float32"):
        run(tensor(4, 5, dtype=np.float64))


@pytest.mark.parametrize("dim", [None, 0, 1, 2, (0, 2), (1, 2), (0, 1)])
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "prod", "var"])
def test_reductions(check, name, dim):
    if name == "prod" and not isinstance(dim, int):
        pytest.skip("prod takes one dim")
    args = () if dim is None and name not in ("amax", "amin") else (dim if dim is not None else (),)
    check(lambda g, x: g.call_method(name, (x, *args), {"keepdim": True} if args else {}), tensor(5, 6, 35), native=1, tolerance=2e-5)


def test_large_reductions_are_split_for_threads(check):
    x = tensor(300, 1024)
    program = check(lambda g, x: (g.call_method("sum", (x,)), g.call_method("sum", (x, 0))), x, native=1, tolerance=1e-3)
    assert len(program.programs[0].stages.kernels) >= 2


def test_views_are_index_maps(check):
    def build(g, x):
        a = g.call_method("transpose", (g.call_function(torch.exp, (x,)), 0, 2))
        b = g.call_method("reshape", (a, 7, -1))
        c = g.call_function(operator.getitem, (b, (slice(None, None, 2), slice(1, None))))
        return g.call_function(operator.add, (c, g.call_method("unsqueeze", (g.call_method("sum", (c, 0)), 0))))

    check(build, tensor(4, 5, 7), native=1, tolerance=1e-5)


@pytest.mark.parametrize("shapes", [((3, 4), (4, 5)), ((70, 130), (130, 90)), ((2, 3, 33, 20), (3, 20, 17)), ((8,), (8, 3)), ((9, 8), (8,))])
def test_matrix_products(check, shapes):
    a, b = (tensor(*shape) for shape in shapes)
    check(lambda g, a, b: g.call_function(operator.matmul, (a, b)), a, b, native=1, tolerance=1e-4)
    t = wrap(np.asfortranarray(a._array))
    check(lambda g, a, b: g.call_function(torch.matmul, (a, b)), t, b, native=1, tolerance=1e-4)


def test_linear_with_activation(check):
    def build(g, x, w, b):
        return g.call_function(torch.relu, (g.call_function(functional.linear, (x, w, b)),))

    check(build, tensor(30, 50), tensor(70, 50), tensor(70), native=1, tolerance=1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.int32, np.uint8, bool])
def test_dtypes(check, dtype):
    x = wrap((RNG.normal(size=(3, 50)) * 3).astype(dtype))
    if dtype is not bool:
        check(lambda g, x: (g.call_function(operator.mul, (x, x)), g.call_method("sum", (x, 1)), g.call_function(operator.gt, (x, 1))), x)
    check(lambda g, x: g.call_function(operator.add, (x, 1.5)), x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_round_after_each_op(module, dtype):
    x, y = (tensor(7, 40).to(dtype) for _ in range(2))

    def build(g, x, y):
        return g.call_function(operator.add, (g.call_function(operator.mul, (x, y)), y))

    gm = module(build, 2)
    got, want = lower(gm, [x, y])(x, y), interpret(gm, x, y)
    assert got.dtype is dtype
    np.testing.assert_array_equal(got._array.view(np.uint16), want._array.view(np.uint16))


def test_special_values_are_kept(module):
    x = wrap(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3e38, -3e38] * 5, np.float32))
    for name in ("exp", "tanh", "sigmoid", "relu", "abs", "neg", "sin", "floor"):
        gm = module(lambda g, x, name=name: g.call_function(getattr(torch, name), (x,)), 1)
        got, want = lower(gm, [x])(x)._array, interpret(gm, x)._array
        np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=name)
        np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(want[~np.isnan(want)]), err_msg=name)
    gm = module(lambda g, x: g.call_method("amax", (x,)), 1)
    assert np.isnan(lower(gm, [x])(x)._array)


def test_numbers_are_inputs_and_sizes_are_compiled_in_and_checked(module):
    def build(g, x, n):
        size = g.call_function(operator.mul, (g.call_method("size", (x, 0)), n))
        return g.call_function(operator.add, (g.call_method("sum", (x,)), size))

    gm, x = module(build, 2), tensor(3, 4)
    run = lower(gm, [x, 5])
    assert hasattr(run, "program") and len(run.program.programs) == 1
    for n in (5, 6, -1, 0):
        np.testing.assert_allclose(run(x, n)._array, x._array.sum() + 3 * n, rtol=1e-6, atol=1e-5)
    for args in ((x, 5.0), (tensor(4, 3), 5)):
        with pytest.raises(ValueError, match="compiled"):
            run(*args)


def test_a_size_alone_is_checked_too(module):
    gm = module(lambda g, x: g.call_function(torch.zeros, (g.call_method("size", (x, 0)),)), 1)
    run = lower(gm, [tensor(3, 4)])
    assert run(tensor(3, 4)).shape == (3,)
    with pytest.raises(ValueError, match="compiled"):
        run(tensor(4, 4))


@pytest.mark.parametrize("shapes", [((70, 33), (33, 50)), ((64, 64), (64, 96)), ((2, 40, 65), (2, 65, 40)), ((33, 128), (128, 31))])
def test_bfloat16_products_are_summed_in_float32(shapes, module):
    a, b = (tensor(*shape).to(torch.bfloat16) for shape in shapes)
    gm = module(lambda g, a, b: g.call_function(operator.matmul, (a, b)), 2)
    want = a._array.astype(np.float64) @ b._array.astype(np.float64)
    for left in (a, wrap(np.asfortranarray(a._array))):
        got = lower(gm, [left, b])(left, b)
        assert got.dtype is torch.bfloat16
        np.testing.assert_allclose(got._array.astype(np.float64), want, rtol=1e-2, atol=2e-2 * np.abs(want).max())


@pytest.mark.parametrize("name", "add sub mul truediv floordiv mod and_ or_ xor lshift rshift eq ne lt le gt ge neg invert".split())
@pytest.mark.parametrize("dtype", ["bool", "int64"])
def test_operators_leave_their_operands_alone(name, dtype):
    function = getattr(operator, name)
    one, two = (torch.tensor(values).to(getattr(torch, dtype)) for values in ([3, 0, 1], [1, 1, 2]))
    operands = (one, two)[:1 if name in ("neg", "invert") else 2]
    try:
        want = function(*operands)
    except (RuntimeError, TypeError):
        return
    kept = [operand.clone() for operand in operands]
    for run in (lambda *args: function(*args), lambda *args: function(*args).sum()):
        got = torch.compile(run)(*operands)
        torch.testing.assert_close(got, run(*kept))
        assert all(map(torch.equal, operands, kept))
    assert torch.equal(want, function(*kept))
