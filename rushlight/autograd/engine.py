"""The engine: walks back from the roots in the order of the nodes' ages, newest first.

A node is always newer than what it depends on, so descending age is a topological order; no recursion, no
dependency counts.  This is the only place that sums gradients.  It never writes into a buffer that it does not own.
Callers: `backward` and `grad` in autograd/api.py.  Read `run` first.
"""
from operator import attrgetter

import numpy as np

from ..core import modes
from ..tensor import OutputEdge, Tensor, asarray, bump, ndarray, new, wrap
from .node import Freed, state, user_frame

age = attrgetter("seq")
contiguous = np.ascontiguousarray


def reachable(roots):
    """All nodes under the roots, oldest first."""
    seen, stack = set(), []
    for root in roots:
        if root not in seen:
            seen.add(root)
            stack.append(root)
    order = []
    push, note = stack.append, order.append
    while stack:
        node = stack.pop()
        note(node)
        for edge in node.edges:
            if edge is not None and edge not in seen:
                if type(edge) is OutputEdge:
                    edge = edge.node
                    if edge in seen:
                        continue
                elif isinstance(edge, Tensor):
                    continue
                seen.add(edge)
                push(edge)
    order.sort(key=age)
    return order


def needed(order, wanted):
    """The nodes and edges on a path to something wanted (leaf tensors, or nodes of non-leaf tensors)."""
    need = set(wanted)
    for node in order:
        for edge in node.edges:
            if edge is not None and (edge in need or type(edge) is OutputEdge and edge.node in need):
                need.add(node)
                need.add(edge)
    return need




def run(roots, gradients, keep, create, wanted=None, capture=None):
    """Propagate `gradients` of `roots` (edges) back.

    roots: nodes, OutputEdges or leaf tensors. gradients: ndarrays (Tensors when `create`).
    wanted: None for all leaves, else a set of leaf tensors and nodes/(node, number) that end the walk.
    capture: None to accumulate into `.grad`; else a dict whose keys (leaf tensor, or (node, number)) receive gradients.
    """
    grads, leaves = {}, {}
    starts = []
    for edge, gradient in zip(roots, gradients):
        if type(edge) is OutputEdge:
            starts.append(edge.node)
            deliver_output(grads, edge, gradient, create)
        elif isinstance(edge, Tensor):
            leaves[edge] = add(leaves[edge][0], gradient, False, create) if edge in leaves else (gradient, False)
        else:
            starts.append(edge)
            if edge.outputs > 1:
                deliver_output(grads, OutputEdge(edge, 0), gradient, create)
            else:
                grads[edge] = add(grads[edge][0], gradient, False, create) if edge in grads else (gradient, False)
    order = reachable(starts)
    need = None if wanted is None else needed(order, wanted)
    freed = None if keep else Freed(user_frame(2))
    waiting = count_leaf_edges(order, grads, need) if state.hooks else None
    if waiting is not None:
        for leaf in [leaf for leaf in leaves if leaf not in waiting]:
            finish_leaf(leaf, *leaves.pop(leaf), create, wanted, capture)
    anomaly = modes.flags["special"] and modes.ANOMALY.get()
    while order:
        node = order.pop()
        entry = grads.pop(node, None)
        if entry is None:
            if waiting is not None:
                release_leaves(node, waiting, leaves, create, wanted, capture)
            continue
        g = entry[0]
        rare = node.rare
        if rare is not None:
            g = before(node, rare, g, create, capture)
        if capture is not None and (node, 0) in capture or capture is not None and node.outputs > 1:
            keep_captured(node, g, capture)
        if need is not None and node not in need:
            continue
        if need is not None and node in wanted and not any(edge in need for edge in node.edges if edge is not None):
            continue
        if create:
            results = node.apply_graph(g, freed, need)
        else:
            results = node.apply(g, freed, need)
        if anomaly is not None and anomaly is not False and anomaly != 0:
            look_for_nan(node, results)
        if rare is not None and rare.post_hooks:
            results = after(node, rare, results, g, create)
        for edge, gradient in zip(node.edges, results):
            if gradient is None or edge is None:
                continue
            if need is not None and edge not in need:
                continue
            kind = type(edge)
            if kind is OutputEdge:
                deliver_output(grads, edge, gradient, create)
            elif isinstance(edge, Tensor):
                old = leaves.pop(edge, None)  # popped, so that the dict's order is the order of completion
                leaves[edge] = (gradient, False) if old is None else add(old[0], gradient, old[1], create)
            elif edge.outputs > 1:
                deliver_output(grads, OutputEdge(edge, 0), gradient, create)
            else:
                old = grads.get(edge)
                grads[edge] = (gradient, False) if old is None else add(old[0], gradient, old[1], create)
        if waiting is not None:
            release_leaves(node, waiting, leaves, create, wanted, capture)
    while leaves:
        leaf = next(iter(leaves))
        finish_leaf(leaf, *leaves.pop(leaf), create, wanted, capture)


