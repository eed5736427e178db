"""Generator: the source of random numbers, word for word PyTorch's CPU generator.

It owns one MT19937 stream of 32-bit words, the second normal of a scalar Box-Muller pair, and the 5056-byte
state that `get_state` gives (PyTorch's layout, so states travel between the two). Distributions are in
`sampling`, `normal` and `rejection`; they hold `lock` while they draw, so that one call is one piece of the
stream even when threads share a generator. Read `Generator.words` first.
"""
import ctypes
import operator
import os
import struct
import threading
import weakref

import numpy as np

from .busy import Busy
from .devices import device as Device
from .devices import require_cpu
from .modes import RANDOM_RULE, flags

DEFAULT_SEED = 67280421310721
STATE_BYTES = 5056
HEADER = struct.Struct("<QiiQ")  # seed, words left in the block, whether seeded, position in the block
TAIL = struct.Struct("<dddi4xf?3x")  # x, cached normal, rho, whether it is valid; the float cache, whether valid
BLOCK = 624
STATE = 4 * (BLOCK + 1)  # bytes of NumPy's MT19937: the words, and the position among them
MASK53 = np.uint64((1 << 53) - 1)

ENOUGH = 1 << 19  # numbers drawn by NumPy's functions, a call counting as `A_CALL` more: they took about as long as making machine code
A_CALL = 2000
drawing = Busy("random numbers", None, ENOUGH)


def machine(count):
    """Machine code that draws (kernels/draws.py), or None: once so much was drawn that it pays. The numbers are the same either way."""
    return drawing.choose(None, count + A_CALL)


VARYING = 1 << 14  # numbers of varying draws that Python's loop takes as long for as making machine code
rejecting = Busy("random numbers of varying draws", None, VARYING)


