"""One table of calls for test_every_op.py: a label, the call, and what differentiable inputs it takes.

An input is R(shape, low, high): float64 numbers in a range where the function is smooth. Everything else a call needs (dims, masks,
integer indices) stands in the lambda. Every record that has a gradient rule must be reached by some row: the test checks it.
"""
from dataclasses import dataclass

import rushlight as torch
from rushlight.nn import functional as F


@dataclass(frozen=True)
class R:
    """A random input: uniform in [low, high), or, with `apart`, distinct values no closer to each other and to 0 than `apart`."""

    shape: tuple = (2, 3)
    low: float = -1.5
    high: float = 1.5
    apart: float = 0.0

    def make(self, seed, dtype=None):
        generator = torch.Generator().manual_seed(seed)
        count = 1
        for size in self.shape:
            count *= size
        if self.apart:
            order = torch.randperm(count, generator=generator).to(torch.float64)
            values = (order - (count - 1) / 2 + 0.25) * self.apart
        else:
            values = torch.rand(count, generator=generator, dtype=torch.float64) * (self.high - self.low) + self.low
        return values.reshape(self.shape).to(dtype or torch.float64)


SMOOTH, POSITIVE, UNIT, KINK = R(), R(low=0.4, high=2.5), R(low=-0.85, high=0.85), R(apart=0.37)
SQUARE, BATCH = R((3, 3)), R((2, 3, 3))
INDEX = torch.tensor([[0, 2, 1], [2, 2, 0]])
MASK = torch.tensor([[True, False, True], [False, True, True]])


def spd(x):
    """A symmetric positive definite matrix from any square one."""
    return x @ x.mT + 2 * torch.eye(x.shape[-1], dtype=x.dtype)


# name -> input: functions of one tensor, called as torch.NAME
UNARY = {
    "neg": SMOOTH, "positive": SMOOTH, "square": SMOOTH, "reciprocal": POSITIVE, "sqrt": POSITIVE, "rsqrt": POSITIVE,
    "exp": SMOOTH, "exp2": SMOOTH, "expm1": SMOOTH, "log": POSITIVE, "log2": POSITIVE, "log10": POSITIVE, "log1p": POSITIVE,
    "sin": SMOOTH, "cos": SMOOTH, "tan": UNIT, "asin": UNIT, "acos": UNIT, "atan": SMOOTH, "sinh": SMOOTH, "cosh": SMOOTH, "tanh": SMOOTH,
    "asinh": SMOOTH, "acosh": R(low=1.3, high=3), "atanh": UNIT, "deg2rad": SMOOTH, "rad2deg": SMOOTH, "abs": KINK, "sgn": KINK,
    "sign": KINK, "floor": KINK, "ceil": KINK, "trunc": KINK, "round": KINK, "frac": KINK, "conj_physical": SMOOTH, "angle": KINK,
    "relu": KINK, "sigmoid": SMOOTH, "erf": SMOOTH, "erfc": SMOOTH, "erfinv": UNIT, "lgamma": POSITIVE, "digamma": POSITIVE, "sinc": KINK,
    "logit": R(low=0.1, high=0.9), "i0": SMOOTH, "nan_to_num": SMOOTH, "clone": SMOOTH, "sum": SMOOTH, "mean": SMOOTH, "max": KINK, "min": KINK,
    "amax": KINK, "amin": KINK, "prod": KINK, "std": SMOOTH, "var": SMOOTH, "median": KINK, "nanmedian": KINK, "trace": SQUARE, "tril": SQUARE,
    "triu": SQUARE, "diag": SQUARE, "diagonal": SQUARE, "diag_embed": SMOOTH, "diagflat": R((3,)), "flip": None, "t": SMOOTH, "flatten": SMOOTH,
    "ravel": SMOOTH, "nansum": SMOOTH, "nanmean": SMOOTH, "unbind": SMOOTH, "fliplr": SMOOTH, "flipud": SMOOTH, "rot90": SMOOTH,
    "atleast_3d": SMOOTH, "cov": SMOOTH, "corrcoef": SMOOTH, "diff": SMOOTH, "trapezoid": SMOOTH, "std_mean": SMOOTH, "var_mean": SMOOTH,
    "special.entr": POSITIVE, "special.ndtr": SMOOTH, "special.log_ndtr": SMOOTH, "special.xlog1py": None, "special.i0e": SMOOTH,
    "special.i1": SMOOTH, "special.i1e": SMOOTH, "special.erfcx": SMOOTH,
}
UNARY = {name: spec for name, spec in UNARY.items() if spec is not None}

