"""`autocast`: inside, contractions and convolutions of float32 tensors run in a half type (ops/dispatch.py does the casting)."""
import warnings

from ..core import dtypes, modes


class autocast(modes.Decorator):
    """Context manager and decorator: matrix products and convolutions run in `dtype` (bfloat16 on the CPU).

    >>> import rushlight as torch
    >>> with torch.autocast("cpu"):
    ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.bfloat16
    """

    def __init__(self, device_type="cpu", dtype=None, enabled=True, cache_enabled=None):
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device_type, self.enabled, self.dtype = device_type, enabled, dtype or dtypes.bfloat16
        if device_type == "cuda" and enabled:
            warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=2)
            self.enabled = False
        elif device_type not in ("cpu", "cuda"):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        if self.dtype not in (dtypes.bfloat16, dtypes.float16) and self.enabled:
            warnings.warn("In CPU autocast, but the target dtype is not supported. Disabling autocast.\nCPU Autocast only supports dtype of "
                          "torch.bfloat16, torch.float16 currently.", stacklevel=2)
            self.enabled = False
        self.previous = []

    def __enter__(self):
        before = modes.AUTOCAST.get()
        after = self.dtype if self.enabled else None
        self.previous.append(before)
        switch(before, after)
        return self

    def __exit__(self, *exc):
        switch(modes.AUTOCAST.get(), self.previous.pop())
        return False

    def clone(self):
        return autocast(self.device_type, self.dtype, self.enabled)


def switch(before, after):
    modes.AUTOCAST.set(after)
    if before is None and after is not None:
        modes.Special.enter()
    elif before is not None and after is None:
        modes.Special.leave()


def is_autocast_enabled(device_type="cpu"):
    """Whether autocast is on in this thread."""
    return device_type == "cpu" and modes.AUTOCAST.get() is not None


is_autocast_cpu_enabled = is_autocast_enabled


def set_autocast_enabled(device_type, enabled=None):
    """Switch autocast on or off from now on."""
    enabled = device_type if enabled is None else enabled
    switch(modes.AUTOCAST.get(), dtypes.bfloat16 if enabled else None)


def get_autocast_dtype(device_type="cpu"):
    """The half type that autocast uses."""
    return modes.AUTOCAST.get() or dtypes.bfloat16


def is_autocast_available(device_type):
    """Whether autocast works on a device."""
    return device_type == "cpu"


def custom_fwd(fwd=None, *, device_type="cpu", cast_inputs=None):
    """Decorator for `forward` of a custom Function under autocast; accepted as it is."""
    return fwd if fwd is not None else lambda function: function


def custom_bwd(bwd=None, *, device_type="cpu"):
    """Decorator for `backward` of a custom Function under autocast; accepted as it is."""
    return bwd if bwd is not None else lambda function: function