class Generator:
    """A stream of random numbers that equals PyTorch's CPU stream for the same seed.

    Raises RuntimeError for a seed that is no int, ValueError for one outside 64 bits.

    >>> import rushlight as torch
    >>> g = torch.Generator().manual_seed(0)
    >>> torch.rand(2, generator=g)
    tensor([0.4963, 0.7682])
    """

    __slots__ = ("lock", "next_normal", "_seed", "_bits", "_started", "__weakref__")

    def __init__(self, device="cpu"):
        require_cpu(device)
        self.lock = threading.RLock()
        self._set_seed(DEFAULT_SEED)
        every_generator.add(self)

    @property
    def device(self):
        """The device it draws for: always the CPU."""
        return Device("cpu")

    def manual_seed(self, seed):
        """Start the stream of `seed` (an int of 64 bits, negative ones count from 2**64) and return self."""
        if type(seed) is bool or not hasattr(seed, "__index__"):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        seed = operator.index(seed)
        if not -(1 << 63) <= seed < 1 << 64:
            raise ValueError(f"Overflow when unpacking long long: the seed {seed} does not fit 64 bits")
        with self.lock:
            self._set_seed(seed % (1 << 64))
        return self

    def seed(self):
        """Start from a seed that the operating system gives, and return that seed."""
        seed = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(seed)
        return seed

    def initial_seed(self):
        """The seed that the stream started from."""
        return self._seed

    def _set_seed(self, seed):
        self._seed, self._bits, self._started, self.next_normal = seed, None, False, None

    def _stream(self):
        """The bit generator, made on first use: numpy.random is slow to import."""
        if self._bits is None:
            self._bits = np.random.MT19937(0)
            self._bits._legacy_seeding(self._seed & 0xFFFFFFFF)
        return self._bits

    def words(self, count):
        """The next `count` 32-bit words, as a uint64 array."""
        if flags["random_rules"]:
            check_rule()
        with self.lock:
            bits = self._bits or self._stream()
            self._started = self._started or count > 0
            code = machine(count)
            if code is not None:
                words = np.empty(count, np.uint32)
                code.words(bits.ctypes.state_address, words)
                return words.astype(np.uint64)
            return bits.random_raw(count)

    def fill(self, draw, out, *numbers):
        """Have `draw`, a method of `machine`'s code, fill a contiguous array."""
        if flags["random_rules"]:
            check_rule()
        with self.lock:
            bits = self._bits or self._stream()
            self._started = self._started or out.size > 0
            draw(bits.ctypes.state_address, out, *numbers)
        return out

    def word(self):
        """The next 32-bit word, as an int."""
        if flags["random_rules"]:
            check_rule()
        with self.lock:
            self._started = True
            return (self._bits or self._stream()).random_raw()

    def longs(self, count):
        """The next `count` 64-bit integers, each of two words, the high one first, as a uint64 array."""
        words = self.words(2 * count)
        return (words[0::2] << np.uint64(32)) | words[1::2]

    def doubles(self, count):
        """The next `count` numbers of [0, 1) with 53 bits, as a float64 array."""
        code = machine(count)
        if code is not None:
            return self.fill(code.double, np.empty(count))
        longs = self.longs(count)
        longs &= MASK53
        return longs.view(np.int64) * 2.0 ** -53  # int64: its conversion to double is the fast one

    def double(self):
        """The next number of [0, 1) with 53 bits, as a float."""
        with self.lock:
            high = self.word()
            return ((high << 32 | self.word()) & 0x1FFFFFFFFFFFFF) * 2.0 ** -53

    def get_state(self):
        """The state as 5056 bytes (a uint8 array here; `rushlight.Generator` gives a tensor)."""
        with self.lock:
            state = self._stream().state["state"]
            left, position = (BLOCK + 1 - state["pos"], state["pos"]) if self._started else (1, 0)
            normal = self.next_normal
            return np.frombuffer(HEADER.pack(self._seed, left, 1, position) + state["key"].astype("<u8").tobytes()
                                 + TAIL.pack(0.0, normal or 0.0, 0.0, normal is not None, 0.0, False),
                                 dtype=np.uint8).copy()

    def mark(self):
        """What `back_to` takes: a copy of the memory of the state, in a third of a microsecond."""
        with self.lock:
            bits = self._bits
            return bits, bits and ctypes.string_at(bits.ctypes.state_address, STATE), self._started, self.next_normal, self._seed

    def back_to(self, mark):
        """Continue from where `mark` was asked, as if nothing had been drawn since."""
        with self.lock:
            self._bits, state, self._started, self.next_normal, self._seed = mark
            if state is not None:
                ctypes.memmove(self._bits.ctypes.state_address, state, STATE)

    def remember(self):
        """What `go_back` takes: the seed where the stream has not begun, as it has not in most processes; else the state."""
        with self.lock:
            return self._seed if self._bits is None and self.next_normal is None else self.get_state()

    def go_back(self, remembered):
        """Continue from where `remember` was asked."""
        if isinstance(remembered, int):
            with self.lock:
                self._set_seed(remembered)
        else:
            self.set_state(remembered)

    def set_state(self, new_state):
        """Continue from a state that `get_state`, here or in PyTorch, gave.

        Raises TypeError unless it is a uint8 array or tensor, RuntimeError for a wrong size or content.
        """
        if not hasattr(new_state, "__array__"):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        array = np.asarray(new_state)
        if array.dtype != np.uint8:
            raise TypeError(f"RNG state must be a torch.ByteTensor: expected uint8, got {array.dtype}")
        if array.size != STATE_BYTES:
            raise RuntimeError(f"Expected a CPUGeneratorImplState of size {STATE_BYTES} but found the input RNG state size to be "
                               f"{array.size}")
        data = array.tobytes()
        seed, left, seeded, position = HEADER.unpack_from(data)
        key = np.frombuffer(data, "<u8", BLOCK, HEADER.size)
        _, normal, _, has_normal, _, _ = TAIL.unpack_from(data, HEADER.size + 8 * BLOCK)
        fresh = left == 1 and position == 0
        if seeded != 1 or not (fresh or left + position == BLOCK + 1 and 0 < left) or (key >> np.uint64(32)).any():
            raise RuntimeError("Invalid mt19937 state: take it from get_state() of a CPU generator, unchanged")
        with self.lock:
            self._set_seed(seed)
            bits = self._stream()
            bits.state = {"bit_generator": "MT19937",
                          "state": {"key": key.astype(np.uint32), "pos": BLOCK if fresh else position}}
            self._started, self.next_normal = not fresh, normal if has_normal else None
        return self

    def clone_state(self):
        """A new generator that will give the same numbers as this one, independently of it."""
        return Generator().set_state(self.get_state())

    graphsafe_get_state = clone_state

    def graphsafe_set_state(self, state):
        """Continue from the state of another generator."""
        return self.set_state(state.get_state())

    def __copy__(self):
        raise TypeError("cannot copy a Generator; use clone_state()")

    def __deepcopy__(self, memo):
        return self.clone_state()

    def __reduce__(self):
        return restore, (self.get_state().tobytes(),)


def restore(state):
    """The generator of a pickled state."""
    return Generator().set_state(np.frombuffer(state, np.uint8))


every_generator = weakref.WeakSet()
held_for_fork = []


def check_rule():
    """Refuse to draw where the current thread's mode forbids it (vmap with randomness="error")."""
    rule = RANDOM_RULE.get()
    if rule is not None:
        raise RuntimeError(rule)


def hold_all():
    """Before a fork: no other thread is in the middle of a draw, so the child's copy is whole and unlocked."""
    held = list(every_generator)
    for generator in held:
        generator.lock.acquire()
    held_for_fork.extend(held)


def release_all():
    while held_for_fork:
        held_for_fork.pop().lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=hold_all, after_in_parent=release_all, after_in_child=release_all)

default_generator = Generator()
default_generator.seed()  # as PyTorch's: a program that sets no seed gets new numbers each run


def manual_seed(seed):
    """Seed the default generator and return it.

    >>> import rushlight as torch
    >>> torch.manual_seed(0).initial_seed()
    0
    """
    return default_generator.manual_seed(int(seed))


def seed():
    """Seed the default generator from the operating system and return the seed."""
    return default_generator.seed()


def initial_seed():
    """The seed that the default generator started from."""
    return default_generator.initial_seed()