# name -> inputs: functions of two tensors
BINARY = {
    "add": (SMOOTH, R((3,))), "sub": (SMOOTH, R((2, 1))), "rsub": (SMOOTH, R((3,))), "mul": (SMOOTH, R((1, 3))), "div": (SMOOTH, POSITIVE),
    "true_divide": (SMOOTH, POSITIVE), "remainder": (R(apart=0.41), R(low=5, high=6)), "fmod": (R(apart=0.41), R(low=5, high=6)),
    "pow": (POSITIVE, SMOOTH), "float_power": (POSITIVE, SMOOTH), "maximum": (KINK, R(apart=0.29)), "minimum": (KINK, R(apart=0.29)),
    "fmax": (KINK, R(apart=0.29)), "fmin": (KINK, R(apart=0.29)), "atan2": (POSITIVE, POSITIVE), "hypot": (POSITIVE, POSITIVE),
    "logaddexp": (SMOOTH, R((3,))), "logaddexp2": (SMOOTH, R((3,))), "copysign": (KINK, KINK), "xlogy": (SMOOTH, POSITIVE),
    "mm": (SMOOTH, R((3, 4))), "matmul": (R((2, 2, 3)), R((3, 4))), "mv": (SMOOTH, R((3,))), "dot": (R((4,)), R((4,))), "vdot": (R((4,)), R((4,))),
    "inner": (SMOOTH, R((4, 3))), "outer": (R((2,)), R((3,))), "bmm": (BATCH, R((2, 3, 2))), "kron": (SMOOTH, R((2, 2))),
    "dist": (SMOOTH, SMOOTH), "cdist": (SMOOTH, R((4, 3))), "cross": (SMOOTH, SMOOTH), "polar": None, "complex": None, "ldexp": None,
}
BINARY = {name: specs for name, specs in BINARY.items() if specs is not None}

