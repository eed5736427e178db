"""Saved programs: the same bytes each time, a fresh process without source, and files that were damaged or made to harm."""
import importlib.util
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.export import FormatError

ROOT = Path(__file__).resolve().parent.parent.parent
_spec = importlib.util.spec_from_file_location("fuzz_archives", ROOT / "tools" / "fuzz_archives.py")
fuzz = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fuzz)


def test_same_program_same_bytes():
    assert fuzz.archive() == fuzz.archive()


def test_extra_files():
    wanted = {"note.txt": ""}
    torch.export.load(io.BytesIO(fuzz.archive()), extra_files=wanted)
    assert wanted == {"note.txt": "hello"}


def test_fresh_process_needs_neither_source_nor_nn(tmp_path):
    path = tmp_path / "net.pt2"
    path.write_bytes(fuzz.archive())
    code = ("import sys, rushlight as torch\n"
            f"program = torch.export.load({str(path)!r})\n"
            "out = program(torch.ones(4, 3), {'k': torch.tensor(2)})\n"
            "print(out['n'], int(out['k']), [m for m in sys.modules if m.startswith(('rushlight.nn', 'rushlight.capture', 'rushlight.compile', 'llvmlite'))])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "4 3 []", done.stderr


def test_mutated_archives():
    """The whole ten thousand: tools/fuzz_archives.py."""
    found = fuzz.main(300, 11)
    assert found["slowest, s"] < 5
    assert sum(number for key, number in found.items() if key[-1] == "refused") > 200


def test_every_prefix_is_refused():
    data = fuzz.archive()
    for size in range(0, len(data), 97):
        with pytest.raises(FormatError):
            torch.export.load(io.BytesIO(data[:size]))


def changed(change):
    records = fuzz.records_of(fuzz.archive())
    value = json.loads(dict(records)[fuzz.PROGRAM])
    change(value)
    return io.BytesIO(fuzz.packed([(name, json.dumps(value).encode() if name == fuzz.PROGRAM else content) for name, content in records]))


@pytest.mark.parametrize("target", ["os.system", "torch.load", "op.exec", "python.eval", "Tensor.__reduce__", "Tensor.register_hook", "nn.publish",
                                    "operator.attrgetter", "control.entry", "torch.from_numpy", "Tensor.numpy", "linalg.__dict__"])
def test_a_graph_calls_ops_only(target):
    def change(value):
        next(node for node in value["entries"]["forward"]["graph"]["nodes"] if node["op"] == "call_function")["target"] = target
    with pytest.raises(FormatError, match="a known op"):
        torch.export.load(changed(change))


@pytest.mark.parametrize("name", ["__class__", "a b", "x\n", "import", "f(", "é" * 300])
def test_names_are_names(name):
    def change(value):
        value["entries"]["forward"]["graph"]["nodes"][-2]["name"] = name
    with pytest.raises(FormatError):
        torch.export.load(changed(change))


def test_attributes_of_tensors_only():
    def forward(self, x):
        return x.T + 1

    file = io.BytesIO()
    torch.export.save(torch.export.export(type("M", (torch.nn.Module,), {"forward": forward})(), (torch.ones(2, 3),)), file)
    records = fuzz.records_of(file.getvalue())
    raw = dict(records)[fuzz.PROGRAM].replace(b'"T"', b'"__class__"')
    assert raw != dict(records)[fuzz.PROGRAM]
    program = torch.export.load(io.BytesIO(fuzz.packed([(name, raw if name == fuzz.PROGRAM else content) for name, content in records])))
    with pytest.raises(AttributeError, match="may not read the attribute"):
        program(torch.ones(2, 3))


def test_newer_format_and_other_files(tmp_path):
    with pytest.raises(FormatError, match="made with format 2.0, this release reads 1.x"):
        torch.export.load(changed(lambda value: value.update(version=[2, 0])))
    path = tmp_path / "weights.pt"
    torch.save({"a": torch.ones(2)}, path)
    with pytest.raises(FormatError, match="weights.pt"):
        torch.export.load(path)
    with pytest.raises(FormatError, match="not a regular file"):
        torch.export.load(tmp_path)
    with pytest.raises(TypeError, match="must be an instance of 'ExportedProgram'"):
        torch.export.save(torch.nn.ReLU(), io.BytesIO())


def test_example_inputs_and_modules_are_in_the_file():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())

        def forward(self, x, options, scale=1.0, *, flag=None):
            return self.body(x) * options["by"][0] * scale

    given = (torch.ones(1, 2), {"by": [torch.tensor(2.0), 3]}), {"scale": 2.5, "flag": None}
    program = torch.export.export(Net(), *given)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file)
    args, kwargs = loaded.example_inputs
    assert torch.equal(args[0], given[0][0]) and args[1]["by"][0] == 2 and args[1]["by"][1] == 3 and kwargs == {"scale": 2.5, "flag": None}
    assert torch.equal(loaded(*args, **kwargs), program(*given[0], **given[1]))
    for one in (program, loaded):
        assert [name for name, _ in torch.export.unflatten(one).named_modules()] == ["", "body", "body.0", "body.1"]
        assert [entry.fqn for entry in one.module_call_graph] == ["", "body", "body.0", "body.1"]
