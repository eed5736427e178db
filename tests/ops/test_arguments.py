"""What functions of sizes remember: by exact ints, and no more than so many bytes."""
import numpy as np

from rushlight.ops import arguments


def test_remembered():
    calls = []

    @arguments.remembered
    def doubled(sizes, flag):
        """Twice the sizes."""
        calls.append((sizes, flag))
        return tuple([2 * size for size in sizes])

    assert doubled((1, 2), True) == doubled((1, 2), True) == (2, 4) and len(calls) == 1
    assert doubled((1, 2), 1) == (2, 4) and len(calls) == 2  # 1 is not True
    assert doubled((1, 2.0), True) == (2, 4.0) and doubled((1, 2.0), True) == (2, 4.0) and len(calls) == 4
    assert doubled.__name__ == "doubled" and doubled.__doc__ == "Twice the sizes."


def test_what_is_remembered_is_bounded(monkeypatch):
    calls = []

    @arguments.remembered
    def places(size):
        calls.append(size)
        return np.zeros(size), size

    monkeypatch.setattr(arguments, "HELD", 10_000)
    for size in (1000, 1000, 2000, 1000, 100, 100, 1000):  # 2000 numbers are too many ever to be kept, and what was there goes
        places(size)
    assert calls == [1000, 2000, 1000, 100]
    monkeypatch.setattr(arguments, "KNOWN", 3)
    for size in (1, 2, 3, 1):
        places(size)
    assert calls[4:] == [1, 2, 3, 1]  # places of 1000, 100 and 1 were there: all go for the next
