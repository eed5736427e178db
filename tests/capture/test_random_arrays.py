"""Random programs of NumPy's arrays: compiled they give, write and refuse what they do as they are.

`python -m tests.capture.test_random_arrays FIRST COUNT` runs more of them.
"""

import random
import sys
import warnings

import numpy as np
import pytest

import rushlight as torch
from rushlight.capture import faults
from tests.capture.comparing_arrays import same

NAMES = "a b c d e".split()
NUMBERS = ["2", "0.5", "-1", "True", "3", "n", "np.float32(0.5)", "np.float64(1.5)", "np.int64(2)", "1e3"]
UNARY = ["np.sin({0})", "np.exp({0} * 0.1)", "abs({0})", "-{0}", "np.sqrt(abs({0}))", "{0}.copy()", "{0}.astype(np.float32)", "{0}.astype(np.int64)", "{0}.astype(bool)", "{0}.T",
         "{0}.ravel()", "{0}.flatten()", "{0}[::2]", "{0}[1:]", "{0}[0]", "{0}[-1]", "{0}[..., 0]", "{0}[None]", "np.cumsum({0})", "{0}.reshape(-1)", "{0}.sum()", "{0}.sum(axis=0)",
         "{0}.mean()", "{0}.max()", "{0}.min(axis=0)", "{0}.std()", "np.any({0})", "np.all({0})", "np.argmax({0})", "{0}.prod()", "np.floor({0})", "~{0}", "np.zeros_like({0})",
         "np.ones_like({0})", "np.full_like({0}, 2)", "np.clip({0}, -1, 1)", "np.roll({0}, 1)", "np.repeat({0}, 2)", "np.expand_dims({0}, 0)", "np.squeeze({0})", "np.isnan({0})",
         "torch.from_numpy({0}).numpy()", "(torch.from_numpy({0}) * 2).numpy()", "np.asarray({0})", "np.array({0})", "np.sort({0})", "np.flip({0})", "np.square({0})", "{0}[{0} > 0]",
         "np.array([{0}, {0}])", "np.sign({0})", "float(np.sum({0}))", "{0}.shape[0]", "len({0})", "{0}.size", "[item for item in {0}][0]", "np.round({0}, 1)", "{0}.dtype.name == 'float32'"]
BINARY = ["{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / ({1} + 10.5)", "{0} ** 2 + {1}", "{0} > {1}", "{0} == {1}", "{0} & {1}", "{0} | {1}", "{0} ^ {1}", "np.maximum({0}, {1})", "np.minimum({0}, {1})",
          "np.where({0} > 0, {0}, {1})", "np.where({0} > {1}, 1, 0.5)", "{0} @ {1}", "np.dot({0}, {1})", "np.concatenate([{0}, {1}])", "np.stack([{0}, {1}])", "np.hypot({0}, {1})", "{0} // ({1} + 0.5)",
          "{0} % 0.7", "np.outer({0}, {1})", "np.arctan2({0}, {1})", "np.logical_and({0}, {1})", "{0} if np.sum({0}) > 0 else {1}", "np.add({0}, {1})", "np.vstack([{0}, {1}])"]
ACTS = ["{0} += {1}", "{0} -= 1", "{0} *= 0.5", "{0}[0] = {1}", "{0}[...] = 2", "{0}[1:] = {0}[:-1]", "{0}[{0} > 1] = 0", "{0}.fill(3)", "{0}[-1] += 1", "out.append({0})", "{0}[[0, 1]] = 5", "{0} /= 2",
        "t.add_(1)", "{0} |= {1} > 0", "{0} = t.numpy()", "torch._dynamo.graph_break()", "{0}, {1} = {1}, {0}", "if n > 2:\n        {0} = {0} * 2", "for row in {0}:\n        out.append(row)",
        "try:\n        {0} = {0} @ {1}\n    except ValueError as error:\n        out.append(str(error))"]


def program(seed):
    """A function of three arrays, a tensor and a number."""
    chosen = random.Random(seed)
    lines = []
    for _ in range(chosen.randint(3, 9)):
        one, two, into = chosen.choice(NAMES), chosen.choice([*NAMES, *NAMES, chosen.choice(NUMBERS)]), chosen.choice(NAMES)
        kind = chosen.random()
        if kind < 0.4:
            lines.append(f"{into} = {chosen.choice(UNARY).format(one)}")
        elif kind < 0.75:
            lines.append(f"{into} = {chosen.choice(BINARY).format(one, two)}")
        else:
            lines.append(chosen.choice(ACTS).format(one, two if two in NAMES else one))
    if seed % 4:  # what NumPy refuses ends one statement only
        lines = ["try:\n        " + line.replace("\n", "\n    ") + "\n    except Exception as error:\n        out.append((type(error).__name__, str(error)))"
                 for line in lines]
    return "def f(a, b, c, t, n):\n    out = []\n    d, e = a[:2], b + 1\n" + "".join(f"    {line}\n" for line in lines) + "    return a, b, c, d, e, t, n, out\n"


def arguments(seed, turn):
    chosen = random.Random(f"{seed} {turn // 2}")
    size = chosen.choice([2, 3, 3, 4])
    kinds = ["f8", "f8", "f4", "i8", "?", "i4", "f2", "u1"]
    arrays = [np.linspace(-2, 3, size * rows).reshape((rows, size) if rows > 1 else size).astype(chosen.choice(kinds[:3 if turn < 2 else 8]))
              for rows in (1, 1, chosen.choice([1, 2, size]))]
    if chosen.random() < 0.2:
        arrays[1] = arrays[0]
    tensor = torch.linspace(0, 1, size) if chosen.random() < 0.7 else torch.from_numpy(arrays[0])
    return [*arrays, tensor, chosen.choice([1, 2, 3, 4])]


def outcome(call, given):
    try:
        found = call(*given)
    except Exception as error:
        return type(error), str(error), given
    arrays = [item for item in [*found[:6], *found[7], *given[:4]] if isinstance(item, np.ndarray | torch.Tensor)]
    arrays = [item if isinstance(item, np.ndarray) else item.numpy() for item in arrays]
    shared = [np.shares_memory(one, two) for at, one in enumerate(arrays) for two in arrays[:at]]
    return found, shared, given


def check(seed):
    """Whether a program does the same compiled; raises if not."""
    text = program(seed)
    scope = {"np": np, "torch": torch}
    exec(text, scope)
    compiled = torch.compile(scope["f"], backend="inductor" if seed % 3 == 0 else "eager")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for turn in range(4):
            want, got = outcome(scope["f"], arguments(seed, turn)), outcome(compiled, arguments(seed, turn))
            try:
                same(got, want)
            except AssertionError as error:
                raise AssertionError(f"program {seed}, call {turn}:\n{text}\n{error}\nwant {want}\ngot {got}") from None


@pytest.mark.parametrize("tens", range(20))
def test_random_programs_of_arrays(tens):
    for seed in range(tens * 10, tens * 10 + 10):
        check(seed)


if __name__ == "__main__":
    first, count = map(int, sys.argv[1:])
    for number in range(first, first + count):
        try:
            check(number)
        except AssertionError as error:
            print(error)
    print(count, "programs", dict(torch._dynamo.utils.counters["faults"]), faults.OURS)
