"""`autograd.graph`: hooks on saved tensors, anomaly mode, line tracking, and the public names of node classes."""
import warnings

from ..core import modes
from ..tensor import Tensor, bump
from .api import GradientEdge
from .node import Node, edge_pair  # noqa: F401  (Node is public here)


class saved_tensors_hooks:
    """Inside, each tensor saved for backward is replaced by `pack(tensor)`; `unpack` must give it back.

    >>> import rushlight as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), lambda a: torch.from_numpy(a)):
    ...     y = (x.detach() * x).sum()
    >>> y.backward()
    """

    def __init__(self, pack_hook, unpack_hook):
        self.hooks = pack_hook, unpack_hook

    def __enter__(self):
        if disabled.message is not None:
            raise RuntimeError(disabled.message)
        self.previous = modes.SAVED_HOOKS.get()
        modes.SAVED_HOOKS.set((*self.previous, self.hooks))
        modes.Special.enter()

    def __exit__(self, *exc):
        modes.SAVED_HOOKS.set(self.previous)
        modes.Special.leave()


class save_on_cpu(saved_tensors_hooks):
    """Keep copies of saved tensors (they are on the CPU anyway)."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        super().__init__(lambda tensor: tensor.detach().clone(), lambda tensor: tensor)


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """Inside, tensors may be written in place after they were saved for backward: what is saved is a copy. It costs those copies' memory.

    >>> import rushlight as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x * 1
    ...     z = (y * y).sum()
    ...     y.mul_(5).shape
    torch.Size([2])
    >>> z.backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def __init__(self):
        super().__init__(lambda tensor: tensor.clone(), lambda tensor: tensor)

    def __enter__(self):
        super().__enter__()
        return self

    def clear(self):
        """Nothing to do: the copies go with the graph."""


class disabled:
    """Whether saved-tensor hooks are forbidden, and with which words."""

    message = None


class disable_saved_tensors_hooks:
    """Inside, entering `saved_tensors_hooks` raises RuntimeError with this message."""

    def __init__(self, error_message):
        self.message = error_message

    def __enter__(self):
        self.previous, disabled.message = disabled.message, self.message
        if modes.SAVED_HOOKS.get():
            disabled.message = self.previous
            raise RuntimeError(self.message)

    def __exit__(self, *exc):
        disabled.message = self.previous


class set_detect_anomaly:
    """Switch anomaly mode on or off, as a call or for a block: backward then raises at the node that made a NaN.

    >>> import rushlight as torch
    >>> with torch.autograd.set_detect_anomaly(True):
    ...     torch.is_anomaly_enabled()
    True
    """

    def __init__(self, mode, check_nan=True):
        self.previous = modes.ANOMALY.get()
        switch(check_nan if mode else None)

    def __enter__(self):
        return None

    def __exit__(self, *exc):
        switch(self.previous)


class detect_anomaly:
    """Anomaly mode for a block. It slows everything down: for debugging only."""

    def __init__(self, check_nan=True):
        self.check_nan = check_nan
        warnings.warn("Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for debugging.",
                      stacklevel=2)

    def __enter__(self):
        self.previous = modes.ANOMALY.get()
        switch(True if self.check_nan else False)

    def __exit__(self, *exc):
        switch(self.previous)


def switch(value):
    """Set anomaly mode (None: off; else whether to look for NaN) and keep the count of special modes right."""
    before = modes.ANOMALY.get()
    modes.ANOMALY.set(value)
    if before is None and value is not None:
        modes.Special.enter()
    elif before is not None and value is None:
        modes.Special.leave()


def is_anomaly_enabled():
    """Whether anomaly mode is on in this thread."""
    return modes.ANOMALY.get() is not None


def is_anomaly_check_nan_enabled():
    """Whether anomaly mode looks for NaN."""
    return bool(modes.ANOMALY.get())


def track_lines():
    """Inside, each recorded op remembers the line of user code that recorded it; errors of backward then name it.

    >>> import rushlight as torch
    >>> with torch.autograd.track_lines():
    ...     y = torch.ones(1, requires_grad=True) * 2
    """
    return modes.mode(modes.LINES, True)


def get_gradient_edge(tensor):
    """The edge (node, output number) that a tensor's gradient arrives at."""
    if not tensor._requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(*edge_pair(tensor._node or tensor))


def increment_version(tensor):
    """Note a write to a tensor's storage (or several tensors') that was made behind autograd's back, so that backward refuses stale values.

    >>> import rushlight as torch
    >>> x = torch.zeros(2)
    >>> torch.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    for one in (tensor,) if isinstance(tensor, Tensor) else tensor:
        bump(one)


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Call `fn` with the gradients of several tensors: when all have come, or (mode "any") with the first."""
    from threading import Lock
    gradients, lock, done = [None] * len(tensors), Lock(), [0]

    def arrived(index):
        def hook(grad):
            with lock:
                gradients[index] = grad
                done[0] += 1
                complete = done[0] == len(tensors)
                first = done[0] == 1
                if complete:
                    done[0] = 0
            if mode == "any":
                if first:
                    fn(grad)
            elif complete:
                fn(tuple(gradients))
                gradients[:] = [None] * len(tensors)
        return hook

    handles = [tensor.register_hook(arrived(index)) for index, tensor in enumerate(tensors)]

    class Handles:
        def remove(self):
            for handle in handles:
                handle.remove()

        def __enter__(self):
            return self

        def __exit__(self, *exc):
            self.remove()
    return Handles()


class VariableMeta(type):
    """Every tensor is a Variable."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, Tensor)


class Variable(metaclass=VariableMeta):
    """The old name of Tensor: `Variable(x, requires_grad=True)` gives a tensor over the same memory."""

    def __new__(cls, data, requires_grad=False, volatile=None):
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        tensor = data.detach()
        tensor._meta = None
        tensor.requires_grad_(requires_grad)
        return tensor
