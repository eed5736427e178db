"""Numbers as 0-d arrays: NumPy's functions take half a microsecond less with one than with a Python number."""
import numpy as np

KEPT: dict = {}
MANY = 512  # that are kept


def constant(dtype, number):
    """The number as an array of a NumPy dtype, which nobody writes into."""
    key = dtype, number or repr(number)  # 0.0 and -0.0 would be one key
    found = KEPT.get(key)
    if found is None:
        if len(KEPT) >= MANY:
            KEPT.clear()
        found = KEPT[key] = np.array(number, dtype)
        found.setflags(False)
    return found
