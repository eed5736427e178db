"""Random Cholesky factors of correlation matrices (Lewandowski, Kurowicka and Joe, 2009)."""
import math

from .. import ops
from ..core.modes import get_default_dtype
from ..core.size import Size
from . import constraints
from .distribution import Distribution
from .gamma import Beta
from .utils import broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Lower Cholesky factors of `dim` x `dim` correlation matrices M, with density proportional to det(M) ** (concentration - 1).

    >>> import rushlight as torch
    >>> torch.distributions.LKJCholesky(3, 0.5).sample().shape
    torch.Size([3, 3])
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        self.concentration, = broadcast_all(concentration)
        marginal = self.concentration + 0.5 * (dim - 2)
        offset = ops.arange(dim - 1, dtype=get_default_dtype())
        offset = ops.cat([offset.new_zeros((1,)), offset])
        self._beta = Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)
        super().__init__(self.concentration.size(), Size((dim, dim)), validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._expanded(LKJCholesky, batch_shape, {"concentration": ()}, _instance, self.event_shape)
        new.dim, new._beta = self.dim, self._beta.expand(Size(batch_shape) + (self.dim,))
        return new

    def sample(self, sample_shape=Size()):
        """By the onion method: each row a random direction, cut to a beta distributed length."""
        y = self._beta.sample(sample_shape).unsqueeze(-1)
        noise = ops.randn(self._extended_shape(sample_shape), dtype=y.dtype).tril(-1)
        direction = noise / noise.norm(dim=-1, keepdim=True)
        direction[..., 0, :] = 0.0
        w = ops.sqrt(y) * direction
        diagonal = ops.clamp(1 - w.pow(2).sum(-1), min=1e-38 if w.element_size() == 4 else 2e-308).sqrt()
        return w + ops.diag_embed(diagonal)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = ops.arange(2, self.dim + 1)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        unnormalized = (order * diagonal.log()).sum(-1)
        less = self.dim - 1
        alpha = self.concentration + 0.5 * less
        denominator = ops.lgamma(alpha) * less
        return unnormalized - (0.5 * less * math.log(math.pi) + ops.mvlgamma(alpha - 0.5, less) - denominator)
