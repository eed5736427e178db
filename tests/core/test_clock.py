"""The clock that generated functions and `tick` share: no thread ever sees a time twice, and ops and writes are in one order."""
import threading

import rushlight as torch
from rushlight.tensor import tick


def test_threads_get_different_times_in_growing_order():
    x = torch.ones(2, requires_grad=True)
    seen = [[] for _ in range(4)]

    def work(times):
        for _ in range(3000):
            times.append((x * 2).grad_fn.seq)
            times.append(tick())

    threads = [threading.Thread(target=work, args=(times,)) for times in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(times == sorted(times) for times in seen)
    assert len({time for times in seen for time in times}) == 4 * 6000


def test_one_clock():
    before = tick()
    y = torch.ones(2, requires_grad=True) * 2
    assert before < y.grad_fn.seq < tick()
