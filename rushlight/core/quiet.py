"""NumPy's warnings of 1/0 and the like, which PyTorch does not give: a filter for what the frames of this package compute.

The filter costs nothing, where `np.errstate` would cost every op 0.8 us. Who resets the filters sees the warnings of forward
ops (with "error" they run again with NumPy's checks off, see ops/dispatch.recover); backward is quiet all the same.
"""
import warnings

warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"rushlight\.")
FILTER = warnings.filters[0]


def holds():
    """Whether the filter is the first one still."""
    filters = warnings.filters
    return filters and filters[0] is FILTER
