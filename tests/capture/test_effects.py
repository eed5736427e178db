"""print, logging, warnings, clocks and values read from tensors: as uncompiled, in order, and where nothing needs them, without a break."""

import contextlib
import io
import logging
import sys
import time
import warnings

import pytest

import rushlight as torch

from .counting import compiled

X = torch.tensor([0.5, 1.0])
log = logging.getLogger("rushlight.tests.effects")
FORMAT = logging.Formatter("%(levelname)s %(name)s %(filename)s:%(lineno)d %(funcName)s %(message)s")


def observed(function, calls):
    """Results, texts, records and warnings of some calls, in the order in which they came."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(FORMAT)
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    results = []
    try:
        with contextlib.redirect_stdout(out), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for args in calls:
                try:
                    results.append(repr(function(*[arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args])))
                except Exception as error:
                    results.append(repr(error))
        found = [(str(item.message), item.category, item.filename, item.lineno) for item in caught]
    finally:
        log.removeHandler(handler)
    return results, out.getvalue(), found


def check(function, calls, graphs=1, **options):
    fast, found = compiled(function, **options)
    assert observed(fast, calls) == observed(function, calls)
    if graphs is not None:
        assert len(found) == graphs


def texts(x, n):
    print("start", n)
    y = torch.sin(x)
    print(y, y.sum().item(), f"{y.sum():.3f}", f"{y!r}", [1, y.sum().item(), {"n": n, "y": (y,)}], {n}, sep=" | ", end="!\n", flush=True)
    for i in range(2):
        y = y + i
        print("turn", i, "%.2f of %s" % (y.sum().item(), n), "{:.1f} {k}".format(y.mean().item(), k=n))
    print(", ".join(f"{v.item():.1f}" for v in y), x.shape, x.dtype, torch.device("cpu"), int, None, 1j, end="")
    print()
    return y * n


def logged(x, n):
    log.info("step %d", n)
    y = torch.sin(x)
    log.debug("hidden %s", y)
    log.warning("late %s %.2f %s", n, y.sum().item(), y)
    log.log(logging.ERROR, f"at {y.max().item():.2f}")
    if log.isEnabledFor(logging.DEBUG):
        log.info("never")
    logging.getLogger("rushlight.tests.effects").critical("again")
    return torch.cos(y)


def warned(x, n):
    def inner():
        warnings.warn(f"inner {n}")
        warnings.warn(f"above {n}", DeprecationWarning, stacklevel=2)
    y = torch.sin(x)
    warnings.warn(f"soft {y.sum().item():.2f}", UserWarning)
    inner()
    return y + 1


@pytest.mark.parametrize("function", [texts, logged, warned])
@pytest.mark.parametrize("fullgraph", [False, True])
def test_no_break(function, fullgraph):
    with torch._dynamo.config.patch(break_in_loops=True):
        check(function, [(X, 2), (X, 3), (X + 1, 3)], fullgraph=fullgraph)


def test_what_speaks_in_a_loop_is_captured_once_it_is_called_often():
    def f(x, n):
        for i in range(n):
            print(i, x.sum().item())
            x = torch.sin(x)
        return x

    fast, graphs = compiled(f)
    with contextlib.redirect_stdout(io.StringIO()):
        for _ in range(17):
            fast(X, 2)
        assert len(graphs) == 0
        fast(X, 2)
    assert len(graphs) == 1
    assert observed(fast, [(X, 2), (X, 3)]) == observed(f, [(X, 2), (X, 3)])


def test_the_text_of_a_tensor_tells_the_history_of_the_program():
    def f(x, w):
        y = torch.sin(x * w)
        print(y, y.detach(), w, x, y.sum())
        return torch.exp(y)
    check(f, [(X, torch.ones(2, requires_grad=True)), (X, torch.ones(2))], graphs=2, fullgraph=True)


def test_order_with_exceptions_and_breaks():
    def f(x, n):
        y = torch.sin(x)
        print("one", n)
        try:
            log.info("two %s", n)
            if n > 5:
                raise ValueError(f"three {n}")
        except ValueError as error:
            print("caught", error, y.sum().item())
            if n > 7:
                raise
        finally:
            print("at last")
        if y.sum() > 0:
            print("positive")
        log.error("four")
        return torch.cos(y)
    check(f, [(X, n) for n in (2, 6, 8, 2)] + [(-X, 3)], graphs=None)


def test_values_that_only_leave():
    def f(x, seen, stats):
        y = torch.sin(x)
        v = y.sum().item()
        seen.append(v)
        stats["total"] = stats["total"] + v * 2 - 1
        stats["text"] = f"{v:.2f}"
        return y * 2, v, -v, abs(v), v / 2, float(y.max()), int((y * 10).long().sum()), str(y.sum().item())

    results = []
    for run in (f, compiled(f, fullgraph=True)[0]):
        seen, stats = [], {"total": 0.0}
        results.append((repr([run(X * k, seen, stats) for k in (1.0, 2.0, 3.0)]), seen, stats))
    assert results[0] == results[1]


USES = ["1 / v", "v > 1", "bool(v)", "[1, 2, 3][int(v)]", "y * v", "torch.full((2,), v)", "max(v, 1.0)", "sorted([v, 1.0])", "v == 1", "{v: 1}",
        "v in [1.0]", "round(v)", "round(v, 2)", "v ** -1.0", "v // 1", "v.is_integer()", "complex(v)", "hash(v)", "min([v])", "range(int(v))", "not v",
        "v if v > 0.2 else 'no'", "isinstance(v, float)", "type(v) is float", "f'{v:.2f}'.upper()", "str(v)[0]", "'a' + str(v)", "len(str(v))",
        "str(v) == '1'", "{f'{v:.1f}': 1}", "math.floor(v)", "[v] * 2", "v is None", "dict(a=v)", "sum([v, v])", "(v, v)[0]", "getattr(v, 'real')",
        "'-' * int(v)", "'a' in str(v)", "np.float64(v)", "json.dumps(v)", "int(v)", "float(v)", "v + torch.ones(1)", "x[int(v):]", "'%d' % v", "'%r' % y.sum()"]


@pytest.mark.parametrize("use", USES)
def test_values_that_are_needed(use):
    scope = {}
    exec(f"import json, math\nimport numpy as np\nimport rushlight as torch\ndef f(x):\n y = torch.sin(x)\n v = y.sum().item()\n z = {use}\n return y + 1, z, v",
         scope)
    check(scope["f"], [(X,), (X * 0.2,), (X * 2,)], graphs=None)


def test_a_value_that_is_read_before_its_tensor_is_written():
    def f(x):
        y = torch.sin(x)
        v, text = y.sum().item(), f"{x}"
        first = x[0].item()
        print(v, text, y)
        y.add_(1)
        x.mul_(2)
        return y, v, text, first, x[0].item()
    check(f, [(X,), (X + 1,)], graphs=None)


def test_a_stream_of_the_users_own_sees_the_state():
    class Tee(io.StringIO):
        def write(self, text):
            state.append((text, len(seen)))
            return super().write(text)

    def f(x, seen):
        seen.append(1)
        print("a")
        seen.append(2)
        return torch.sin(x)

    results = []
    for run in (f, compiled(f)[0]):
        state, seen = [], []
        with contextlib.redirect_stdout(Tee()):
            run(X, seen), run(X, seen)
        results.append(state)
    assert results[0] == results[1] == [("a", 1), ("\n", 1), ("a", 3), ("\n", 3)]


def test_a_handler_or_filter_of_the_users_own_breaks():
    records = []

    class Keep(logging.Handler):
        def emit(self, record):
            records.append((record.getMessage(), len(seen)))

    def f(x, seen):
        log.warning("a")
        seen.append(2)
        return torch.sin(x)

    fast, graphs = compiled(f)
    handler, seen = Keep(), []
    fast(X, seen)
    log.addHandler(handler)
    try:
        fast(X, seen), fast(X, seen)
    finally:
        log.removeHandler(handler)
    assert records == [("a", 1), ("a", 2)] and len(seen) == 3


def test_warnings_that_are_errors():
    def f(x):
        try:
            warnings.warn("soft")
        except UserWarning:
            return torch.cos(x)
        return torch.sin(x)

    fast, _ = compiled(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.equal(fast(X), torch.sin(X))
        warnings.simplefilter("error")
        assert torch.equal(fast(X), torch.cos(X))
        with pytest.raises(UserWarning):
            torch.compile(lambda x: (warnings.warn("soft"), torch.sin(x)), backend="eager")(X)


def test_streams_that_are_given():
    def f(x, stream):
        print("to", x.sum().item(), file=stream)
        stream.write(f"more {x.max().item()}\n")
        stream.flush()
        sys.stdout.write("out\n")
        return torch.sin(x)
    results = []
    for run in (f, compiled(f, fullgraph=True)[0]):
        stream, out = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out):
            run(X, stream), run(X * 2, stream)
        results.append((stream.getvalue(), out.getvalue()))
    assert results[0] == results[1]


def test_clocks():
    def f(x, n):
        before = time.perf_counter()
        y = torch.sin(x)
        time.sleep(0.01)
        spent = time.perf_counter() - before
        print(f"{spent:.0f} s, {time.time_ns() // 10**18}")
        return y, spent

    fast, graphs = compiled(f)
    for _ in range(2):
        assert 0.01 <= fast(X, 2)[1] < 5
    assert torch._dynamo.explain(lambda x: (time.time(), torch.sin(x)))(X).graph_break_count == 0
    check(lambda x: (torch.sin(x), time.time() > 5), [(X,)], graphs=None)


def test_a_loop_of_training_that_prints():
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y, number):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        print(f"{number}: {loss.item():.4f}")
        return loss.item()

    start = {key: value.clone() for key, value in model.state_dict().items()}
    data = [(torch.randn(4, 2), torch.randn(4, 1), number) for number in range(4)]
    want = observed(step, data)
    model.load_state_dict(start)
    fast, graphs = compiled(step, fullgraph=True)
    assert observed(fast, data) == want and len(graphs) <= 2
