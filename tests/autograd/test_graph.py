"""saved_tensors_hooks and the other tools of autograd.graph; grad modes; anomaly mode."""
import warnings

import pytest

import rushlight as torch
from rushlight.autograd import graph


def leaf(*values):
    return torch.tensor([float(v) for v in values], requires_grad=True)


def test_saved_tensors_hooks():
    log = []

    def pack(t):
        log.append("pack")
        return t.tolist()

    def unpack(content):
        log.append("unpack")
        return torch.tensor(content)

    x = leaf(2)
    with graph.saved_tensors_hooks(pack, unpack):
        y = x.exp()
    assert log == ["pack"]
    y.backward()
    assert log == ["pack", "unpack"] and x.grad.item() == pytest.approx(y.item())


def test_hooks_on_one_saved_tensor():
    x = leaf(3)
    y = x * x
    y.grad_fn._raw_saved_self.register_hooks(lambda t: t * 2, lambda t: t)
    y.backward()
    assert x.grad.tolist() == [9]


def test_disable_saved_tensors_hooks():
    with graph.disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="not here"):
            with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                pass


def test_save_on_cpu():
    x = leaf(2)
    with graph.save_on_cpu():
        y = x * x
    y.backward()
    assert x.grad.tolist() == [4]


def test_multi_grad_hook():
    x, y = leaf(1), leaf(1)
    seen = []
    graph.register_multi_grad_hook([x, y], lambda gs: seen.append([None if g is None else g.item() for g in gs]))
    (x * 2 + y * 3).backward()
    assert seen == [[2, 3]]


def test_modes_as_contexts_and_decorators():
    x = leaf(1)

    @torch.no_grad()
    def quiet():
        return x * 2
    assert not quiet().requires_grad and torch.is_grad_enabled()
    with torch.no_grad():
        with torch.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    with torch.set_grad_enabled(False):
        assert not (x * 2).requires_grad


def test_a_generator_under_no_grad_does_not_leak_its_mode():
    @torch.no_grad()
    def produce():
        yield torch.is_grad_enabled()
        yield torch.is_grad_enabled()
    first = produce()
    assert next(first) is False and torch.is_grad_enabled() and next(first) is False


def test_inference_mode():
    with torch.inference_mode():
        x = torch.ones(2)
        assert x.is_inference() and torch.is_inference_mode_enabled()
    assert not torch.is_inference_mode_enabled()
    assert x.clone().add_(1).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not allowed"):
        x.add_(1)


def test_anomaly_mode_names_the_operation_and_its_line():
    x = torch.zeros(1, requires_grad=True)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with torch.autograd.detect_anomaly():
            y = (x.sqrt() * 0).sum()
            with pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output."):
                y.backward()
    assert any("test_graph.py" in str(w.message) for w in said), "the forward line is shown"


def test_version_counters():
    x = torch.zeros(3)
    view = x[1:]
    view.add_(1)
    assert x._version == view._version == 1
    assert x.detach()._version == 1 and x.clone()._version == 0


def test_pack_hooks_see_values_without_history():
    x = torch.ones(2, requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t.numpy(), torch.from_numpy):  # numpy() refuses what requires grad
        y = (x * x).exp().sum()
    y.backward()
    assert torch.allclose(x.grad, 2 * x.detach() * torch.ones(2).exp())


def test_saved_tensors_may_be_written_where_that_is_allowed():
    x = torch.ones(2, requires_grad=True)
    with graph.allow_mutation_on_saved_tensors():
        y = x * 1
        z = (y * y).sum()
        y.add_(5)
        z.backward()
    assert x.grad.tolist() == [2, 2]
