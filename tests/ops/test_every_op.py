"""Every op against numbers: first and second derivatives, layouts, half precision; and every rule is reached by some sample."""
import importlib.util
import sys
import zlib
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.autograd import gradcheck, gradgradcheck

path = Path(__file__).with_name("samples.py")
spec = importlib.util.spec_from_file_location("every_op_samples", path)
samples = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = samples
spec.loader.exec_module(samples)
ROWS = samples.ROWS
LABELS = [label for label, *_ in ROWS]

# Rows that are not differentiable twice, as in PyTorch.
ONCE = {"grid_sample", "grid_sample nearest zeros", "grid_sample bilinear border", "grid_sample bilinear reflection", "grid_sample bicubic zeros", "ctc_loss", "embedding_bag max", "as_strided_scatter into a transpose",
        "embedding_bag with weights"}
# Rows whose result means nothing in half precision: decompositions that PyTorch has for single and double only.
NO_HALF = {"inverse", "determinant", "slogdet", "cholesky", "solve", "eigenvalues", "singular values", "qr", "pinv", "matrix_exp", "triangular solve",
           "eig", "lu", "lu_factor", "lu_unpack", "lu_solve", "householder_product", "nuclear norm by name", "pdist", "multilabel_margin_loss",
           "igamma", "igammac", "zeta", "ndtri", "mvlgamma", "lstsq", "multi_dot", "matrix_power", "special.log_ndtr", "special.erfcx", "float_power", "cast and back", "quantile", "cdist", "nuclear norm", "fft", "rfft and back", "view as real and back", "view as complex", "real and imag", "polar", "ctc_loss"}


def seed_of(label):
    return zlib.crc32(label.encode()) % 10_000


def inputs_of(label, specs, dtype=None):
    return [spec.make(seed_of(label) + i, dtype) for i, spec in enumerate(specs)]


def outputs(result):
    """The differentiable tensors of a result."""
    found = result if isinstance(result, (tuple, list)) else [result]
    return tuple(t for t in found if isinstance(t, torch.Tensor) and (t.is_floating_point() or t.is_complex()))


