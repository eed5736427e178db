"""`autograd.Function`: ops whose derivative the user writes, with PyTorch's two forms of `forward`.

The context that `forward` and `backward` get is the node itself, as in PyTorch.
"""
import functools

import numpy as np

from ..core import modes
from ..core.size import broadcast_shapes
from ..tensor import PLAIN, OutputEdge, Tensor, asarray, bump, counter_of, meta_of, new, tick, user_frame, wrap
from .node import Freed, Node, Packed, alias, rare_of

LEGACY = ("Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function with static forward "
          "method. (Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)")


class FunctionNode(Node):
    """The node, and the `ctx`, of one call of a Function. Attributes that the user sets stay on it."""

    _function = None  # the Function subclass; set on the node class made for it

    def __init__(self, inputs):
        self.rare, self._to_save, self._dirty, self._non_differentiable = None, (), (), ()
        self._materialize, self._kept = True, None
        self.needs_input_grad = tuple(isinstance(value, Tensor) and value._requires_grad for value in inputs)

    def name(self):
        return type(self).__name__

    def __repr__(self):
        return f"<torch.autograd.function.{self.name()} object at {id(self):#x}>"

    # What `forward` (or `setup_context`) calls.

    def save_for_backward(self, *tensors):
        """Keep tensors (or None) for `saved_tensors` in backward."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(f"save_for_backward can only save variables, but argument {tensors.index(tensor)} is of type {type(tensor).__name__}")
        self._to_save = tensors

    def save_for_forward(self, *tensors):
        """Accepted; forward-mode derivatives are computed by differentiating backward twice."""
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors):
        """Say which inputs `forward` changed in place; they must be returned."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors):
        """Say which outputs have no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value):
        """Whether missing gradients arrive in `backward` as zeros (the default) or as None."""
        self._materialize = value

    @property
    def saved_tensors(self):
        """What `save_for_backward` kept; raises after it was freed, or if a tensor was written since."""
        kept = self._kept
        if kept is None:
            return tuple(self._to_save)
        if type(kept) is Freed:
            return self.unpack(kept)
        return tuple(self.restore(saved) for saved in kept)

    @property
    def saved_variables(self):
        return self.saved_tensors

    def keep(self, outputs):
        """Turn what was saved into a form without a reference cycle: outputs of this node are kept by number."""
        hooks = modes.SAVED_HOOKS.get() if modes.flags["special"] else ()
        kept = []
        for tensor in self._to_save:
            number = next((at for at, output in enumerate(outputs) if output is tensor), None)
            if tensor is None:
                kept.append(None)
            elif hooks:
                kept.append(Packed(tensor, hooks[-1], number is not None))
            elif number is not None and tensor not in self._dirty or number is not None and tensor._node is not None:
                kept.append(SavedOutput(tensor, number))
            else:
                kept.append(tensor)
        self._kept = kept

    def restore(self, saved):
        if type(saved) is SavedOutput:
            tensor = alias(saved.twin)
            if self._out_edges[saved.number]:
                tensor._node = OutputEdge(self, saved.number) if self._outputs > 1 else self
                tensor._requires_grad = True
            self.unpack(saved.twin)
            return tensor
        return self.unpack(saved) if saved is not None else None

    # What the engine calls.

    def apply(self, g, freed, need):
        results = self.backward_results(g if self._outputs > 1 else [g], False)
        if freed is not None and self._kept:
            self._kept = freed
        return tuple(None if value is None else value._array for value in results)

    def apply_graph(self, g, freed, need):
        results = self.backward_results(g if self._outputs > 1 else [g], True)
        if freed is not None and self._kept:
            self._kept = freed
        return results

    def backward_results(self, gradients, create):
        function = self._function
        backward = function.vjp if function.backward is Function.backward and function.vjp is not Function.vjp else function.backward
        tensors = []
        for number, gradient in enumerate(gradients):
            if gradient is None:
                shape, dtype = self._shapes[number]
                tensors.append(wrap(np.zeros(shape, dtype)) if self._materialize and shape is not None else None)
            else:
                tensors.append(gradient if create else wrap(asarray(gradient)))
        results = backward(self, *tensors)
        if not isinstance(results, tuple):
            results = (results,)
        count = len(self._inputs_meta)
        if len(results) < count or any(extra is not None for extra in results[count:]):
            raise RuntimeError(f"function {self.name()} returned an incorrect number of gradients (expected {count}, got {len(results)})")
        checked = []
        for index, (value, meta) in enumerate(zip(results, self._inputs_meta)):
            if meta is None:
                if value is not None:
                    raise RuntimeError(f"function {self.name()} returned a gradient different than None at position {index + 1}, but the "
                                       "corresponding forward input was not a Variable")
                continue
            checked.append(None if value is None else self.checked(value, meta, len(checked)))
        return tuple(checked)

    def checked(self, value, meta, index):
        """The gradient in the input's shape and dtype."""
        shape, dtype = meta
        if not isinstance(value, Tensor):
            raise RuntimeError(f"expected Variable or None (got {type(value).__name__}) as gradient of {self.name()} at index {index}")
        if value._array.shape != shape:
            try:
                fits = broadcast_shapes(value._array.shape, shape) == value._array.shape
            except RuntimeError:
                fits = False
            if not fits:
                raise RuntimeError(f"Function {self.name()} returned an invalid gradient at index {index} - got {list(value.shape)} but expected "
                                   f"shape compatible with {list(shape)}")
            value = value.sum_to_size(shape)
        return value if value._dtype is dtype else value.to(dtype)


