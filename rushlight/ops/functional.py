"""rushlight.nn.functional: everything of PyTorch's, from the op records, and the forms that differ from the torch-level ones.

The names are set by `publish`, once all ops are recorded.  Read `SHARED` first.
"""
import difflib

from .attach import FUNCTIONAL, TORCH
from .dispatch import inplace as write_in_place
from .patches import unfold
from .softmax import implicit_dim
from .torch_forms import FORMS, FUNCTIONAL_FORMS

# Torch-level functions that nn.functional has under the same name and signature.
SHARED = ("sigmoid tanh prelu hardshrink celu_ selu_ rrelu_ threshold_ relu_ adaptive_avg_pool1d avg_pool1d bilinear conv1d conv2d conv3d "
          "conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d channel_shuffle native_channel_shuffle cosine_similarity "
          "pairwise_distance pdist pixel_shuffle pixel_unshuffle").split()


def relu(input, inplace=False):
    """The larger of input and 0.

    >>> import rushlight as torch
    >>> torch.nn.functional.relu(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return input.relu_() if inplace else plain_relu(input)


def threshold(input, threshold, value, inplace=False):
    """input where it is above threshold, else value.

    >>> import rushlight as torch
    >>> torch.nn.functional.threshold(torch.tensor([0.5, 2.0]), 1, -1)
    tensor([-1.,  2.])
    """
    plain = TORCH["threshold"]
    return write_in_place(plain, input, (threshold, value), {}) if inplace else plain(input, threshold, value)


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(input) divided by its sum along dim.

    >>> import rushlight as torch
    >>> torch.nn.functional.softmax(torch.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    if dim is None:
        dim = implicit_dim("softmax", input.ndim)
    return TORCH["softmax"](input, dim, dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """The logarithm of softmax.

    >>> import rushlight as torch
    >>> torch.nn.functional.log_softmax(torch.tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    if dim is None:
        dim = implicit_dim("log_softmax", input.ndim)
    return TORCH["log_softmax"](input, dim, dtype)


def in_place(name, plain):
    """`name_(input, ...)` of nn.functional."""
    def function(input, *args, **kwargs):
        return write_in_place(plain, input, args, kwargs)
    function.__name__ = function.__qualname__ = name + "_"
    function.__doc__ = f"In-place version of `{name}`; returns the tensor itself."
    return function


def publish():
    """Fill this module and the `nn` namespace from the records; torch gets the in-place forms it has too."""
    global plain_relu
    plain_relu = TORCH["relu"]
    FUNCTIONAL.update(relu=relu, threshold=threshold, softmax=softmax, log_softmax=log_softmax, unfold=unfold)
    TORCH.update(FORMS)
    FUNCTIONAL.update(FUNCTIONAL_FORMS)
    for name in "relu celu selu rrelu threshold".split():
        TORCH[name + "_"] = in_place(name, TORCH[name])
    for name in "elu hardtanh leaky_relu".split():
        FUNCTIONAL[name + "_"] = in_place(name, FUNCTIONAL[name])
    for name in SHARED:
        if name in TORCH:
            FUNCTIONAL.setdefault(name, TORCH[name])
    globals().update((name, function) for name, function in FUNCTIONAL.items() if not name.startswith("_"))


def __getattr__(name):
    near = difflib.get_close_matches(name, FUNCTIONAL, 1)
    hint = f". Did you mean: '{near[0]}'?" if near else ""
    raise AttributeError(f"module 'rushlight.nn.functional' has no attribute '{name}'{hint}")


def __dir__():
    return sorted(name for name in FUNCTIONAL if not name.startswith("_"))
