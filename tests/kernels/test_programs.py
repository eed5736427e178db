"""Random programs: a graph of random ops gives the same compiled as interpreted, and so do its gradients.

`RUSHLIGHT_PROGRAMS=2000 pytest tests/kernels/test_programs.py` runs more of them; each is named by its seed.
"""

import math
import operator
import os

import numpy as np
import pytest

import rushlight as torch
from rushlight.graph import Graph, GraphModule, interpret
from rushlight.kernels import llvm, lower
from rushlight.ops import functional as F
from rushlight.tensor import wrap

pytestmark = pytest.mark.skipif(not llvm.available(), reason="no JIT here")
COUNT = int(os.environ.get("RUSHLIGHT_PROGRAMS", "60"))
UNARY = [torch.sin, torch.cos, torch.tanh, torch.sigmoid, torch.exp, torch.relu, torch.abs, operator.neg, F.gelu, F.silu, torch.erf,
         torch.floor, torch.sign]
BINARY = [operator.add, operator.sub, operator.mul, torch.maximum, torch.minimum, torch.atan2]


class Program:
    """A random graph; `values` holds nodes with their shapes (all float32)."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.graph = Graph()
        self.inputs = []
        self.values = []
        base = tuple(int(n) for n in self.rng.choice([1, 2, 3, 5, 8, 17, 33], size=self.rng.integers(1, 4)))
        for i in range(self.rng.integers(1, 4)):
            shape = tuple(n if self.rng.random() < 0.8 else 1 for n in base)[self.rng.integers(0, 2) if len(base) > 1 else 0:]
            array = self.rng.normal(size=shape).astype(np.float32)
            if self.rng.random() < 0.2 and len(shape) > 1:
                array = np.asfortranarray(array)
            self.inputs.append(wrap(array))
            self.values.append((self.graph.placeholder(f"x{i}"), shape))
        for _ in range(self.rng.integers(3, 14)):
            self.step()
        picks = self.rng.choice(len(self.values), size=min(len(self.values), int(self.rng.integers(1, 4))), replace=False)
        chosen = sorted({int(p) for p in picks} | {len(self.values) - 1})
        self.graph.output(tuple(self.values[i][0] for i in chosen))
        self.graph.lint()
        self.module = GraphModule({}, self.graph)

    def pick(self):
        return self.values[int(self.rng.integers(max(0, len(self.values) - 6), len(self.values)))]

    def note(self, node, shape):
        if math.prod(shape) <= 50_000:
            self.values.append((node, tuple(shape)))

    def call(self, function, *args, **kwargs):
        return self.graph.call_function(function, args, kwargs)

    def method(self, name, *args, **kwargs):
        return self.graph.call_method(name, args, kwargs)

    def step(self):
        rng = self.rng
        node, shape = self.pick()
        kind = rng.integers(0, 12)
        if kind <= 2:
            self.note(self.call(UNARY[rng.integers(len(UNARY))], node), shape)
        elif kind <= 4:
            other, theirs = self.pick()
            try:
                joint = np.broadcast_shapes(shape, theirs)
            except ValueError:
                other, joint = float(rng.normal()), shape
            function = BINARY[rng.integers(3 if isinstance(other, float) else len(BINARY))]
            self.note(self.call(function, node, other), joint)
        elif not shape:
            self.note(self.call(torch.exp, node), shape)
        elif kind == 5:
            d = int(rng.integers(len(shape)))
            name, keep = ["sum", "mean", "amax", "amin"][rng.integers(4)], bool(rng.integers(2))
            self.note(self.method(name, node, d, keepdim=keep), [1 if i == d else n for i, n in enumerate(shape) if i != d or keep])
        elif kind == 6:
            d = int(rng.integers(len(shape)))
            self.note(self.call(torch.softmax if rng.integers(2) else torch.log_softmax, node, d), shape)
        elif kind == 7:
            order = [int(i) for i in rng.permutation(len(shape))]
            self.note(self.method("permute", node, *order), [shape[i] for i in order])
        elif kind == 8:
            flat = math.prod(shape)
            divisors = [n for n in range(1, flat + 1) if flat % n == 0]
            n = int(rng.choice(divisors))
            self.note(self.method("reshape", node, n, flat // n), (n, flat // n))
        elif kind == 9:
            d = int(rng.integers(len(shape)))
            low, step = int(rng.integers(0, shape[d])), int(rng.integers(1, 3))
            key = tuple(slice(low, None, step) if i == d else slice(None) for i in range(len(shape)))
            self.note(self.call(operator.getitem, node, key), [-(-(n - low) // step) if i == d else n for i, n in enumerate(shape)])
        elif kind == 10:
            d = int(rng.integers(len(shape)))
            self.note(self.call(torch.cat, [node, node], d), [2 * n if i == d else n for i, n in enumerate(shape)])
        elif len(shape) >= 2:
            t = self.method("transpose", node, -1, -2)
            self.note(self.call(operator.matmul, node, t), (*shape[:-1], shape[-2]))
        else:
            self.note(self.call(torch.where, self.call(operator.gt, node, 0.0), node, 0.5), shape)


def close(a, b, label):
    """Within float32 rounding of values of that size, NaN and infinity at the same places."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(b)
    assert np.array_equal(np.isnan(a), np.isnan(b)), label
    size = np.abs(b[finite]).max(initial=1.0)
    if size < 1e30:
        np.testing.assert_allclose(a[finite], b[finite], rtol=2e-4, atol=2e-5 * size, err_msg=label)


# Where a rounding decides (floor, sign, the larger of two equals), a last bit may change the answer.
STEPPED = {torch.floor, torch.sign, torch.maximum, torch.minimum, torch.relu, torch.abs, torch.where, "amax", "amin", operator.gt}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(COUNT))
def test_compiled_is_interpreted(seed):
    program = Program(seed)
    run = lower(program.module, program.inputs)
    with np.errstate(all="ignore"), torch.no_grad():
        want = interpret(program.module, *program.inputs)
        got = run(*program.inputs)
    label = f"seed {seed}:\n{program.module.code}"
    assert all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(got, want, strict=True)), label
    used = {node.target for node in program.graph.nodes}
    for a, b in zip(got, want):
        if torch.floor in used or torch.sign in used:
            wrong = np.abs(a._array - b._array) > 1e-3 * (1 + np.abs(b._array))
            assert wrong.mean() < 0.02 or wrong.sum() <= 2, label
        else:
            close(a._array, b._array, label)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(COUNT))
def test_gradients_agree(seed):
    program = Program(seed + 100_000)
    if {node.target for node in program.graph.nodes} & STEPPED:
        return
    ours = [t.detach().clone().requires_grad_() for t in program.inputs]
    theirs = [t.detach().clone().requires_grad_() for t in program.inputs]
    run = lower(program.module, ours)
    with np.errstate(all="ignore"):
        for tensors, function in ((ours, run), (theirs, program.module.forward)):
            results = [r for r in function(*tensors) if r.requires_grad]
            if results:
                sum((r.sin() if r.ndim else r).sum() for r in results).backward()
    label = f"seed {seed}:\n{program.module.code}"
    for a, b in zip(ours, theirs):
        assert (a.grad is None) == (b.grad is None), label
        if a.grad is not None:
            close(a.grad._array, b.grad._array, label)
