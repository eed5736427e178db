"""DataLoader: order, seeds, batching, workers, and what happens when a worker fails."""
import os
import random
import signal
import time
import warnings

import numpy as np
import pytest

import rushlight as torch
from rushlight.data.worker import seeds_for_numpy

data = torch.utils.data
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def lists(loader):
    return [batch.tolist() for batch in loader]


class Stream(data.IterableDataset):
    """Numbers below 10; workers share them."""

    def __iter__(self):
        info = data.get_worker_info()
        return iter(range(10)) if info is None else iter(range(info.id, 10, info.num_workers))


class Failing(data.Dataset):
    """Does something else at index 5."""

    def __init__(self, act):
        self.act = act

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 5:
            self.act()
        return index


class Draws(data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return random.random(), np.random.rand(), torch.rand(()).item()


# In one process.

def test_batches():
    assert lists(data.DataLoader(range(5), batch_size=2)) == [[0, 1], [2, 3], [4]]
    assert lists(data.DataLoader(range(5), batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(data.DataLoader(range(3), batch_size=None)) == [0, 1, 2]
    assert lists(data.DataLoader(range(5), batch_sampler=[[4, 0], [1]])) == [[4, 0], [1]]
    assert lists(data.DataLoader(range(4), sampler=[3, 1], batch_size=2)) == [[3, 1]]
    assert list(data.DataLoader(range(4), batch_size=2, collate_fn=sum)) == [1, 5]
    assert [len(data.DataLoader(range(5), batch_size=2, drop_last=drop)) for drop in (False, True)] == [3, 2]


def test_the_order_for_a_seed_is_pytorchs():
    torch.manual_seed(3)
    loader = data.DataLoader(range(6), batch_size=2, shuffle=True)
    assert lists(loader) == [[2, 4], [0, 1], [3, 5]] and lists(loader) == [[3, 2], [0, 1], [4, 5]]
    assert torch.rand(1).item() == pytest.approx(0.5944, abs=1e-4)


@pytest.mark.parametrize("workers", [0, 2])
def test_order_against_pytorch(workers):
    oracle = pytest.importorskip("torch")
    options = dict(batch_size=3, shuffle=True, num_workers=workers)
    torch.manual_seed(4)
    oracle.manual_seed(4)
    for ours, theirs in [(data.DataLoader(range(11), **options), oracle.utils.data.DataLoader(range(11), **options)),
                         (data.DataLoader(range(11), generator=torch.Generator().manual_seed(1), **options),
                          oracle.utils.data.DataLoader(range(11), generator=oracle.Generator().manual_seed(1), **options))]:
        for _ in range(2):
            assert lists(ours) == lists(theirs)


def test_rows_of_a_tensor_dataset_are_read_at_once_with_the_same_result():
    pairs = data.TensorDataset(torch.randn(7, 2), torch.arange(7))
    nested = data.Subset(data.Subset(pairs, [6, 5, 4, 3]), [3, 0, 1])
    for dataset in (pairs, nested):
        fast = list(data.DataLoader(dataset, batch_size=2))
        slow = list(data.DataLoader(dataset, batch_size=2, collate_fn=lambda items: data.default_collate(items)))
        for one, other in zip(fast, slow):
            assert type(one) is type(other) is list
            assert all(torch.equal(a, b) and a.dtype is b.dtype for a, b in zip(one, other))

    class Doubled(data.TensorDataset):
        def __getitem__(self, index):
            return tuple(2 * t for t in super().__getitem__(index))

    assert next(iter(data.DataLoader(Doubled(torch.ones(2)), batch_size=2)))[0].tolist() == [2.0, 2.0]


def test_iterable_datasets():
    assert lists(data.DataLoader(Stream(), batch_size=4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert lists(data.DataLoader(Stream(), batch_size=4, drop_last=True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert list(data.DataLoader(Stream(), batch_size=None)) == list(range(10))
    with pytest.raises(TypeError, match="has no len"):
        len(data.DataLoader(Stream()))

    class Liar(Stream):
        def __len__(self):
            return 3

    loader = data.DataLoader(Liar(), batch_size=None)
    assert len(loader) == 3 and len(data.DataLoader(Liar(), batch_size=2)) == 2
    with pytest.warns(UserWarning, match="was reported to be 3"):
        list(loader)


@pytest.mark.parametrize(("options", "error", "words"), [
    (dict(num_workers=-1), ValueError, "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."),
    (dict(timeout=-1), ValueError, "timeout option should be non-negative"),
    (dict(prefetch_factor=2), ValueError, "prefetch_factor option could only be specified in multiprocessing"),
    (dict(num_workers=1, prefetch_factor=-1), ValueError, "prefetch_factor option should be non-negative"),
    (dict(persistent_workers=True), ValueError, "persistent_workers option needs num_workers > 0"),
    (dict(shuffle=True, sampler=[0]), ValueError, "sampler option is mutually exclusive with shuffle"),
    (dict(batch_sampler=[[0]], batch_size=2), ValueError, "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler"),
    (dict(batch_size=None, drop_last=True), ValueError, "batch_size=None option disables auto-batching and is mutually exclusive"),
    (dict(batch_size=0), ValueError, "batch_size should be a positive integer value, but got batch_size=0"),
    (dict(multiprocessing_context="fork"), ValueError, "multiprocessing_context can only be used with multi-process loading"),
    (dict(num_workers=1, multiprocessing_context="no"), ValueError, "multiprocessing_context option should specify a valid start method"),
    (dict(num_workers=1, multiprocessing_context=3), TypeError, "multiprocessing_context option should be a valid context object"),
])
def test_options_that_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        data.DataLoader(range(3), **options)


@pytest.mark.parametrize(("options", "words"), [
    (dict(shuffle=True), "expected unspecified shuffle option, but got shuffle=True"),
    (dict(sampler=[0]), r"expected unspecified sampler option, but got sampler=\[0\]"),
    (dict(batch_sampler=[[0]]), "expected unspecified batch_sampler option"),
])
def test_options_an_iterable_dataset_refuses(options, words):
    with pytest.raises(ValueError, match="DataLoader with IterableDataset: " + words):
        data.DataLoader(Stream(), **options)


def test_attributes_are_fixed_after_construction():
    loader = data.DataLoader(range(3), batch_size=2)
    with pytest.raises(ValueError, match="batch_size attribute should not be set after DataLoader is initialized"):
        loader.batch_size = 3
    loader.collate_fn = sum
    assert list(loader) == [1, 2]
    with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but no accelerator is found"):
        iter(data.DataLoader(range(3), pin_memory=True))
    with pytest.warns(UserWarning, match="This DataLoader will create 1000 worker processes in total"):
        data.DataLoader(range(3), num_workers=1000)


# With workers.

@pytest.mark.parametrize("workers", [1, 2, 3])
def test_workers_keep_the_order(workers):
    loader = data.DataLoader(range(25), batch_size=2, num_workers=workers)
    expected = lists(data.DataLoader(range(25), batch_size=2))
    assert lists(loader) == expected and lists(loader) == expected


def test_order_given_up_for_speed():
    loader = data.DataLoader(range(25), batch_size=2, num_workers=2, in_order=False)
    assert sorted(i for batch in lists(loader) for i in batch) == list(range(25))


@pytest.mark.parametrize("options", [dict(batch_size=2), dict(batch_size=3, drop_last=True), dict(batch_size=None)])
def test_iterable_datasets_are_shared_out(options):
    def read(loader):
        return [int(x) if options["batch_size"] is None else x.tolist() for x in loader]

    loader = data.DataLoader(Stream(), num_workers=2, persistent_workers=True, **options)
    first = read(loader)
    assert read(loader) == first
    assert read(data.DataLoader(Stream(), num_workers=2, **options)) == first
    if options["batch_size"] == 2:
        assert first == [[0, 2], [1, 3], [4, 6], [5, 7], [8], [9]]


def test_persistent_workers_stay_and_survive_a_broken_off_pass():
    class Pid(data.Dataset):
        def __len__(self):
            return 12

        def __getitem__(self, index):
            return os.getpid()

    loader = data.DataLoader(Pid(), num_workers=2, persistent_workers=True)
    first = {batch.item() for batch in loader}
    for _ in loader:
        break
    assert {batch.item() for batch in loader} == first and os.getpid() not in first
    fleeting = data.DataLoader(Pid(), num_workers=2)
    assert not {batch.item() for batch in fleeting} & {batch.item() for batch in fleeting}


def test_workers_draw_what_pytorchs_draw():
    assert seeds_for_numpy(1234567890123, 3).tolist() == [911343142, 720453872, 3335628216, 1002736992]
    loader = data.DataLoader(Draws(), batch_size=None, num_workers=2)
    torch.manual_seed(0)
    first = list(loader)
    torch.manual_seed(0)
    assert list(loader) == first and len({draw for item in first for draw in item}) == 12
    oracle = pytest.importorskip("torch")
    torch.manual_seed(0)
    oracle.manual_seed(0)
    theirs = list(oracle.utils.data.DataLoader(Draws(), batch_size=None, num_workers=2))
    assert [item[:2] for item in first] == [item[:2] for item in theirs]


def test_worker_init_and_info():
    class Infos(data.Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            info = data.get_worker_info()
            return info.id, info.num_workers, info.seed, type(info.dataset).__name__, os.environ["WORKER"]

    def init(number):
        os.environ["WORKER"] = str(number)

    generator = torch.Generator().manual_seed(1)
    found = list(data.DataLoader(Infos(), batch_size=None, num_workers=2, worker_init_fn=init, generator=generator))
    assert [item[:2] + item[3:] for item in found] == [[0, 2, "Infos", "0"], [1, 2, "Infos", "1"]]
    assert found[1][2] == found[0][2] + 1 and data.get_worker_info() is None
    loader = data.DataLoader(Infos(), num_workers=1, worker_init_fn=lambda number: 1 / 0)
    with pytest.raises(ZeroDivisionError, match="Caught ZeroDivisionError in DataLoader worker process 0"):
        next(iter(loader))


class Picky(Exception):
    def __init__(self, one, two):
        pass


def throw(error):
    raise error


@pytest.mark.parametrize(("error", "kind"), [(ValueError("deep trouble"), ValueError), (KeyError("deep trouble"), KeyError),
                                             (Picky("deep trouble", 2), RuntimeError)])
def test_a_workers_exception_is_raised_here(error, kind):
    loader = data.DataLoader(Failing(lambda: throw(error)), batch_size=2, num_workers=2)
    seen = []
    with pytest.raises(kind) as caught:
        for batch in loader:
            seen.append(batch.tolist())
    text = str(caught.value)
    assert seen == [[0, 1], [2, 3]]
    assert text.startswith(f"Caught {type(error).__name__} in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n")
    assert "in throw" in text and "fetching index [4, 5]" in text and "\\n" not in text


def test_the_pass_goes_on_after_an_exception():
    iterator = iter(data.DataLoader(Failing(lambda: throw(ValueError())), num_workers=2))
    seen = []
    for _ in range(8):
        try:
            seen.append(next(iterator).item())
        except ValueError:
            seen.append("error")
    assert seen == [0, 1, 2, 3, 4, "error", 6, 7] and next(iterator, None) is None


def test_what_cannot_travel_is_an_exception_too():
    class Functions(data.Dataset):
        def __len__(self):
            return 1

        def __getitem__(self, index):
            return lambda: None

    with pytest.raises(Exception, match="(?s)in DataLoader worker process 0.*local object"):
        next(iter(data.DataLoader(Functions(), batch_size=None, num_workers=1)))


@pytest.mark.parametrize(("act", "words"), [
    (lambda: os.kill(os.getpid(), signal.SIGKILL), "killed by SIGKILL .*memory"),
    (lambda: os._exit(3), "with exit code 3"),
    (lambda: throw(SystemExit(4)), "with exit code 4"),
])
def test_a_dead_worker_is_noticed_at_once(act, words):
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly.*" + words):
        lists(data.DataLoader(Failing(act), batch_size=2, num_workers=2))
    assert time.monotonic() - start < 5


def test_timeout_and_slow_workers_are_ended():
    iterator = iter(data.DataLoader(Failing(lambda: time.sleep(60)), num_workers=1, timeout=0.4))
    try:
        list(iterator)
    except RuntimeError as error:
        assert str(error) == "DataLoader timed out after 0.4 seconds"
    processes = iterator._workers.processes
    start = time.monotonic()
    del iterator
    assert time.monotonic() - start < 4 and not any(process.is_alive() for process in processes)


def test_an_abandoned_pass_leaves_nothing():
    files = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else None
    iterator = iter(data.DataLoader(range(1000), num_workers=2))
    next(iterator)
    processes = iterator._workers.processes
    del iterator
    assert not any(process.is_alive() for process in processes)
    del processes
    if files is not None:
        assert len(os.listdir("/proc/self/fd")) == files


def test_large_batches_and_many_at_once():
    class Large(data.Dataset):
        def __len__(self):
            return 12

        def __getitem__(self, index):
            return torch.full((200, 300), float(index)), {"index": index}

    loader = data.DataLoader(Large(), batch_size=4, num_workers=2)
    for number, (images, labels) in enumerate(loader):
        assert images[:, 0, 0].tolist() == labels["index"].tolist() == list(range(4 * number, 4 * number + 4))
        images.zero_()
    batches = list(data.DataLoader(range(100_000), batch_size=50_000, num_workers=1))
    assert batches[1][-1].item() == 99_999


def test_two_loaders_at_once_end_independently():
    start = time.monotonic()
    outer = iter(data.DataLoader(range(50), num_workers=1))
    next(outer)
    for _ in range(2):
        assert len(lists(data.DataLoader(range(6), batch_size=2, num_workers=1))) == 3
    assert [batch.item() for batch in outer] == list(range(1, 50))
    assert time.monotonic() - start < 3


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_start_methods(method):
    loader = data.DataLoader(Squares(), batch_size=2, num_workers=1, multiprocessing_context=method)
    assert lists(loader) == [[0, 1], [4, 9]]


class Squares(data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return index ** 2


def test_no_prefetch_is_an_error():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0"):
            iter(data.DataLoader(range(3), num_workers=1, prefetch_factor=0))
    with pytest.raises(AssertionError, match="requires timeout == 0"):
        iter(data.DataLoader(range(3), timeout=1))
    with pytest.raises(NotImplementedError):
        import pickle
        pickle.dumps(iter(data.DataLoader(range(3))))


def test_the_public_names_are_one_module():
    import rushlight.utils.data.dataloader as public
    from rushlight.utils.data import DataLoader
    from rushlight.utils.data._utils.collate import default_collate
    from rushlight.utils.data.distributed import DistributedSampler
    assert public.DataLoader is DataLoader is data.DataLoader is torch.data.DataLoader
    assert default_collate is data.default_collate and DistributedSampler is data.DistributedSampler
