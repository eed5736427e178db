"""save and load: what goes in comes out, here and in PyTorch, safetensors and NumPy where they are installed."""
import io
import os
import pickle
import warnings
import zipfile
from collections import Counter, OrderedDict

import ml_dtypes
import numpy as np
import pytest

from rushlight.core import devices, dtypes
from rushlight.core.size import Size
from rushlight.serialize import load, save
from rushlight.serialize.source import Source
from rushlight.serialize.zip_read import Archive
from rushlight.serialize.zip_write import FULL, write_archive
from rushlight.tensor import Parameter, Tensor, storage_array, wrap

KINDS = ["?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16", "u2", "u4", "u8", ml_dtypes.bfloat16]


def tensor(values, kind="f4"):
    return wrap(np.array(values).astype(kind))


def through(value, **arguments):
    file = io.BytesIO()
    save(value, file)
    file.seek(0)
    return load(file, **arguments)


def same(a, b):
    """Whether two saved values are equal, tensors by dtype, shape and content."""
    if isinstance(a, Tensor):
        return (isinstance(b, Tensor) and a._dtype is b._dtype and a._array.shape == b._array.shape
                and a._array.tobytes() == b._array.tobytes() and a._requires_grad == b._requires_grad)
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return a == b


VALUES = {
    "none": None, "bools": [True, False], "ints": [0, 1, 255, 256, 65535, 65536, -1, 2**31 - 1, 2**31, -2**31 - 1, 2**63, -2**200, 2**3000],
    "floats": [0.0, -0.0, 1.5, 1e300, float("inf")], "complex": 1 - 2j, "text": ["", "a", "h\u00e9llo \U0001f600", "a" * 1000],
    "bytes": [b"", b"a\xff\0", bytearray(b"xyz")], "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), ((1,), [2])],
    "dicts": {"a": {1: 2, (1, 2): 3, None: 4, 1.5: 5, False: 6}}, "ordered": OrderedDict(b=1, a=2), "counter": Counter("aab"),
    "sets": [set(), {1, 2, "x"}, frozenset([3])], "size": Size([2, 3]), "dtype": dtypes.bfloat16, "device": devices.CPU,
    "slices": [slice(1, None, 2), range(3, 10, 2)], "deep": [[[[[[[[1]]]]]]]], "wide": list(range(3000)),
    "numpy": [np.arange(6.0).reshape(2, 3), np.array(["a", "bc"]), np.float32(2), np.array(5), np.ones(3, "?"), np.asfortranarray(np.ones((2, 3)))],
    "empty": [[], {}, ()], "tensors": [tensor(3.0), tensor(np.ones((0, 3))), tensor(np.ones((2, 3, 4)))],
}


@pytest.mark.parametrize("name", VALUES)
def test_round_trip(name):
    value = VALUES[name]
    assert same(value, through(value))
    assert same(value, through(value, weights_only=False))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_dtype(kind, tmp_path):
    value = tensor([[0, 1, 2], [3, 4, 5]], kind)
    assert same(value, through(value))
    if kind != "c16":
        save({"x": value}, tmp_path / "a.safetensors")
        assert same(value, load(tmp_path / "a.safetensors")["x"])


def test_identity_and_sharing():
    base = np.arange(12, dtype="f4")
    whole, rows, turned, part = wrap(base), wrap(base.reshape(3, 4)), wrap(base.reshape(3, 4).T), wrap(base[4:8])
    shared = [1, 2]
    loaded = through({"whole": whole, "again": whole, "rows": rows, "turned": turned, "part": part, "a": shared, "b": shared})
    assert loaded["whole"] is loaded["again"] and loaded["a"] is loaded["b"]
    owners = {id(storage_array(loaded[name])) for name in ("whole", "rows", "turned", "part")}
    assert len(owners) == 1
    loaded["part"]._array[0] = 99
    assert loaded["whole"]._array[4] == 99 and loaded["turned"]._array[0, 1] == 99
    file = io.BytesIO()
    save([whole, rows, turned, part], file)
    assert sum("/data/" in name for name in zipfile.ZipFile(file).namelist()) == 1


