"""Faults met while comparing with PyTorch 2.13, each with the value that it gives."""
import numpy as np
import pytest

import rushlight as torch
from rushlight.nn import functional as F


def test_masked_write_of_a_value_with_leading_ones():
    x = torch.zeros(2, 2)
    x[torch.ones(2, 2) > 0] = torch.tensor([[3.0]])
    assert x.tolist() == [[3.0, 3.0], [3.0, 3.0]]
    x[torch.tensor([True, False])] = torch.tensor([[[1.0, 2.0]]])
    assert x.tolist() == [[1.0, 2.0], [3.0, 3.0]]
    with pytest.raises(RuntimeError, match="shape mismatch: value tensor of shape"):
        x[torch.ones(2, 2) > 0] = torch.ones(2, 2)


def test_writes_of_wrong_shapes_say_so():
    x = torch.zeros(3, 4)
    with pytest.raises(RuntimeError, match=r"expand\(torch.FloatTensor\{\[2\]\}, size=\[\]\)"):
        x[0, 0] = torch.tensor([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"The expanded size of the tensor \(4\) must match the existing size \(3\)"):
        x[0:2] = torch.tensor([1.0, 2.0, 3.0])


def test_shift_of_all_the_bits():
    assert (torch.tensor([255], dtype=torch.uint8) >> torch.tensor([9], dtype=torch.uint8)).tolist() == [0]
    assert (torch.tensor([-8, 8]) >> torch.tensor([70, 70])).tolist() == [-1, 0]


def test_gradient_with_respect_to_an_edge():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    edge = torch.autograd.graph.get_gradient_edge(y)
    assert edge.output_nr == 0 and edge.node is y.grad_fn
    assert torch.autograd.grad((y * y).sum(), edge)[0].tolist() == [4.0, 4.0]
    assert torch.autograd.grad((x * x).sum(), torch.autograd.graph.get_gradient_edge(x))[0].tolist() == [2.0, 2.0]


def test_an_op_itself_compiles():
    assert torch.compile(torch.sin, fullgraph=True)(torch.zeros(2)).tolist() == [0.0, 0.0]
    assert torch.compile(torch.nn.functional.relu, fullgraph=True)(torch.tensor([-1.0, 1.0])).tolist() == [0.0, 1.0]


def test_numpy_scalars_are_exponents_and_bases():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (x ** np.int64(2)).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0] and (x.detach() ** np.int64(2)).dtype is torch.float32
    for result in (np.float32(2) ** x.detach(), np.float32(2) / x.detach(), torch.tensor([2]) ** np.int64(3)):
        assert isinstance(result, torch.Tensor)
    assert (np.float32(2) ** x.detach()).tolist() == [2.0, 4.0]


def test_linspace_rounds_each_number_once():
    single, double = torch.linspace(-3, 3, 101), torch.linspace(-7.3, 2.1, 1000, dtype=torch.float64)
    assert [single[at].item().hex() for at in (11, 35)] == ["-0x1.2b851e0000000p+1", "-0x1.ccccce0000000p-1"]
    assert [double[at].item().hex() for at in (58, 76)] == ["-0x1.b045b3a2b9045p+2", "-0x1.a56ec1032056fp+2"]


def test_truth_values_have_no_difference():
    mask, number = torch.tensor([True, False]), torch.tensor([1.5])
    for take in (lambda: 1 - mask, lambda: mask - 1, lambda: 1.0 - mask, lambda: number - mask, lambda: mask - number, lambda: True - number,
                 lambda: number - True, lambda: torch.rsub(mask, 1), lambda: torch.sub(mask, 1), lambda: mask.clone().sub_(1),
                 lambda: 1 - torch.ones(100_000, dtype=torch.bool)):
        with pytest.raises(RuntimeError, match="Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert"):
            take()
    for take in (lambda: mask - mask, lambda: True - mask, lambda: mask - True):
        with pytest.raises(RuntimeError, match="Subtraction, the `-` operator, with two bool tensors is not supported"):
            take()
    with pytest.raises(RuntimeError, match="with a bool tensor is not supported"):
        torch.compile(lambda x: 1 - (x > 0))(number)


def test_python_types_are_dtypes():
    expected = {float: torch.float64, int: torch.int64, bool: torch.bool, complex: torch.complex128}
    one = torch.tensor([1], dtype=torch.int32)
    for kind, dtype in expected.items():
        made = [torch.ones(1, dtype=kind), torch.zeros_like(one, dtype=kind), torch.tensor([1], dtype=kind), torch.as_tensor([1], dtype=kind),
                one.to(kind), one.to(dtype=kind), one.sum(dtype=kind), torch.full((1,), 1, dtype=kind), one.new_zeros(1, dtype=kind)]
        assert {tensor.dtype for tensor in made} == {dtype}, kind
    assert torch.arange(3, dtype=float).dtype is torch.linspace(0, 1, 2, dtype=float).dtype is torch.hann_window(2, dtype=float).dtype is torch.float64
    assert torch.randperm(3, dtype=int).dtype is torch.int64
    assert torch.tensor([1.0], dtype=torch.float64).view(int).dtype is torch.int64
    assert torch.nn.Linear(1, 1).to(float).weight.dtype is torch.float64
    assert torch.promote_types(torch.int8, float) is torch.float64 and torch.finfo(float).bits == 64 and torch.iinfo(int).max == 2 ** 63 - 1
    with pytest.raises(ValueError, match="invalid type: 'float'"):
        one.type(float)


