"""Softmax layers, and the adaptive softmax for large vocabularies."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from rushlight import ops
from rushlight.nn.container import ModuleList, Sequential
from rushlight.nn.linear import Linear
from rushlight.nn.module import Module
from rushlight.ops import functional as F
from rushlight.tensor import Tensor


class _OverDim(Module):
    """A layer whose argument is the dim it normalises over."""

    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "dim"):
            self.dim = None


class Softmax(_OverDim):
    """exp(x) / sum(exp(x)) over `dim`; same shape. Without a dim it warns and guesses one, as PyTorch does.

    Example:
        >>> import rushlight as torch
        >>> torch.nn.Softmax(dim=0)(torch.zeros(2))
        tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(_OverDim):
    """log of softmax over `dim`, computed without overflow; same shape.

    >>> import rushlight as torch
    >>> torch.nn.LogSoftmax(dim=0)(torch.zeros(2))
    tensor([-0.6931, -0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmin(_OverDim):
    """softmax(-x) over `dim`; same shape.

    >>> import rushlight as torch
    >>> torch.nn.Softmin(dim=0)(torch.zeros(2))
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W); ValueError for other shapes.

    >>> import rushlight as torch
    >>> torch.nn.Softmax2d()(torch.zeros(1, 2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3, _stacklevel=5)


_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


def rows_are_known(target: Tensor) -> bool:
    """Whether the rows of a cluster can be counted: not where a graph is exported, which answers for itself (export/trace.py)."""
    return True


def check_classes(target: Tensor, count: int) -> None:
    """Refuse class numbers that there are not."""
    if target.numel() and (int(target.min()) < 0 or int(target.max()) >= count):
        raise RuntimeError(
            f"Target values should be in [0, {count - 1}], but values in range [{target.min().item()}, {target.max().item()}] were found. "
        )


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probabilities over many classes, the rare ones in clusters with smaller projections (Grave et al. 2017).

    Args:
        in_features: size of the last dim of the input.
        n_classes: number of classes, sorted by frequency.
        cutoffs: increasing class numbers at which a new cluster starts.
        div_value: factor by which each cluster's projection is smaller than the one before.

    Shapes: input (N, in_features) and target (N,), or (in_features,) and (). The result has `output`, the
    log-probability of each target, and `loss`, their negated mean.

    >>> import rushlight as torch
    >>> layer = torch.nn.AdaptiveLogSoftmaxWithLoss(16, 6, cutoffs=[2, 4])
    >>> output, loss = layer(torch.ones(3, 16), torch.tensor([0, 3, 5]))
    >>> output.shape, loss.shape
    (torch.Size([3]), torch.Size([]))
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if len(cutoffs) == 0:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            cutoffs != sorted(cutoffs)
            or min(cutoffs) <= 0
            or max(cutoffs) > n_classes - 1
            or len(set(cutoffs)) != len(cutoffs)
            or any(int(c) != c for c in cutoffs)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
                "where each value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // (div_value ** (i + 1)))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, device=device, dtype=dtype),
                    Linear(hidden, size, bias=False, device=device, dtype=dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Initialise head and clusters anew."""
        self.head.reset_parameters()
        for projection, output in self.tail:  # type: ignore[attr-defined,misc]
            projection.reset_parameters()
            output.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> Any:
        if target_.dim() == 1:
            if input_.size(0) != target_.size(0):
                raise RuntimeError("Input and target should have the same size in the batch dimension.")
            if input_.dim() != 2:
                raise RuntimeError(
                    f"1D target tensor expects 2D input tensors, but found inputs with size {input_.size()}"
                )
        elif target_.dim() == 0:
            if input_.dim() != 1:
                raise RuntimeError(
                    f"0D target tensor expects 1D input tensors, but found inputs with size {input_.size()}"
                )
        else:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        batched = target_.dim() > 0
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        check_classes(target, self.n_classes)
        if rows_are_known(target):
            output = self._by_cluster(input, target)
        else:
            output = self.log_prob(input).gather(1, target.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _by_cluster(self, input: Tensor, target: Tensor) -> Tensor:
        """The log-probability of each row's target: a cluster computes its own rows only, and gets no gradient where it has none."""
        columns, parts = target, []
        for i, tail in enumerate(self.tail):
            inside = ops.logical_and(ops.ge(target, self.cutoffs[i]), ops.lt(target, self.cutoffs[i + 1]))
            rows = inside.nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            columns = ops.where(inside, self.shortlist_size + i, columns)
            found = F.log_softmax(tail(input.index_select(0, rows)), dim=1)
            parts.append((rows, found.gather(1, (target.index_select(0, rows) - self.cutoffs[i]).unsqueeze(1)).squeeze(1)))
        output = F.log_softmax(self.head(input), dim=1).gather(1, columns.unsqueeze(1)).squeeze(1)
        for rows, found in parts:
            output = output.index_add(0, rows, found)
        return output

    def log_prob(self, input: Tensor) -> Tensor:
        """Log-probabilities (N, n_classes) of all classes."""
        head = F.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            parts.append(F.log_softmax(tail(input), dim=1) + head[:, self.shortlist_size + i].unsqueeze(1))
        return ops.cat(parts, dim=1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each row, (N,)."""
        return ops.argmax(self.log_prob(input), dim=1)
