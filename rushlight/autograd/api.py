"""What users call: backward and grad, retain_grad and tensor hooks."""
import weakref
from collections import namedtuple

import numpy as np

from ..core import modes
from ..tensor import OutputEdge, Tensor, asarray, meta_of, tick, wrap
from . import engine
from .node import edge_pair, rare_of, register


def starting_edges(tensors, gradients, create):
    """The roots' edges, and their gradients as the engine wants them; checks shapes and dtypes."""
    edges, starts = [], []
    for index, (tensor, gradient) in enumerate(zip(tensors, gradients)):
        if gradient is None:
            if not tensor._requires_grad:
                if tensor._node is None:
                    raise RuntimeError(f"element {index} of tensors does not require grad and does not have a grad_fn")
            if tensor._array.size != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            if tensor._dtype.is_complex:
                raise RuntimeError("grad can be implicitly created only for real scalar outputs but got " + repr(tensor._dtype))
            if not create and tensor._requires_grad:
                start = np.empty(tensor._array.shape, tensor._array.dtype)
                start.fill(1)
                edges.append(tensor._node or tensor)
                starts.append(start)
                continue
            gradient = wrap(np.ones(tensor._array.shape, tensor._array.dtype))
        else:
            if not isinstance(gradient, Tensor):
                raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
            if gradient._array.shape != tensor._array.shape:
                raise RuntimeError(f"Mismatch in shape: grad_output[{index}] has a shape of {gradient.shape} and output[{index}] has a shape of "
                                   f"{tensor.shape}.")
            if gradient._dtype.is_complex != tensor._dtype.is_complex:
                raise RuntimeError("For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
                                   f"grad_output[{index}] has a dtype of {gradient._dtype!r} and output[{index}] has a dtype of {tensor._dtype!r}.")
        if not tensor._requires_grad:
            raise RuntimeError(f"element {index} of tensors does not require grad and does not have a grad_fn")
        edges.append(tensor._node or tensor)
        if gradient._dtype is not tensor._dtype:
            gradient = gradient.to(tensor._dtype)
        starts.append(gradient if create else gradient._array)
    return edges, starts


GradientEdge = namedtuple("GradientEdge", "node output_nr")


def leaf_of(edge):
    """The leaf that an edge ends at; tensors and other edges as they are."""
    return edge.node.variable if type(edge) is GradientEdge and hasattr(edge.node, "variable") else edge


def as_tuple(value):
    return (value,) if isinstance(value, (Tensor, GradientEdge)) or value is None else tuple(value)