def add(old, gradient, owned, create):
    """The sum of two gradients, and whether its buffer is ours to write into."""
    if create:
        return old + gradient, False
    if owned and old.shape == gradient.shape and old.dtype == gradient.dtype:
        np.add(old, gradient, out=old)
        return old, True
    if old.dtype.kind == "V":  # bfloat16: widen, add, round once
        return (old.astype(np.float32) + gradient.astype(np.float32)).astype(old.dtype), True
    return asarray(old + gradient), True


def deliver_output(grads, edge, gradient, create):
    """Add to one output's gradient of a node with several outputs."""
    node = edge.node
    entry = grads.get(node)
    if entry is None:
        entry = grads[node] = ([None] * node.outputs, False)
    slots = entry[0]
    old = slots[edge.number]
    slots[edge.number] = gradient if old is None else add(old, gradient, False, create)[0]


def count_leaf_edges(order, grads, need):
    """How many edges of the nodes to come lead to each leaf: with hooks about, a leaf is finished when the last has come."""
    waiting = {}
    for node in order:
        for edge in node.edges:
            if isinstance(edge, Tensor):
                waiting[edge] = waiting.get(edge, 0) + 1
    return waiting


def release_leaves(node, waiting, leaves, create, wanted, capture):
    for edge in node.edges:
        if isinstance(edge, Tensor):
            waiting[edge] -= 1
            if not waiting[edge] and edge in leaves:
                finish_leaf(edge, *leaves.pop(edge), create, wanted, capture)


def finish_leaf(leaf, gradient, owned, create, wanted, capture):
    """Run the leaf's hooks, then hand the gradient over: to the caller who asked, or into `.grad`."""
    meta = leaf._meta
    if meta is not None and meta.hooks:
        gradient = run_tensor_hooks(meta.hooks.values(), gradient, create)
        owned = False
    if capture is not None:
        if leaf in capture:
            capture[leaf] = gradient
        return
    if wanted is not None and leaf not in wanted:
        return
    node = None
    if meta is not None and meta.accumulator is not None:
        node = meta.accumulator()
        if node is not None and node.rare is not None and node.rare.pre_hooks:
            gradient = before(node, node.rare, gradient, create, None)
            owned = False
    accumulate(leaf, gradient, owned, create)
    if node is not None and node.rare is not None and node.rare.post_hooks:
        for hook in list(node.rare.post_hooks.values()):
            hook((), (as_tensor(gradient, create),))
    if meta is not None and meta.post_hooks:
        for hook in list(meta.post_hooks.values()):
            hook(leaf)


def accumulate(leaf, gradient, owned, create):
    """Add to `leaf.grad`: the first gradient is kept (copied unless the buffer is ours), later ones are added in place."""
    old = leaf._grad
    if create:
        leaf._grad = gradient if old is None else old + gradient
        return
    array = leaf._array
    if type(gradient) is not ndarray:
        gradient = asarray(gradient)
    if gradient.dtype != array.dtype:
        gradient = gradient.astype(array.dtype)
        owned = True
    if gradient.shape != array.shape:
        gradient = np.broadcast_to(gradient, array.shape)
        owned = False
    if old is None:
        if not owned or gradient.base is not None or not gradient.flags.c_contiguous:
            kept = np.empty_like(array)
            np.copyto(kept, gradient)
            gradient = kept
        grad = new(Tensor)
        grad._array, grad._dtype, grad._requires_grad = gradient, leaf._dtype, False
        grad._node = grad._grad = grad._meta = None
        leaf._grad = grad
    elif old._requires_grad:
        with modes.no_grad():
            leaf._grad = wrap(asarray(old._array + gradient))
    else:
        target = old._array
        if target.dtype.kind == "V":
            target[...] = target.astype(np.float32) + gradient.astype(np.float32)
        else:
            np.add(target, gradient, out=target)
        bump(old, 3)


