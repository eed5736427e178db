"""`save` and `load`: one door each way, the format told by the name when saving and by the content when loading.

`load` never runs code from a file, whatever its arguments; what only code could bring back is refused. `save`
replaces a file in one step. Read `load` first.
"""
import os

from ..tensor import Tensor
from .atomic import replace
from .numpy_file import MAGIC, read_npy, read_npz
from .safetensors_file import read_safetensors, write_safetensors
from .source import Source, shown
from .torch_file import read_torch, write_torch
from .zip_read import Archive


def save(obj, f, pickle_module=None, pickle_protocol=2, _use_new_zipfile_serialization=True):
    """Save tensors and plain data to a path or a binary file object.

    A path that ends in .safetensors takes a dict of tensors; any other file is a torch file, which PyTorch's
    `torch.load` reads, and the same data gives the same bytes. Views of one storage are saved once and share it again
    when loaded. A path is replaced in one step: a crash leaves the old file or the new one, whole.

    Objects that only code could bring back (modules, optimizers) are written as PyTorch would write them, with a
    UserWarning, since `load` refuses such files: save their `state_dict()`. Raises TypeError for what no import can reach
    (lambdas, local classes). OSError when the file cannot be written; the old file is then unchanged.

    >>> import rushlight as torch, io
    >>> file = io.BytesIO()
    >>> torch.save({"step": 3, "weight": torch.ones(2)}, file)
    >>> file.seek(0)
    0
    >>> torch.load(file)
    {'step': 3, 'weight': tensor([1., 1.])}
    """
    if isinstance(f, (str, os.PathLike)):
        name = shown(os.fspath(f))
        if os.fsdecode(f).endswith(".safetensors"):
            replace(f, lambda stream: write_safetensors(obj, stream, name))
        else:
            replace(f, lambda stream: write_torch(obj, stream, name))
        return
    if not hasattr(f, "write"):
        raise AttributeError(f"expected 'f' to be string, path, or a file-like object with a 'write' attribute, got {type(f).__name__}")
    name = shown(str(getattr(f, "name", None) or f"<{type(f).__name__}>"))
    if name.endswith(".safetensors"):
        write_safetensors(obj, f, name)
    else:
        write_torch(obj, f, name)


def load(f, map_location=None, pickle_module=None, *, weights_only=True, mmap=None, **pickle_load_args):
    """Load what `save`, PyTorch's `torch.save`, safetensors or NumPy wrote, from a path or a binary file object.

    Torch files give the saved object; .safetensors and .npz a dict of tensors; .npy a tensor. No code from the file
    is run, with `weights_only=False` too: that argument is accepted and changes nothing. Everything is loaded to the
    CPU; storages saved from another device need `map_location="cpu"`. With `mmap=True` the data is mapped, privately,
    instead of read: the file must then not be cut short while tensors live, or the system kills the process.

    Raises FileNotFoundError; FormatError (a RuntimeError) for a broken file or another format; SecurityError (a
    FormatError and a pickle.UnpicklingError) for one that asks for code or for more than its size justifies.

    >>> import rushlight as torch, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
    >>> torch.save({"bias": torch.zeros(2)}, path)
    >>> torch.load(path)
    {'bias': tensor([0., 0.])}
    """
    with Source(f, mapped=bool(mmap)) as source:
        if isinstance(map_location, Tensor):
            raise TypeError(f"{source.name}: map_location: expected a device, its name, a dict or a function, got a tensor")
        return read(source, map_location)


def read(source, location):
    """Tell the format from the first bytes and read it."""
    if source.size == 0:
        raise source.error("is empty: expected a saved file, got 0 bytes", "was it closed before it was written? a file object may "
                           "need seek(0)")
    head = source.read(0, min(source.size, 512))
    if head.startswith(b"PK\x03\x04") or head.startswith(b"PK\x05\x06"):
        archive = Archive(source)
        if archive.records and all(name.endswith(".npy") for name in archive.records):
            return read_npz(source, archive)
        return read_torch(source, archive, location)
    if head.startswith(MAGIC):
        return read_npy(source)
    # before the magic bytes of others: a header's length may look like any of them
    if source.name.endswith(".safetensors") or (head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= source.size - 8):
        return read_safetensors(source)
    refuse_known(source, head)
    if head[8:9] == b"{":
        return read_safetensors(source)
    raise source.error(f"unknown format: expected a torch file, .safetensors, .npy or .npz, got bytes that start with {head[:8]!r}",
                       "a partial or wrong download? look at its first bytes")


def refuse_known(source, head):
    """Say what a file is that is known but not read."""
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        raise source.error("an HDF5 file (.h5, Keras): format refused, expected a torch file, .safetensors or .npz",
                           "read it with h5py and save its arrays with numpy.savez")
    if head[257:262] == b"ustar":
        raise source.error("a tar archive (PyTorch before 0.4): format refused, expected the zip format",
                           "with PyTorch and a file you trust: torch.save(torch.load(path, weights_only=False), new)")
    if head[:1] == b"\x80" and head[1:2] in b"\x01\x02\x03\x04\x05" or head.startswith((b"(dp", b"(lp", b"ccopy_reg")):
        raise source.error("a bare pickle (or PyTorch before 1.6): format refused, expected the zip format",
                           "with PyTorch: torch.save(torch.load(path), new); with pickle and a file you trust: save plain data anew")
    if head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"(\xb5/\xfd")):
        raise source.error("a compressed file: expected it unpacked", "unpack it first (gunzip, unxz, zstd -d)")
    if head.startswith(b"version https://git-lfs"):
        raise source.error("a Git LFS pointer: expected the file itself", "run git lfs pull")
    if head.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        raise source.error("an HTML page: expected a saved file", "the download needs a login or another address")