def test_strange_strides():
    base = np.arange(24, dtype="f4").reshape(4, 6)
    values = [wrap(base[::-1]), wrap(base[::2, 1::2]), wrap(np.broadcast_to(np.float32(3), (2, 5))), wrap(np.asfortranarray(base)),
              wrap(base.view("c8").real), wrap(base[2:2]), wrap(np.zeros((3, 0, 2), "f4"))]
    for value in values:
        assert same(value, through(value))
    with pytest.raises(RuntimeError, match="Cannot save multiple tensors or storages that view the same data as different types"):
        through([wrap(base), wrap(base.view("i4"))])


def test_parameters_gradients_and_attributes():
    parameter, needing, noted = Parameter(tensor([1.0])), tensor([2.0]), tensor([3.0])
    needing._requires_grad = True
    noted.label = "a note"
    loaded = through([parameter, needing, noted])
    assert type(loaded[0]) is Parameter and loaded[0]._requires_grad
    assert type(loaded[1]) is Tensor and loaded[1]._requires_grad
    assert loaded[2].label == "a note" and not loaded[2]._requires_grad


def test_metadata_of_a_state_dict():
    state = OrderedDict(weight=tensor([1.0]))
    state._metadata = OrderedDict({"": {"version": 1}})
    assert through(state)._metadata == state._metadata


