"""A loop over time whose turns all do the same, as one op: what capture makes of a Python `for` over rows of tensors.

In compiled code it is one native loop, forward and backward (`kernels/rules_rolled.py`); here it is the loop itself.
"""
from .joining import stack
from .record import composite


@composite("")
def rolled_loop(body, steps, carried, sequences, constants):
    """(*last carried values, *the other results of all turns, stacked).

    `body(*carried, *rows, *constants)` gives the next carried values, then what is stacked; `rows` are one row of each of
    `sequences`, of which each has `steps` rows.
    """
    rows = [sequence.unbind(0) for sequence in sequences]
    given = []
    for at in range(steps):
        found = body(*carried, *[parts[at] for parts in rows], *constants)
        carried = found[: len(carried)]
        given.append(found[len(carried):])
    return (*carried, *[stack(parts) for parts in zip(*given)])
