"""Every public nn module: exported, saved and loaded in a process that has none of its source, it computes what the module computes.

In training and evaluation mode, with other batch sizes than it was exported with, and as the archive's native code.
"""
import subprocess
import sys
import warnings

import pytest

import rushlight as torch
from tests.export import modules

PARTS = 8
CASES = list(modules.cases())

CHILD = """
import sys, warnings
import rushlight as torch

warnings.simplefilter("ignore")

def numbers(value):
    if isinstance(value, torch.Tensor):
        return [value.detach()]
    return [x for part in value for x in numbers(part)] if isinstance(value, (tuple, list)) else []

def agree(mine, theirs):
    return mine.shape == theirs.shape and mine.dtype == theirs.dtype and torch.allclose(mine, theirs, rtol=1e-4, atol=1e-5, equal_nan=True)

for name, path, native, runs in torch.load(sys.argv[1], weights_only=False):
    for inputs, output, state in runs:
        try:
            program = torch.export.load(path, native=native)
            torch.manual_seed(1)
            with torch.no_grad():
                got = numbers(program(*inputs))
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:200]}")
            continue
        if len(got) != len(output) or not all(map(agree, got, output)):
            print(f"{name}: {got} is not {output}")
        wrong = [key for key, value in state.items() if not agree(program.state_dict[key], value)]
        if wrong:
            print(f"{name}: other values of {', '.join(wrong)} after the call")
assert not any(name == "tests" or name.startswith("tests.") for name in sys.modules)
"""


def numbers(value):
    if isinstance(value, torch.Tensor):
        return [value.detach()]
    return [x for part in value for x in numbers(part)] if isinstance(value, (tuple, list)) else []


def repeated(inputs, times):
    return tuple(torch.cat([x] * times) if x.dim() else x for x in inputs)


def run(module, inputs):
    """Inputs, what the module gives, and its state afterwards; its state of before is put back."""
    before = {name: value.detach().clone() for name, value in module.state_dict().items()}
    torch.manual_seed(1)
    with torch.no_grad():
        output = [value.clone() for value in numbers(module(*(x.clone() for x in inputs)))]
    after = {name: value.detach().clone() for name, value in module.state_dict().items()}
    module.load_state_dict(before)
    return inputs, output, after


def runs_of(module, inputs):
    """`run` with these inputs, or None where the module refuses them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return run(module, inputs)
        except (RuntimeError, ValueError, IndexError):
            return None


def archives(text, inputs, folder):
    """Export one module in each way: (name, path, whether its native code is used, runs) of each archive."""
    torch.manual_seed(0)
    module = modules.made(text)
    if "Lazy" in text:
        module(*inputs)
    state = {name: value.detach().clone() for name, value in module.state_dict().items()}
    ways = []
    for training in (False, True):
        module.train(training)
        plain = run(module, inputs)
        program = torch.export.export(module, inputs)
        program.validate()
        torch.manual_seed(1)
        with torch.no_grad():
            assert all(torch.allclose(mine, theirs, equal_nan=True) for mine, theirs in zip(numbers(program.module()(*inputs)), plain[1], strict=True)), text
        module.load_state_dict(state)
        ways.append((f"{text}, {'training' if training else 'evaluation'}", program, False, [plain]))
        if not training:
            ways.append((f"{text}, native", program, True, [plain]))
    module.eval()
    twice, thrice = (runs_of(module, repeated(inputs, times)) for times in (2, 3))
    if twice and thrice:
        free = tuple({0: torch.export.Dim.AUTO} if x.dim() else None for x in inputs)
        program = torch.export.export(module, repeated(inputs, 2), dynamic_shapes=free if not isinstance(module, torch.nn.DataParallel) else (free,))
        ways.append((f"{text}, other sizes", program, False, [twice, thrice]))
    made = []
    for name, program, native, runs in ways:
        path = folder / f"{len(list(folder.iterdir()))}.pt2"
        torch.export.save(program, path, aot=native)
        made.append((name, str(path), native, runs))
    return made


@pytest.mark.parametrize("part", range(PARTS))
def test_modules(part, tmp_path):
    made = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for text, inputs in CASES[part::PARTS]:
            made += archives(text, inputs, tmp_path)
    torch.save(made, tmp_path / "runs")
    done = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path / "runs")], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    assert not done.stdout, done.stdout


def test_no_module_is_forgotten():
    public = {name for name in dir(torch.nn) if isinstance(getattr(torch.nn, name), type) and issubclass(getattr(torch.nn, name), torch.nn.Module)}
    assert public - modules.ABSTRACT == modules.named() - {"Parameter"}