def test_equal_data_gives_equal_bytes(tmp_path):
    def build():
        base = np.arange(6, dtype="f4")
        return {"a": wrap(base), "b": wrap(base[2:]), "s": {3, 1, 2, "x"}, "text": "ab" + "c", "l": [1.5, None]}
    for name in ("a.pt", "other name.bin"):
        save(build(), tmp_path / name)
    file = io.BytesIO()
    save(build(), file)
    assert (tmp_path / "a.pt").read_bytes() == (tmp_path / "other name.bin").read_bytes() == file.getvalue()
    save({"b": tensor([1]), "a": tensor([2])}, tmp_path / "a.safetensors")
    save({"b": tensor([1]), "a": tensor([2])}, tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    assert list(load(tmp_path / "a.safetensors")) == ["b", "a"]


class Net:
    def state_dict(self):
        return {}


class Plain:
    pass


class Named(tuple):
    pass


@pytest.mark.parametrize("value, words", [
    ({"f": lambda: 1}, r"cannot save object\['f'\], the .*<lambda>.* is code"),
    ({"x": np.array([None])}, "a NumPy array of object"),
])
def test_what_cannot_be_saved(value, words, tmp_path):
    for target in (io.BytesIO(), tmp_path / "a.pt"):
        with pytest.raises(TypeError, match=words) as caught:
            save(value, target)
        assert str(caught.value).startswith("<BytesIO>" if isinstance(target, io.BytesIO) else str(target))


@pytest.mark.parametrize("value", [Net(), {"a": [1, Plain()]}, {"f": test_round_trip}, Named((1, 2))])
def test_objects_of_classes_are_written_with_a_warning_and_refused_by_load(value, tmp_path):
    path = tmp_path / "a.pt"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        save(value, path)
    assert callable(value.get("f") if isinstance(value, dict) else None) or "will refuse this file" in str(caught[0].message)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed") as error:
        load(path)
    assert type(error.value).__name__ == "UnpicklingError" and str(error.value).startswith(str(path))


def test_cycles_and_depth():
    ring, deep = [], []
    ring.append(ring)
    with pytest.raises(ValueError, match=r"cannot save object\[0\]: it contains itself"):
        through(ring)
    for _ in range(1000):
        deep = [deep]
    with pytest.raises(ValueError, match="containers nested deeper than 256"):
        through(deep)


def test_safetensors_takes_tensors_only(tmp_path):
    path = tmp_path / "a.safetensors"
    for value, words in (([1], "holds a dict of tensors by name, got list"), ({"a": 1}, "holds only tensors, got int for 'a'"),
                         ({1: tensor([1])}, "names are text"), ({"a": tensor([1], "c16")}, "safetensors has no torch.complex128")):
        with pytest.raises(TypeError, match=words):
            save(value, path)
    assert not path.exists()


def test_file_objects_both_ways(tmp_path):
    value = {"x": tensor([1.0, 2.0])}
    with open(tmp_path / "a.pt", "wb") as file:
        save(value, file)
    with open(tmp_path / "a.pt", "rb") as file:
        assert same(value, load(file))
        file.seek(0)
        assert same(value, load(file, mmap=True))

    class Stream:  # a pipe or socket: no seek
        def __init__(self, data):
            self.inner = io.BytesIO(data)
            self.read = self.inner.read
    assert same(value, load(Stream((tmp_path / "a.pt").read_bytes())))
    joined = io.BytesIO()
    save(value, joined)
    first = joined.tell()
    joined.seek(0, os.SEEK_END)
    save([1], joined)
    joined.seek(first)
    assert load(joined) == [1]
    with pytest.raises(AttributeError, match="expected 'f' to be string, path, or a file-like object with a 'write' attribute"):
        save(value, 3)


def test_map_location():
    file = io.BytesIO()
    save(tensor([1.0]), file)
    for where in (None, "cpu", devices.CPU, {"cpu": "cpu"}, lambda storage, location: storage):
        file.seek(0)
        assert load(file, map_location=where)._array[0] == 1
    file.seek(0)
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        load(file, map_location="cuda")
    data = file.getvalue()
    moved = rewritten(data, lambda pickled: pickled.replace(b"X\x03\0\0\0cpu", b"X\x06\0\0\0cuda:0"))
    with pytest.raises(RuntimeError, match="please use torch.load with map_location=torch.device\\('cpu'\\)"):
        load(io.BytesIO(moved))
    assert load(io.BytesIO(moved), map_location="cpu")._array[0] == 1


def rewritten(data, change):
    """An archive with its pickle changed."""
    records = [(info.filename, zipfile.ZipFile(io.BytesIO(data)).read(info)) for info in zipfile.ZipFile(io.BytesIO(data)).infolist()]
    file = io.BytesIO()
    write_archive(file, [(name, change(value) if name.endswith("data.pkl") else value) for name, value in records])
    return file.getvalue()


def test_zip64_records_are_read_back():
    file = io.BytesIO()
    write_archive(file, [("a/x", b"hello"), ("a/y", np.arange(100.0)), ("a/z", b"")], full=10)  # as if 10 bytes were 4 GB
    assert zipfile.ZipFile(file).testzip() is None
    file.seek(0)
    with Source(file) as source:
        archive = Archive(source)
        assert archive.read("a/x") == b"hello" and archive.records["a/y"].data % 64 == 0
        assert np.frombuffer(archive.read("a/y")).tolist() == list(range(100)) and FULL == 0xFFFFFFFF


def test_big_endian_files(tmp_path):
    value = {"a": tensor([1.0, 2.0]), "b": tensor([3], "i8")}
    file = io.BytesIO()
    save(value, file)
    records = [(info.filename, zipfile.ZipFile(file).read(info)) for info in zipfile.ZipFile(file).infolist()]
    turned = []
    for name, data in records:
        if name.endswith("data/0"):
            data = np.frombuffer(data, "f4").byteswap().tobytes()
        elif name.endswith("data/1"):
            data = np.frombuffer(data, "i8").byteswap().tobytes()
        elif name.endswith("byteorder"):
            data = b"big"
        turned.append((name, data))
    file = io.BytesIO()
    write_archive(file, turned)
    file.seek(0)
    assert same(value, load(file))


def test_numpy_files(tmp_path):
    for kind in ("f4", ">f4", "?", "i8", ">i2", "c8", "f2"):
        for order in "CF":
            array = np.array(np.arange(6).reshape(2, 3), dtype=kind, order=order)
            np.save(tmp_path / "a.npy", array)
            assert (load(tmp_path / "a.npy")._array == array).all()
    np.savez(tmp_path / "a.npz", a=np.arange(3), b=np.ones((2, 2)))
    loaded = load(tmp_path / "a.npz")
    assert loaded["a"]._array.tolist() == [0, 1, 2] and loaded["b"]._array.shape == (2, 2)
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(1000))
    assert load(tmp_path / "a.npz")["a"]._array.sum() == 0


def test_tensors_pickle_through_pickle_too():
    value = {"a": tensor([1.0]), "b": tensor([2], ml_dtypes.bfloat16)}
    assert same(value, pickle.loads(pickle.dumps(value)))


