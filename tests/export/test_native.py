"""Native code in an archive: the first call of a trusted file compiles nothing, and of any other file none of it is looked at."""
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.export import FormatError
from rushlight.kernels import llvm, objects
from tests.export.test_archive import fuzz

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no machine code here")
ROOT = Path(__file__).resolve().parent.parent.parent


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(64, 32)
        self.head = torch.nn.Linear(32, 10)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return torch.softmax(self.head(torch.relu(self.body(x))), -1), self.calls + 0


def saved(aot=True):
    torch.manual_seed(0)
    program = torch.export.export(Net(), (torch.ones(4, 64),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    file = io.BytesIO()
    torch.export.save(program, file, aot=aot)
    return program, file.getvalue()


COUNTED = """
import sys, rushlight as torch
program = torch.export.load(sys.argv[1], native=sys.argv[2] == "native")
from rushlight.kernels import llvm, objects
optimise, texts = llvm.optimise, []
llvm.optimise = lambda text: texts.append(text) or optimise(text)
for rows in map(int, sys.argv[3:]):
    out, calls = program(torch.ones(rows, 64))
    print(len(texts), [round(value, 5) for value in out[0, :3].tolist()], int(calls), out.requires_grad)
"""


def run(path, *arguments):
    environment = {**os.environ, "RUSHLIGHT_CACHE": "0"}
    done = subprocess.run([sys.executable, "-c", COUNTED, str(path), *map(str, arguments)], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    return [line.split(" ", 1) for line in done.stdout.splitlines()]


def test_the_first_call_compiles_nothing(tmp_path):
    program, data = saved(aot=[(torch.ones(1, 64),)])
    path = tmp_path / "net.pt2"
    path.write_bytes(data)
    want = [round(value, 5) for value in program(torch.ones(4, 64))[0][0, :3].tolist()]
    assert int(program.state["calls"]) == 1  # saving ran it on copies
    assert run(path, "native", 4, 1, 4) == [["0", f"{want} {calls} False"] for calls in (1, 2, 3)]
    assert run(path, "plain", 4) == [["0", f"{want} 1 True"]]


@pytest.mark.skipif(not objects.supported(), reason="LLVM links here")
def test_a_process_that_knows_its_host_needs_no_llvm_no_capture_and_no_layers(tmp_path):
    """The record of the host is in the cache, the code in the file."""
    program, data = saved()
    path = tmp_path / "net.pt2"
    path.write_bytes(data)
    code = ("import sys, rushlight as torch; program = torch.export.load(sys.argv[1], native=True); program(torch.ones(4, 64))\n"
            "assert program.native.lowered is not None\n"
            "print([name for name in sys.modules if name in ('llvmlite', 'rushlight.nn', 'rushlight.capture.tensors', 'rushlight.compile.api')])")
    environment = {name: value for name, value in os.environ.items() if name != "RUSHLIGHT_CACHE"} | {"RUSHLIGHT_CACHE_DIR": str(tmp_path / "kept")}
    lines = [subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, cwd=ROOT, env=environment, check=True).stdout for _ in range(2)]
    assert lines == ["['llvmlite']\n", "[]\n"]


def test_code_for_another_machine_is_compiled_here(tmp_path):
    _, data = saved()
    records = dict(fuzz.records_of(data))
    described = json.loads(records["native/machine.json"])
    described["cpu"] = "another"
    records["native/machine.json"] = json.dumps(described).encode()
    path = tmp_path / "net.pt2"
    path.write_bytes(fuzz.packed(list(records.items())))
    (count, _), = run(path, "native", 4)
    assert int(count) > 0


def test_same_program_same_bytes():
    assert saved()[1] == saved()[1]


def test_native_code_is_not_read_unless_asked(monkeypatch):
    from rushlight.export import native
    _, data = saved()
    records = [(name, b"no code at all" if name.endswith(".o") else content) for name, content in fuzz.records_of(data)]
    monkeypatch.setattr(native, "adopt", None)
    assert torch.export.load(io.BytesIO(fuzz.packed(records)))(torch.ones(2, 64))[0].shape == (2, 10)


@pytest.mark.parametrize("change", [lambda name, content: content[:-1] + b"\0\1" if name.endswith(".o") else content,
                                    lambda name, content: b"[]" if name == "native/machine.json" else content,
                                    lambda name, content: None if name.endswith(".o") else content])
def test_damaged_code_is_refused(change):
    _, data = saved()
    records = [(name, change(name, content)) for name, content in fuzz.records_of(data)]
    with pytest.raises(FormatError):
        torch.export.load(io.BytesIO(fuzz.packed([record for record in records if record[1] is not None])), native=True)


def test_a_changed_program_finds_no_code_of_the_file():
    """Objects are found by the text that this process generates: another program has another text."""
    _, data = saved()
    records = dict(fuzz.records_of(data))
    records["program.json"] = records["program.json"].replace(b"relu", b"tanh")
    program = torch.export.load(io.BytesIO(fuzz.packed(list(records.items()))), native=True)
    plain = torch.export.load(io.BytesIO(fuzz.packed(list(records.items()))))
    x = torch.randn(4, 64)
    assert torch.allclose(program(x)[0], plain(x)[0], atol=1e-6)


def test_without_code_in_the_file_it_is_compiled_here():
    program, _ = saved()
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file, native=True)
    x = torch.randn(3, 64)
    assert torch.allclose(loaded(x)[0], program(x)[0], atol=1e-6) and not loaded(x)[0].requires_grad


def test_entry_points():
    net = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def train_step(x, y):
        optimizer.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    x, y = torch.randn(4, 3), torch.ones(4, 1)
    package = torch.export.export({"forward": net, "train_step": train_step}, {"forward": (x,), "train_step": (x, y)})
    before = package.forward(x).detach()
    file = io.BytesIO()
    torch.export.save(package, file, aot=True)
    assert torch.equal(package.forward(x), before)  # saving trained nothing
    file.seek(0)
    loaded = torch.export.load(file, native=True)
    first = loaded.train_step(x, y)
    assert torch.allclose(first, package.train_step(x, y)) and loaded.train_step(x, y) < first
    assert torch.allclose(((loaded.forward(x) - y) ** 2).mean(), loaded.train_step(x, y))


def test_a_program_without_inputs_needs_them():
    _, data = saved(False)
    loaded = torch.export.load(io.BytesIO(data))
    torch.export.save(loaded, io.BytesIO(), aot=True)  # the example inputs are in the file
    loaded._example_inputs = None
    with pytest.raises(ValueError, match="no example inputs"):
        torch.export.save(loaded, io.BytesIO(), aot=True)
    torch.export.save(loaded, io.BytesIO(), aot=[(torch.ones(1, 64),)])


def test_mutated_archives():
    found = fuzz.main(200, 5, "native")
    assert sum(number for key, number in found.items() if key[-1] == "refused") > 100


MANY = """
import sys, rushlight as torch
program = torch.export.load(sys.argv[1], native=True)
from rushlight.kernels import llvm, objects
optimise, texts = llvm.optimise, []
llvm.optimise = lambda text: texts.append(text) or optimise(text)
out = program(torch.ones(2, 4))
print(len(texts), out.requires_grad, [round(value, 4) for value in out[0].tolist()])
"""


def test_a_program_of_many_arrays(tmp_path):
    """Its entry takes a table; the code in the archive fits, and is what runs: it gives no history."""
    torch.manual_seed(0)
    layers = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(140)])
    path = tmp_path / "many.pt2"
    torch.export.save(torch.export.export(layers, (torch.ones(2, 4),)), path, aot=True)
    done = subprocess.run([sys.executable, "-c", MANY, str(path)], capture_output=True, text=True, cwd=ROOT, env={**os.environ, "RUSHLIGHT_CACHE": "0"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"0 False {[round(value, 4) for value in layers(torch.ones(2, 4))[0].tolist()]}"


def test_a_training_step_is_native():
    """Forward, backward and update in one program; the first call of a loaded one compiles nothing."""
    from tests.export.test_examples import example
    nn = torch.nn
    torch.manual_seed(0)
    gpt = example("char_gpt").CharGPT(30, 16, 16)
    text, following = torch.randint(0, 30, (2, 8)), torch.randint(0, 30, (2, 8))
    small = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    x, y = torch.randn(6, 8), torch.randint(0, 4, (6,))
    cases = [(gpt, torch.optim.AdamW(gpt.parameters(), lr=1e-3), (text, following), lambda out, wanted: nn.functional.cross_entropy(out.flatten(0, 1), wanted.flatten())),
             (small, torch.optim.SGD(small.parameters(), lr=0.1, momentum=0.9), (x, y), nn.functional.cross_entropy)]
    for net, optimizer, given, loss_of in cases:
        def train_step(given, wanted, net=net, optimizer=optimizer, loss_of=loss_of):
            optimizer.zero_grad()
            loss = loss_of(net(given), wanted)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            return loss.detach()

        package = torch.export.export({"forward": net, "train_step": train_step}, {"forward": given[:1], "train_step": given})
        file = io.BytesIO()
        torch.export.save(package, file, aot=True)
        loaded = torch.export.load(io.BytesIO(file.getvalue()), native=True)
        texts, optimise = [], llvm.optimise
        llvm.optimise = lambda text, texts=texts, optimise=optimise: texts.append(text) or optimise(text)
        try:
            for _ in range(4):
                assert torch.allclose(loaded.train_step(*given), package.train_step(*given), rtol=1e-4)
        finally:
            llvm.optimise = optimise
        assert not texts
        run = loaded.train_step.native.lowered
        assert run != loaded.train_step.graph_module.forward and hasattr(run, "lowered")
        assert torch.allclose(loaded.forward(*given[:1]), package.forward(*given[:1]), rtol=1e-3, atol=1e-4)
