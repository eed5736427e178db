"""Families of ops that load on first use: every way to a name finds it, and finds the same function. Each in a fresh process."""
import subprocess
import sys

import pytest

from rushlight.ops.index import NAMES

START = "import sys, rushlight as torch; loaded = lambda name: 'rushlight.ops.' + name in sys.modules; assert not loaded('fourier'); "
WAYS = {
    "an attribute of torch": "assert torch.stft and loaded('stft')",
    "a namespace": "assert torch.fft.fft is torch.fft.fft and loaded('fourier')",
    "a method": "assert torch.ones(2, 2).logdet and loaded('determinants') and type(torch.Tensor.logdet).__name__ == 'function'",
    "a method of the class": "assert torch.Tensor.logdet is torch.logdet",
    "a method of a subclass": "assert torch.nn.Parameter(torch.ones(2, 2)).det().item() == 0",
    "an in-place method": "assert torch.ones(2).erfinv_().isinf().all()",
    "hasattr": "assert hasattr(torch.Tensor, 'svd') and not hasattr(torch.Tensor, 'svdd')",
    "an import": "from rushlight import stft, kaiser_window; from rushlight.nn.functional import grid_sample; assert stft is torch.stft",
    "import *": "from rushlight import *; assert stft is torch.stft and loaded('fourier')",
    "import * of nn.functional": "from rushlight.nn.functional import *; assert grid_sample is torch.nn.functional.grid_sample",
    "dir": "assert {'stft', 'svd'} <= set(dir(torch)) and 'svd' in dir(torch.Tensor) and 'grid_sample' in dir(torch.nn.functional)",
    "a record by its name": "from rushlight.ops.record import REGISTRY; assert 'stft' in REGISTRY and REGISTRY['stft'].function is torch.stft",
    "all records": "from rushlight.ops.record import REGISTRY; assert any(name == 'stft' for name in REGISTRY)",
    "pickle": "import pickle; f = pickle.loads(b'crushlight.ops.stft\\nstft\\n.'); assert f is torch.stft",
    "export": "from rushlight.export import targets; assert targets.find('torch.stft') is torch.stft",
    "a rule": "x = torch.ones(3, requires_grad=True); y = x.repeat(2); y.sum().backward(); assert x.grad.tolist() == [2, 2, 2]",
    "the second derivative": "x = torch.ones(2, dtype=torch.float64, requires_grad=True); assert torch.autograd.gradgradcheck(torch.sinc, (x,))",
    "a user's own method": "f = lambda self: 7; torch.Tensor.logdet = f; torch.det; assert torch.ones(2, 2).logdet() == 7",
    "a file of the package": "from rushlight import ops; assert ops.functional is torch.nn.functional and ops.dropout.__name__ == 'rushlight.ops.dropout'",
    "two threads": "import threading; out = []; ts = [threading.Thread(target=lambda: out.append(torch.ones(2, 2).svd())) for _ in range(8)]; "
                   "[t.start() for t in ts]; [t.join() for t in ts]; assert len(out) == 8",
    "hasattr of a name that nobody has": "assert not hasattr(torch, 'stfft') and not hasattr(torch.nn.functional, 'grid') and not loaded('fourier')",
    "nn": "assert torch.nn.Linear and not loaded('fourier')",
    "an optimizer": "assert torch.optim.SGD and not any('muon' in name for name in sys.modules) and torch.optim.Muon and torch.optim.adam.Adam is torch.optim.Adam",
    "all optimizers": "from rushlight.optim import *; assert SGD is torch.optim.SGD and 'AdamW' in dir(torch.optim) and not hasattr(torch.optim, 'Other')",
    "a pickled error": "import pickle\ntry: torch.stfft\nexcept AttributeError as error: assert \"'stft'\" in str(pickle.loads(pickle.dumps(error)))",
    "a mistyped name": "import pytest\nwith pytest.raises(AttributeError, match=\"Did you mean: 'stft'\"): torch.stfft",
    "bfloat16": "assert 'ml_dtypes' not in sys.modules; import ml_dtypes, numpy; a = numpy.ones(2, ml_dtypes.bfloat16); "
                "assert torch.from_numpy(a).dtype is torch.bfloat16 and torch.bfloat16.itemsize == 2",
}


@pytest.mark.parametrize("way", WAYS)
def test_the_name_is_found(way):
    done = subprocess.run([sys.executable, "-c", START + WAYS[way]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_export_finds_one_name_as_it_finds_all():
    code = ("from rushlight.export import targets; from rushlight.ops.index import NAMES; import rushlight\n"
            "names = [f\"{'Tensor' if place == 'method' else place}.{name}\" for place, families in NAMES.items() for those in families.values() for name in those.split()]\n"
            "names += [f'Tensor.{name}' for name in dir(rushlight.Tensor)] + [f'{place}.{name}' for place, those in targets.SPACES.items() for name, _ in those.present()]\n"
            "names += [f'{place}.{name}' for place, those in targets.FIXED.items() for name in those] + ['', '.', 'torch', 'other.sin', 'torch.load', 'torch.no_such']\n"
            "found = {name: targets.find(name) for name in names}\n"
            "assert not targets.PLACES and sum(map(bool, found.values())) > 1500\n"
            "whole = targets.tables()\n"
            "assert not [name for name in names if whole.get(name.partition('.')[0], {}).get(name.partition('.')[2]) is not found[name]]")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_import_leaves_the_rare_families_out():
    code = "import sys, rushlight; print(*[name for name in sys.modules if name.startswith('rushlight.ops.')])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split()
    assert not {f"rushlight.ops.{module}" for families in NAMES.values() for module in families} & set(loaded)


def test_no_late_name_hides_a_builtin_from_the_rules():
    import builtins

    from rushlight.ops.record import PYTHON
    late = {name for names in NAMES["op"].values() for name in names.split()}
    assert {name for name in late if hasattr(builtins, name)} <= PYTHON | {"range"}
