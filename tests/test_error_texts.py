"""The error texts that people search for: each of PyTorch's, where its ANCHORS entry has it, is raised with its first words.

Rows that test_bad_inputs.py has are not repeated. Each row: a name, the call, the type, PyTorch's words.
"""
import copy
import warnings

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.autograd import Function
from rushlight.nn import functional as F
from rushlight.utils.data import DataLoader, TensorDataset, default_collate

ones, tensor = torch.ones, torch.tensor
grad = torch.autograd.grad


def leaf(*shape):
    return ones(*shape, requires_grad=True)


class TooMany(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g, g


class WrongShape(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return ones(5)


class NoBackward(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


class NotStatic(Function):
    def forward(self, x):
        return x


class NoForward(nn.Module):
    pass


class NoInit(nn.Module):
    def __init__(self):
        self.layer = nn.Linear(1, 1)


def view_made_in_no_grad():
    base = leaf(2, 2) * 1
    with torch.no_grad():
        view = base[0]
    view.mul_(2)


def with_inference(action):
    with torch.inference_mode():
        x = ones(3)
    return action(x)


def anomaly():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            x = torch.zeros(1, requires_grad=True)
            (x.sqrt() * 0).sum().backward()


def unused():
    x, y = leaf(2), leaf(2)
    grad((x * 2).sum(), y)


def assign_parameter():
    nn.Linear(2, 2).weight = ones(2, 2)


def other_groups():
    a, b = leaf(1), leaf(1)
    one, two = torch.optim.SGD([a], lr=0.1), torch.optim.SGD([a, b], lr=0.1)
    two.load_state_dict(one.state_dict())


def set_flag_of_result():
    y = leaf(2) * 2
    y.requires_grad = False


def hooked_then_changed():
    layer = nn.Linear(2, 2)
    layer.register_full_backward_hook(lambda module, gin, gout: None)
    layer(leaf(1, 2)).add_(1)


def used_after_a_write(view):
    base = leaf(2) * 1
    part = view(base)
    base.mul_(leaf(2))
    (part * 2).sum().backward()


ROWS = [
    # views, versions, in place
    ("in place on one of several views", lambda: (leaf(2, 2) * 1).unbind()[0].mul_(2), RuntimeError,
     "Output 0 of Unbind is a view and is being modified inplace. This view is the output of a function that returns multiple views."),
    ("in place on one of several views without history", lambda: ones(2, 2).unbind()[0].mul_(leaf(2)), RuntimeError,
     "A view was created in no_grad mode and is being modified inplace with grad mode enabled. This view is the output of a function that"),
    ("several views of what was written", lambda: used_after_a_write(lambda x: x.split(1)[0]), RuntimeError,
     "Output 0 of Split is a view and its base or another view of its base has been modified inplace. This view is the output of a function"),
    ("a view made in no_grad of what was written", lambda: used_after_a_write(torch.no_grad()(lambda x: x[:1])), RuntimeError,
     "A view was created in no_grad mode and its base or another view of its base has been modified inplace. Given that this use case is"),
    ("view made in no_grad", view_made_in_no_grad, RuntimeError,
     "A view was created in no_grad mode and is being modified inplace with grad mode enabled."),
    ("in place with a wider result", lambda: ones(3).add_(ones(2, 3)), RuntimeError, "output with shape [3] doesn't match the broadcast shape [2, 3]"),
    ("write to an inference tensor", lambda: with_inference(lambda x: x.add_(1)), RuntimeError,
     "Inplace update to inference tensor outside InferenceMode is not allowed."),
    ("inference tensor saved", lambda: with_inference(lambda x: leaf(3) * x), RuntimeError, "Inference tensors cannot be saved for backward."),
    ("version of an inference tensor", lambda: with_inference(lambda x: x._version), RuntimeError, "Inference tensors do not track version counter."),
    # autograd
    ("an input that was not used", unused, RuntimeError,
     "appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior."),
    ("a gradient of another shape", lambda: torch.autograd.backward(leaf(3) * 2, ones(4)), RuntimeError,
     "Mismatch in shape: grad_output[0] has a shape of torch.Size([4]) and output[0] has a shape of torch.Size([3])."),
    ("item of three", lambda: ones(3).item(), RuntimeError, "a Tensor with 3 elements cannot be converted to Scalar"),
    ("truth of three", lambda: bool(ones(3)), RuntimeError, "Boolean value of Tensor with more than one value is ambiguous"),
    ("deepcopy of a result", lambda: copy.deepcopy(leaf(2) * 2), RuntimeError,
     "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."),
    ("integers requiring grad", lambda: torch.ones(2, dtype=torch.int64, requires_grad=True), RuntimeError,
     "Only Tensors of floating point and complex dtype can require gradients"),
    ("hook on a constant", lambda: ones(2).register_hook(print), RuntimeError, "cannot register a hook on a tensor that doesn't require gradient"),
    ("retain_grad of a constant", lambda: ones(2).retain_grad(), RuntimeError, "can't retain_grad on Tensor that has requires_grad=False"),
    ("requires_grad of a result", set_flag_of_result, RuntimeError,
     "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph that doesn't "
     "require differentiation use var_no_grad = var.detach()."),
    ("backward returns too many", lambda: TooMany.apply(leaf(1)).sum().backward(), RuntimeError,
     "function TooManyBackward returned an incorrect number of gradients (expected 1, got 2)"),
    ("backward returns another shape", lambda: WrongShape.apply(leaf(3)).sum().backward(), RuntimeError,
     "Function WrongShapeBackward returned an invalid gradient at index 0 - got [5] but expected shape compatible with [3]"),
    ("a Function without backward", lambda: NoBackward.apply(leaf(1)).sum().backward(), NotImplementedError,
     "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."),
    ("a Function with instances", lambda: NotStatic()(leaf(1)), RuntimeError, "Legacy autograd function with non-static forward method is deprecated."),
    ("NaN in anomaly mode", anomaly, RuntimeError, "Function 'SqrtBackward0' returned nan values in its 0th output."),
    # shapes and dtypes
    ("cat of other sizes", lambda: torch.cat([ones(2, 3), ones(2, 4)]), RuntimeError,
     "Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4 for tensor number 1 in the list."),
    ("cat of other dims", lambda: torch.cat([ones(2, 3), ones(2)]), RuntimeError, "Tensors must have same number of dimensions: got 2 and 1"),
    ("stack of other sizes", lambda: torch.stack([ones(2, 3), ones(2, 4)]), RuntimeError,
     "stack expects each tensor to be equal size, but got [2, 3] at entry 0 and [2, 4] at entry 1"),
    ("collate of other sizes", lambda: default_collate([ones(2), ones(3)]), RuntimeError,
     "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1"),
    ("too many indices", lambda: ones(3)[0, 0], IndexError, "too many indices for tensor of dimension 1"),
    ("a dim out of range", lambda: ones(3).sum(2), IndexError, "Dimension out of range (expected to be in range of [-1, 0], but got 2)"),
    ("indices that do not broadcast", lambda: ones(4, 4)[tensor([0, 1]), tensor([0, 1, 2])], IndexError,
     "shape mismatch: indexing tensors could not be broadcast together with shapes [2], [3]"),
    ("expand to another size", lambda: ones(2, 3).expand(4, 3), RuntimeError,
     "The expanded size of the tensor (4) must match the existing size (2) at non-singleton dimension 0.  "
     "Target sizes: [4, 3].  Tensor sizes: [2, 3]"),
    ("mm of two dtypes", lambda: ones(2, 2) @ ones(2, 2, dtype=torch.float64), RuntimeError,
     "expected m1 and m2 to have the same dtype, but got: float != double"),
    ("linear of two dtypes", lambda: F.linear(ones(2, 2), ones(2, 2, dtype=torch.float64)), RuntimeError, "same dtype, but got"),
    ("integers plus half in place", lambda: ones(2, dtype=torch.int64).add_(0.5), RuntimeError,
     "result type Float can't be cast to the desired output type Long"),
    ("mean of integers", lambda: ones(2, dtype=torch.int64).mean(), RuntimeError,
     "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: Long"),
    ("a negative step", lambda: ones(3)[::-1], ValueError, "step must be greater than zero"),
    ("batch of another size", lambda: F.cross_entropy(ones(2, 3), tensor([0, 1, 2])), ValueError,
     "Expected input batch_size (2) to match target batch_size (3)."),
    ("targets of int32", lambda: F.cross_entropy(ones(1, 3), tensor([0], dtype=torch.int32)), RuntimeError,
     "expected target dtype to be Long or Byte, but got Int"),
    ("layer_norm of another width", lambda: F.layer_norm(ones(2, 3), [4]), RuntimeError,
     "Given normalized_shape=[4], expected input with shape [*, 4], but got input of size[2, 3]"),
    ("binary_cross_entropy of another shape", lambda: F.binary_cross_entropy(ones(2), ones(3)), ValueError, "Using a target size"),
    # nn and optim
    ("a module before its init", NoInit, AttributeError, "cannot assign module before Module.__init__() call"),
    ("a module without forward", lambda: NoForward()(1), NotImplementedError, 'Module [NoForward] is missing the required "forward" function'),
    ("a tensor as a parameter", assign_parameter, TypeError,
     "cannot assign 'torch.FloatTensor' as parameter 'weight' (torch.nn.Parameter or None expected)"),
    ("no parameters", lambda: torch.optim.SGD([], lr=0.1), ValueError, "optimizer got an empty parameter list"),
    ("a result as a parameter", lambda: torch.optim.SGD([leaf(1) * 2], lr=0.1), ValueError, "can't optimize a non-leaf Tensor"),
    ("another optimizer's state", other_groups, ValueError,
     "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"),
    ("module changed in place after a full hook", hooked_then_changed, RuntimeError,
     "Output 0 of BackwardHookFunction is a view and is being modified inplace. This view was created inside a custom Function"),
    ("tensors of other lengths", lambda: TensorDataset(ones(2), ones(3)), AssertionError, "Size mismatch between tensors"),
    ("shuffle of a batch size of -1", lambda: DataLoader(TensorDataset(ones(2)), batch_size=-1), ValueError,
     "batch_size should be a positive integer value, but got batch_size=-1"),
]


@pytest.mark.parametrize("call, kind, words", [row[1:] for row in ROWS], ids=[row[0].replace(" ", "-") for row in ROWS])
def test_the_text_is_pytorch_s(call, kind, words):
    with pytest.raises(kind) as caught:
        call()
    assert words in " ".join(str(caught.value).split("\n")), f"said: {caught.value}"


WARNINGS = [
    ("grad of a result", lambda: (leaf(2) * 2).grad, "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed."),
    ("mse_loss of another shape", lambda: F.mse_loss(ones(2, 1), ones(2)),
     "Using a target size (torch.Size([2])) that is different to the input size (torch.Size([2, 1])). This will likely lead to incorrect "
     "results due to broadcasting."),
    ("l1_loss of another shape", lambda: F.l1_loss(ones(2, 1), ones(2)), "Using a target size"),
    ("scheduler before optimizer", lambda: torch.optim.lr_scheduler.StepLR(torch.optim.SGD([leaf(1)], lr=0.1), 1).step(),
     "Detected call of `lr_scheduler.step()` before `optimizer.step()`."),
    ("backward with create_graph", lambda: leaf(1).sum().backward(create_graph=True), "Using backward() with create_graph=True will create a reference cycle"),
]


@pytest.mark.parametrize("call, words", [row[1:] for row in WARNINGS], ids=[row[0].replace(" ", "-") for row in WARNINGS])
def test_the_warning_is_pytorch_s(call, words):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        call()
    assert any(words in str(w.message) for w in said), [str(w.message)[:200] for w in said]


@pytest.mark.parametrize("value, name", [
    (torch.Size([1]), "torch.Size"), (torch.float32, "torch.dtype"), (torch.device("cpu"), "torch.device"), (torch.strided, "torch.layout"),
    (torch.Generator(), "torch._C.Generator"), ([1], "list"), (None, "NoneType"), (nn.Linear(1, 1), "Linear")])
@pytest.mark.parametrize("op", [torch.relu, torch.exp, torch.sigmoid])
def test_a_type_is_named_as_pytorch_names_it(op, value, name):
    with pytest.raises(TypeError, match=rf"must be Tensor, not {name}$"):
        op(value)
