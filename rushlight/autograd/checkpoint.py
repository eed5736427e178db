"""Checkpointing: drop what a function's forward saved, and compute it again when backward needs it.

Non-reentrant: saved tensors are replaced by placeholders; the first one asked for re-runs the function and fills all.
Reentrant: the function runs without recording, as one custom Function whose backward runs it again.
"""
import contextlib
import warnings

from ..core import generator, modes
from ..tensor import Tensor
from .api import backward
from .function import Function
from .graph import saved_tensors_hooks


class CheckpointError(RuntimeError):
    """The recomputed forward is not the one that ran first."""


def metadata(tensor):
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


class Frame:
    """One checkpointed call: how to run it again, and what the rerun saved."""

    def __init__(self, rerun, determinism):
        self.rerun, self.determinism = rerun, determinism
        self.saved_metadata, self.recomputed, self.waiting = [], None, 0

    def pack(self, tensor):
        self.saved_metadata.append(metadata(tensor))
        self.waiting += 1
        return len(self.saved_metadata) - 1

    def unpack(self, number):
        if self.recomputed is None:
            self.recompute()
        tensor = self.recomputed.get(number)
        if tensor is None:
            raise CheckpointError("torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. If you are calling "
                                  "ctx.saved_tensors in backward, make sure to do so only once. Otherwise please open an issue with details on "
                                  "your use case.")
        self.waiting -= 1
        if self.waiting == 0:  # everything was used: a second backward computes it again
            self.recomputed, self.waiting = None, len(self.saved_metadata)
        return tensor

    def recompute(self):
        saved = []

        def keep(tensor):
            saved.append(tensor.detach())
            return len(saved) - 1

        with saved_tensors_hooks(keep, lambda number: saved[number]), modes.enable_grad():
            self.rerun()
        if len(saved) != len(self.saved_metadata):
            raise CheckpointError("torch.utils.checkpoint: A different number of tensors was saved during the original forward and recomputation.\n"
                                  f"Number of tensors saved during forward: {len(self.saved_metadata)}\n"
                                  f"Number of tensors saved during recomputation: {len(saved)}.")
        if self.determinism != "none":
            different = [(at, old, metadata(new)) for at, (old, new) in enumerate(zip(self.saved_metadata, saved)) if old != metadata(new)]
            if different:
                text = "".join(f"\ntensor at position {at}:\nsaved metadata: {old}\nrecomputed metadata: {new}" for at, old, new in different)
                raise CheckpointError("torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during the "
                                      "forward pass." + text)
        self.recomputed = dict(enumerate(saved))


def noop_context_fn():
    """The default `context_fn`: no contexts."""
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def rng_fork(state):
    """Run with the default generator in `state`, and put it back after."""
    if state is None:
        yield
        return
    now = generator.default_generator.remember()
    generator.default_generator.go_back(state)
    try:
        yield
    finally:
        generator.default_generator.go_back(now)


def checkpoint(function, *args, use_reentrant=None, context_fn=noop_context_fn, determinism_check="default", debug=False,
               preserve_rng_state=True, early_stop=True, **kwargs):
    """Call `function(*args, **kwargs)` without keeping what it saves for backward; backward runs it again.

    >>> import rushlight as torch
    >>> from rushlight.utils.checkpoint import checkpoint
    >>> x = torch.ones(2, requires_grad=True)
    >>> checkpoint(torch.exp, x, use_reentrant=False).sum().backward()
    >>> x.grad
    tensor([2.7183, 2.7183])
    """
    if use_reentrant is None:
        warnings.warn("torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in PyTorch 2.9, calling checkpoint "
                      "without use_reentrant will raise an exception. use_reentrant=False is recommended, but if you need to preserve the current "
                      "default behavior, you can pass use_reentrant=True. Refer to docs for more details on the differences between the two "
                      "variants.", stacklevel=2)
        use_reentrant = True
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        return Reentrant.apply(function, preserve_rng_state, *args)
    state = generator.default_generator.remember() if preserve_rng_state else None
    forward_context, recompute_context = context_fn()

    def rerun():
        with rng_fork(state), recompute_context:
            function(*args, **kwargs)

    frame = Frame(rerun, determinism_check)
    if not modes.grad_enabled():
        return function(*args, **kwargs)
    with saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        return function(*args, **kwargs)


class Reentrant(Function):
    """The old way: one node whose backward runs the function again and then backward through it."""

    @staticmethod
    def forward(ctx, function, preserve_rng_state, *args):
        if not any(isinstance(arg, Tensor) and arg._requires_grad for arg in args):
            warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=4)
        ctx.function, ctx.args = function, args
        ctx.state = generator.default_generator.remember() if preserve_rng_state else None
        ctx.save_for_backward(*(arg for arg in args if isinstance(arg, Tensor)))
        return function(*args)

    @staticmethod
    def backward(ctx, *gradients):
        ctx.saved_tensors
        detached = []
        for arg in ctx.args:
            if isinstance(arg, Tensor):
                twin = arg.detach()
                twin._requires_grad = arg._requires_grad
                arg = twin
            detached.append(arg)
        with rng_fork(ctx.state), modes.enable_grad():
            outputs = ctx.function(*detached)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [(output, gradient) for output, gradient in zip(outputs, gradients) if isinstance(output, Tensor) and output._requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([output for output, _ in pairs], [gradient for _, gradient in pairs])
        return (None, None, *(arg._grad if isinstance(arg, Tensor) else None for arg in detached))


def checkpoint_sequential(functions, segments, input, use_reentrant=None, preserve_rng_state=True):
    """Run modules one after the other, each of `segments` groups checkpointed but the last.

    functions: a Sequential or a list. segments: how many groups.
    """
    functions = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(functions) // segments

    def group(start, end):
        def run(value):
            for function in functions[start:end]:
                value = function(value)
            return value
        return run

    end = 0
    for start in range(0, size * (segments - 1), size):
        end = start + size
        input = checkpoint(group(start, end), input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state)
    return group(end, len(functions))(input)


def set_checkpoint_early_stop(enable):
    """A context manager, accepted: the recomputation always runs to its end here, which only costs time."""
    return contextlib.nullcontext()


def set_checkpoint_debug_enabled(enabled):
    """A context manager, accepted: the errors name the tensors that differ anyway."""
    return contextlib.nullcontext()


def detach_variable(inputs):
    """The tensors of a tuple without their history, requiring gradients as before; other values as they are."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(value.detach().requires_grad_(value.requires_grad) if isinstance(value, Tensor) else value for value in inputs)


def check_backward_validity(inputs):
    """Warn where no input requires a gradient, so that a reentrant checkpoint would give none."""
    if not any(isinstance(value, Tensor) and value._requires_grad for value in inputs):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


def get_device_states(*args):
    """The devices besides the CPU that the tensors are on, and their generators' states: none."""
    return [], []


def set_device_states(devices, states, *, device_type=None):
    """Put back what `get_device_states` gave."""