def warn_of_cycles(stacklevel):
    """What is said where `.grad` gets a history."""
    import warnings
    warnings.warn("Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient which can "
                  "cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this. If you have to use this "
                  "function, make sure to reset the .grad fields of your parameters to None after use to break the cycle and avoid the leak.",
                  UserWarning, stacklevel=stacklevel)


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Accumulate the gradients of `tensors` into the leaves they depend on.

    grad_tensors: the gradient of each tensor; None for scalars. retain_graph: keep what the graph saved (default: create_graph).
    create_graph: record the backward pass too. inputs: only these tensors receive gradients.

    >>> import rushlight as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> torch.autograd.backward(x * x)
    >>> x.grad
    tensor(6.)
    """
    tensors = as_tuple(tensors)
    gradients = as_tuple(grad_tensors)
    if grad_tensors is None:
        gradients = (None,) * len(tensors)
    elif len(gradients) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(gradients)} gradients")
    if inputs is not None:
        inputs = as_tuple(inputs) if not isinstance(inputs, Tensor) else (inputs,)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    keep = create_graph if retain_graph is None else retain_graph
    if create_graph:
        warn_of_cycles(4)
    edges, starts = starting_edges(tensors, gradients, create_graph)
    previous = modes.grad_enabled()
    try:  # no `with`: Ctrl-C may come on the way into its `__exit__`, and would leave the mode as it is
        modes.GRAD.set(bool(create_graph))
        if inputs is None:
            engine.run(edges, starts, keep, create_graph)
            engine.PASSES.append(tick())
            return
        wanted, retained = set(), []
        for tensor in inputs:
            if not tensor._requires_grad:
                raise RuntimeError("One of the differentiated Tensors does not require grad")
            if tensor._node is None:
                wanted.add(tensor)
            else:
                wanted.add(edge_pair(tensor._node)[0])
                retained.append((tensor, keep_gradient(tensor)))
        engine.run(edges, starts, keep, create_graph, wanted)
        for tensor, remove in retained:
            remove()
        engine.PASSES.append(tick())
    finally:
        modes.GRAD.set(previous)


def keep_gradient(tensor):
    """For this pass, store the gradient of a non-leaf in its `.grad`; returns how to end that."""
    node, number = edge_pair(tensor._node)
    rare = rare_of(node)
    if rare.retain is None:
        rare.retain = {}
    if number in rare.retain:
        return lambda: None
    rare.retain[number] = weakref.ref(tensor)
    return lambda: rare.retain.pop(number, None)


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True, allow_unused=None,
         is_grads_batched=False, materialize_grads=False):
    """The gradients of `outputs` with respect to `inputs`, as a tuple; `.grad` is not touched.

    allow_unused: None for inputs that the outputs do not depend on, instead of an error. materialize_grads: zeros for them.

    >>> import rushlight as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> torch.autograd.grad(x * x, x)
    (tensor(6.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False.")
    allow_unused = materialize_grads if allow_unused is None else allow_unused
    outputs, inputs = as_tuple(outputs), tuple(map(leaf_of, as_tuple(inputs)))
    gradients = (None,) * len(outputs) if grad_outputs is None else as_tuple(grad_outputs)
    if len(gradients) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(gradients)} gradients")
    if is_grads_batched:
        return batched_grad(outputs, inputs, gradients, retain_graph, create_graph, allow_unused, materialize_grads)
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    keep = create_graph if retain_graph is None else retain_graph
    edges, starts = starting_edges(outputs, gradients, create_graph)
    wanted, keys = set(), []
    for tensor in inputs:
        if type(tensor) is GradientEdge:
            keys.append(tuple(tensor))
            wanted.add(tensor.node)
            continue
        if not tensor._requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
        if tensor._node is None:
            keys.append(tensor)
            wanted.add(tensor)
        else:
            keys.append(edge_pair(tensor._node))
            wanted.add(keys[-1][0])
    capture = dict.fromkeys(keys)
    previous = modes.grad_enabled()
    try:
        modes.GRAD.set(bool(create_graph))
        engine.run(edges, starts, keep, create_graph, wanted, capture)
    finally:
        modes.GRAD.set(previous)
    results = []
    for index, (tensor, key) in enumerate(zip(inputs, keys)):
        value = capture[key]
        if value is None:
            if not allow_unused:
                raise RuntimeError(f"The differentiated Tensor at index {index} appears to not have been used in the graph. Set allow_unused=True "
                                   "if this is the desired behavior.")
            value = wrap(np.zeros(tensor._array.shape, tensor._array.dtype)) if materialize_grads else None
        elif type(tensor) is GradientEdge:
            value = value if isinstance(value, Tensor) else wrap(asarray(value))
        elif not create_graph:
            array = asarray(value)
            array = np.broadcast_to(array, tensor._array.shape).copy() if array.shape != tensor._array.shape else array
            value = wrap(array.astype(tensor._array.dtype, copy=False))
        results.append(value)
    return tuple(results)


def batched_grad(outputs, inputs, gradients, retain_graph, create_graph, allow_unused, materialize_grads):
    """One backward pass for each slice of the gradients along their first dim; the results are stacked."""
    count = next(gradient.shape[0] for gradient in gradients if gradient is not None)
    rows = []
    for at in range(count):
        last = at == count - 1
        keep = bool(retain_graph if retain_graph is not None else create_graph) or not last
        rows.append(grad(outputs, inputs, tuple(None if g is None else g[at] for g in gradients), keep, create_graph, True, allow_unused,
                         False, materialize_grads))
    return tuple(None if column[0] is None else stack_tensors(column, create_graph) for column in zip(*rows))


def stack_tensors(tensors, create):
    if create:
        return Tensor._stacked(tensors)
    return wrap(np.stack([tensor._array for tensor in tensors]))


def directional(outputs, inputs, tangents, create_graph=True):
    """J @ tangents by two backwards: the first with cotangents that are variables, the second by those variables.

    Returns (products, probes, gradients): for each output its directional derivative, None where it depends on no input; those
    variables; and for each input what the first backward gave. No op needs a rule of its own for forward mode this way.
    """
    probes = [output.detach().clone().zero_().requires_grad_() for output in outputs]
    recorded = [(output, probe) for output, probe in zip(outputs, probes) if output._requires_grad]
    gradients = (None,) * len(inputs)
    if recorded:
        gradients = grad([output for output, _ in recorded], inputs, [probe for _, probe in recorded], create_graph=True, allow_unused=True)
    pairs = [(gradient, tangent) for gradient, tangent in zip(gradients, tangents) if gradient is not None and gradient._requires_grad]
    products = (None,) * len(probes)
    if pairs:
        products = grad([gradient for gradient, _ in pairs], probes, [tangent for _, tangent in pairs], create_graph=create_graph, allow_unused=True)
    return products, probes, gradients


def released(result, own):
    """The result without history, unless it depends on a tensor that requires grad and is not one of `own`."""
    if not isinstance(result, Tensor) or not result._requires_grad:
        return result
    if result._node is None:
        return result.detach() if result in own else result
    node = result._node.node if type(result._node) is OutputEdge else result._node
    _, leaves = engine.reachable([node])
    if leaves <= own:
        kind = type(result)
        result = result.detach()
        result._meta = None
        result.__class__ = kind
    return result


def tensor_backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Accumulate the gradients of this tensor into the leaves it depends on. See `autograd.backward`.

    >>> import rushlight as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """
    backward((self,), None if gradient is None else (gradient,), retain_graph, create_graph, inputs=inputs)


def retain_grad(self):
    """Keep the gradient of this non-leaf tensor in its `.grad` during backward."""
    if not self._requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if self._node is None:
        return
    meta_of(self).retains_grad = True
    node, number = edge_pair(self._node)
    rare = rare_of(node)
    if rare.retain is None:
        rare.retain = {}
    rare.retain[number] = weakref.ref(self)


def register_hook(self, hook):
    """Call `hook(grad)` when this tensor's gradient is computed; a returned tensor replaces it. Returns a handle with remove()."""
    if not self._requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._node is None:
        return register(meta_of(self), "hooks", hook)
    node, number = edge_pair(self._node)
    return register(rare_of(node), "tensor_hooks", Numbered(number, hook))


class Numbered(tuple):
    """(output number, hook)."""

    def __new__(cls, number, hook):
        return tuple.__new__(cls, (number, hook))


def register_post_accumulate_grad_hook(self, hook):
    """Call `hook(tensor)` each time after a gradient was added to this leaf's `.grad`."""
    if not self._requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._node is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return register(meta_of(self), "post_hooks", hook)


def detach_(self):
    """Cut this tensor off from its history, in place."""
    if self._meta is not None and self._meta.base is not None:
        raise RuntimeError("Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for training, and "
                           "gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence detach_() cannot be called on "
                           "these gradients. To fix this error, please refer to the Optimizer.zero_grad() function in torch/optim/optimizer.py "
                           "as a solution.")
    self._node, self._requires_grad = None, False
    return self


Tensor.backward, Tensor.retain_grad, Tensor.register_hook = tensor_backward, retain_grad, register_hook
Tensor.register_post_accumulate_grad_hook, Tensor.detach_ = register_post_accumulate_grad_hook, detach_
