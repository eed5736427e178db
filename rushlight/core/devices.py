"""Devices: there is one, the CPU; anything else is refused with what to do."""


class device:
    """Where a tensor lives. Only `cpu` exists here; `meta`, `cuda` and others can be named but not used.

    >>> import rushlight as torch
    >>> torch.device("cpu")
    device(type='cpu')
    """

    __slots__ = ("type", "index")

    def __new__(cls, type="cpu", index=None):
        if isinstance(type, device):
            return type
        if isinstance(type, int):
            type, index = "cuda", type
        if not isinstance(type, str):
            raise TypeError(f"device(): argument 'type' must be str, not {type.__class__.__name__}")
        if ":" in type:
            if index is not None:
                raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {type}")
            type, _, number = type.partition(":")
            if not number.isdigit():
                raise RuntimeError(f"Invalid device string: '{type}:{number}'")
            index = int(number)
        if type not in KNOWN:
            raise RuntimeError(f"Expected one of {', '.join(KNOWN)} device type at start of device string: {type}")
        self = object.__new__(cls)
        object.__setattr__(self, "type", type)
        object.__setattr__(self, "index", index)
        return self

    def __setattr__(self, name, value):
        raise AttributeError(f"attribute '{name}' of 'torch.device' objects is not writable")

    def __repr__(self):
        return f"device(type='{self.type}')" if self.index is None else f"device(type='{self.type}', index={self.index})"

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other):
        return isinstance(other, device) and self.type == other.type and self.index == other.index

    def __hash__(self):
        return hash((self.type, self.index))

    def __reduce__(self):
        return device, (self.type, self.index)

    def __enter__(self):
        require_cpu(self)
        return self

    def __exit__(self, *exc):
        return None


KNOWN = ("cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla", "lazy",
         "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone")
CPU = device("cpu")


def require_cpu(where, meta=False):
    """The CPU device if `where` names it (or is None; the meta device only if `meta`), else an error that says what to do."""
    if where is None or where is CPU or where == "cpu":
        return CPU
    where = device(where)
    if where.type == "cpu":
        return CPU
    if where.type == "meta" and meta:
        return where
    if where.type == "cuda":
        raise AssertionError("Torch not compiled with CUDA enabled: Rushlight computes on the CPU only; use device='cpu'")
    raise NotImplementedError(f"device '{where}' is not available: Rushlight computes on the CPU only; use device='cpu'")
