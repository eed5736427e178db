"""Inputs that lie in memory which the function writes, whatever they are called: compiled code does as the plain function does."""

import numpy as np
import pytest

import rushlight as torch

BACKENDS = ("inductor", "eager")


def twice(x, y):
    x.add_(1)
    y.mul_(2)
    return x * 1, y * 1


def over(array):
    return torch.from_numpy(array)


def apart():
    return torch.ones(6), torch.ones(6)


def detached():
    base = torch.ones(6)
    return base, base.detach()


def data():
    base = torch.ones(6)
    return base.data, base


def same_array():
    array = np.ones(6, np.float32)
    return over(array), over(array)


def overlapping_arrays():
    array = np.ones(9, np.float32)
    return over(array[:6]), over(array[3:])


def one_buffer():
    buffer = bytearray(np.ones(9, np.float32).tobytes())
    return over(np.frombuffer(buffer, np.float32, 6)), over(np.frombuffer(buffer, np.float32, 6, 12))


def slices():
    base = torch.ones(12)
    return base[:6], base[6:]


def overlapping_slices():
    base = torch.ones(12)
    return base[:6], base[3:9]


def overlapping_backwards():
    base = torch.ones(12)
    return base[3:9], base[:6]


def columns():
    base = torch.ones(6, 2)
    return base[:, 0], base[:, 1]


WAYS = (apart, detached, data, same_array, overlapping_arrays, one_buffer, slices, overlapping_slices, overlapping_backwards, columns)


def fresh(function):
    """A function that no earlier compile has met."""
    return type(function)(function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__, function.__closure__)


def check(fast, function, make):
    given, wanted = make(), make()
    got, want = fast(*given), function(*wanted)
    assert [t.tolist() for t in (*got, *given)] == [t.tolist() for t in (*want, *wanted)], make.__name__


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("first", WAYS)
def test_each_way_after_each_other(first, backend):
    for then in WAYS:
        torch._dynamo.reset()
        fast = torch.compile(fresh(twice), backend=backend)
        for make in (first, first, first, then, then, then, first):
            check(fast, twice, make)


def test_many_disjoint_calls_share_one_translation():
    fast = torch.compile(fresh(twice))
    for make in (apart, apart, slices, apart, slices):
        check(fast, twice, make)
    assert len(fast._rushlight_compiled.start.entries) <= 2  # the strides of both are alike


@pytest.mark.parametrize("backend", BACKENDS)
def test_memory_of_a_parameter(backend):
    layer = torch.nn.Linear(3, 1, bias=False)

    def given(x, w):
        w.mul_(0)
        return layer(x).detach()

    assert torch.compile(given, backend=backend)(torch.ones(1, 3), layer.weight.data).tolist() == [[0.0]]
    layer = torch.nn.Linear(3, 1, bias=False)
    flat = layer.weight.detach()

    def closed(x):
        flat.mul_(0)
        return layer(x)

    assert torch.compile(closed, backend=backend)(torch.ones(1, 3)).tolist() == [[0.0]]


# Losses of real PyTorch 2.13; the biases become one piece of memory before the step of that number.
SHARED_AFTER = {3: [16.3286, 2.0177, 0.6576, 0.944, 3.7332, 1.6862, 0.5363, 6.3424, 4.9147, 0.3061],
                6: [16.3286, 2.0177, 0.6576, 2.8213, 1.0893, 0.7691, 0.3118, 1.5622, 2.5303, 0.9951]}


@pytest.mark.parametrize("backend", (*BACKENDS, None))
@pytest.mark.parametrize("shared", SHARED_AFTER)
def test_parameters_that_begin_to_share_memory_between_steps(shared, backend):
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(torch.arange(float(p.numel())).reshape(p.shape) / 4 + i / 8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        loss = (net(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run, losses = step if backend is None else torch.compile(step, backend=backend), []
    for at in range(10):
        if at == shared:
            net[0].bias.data = net[1].bias.data
        losses.append(run(torch.arange(8.0).reshape(4, 2) / 8).item())
    np.testing.assert_allclose(losses, SHARED_AFTER[shared], atol=2e-4)


def test_a_batch_that_lies_in_a_parameter_after_batches_that_do_not():
    weight = torch.ones(4)

    def step(x):
        weight.add_(1)
        return x * 1

    fast = torch.compile(step)
    for _ in range(5):
        assert fast(torch.ones(4)).tolist() == [1.0] * 4
    for part in (weight[:], weight.detach(), torch.from_numpy(weight.numpy())):
        before = weight.tolist()
        assert fast(part).tolist() == [value + 1 for value in before]
    assert fast(torch.ones(4)).tolist() == [1.0] * 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_step_detaches_is_detached(backend):
    def step(x):
        x.sum().backward()
        return x.detach()

    x = torch.ones(3, requires_grad=True)
    result = torch.compile(step, backend=backend)(x)
    assert result is not x and not result.requires_grad and x.requires_grad
    result.add_(1)
    assert x.tolist() == [2.0] * 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_size_that_becomes_negative(backend):
    fast = torch.compile(lambda x, n: x.expand(n, 10).sum(0), backend=backend)
    for n in (3, 4, 5, -1, 6, -1, 2, 0, 1):
        x = torch.ones(1, 10)
        assert fast(x, n).tolist() == x.expand(n, 10).sum(0).tolist()
    fast = torch.compile(lambda x, n: x.view(n, 2) + 1, backend=backend)
    for n in (3, 3, -1, 3):
        assert fast(torch.ones(6), n).tolist() == (torch.ones(6).view(n, 2) + 1).tolist()
    fast = torch.compile(lambda x, n: x[n:].sum() + x[n], backend=backend)
    for n in (3, 4, 2, -2, -1, -3, 5, 0):
        assert fast(torch.arange(8.0), n).tolist() == (torch.arange(8.0)[n:].sum() + torch.arange(8.0)[n]).tolist()
    fast = torch.compile(lambda x, n: x.expand(n, 10).sum(0), backend=backend)
    x = torch.ones(3, 1)
    assert fast(x, 3).tolist() == [3.0] * 10
    for n in (4, -2):
        with pytest.raises(RuntimeError):
            fast(x, n)
