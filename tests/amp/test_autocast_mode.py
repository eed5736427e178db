"""autocast: which results are half, nesting, exceptions, decorator."""
import rushlight as torch


def test_matrix_products_are_half_inside_only():
    a = torch.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu"):
        product, total = a @ a, a + a
    assert product.dtype is torch.bfloat16 and total.dtype is torch.float32
    assert (a @ a).dtype is torch.float32
    product.float().sum().backward()
    assert a.grad.dtype is torch.float32 and a.grad.tolist() == [[4, 4], [4, 4]]


def test_state_survives_exceptions_and_nesting():
    try:
        with torch.autocast("cpu"):
            with torch.autocast("cpu", enabled=False):
                assert (torch.ones(1, 1) @ torch.ones(1, 1)).dtype is torch.float32
            assert torch.is_autocast_enabled("cpu")
            raise ValueError
    except ValueError:
        pass
    assert not torch.is_autocast_enabled("cpu")


def test_decorator():
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def product(a):
        return a @ a
    assert product(torch.ones(1, 1)).dtype is torch.bfloat16
