"""Values between processes: whole, writable, and leaving nothing behind."""
import gc
import multiprocessing
import os

import numpy as np
import pytest

import rushlight as torch
from rushlight.data import transport


@pytest.fixture
def ends():
    pair = multiprocessing.Pipe(duplex=True)
    yield pair
    for end in pair:
        end.close()


def through(ends, value):
    transport.send(ends[0], value)
    return transport.receive(ends[1])


@pytest.mark.parametrize("size", [0, 1, 3, 1000, 100_001])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "b1", "c8"])
def test_arrays_arrive_equal_aligned_and_writable(ends, size, dtype):
    array = np.arange(size).astype(dtype)
    got = through(ends, {"a": array, "b": [array[::-1], "text"]})
    np.testing.assert_array_equal(got["a"], array)
    np.testing.assert_array_equal(got["b"][0], array[::-1])
    assert got["a"].flags.writeable and got["a"].flags.aligned and got["b"][1] == "text"
    got["a"][...] = 0


def test_tensors_arrive_with_dtype_and_flags(ends):
    weight = torch.nn.Parameter(torch.randn(300, 300))
    half = torch.ones(200_000, dtype=torch.bfloat16)
    got_weight, got_half = through(ends, (weight, half))
    assert torch.equal(got_weight, weight) and got_weight.requires_grad and isinstance(got_weight, torch.nn.Parameter)
    assert got_half.dtype is torch.bfloat16 and torch.equal(got_half, half)


def test_the_memory_goes_with_the_last_array(ends):
    def mapped():
        with open("/proc/self/maps") as lines:
            return sum("rushlight-batch" in line for line in lines)

    if not os.path.exists("/proc/self/maps"):
        pytest.skip("needs /proc")
    gc.collect()
    before, files = mapped(), len(os.listdir("/proc/self/fd"))
    got = through(ends, np.ones(1_000_000))
    assert mapped() == before + 1
    part = got[5:7]
    del got
    assert mapped() == before + 1 and part.sum() == 2
    del part
    gc.collect()
    assert mapped() == before and len(os.listdir("/proc/self/fd")) == files


def test_thousands_of_arrays_in_one_value(ends):
    arrays = [np.full(50, i) for i in range(3000)]
    for got, sent in zip(through(ends, arrays), arrays):
        assert (got == sent).all()


def test_full_memory_is_reported_with_its_size(ends, monkeypatch):
    def refuse(descriptor, pieces):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(transport, "write_all", refuse)
    with pytest.raises(transport.SharedMemoryFull, match=r"a batch of 8,000,\d+ bytes does not fit into shared memory "
                                                         r"\(No space left on device\). Lower batch_size, num_workers or prefetch_factor"):
        transport.send(ends[0], np.ones(1_000_000))


def test_what_cannot_be_pickled_raises_at_the_sender(ends):
    with pytest.raises(Exception, match="pickle|local object"):
        transport.send(ends[0], lambda: None)
    assert through(ends, 1) == 1


def test_a_closed_end_is_seen(ends):
    ends[0].close()
    with pytest.raises(EOFError):
        transport.receive(ends[1])


def test_without_memory_files_all_goes_through_the_socket(ends, monkeypatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    array = np.arange(10_000.0)
    np.testing.assert_array_equal(through(ends, array), array)
