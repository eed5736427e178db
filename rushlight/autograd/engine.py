"""The engine: walks back from the roots in the order of the nodes' ages, newest first.

A node is always newer than what it depends on, so descending age is a topological order; no recursion, no
dependency counts.  This is the only place that sums gradients.  It never writes into a buffer that it does not own.
Callers: `backward` and `grad` in autograd/api.py.  Read `run` first.
"""
from collections import deque
from operator import attrgetter
from threading import Lock

import numpy as np

from ..core import memory, modes, quiet
from ..core.parallel import free_in_child
from ..tensor import OutputEdge, Tensor, asarray, ndarray, new, note_writes, user_frame, wrap
from .node import Freed, deliver, state

age = attrgetter("seq")
PASSES: deque[int] = deque(maxlen=4096)  # when each `backward()` ended, on the nodes' clock: diagnostics.leaks tells steps by them


def reachable(roots):
    """All nodes under the roots, oldest first, and the leaves that they end at."""
    seen, leaves, order = set(roots), set(), []
    stack = list(seen)
    pop, push, note, see = stack.pop, stack.append, order.append, seen.add
    while stack:
        node = pop()
        while node is not None:  # follow a chain without the stack
            note(node)
            following = None
            for edge in node.edges:
                if edge is None or edge in seen:
                    continue
                if type(edge) is OutputEdge:
                    edge = edge.node
                    if edge in seen:
                        continue
                elif isinstance(edge, Tensor):
                    leaves.add(edge)
                    continue
                see(edge)
                if following is None:
                    following = edge
                else:
                    push(edge)
            node = following
    order.sort(key=age)
    return order, leaves


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
    wanted: None for all leaves, else a set of leaf tensors and nodes that end the walk.
    capture: None to accumulate into `.grad`; else a dict whose keys (leaf tensor, or (node, number)) receive gradients.
    """
    if quiet.holds():
        walk(roots, gradients, keep, create, wanted, capture)
        return
    with np.errstate(all="ignore"):
        walk(roots, gradients, keep, create, wanted, capture)


def walk(roots, gradients, keep, create, wanted, capture):
    grads, owned = {}, set()  # by node or leaf; `owned`: whose buffer is ours to write into
    starts = []
    for edge, gradient in zip(roots, gradients):
        kind = type(edge)
        if kind is OutputEdge or not isinstance(edge, Tensor):
            starts.append(edge.node if kind is OutputEdge else edge)
        deliver(grads, owned, edge, gradient, create)
    order, leaves = reachable(starts)
    whole = wanted is None or leaves <= wanted and all(isinstance(target, Tensor) for target in wanted)
    need = None if whole else needed(order, wanted)
    frame = None if keep else user_frame(2)  # looked for once: this line frees the graph and writes every leaf
    freed = None if keep else Freed(frame)
    waiting = count_leaf_edges(order) if state.hooks else None
    anomaly = modes.ANOMALY.get() if modes.flags["special"] else None
    plain = waiting is None and anomaly is None and need is None and not create
    if waiting is not None:
        for leaf in [edge for edge in grads if isinstance(edge, Tensor) and edge not in waiting]:
            finish_leaf(leaf, grads.pop(leaf), leaf in owned, create, wanted, capture)
    take = grads.pop
    order.reverse()
    for node in order:
        g = take(node, None)
        if g is None:
            if waiting is not None:
                release_leaves(node, waiting, grads, owned, create, wanted, capture)
            continue
        rare = node.rare
        if plain and rare is None:
            node.propagate(g, grads, owned, freed)
            continue
        if rare is not None:
            g = before(node, rare, g, create)
        if need is not None:
            if node in wanted and capture is not None:
                keep_captured(node, g, capture)
            if node not in need or node in wanted and not any(edge in need for edge in node.edges if edge is not None):
                continue
        results = node.apply_graph(g, freed, need) if create else node.apply(g, freed, need)
        if anomaly:
            look_for_nan(node, results)
        if rare is not None and rare.post_hooks:
            results = after(node, rare, results, g, create)
        if need is not None:
            results = [gradient if edge in need else None for edge, gradient in zip(node.edges, results)]
        for edge, gradient in zip(node.edges, results):
            if gradient is not None and edge is not None:
                if edge in grads or type(edge) is OutputEdge:
                    deliver(grads, owned, edge, gradient, create)
                else:
                    grads[edge] = gradient
        if waiting is not None:
            release_leaves(node, waiting, grads, owned, create, wanted, capture)
    for leaf, gradient in grads.items():
        finish_leaf(leaf, gradient, leaf in owned, create, wanted, capture, frame)


def count_leaf_edges(order):
    """How many edges of the nodes to come lead to each leaf: with hooks about, a leaf is finished when the last has come."""
    waiting = {}
    for node in order:
        for edge in node.edges:
            if isinstance(edge, Tensor):
                waiting[edge] = waiting.get(edge, 0) + 1
    return waiting


def release_leaves(node, waiting, grads, owned, create, wanted, capture):
    """The node is done: leaves that waited for it alone are complete."""
    for edge in node.edges:
        if isinstance(edge, Tensor):
            waiting[edge] -= 1
            if not waiting[edge] and edge in grads:
                finish_leaf(edge, grads.pop(edge), edge in owned, create, wanted, capture)


def finish_leaf(leaf, gradient, owned, create, wanted, capture, frame=None):
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
            gradient = before(node, node.rare, gradient, create)
            owned = False
    accumulate(leaf, gradient, owned, create, frame)
    if node is not None and node.rare is not None and node.rare.post_hooks:
        for hook in list(node.rare.post_hooks.values()):
            hook((), (as_tensor(gradient, create),))
    if meta is not None and meta.post_hooks:
        for hook in list(meta.post_hooks.values()):
            hook(leaf)


def accumulate(leaf, gradient, owned, create, frame):
    """Add to `leaf.grad`: the first gradient is kept (copied unless the buffer is ours), later ones are added in place."""
    if create:
        leaf._grad = gradient if leaf._grad is None else leaf._grad + gradient
        return
    with LEAF_LOCK:  # threads may run backward over graphs that share leaves; NumPy lets go of the GIL while it adds
        accumulate_values(leaf, gradient, owned, frame)


LEAF_LOCK = Lock()
free_in_child(LEAF_LOCK)


def accumulate_values(leaf, gradient, owned, frame):
    old = leaf._grad
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
        if not owned or gradient.base is not None and not memory.owned(gradient) or not gradient.flags.c_contiguous:
            kept = np.empty_like(array)
            np.copyto(kept, gradient)
            gradient = kept
        grad = new(Tensor)
        grad._array, grad._dtype, grad._requires_grad = gradient, leaf._dtype, False
        grad._node = grad._grad = grad._meta = grad._shape = None
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
        note_writes((old,), frame or user_frame(2))


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
                    raise TypeError(f"expected Variable, but hook returned '{type(changed).__name__}' (a Tensor or None is wanted)")
                if changed.shape != tensor.shape:
                    raise RuntimeError(f"hook '{getattr(hook, '__name__', 'hook')}' has changed the size of value")
                tensor = changed
    return as_gradient(tensor, create)


def before(node, rare, g, create):
    """Hooks of the outputs' tensors, then prehooks of the node, then what retain_grad keeps."""
    several = node._outputs > 1
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
    outputs = tuple(as_tensor(part, create) for part in (g if node._outputs > 1 else [g]))
    for hook in list(rare.post_hooks.values()):
        changed = hook(inputs, outputs)
        if changed is not None:
            changed = changed if isinstance(changed, tuple) else (changed,)
            if len(changed) != len(inputs):
                raise RuntimeError(f"hook has changed the number of gradients: expected {len(inputs)}, got {len(changed)}")
            inputs = changed
    return tuple(as_gradient(part, create) for part in inputs)


def keep_captured(node, g, capture):
    if node._outputs == 1:
        if (node, 0) in capture:
            capture[node, 0] = g
        return
    for number in range(node._outputs):
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