@pytest.mark.parametrize("call, kind, text", [
    (lambda: torch.zeros(2.0), TypeError, r"zeros\(\): argument 'size' \(position 1\) must be tuple of ints, not float"),
    (lambda: torch.rand(2, 1.5), TypeError, r"rand\(\): argument 'size' failed to unpack the object at pos 2"),
    (lambda: torch.ones(1).repeat(2.5), TypeError, r"repeat\(\): argument 'repeats' \(position 1\) must be tuple of ints, not float"),
    (lambda: torch.full(2, 1.0), TypeError, r"full\(\): argument 'size' \(position 1\) must be tuple of ints, not int"),
    (lambda: torch.zeros(1, dtype="float32"), TypeError, r"zeros\(\): argument 'dtype' must be torch.dtype, not str"),
    (lambda: torch.randn(2, dtype="float32"), TypeError, r"^randn\(\): argument 'dtype' must be torch.dtype, not str"),
    (lambda: torch.tensor(1, dtype="float32"), TypeError, r"^tensor\(\): argument 'dtype' must be torch.dtype, not str"),
    (lambda: torch.rand_like(torch.ones(1), dtype=3), TypeError, r"^rand_like\(\): argument 'dtype' must be torch.dtype, not int"),
    (lambda: torch.tril_indices(2, 2, dtype="x"), TypeError, r"^tril_indices\(\): argument 'dtype' must be torch.dtype, not str"),
    (lambda: torch.hann_window(2, dtype="x"), TypeError, r"^hann_window\(\): argument 'dtype' must be torch.dtype, not str"),
    (lambda: torch.linspace(0, 1, 2, dtype="x"), TypeError, r"^linspace\(\): argument 'dtype' must be torch.dtype, not str"),
    (lambda: torch.ones(1).new_zeros(2.5), TypeError, r"^new_zeros\(\): argument 'size' \(position 1\) must be tuple of ints, not float"),
    (lambda: torch.ones(1).reshape(2.5), TypeError, r"^reshape\(\): argument 'shape' \(position 1\) must be tuple of ints, not float"),
    (lambda: torch.arange("a"), TypeError, r"arange\(\): argument 'end' \(position 1\) must be Number, not str"),
    (lambda: torch.randint(2.5, (2,)), TypeError, r"randint\(\): argument 'high' must be int, not float"),
    (lambda: torch.arange(6).view(-2, 3), RuntimeError, r"invalid shape dimension -2 at index 0 of shape \[-2, 3\]"),
    (lambda: torch.arange(6).reshape(-2, 3), RuntimeError, "invalid shape dimension -2"),
    (lambda: torch.add(torch.ones(1)), TypeError, r"add\(\) missing 1 required positional argument"),
    (lambda: torch.einsum("ij"), ValueError, r"einsum\(\): must specify the equation string"),
    (lambda: torch.einsum("ijk->i", torch.ones(2, 3)), RuntimeError, r"\(3\) does not match the number of dimensions \(2\) for operand 0 and no ellipsis"),
    (lambda: torch.tensor([1j]) // 1, NotImplementedError, "\"div_floor_cpu\" not implemented for 'ComplexFloat'"),
    (lambda: torch.where(1), TypeError, r"where\(\): argument 'condition'"),
    (lambda: torch.ones(1).mean(dtype=int), RuntimeError, r"mean\(\): could not infer output dtype. Optional dtype"),
])
def test_first_words_of_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def test_a_view_made_without_gradients_says_what_its_base_says():
    x = torch.ones(2, 3, requires_grad=True)
    computed = x * 2
    with torch.no_grad():
        views = [x[0], x.view(6), x.t(), x[:, 1:], x.expand(2, 2, 3), x.unbind()[0], x.flatten(), x.view(6)[:2], computed[0]]
        others = [x.clone(), x.detach()[0], x + 0, x.t().reshape(6), torch.ones(2)[0], x.view(torch.int32)]
    assert all(view.requires_grad and view.is_leaf and view.grad_fn is None for view in views)
    assert not any(other.requires_grad for other in others)
    with torch.no_grad():
        assert repr(x[0]) == "tensor([1., 1., 1.], requires_grad=True)"


def test_tensors_of_inference_mode_print_as_others():
    with torch.inference_mode():
        assert repr(torch.tensor([1.0]) * 2) == "tensor([2.])"


def test_an_object_as_an_index_is_asked_for_its_index():
    class Third:
        def __index__(self):
            return 2

        def __int__(self):
            return 7

    x = torch.arange(3.0)
    assert x[Third()].item() == 2.0
    x[Third()] = 9.0
    assert x.tolist() == [0.0, 1.0, 9.0]


def test_attention_takes_a_mask_or_is_causal():
    one = torch.ones(1, 2, 2)
    with pytest.raises(RuntimeError, match="Explicit attn_mask should not be set when is_causal=True"):
        torch.nn.functional.scaled_dot_product_attention(one, one, one, attn_mask=torch.ones(2, 2, dtype=torch.bool), is_causal=True)


def test_copies_take_the_dims_that_they_are_written_to():
    for source in (torch.ones(1, 3), torch.ones(2, 3), torch.ones(2, 3, dtype=torch.int64), torch.ones(1, 3, requires_grad=True)):
        target = torch.zeros(3)
        with pytest.raises(RuntimeError, match=rf"output with shape \[3\] doesn't match the broadcast shape \[{len(source)}, 3\]"):
            target.copy_(source)
        assert target.tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match=r"output with shape \[\] doesn't match the broadcast shape \[1\]"):
        torch.zeros(()).copy_(torch.ones(1))
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(3\) must match the size of tensor b \(4\) at non-singleton dimension 1"):
        torch.zeros(3).copy_(torch.ones(2, 4))
    assert torch.zeros(2, 3).copy_(torch.ones(1, 3)).sum() == 6


