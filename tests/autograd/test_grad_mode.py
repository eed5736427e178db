import rushlight as torch
from rushlight.autograd.variable import Variable


def test_names_are_those_of_torch():
    from rushlight.autograd import grad_mode
    assert grad_mode.no_grad is torch.no_grad and grad_mode.set_grad_enabled is torch.set_grad_enabled
    assert torch.autograd.grad_mode.inference_mode is torch.inference_mode and torch.autograd.variable.Variable is Variable is torch.autograd.Variable


def test_the_wish_about_threads_changes_nothing():
    @torch.autograd.set_multithreading_enabled(True)
    def double(x):
        return x * 2

    with torch.autograd.set_multithreading_enabled(False):
        assert double(torch.ones(1, requires_grad=True)).requires_grad


def test_every_tensor_is_a_variable():
    assert isinstance(torch.ones(1), Variable) and isinstance(torch.nn.Parameter(torch.ones(1)), Variable) and not isinstance(3, Variable)
    assert isinstance(Variable(torch.ones(1), requires_grad=True), torch.Tensor)