# Everything else: (label, call, inputs)
OTHER = [
    ("add a multiple", lambda x, y: torch.add(x, y, alpha=2.5), (SMOOTH, SMOOTH)),
    ("pow by 3", lambda x: x ** 3, (SMOOTH,)),
    ("pow by -1.5", lambda x: x ** -1.5, (POSITIVE,)),
    ("number to a power", lambda x: 2.0 ** x, (SMOOTH,)),
    ("divide a number", lambda x: 3 / x, (POSITIVE,)),
    ("number minus", lambda x: 3 - x, (SMOOTH,)),
    ("floor of a quotient", lambda x: torch.div(x, 2.0, rounding_mode="floor"), (KINK,)),
    ("whole part of a quotient", lambda x: torch.div(x, 2.0, rounding_mode="trunc"), (KINK,)),
    ("clamp", lambda x: x.clamp(-0.6, 0.7), (KINK,)),
    ("clamp below", lambda x: x.clamp(min=-0.6), (KINK,)),
    ("clamp above", lambda x: x.clamp(max=0.6), (KINK,)),
    ("clamp by tensors", lambda x, a, b: torch.clamp(x, a, b), (KINK, R(low=-3, high=-2.5), R(low=2.5, high=3))),
    ("clamp_min by a tensor", lambda x, a: torch.clamp_min(x, a), (KINK, R(apart=0.29))),
    ("clamp_max by a tensor", lambda x, a: torch.clamp_max(x, a), (KINK, R(apart=0.29))),
    ("where", lambda x, y: torch.where(MASK, x, y), (SMOOTH, R((3,)))),
    ("lerp by a number", lambda x, y: torch.lerp(x, y, 0.3), (SMOOTH, SMOOTH)),
    ("lerp by a tensor", lambda *ts: torch.lerp(*ts), (SMOOTH, SMOOTH, R((3,)))),
    ("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=1.5), (SMOOTH, SMOOTH, SMOOTH)),
    ("addcdiv", lambda x, y, z: torch.addcdiv(x, y, z, value=1.5), (SMOOTH, SMOOTH, POSITIVE)),
    ("round to decimals", lambda x: torch.round(x, decimals=1), (R(apart=0.37),)),
    # views and shapes
    ("view", lambda x: x.view(3, 2), (SMOOTH,)),
    ("reshape of a transpose", lambda x: x.t().reshape(6), (SMOOTH,)),
    ("transpose", lambda x: x.transpose(0, 2), (BATCH,)),
    ("permute", lambda x: x.permute(2, 0, 1), (BATCH,)),
    ("unsqueeze", lambda x: x.unsqueeze(1), (SMOOTH,)),
    ("squeeze", lambda x: x.squeeze(1), (R((2, 1, 3)),)),
    ("expand", lambda x: x.expand(4, 2, 3), (SMOOTH,)),
    ("select", lambda x: x.select(1, -1), (SMOOTH,)),
    ("slice", lambda x: x[:, 1:], (SMOOTH,)),
    ("slice with a step", lambda x: x[:, ::2], (SMOOTH,)),
    ("narrow", lambda x: x.narrow(1, 1, 2), (SMOOTH,)),
    ("as_strided", lambda x: x.as_strided((2, 2), (1, 2), 1), (SMOOTH,)),
    ("overlapping as_strided", lambda x: x.as_strided((3, 2), (1, 1)), (SMOOTH,)),
    ("unfold", lambda x: x.unfold(1, 2, 1), (SMOOTH,)),
    ("split", lambda x: x.split(2, 1), (SMOOTH,)),
    ("split in sizes", lambda x: x.split([1, 2], 1), (SMOOTH,)),
    ("chunk", lambda x: x.chunk(2, 1), (SMOOTH,)),
    ("unbind along 1", lambda x: x.unbind(1), (SMOOTH,)),
    ("diagonal", lambda x: x.diagonal(1, 0, 2), (BATCH,)),
    ("movedim", lambda x: x.movedim(0, 2), (BATCH,)),
    ("view_as", lambda x: x.view_as(torch.ones(6)), (SMOOTH,)),
    ("view as real and back", lambda x, y: torch.view_as_real(torch.complex(x, y) ** 2), (SMOOTH, SMOOTH)),
    ("view as complex", lambda x: torch.view_as_complex(x).abs(), (R((3, 2), 0.3, 1),)),
    ("real and imag", lambda x, y: (torch.complex(x, y).exp().real, torch.complex(x, y).exp().imag), (SMOOTH, SMOOTH)),
    ("polar", lambda x, y: torch.view_as_real(torch.polar(x, y)), (POSITIVE, SMOOTH)),
    ("tile", lambda x: x.tile(2, 2), (SMOOTH,)),
    ("repeat", lambda x: x.repeat(2, 1, 2), (SMOOTH,)),
    ("repeat_interleave", lambda x: x.repeat_interleave(2, 1), (SMOOTH,)),
    ("roll", lambda x: x.roll(1, 1), (SMOOTH,)),
    ("flip", lambda x: x.flip(0, 1), (SMOOTH,)),
    ("sum_to_size", lambda x: x.sum_to_size(1, 3), (SMOOTH,)),
    ("unflatten", lambda x: x.unflatten(1, (3, 1)), (SMOOTH,)),
    ("detached twin", lambda x: x * x.detach() * 0 + x, (SMOOTH,)),
    ("cast and back", lambda x: x.to(torch.float64) * 1, (SMOOTH,)),
    ("contiguous", lambda x: x.t().contiguous(), (SMOOTH,)),
    ("copy_", lambda x: torch.zeros(2, 3, dtype=x.dtype).copy_(x), (SMOOTH,)),
    ("fill in place", lambda x: (x * 2).fill_(3.0) + x, (SMOOTH,)),
    ("zero in place", lambda x: (x * 2).zero_() + x, (SMOOTH,)),
    ("in-place chain", lambda x: (x * 1).mul_(2).add_(x).sin_(), (SMOOTH,)),
    ("write through a view", lambda x: write_view(x), (SMOOTH,)),
    ("write an item", lambda x, y: write_item(x, y), (SMOOTH, R((3,)))),
    ("write a mask", lambda x, y: write_mask(x, y), (SMOOTH, R(()))),
    ("write at indices", lambda x, y: write_index(x, y), (SMOOTH, R((2,)))),
    ("select_scatter", lambda x, y: torch.select_scatter(x, y, 0, 1), (SMOOTH, R((3,)))),
    ("slice_scatter", lambda x, y: torch.slice_scatter(x, y, 1, 1, 3), (SMOOTH, R((2, 2)))),
    ("diagonal_scatter", lambda x, y: torch.diagonal_scatter(x, y), (SQUARE, R((3,)))),
    ("as_strided_scatter", lambda x, y: torch.as_strided_scatter(x, y, (2,), (2,), 1), (SMOOTH, R((2,)))),
    # indexing
    ("index by integers", lambda x: x[:, torch.tensor([0, 2, 2])], (SMOOTH,)),
    ("index by a mask", lambda x: x[MASK], (SMOOTH,)),
    ("mixed index", lambda x: x[0, None, [1, 1]], (SMOOTH,)),
    ("ellipsis", lambda x: x[..., -1], (BATCH,)),
    ("index_put", lambda x, y: x.index_put((torch.tensor([0, 1]), torch.tensor([1, 1])), y), (SMOOTH, R((2,)))),
    ("index_put accumulating", lambda x, y: x.index_put((torch.tensor([0, 0]),), y, accumulate=True), (SMOOTH, R((2, 3)))),
    ("gather", lambda x: x.gather(1, INDEX), (SMOOTH,)),
    ("scatter", lambda x, y: x.scatter(1, torch.tensor([[0, 2], [1, 0]]), y), (SMOOTH, R((2, 2)))),
    ("scatter a number", lambda x: x.scatter(1, INDEX[:, :1], 2.0), (SMOOTH,)),
    ("scatter_add", lambda x, y: x.scatter_add(1, INDEX, y), (SMOOTH, SMOOTH)),
    *[(f"scatter_reduce {how}", lambda x, y, how=how: x.scatter_reduce(1, INDEX, y, how), (R(apart=0.53), R(apart=0.31))) for how in ("sum", "mean", "prod", "amax", "amin")],
    ("index_select", lambda x: x.index_select(1, torch.tensor([2, 0, 2])), (SMOOTH,)),
    ("index_add", lambda x, y: x.index_add(1, torch.tensor([0, 0]), y, alpha=2), (SMOOTH, R((2, 2)))),
    ("index_copy", lambda x, y: x.index_copy(1, torch.tensor([2, 0]), y), (SMOOTH, R((2, 2)))),
    ("index_fill", lambda x: x.index_fill(1, torch.tensor([1]), 2.0), (SMOOTH,)),
    ("index_fill by a tensor", lambda x, y: x.index_fill(1, torch.tensor([1]), y), (SMOOTH, R(()))),
    ("take", lambda x: x.take(torch.tensor([5, 0, 0])), (SMOOTH,)),
    ("put", lambda x, y: x.put(torch.tensor([1, 4]), y), (SMOOTH, R((2,)))),
    ("put accumulating", lambda x, y: x.put(torch.tensor([1, 1]), y, accumulate=True), (SMOOTH, R((2,)))),
    ("take_along_dim", lambda x: x.take_along_dim(INDEX, 1), (SMOOTH,)),
    ("masked_select", lambda x: x.masked_select(MASK), (SMOOTH,)),
    ("masked_fill", lambda x: x.masked_fill(MASK, 2.0), (SMOOTH,)),
    ("masked_fill by a tensor", lambda x, y: x.masked_fill(MASK, y), (SMOOTH, R(()))),
    ("masked_scatter", lambda x, y: x.masked_scatter(MASK, y), (SMOOTH, R((5,)))),
    # joining
    ("cat", lambda x, y: torch.cat([x, y], 1), (SMOOTH, R((2, 2)))),
    ("stack", lambda x, y: torch.stack([x, y], 1), (SMOOTH, SMOOTH)),
    ("hstack and vstack", lambda x, y: (torch.hstack([x, y]), torch.vstack([x, y])), (SMOOTH, SMOOTH)),
    ("block_diag", lambda x, y: torch.block_diag(x, y), (SMOOTH, R((1, 2)))),
    ("cartesian_prod", lambda x, y: torch.cartesian_prod(x, y), (R((2,)), R((3,)))),
    ("meshgrid", lambda x, y: torch.meshgrid(x, y, indexing="ij"), (R((2,)), R((3,)))),
    # reductions and scans
    ("sum of a dim", lambda x: x.sum(1), (SMOOTH,)),
    ("mean of a dim", lambda x: x.mean(0, keepdim=True), (SMOOTH,)),
    ("max of a dim", lambda x: x.max(1).values, (KINK,)),
    ("min of a dim", lambda x: x.min(0, keepdim=True).values, (KINK,)),
    ("amax of dims", lambda x: x.amax((0, 2)), (R((2, 3, 3), apart=0.11),)),
    ("prod of a dim", lambda x: x.prod(1), (SMOOTH,)),
    ("prod with a zero", lambda x: (x * torch.tensor([0.0, 1, 1], dtype=x.dtype)).prod(1), (SMOOTH,)),
    ("var of dims", lambda x: x.var((0, 1), correction=0), (SMOOTH,)),
    ("std of a dim", lambda x: x.std(1, keepdim=True), (SMOOTH,)),
    ("logsumexp", lambda x: x.logsumexp(1), (SMOOTH,)),
    ("cumsum", lambda x: x.cumsum(1), (SMOOTH,)),
    ("cumprod", lambda x: x.cumprod(1), (SMOOTH,)),
    ("cummax", lambda x: x.cummax(1).values, (KINK,)),
    ("cummin", lambda x: x.cummin(1).values, (KINK,)),
    ("logcumsumexp", lambda x: x.logcumsumexp(1), (SMOOTH,)),
    ("sort", lambda x: x.sort(1).values, (KINK,)),
    ("sort descending", lambda x: x.sort(1, descending=True).values, (KINK,)),
    ("topk", lambda x: x.topk(2, 1).values, (KINK,)),
    ("kthvalue", lambda x: x.kthvalue(2, 1).values, (KINK,)),
    ("median of a dim", lambda x: x.median(1).values, (KINK,)),
    ("nanmedian of a dim", lambda x: x.nanmedian(1).values, (KINK,)),
    ("mode", lambda x: x.mode(1).values, (KINK,)),
    ("quantile", lambda x: x.quantile(0.3, 1), (KINK,)),
    ("aminmax", lambda x: tuple(torch.aminmax(x, dim=1)), (KINK,)),
    ("norm", lambda x: x.norm(), (SMOOTH,)),
    ("norm of order 3", lambda x: x.norm(3, 1), (KINK,)),
    ("norm of order infinity", lambda x: x.norm(float("inf"), 1), (KINK,)),
    ("renorm", lambda x: torch.renorm(x, 2, 0, 0.5), (SMOOTH,)),
    ("vector_norm 1", lambda x: torch.linalg.vector_norm(x, 1, 1), (KINK,)),
    ("nuclear norm", lambda x: torch.linalg.matrix_norm(x, "nuc"), (SMOOTH,)),
    ("matrix norm", lambda x: torch.linalg.matrix_norm(x, "fro"), (SMOOTH,)),
    ("gradient", lambda x: torch.gradient(x, dim=1)[0], (SMOOTH,)),
    ("cumulative_trapezoid", lambda x: torch.cumulative_trapezoid(x), (SMOOTH,)),
    ("normalize", lambda x: F.normalize(x), (SMOOTH,)),
    ("cosine_similarity", lambda *ts: F.cosine_similarity(*ts), (SMOOTH, SMOOTH)),
    ("pairwise_distance", lambda *ts: F.pairwise_distance(*ts), (SMOOTH, R((2, 3), 2, 3))),
    # contractions
    ("addmm", lambda x, y, z: torch.addmm(x, y, z, beta=0.5, alpha=2), (R((4,)), SMOOTH, R((3, 4)))),
    ("addmv", lambda x, y, z: torch.addmv(x, y, z, beta=0.5, alpha=2), (R((2,)), SMOOTH, R((3,)))),
    ("baddbmm", lambda x, y, z: torch.baddbmm(x, y, z, beta=0.5, alpha=2), (R((2, 3, 2)), BATCH, R((2, 3, 2)))),
    ("addbmm", lambda x, y, z: torch.addbmm(x, y, z), (R((3, 2)), BATCH, R((2, 3, 2)))),
    ("addr", lambda x, y, z: torch.addr(x, y, z), (SMOOTH, R((2,)), R((3,)))),
    ("einsum", lambda x, y: torch.einsum("bij,bjk->bik", x, y), (BATCH, R((2, 3, 2)))),
    ("einsum with a diagonal", lambda x: torch.einsum("ii->i", x), (SQUARE,)),
    ("tensordot", lambda x, y: torch.tensordot(x, y, 1), (SMOOTH, R((3, 4)))),
    ("linear", lambda *ts: F.linear(*ts), (SMOOTH, R((4, 3)), R((4,)))),
    ("linear of a batch", lambda *ts: F.linear(*ts), (BATCH, R((4, 3)), R((4,)))),
    ("linear without bias", lambda *ts: F.linear(*ts), (SMOOTH, R((4, 3)))),
    ("bilinear", lambda *ts: F.bilinear(*ts), (SMOOTH, R((2, 2)), R((4, 3, 2)), R((4,)))),
    ("matmul of vectors", lambda *ts: torch.matmul(*ts), (R((3,)), R((3,)))),
    ("vector by matrix", lambda *ts: torch.matmul(*ts), (R((3,)), R((3, 2)))),
    ("matmul, broadcast", lambda *ts: torch.matmul(*ts), (R((2, 1, 2, 3)), R((3, 3, 2)))),
    ("inverse", lambda x: torch.linalg.inv(spd(x)), (SQUARE,)),
    ("determinant", lambda x: torch.linalg.det(spd(x)), (SQUARE,)),
    ("slogdet", lambda x: torch.linalg.slogdet(spd(x))[1], (SQUARE,)),
    ("cholesky", lambda x: torch.linalg.cholesky(spd(x)), (SQUARE,)),
    ("solve", lambda x, y: torch.linalg.solve(spd(x), y), (SQUARE, R((3, 2)))),
    ("eigenvalues", lambda x: torch.linalg.eigvalsh(spd(x)), (SQUARE,)),
    ("singular values", lambda x: torch.linalg.svdvals(x), (SMOOTH,)),
    ("qr", lambda x: tuple(torch.linalg.qr(spd(x))), (SQUARE,)),
    ("pinv", lambda x: torch.linalg.pinv(spd(x)), (SQUARE,)),
    ("matrix_exp", lambda x: torch.linalg.matrix_exp(x), (SQUARE,)),
    ("triangular solve", lambda x, y: torch.linalg.solve_triangular(spd(x).tril(), y, upper=False), (SQUARE, R((3, 2)))),
    ("lstsq", lambda x, y: torch.linalg.lstsq(x, y).solution, (R((4, 2)), R((4, 1)))),
    ("matrix_power", lambda x: torch.linalg.matrix_power(x, 3), (SQUARE,)),
    ("multi_dot", lambda x, y: torch.linalg.multi_dot([x, y, y.T]), (SMOOTH, R((3, 2)))),
    # activations
    *[(f"F.{name}", lambda x, name=name: getattr(F, name)(x), (spec,)) for name, spec in {
        "relu6": R(apart=0.37), "leaky_relu": KINK, "elu": KINK, "selu": KINK, "celu": KINK, "gelu": SMOOTH, "silu": SMOOTH, "mish": SMOOTH, "hardswish": SMOOTH, "hardsigmoid": SMOOTH, "hardtanh": KINK, "softplus": SMOOTH, "softsign": KINK, "tanhshrink": SMOOTH, "logsigmoid": SMOOTH, "hardshrink": R(apart=0.37), "softshrink": R(apart=0.37)}.items()],
    ("gelu by tanh", lambda x: F.gelu(x, approximate="tanh"), (SMOOTH,)),
    ("threshold", lambda x: F.threshold(x, 0.1, 2.0), (KINK,)),
    ("prelu", lambda x, w: F.prelu(x, w), (R((2, 3, 2), apart=0.21), R((3,)))),
    ("glu", lambda x: F.glu(x, 1), (R((2, 4)),)),
    ("rrelu in evaluation", lambda x: F.rrelu(x, training=False), (KINK,)),
    ("softmax", lambda x: F.softmax(x, 1), (SMOOTH,)),
    ("log_softmax", lambda x: F.log_softmax(x, 0), (SMOOTH,)),
    ("softmin", lambda x: F.softmin(x, 1), (SMOOTH,)),
    ("celu, alpha", lambda x: F.celu(x, 0.7), (KINK,)),
    ("elu, alpha", lambda x: F.elu(x, 0.7), (KINK,)),
    ("softplus, beta", lambda x: F.softplus(x, 2.0), (SMOOTH,)),
    # losses
    *[(f"{name} {how}", lambda x, y, name=name, how=how: getattr(F, name)(x, y, reduction=how), (SMOOTH, R(low=2, high=5))) for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss") for how in ("mean", "sum", "none")],
    ("binary_cross_entropy", lambda x, y: F.binary_cross_entropy(x, y), (R(low=0.2, high=0.8), R(low=0.2, high=0.8))),
    ("binary_cross_entropy_with_logits", lambda x, y: F.binary_cross_entropy_with_logits(x, y, pos_weight=torch.tensor([1.0, 2, 3], dtype=x.dtype)), (SMOOTH, R(low=0.2, high=0.8))),
    ("cross_entropy", lambda x: F.cross_entropy(x, torch.tensor([2, 0]), weight=torch.tensor([1.0, 2, 3], dtype=x.dtype), label_smoothing=0.1), (SMOOTH,)),
    ("cross_entropy plain", lambda x: F.cross_entropy(x, torch.tensor([2, 0])), (SMOOTH,)),
    ("cross_entropy of chances", lambda x: F.cross_entropy(x, torch.softmax(INDEX.to(x.dtype), 1)), (SMOOTH,)),
    ("cross_entropy of pictures", lambda x: F.cross_entropy(x, torch.tensor([[[0, 1], [2, 2]]])), (R((1, 3, 2, 2)),)),
    ("nll_loss", lambda x: F.nll_loss(x, torch.tensor([2, -100]), reduction="sum"), (SMOOTH,)),
    ("nll_loss of pictures", lambda x: F.nll_loss(x, torch.tensor([[[0, 1], [2, 2]]])), (R((1, 3, 2, 2)),)),
    ("kl_div", lambda x, y: F.kl_div(x, y, reduction="batchmean"), (SMOOTH, POSITIVE)),
    ("poisson_nll_loss", lambda x: F.poisson_nll_loss(x, INDEX.to(x.dtype)), (SMOOTH,)),
    ("gaussian_nll_loss", lambda *ts: F.gaussian_nll_loss(*ts), (SMOOTH, SMOOTH, POSITIVE)),
    ("hinge_embedding_loss", lambda x: F.hinge_embedding_loss(x, MASK.to(x.dtype) * 2 - 1), (R(low=1.1, high=2),)),
    ("margin_ranking_loss", lambda x, y: F.margin_ranking_loss(x, y, MASK.to(x.dtype) * 2 - 1), (R(apart=0.37), R(apart=0.23))),
    ("soft_margin_loss", lambda x: F.soft_margin_loss(x, MASK.to(x.dtype) * 2 - 1), (SMOOTH,)),
    ("triplet_margin_loss", lambda *ts: F.triplet_margin_loss(*ts), (SMOOTH, SMOOTH, SMOOTH)),
    ("cosine_embedding_loss", lambda x, y: F.cosine_embedding_loss(x, y, torch.tensor([1, -1])), (POSITIVE, POSITIVE)),
    ("multi_margin_loss", lambda x: F.multi_margin_loss(x, torch.tensor([2, 0])), (R(apart=0.23),)),
    ("ctc_loss", lambda x: F.ctc_loss(x.log_softmax(2), torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2])), (R((4, 1, 3)),)),
    # normalization
    ("layer_norm", lambda x, w, b: F.layer_norm(x, (3,), w, b), (SMOOTH, R((3,)), R((3,)))),
    ("rms_norm", lambda x, w: F.rms_norm(x, (3,), w), (SMOOTH, R((3,)))),
    ("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), (R((2, 4, 3)), R((4,)), R((4,)))),
    ("instance_norm", lambda x: F.instance_norm(x), (R((2, 2, 4)),)),
    ("batch_norm in training", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), (R((4, 3)), R((3,)), R((3,)))),
    ("batch_norm in evaluation", lambda x, w, b: F.batch_norm(x, torch.zeros(3, dtype=x.dtype), torch.ones(3, dtype=x.dtype), w, b), (R((4, 3)), R((3,)), R((3,)))),
    ("local_response_norm", lambda x: F.local_response_norm(x, 2), (R((2, 4, 3)),)),
    # convolutions and pools
    ("conv1d", lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), (R((2, 2, 5)), R((3, 2, 3)), R((3,)))),
    ("conv2d", lambda x, w, b: F.conv2d(x, w, b, padding=1, dilation=(1, 2)), (R((1, 2, 4, 5)), R((2, 2, 2, 2)), R((2,)))),
    ("conv2d in groups", lambda x, w: F.conv2d(x, w, groups=2), (R((1, 4, 3, 3)), R((4, 2, 2, 2)))),
    ("conv3d", lambda x, w: F.conv3d(x, w), (R((1, 1, 3, 3, 3)), R((2, 1, 2, 2, 2)))),
    ("conv_transpose1d", lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2, padding=1, output_padding=1), (R((1, 2, 3)), R((2, 2, 3)), R((2,)))),
    ("conv_transpose2d", lambda x, w: F.conv_transpose2d(x, w, stride=2, groups=2), (R((1, 2, 2, 3)), R((2, 1, 2, 2)))),
    ("max_pool1d", lambda x: F.max_pool1d(x, 2), (R((1, 2, 5), apart=0.17),)),
    ("max_pool2d", lambda x: F.max_pool2d(x, 2, 1, 1), (R((1, 2, 3, 3), apart=0.07),)),
    ("max_pool3d", lambda x: F.max_pool3d(x, 2), (R((1, 1, 2, 4, 2), apart=0.07),)),
    ("avg_pool1d", lambda x: F.avg_pool1d(x, 2), (R((1, 2, 5)),)),
    ("avg_pool2d", lambda x: F.avg_pool2d(x, 2, 1, 1), (R((1, 2, 3, 3)),)),
    ("avg_pool3d", lambda x: F.avg_pool3d(x, 2), (R((1, 1, 2, 4, 2)),)),
    ("max_pool2d with places", lambda x: F.max_pool2d(x, 2, return_indices=True)[0], (R((1, 2, 4, 4), apart=0.07),)),
    ("max_pool3d with places", lambda x: F.max_pool3d(x, 2, return_indices=True)[0], (R((1, 1, 2, 4, 2), apart=0.07),)),
    ("lp_pool2d", lambda x: F.lp_pool2d(x, 2, 2), (R((1, 1, 4, 4), 0.3, 2),)),
    ("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (2, 3)), (R((1, 2, 5, 4)),)),
    ("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (2, 3)), (R((1, 2, 5, 4), apart=0.03),)),
    ("max_unpool2d", lambda x: F.max_unpool2d(x, torch.tensor([[[[0, 3], [9, 10]]]]), 2), (R((1, 1, 2, 2)),)),
    ("max_unpool3d", lambda x: F.max_unpool3d(x, torch.tensor([[[[[0, 3], [9, 10]]]]]), 2), (R((1, 1, 1, 2, 2)),)),
    ("pad", lambda x: F.pad(x, (1, 2, 0, 1)), (SMOOTH,)),
    ("reflect pad", lambda x: F.pad(x, (1, 2), mode="reflect"), (R((1, 2, 4)),)),
    ("replicate pad", lambda x: F.pad(x, (1, 2), mode="replicate"), (R((1, 2, 4)),)),
    ("circular pad", lambda x: F.pad(x, (1, 2), mode="circular"), (R((1, 2, 4)),)),
    ("unfold of patches", lambda x: F.unfold(x, 2), (R((1, 2, 3, 3)),)),
    ("fold of patches", lambda x: F.fold(x, (3, 3), 2), (R((1, 4, 4)),)),
    *[(f"interpolate {mode}", lambda x, mode=mode: F.interpolate(x, size=(5, 3), mode=mode), (R((1, 2, 3, 4)),)) for mode in ("nearest", "bilinear", "bicubic", "area")],
    ("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), (R((1, 4, 2, 2)),)),
    ("grid_sample", lambda x, g: F.grid_sample(x, g, align_corners=False), (R((1, 2, 3, 3)), R((1, 2, 2, 2), -0.6, 0.6))),
    ("affine_grid", lambda t: F.affine_grid(t, (1, 1, 2, 3), align_corners=False), (R((1, 2, 3)),)),
    # embeddings, attention
    ("embedding", lambda w: F.embedding(torch.tensor([[0, 2], [2, 1]]), w), (R((4, 3)),)),
    ("embedding with padding", lambda w: F.embedding(torch.tensor([0, 2, 2]), w, padding_idx=1), (R((4, 3)),)),
    *[(f"embedding_bag {mode}", lambda w, mode=mode: F.embedding_bag(torch.tensor([0, 2, 2, 1]), w, torch.tensor([0, 3]), mode=mode), (R((4, 3), apart=0.13),)) for mode in ("sum", "mean", "max")],
    ("embedding_bag with weights", lambda w, p: F.embedding_bag(torch.tensor([0, 2, 2, 1]), w, torch.tensor([0, 3]), mode="sum", per_sample_weights=p), (R((4, 3)), R((4,)))),
    ("attention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), (R((1, 2, 3, 2)), R((1, 2, 4, 2)), R((1, 2, 4, 2)))),
    ("causal attention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), (R((1, 3, 2)), R((1, 3, 2)), R((1, 3, 2)))),
    # wider forms of the above
    ("cdist by a matrix product", lambda x, y: torch.cdist(x, y, compute_mode="use_mm_for_euclid_dist"), (SMOOTH, R((4, 3)))),
    ("squeeze of several dims", lambda x: x.squeeze((0, 2)), (R((1, 3, 1)),)),
    ("as_strided_scatter into a transpose", lambda x, y: torch.as_strided_scatter(x.t(), y, (2,), (2,), 1), (SMOOTH, R((2,)))),
    ("scatter_add of a part", lambda x, y: x.scatter_add(1, INDEX[:, :2], y), (SMOOTH, SMOOTH)),
    ("as_subclass", lambda x: x.as_subclass(torch.Tensor) * 2, (SMOOTH,)),
    ("index by nothing", lambda x: x[()], (SMOOTH,)),
    ("frexp", lambda x: torch.frexp(x).mantissa, (KINK,)),
    ("mvlgamma", lambda x: torch.mvlgamma(x, 2), (R(low=1.2, high=3),)),
    ("ndtri", lambda x: torch.special.ndtri(x), (R(low=0.1, high=0.9),)),
    ("xlog1py", lambda x, y: torch.special.xlog1py(x, y), (SMOOTH, POSITIVE)),
    ("zeta", lambda x: torch.special.zeta(torch.tensor([2.5, 3.0, 4.0], dtype=x.dtype), x), (POSITIVE,)),
    ("igamma", lambda x: torch.igamma(torch.tensor([0.5, 1.0, 2.0], dtype=x.dtype), x), (POSITIVE,)),
    ("igammac", lambda x: torch.igammac(torch.tensor([0.5, 1.0, 2.0], dtype=x.dtype), x), (POSITIVE,)),
    ("pdist", lambda x: F.pdist(x), (R((4, 3)),)),
    ("nuclear norm by name", lambda x: torch.norm(x, "nuc"), (SMOOTH,)),
    ("eig", lambda x: torch.linalg.eig(spd(x)).eigenvalues.real, (SQUARE,)),
    ("lu", lambda x: tuple(torch.linalg.lu(spd(x)))[1:], (SQUARE,)),
    ("lu_factor", lambda x: torch.linalg.lu_factor(spd(x))[0], (SQUARE,)),
    ("lu_unpack", lambda x: torch.lu_unpack(*torch.linalg.lu_factor(spd(x)))[1:], (SQUARE,)),
    ("lu_solve", lambda x, y: torch.linalg.lu_solve(*torch.linalg.lu_factor(spd(x)), y), (SQUARE, R((3, 2)))),
    ("householder_product", lambda x, t: torch.linalg.householder_product(x, t), (R((3, 2)), R((2,)))),
    ("multilabel_margin_loss", lambda x: F.multilabel_margin_loss(x, torch.tensor([[2, 0, -1], [1, -1, -1]])), (R(apart=0.23),)),
    ("channel_shuffle", lambda x: F.channel_shuffle(x, 2), (R((1, 4, 2, 2)),)),
    ("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), (R((1, 1, 2, 4)),)),
    *[(f"{mode} pad of {n} dims", lambda x, mode=mode, n=n: F.pad(x, (1, 2) * n, mode=mode), (R((1, 1, *(3, 4, 3)[:n])),)) for mode in ("reflect", "replicate", "circular") for n in (2, 3)],
    *[(f"interpolate {mode} {len(size)} dims", lambda x, mode=mode, size=size: F.interpolate(x, size=size, mode=mode), (R((1, 2, *(3, 4, 2)[:len(size)])),)) for mode, size in (
        ("linear", (5,)), ("nearest", (5,)), ("nearest", (2, 5, 3)), ("trilinear", (2, 5, 3)), ("area", (2, 2, 2)), ("nearest-exact", (5,)), ("nearest-exact", (5, 3)), ("nearest-exact", (2, 5, 3)))],
    *[(f"interpolate {mode}, antialiased", lambda x, mode=mode: F.interpolate(x, size=(2, 3), mode=mode, antialias=True), (R((1, 2, 5, 4)),)) for mode in ("bilinear", "bicubic")],
    ("interpolate, aligned corners", lambda x: F.interpolate(x, size=(5, 3), mode="bilinear", align_corners=True), (R((1, 2, 3, 4)),)),
    *[(f"grid_sample {mode} {padding}", lambda x, g, mode=mode, padding=padding: F.grid_sample(x, g, mode=mode, padding_mode=padding, align_corners=False), (R((1, 2, 3, 3)), R((1, 2, 2, 2), -0.6, 0.6))) for mode, padding in (("nearest", "zeros"), ("bilinear", "border"), ("bilinear", "reflection"), ("bicubic", "zeros"))],
    ("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 2), (R((1, 2, 5)),)),
    ("adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x, (1, 2, 2)), (R((1, 1, 2, 3, 4)),)),
    ("adaptive_max_pool3d", lambda x: F.adaptive_max_pool3d(x, (1, 2, 2)), (R((1, 1, 2, 3, 4), apart=0.03),)),
    ("fractional_max_pool2d", lambda x: F.fractional_max_pool2d(x, 2, output_size=(2, 2), _random_samples=torch.tensor([[[0.3, 0.7]]], dtype=x.dtype)), (R((1, 1, 4, 4), apart=0.03),)),
    ("fractional_max_pool3d", lambda x: F.fractional_max_pool3d(x, 2, output_size=(2, 2, 2), _random_samples=torch.tensor([[[0.3, 0.7, 0.5]]], dtype=x.dtype)), (R((1, 1, 4, 4, 4), apart=0.013),)),
    ("fft", lambda x: torch.view_as_real(torch.fft.fft(x)), (SMOOTH,)),
    ("rfft and back", lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2, n=4), (R((2, 4)),)),
]


def write_view(x):
    y = x * 1
    y[:, 1].mul_(3)
    return y


def write_item(x, value):
    y = x * 1
    y[1] = value
    return y * y


def write_mask(x, value):
    y = x * 1
    y[MASK] = value
    return y * y


def write_index(x, values):
    y = x * 1
    y[torch.tensor([0, 1]), torch.tensor([2, 0])] = values
    return y * y


def reach(name):
    """torch.NAME, with dots."""
    found = torch
    for part in name.split("."):
        found = getattr(found, part)
    return found


ROWS = [(name, lambda *tensors, name=name: reach(name)(*tensors), (spec,)) for name, spec in UNARY.items()]
ROWS += [(name, lambda *tensors, name=name: reach(name)(*tensors), specs) for name, specs in BINARY.items()]
ROWS += OTHER
