"""`torch.overrides`: what subclasses and modes make of functions and ops."""
import pytest

import rushlight as torch
from rushlight.overrides import BaseTorchFunctionMode, TorchFunctionMode, handle_torch_function, has_torch_function, wrap_torch_function


class Names(TorchFunctionMode):
    def __init__(self):
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


class Sub(torch.Tensor):
    names: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.names.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


def scaled(x, y, scale=2.0):
    if has_torch_function((x, y)):
        return handle_torch_function(scaled, (x, y), x, y, scale=scale)
    return x * y * scale


def test_a_mode_sees_ops_and_functions_that_ask_and_not_its_own():
    x = torch.ones(2)
    with Names() as mode:
        y = scaled(x, x)
        y.exp_()
    assert mode.names == ["scaled", "exp"] and y.tolist() == pytest.approx([7.389056] * 2)
    assert not has_torch_function((x,))


def test_modes_nest_from_the_inside_out_and_come_before_subclasses():
    Sub.names.clear()
    with Names() as outer, Names() as inner:
        z = torch.ones(2).as_subclass(Sub) + 1
    assert type(z) is Sub and outer.names[-1:] == inner.names[-1:] == Sub.names[-1:] == ["add"]


def test_a_mode_may_change_results_and_gradients_flow():
    class Doubling(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {})) * 2

    x = torch.ones(2, requires_grad=True)
    with Doubling():
        y = x + 1
    y.sum().backward()
    assert y.tolist() == [4, 4] and x.grad.tolist() == [2, 2]


def test_not_implemented_everywhere_is_an_error_and_the_mode_is_left():
    class Never(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="all __torch_function__ handlers returned NotImplemented"), Never():
        torch.ones(1).exp()
    assert torch.ones(1).exp().item() > 2.7


def test_a_compiled_function_runs_op_by_op_inside_a_mode():
    function = torch.compile(lambda x: x.exp() * 2)
    x = torch.ones(3)
    expected = function(x)
    for _ in range(2):
        with Names() as mode:
            result = function(x)
        torch.testing.assert_close(result, expected)
        assert mode.names == ["exp", "mul"]
        torch.testing.assert_close(function(x), expected)


def test_a_wrapped_function_asks_its_arguments():
    @wrap_torch_function(lambda x: (x,))
    def triple(x):
        return x * 3

    Sub.names.clear()
    assert triple(torch.ones(1)).item() == 3
    triple(torch.ones(1).as_subclass(Sub))
    assert "triple" in Sub.names


def test_the_base_mode_changes_nothing():
    with BaseTorchFunctionMode():
        assert torch.ones(2).add(1).tolist() == [2, 2]


def test_names():
    assert torch.overrides.resolve_name(torch.add) == "torch.add"
    assert torch.overrides.is_tensor_method_or_property(torch.Tensor.add)
    assert not torch.overrides.is_tensor_method_or_property(torch.zeros)
