"""Distances between batches of vectors."""

from __future__ import annotations

from rushlight.nn.module import Module
from rushlight.ops import functional as F
from rushlight.tensor import Tensor


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 + eps along the last dim: (N, D), (N, D) -> (N,).

    Example:
        >>> import rushlight as torch
        >>> torch.nn.PairwiseDistance(eps=0.0)(torch.tensor([[3.0, 4.0]]), torch.zeros(1, 2))
        tensor([5.])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """x1 . x2 / (max(|x1|, eps) * max(|x2|, eps)) along `dim`.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.CosineSimilarity()(torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 1.0]]))
        tensor([0.])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
