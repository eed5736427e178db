"""Operands of a product have one dtype, half types too: PyTorch's words for each op."""
import pytest

import rushlight as torch

F = torch.nn.functional
HALF = {"half": torch.float16, "bfloat16": torch.bfloat16}


@pytest.mark.parametrize("call, words", [
    (lambda t: torch.mm(t(2, 2), torch.ones(2, 2)), "expected m1 and m2 to have the same dtype, but got: c10::"),
    (lambda t: torch.ones(2, 2) @ t(2, 2), "expected m1 and m2 to have the same dtype, but got: float != c10::"),
    (lambda t: torch.mv(t(2, 2), torch.ones(2)), "addmv input tensors must have the same dtype, but got Float, "),
    (lambda t: torch.dot(t(2), torch.ones(2)), "dot : expected both vectors to have same dtype, but found "),
    (lambda t: torch.bmm(t(1, 2, 2), torch.ones(1, 2, 2)), "expected scalar type "),
    (lambda t: torch.addmm(t(2), torch.ones(2, 2), torch.ones(2, 2)), "self and mat2 must have the same dtype, but got "),
    (lambda t: torch.baddbmm(t(2), torch.ones(1, 2, 2), torch.ones(1, 2, 2)), "Input dtypes must be the same, got: input c10::"),
    (lambda t: F.linear(t(1, 2), torch.ones(2, 2)), "expected m1 and m2 to have the same dtype"),
    (lambda t: F.linear(torch.ones(1, 2), torch.ones(2, 2), t(2)), "self and mat2 must have the same dtype, but got "),
])
@pytest.mark.parametrize("dtype", HALF.values(), ids=HALF)
def test_a_half_operand_beside_a_float_one_is_refused(call, words, dtype):
    with pytest.raises(RuntimeError, match=words):
        call(lambda *size: torch.ones(*size, dtype=dtype))
