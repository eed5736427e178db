"""Ready parametrizations: orthogonal matrices, spectral normalisation and weight normalisation."""

from __future__ import annotations

from typing import Any

from rushlight import ops
from rushlight.core.dtypes import finfo
from rushlight.core.modes import no_grad
from rushlight.nn import linear_algebra as linalg
from rushlight.nn.conv_transpose import _ConvTransposeNd
from rushlight.nn.module import Module
from rushlight.nn.utils import parametrize
from rushlight.nn.utils.weight_norm import norm_except_dim, normalized
from rushlight.ops import functional as F
from rushlight.tensor import Tensor

ORTHOGONAL_MAPS = ("matrix_exp", "cayley", "householder")


def _is_orthogonal(matrix: Tensor) -> bool:
    columns = matrix.size(-1)
    if matrix.size(-2) < columns:
        return False
    eps = 10 * matrix.size(-2) * finfo(matrix.dtype).eps
    identity = ops.eye(columns, dtype=matrix.dtype)
    return bool(ops.allclose(matrix.mH @ matrix, identity, atol=eps))


def _make_orthogonal(matrix: Tensor) -> Tensor:
    """The Q of the decomposition whose R has a non-negative diagonal."""
    q, r = linalg.qr(matrix)
    return q * ops.diagonal(r, dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """X -> an orthogonal matrix, by the exponential or Cayley map of a skew matrix, or by Householder reflections.

    With trivialization the buffer `base` is multiplied on, and X counts from it (Lezcano-Casado 2019).
    """

    base: Any

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        rows, columns = X.size(-2), X.size(-1)
        wide = rows < columns
        if wide:
            X = X.mT
            rows, columns = columns, rows
        if self.orthogonal_map == "householder":
            reflectors = X.tril(diagonal=-1)
            tau = 2.0 / (1.0 + (reflectors * reflectors).sum(dim=-2))
            result = linalg.householder_product(reflectors, tau)
            result = result * ops.diagonal(X, dim1=-2, dim2=-1).sign().detach().unsqueeze(-2)
        else:
            X = X.tril()
            if rows != columns:
                X = ops.cat([X, ops.zeros((*X.shape[:-1], rows - columns), dtype=X.dtype)], dim=-1)
            skew = X - X.mH
            if self.orthogonal_map == "matrix_exp":
                result = ops.matrix_exp(skew)
            else:
                identity = ops.eye(rows, dtype=skew.dtype)
                result = linalg.solve(identity - 0.5 * skew, identity + 0.5 * skew)
            if rows != columns:
                result = result[..., :columns]
        if hasattr(self, "base"):
            result = self.base @ result
        return result.mT if wide else result

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        """The X that gives `Q`, made orthogonal first if it is not; with trivialization this moves the base."""
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
            )
        given = Q
        rows, columns = Q.size(-2), Q.size(-1)
        wide = rows < columns
        if wide:
            Q = Q.mT
            rows, columns = columns, rows
        if not hasattr(self, "base"):
            if self.orthogonal_map in ("cayley", "matrix_exp"):
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential "
                    "or the Cayley parametrizations when use_trivialization=False."
                )
            reflectors, tau = ops.geqrf(Q)
            diagonal = ops.diagonal(reflectors, dim1=-2, dim2=-1)
            diagonal.copy_(ops.where(tau == 0.0, -diagonal.sign(), diagonal.sign()))
            return reflectors.mT if wide else reflectors
        if rows == columns:
            Q = Q.clone() if _is_orthogonal(Q) else _make_orthogonal(Q)
        else:
            noise = ops.randn(*Q.shape[:-2], rows, rows - columns, dtype=Q.dtype)
            Q = _make_orthogonal(ops.cat([Q, noise], dim=-1))
        self.base = Q
        # With the base at Q, minus the identity maps to the identity under every map.
        start = ops.zeros_like(given)
        ops.diagonal(start, dim1=-2, dim2=-1).fill_(-1.0)
        return start


def _weight(module: Module, name: str) -> Tensor:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep a matrix, or a batch of them, orthogonal: rows or columns, whichever are fewer, are orthonormal.

    Args:
        orthogonal_map: "matrix_exp", "cayley" or "householder"; by default the first for square matrices, else the last.
        use_trivialization: keep a base matrix and parametrize from there.
    """
    weight = _weight(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1) or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    if orthogonal_map not in ORTHOGONAL_MAPS:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". ' f"Got: {orthogonal_map}"
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


class _WeightNorm(Module):
    """(g, v) -> g * v / |v|, the norm over all dims but `dim`."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return normalized(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The length and the direction of `weight`."""
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Parametrize a weight by its length `original0` and direction `original1` (Salimans and Kingma 2016).

    Example:
        >>> import rushlight as torch
        >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(20, 40))
        >>> layer.parametrizations.weight.original0.shape
        torch.Size([40, 1])
    """
    made = _WeightNorm(dim)
    parametrize.register_parametrization(module, name, made, unsafe=True)

    def from_old_names(
        state_dict: Any, prefix: str, metadata: Any, strict: bool, missing: Any, unexpected: Any, errors: Any
    ) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(from_old_names)
    return module


class _SpectralNorm(Module):
    """weight -> weight / its largest singular value, which power iterations keep track of in `_u` and `_v`."""

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        count = weight.ndim
        if not -count <= dim < count:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{count}, {count - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % count
        self.eps = eps
        if count > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._reshape_weight_to_matrix(weight)
            rows, columns = matrix.size()
            u = ops.empty(rows, dtype=weight.dtype).normal_(0, 1)
            v = ops.empty(columns, dtype=weight.dtype).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)  # random vectors are far off: start near

    def _reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        if self.dim != 0:
            weight = weight.permute(self.dim, *[d for d in range(weight.dim()) if d != self.dim])
        return weight.flatten(1)

    @no_grad()
    def _power_method(self, weight_mat: Tensor, n_power_iterations: int) -> None:
        for _ in range(n_power_iterations):
            self._u.copy_(F.normalize(ops.mv(weight_mat, self._v), dim=0, eps=self.eps))
            self._v.copy_(F.normalize(ops.mv(weight_mat.mH, self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # Copies, so that a later iteration does not change what this graph saved.
        u, v = self._u.clone(), self._v.clone()
        return weight / ops.vdot(u, ops.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """`value` itself: its norm is found again by the next calls."""
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value (Miyato et al. 2018).

    Args:
        n_power_iterations: steps per call in training mode.
        dim: the dim along which the weight's rows run; 1 for transposed convolutions, else 0.
    """
    weight = _weight(module, name)
    if dim is None:
        dim = 1 if isinstance(module, _ConvTransposeNd) else 0
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, made)
