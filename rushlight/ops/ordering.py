"""Where the elements along a dim stand in order: the arrays behind sort, argsort, topk.

Always stable, and NaN counts as the largest value.  NumPy sorts numbers several times faster than it finds their order
stably, so elements of four bytes are sorted as one number each with their position behind their value (`sorted_places`), and
the few largest are looked for only among elements not below a bound (`few_places`).
"""
import numpy as np

SMALL = 2048  # elements of an array for which NumPy's own argsort is as fast
BLOCK = 8  # elements of which `few_places` takes the largest
LOW_HALF = 0xFFFFFFFF


def order(array, dim, descending):
    """The stable argsort along a dim."""
    if not array.ndim:
        return np.zeros((), np.int64)
    if array.size >= SMALL and array.dtype in (np.float32, np.int32):
        return np.ascontiguousarray(sorted_places(array.swapaxes(dim, -1), descending).swapaxes(dim, -1))
    if not descending:
        return array.argsort(dim, kind="stable")
    back = (slice(None),) * (dim % array.ndim) + (slice(None, None, -1),)
    return array.shape[dim] - 1 - array[back].argsort(dim, kind="stable")[back]


def sorted_places(array, descending):
    """The stable argsort along the last dim of float32 or int32."""
    if array.dtype == np.float32:
        keys = (array + np.float32(0)).view(np.int32)  # no -0.0
        keys ^= (keys >> 31) & np.int32(0x7FFFFFFF)  # negative numbers have the order of their bits reversed
        missing = np.isnan(array)
        if missing.any():
            keys[missing] = np.iinfo(np.int32).max
    else:
        keys = array
    pairs = (~keys if descending else keys).astype(np.int64, order="C")
    pairs <<= 32
    pairs |= np.arange(array.shape[-1])
    pairs.sort(-1)
    pairs &= LOW_HALF
    return pairs


def top_places(array, k, dim, largest):
    """Where the k largest (or smallest) elements along a dim stand, in order."""
    if not array.ndim:
        return np.zeros((), np.int64)
    values = np.ascontiguousarray(array.swapaxes(dim, -1))
    size, places = values.shape[-1], None
    if k and size >= 4 * BLOCK * k and values.size >= SMALL and values.dtype.kind in "fiu" and values.itemsize >= 4:
        places = few_places(values.reshape(-1, size), k, largest)
        places = None if places is None else places.reshape(*values.shape[:-1], k)
    if places is None:
        places = order(values, -1, largest)[..., :k]
    return np.ascontiguousarray(places.swapaxes(-1, dim))


def few_places(rows, k, largest):
    """`top_places` of a matrix's rows for a k that is small beside them; None where NaN or many equal elements stand in the way.

    Each of the k largest blocks has an element not below the k-th largest of the blocks' maxima, so the k largest elements
    are not below it either; few others are.
    """
    count, size = rows.shape
    blocks = rows[:, :size // BLOCK * BLOCK].reshape(count, BLOCK, -1)
    if largest:
        bests = blocks.max(1)
        bounds = np.partition(bests, bests.shape[1] - k, -1)[:, -k, None]
        hits = rows >= bounds
    else:
        bests = blocks.min(1)
        bounds = np.partition(bests, k - 1, -1)[:, k - 1, None]
        hits = rows <= bounds
    if rows.dtype.kind == "f" and (np.isnan(bests).any() or np.isnan(rows[:, size // BLOCK * BLOCK:]).any()):
        return None
    row, column = np.divmod(np.flatnonzero(hits), size)
    found = np.bincount(row, minlength=count)
    width = int(found.max())
    if width > size // 4:
        return None
    slot = np.arange(row.size) - (np.cumsum(found) - found)[row]
    limits = (-np.inf, np.inf) if rows.dtype.kind == "f" else (np.iinfo(rows.dtype).min, np.iinfo(rows.dtype).max)
    values = np.full((count, width), limits[0 if largest else 1], rows.dtype)  # what fills up comes last
    columns = np.zeros((count, width), np.int64)
    values[row, slot], columns[row, slot] = rows[row, column], column
    return np.take_along_axis(columns, order(values, -1, largest)[:, :k], -1)
