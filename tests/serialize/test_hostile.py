"""Broken and hostile files: rows 57 to 70 of the reliability table. Each gives one clear error, at once, and runs no code."""
import io
import json
import os
import pickle
import signal
import socket
import struct
import tempfile
import tracemalloc
import zipfile

import numpy as np
import pytest

from rushlight.core.errors import FormatError, SecurityError, UnpicklingError
from rushlight.serialize import load, save
from rushlight.serialize.zip_write import write_archive
from rushlight.tensor import Tensor, wrap


def ones(*shape):
    return wrap(np.ones(shape, np.float32))


@pytest.fixture(autouse=True)
def _at_once():
    """No file may take more than a few seconds, whatever it says: of the processor's time, so that neighbours do not count."""
    signal.signal(signal.SIGPROF, lambda *_: pytest.fail("took more than 20 s"))
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("waited"))
    signal.setitimer(signal.ITIMER_PROF, 20)
    signal.alarm(100)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.alarm(0)


@pytest.fixture
def refused(tmp_path):
    """Write bytes to a file, load it, and return the message; the file's name must start it."""
    def check(data, kind=FormatError, name="hostile.pt", words=()):
        path = tmp_path / name
        path.write_bytes(data)
        for mapped in (False, True):
            with pytest.raises(FormatError) as caught:
                load(path, mmap=mapped)
            assert type(caught.value) in (kind, UnpicklingError if kind is SecurityError else kind), caught.value
            message = str(caught.value)
            assert message.startswith(str(path)) and "To fix" in message
            for word in (words,) if isinstance(words, str) else words:
                assert word in message, message
        with pytest.raises(kind):
            load(io.BytesIO(data), weights_only=False)
        return message
    return check


# ---- safetensors: rows 57 to 62