class SavedOutput:
    """An output that its own node keeps: the values without the way back to the node."""

    __slots__ = ("twin", "number")

    def __init__(self, tensor, number):
        self.number = number
        self.twin = alias(tensor)
        self.twin._node, self.twin._requires_grad = None, False
        self.twin._meta = None
        meta_of(self.twin).counter = counter_of(tensor)


class FunctionMeta(type):
    """Gives each Function its own node class, named as PyTorch names it: `MyOp` -> `MyOpBackward`."""

    def __init__(cls, name, bases, attributes):
        super().__init__(name, bases, attributes)
        cls.node_class = type(name + "Backward", (FunctionNode,), {"_function": cls, "__module__": "torch.autograd.function"})


class Function(metaclass=FunctionMeta):
    """An op with a derivative of your own: subclass it with static `forward` and `backward`, call it with `apply`.

    >>> import rushlight as torch
    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> x = torch.ones(2, requires_grad=True)
    >>> Double.apply(x).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def __init__(self, *args, **kwargs):
        raise_legacy(self)

    def __call__(self, *args, **kwargs):
        raise RuntimeError(LEGACY)

    @staticmethod
    def forward(*args, **kwargs):
        """Compute the outputs. Either `forward(ctx, *inputs)`, or `forward(*inputs)` with `setup_context`."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Save what backward needs, where `forward` takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        """The gradients of the inputs, one for each argument of `forward` (None for what needs none)."""
        raise NotImplementedError("You must implement either the backward or vjp method for your custom autograd.Function to use it with "
                                  "backward mode AD.")

    vjp = backward

    @staticmethod
    def jvp(ctx, *grad_inputs):
        """The forward-mode derivative."""
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with forward mode AD.")

    @staticmethod
    def vmap(info, in_dims, *args):
        """How to map the function over a batch."""
        raise NotImplementedError("To use autograd.Function with vmap, you must either override the vmap static method or set generate_vmap_rule=True.")

    generate_vmap_rule = False

    @classmethod
    def apply(cls, *args, **kwargs):
        """Run the function and record it."""
        for value in args:
            if isinstance(value, Tensor) and type(value) not in PLAIN and hasattr(type(value), "__function__"):
                return type(value).__function__(cls, args, kwargs)
        separate = cls.setup_context is not Function.setup_context
        node = cls.node_class(args)
        recording = modes.grad_enabled() and any(node.needs_input_grad)
        with modes.no_grad():
            if separate:
                output = cls.forward(*args, **kwargs)
                cls.setup_context(node, args, output)
            else:
                output = cls.forward(node, *args, **kwargs)
        if not recording:
            node.keep(())
        single = not isinstance(output, tuple)
        outputs = [output] if single else list(output)
        for position, value in enumerate(outputs):
            if isinstance(value, Tensor) and not any(value is dirty for dirty in node._dirty) and any(value is arg for arg in args):
                outputs[position] = returned_input(node, value, recording)
        if recording:
            record(node, args, outputs)
        return outputs[0] if single else tuple(outputs)


def raise_legacy(function):
    raise RuntimeError(LEGACY)


def returned_input(node, value, recording):
    """An input that `forward` returned as it was: a new tensor over the same memory."""
    with modes.no_grad():
        twin = value.detach() if not recording else value.view_as(value)
    meta_of(twin).made_in_no_grad = False
    return twin


def record(node, args, outputs):
    """Put the node under the outputs."""
    edges, node._inputs_meta = [], []
    for value in args:
        if isinstance(value, Tensor):
            edges.append((value._node or value) if value._requires_grad else None)
            node._inputs_meta.append((value._array.shape, value._dtype))
        else:
            node._inputs_meta.append(None)
    node.edges = tuple(edges)
    node._outputs = len(outputs)
    node._shapes, node._out_edges = [], []
    tensors = []
    differentiable = []
    for value in outputs:
        is_tensor = isinstance(value, Tensor)
        good = is_tensor and (value._dtype.is_floating_point or value._dtype.is_complex) and not any(
            value is other for other in node._non_differentiable)
        node._shapes.append((value._array.shape, value._array.dtype) if is_tensor else (None, None))
        node._out_edges.append(good)
        tensors.append(value)
        if good:
            differentiable.append(value)
    for value in node._dirty:
        if not any(value is output for output in outputs):
            raise RuntimeError("Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified "
                               "inplace must all be outputs of the Function.")
        if value._node is None and value._requires_grad and (value._meta is None or value._meta.base is None):
            raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
    node.seq = tick()
    for number, value in enumerate(outputs):
        if not node._out_edges[number]:
            continue
        edge = OutputEdge(node, number) if node._outputs > 1 else node
        if any(value is other for other in node._dirty):
            bump(value)
            rebase_dirty(value, edge)
            continue
        if value._meta is not None and value._meta.base is not None:
            value._meta.made_in_function = node.name().removesuffix("Backward")
        value._node, value._requires_grad = edge, True
    node.keep([value for value in outputs])
    node.seq = tick()
    if modes.flags["special"] and (modes.LINES.get() or modes.ANOMALY.get() is not None):
        frame = user_frame(3)
        rare_of(node).line = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


rebase_hook = []  # ops/dispatch.py puts its `rebase` here: in-place history is its business


def rebase_dirty(tensor, edge):
    for rebase in rebase_hook:
        rebase(tensor, edge)


def once_differentiable(backward):
    """Decorator for `backward`: its result cannot be differentiated again; doing so raises.

    >>> import rushlight as torch
    >>> torch.autograd.function.once_differentiable
    <function once_differentiable at ...>
    """
    @functools.wraps(backward)
    def wrapped(ctx, *gradients):
        with modes.no_grad():
            results = backward(ctx, *gradients)
        if not modes.grad_enabled() or not any(isinstance(g, Tensor) and g._requires_grad for g in gradients):
            return results
        single = not isinstance(results, tuple)
        outputs = [None if value is None else value.detach() for value in ((results,) if single else results)]
        node = new(OnceDifferentiable)
        node.rare, node.edges, node.seq = None, tuple(g._node or g for g in gradients if isinstance(g, Tensor) and g._requires_grad), tick()
        for value in outputs:
            if value is not None:
                value._node, value._requires_grad = node, True
        return outputs[0] if single else tuple(outputs)
    return wrapped


class OnceDifferentiable(Node):
    """Raises when somebody differentiates what `once_differentiable` returned."""

    __slots__ = ()

    def name(self):
        return "torch::autograd::Error"

    def apply(self, g, freed, need):
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")

    apply_graph = apply


class NestedIOFunction(Function):
    """Not built: flatten nested inputs yourself."""


FunctionCtx = FunctionNode
