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


def test_an_object_from_before_the_call_does_not_break_the_graph():
    context = torch.autocast("cpu", dtype=torch.bfloat16)

    @torch.autocast("cpu", dtype=torch.bfloat16)
    def decorated(a):
        return a @ a

    def entered(a):
        with context as given:
            return a @ a, given is None

    a = torch.ones(1, 1)
    for function in (lambda a: decorated(a) + 1, entered):
        made = torch.compile(function, backend="eager", fullgraph=True)
        result = made(a)
        assert (result[0] if isinstance(result, tuple) else result).dtype is torch.bfloat16
        assert not torch.is_autocast_enabled("cpu")
    context.enabled = False  # what it holds is looked at again
    assert torch.compile(entered, backend="eager", fullgraph=True)(a)[0].dtype is torch.float32