def safetensors(header, data=b"", length=None):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def entry(first, last, shape=None, dtype="F32"):
    return {"dtype": dtype, "shape": [(last - first) // 4] if shape is None else shape, "data_offsets": [first, last]}


SAFETENSORS = {
    "57 length 2^63": (safetensors({}, length=1 << 63), "header says 9223372036854775808 bytes, file has 10"),
    "57 length over 100 MB": (safetensors({}, length=100_000_001), "header says 100000001 bytes"),
    "59 overlap": (safetensors({"a": entry(0, 8), "b": entry(4, 12)}, bytes(12)), "tensors 'a' and 'b' overlap at bytes 4 to 8"),
    "59 hole": (safetensors({"a": entry(0, 4), "b": entry(8, 12)}, bytes(12)), "a hole of 4 bytes before tensor 'b', bytes 4 to 8"),
    "59 trailing bytes": (safetensors({"a": entry(0, 4)}, bytes(9)), "5 bytes after the last tensor"),
    "59 duplicate key": (safetensors(b'{"a":%s,"a":%s}' % ((json.dumps(entry(0, 4)).encode(),) * 2), bytes(4)), "key 'a' twice"),
    "60 overflow": (safetensors({"a": entry(0, 4, [1 << 32, 1 << 32])}, bytes(4)), "overflows 63 bits"),
    "60 negative": (safetensors({"a": entry(0, 4, [-1])}, bytes(4)), "shape [-1]"),
    "60 float": (safetensors({"a": entry(0, 4, [1.0])}, bytes(4)), "shape [1.0]"),
    "60 bool": (safetensors({"a": entry(0, 4, [True])}, bytes(4)), "shape [True]"),
    "60 empty but huge": (safetensors({"a": entry(0, 0, [0, 1 << 62])}), "overflows 63 bits"),
    "60 too many dims": (safetensors({"a": entry(0, 4, [1] * 65)}, bytes(4)), "at most 64"),
    "60 shape and range differ": (safetensors({"a": entry(0, 8, [3])}, bytes(8)), "needs 12 bytes, data_offsets give 8"),
    "60 negative offset": (safetensors({"a": entry(-4, 0)}, bytes(4)), "data_offsets"),
    "61 unknown dtype": (safetensors({"a": entry(0, 4, dtype="Q9")}, bytes(4)), "unknown dtype 'Q9'"),
    "61 not UTF-8": (safetensors(b'{"\xff":1}'), "not UTF-8: byte 10 is 0xff"),
    "61 nested deep": (safetensors(b'{"a":' + b"[" * 500_000 + b"]" * 500_000 + b"}"), "nests"),
    "61 nested deep, with quotes": (safetensors(b'{"a":' + b'["",' * 300_000 + b"1" + b"]" * 300_000 + b"}"), "open brackets"),
    "61 metadata not text": (safetensors({"__metadata__": {"a": 1}}), "__metadata__: expected text"),
    "61 not JSON": (safetensors(b'{"a"'), "not JSON"),
    "61 not an object": (safetensors(b"[]"), "starts with"),
    "61 huge number": (safetensors(b'{"a":{"dtype":"F32","shape":[%s],"data_offsets":[0,4]}}' % (b"9" * 5000)), "number of 5000 digits"),
    "61 NaN": (safetensors(b'{"a":NaN}'), "number NaN"),
    "61 bool values": (safetensors({"a": entry(0, 4, [4], "BOOL")}, b"\0\1\2\0"), "expected bytes 0 and 1"),
    "61 keys missing": (safetensors({"a": {"dtype": "F32"}}), "expected dtype, shape and data_offsets"),
}


@pytest.mark.parametrize("name", SAFETENSORS)
def test_safetensors(refused, name):
    data, words = SAFETENSORS[name]
    refused(data, name="hostile.safetensors", words=words)


def test_58_every_prefix_of_a_safetensors_file(tmp_path):
    path = tmp_path / "a.safetensors"
    save({"a": ones(200), "b": ones(3, 2)}, path)
    whole = path.read_bytes()
    for size in range(len(whole)):
        with pytest.raises(FormatError) as caught:
            load(io.BytesIO(whole[:size]))
        assert str(caught.value).startswith("<BytesIO>")
    path.write_bytes(whole[:-16])
    with pytest.raises(FormatError, match=r"ends in tensor 'b': expected \d+ bytes of data, 16 bytes missing. To fix: partial download"):
        load(path)


def test_58_every_prefix_of_a_torch_file():
    file = io.BytesIO()
    save({"a": ones(20), "b": [1, "x"]}, file)
    whole = file.getvalue()
    for size in range(len(whole)):
        with pytest.raises(FormatError):
            load(io.BytesIO(whole[:size]))


def test_62_odd_names_load_as_data_and_are_shown_escaped(tmp_path):
    names = ["../../etc/passwd", "a\0b", "a/b\\c", "\u202egnp.exe", "/abs", ""]
    data = safetensors({name: entry(4 * i, 4 * i + 4) for i, name in enumerate(names)}, bytes(4 * len(names)))
    assert list(load(io.BytesIO(data))) == names
    bad = safetensors({"a\0\u202eb": entry(0, 4, dtype="Q9")}, bytes(4))
    with pytest.raises(FormatError, match=r"tensor 'a\\x00\\u202eb'"):
        load(io.BytesIO(bad))


# ---- what is no file: rows 63 and 64

def test_63_not_a_regular_file(tmp_path, refused):
    refused(b"", words="is empty")
    refused(np.random.default_rng(0).bytes(3000), words="unknown format")
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        short = tempfile.mkdtemp()
        server.bind(os.path.join(short, "s"))
        for path, kind in ((tmp_path, "directory"), (tmp_path / "fifo", "FIFO"), ("/dev/zero", "character device"),
                           (os.path.join(short, "s"), "socket")):
            with pytest.raises(FormatError, match=f"not a regular file: expected a saved file, got a {kind}") as caught:
                load(path)
            assert str(caught.value).startswith(str(path))
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.pt")
    with pytest.raises(TypeError, match="expected a path or a file object"):
        load(3)
    with pytest.raises(TypeError, match="opened in binary mode"):
        load(io.StringIO("text of some length"))


def test_64_a_file_that_shrinks(tmp_path):
    path = tmp_path / "a.safetensors"
    save({"a": ones(100_000)}, path)

    class Shrinking(io.FileIO):
        def readinto(self, buffer):
            os.truncate(path, 1000)
            return super().readinto(buffer)
    with Shrinking(path) as file, pytest.raises(FormatError, match="shrank while being read|bytes missing"):
        load(file)


def test_64_a_loaded_file_may_shrink_afterwards(tmp_path):
    path = tmp_path / "a.safetensors"
    save({"a": ones(100_000)}, path)
    tensor = load(path)["a"]
    os.truncate(path, 0)
    assert tensor._array.sum() == 100_000


def test_a_mapped_tensor_is_private_and_outlives_a_new_save(tmp_path):
    for name in ("a.safetensors", "a.pt"):
        path = tmp_path / name
        save({"a": ones(5000)}, path)
        before = path.read_bytes()
        loaded = load(path, mmap=True)["a"]
        loaded._array[:] = 7  # writes go to the mapping, not to the file
        assert path.read_bytes() == before
        save({"a": loaded}, path)  # a new file takes the name: the mapping still has its own
        assert loaded._array.sum() == 35_000 and load(path)["a"]._array.sum() == 35_000


# ---- torch files: rows 65 to 67

def torch_zip(data, **records):
    file = io.BytesIO()
    write_archive(file, [("archive/data.pkl", data), *((f"archive/{name.replace('__', '/')}", value) for name, value in records.items())])
    return file.getvalue()


class Call:
    """Pickles as a call of `function`."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


class HasState:
    pass


RAN = []


@pytest.mark.parametrize("value", [
    Call(os.system, "echo no"), Call(eval, "1"), Call(exec, "1"), Call(getattr, 1, "real"), Call(RAN.append, 1), Call(print, "no"),
    Call(__import__, "os"), {"a": [Call(os.getenv, "HOME")]}, HasState(), HasState, len, json.JSONDecoder,
], ids=lambda value: type(value).__name__ + str(getattr(value, "call", ""))[:30])
@pytest.mark.parametrize("protocol", [2, 4])
def test_65_calls_and_classes(refused, value, protocol):
    refused(torch_zip(pickle.dumps(value, protocol)), SecurityError, words=("asks for `", "To fix: convert"))
    assert not RAN


def test_65_the_message_names_what_is_asked_for(refused):
    refused(torch_zip(b"\x80\x02cos\nsystem\nX\x02\0\0\0ls\x85R."), SecurityError, words="asks for `os.system`")
    with pytest.raises(pickle.UnpicklingError):
        load(io.BytesIO(torch_zip(pickle.dumps(Call(os.system, "ls")))))


def doubled(levels):
    """A tuple that stands for 2**levels leaves."""
    data = b"\x80\x02K\x01"
    for i in range(levels):
        data += b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86"
    return data + b"."


TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpu"


def tensor_pickle(count=b"K\x04", offset=b"K\0", size=b"K\x04\x85", stride=b"K\x01\x85", grad=b"\x89", after=b""):
    return (b"\x80\x02" + TENSOR + count + b"tQ" + offset + size + stride + grad + b"ccollections\nOrderedDict\n)RtR" + after + b".")


def test_the_hand_made_tensor_is_good():
    loaded = load(io.BytesIO(torch_zip(tensor_pickle(), data__0=np.arange(4, dtype="f4"))))
    assert loaded._array.tolist() == [0, 1, 2, 3]


PICKLES = {
    "66 SETITEM on a list": b"\x80\x02]K\x01K\x02s.",
    "66 SETITEMS on a tuple": b"\x80\x02)(K\x01K\x02u.",
    "66 APPEND on a dict": b"\x80\x02}K\x01a.",
    "66 ADDITEMS on a list": b"\x80\x04](K\x01\x90.",
    "66 BUILD on a tensor": tensor_pickle(after=b"}b"),
    "66 BUILD on a list": b"\x80\x02]}b.",
    "66 BUILD that hides a method": b"\x80\x02ccollections\nOrderedDict\n)R}X\x05\0\0\0itemsK\x01sb.",
    "66 BUILD of __class__": b"\x80\x02ccollections\nOrderedDict\n)R}X\x09\0\0\0__class__K\x01sb.",
    "66 2^40 shared tuples": doubled(40),
    "66 2^200 shared tuples": doubled(200),
    "66 deep lists": b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b".",
    "66 deep tuples": b"\x80\x02)" + b"\x85" * 200_000 + b".",
    "66 deep tuple as a key": b"\x80\x02})" + b"\x85" * 200_000 + b"K\x01s.",
    "66 a list as a key": b"\x80\x02}]K\x01s.",
    "66 a list in itself": b"\x80\x02]q\0h\0a.",
    "66 a dict in itself": b"\x80\x02}q\0K\x01h\0s.",
    "66 more than 10 M opcodes": b"\x80\x02" + b"N0" * 5_000_001 + b"N.",
    "66 memory": b"\x80\x02(" + b"]" * 3_000_000 + b"t.",
    "66 bytearray of a length": b"\x80\x02c__builtin__\nbytearray\nJ\xff\xff\xff\x7f\x85R.",
    "66 a storage as a value": b"\x80\x02" + TENSOR[TENSOR.index(b"((") + 1:] + b"K\x04tQ.",
    "66 a function as a value": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n.",
    "66 calling data": b"\x80\x02K\x01)R.",
    "66 INST": b"\x80\x02(ios\nsystem\n.",
    "66 OBJ": b"\x80\x02(cos\nsystem\no.",
    "66 EXT1": b"\x80\x02\x82\x01.",
    "66 PERSID": b"\x80\x02Pabc\n.",
    "66 text opcodes": b"\x80\x02I1\n.",
    "66 DUP": b"\x80\x02K\x012.",
    "66 NumPy objects": b"\x80\x02cnumpy\ndtype\nX\x02\0\0\0O8\x89\x88\x87R.",
    "66 encode": b"\x80\x02c_codecs\nencode\nX\x01\0\0\0aX\x03\0\0\0zip\x86R.",
    "66 defaultdict": b"\x80\x02ccollections\ndefaultdict\ncos\nsystem\n\x85R.",
    "66 a tensor from a set": b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(cbuiltins\nset\nctorch\nTensor\n)}tR.",
}


@pytest.mark.parametrize("name", PICKLES)
def test_66_pickles(refused, name):
    refused(torch_zip(PICKLES[name], data__0=np.arange(4, dtype="f4")), SecurityError)


BROKEN_PICKLES = {
    "cut off": b"\x80\x02K", "no stop": b"\x80\x02N", "empty": b"", "two values": b"\x80\x02NN.", "no value": b"\x80\x02.",
    "mark left": b"\x80\x02(.", "memo missing": b"\x80\x02h\x05.", "no mark": b"\x80\x02Nt.", "mark as an item": b"\x80\x02(\x85.",
    "text longer than the file": b"\x80\x02X\xff\xff\xff\x7fab.", "bytes of 2^63": b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "frame of 2^63": b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7fN.", "negative long": b"\x80\x02\x8b\xff\xff\xff\xff.",
    "not UTF-8": b"\x80\x02X\x01\0\0\0\xff.", "protocol 9": b"\x80\x09N.", "odd dict": b"\x80\x02}(K\x01u.",
    "remembers a mark": b"\x80\x02(q\0.", "size of text": b"\x80\x02ctorch\nSize\n(X\x01\0\0\0at\x85R.",
    "device of nothing": b"\x80\x02ctorch\ndevice\nX\x04\0\0\0nope\x85R.",
    "persistent id of a number": b"\x80\x02K\x01Q.", "pops nothing": b"\x80\x020.",
}


@pytest.mark.parametrize("name", BROKEN_PICKLES)
def test_broken_pickles(refused, name):
    refused(torch_zip(BROKEN_PICKLES[name]))


BIG = b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"  # 2**63 - 1
STORAGES = {
    "67 declared larger": (tensor_pickle(count=b"K\x08"), "declared as 8 elements, 32 bytes: its record has 16"),
    "67 declared smaller": (tensor_pickle(count=b"K\x02"), "declared as 2 elements"),
    "67 declared negative": (tensor_pickle(count=b"J\xff\xff\xff\xff"), "declared as -1 elements"),
    "67 declared huge": (tensor_pickle(count=BIG), "its record has 16"),
    "67 negative size": (tensor_pickle(size=b"J\xff\xff\xff\xff\x85"), "expected ints from 0"),
    "67 negative stride": (tensor_pickle(stride=b"J\xff\xff\xff\xff\x85"), "expected ints from 0"),
    "67 negative offset": (tensor_pickle(offset=b"J\xff\xff\xff\xff"), "expected ints from 0"),
    "67 size outside": (tensor_pickle(size=b"K\x05\x85"), "reaches element 4 of a storage of 4"),
    "67 offset outside": (tensor_pickle(offset=b"K\x01"), "reaches element 4"),
    "67 offset of an empty tensor": (tensor_pickle(offset=b"K\x05", size=b"K\0\x85"), "reaches element"),
    "67 stride outside": (tensor_pickle(stride=b"K\x02\x85"), "reaches element 6"),
    "67 stride overflow": (tensor_pickle(stride=BIG + b"\x85"), "reaches element"),
    "67 size overflow without stride": (tensor_pickle(size=BIG + b"\x85", stride=b"K\0\x85"), "a tensor of size"),
    "67 sizes and strides differ": (tensor_pickle(size=b"K\x01K\x04\x86"), "2 sizes and 1 strides"),
    "67 a float size": (tensor_pickle(size=b"G@\x10\0\0\0\0\0\0\x85"), "expected ints"),
    "67 size is a list": (tensor_pickle(size=b"]"), "expected two tuples"),
    "67 requires_grad is a number": (tensor_pickle(grad=b"K\x01"), "requires_grad"),
    "67 no record": (tensor_pickle().replace(b"\x000X", b"\x001X"), "has no record"),
}


@pytest.mark.parametrize("name", STORAGES)
def test_67_storages(refused, name):
    data, words = STORAGES[name]
    refused(torch_zip(data, data__0=np.arange(4, dtype="f4")), words=words)


# ---- zip archives: row 68

def python_zip(records, method=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in records:
            archive.writestr(name, data)
    return file.getvalue()


GOOD = [("archive/data.pkl", b"\x80\x02N."), ("archive/version", b"3\n")]


def changed(data, old, new, count=1):
    assert old in data and len(old) == len(new)
    return data.replace(old, new, count)


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_68_archives(refused):
    good = python_zip(GOOD)
    assert load(io.BytesIO(good)) is None
    refused(python_zip([*GOOD, ("archive/data/0", bytes(40 << 20))], zipfile.ZIP_DEFLATED), words="would unpack")
    refused(python_zip([*GOOD, *((f"archive/data/{i}", bytes(1 << 20)) for i in range(80))], zipfile.ZIP_DEFLATED), words="would unpack")
    refused(changed(good, b"\x80\x02N.", b"\x80\x02\x88."), words="checksum")
    refused(python_zip([*GOOD, GOOD[0]]), words="two records named 'archive/data.pkl'")
    for name in ("../up", "/absolute", "a/../../b", "a\\b", "c:/x"):
        refused(python_zip([*GOOD, (name, b"x")]), words="leads outside the archive")
    central = good.index(b"PK\x01\x02")
    encrypted = bytearray(good)
    encrypted[central + 8] |= 1
    refused(bytes(encrypted), words="is encrypted")
    renamed = bytearray(good)
    renamed[central + 46:central + 47] = b"b"
    refused(bytes(renamed), words="different things")
    for at, number in ((20, 3), (24, 5)):  # packed and unpacked size in the directory only
        sized = bytearray(good)
        sized[central + at] = number
        refused(bytes(sized))
    overlapping = bytearray(good)
    second = good.index(b"PK\x01\x02", central + 4)
    overlapping[second + 42:second + 46] = bytes(4)  # both entries point at the first record
    refused(bytes(overlapping), words="overlaps")
    outside = bytearray(good)
    outside[central + 42:central + 46] = b"\xff\xff\xff\x7f"
    refused(bytes(outside))
    refused(good + b"trailing", words="comment")
    refused(b"PK\x03\x04" + bytes(100), words="end record")
    refused(changed(good, b"PK\x05\x06" + bytes(4) + b"\x02\0\x02\0", b"PK\x05\x06" + bytes(4) + b"\xfe\xff\xfe\xff"), words="directory")
    inner = zipfile.ZipFile(io.BytesIO(python_zip(GOOD, zipfile.ZIP_DEFLATED)))
    assert inner.testzip() is None and load(io.BytesIO(python_zip(GOOD, zipfile.ZIP_DEFLATED))) is None


def test_68_a_record_that_unpacks_to_more_than_it_says(refused):
    data = bytearray(python_zip([("archive/data.pkl", b"N" * 5000)], zipfile.ZIP_DEFLATED))
    for signature, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        start = data.index(signature) + at
        data[start:start + 4] = struct.pack("<I", 4000)
    refused(bytes(data), words="unpacks to more bytes, declared as 4000")


def test_68_every_byte_of_an_archive_changed():
    """No change of one byte gives another value, a crash or another kind of error."""
    file = io.BytesIO()
    save({"a": ones(3), "b": [1, "text"]}, file)
    good = file.getvalue()
    expected = load(io.BytesIO(good))
    for at in range(len(good)):
        data = bytearray(good)
        data[at] ^= 0x41
        try:
            value = load(io.BytesIO(bytes(data)))
        except FormatError:
            continue
        assert value["b"] == expected["b"] and (value["a"]._array == expected["a"]._array).all(), at


# ---- other formats: row 69

def test_69_formats_that_are_refused(refused):
    refused(pickle.dumps({"a": 1}, 2), words=("a bare pickle", "torch.save(torch.load(path), new)"))
    refused(pickle.dumps({"a": 1}, 5), words="a bare pickle")
    refused(pickle.dumps({"a": 1}, 0), words="a bare pickle")
    refused(bytes(257) + b"ustar" + bytes(250), words="a tar archive")
    refused(python_zip([*GOOD, ("archive/constants.pkl", b""), ("archive/code/__torch__.py", b"")]), words="TorchScript")
    refused(b"\x89HDF\r\n\x1a\n" + bytes(100), name="model.h5", words=("HDF5", "h5py"))
    refused(python_zip([("metadata.json", b"{}"), ("config.json", b"{}"), ("model.weights.h5", b"")]), name="m.keras", words="Keras")
    refused(python_zip([("a.txt", b"")]), words="torch.save did not write")
    refused(b"\x1f\x8b" + bytes(100), words="compressed")
    refused(b"<!DOCTYPE html><html>", words="HTML")
    refused(b"version https://git-lfs.github.com/spec/v1\n", words="git lfs pull")


# ---- NumPy files: row 70

def npy(header, data=b"", version=1):
    raw = header.encode("latin1")
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(raw)) + raw + data


HEADER = "{{'descr': '{}', 'fortran_order': False, 'shape': {}}}"
NPY = {
    "70 objects": (npy(HEADER.format("|O", (1,)), pickle.dumps([1])), SecurityError, "object dtype"),
    "70 deep header": (npy("(" * 4000 + ")" * 4000), FormatError, "nests too deep"),
    "70 huge header": (npy("{" + " " * 60_000 + "}"), FormatError, "header says 60002 bytes"),
    "70 header longer than the file": (npy("", version=2)[:8] + struct.pack("<I", 1 << 31), FormatError, "header says"),
    "70 shape 2^40": (npy(HEADER.format("<f4", (1 << 40,))), FormatError, "needs 4398046511104 bytes, 0 are there"),
    "70 shape overflow": (npy(HEADER.format("<f4", (1 << 62, 1 << 62))), FormatError, "needs"),
    "70 negative shape": (npy(HEADER.format("<f4", (-1,))), FormatError, "shape (-1,)"),
    "70 shape of text": (npy(HEADER.format("<f4", "'ab'")), FormatError, "shape ab"),
    "70 structured": (npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", bytes(4)), FormatError, "structured"),
    "70 code": (npy("{'descr': __import__('os').system('ls'), 'fortran_order': False, 'shape': ()}"), FormatError, "expected a dict"),
    "70 text": (npy(HEADER.format("<U3", (1,)), bytes(12)), FormatError, "expected plain numbers"),
    "70 keys missing": (npy("{'descr': '<f4'}"), FormatError, "expected descr"),
    "70 version 9": (npy("{}", version=9), FormatError, "version 9"),
    "70 cut off": (npy(HEADER.format("<f4", (3,)), bytes(8)), FormatError, "4 bytes missing"),
    "70 no such dtype": (npy(HEADER.format("<f7", (1,)), bytes(8)), FormatError, "dtype '<f7'"),
}


@pytest.mark.parametrize("name", NPY)
def test_70_npy(refused, name):
    data, kind, words = NPY[name]
    refused(data, kind, name="a.npy", words=words)


def test_70_npz(refused):
    zeros = io.BytesIO()
    np.savez_compressed(zeros, a=np.zeros(50 << 20, np.uint8))
    refused(zeros.getvalue(), name="a.npz", words="would unpack")
    objects = io.BytesIO()
    np.savez(objects, a=np.array([{}, None], dtype=object))
    refused(objects.getvalue(), SecurityError, name="a.npz", words="object dtype")
    refused(python_zip([("a.npy", npy(HEADER.format("<f4", (1 << 40,))))]), name="a.npz", words="needs 4398046511104 bytes")


def test_a_lying_size_allocates_nothing():
    """The largest hostile files above, loaded with the memory they may take measured."""
    for data in (SAFETENSORS["57 length 2^63"][0], torch_zip(tensor_pickle(count=BIG), data__0=bytes(16)),
                 NPY["70 shape 2^40"][0], torch_zip(PICKLES["66 bytearray of a length"]), torch_zip(doubled(200))):
        tracemalloc.start()
        with pytest.raises(FormatError):
            load(io.BytesIO(data))
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
        tracemalloc.stop()


@pytest.mark.parametrize("seed", range(3))
def test_random_changes_give_a_value_or_a_format_error(seed):
    """Thousands of damaged files of each format: no crash, no hang, no other kind of error."""
    random = np.random.default_rng(seed)
    torch_file, tensors, array, archive = io.BytesIO(), io.BytesIO(), io.BytesIO(), io.BytesIO()
    save({"w": ones(4, 3), "n": [1, 2.5, "x", (None, True)], "s": {1, 2}, "d": {"a": b"bytes"}}, torch_file)
    tensors.name = "x.safetensors"
    save({"w": ones(4, 3), "b": ones(2)}, tensors)
    np.save(array, np.ones((3, 4)))
    np.savez_compressed(archive, a=np.arange(50), b=np.ones(3))
    pickled = zipfile.ZipFile(torch_file).read("archive/data.pkl")
    for _ in range(700):
        for whole in (torch_file, tensors, array, archive, None):
            data = bytearray(pickled if whole is None else whole.getvalue())
            for _ in range(random.integers(1, 6)):
                at = random.integers(0, len(data))
                change = random.integers(0, 3)
                if change == 0:
                    data[at] = random.integers(0, 256)
                elif change == 1:
                    del data[at:at + random.integers(1, 20)]
                else:
                    data[at:at] = data[max(0, at - 8):at]
                if not data:
                    data = bytearray(b"x")
            try:
                load(io.BytesIO(torch_zip(bytes(data), data__0=np.ones(12, "f4")) if whole is None else bytes(data)))
            except (FormatError, RuntimeError) as error:
                assert isinstance(error, FormatError) or "CUDA" in str(error), error


def test_tensors_come_back_as_tensors():
    file = io.BytesIO(python_zip(GOOD))
    assert load(file) is None
    assert type(load(io.BytesIO(safetensors({"a": entry(0, 4)}, bytes(4))))["a"]) is Tensor
