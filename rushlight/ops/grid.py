"""affine_grid and grid_sample: reading images at any positions. Composites of ops, differentiable to any order."""
import warnings

from ..core.size import product
from .arguments import need_tensors
from .comparison import where
from .creation import linspace, ones
from .joining import stack
from .record import composite
from .repeated import chain

CUBIC = -0.75


def base_positions(count, align_corners, dtype):
    """Positions -1 to 1: of pixel centres, or with the corners at the ends."""
    if count == 1:
        return linspace(0, 0, 1, dtype=dtype)
    positions = linspace(-1, 1, count, dtype=dtype)
    return positions if align_corners else positions * ((count - 1) / count)


@composite("nn")
def affine_grid(theta, size, align_corners=None):
    """The positions that affine maps theta (N, 2, 3) or (N, 3, 4) read, for images of `size` (N, C, H, W) or (N, C, D, H, W).

    >>> import rushlight as torch
    >>> torch.nn.functional.affine_grid(torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2), align_corners=True)
    tensor([[[[-1.,  0.],
              [ 1.,  0.]]]])
    """
    if align_corners is None:
        warnings.warn("Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify "
                      "align_corners=True if the old behavior is desired. See the documentation of grid_sample for details.", stacklevel=2)
        align_corners = False
    if not theta._dtype.is_floating_point:
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    size = tuple(size)
    if len(size) not in (4, 5):
        raise NotImplementedError("affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size "
                                  f"{size}.")
    n = len(size) - 2
    if theta.ndim != 3 or tuple(theta.shape[-2:]) != (n, n + 1):
        raise ValueError(f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {size}. Got {theta.shape}.")
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    spatial = size[2:]
    columns = []
    for at in reversed(range(n)):
        shape = [1] * n
        shape[at] = spatial[at]
        columns.append(base_positions(spatial[at], align_corners, theta._dtype).reshape(shape).expand(spatial))
    base = stack([*columns, ones(spatial, dtype=theta._dtype)], -1).reshape(1, product(spatial), n + 1)
    return (base.expand(theta.shape[0], -1, -1) @ theta.transpose(1, 2)).reshape(theta.shape[0], *spatial, n)


def unnormalized(position, size, align_corners):
    """A position of [-1, 1] in pixels."""
    return (position + 1) * ((size - 1) / 2) if align_corners else ((position + 1) * size - 1) / 2


def reflected(position, low, high):
    """The position folded back into [low / 2, high / 2]."""
    if low == high:
        return position * 0
    span, start = (high - low) / 2, low / 2
    distance = (position - start).abs()
    folds = (distance / span).floor()
    rest = distance - folds * span
    return where((folds % 2) == 0, rest + start, span - rest + start)


def inside(position, size, padding_mode, align_corners):
    """The position moved into the image where the padding mode says so."""
    if padding_mode == "reflection":
        position = reflected(position, 0, 2 * (size - 1)) if align_corners else reflected(position, -1, 2 * size - 1)
    return position if padding_mode == "zeros" else where(position == position, position, 0).clamp(0, size - 1)  # NaN is at the border too


def read(input, coordinates, sizes):
    """The pixels (N, C, *out) at whole coordinates (N, *out) for each dim; zero outside."""
    batch, channels = input.shape[:2]
    valid, flat = None, None
    for coordinate, size in zip(coordinates, sizes):
        within = (coordinate >= 0) & (coordinate <= size - 1)
        valid = within if valid is None else valid & within
        at = where(within, coordinate, 0).long()
        flat = at if flat is None else flat * size + at
    out = flat.shape[1:]
    index = flat.reshape(batch, 1, product(out)).expand(batch, channels, product(out))
    pixels = input.reshape(batch, channels, product(sizes)).gather(2, index).reshape(batch, channels, *out)
    return where(valid.unsqueeze(1), pixels, 0)


def cubic_weights(t):
    """The weights of four neighbours at distance 1 + t, t, 1 - t, 2 - t."""
    def near(x):
        return ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1

    def far(x):
        return ((CUBIC * x - 5 * CUBIC) * x + 8 * CUBIC) * x - 4 * CUBIC
    return far(t + 1), near(t), near(1 - t), far(2 - t)


def neighbours(parts, at, n):
    """Tensors (N, *out) for the neighbours along one of n dims, as (N, 1.., neighbours, 1.., *out): those of all dims broadcast."""
    together = stack(parts, 1)
    return together.reshape(together.shape[0], *(len(parts) if at == dim else 1 for dim in range(n)), *together.shape[2:])


def weighted(input, coordinates, weights, sizes):
    """The pixels at the neighbours' coordinates, multiplied by the product of their weights and summed."""
    weight = weights[0]
    for factor in weights[1:]:
        weight = weight * factor
    return (read(input, coordinates, sizes) * weight.unsqueeze(1)).sum(tuple(range(2, 2 + len(sizes))))


def bicubic(input, positions, sizes, padding_mode, align_corners):
    corners = [position.detach().floor() for position in positions]
    weights = [neighbours(cubic_weights(position - corner), at, 2) for at, (position, corner) in enumerate(zip(positions, corners))]
    coordinates = [inside(neighbours([corner + offset for offset in (-1, 0, 1, 2)], at, 2), size, padding_mode, align_corners)
                   for at, (corner, size) in enumerate(zip(corners, sizes))]
    return weighted(input, coordinates, weights, sizes)


def check_grid(input, grid, mode, padding_mode):
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError("nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
                         f"'{padding_mode}'")
    shapes = f"got input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(f"grid_sampler(): expected grid and input to have same batch size, but {shapes}")
    if grid.shape[-1] != input.ndim - 2:
        raise RuntimeError(f"grid_sampler(): expected grid to have size {input.ndim - 2} in last dimension, but got grid with sizes "
                           f"{list(grid.shape)}")
    for dim in range(2, input.ndim):
        if input.shape[dim] <= 0:
            raise RuntimeError(f"grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {list(input.shape)} "
                               f"with dimension {dim} being empty")
    if input.ndim not in (4, 5) or input.ndim != grid.ndim:
        raise RuntimeError(f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but {shapes}")
    if input.ndim == 5 and mode == "bicubic":
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if grid._dtype is not input._dtype:
        raise RuntimeError(f"expected scalar type {input._dtype.tensor_name.removesuffix('Tensor')} but found "
                           f"{grid._dtype.tensor_name.removesuffix('Tensor')}")


@composite("nn")
def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """input (N, C, H, W) read at the positions grid (N, h, w, 2) of [-1, 1], x first -> (N, C, h, w); or with three spatial dims.

    >>> import rushlight as torch
    >>> image = torch.tensor([[[[1.0, 3.0]]]])
    >>> torch.nn.functional.grid_sample(image, torch.zeros(1, 1, 1, 2), align_corners=True)
    tensor([[[[2.]]]])
    """
    if align_corners is None:
        warnings.warn("Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify "
                      "align_corners=True if the old behavior is desired. See the documentation of grid_sample for details.", stacklevel=2)
        align_corners = False
    need_tensors("grid_sampler", input=input, grid=grid)
    check_grid(input, grid, mode, padding_mode)
    return chain(_grid_sample, (input, grid), mode, padding_mode, bool(align_corners), work=350, each=16)


@composite("")
def _grid_sample(input, grid, mode, padding_mode, align_corners):
    n = input.ndim - 2
    sizes = tuple(input.shape[2:])
    positions = [unnormalized(grid[..., n - 1 - at], sizes[at], align_corners) for at in range(n)]
    if mode == "bicubic":
        return bicubic(input, positions, sizes, padding_mode, align_corners)
    positions = [inside(position, size, padding_mode, align_corners) for position, size in zip(positions, sizes)]
    if mode == "nearest":
        return read(input, [position.detach().round() for position in positions], sizes)
    corners = [position.detach().floor() for position in positions]
    shares = [position - corner for position, corner in zip(positions, corners)]
    coordinates = [neighbours([corner, corner + 1], at, n) for at, corner in enumerate(corners)]
    return weighted(input, coordinates, [neighbours([1 - share, share], at, n) for at, share in enumerate(shares)], sizes)


SAMPLING, BORDERS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


@composite("torch")
def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    """`nn.functional.grid_sample` with the modes as numbers: 0 bilinear, 1 nearest, 2 bicubic; 0 zeros, 1 border, 2 reflection.

    >>> import rushlight as torch
    >>> torch.grid_sampler(torch.tensor([[[[1.0, 3.0]]]]), torch.zeros(1, 1, 1, 2), 0, 0, True)
    tensor([[[[2.]]]])
    """
    return grid_sample(input, grid, SAMPLING[interpolation_mode], BORDERS[padding_mode], align_corners)


@composite("torch")
def grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners):
    """`grid_sampler` of 4-d input.

    >>> import rushlight as torch
    >>> torch.grid_sampler_2d(torch.tensor([[[[1.0, 3.0]]]]), torch.zeros(1, 1, 1, 2), 0, 0, True)
    tensor([[[[2.]]]])
    """
    return grid_sample(input, grid, SAMPLING[interpolation_mode], BORDERS[padding_mode], align_corners)


@composite("torch")
def grid_sampler_3d(input, grid, interpolation_mode, padding_mode, align_corners):
    """`grid_sampler` of 5-d input.

    >>> import rushlight as torch
    >>> torch.grid_sampler_3d(torch.ones(1, 1, 1, 1, 1), torch.zeros(1, 1, 1, 1, 3), 0, 0, True)
    tensor([[[[[1.]]]]])
    """
    return grid_sample(input, grid, SAMPLING[interpolation_mode], BORDERS[padding_mode], align_corners)


@composite("torch")
def affine_grid_generator(theta, size, align_corners):
    """`nn.functional.affine_grid`.

    >>> import rushlight as torch
    >>> torch.affine_grid_generator(torch.ones(1, 2, 3), (1, 1, 2, 2), False).shape
    torch.Size([1, 2, 2, 2])
    """
    return affine_grid(theta, size, align_corners)
