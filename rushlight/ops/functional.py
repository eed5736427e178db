"""rushlight.nn.functional: everything of PyTorch's, from the op records, and the forms that differ from the torch-level ones.

Families that are not loaded yet come in by `__getattr__`.
"""
from ..core import absent
from . import activation
from . import softmax as plain
from .attach import FUNCTIONAL, publish
from .dispatch import inplace as write_in_place


def relu(input, inplace=False):
    """The larger of input and 0.

    >>> import rushlight as torch
    >>> torch.nn.functional.relu(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return input.relu_() if inplace else activation.relu(input)


def threshold(input, threshold, value, inplace=False):
    """input where it is above threshold, else value.

    >>> import rushlight as torch
    >>> torch.nn.functional.threshold(torch.tensor([0.5, 2.0]), 1, -1)
    tensor([-1.,  2.])
    """
    function = activation.threshold
    return write_in_place(function, input, (threshold, value), {}) if inplace else function(input, threshold, value)


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(input) divided by its sum along dim.

    >>> import rushlight as torch
    >>> torch.nn.functional.softmax(torch.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    if dim is None:
        dim = plain.implicit_dim("softmax", input.ndim)
    return plain.softmax(input, dim, dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """The logarithm of softmax.

    >>> import rushlight as torch
    >>> torch.nn.functional.log_softmax(torch.tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    if dim is None:
        dim = plain.implicit_dim("log_softmax", input.ndim)
    return plain.log_softmax(input, dim, dtype)


for _function in (relu, threshold, softmax, log_softmax):
    publish("nn", _function.__name__, _function)
# The names that are loaded; __getattr__ finds the others.
globals().update((_name, _function) for _name, _function in FUNCTIONAL.present() if not _name.startswith("_"))


def __getattr__(name):
    if name in FUNCTIONAL:
        globals()[name] = function = FUNCTIONAL[name]
        return function
    if name == "__all__":  # `import *`
        return __dir__()
    absent.refuse("rushlight.nn.functional", name)
    raise absent.NoSuchName("rushlight.nn.functional", name, lambda: FUNCTIONAL)


def __dir__():
    return sorted(name for name in FUNCTIONAL if not name.startswith("_"))
