"""Function transforms (`func.grad`, `vmap`, `jacrev`, ...) while translating: they are followed like any Python.

Only their ends need help: taking gradients is one node, and whether a result keeps its history is asked of the
stand-ins.
"""

from typing import Any

from ..autograd.checkpoint import checkpoint, noop_context_fn
from ..func import mapping, transforms
from ..func.modules import functional_call
from ..tensor import Tensor
from .machine import NULL, Break
from .traced import Traced


class Own:
    """The variables that a transform made, by their stand-ins."""

    def __init__(self, leaves: set):
        self.leaves = leaves


def own_leaves(self: Any, args: tuple, kwargs: dict) -> Own:
    return Own({item.stand_in for item in map(self.value, self.value(args[0])) if type(item) is Traced and item.stand_in._node is None})


def released(self: Any, args: tuple, kwargs: dict) -> Any:
    result, own = self.value(args[0]), self.value(args[1])
    if type(result) is not Traced or not result.stand_in._requires_grad:
        return result
    if transforms.released(result.stand_in, own.leaves) is result.stand_in:
        return result
    return self.call_op(Tensor.detach, (result,), {})


def recorded(function: Any) -> Any:
    """The whole function is one node."""
    def call(self: Any, args: tuple, kwargs: dict) -> Any:
        if function is transforms.variable and not isinstance(self.value(args[0]), Tensor):
            return self.value(args[0])
        return self.call_op(function, args, kwargs)
    return call


def call_with(self: Any, args: tuple, kwargs: dict) -> Any:
    """`functional_call`: the module is followed while its parameters read as the given tensors."""
    names = ("module", "parameter_and_buffer_dicts", "args", "kwargs")
    given = {**dict(zip(names, args)), **kwargs}
    module = self.value(given["module"])
    if not self.is_from_before(module) or not self.value(given.get("tie_weights", True)):
        raise Break("Function transform", "functional_call on a module made inside, or without tied weights")
    tensors: dict[str, Any] = {}
    given_dicts = self.value(given["parameter_and_buffer_dicts"])
    for one in given_dicts if isinstance(given_dicts, tuple) else (given_dicts,):
        tensors.update(self.mapping(self.value(one)))
    held = {name: tensor for walk in (module.named_parameters, module.named_buffers) for name, tensor in walk(remove_duplicate=False)}
    for name in list(tensors):
        if name not in held:
            raise Break("Function transform", "functional_call with a name that the module does not have")
        for other, tensor in held.items():  # tied: the same tensor under another name
            if tensor is held[name]:
                tensors.setdefault(other, tensors[name])
    inputs = self.value(given.get("args"))
    inputs = () if inputs is None else tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    undo = []
    try:
        for name, tensor in tensors.items():
            owner = module
            *path, last = name.split(".")
            for part in path:
                owner = self.value(self.getattr(owner, part))
            undo.append(put(self, owner, last, tensor))
        return self.inline(module, *inputs, **(self.value(given.get("kwargs")) or {}))
    finally:
        for restore in reversed(undo):
            restore()


def put(self: Any, owner: Any, name: str, value: Any) -> Any:
    """Let an attribute read as `value` for a while; returns what ends it."""
    shadow = self.known.get(id(owner.__dict__))
    if shadow is not None:
        before = dict.get(shadow.value, name, NULL)
        dict.__setitem__(shadow.value, name, value)
        return lambda: dict.pop(shadow.value, name) if before is NULL else dict.__setitem__(shadow.value, name, before)
    fresh = id(owner) not in self.attributes
    entry = self.attributes.setdefault(id(owner), (owner, {}, {}))
    old = entry[1].get(name, NULL)
    entry[1][name], entry[2][name] = value, "setattr"

    def end() -> None:
        if old is NULL:
            entry[1].pop(name, None)
            entry[2].pop(name, None)
        else:
            entry[1][name] = old
        if fresh and not entry[1]:
            self.attributes.pop(id(owner), None)
    return end


def sample(self: Any, args: tuple, kwargs: dict) -> Any:
    """One slice of what vmap maps over: the samples of the trace are plain."""
    return self.call_op(Tensor.select, args, kwargs)


def plainly(self: Any, args: tuple, kwargs: dict) -> Any:
    return self.value(args[0])


def checkpointed(self: Any, args: tuple, kwargs: dict) -> Any:
    """The function is followed: what is kept for backward and what is computed again is decided for the graph as a whole."""
    given = {name: self.value(value) for name, value in kwargs.items()}
    if given.get("context_fn", noop_context_fn) is not noop_context_fn or given.get("debug"):
        raise Break("Checkpoint", "checkpoint with context_fn or debug=True")
    if not given.get("preserve_rng_state", True):
        raise Break("Checkpoint", "checkpoint with preserve_rng_state=False draws other numbers when it runs again")
    return self.call(args[0], args[1:], {name: value for name, value in kwargs.items() if name not in OPTIONS})


OPTIONS = frozenset(("use_reentrant", "context_fn", "determinism_check", "debug", "preserve_rng_state", "early_stop"))
TRANSFORMS = {mapping.sample: sample, mapping.plainly: plainly, checkpoint: checkpointed, functional_call: call_with, transforms.own_leaves: own_leaves, transforms.released: released, transforms.variable: recorded(transforms.variable),
              transforms.gradients_of: recorded(transforms.gradients_of)}
