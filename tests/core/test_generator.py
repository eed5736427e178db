"""The generator: PyTorch's stream, PyTorch's state bytes, and safety with threads and forks."""
import copy
import hashlib
import os
import pickle
import threading

import numpy as np
import pytest

from rushlight.core import generator as module
from rushlight.core.generator import STATE_BYTES, Generator
from rushlight.core.normal import normal_
from rushlight.core.sampling import uniform_


def test_the_first_words_are_mt19937s():
    assert Generator().manual_seed(0).words(4).tolist() == [2357136044, 2546248239, 3071714933, 3626093760]
    assert Generator().manual_seed(5489).word() == 3499211612  # the reference implementation's first number


def test_seeds():
    assert Generator().initial_seed() == 67280421310721
    assert Generator().manual_seed(-1).initial_seed() == 2**64 - 1
    assert Generator().manual_seed(2**32 + 7).words(3).tolist() == Generator().manual_seed(7).words(3).tolist()
    generator = Generator()
    assert generator.seed() == generator.initial_seed()
    for bad in (2**64, -2**63 - 1):
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            generator.manual_seed(bad)
    for bad in (1.5, "a", True, None):
        with pytest.raises(RuntimeError, match="manual_seed expected a long, but got"):
            generator.manual_seed(bad)


def test_state_round_trip_at_every_position():
    generator = Generator().manual_seed(1)
    for count in (0, 1, 622, 1, 1, 623, 5):
        generator.words(count)
        twin = Generator().set_state(generator.get_state())
        assert twin.clone_state().words(700).tolist() == twin.words(700).tolist()
        assert (generator.get_state() == Generator().set_state(generator.get_state()).get_state()).all()


def test_state_keeps_the_waiting_normal():
    generator = Generator().manual_seed(1)
    normal_(np.empty(1, "f4"), generator=generator)
    twin = pickle.loads(pickle.dumps(generator))
    assert normal_(np.empty(3, "f4"), generator=twin).tolist() == normal_(np.empty(3, "f4"), generator=generator).tolist()


def test_copies_are_independent():
    generator = Generator().manual_seed(1)
    twin = copy.deepcopy(generator)
    twin.words(5)
    assert generator.words(3).tolist() == Generator().manual_seed(1).words(3).tolist()
    with pytest.raises(TypeError, match="clone_state"):
        copy.copy(generator)


def test_bad_states():
    generator = Generator()
    before = generator.get_state()
    with pytest.raises(RuntimeError, match="Expected a CPUGeneratorImplState of size 5056 but found the input RNG state size to be 3"):
        generator.set_state(np.zeros(3, np.uint8))
    with pytest.raises(TypeError, match="RNG state must be a torch.ByteTensor"):
        generator.set_state(np.zeros(STATE_BYTES, np.float32))
    with pytest.raises(TypeError, match="expected a torch.ByteTensor, but got str"):
        generator.set_state("x")
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        generator.set_state(np.zeros(STATE_BYTES, np.uint8))
    noise = np.random.default_rng(0).integers(0, 256, STATE_BYTES, dtype=np.uint8)
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        generator.set_state(noise)
    assert (generator.get_state() == before).all()


def test_state_bytes_recorded_from_pytorch():
    generator = Generator().manual_seed(11)
    uniform_(np.empty(3, "f4"), generator=generator)
    torch = pytest.importorskip("torch")
    oracle = torch.Generator().manual_seed(11)
    torch.rand(3, generator=oracle)
    assert (generator.get_state() == oracle.get_state().numpy()).all()
    torch.empty(1).normal_(generator=oracle)
    generator.set_state(oracle.get_state())
    assert normal_(np.empty(5, "f4"), generator=generator).tolist() == torch.empty(5).normal_(generator=oracle).tolist()


def test_a_long_stream_digest():
    words = Generator().manual_seed(11).words(100000).astype(np.uint32)
    assert hashlib.sha256(words.tobytes()).hexdigest()[:16] == DIGEST


DIGEST = "80a06dc6c506d43c"


def test_threads_take_whole_pieces():
    """Eight threads share a generator: together they use up exactly the stream, each call one run of it."""
    generator = Generator().manual_seed(0)
    pieces, start = [], threading.Barrier(8)

    def work():
        start.wait()
        for _ in range(50):
            pieces.append(uniform_(np.empty(100, "f4"), generator=generator))
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = uniform_(np.empty(40000, "f4"), generator=Generator().manual_seed(0)).reshape(400, 100)
    assert sorted(piece[0] for piece in pieces) == sorted(whole[:, 0])
    assert {piece.tobytes() for piece in pieces} == {row.tobytes() for row in whole}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_in_the_middle_of_draws_leaves_the_child_unlocked():
    generator = Generator().manual_seed(0)
    stop = threading.Event()

    def draw():
        while not stop.is_set():
            uniform_(np.empty(1000, "f4"), generator=generator)
    thread = threading.Thread(target=draw)
    thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                ok = generator.lock.acquire(timeout=5) and len(generator.words(10)) == 10
                os._exit(0 if ok else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        thread.join()


def test_the_default_generator():
    assert module.manual_seed(3) is module.default_generator
    first = module.default_generator.words(2).tolist()
    module.manual_seed(3)
    assert module.default_generator.words(2).tolist() == first and module.initial_seed() == 3
    assert module.seed() == module.initial_seed()


def test_only_the_cpu():
    assert Generator("cpu").device.type == "cpu"
    with pytest.raises((RuntimeError, AssertionError)):
        Generator("cuda")


@pytest.mark.parametrize("drawn", [0, 3])
def test_go_back_continues_from_where_it_was_remembered(drawn):
    generator = Generator().manual_seed(7)
    if drawn:
        generator.words(drawn)
    remembered = generator.remember()
    assert (type(remembered) is int) == (drawn == 0)
    wanted = [generator.words(4).tolist(), normal_(np.empty(3, "f4"), generator=generator).tolist()]
    for _ in range(2):
        generator.go_back(remembered)
        assert [generator.words(4).tolist(), normal_(np.empty(3, "f4"), generator=generator).tolist()] == wanted
