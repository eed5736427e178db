"""`torch.random`: the default generator's seed and state, and a block whose draws are undone."""
import contextlib

from .ops.random import default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

__all__ = ["default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state", "thread_safe_generator"]


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type="cuda"):
    """Context manager: after the block the default generator goes on as if nothing had been drawn in it.

    >>> import rushlight as torch
    >>> before = torch.get_rng_state()
    >>> with torch.random.fork_rng():
    ...     _ = torch.rand(5)
    >>> bool((before == torch.get_rng_state()).all())
    True
    """
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)


def thread_safe_generator():
    """None: the default generator is safe to share between threads."""
    return None