def test_pytorch_reads_what_we_write(tmp_path):
    torch = pytest.importorskip("torch")
    base = np.arange(6, dtype="f4")
    parameter = Parameter(tensor([1.0]))
    state = OrderedDict(weight=wrap(base), part=wrap(base[2:]))
    state._metadata = OrderedDict({"": {"version": 1}})
    value = {"state": state, "p": parameter, "n": [1, 2.5, None, "x", (1, (2,))], "b": b"\xff", "size": Size([1]), "dtype": dtypes.int8,
             "device": devices.CPU, "set": {1, 2}, "counter": Counter("ab"), "array": bytearray(b"x"), "empty": tensor(np.ones((0, 2)))}
    value.update({f"kind{i}": tensor([[0, 1], [2, 3]], kind) for i, kind in enumerate(KINDS)})
    file = io.BytesIO()
    save(value, file)
    (tmp_path / "a.pt").write_bytes(file.getvalue())
    for mapped in (False, True):
        loaded = torch.load(tmp_path / "a.pt", weights_only=True, mmap=mapped)
        assert loaded["state"]["weight"].tolist() == base.tolist() and loaded["state"]._metadata == state._metadata
        assert loaded["state"]["weight"].untyped_storage().data_ptr() == loaded["state"]["part"].untyped_storage().data_ptr()
        assert isinstance(loaded["p"], torch.nn.Parameter) and loaded["n"] == value["n"] and loaded["b"] == b"\xff"
        assert loaded["dtype"] is torch.int8 and loaded["counter"] == value["counter"] and loaded["empty"].shape == (0, 2)
        for i, kind in enumerate(KINDS):
            assert loaded[f"kind{i}"].to(torch.complex128).tolist() == np.array([[0, 1], [2, 3]]).astype(kind).astype("c16").tolist()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_we_read_what_pytorch_writes(protocol, tmp_path):
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(5, 3)).sum().backward()
    optimizer.step()
    noted = torch.ones(2)
    noted.label = "x"
    value = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "history": [0.5, float("nan")], "noted": noted,
             "numpy": np.arange(4.0), "scalar": np.float64(2), "set": {1}, "size": torch.Size([2]), "rng": torch.get_rng_state(),
             "view": torch.arange(6).reshape(2, 3).t(), "parameter": torch.nn.Parameter(torch.ones(2)), "u2": torch.ones(2, dtype=torch.uint16)}
    torch.save(value, tmp_path / "a.pt", pickle_protocol=protocol)
    for mapped in (False, True):
        loaded = load(tmp_path / "a.pt", mmap=mapped)
        for name, expected in value["model"].items():
            assert loaded["model"][name]._array.tolist() == expected.tolist()
        assert loaded["model"]._metadata == value["model"]._metadata and loaded["noted"].label == "x"
        assert loaded["optimizer"]["param_groups"] == value["optimizer"]["param_groups"]
        assert loaded["optimizer"]["state"][0]["exp_avg"]._array.tolist() == value["optimizer"]["state"][0]["exp_avg"].tolist()
        assert loaded["view"]._array.tolist() == value["view"].tolist() and loaded["numpy"].tolist() == [0, 1, 2, 3]
        assert loaded["parameter"]._requires_grad and loaded["u2"]._array.tolist() == [1, 1]


def test_safetensors_library_both_ways(tmp_path):
    library = pytest.importorskip("safetensors.numpy")
    value = {"b": np.arange(3, dtype="f4"), "a": np.ones((2, 2), "i8"), "c": np.array(True), "é": np.zeros((0, 2), "f2")}
    library.save_file(value, tmp_path / "theirs.safetensors", metadata={"note": "x"})
    save({name: wrap(array) for name, array in value.items()}, tmp_path / "ours.safetensors")
    for path in ("theirs", "ours"):
        ours, theirs = load(tmp_path / f"{path}.safetensors"), library.load_file(tmp_path / f"{path}.safetensors")
        assert set(ours) == set(theirs) == set(value)
        for name, array in value.items():
            assert (ours[name]._array == array).all() and (theirs[name] == array).all() and theirs[name].dtype == array.dtype


def test_content_tells_the_format_not_the_name(tmp_path):
    save({"a": tensor([1.0])}, tmp_path / "a.safetensors")
    os.rename(tmp_path / "a.safetensors", tmp_path / "a.pt")
    assert load(tmp_path / "a.pt")["a"]._array[0] == 1