@pytest.mark.parametrize("write", [lambda x, y: x.add_(y, alpha=2), lambda x, y: x.sub_(y), lambda x, y: x.lerp_(y, 0.5), lambda x, y: x.lerp_(y, 0.25),
                                   lambda x, y: x.addcmul_(y, y), lambda x, y: x.addcdiv_(y, y, value=2), lambda x, y: x.clamp_min_(y)])
def test_in_place_writes_of_other_shapes_raise_as_others_do(write):
    for shape, wanted in (((), r"output with shape \[\] doesn't match the broadcast shape \[7\]"), ((3,), r"The size of tensor a \(3\) must match")):
        target = torch.zeros(shape)
        with pytest.raises(RuntimeError, match=wanted):
            write(target, torch.ones(7))
        assert target.sum() == 0 and target._version == 0


def test_copies_of_expanded_tensors_keep_the_order_of_their_dims():
    row, column = torch.rand(1, 4).expand(3, 4), torch.rand(5, 1, 3).permute(2, 1, 0).expand(3, 4, 5)
    for make in (torch.clone, torch.zeros_like, torch.empty_like, lambda x: torch.full_like(x, 2), lambda x: x.double(), lambda x: x.half(), lambda x: x.int()):
        assert make(row).stride() == (4, 1) and make(column).stride() == (1, 3, 12)
        assert make(torch.rand(3, 1).expand(3, 4)).stride() == (4, 1) and make(torch.rand(3, 1, 5).expand(3, 4, 5)).stride() == (20, 5, 1)
    assert row.clone().view(12).tolist() == row.reshape(12).tolist() and column.clone().tolist() == column.tolist()
    assert torch.equal(row.double().float(), row) and torch.equal(column.bool(), column != 0)


def test_windows_that_step_over_the_input_have_no_gradient():
    for shape, arguments in (((3, 4, 1, 1), (3, 3, 1, 2, True)), ((1, 3, 2, 2), (2, 1, 1, 3))):
        x = torch.rand(shape, requires_grad=True)
        out = F.max_pool2d(x, *arguments)
        grad, = torch.autograd.grad(out.sum(), x)
        assert (out == -float("inf")).all() and grad.shape == shape and not grad.any()
    x = torch.tensor([[[[float("nan")] * 2]]], requires_grad=True)
    grad, = torch.autograd.grad(F.max_pool2d(x, (1, 2), 1, (0, 1), (1, 3)), x, torch.ones(1, 1, 1, 1))
    assert not grad.any()


def test_a_grid_for_no_images():
    image, grid = torch.rand(0, 2, 4, 4, requires_grad=True), torch.rand(0, 3, 5, 2)
    for mode in ("bilinear", "nearest", "bicubic"):
        assert F.grid_sample(image, grid, mode, align_corners=False).shape == (0, 2, 3, 5)
    assert F.grid_sample(torch.rand(0, 2, 4, 4, 4), torch.rand(0, 3, 5, 2, 3), align_corners=True).shape == (0, 2, 3, 5, 2)


def test_rows_that_the_loss_leaves_out():
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[nan, 1, 2], [inf, 1, 2], [1, 2, 3]], requires_grad=True)
    for reduction in ("none", "sum", "mean"):
        grad, = torch.autograd.grad(F.cross_entropy(x, torch.tensor([1, 1, 1]), ignore_index=1, reduction=reduction).sum(), x)
        assert grad[:2].isnan().all() and not grad[2].any()


def test_grid_positions_that_are_no_numbers():
    image = torch.arange(20.0).reshape(1, 1, 5, 4)
    for x, padding in ((float("nan"), "border"), (3e38, "reflection"), (float("nan"), "reflection")):
        grid = torch.tensor([[[[x, 0.3]]]])
        assert F.grid_sample(image, grid, "nearest", padding, align_corners=True).item() == 12
        assert F.grid_sample(image, grid, "bilinear", padding, align_corners=True).item() == pytest.approx(10.4)
        assert F.grid_sample(image, grid, "nearest", align_corners=True).item() == 0
