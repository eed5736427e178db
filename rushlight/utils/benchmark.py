"""`torch.utils.benchmark`: timing a statement with a fixed number of threads, after a first run that is not counted."""
import statistics
import timeit
from typing import Any

from ..core.parallel import limited

__all__ = ["Compare", "Measurement", "Timer"]
UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


class Measurement:
    """What a Timer measured: `raw_times` in seconds, each for `number_per_run` runs, and the times of one run from them."""

    def __init__(self, number_per_run: int, raw_times: list[float], title: str, num_threads: int):
        self.number_per_run, self.raw_times, self.title, self.num_threads = number_per_run, raw_times, title, num_threads

    @property
    def times(self) -> list[float]:
        """Seconds for one run, by measurement."""
        return [time / self.number_per_run for time in self.raw_times]

    @property
    def mean(self) -> float:
        """The mean of `times`."""
        return statistics.fmean(self.times)

    @property
    def median(self) -> float:
        """The median of `times`: other programs disturb it less than the mean."""
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """The distance between the quartiles of `times`; 0.0 for a single one."""
        if len(self.raw_times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    def __repr__(self) -> str:
        several = len(self.raw_times) > 1
        shown = f"  Median: {in_unit(self.median)}\n  IQR:    {in_unit(self.iqr)}" if several else f"  {in_unit(self.median)}"
        count = f"{len(self.raw_times)} measurement{'s' if several else ''}, {self.number_per_run} runs per measurement"
        return f"<rushlight.utils.benchmark.Measurement>\n{self.title}\n{shown}\n  {count}, {self.num_threads} thread{'s' if self.num_threads > 1 else ''}"


def in_unit(seconds: float) -> str:
    """A time in the unit that gives it one to three digits before the point."""
    name, size = next((pair for pair in UNITS if seconds >= pair[1]), UNITS[-1])
    return f"{seconds / size:.2f} {name}"


class Timer:
    """Times `stmt`, a text of Python, with `globals` as its names, on `num_threads` threads (one, if nothing is said).

    `setup` runs before each measurement, `global_setup` is refused (it is C++). `label`, `sub_label` and `description` name the
    measurement where it is printed.

    >>> import rushlight as torch
    >>> from rushlight.utils import benchmark
    >>> timer = benchmark.Timer("x * 2", globals={"x": torch.ones(3)}, label="double")
    >>> measured = timer.timeit(10)
    >>> measured.number_per_run, measured.mean > 0
    (10, True)
    """

    def __init__(self, stmt: str = "pass", setup: str = "pass", global_setup: str = "", timer: Any = timeit.default_timer,
                 globals: dict | None = None, label: str | None = None, sub_label: str | None = None, description: str | None = None,
                 env: str | None = None, num_threads: int = 1, language: Any = "python"):
        if global_setup or str(language).lower() not in ("python", "language.python", "0"):
            raise NotImplementedError("utils.benchmark.Timer: only statements in Python")
        self.num_threads = num_threads
        self.title = "  ".join(filter(None, (label or stmt, sub_label, description, env)))
        self.timer = timeit.Timer(stmt, setup, timer, globals=dict(globals or {}))

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """One measurement of `number` runs, after a few that are not counted."""
        with limited(self.num_threads):
            self.timer.timeit(max(number // 100, 2))
            return self.result(number, [self.timer.timeit(number)])

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """Measurements of one length until `min_run_time` seconds have passed; `callback(number, seconds)` sees each."""
        times: list[float] = []
        with limited(self.num_threads):
            self.timer.timeit(2)
            number = 1
            while self.timer.timeit(number) < min_run_time / 1000:  # too short for the clock
                number *= 10
            while sum(times) < min_run_time:
                times.append(self.timer.timeit(number))
                if callback is not None:
                    callback(number, times[-1])
        return self.result(number, times)

    def result(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, self.title, self.num_threads)

    def collect_callgrind(self, *args: Any, **kwargs: Any) -> Any:
        """Not built: counting instructions needs valgrind and a build of Python with its symbols."""
        raise NotImplementedError("utils.benchmark.Timer.collect_callgrind")


class Compare:
    """A list of measurements, printed one a line, the fastest first.

    >>> from rushlight.utils import benchmark
    >>> benchmark.Compare([benchmark.Measurement(1, [0.002], "slow", 1), benchmark.Measurement(1, [0.001], "fast", 1)]).print()
    1.00 ms  fast
    2.00 ms  slow
    """

    def __init__(self, results: list[Measurement]):
        self.results = list(results)

    def extend_results(self, results: list[Measurement]) -> None:
        """Add measurements."""
        self.results += results

    def __str__(self) -> str:
        return "\n".join(f"{in_unit(result.median)}  {result.title}" for result in sorted(self.results, key=lambda result: result.median))

    def print(self) -> None:
        """Write the table to standard output."""
        print(str(self))