def as_tensor(gradient, create):
    if gradient is None or create and isinstance(gradient, Tensor):
        return gradient
    return wrap(gradient if type(gradient) is ndarray else asarray(gradient))


def as_gradient(value, create):
    return value if create or value is None else value._array


def run_tensor_hooks(hooks, gradient, create):
    """Each hook sees what its predecessor returned."""
    tensor = as_tensor(gradient, create)
    with modes.enable_grad() if create else modes.no_grad():
        for hook in list(hooks):
            changed = hook(tensor)
            if changed is not None:
                if not isinstance(changed, Tensor):
                    raise TypeError(f"hook returned {type(changed).__name__}: expected a Tensor or None")
                if changed.shape != tensor.shape:
                    raise RuntimeError(f"hook '{getattr(hook, '__name__', 'hook')}' has changed the size of value")
                tensor = changed
    return as_gradient(tensor, create)


def before(node, rare, g, create, capture):
    """Hooks of the outputs' tensors, then prehooks of the node, then what retain_grad keeps."""
    several = node.outputs > 1
    if rare.tensor_hooks:
        parts = g if several else [g]
        for number, hook in list(rare.tensor_hooks.values()):
            if parts[number] is not None:
                parts[number] = run_tensor_hooks([hook], parts[number], create)
        g = parts if several else parts[0]
    if rare.pre_hooks:
        values = tuple(as_tensor(part, create) for part in (g if several else [g]))
        for hook in list(rare.pre_hooks.values()):
            changed = hook(values)
            if changed is not None:
                values = changed if isinstance(changed, tuple) else (changed,)
        parts = [as_gradient(value, create) for value in values]
        g = parts if several else parts[0]
    if rare.retain:
        for number, reference in rare.retain.items():
            tensor, part = reference(), (g[number] if several else g)
            if tensor is not None and part is not None:
                if tensor._grad is None:
                    kept = part if create else wrap(np.array(part))
                    tensor._grad = kept
                elif create:
                    tensor._grad = tensor._grad + part
                else:
                    tensor._grad = wrap(asarray(tensor._grad._array + part))
    return g


def after(node, rare, results, g, create):
    """Post hooks of the node."""
    inputs = tuple(as_tensor(part, create) for part in results)
    outputs = tuple(as_tensor(part, create) for part in (g if node.outputs > 1 else [g]))
    for hook in list(rare.post_hooks.values()):
        changed = hook(inputs, outputs)
        if changed is not None:
            changed = changed if isinstance(changed, tuple) else (changed,)
            if len(changed) != len(inputs):
                raise RuntimeError(f"hook has changed the number of gradients: expected {len(inputs)}, got {len(changed)}")
            inputs = changed
    return tuple(as_gradient(part, create) for part in inputs)


def keep_captured(node, g, capture):
    if node.outputs == 1:
        if (node, 0) in capture:
            capture[node, 0] = g
        return
    for number in range(node.outputs):
        if (node, number) in capture:
            capture[node, number] = g[number]


def look_for_nan(node, results):
    for number, gradient in enumerate(results):
        array = gradient._array if isinstance(gradient, Tensor) else gradient
        if array is not None and array.dtype.kind in "fc" and np.isnan(array).any():
            message = f"Function '{node.name()}' returned nan values in its {number}th output."
            if node.rare is not None and node.rare.stack:
                import warnings
                warnings.warn(f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{node.rare.stack}",
                              stacklevel=4)
            if node.rare is not None and node.rare.line:
                message += f" It was recorded at {node.rare.line}."
            raise RuntimeError(message)
