"""NumPy's .npy and .npz files, read as tensors: no objects, no pickles, sizes checked before anything is allocated."""
import ast
import re

import numpy as np

from ..core import dtypes
from ..tensor import wrap
from .source import shown
from .zip_read import Archive

MAGIC = b"\x93NUMPY"
HEADER_LIMIT = 10_000
DAMAGED = "the file is damaged or was made to harm: get it again from where it came"


def read_npy(source, offset=0, end=None):
    """The tensor of an .npy file, or of the part of one between two offsets."""
    end = source.size if end is None else end
    dtype, fortran, shape, start = read_header(source, offset, end)
    count = 1
    for size in shape:
        count *= size
    needed = count * dtype.itemsize
    if needed >= 1 << 63 or needed > end - start:
        raise source.error(f"shape {list(shape)} of {dtype} needs {needed} bytes, {end - start} are there: {needed - end + start} bytes "
                           "missing", "partial download? get the file again")
    return as_tensor(source, source.array(start, needed, "the array"), dtype, fortran, shape)


def as_tensor(source, data, dtype, fortran, shape):
    """The bytes as a tensor, in this machine's byte order."""
    array = data.view(dtype)
    if not dtype.isnative:
        array = array.astype(dtype.newbyteorder("="))
    if array.dtype not in dtypes.BY_NUMPY:
        raise source.error(f"dtype {dtype}: expected one that tensors have", "convert it with NumPy: array.astype('float32')")
    return wrap(array.reshape(shape, order="F" if fortran else "C"))


def read_header(source, offset, end):
    """NumPy dtype, whether in Fortran order, shape, and where the data starts."""
    if end - offset < 10 or source.read(offset, 6) != MAGIC:
        raise source.error("expected NumPy's magic bytes at its start", "not an .npy file, or a partial download")
    version = source.read(offset + 6, 1)[0]
    if version not in (1, 2, 3):
        raise source.error(f".npy version {version}: expected 1, 2 or 3", "save it anew with numpy.save")
    width = 2 if version == 1 else 4
    length = int.from_bytes(source.read(offset + 8, width, "the header"), "little")
    if length > HEADER_LIMIT or length > end - offset - 8 - width:
        raise source.error(f"header says {length} bytes: expected at most {min(HEADER_LIMIT, end - offset - 8 - width)}", DAMAGED)
    text = source.read(offset + 8 + width, length, "the header").decode("utf-8" if version == 3 else "latin1", "replace")
    if max(depths(text), default=0) > 4:
        raise source.error("header nests too deep: expected a flat dict", DAMAGED)
    try:
        header = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        raise source.error(f"header {shown(text[:60])!r}: expected a dict of descr, fortran_order and shape", DAMAGED) from None
    if type(header) is not dict or set(header) != {"descr", "fortran_order", "shape"} or type(header["fortran_order"]) is not bool:
        raise source.error("header: expected descr, fortran_order and shape", DAMAGED)
    shape = header["shape"]
    if type(shape) is not tuple or len(shape) > 64 or any(type(size) is not int or size < 0 for size in shape):
        raise source.error(f"shape {shown(str(shape))}: expected a tuple of ints from 0", DAMAGED)
    return numpy_dtype(source, header["descr"]), header["fortran_order"], shape, offset + 8 + width + length


def depths(text):
    """The bracket depth at each character."""
    depth = 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        yield depth


def numpy_dtype(source, described):
    """A dtype of plain numbers; SecurityError for objects, which only unpickling could bring back."""
    if type(described) is not str:
        raise source.error("structured dtype: expected plain numbers", "save its fields as separate arrays")
    if described.lstrip("<>=|").startswith("O"):
        raise source.refusal("object dtype: loading it would run code from the file",
                             "convert it with trusted code to arrays of numbers, or to .safetensors")
    if not re.fullmatch(r"[<>=|]?[biufc?]\d{0,2}", described):
        raise source.error(f"dtype {shown(described)!r}: expected plain numbers", "convert it with NumPy: array.astype('float32')")
    try:
        return np.dtype(described)
    except TypeError:
        raise source.error(f"dtype {shown(described)!r}: NumPy knows none such", DAMAGED) from None


class Part:
    """One record of an .npz archive, unpacked, as a source."""

    mapped = owned = False

    def __init__(self, source, name, data):
        self.name, self.data, self.size = f"{source.name}[{shown(name)}]", data, data.size
        self.error, self.refusal = source.error, source.refusal

    def read(self, offset, count, what="the file"):
        if offset + count > self.size:
            raise self.error(f"ends in {what} of record '{self.name}': {offset + count - self.size} bytes missing", DAMAGED)
        return self.data[offset:offset + count].tobytes()

    def array(self, offset, count, what="the file"):
        return self.data[offset:offset + count].copy()


def read_npz(source, archive=None):
    """The tensors of an .npz file by name."""
    archive = Archive(source) if archive is None else archive
    tensors = {}
    for name in archive.records:
        if not name.endswith(".npy"):
            raise source.error(f"record '{shown(name)}': expected only .npy records", "not an .npz file")
        tensors[name[:-4]] = read_npy(Part(source, name, archive.array(name)))
    return tensors
