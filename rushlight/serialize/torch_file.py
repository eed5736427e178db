"""Files as torch.save writes them: a zip archive of one pickle and one record for each storage."""
import hashlib

from ..core import devices
from ..core.errors import FormatError
from .pickle_read import CONVERT, Reader
from .pickle_write import Writer
from .source import shown
from .torch_names import NAMES, STORAGES, Storage
from .zip_write import write_archive

PICKLE_LIMIT = 256 << 20


def write_torch(value, stream, where):
    """Write a value to a binary stream as PyTorch's torch.load reads it, the same bytes for the same value."""
    writer = Writer(where)
    data = writer.pickle(value)
    digest = hashlib.blake2b(data, digest_size=16)
    for buffer in writer.storages.buffers:
        digest.update(buffer.size.to_bytes(8, "little"))
    records = [("data.pkl", data), (".format_version", b"1"), (".storage_alignment", b"64"), ("byteorder", b"little")]
    records += [(f"data/{number}", buffer) for number, buffer in enumerate(writer.storages.buffers)]
    identity = str(int.from_bytes(digest.digest(), "big")).zfill(40)[:40].encode()
    records += [("version", b"3\n"), (".data/serialization_id", identity)]
    write_archive(stream, [("archive/" + name, buffer) for name, buffer in records])


def read_torch(source, archive, location):
    """The value of a torch file; `location` places storages, see `place_on`."""
    prefix = prefix_of(source, archive)
    records = archive.records
    record = records[prefix + "data.pkl"]
    if record.size > PICKLE_LIMIT:
        raise source.error(f"pickle of {record.size} bytes: expected at most {PICKLE_LIMIT}", CONVERT)
    order = archive.read(prefix + "byteorder").decode("latin1") if prefix + "byteorder" in records else "little"
    if order not in ("little", "big"):
        raise source.error(f"byte order {shown(order)!r}: expected little or big", "the file is damaged: get it again")
    loaded = {}

    def storage(reader, described):
        if type(described) is not tuple or len(described) != 5 or described[0] != "storage":
            raise reader.error("a persistent id: expected ('storage', type, key, location, size)")
        _, kind, key, where, count = described
        if getattr(kind, "name", None) not in STORAGE_TYPES or type(key) is not str or type(where) is not str or type(count) is not int:
            raise reader.error("a storage of an unknown type: expected torch.FloatStorage or one like it")
        name, dtype = prefix + "data/" + key, STORAGE_TYPES[kind.name]
        if name not in records:
            raise reader.error(f"storage '{shown(key)}' has no record in the archive")
        expected = count * (1 if dtype is None else dtype.itemsize)
        if count < 0 or records[name].size != expected:
            raise reader.error(f"storage '{shown(key)}' declared as {count} elements, {expected} bytes: its record has "
                               f"{records[name].size}")
        place_on(source, where, location)
        if key not in loaded:
            loaded[key] = Storage(in_order(reader, archive.array(name), dtype, order), dtype)
        elif loaded[key].dtype is not dtype:
            raise reader.error(f"storage '{shown(key)}' is used with two types")
        return loaded[key]

    return Reader(archive.read(prefix + "data.pkl"), source, NAMES, storage).run()


STORAGE_TYPES = {f"torch.{name}": dtype for name, dtype in STORAGES.items()} | {"torch.storage.UntypedStorage": None}


def in_order(reader, array, dtype, order):
    """The bytes as elements of this machine's byte order."""
    if dtype is None:
        if order == "big":
            raise reader.error("untyped storage in big-endian order")
        return array
    array = array.view(dtype.numpy)
    return array.byteswap() if order == "big" and dtype.itemsize > 1 else array


def prefix_of(source, archive):
    """The folder of the archive that holds data.pkl; an error that says what the file is otherwise."""
    names = archive.records
    found = [name for name in names if name.count("/") == 1 and name.endswith("/data.pkl")]
    folder = found[0].partition("/")[0] + "/" if found else ""
    if any(name.startswith(folder + "code/") or name == folder + "constants.pkl" for name in names):
        raise source.error("a TorchScript archive: format refused, expected tensors and plain data",
                           "it is a program; with PyTorch: torch.save(torch.jit.load(path).state_dict(), new)")
    if "model.weights.h5" in names or "config.json" in names and "metadata.json" in names:
        raise source.error("a Keras archive: format refused, expected a torch file",
                           "save the weights with Keras as .npz or safetensors")
    if len(found) != 1:
        raise source.error(f"a zip archive that torch.save did not write: expected one data.pkl, got {len(found)} among "
                           f"{len(names)} records", "for NumPy's archives use a name that ends in .npz")
    return folder


def place_on(source, where, location):
    """Check where a storage is to live: everything lives on the CPU, and the user must have said so for what did not."""
    if callable(location):
        return
    if isinstance(location, dict):
        where = str(location.get(where, where))
    elif location is not None:
        where = str(location)
    kind = where.partition(":")[0]
    if kind == "cpu":
        return
    if kind == "cuda":
        raise RuntimeError(f"{source.name}: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If "
                           "you are running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map "
                           "your storages to the CPU.")
    if location is not None:
        devices.require_cpu(where)
    raise FormatError(f"{source.name}: a storage of device '{shown(where)}': expected cpu. To fix: pass map_location='cpu'.")
