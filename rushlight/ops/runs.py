"""Sums over groups of rows: what adding at repeated indices and bags of embeddings are made of.

Rows are first put in order by their index, so that each index is one run; `reduced` then sums every run, the same way at
each call for the same indices.  Indices are in bounds.
"""
import numpy as np

OVERHEAD = 24  # rows that NumPy's reduceat takes to sum in the time that one round over all runs costs besides its arithmetic


def runs_of(index, limit):
    """A stable order of the index (a vector of numbers below `limit`), where its runs start in that order, and the index of each run."""
    keys = index.astype(np.uint16) if limit <= 1 << 16 else index  # NumPy's radix sort, a third of the time
    order = keys.argsort(kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))[:index.size]
    return order, starts, index[order[starts]]


def reduced(ufunc, rows, places, starts, factors=None):
    """For every run, `ufunc` over the rows that places[start:next start] names -> (runs, width); no run is empty.

    factors: what each of the places' rows is multiplied by.
    """
    rows = np.ascontiguousarray(rows)  # take would copy others at each call
    lengths = np.diff(np.append(starts, places.size))
    longest = int(lengths.max(initial=0))

    def taken(at):
        part = rows.take(places[at], 0)
        return part if factors is None else np.multiply(part, factors[at][:, None], out=part)

    if longest * OVERHEAD > places.size:  # a few runs of many rows
        return ufunc.reduceat(taken(slice(None)), starts, axis=0, dtype=rows.dtype)
    # The first rows of all runs, then the second rows of those that have one, and so on; the longest runs stand first.
    by_length = np.argsort(-lengths, kind="stable")
    firsts, left = starts[by_length], np.searchsorted(-lengths[by_length], -np.arange(longest), side="left")
    total = taken(firsts)
    for step in range(1, longest):
        some = total[:left[step]]
        ufunc(some, taken(firsts[:left[step]] + step), out=some)
    result = np.empty_like(total)
    result[by_length] = total
    return result
