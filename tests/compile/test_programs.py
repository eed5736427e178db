"""Random programs give the same results, side effects and exceptions compiled and as written."""

import linecache
import sys

import numpy as np
import pytest

import rushlight as torch

from .programs import program


def untraced(out):
    out.append("native")


def plain(value, depth=0):
    """A value as something that compares by ==."""
    if isinstance(value, torch.Tensor):
        return ("tensor", tuple(value.shape), str(value.dtype), value.requires_grad, np.asarray(value.detach().numpy(), float).round(4).tolist())
    if isinstance(value, dict):
        return {key: plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *(plain(item, depth + 1) for item in value)]
    if isinstance(value, float):
        return round(value, 3)
    if hasattr(value, "log"):
        return ("box", plain(vars(value), depth + 1))
    return value


def calls(scope, kinds):
    """The arguments of a few calls, some alike, some not."""
    made = []
    for size, n, flag, same, grad in kinds:
        x = torch.linspace(-1, 1, size).requires_grad_(grad)
        y = x if same else torch.linspace(0.5, 2, size)
        if grad:
            x = x * 1.0
            y = x if same else y
        items = [torch.ones(size), torch.linspace(0, 1, size)]
        made.append((x, y, n, flag, items, {"a": torch.full((size,), 0.5), "b": items[0]}, scope["Box"](n + 1)))
    return made


KINDS = [(3, 2, True, False, False), (3, 2, True, False, False), (3, 5, False, False, False), (4, 3, True, False, True), (4, 1, False, True, False),
         (3, 2, True, False, False), (5, 7, False, False, False)]


def outcome(function, arguments):
    try:
        result = plain(function(*arguments))
    except Exception as error:
        result = (type(error).__name__, str(error)[:60])
    return result, plain(list(arguments)), torch.is_grad_enabled()


def check(seed, **options):
    source = program(seed)
    name = f"<program {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope = {"torch": torch, "untraced": torch.compiler.disable(untraced), "__name__": f"program_{seed}"}
    exec(compile(source, name, "exec"), scope)
    torch._dynamo.reset()
    compiled = torch.compile(scope["f"], backend="eager", **options)
    for want_args, got_args in zip(calls(scope, KINDS), calls(scope, KINDS)):
        want, got = outcome(scope["f"], want_args), outcome(compiled, got_args)
        assert want == got, f"program {seed} differs\n{source[source.index('def f('):]}\nwant {want}\ngot  {got}"


@pytest.mark.parametrize("seed", range(40))
def test_compiled_equals_eager(seed):
    check(seed)


@pytest.mark.parametrize("seed", range(1000, 1015))
def test_breaks_inside_loops(seed):
    with torch._dynamo.config.patch(break_in_loops=True):
        check(seed)


@pytest.mark.parametrize("seed", range(2000, 2010))
def test_dynamic(seed):
    check(seed, dynamic=True)


if __name__ == "__main__":  # python -m tests.compile.test_programs FIRST LAST
    failed = 0
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        try:
            with torch._dynamo.config.patch(break_in_loops=bool(number % 2)):
                check(number, **({"dynamic": True} if number % 5 == 0 else {}))
        except Exception as error:
            failed += 1
            if failed < 6:
                print(f"--- {number}: {type(error).__name__}: {str(error)[:3000]}")
    print("failed", failed)
