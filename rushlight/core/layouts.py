"""Names for memory layouts. Only `strided` tensors exist; memory formats say how copies are laid out."""


class Named:
    """A named constant whose repr is PyTorch's."""

    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return "torch." + self.name

    def __reduce__(self):
        return type(self).of, (self.name,)

    @classmethod
    def of(cls, name):
        """The constant of a name (used by pickle)."""
        return globals()[name]


class layout(Named):
    """How a tensor's values are stored."""

    __slots__ = ()


class memory_format(Named):
    """In which order a copy's dims are laid out."""

    __slots__ = ()


strided, sparse_coo, sparse_csr = layout("strided"), layout("sparse_coo"), layout("sparse_csr")
contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")
