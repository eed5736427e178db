"""Whether a loop cut into pieces is worth it: its pieces are timed against the plain function.

A loop with a break in each turn costs some microseconds a piece.  With much work in a turn that is little, with few small ops
it is more than the compiled graph saves.  Nobody can tell beforehand, so the first calls run as they are and are timed, the
next ones in pieces, and the faster way stays.  Read `Trial.settled` first.
"""

CALLS = 16  # of each way


class Trial:
    """The times of one function's calls, in both ways."""

    __slots__ = ("plain", "pieces")

    def __init__(self) -> None:
        self.plain: list[float] = []
        self.pieces: list[float] = []

    def settled(self) -> bool | None:
        """Whether the pieces are to stay; None: not known yet.

        >>> trial = Trial()
        >>> trial.settled()
        >>> trial.plain, trial.pieces = [2.0] * 4, [1.0] * CALLS
        >>> trial.settled()
        True
        """
        if len(self.pieces) < CALLS or len(self.plain) < 4:
            return None
        return middle(self.pieces) <= middle(self.plain)


def middle(times: list[float]) -> float:
    return sorted(times)[len(times) // 2]
