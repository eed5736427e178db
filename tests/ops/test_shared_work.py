"""Nodes that get the very same gradient array must not share what depends on their other inputs."""
import gc
import weakref

import numpy as np

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.ops.shared_work import SharedWork


def test_two_norms_of_one_input_with_one_gradient():
    torch.manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    w, v = (torch.randn(3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    g = torch.randn(4, 3, dtype=torch.float64)
    (F.layer_norm(x, (3,), w) + F.layer_norm(x, (3,), v)).backward(g)
    total = x.grad.clone()
    x.grad = None
    for weight in (w, v):
        F.layer_norm(x, (3,), weight).backward(g)
    assert torch.allclose(total, x.grad)


def test_two_attentions_of_one_query_with_one_gradient():
    torch.manual_seed(0)
    q, k, m = (torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    (F.scaled_dot_product_attention(q, k, k) + F.scaled_dot_product_attention(q, m, m)).sum().backward()
    together = [t.grad.clone() for t in (q, k, m)]
    for t in (q, k, m):
        t.grad = None
    F.scaled_dot_product_attention(q, k, k).sum().backward()
    F.scaled_dot_product_attention(q, m, m).sum().backward()
    for one, other in zip(together, (q, k, m)):
        assert torch.allclose(one, other.grad)


def test_results_go_with_the_gradient():
    work, g = SharedWork(), np.ones(3)
    result = work.get(g, lambda g, x: g + x, 1.0)
    assert work.get(g, lambda g, x: g + x, 1.0) is result
    assert work.get(g, lambda g, x: g + x, 2.0) is not result
    gone = weakref.ref(work.results)
    del g, result
    gc.collect()
    assert gone() is None


def test_a_weight_written_between_two_backwards():
    x, g = torch.tensor([[1.0, 2.0, 4.0]], dtype=torch.float64, requires_grad=True), torch.ones(1, 3, dtype=torch.float64)
    w = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    g[0, 0] = 5
    F.layer_norm(x, (3,), w).backward(g)
    first = x.grad.clone()
    with torch.no_grad():
        w.mul_(3)
    x.grad = None
    F.layer_norm(x, (3,), w).backward(g)
    assert torch.allclose(x.grad, first * 3)


def test_transposed_matrices_are_copied_whole():
    for shape in [(512, 512), (1024, 300), (2048, 256), (256, 2048), (70, 1024)]:
        for dtype in (torch.float32, torch.float64, torch.int64, torch.bool):
            x = torch.arange(shape[0] * shape[1]).reshape(shape).to(dtype)
            copied = x.T.contiguous()
            assert copied.is_contiguous() and bool((copied.T == x).all()) and copied.data_ptr() != x.data_ptr()
    x = torch.randn(512, 512, requires_grad=True)
    (x.T.contiguous() * 2).sum().backward()
    assert bool((x.grad == 2).all())