@pytest.mark.parametrize("label, call, specs", ROWS, ids=LABELS)
def test_gradient(label, call, specs):
    tensors = [t.requires_grad_() for t in inputs_of(label, specs)]
    assert gradcheck(lambda *ts: outputs(call(*ts)), tensors, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("label, call, specs", [row for row in ROWS if row[0] not in ONCE], ids=[label for label in LABELS if label not in ONCE])
def test_second_gradient(label, call, specs):
    tensors = [t.requires_grad_() for t in inputs_of(label, specs)]
    results = outputs(call(*tensors))
    twice = [i for i, t in enumerate(results) if t.requires_grad]
    if not twice:
        pytest.skip("constant")
    assert gradgradcheck(lambda *ts: tuple(outputs(call(*ts))[i] for i in twice), tensors, atol=1e-5, rtol=1e-3)


def strided(tensor):
    """The same values in memory that is not contiguous."""
    if not tensor.ndim:
        return tensor
    wide = torch.zeros(*tensor.shape[:-1], tensor.shape[-1] * 2 + 1, dtype=tensor.dtype)
    view = wide[..., 1::2]
    view.copy_(tensor)
    return view


def turned(tensor):
    """The same values with the first dim innermost in memory."""
    dims = tuple(reversed(range(tensor.ndim)))
    return tensor.permute(dims).contiguous().permute(dims)


LAYOUT_DEPENDENT = {"as_strided_scatter into a transpose", "as_strided", "overlapping as_strided", "as_strided_scatter", "view", "view_as", "view as complex"}


@pytest.mark.parametrize("label, call, specs", ROWS, ids=LABELS)
def test_the_array_has_the_dtype(label, call, specs):
    """A tensor that says float32 holds float32."""
    for result in outputs(call(*inputs_of(label, specs, torch.float32))):
        assert result.detach().numpy().dtype == result.dtype.numpy


@pytest.mark.parametrize("layout", [strided, turned])
@pytest.mark.parametrize("label, call, specs", [row for row in ROWS if row[0] not in LAYOUT_DEPENDENT],
                         ids=[label for label in LABELS if label not in LAYOUT_DEPENDENT])
def test_layout_does_not_matter(label, call, specs, layout):
    def values_and_gradients(tensors):
        tensors = [t.detach().requires_grad_() for t in tensors]
        results = outputs(call(*tensors))
        total = sum((t.abs() if t.is_complex() else t).sum() for t in results)
        grads = torch.autograd.grad(total, tensors, allow_unused=True) if total.requires_grad else []
        return [*results, *(g for g in grads if g is not None)]

    plain = inputs_of(label, specs)
    for one, other in zip(values_and_gradients(plain), values_and_gradients([layout(t) for t in plain])):
        assert one.shape == other.shape
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("label, call, specs", [row for row in ROWS if row[0] not in NO_HALF], ids=[label for label in LABELS if label not in NO_HALF])
def test_bfloat16_is_single_precision_rounded(label, call, specs):
    half = inputs_of(label, specs, torch.bfloat16)
    single = [t.to(torch.float32) for t in half]
    for one, other in zip(outputs(call(*half)), outputs(call(*single))):
        assert one.dtype is torch.bfloat16
        scale = max(other.abs().max().item(), 1.0) if other.numel() else 1.0
        apart = (one.to(torch.float32) - other).abs().max().item() if other.numel() else 0.0
        assert apart <= 0.04 * scale, f"{apart} apart, where values reach {scale}"


RANDOM = {
    "_bernoulli": lambda x: torch.bernoulli(x), "_poisson": lambda x: torch.poisson(x), "_binomial": lambda x: torch.binomial(torch.full((2, 3), 4.0), x),
    "_overwritten": lambda x: (x * 1).uniform_(),
}


@pytest.mark.parametrize("name", RANDOM)
def test_what_is_drawn_has_no_gradient(name):
    x = torch.full((2, 3), 0.5, requires_grad=True)
    y = RANDOM[name](x)
    if y.requires_grad:
        y.sum().backward()
        assert x.grad is None or not x.grad.any()


def test_gamma_and_dirichlet_samples_have_pathwise_gradients():
    torch.manual_seed(0)
    a = torch.full((20_000,), 2.0, dtype=torch.float64, requires_grad=True)
    torch._standard_gamma(a).sum().backward()
    assert abs(a.grad.mean().item() - 1) < 0.03, "the mean of the samples is a, so the mean of their derivatives is 1"
    c = torch.ones(5, 3, dtype=torch.float64, requires_grad=True)
    torch._sample_dirichlet(c).sum().backward()
    assert c.grad.abs().max().item() < 1e-9, "the parts sum to 1 whatever the parameters are"


def test_rrelu_in_training_uses_the_slopes_that_it_drew():
    x = (-torch.ones(1000, dtype=torch.float64)).requires_grad_()
    y = torch.nn.functional.rrelu(x, 0.1, 0.3, training=True)
    y.sum().backward()
    assert torch.equal(x.grad, -y) and 0.1 <= x.grad.min() < 0.12 and 0.28 < x.grad.max() <= 0.3


# Records whose rule no sample reaches, each with the reason.
UNREACHED = dict.fromkeys(["_border_pad", "_resample", "embedding_rows", "as_strided_of"], "the rule of a second derivative: third derivatives only") \
    | dict.fromkeys([*RANDOM, "_rrelu", "_standard_gamma", "_sample_dirichlet"], "random: see the tests above") \
    | {"floor_divide": "its rule says that there is no derivative"}


def test_every_rule_is_reached():
    from rushlight.autograd.node import Node
    from rushlight.ops.record import REGISTRY
    from rushlight.tensor import OutputEdge

    seen = set()

    def walk(tensor):
        stack, known = [tensor._node], set()
        while stack:
            node = stack.pop()
            node = node.node if type(node) is OutputEdge else node
            if not isinstance(node, Node) or node in known:
                continue
            known.add(node)
            if node.op is not None:
                seen.add(node.op.name)
            stack.extend(node.edges)

    for label, call, specs in ROWS:
        tensors = [t.requires_grad_() for t in inputs_of(label, specs)]
        try:
            results = outputs(call(*tensors))
        except AttributeError:
            continue  # test_gradient says so
        for result in results:
            walk(result)
            if label in ONCE or not result.requires_grad or result.is_complex():
                continue
            for g in torch.autograd.grad(result, tensors, torch.ones_like(result).requires_grad_(), create_graph=True, allow_unused=True):
                if g is not None:
                    walk(g)
    wanted = {name for name, record in REGISTRY.items() if record.kind == "op" and record.grad}
    missing = sorted(wanted - seen - set(UNREACHED))
    assert not missing, f"no sample reaches {missing}"
