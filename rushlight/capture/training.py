"""Training inside a trace: `backward` as one node of the graph, `zero_grad` and `step` without looking at what they forget.

The stand-ins have real histories, so the leaves of a loss are found by running the real engine on them.  Gradients become
`.grad` effects; optimizers run their rule on tensors.  Read `backward` first.
"""

from functools import partial
from operator import is_
from typing import Any

from ..autograd import api
from ..autograd.engine import reachable
from ..autograd.recorded import gradients, leaf_gradients
from ..core import modes
from ..core.outline import outlines
from ..nn.hooks import BackwardBoundary
from ..nn.module import Module
from ..ops import where, zeros_like
from ..optim import grad_scaler
from ..optim.arithmetic import TENSORS
from ..optim.blocks import fits
from ..optim.lbfgs import LBFGS
from ..optim.optimizer import Optimizer, evaluate
from ..optim.pointwise import PointwiseOptimizer, apply_rule
from ..tensor import PLAIN, OutputEdge, Tensor
from .machine import Break, Restart
from .repeating import Rule
from .traced import Traced


def tensor_backward(self: Any, args: tuple, kwargs: dict) -> Any:
    """`loss.backward(...)`."""
    names = ("self", "gradient", "retain_graph", "create_graph", "inputs")
    given = {name: self.value(value) for name, value in (*zip(names, args), *kwargs.items())}
    gradient = given.get("gradient")
    return backward(self, [given["self"]], [gradient], given)


def function_backward(self: Any, args: tuple, kwargs: dict) -> Any:
    """`autograd.backward(...)`."""
    names = ("tensors", "grad_tensors", "retain_graph", "create_graph", "grad_variables", "inputs")
    given = {name: self.value(value) for name, value in (*zip(names, args), *kwargs.items())}
    roots, gradients = as_list(self, given["tensors"]), as_list(self, given.get("grad_tensors"))
    return backward(self, roots, gradients or [None] * len(roots), given)


def as_list(self: Any, value: Any) -> list:
    if value is None or isinstance(value, Tensor):
        return [value] if value is not None else []
    return [self.value(item) for item in value]


def refuse(reason: str) -> Break:
    return Break("Unsupported backward() call", reason)


def backward(self: Any, roots: list, gradients: list, given: dict) -> None:
    """Record the gradients of the leaves and add them to their `.grad`."""
    create = bool(given.get("create_graph"))
    keep = create if given.get("retain_graph") is None else bool(given["retain_graph"])
    if create:
        if any(id(leaf) in self.cuts for leaf in history_of(self, roots)):
            raise refuse("backward with create_graph through a tensor with hooks")
        api.warn_of_cycles(2)  # PyTorch says it once
    roots, gradients = through_cuts(self, roots, gradients)
    leaves = leaves_of(self, roots)
    if not keep:
        self.spent.update((id(root.stand_in), root.stand_in) for root in roots)
    if given.get("inputs") is not None:
        chosen = as_list(self, given["inputs"])
        if not chosen or not all(any(item is leaf for leaf in leaves) for item in chosen):
            raise refuse("backward into tensors that are no leaves")
        leaves = [leaf for leaf in leaves if any(item is leaf for item in chosen)]
    if not leaves:
        return
    if create:
        found = [self.value(item) for item in recorded_grad(self, roots, leaves, gradients, {"keep": keep, "create": True, "unused": False})]
    else:
        found = differentiate(self, roots, gradients, leaves, keep)
    for leaf, gradient in zip(leaves, found):
        before, after = hooks_of(leaf.real) if leaf.source is not None else ((), ())
        if create and (before or after):
            raise refuse("backward with create_graph into a tensor with hooks")
        for hook in before:
            gradient = hooked(self, hook, gradient)
        if leaf.source is None:
            with modes.set_grad_enabled(create):
                leaf.gradient = gradient if leaf.gradient is None else self.call_op(Tensor.add, (leaf.gradient, gradient), {})
            continue
        accumulate(self, leaf, gradient, create)
        for hook in after:
            hooked(self, hook, leaf)


def accumulate(self: Any, leaf: Any, gradient: Any, recorded: bool = False) -> None:
    """Add to a leaf's `.grad`; to a new tensor with a history where the pass itself is recorded."""
    before = self.value(self.tensor_attribute(leaf, "grad"))
    if before is None:
        self.set_tensor_attribute(leaf, "grad", gradient)
        return
    with modes.set_grad_enabled(recorded):
        if before.source is None or recorded:
            self.set_tensor_attribute(leaf, "grad", self.call_op(Tensor.add, (before, gradient), {}))
        else:
            self.call_op(Tensor.add_, (before, gradient), {})


def hooks_of(tensor: Any) -> tuple[tuple, tuple]:
    """What runs when a leaf's gradient is known, and when it has been added to its `.grad`."""
    meta = tensor._meta
    return ((), ()) if meta is None else (tuple((meta.hooks or {}).values()), tuple((meta.post_hooks or {}).values()))


def hooked(self: Any, hook: Any, value: Any) -> Any:
    """What a hook makes of a gradient (or does with a leaf), as part of the trace."""
    with modes.no_grad():
        found = self.value(self.call(self.ask(self.sources.const(hook, "hook"), hook), (value,), {}))
    if found is None:
        return value
    if type(found) is not Traced or tuple(found.stand_in.shape) != tuple(value.stand_in.shape):
        raise refuse("a hook that gives something else than a gradient")
    return found


class Cut:
    """Tensors whose gradients are to be seen: from there on they stand in the trace as leaves, `before` as they were made."""

    def __init__(self, before: list, after: list, restart: Restart):
        self.before, self.after = before, after
        self.restart = restart  # raised where the history is needed whole: the trace then breaks at the call instead
        self.hooks: list = []  # each takes the gradient of the one tensor
        self.border: Any = None  # takes the gradients of all, where they are the border of a module
        self.retains = False

    def remove(self) -> None:
        """As a handle of `register_hook`."""
        self.hooks.clear()

    def changed(self, tracer: Any, gradients: list) -> list:
        """The gradients as the hooks leave them."""
        with modes.no_grad():
            for hook in self.hooks:
                found = tracer.value(tracer.call(hook, (gradients[0],), {}))
                gradients = gradients if found is None else [found]
            if self.border is not None:
                found = tracer.value(tracer.call(self.border, (tuple(gradients), tuple(gradients)), {}))
                gradients = gradients if found is None else [tracer.value(item) for item in found]
            if any(item is not None and type(item) is not Traced for item in gradients):
                raise refuse("a hook that gives something else than a gradient")
            if self.retains:
                leaf = self.after[0]
                leaf.gradient = gradients[0] if leaf.gradient is None else tracer.call_op(Tensor.add, (leaf.gradient, gradients[0]), {})
        return gradients


def cut(self: Any, tensor: Any, name: str) -> Cut:
    """The history of a tensor that nothing has used yet, cut in two."""
    if type(tensor) is Traced and id(tensor.stand_in) in self.cuts:
        return self.cuts[id(tensor.stand_in)]
    if type(tensor) is not Traced or tensor.source is not None or tensor.stand_in._node is None or tensor.node.users:
        raise Break(f"Unsupported {name}() call", f"{name} acts on the recorded history")
    before = self.trace_of(tensor.node, tensor.stand_in)
    after = leaf_of(self, before)
    tensor.node, tensor.stand_in = after.node, after.stand_in
    self.refresh(tensor)
    self.traced[id(tensor.stand_in)] = tensor
    return cut_at(self, [before], [tensor], name)


def leaf_of(self: Any, before: Any) -> Any:
    """The same tensor as a leaf."""
    after = self.call_op(Tensor.detach, (before,), {})
    self.call_op(Tensor.requires_grad_, (after, True), {})
    return after


def cut_at(self: Any, before: list, after: list, name: str) -> Cut:
    frame = self.active[-1]
    made = Cut(before, after, Restart((id(frame.program), frame.pc), Break(f"Unsupported {name}() call", f"{name} acts on the recorded history")))
    self.cuts.update((id(tensor.stand_in), made) for tensor in after)
    return made


def module_border(self: Any, args: tuple, kwargs: dict) -> Any:
    """`BackwardBoundary._pass_through`: the tensors at a module's border, and a hook on the gradients of all of them."""
    _, values, hook = (self.value(arg) for arg in args)
    items = [self.value(item) for item in values]
    positions = [at for at, item in enumerate(items) if isinstance(item, Tensor)]
    tensors = [items[at] for at in positions]
    if not modes.grad_enabled() or not any(self.value(self.getattr(tensor, "requires_grad")) for tensor in tensors):
        return None, values
    if not all(type(tensor) is Traced and tensor.stand_in._requires_grad for tensor in tensors) or hasattr(values, "_fields"):
        raise Break("Module hook", "a full backward hook of a module that is also given tensors without a gradient")
    after = [leaf_of(self, tensor) for tensor in tensors]
    cut_at(self, tensors, after, "register_full_backward_hook").border = hook
    for at, tensor in zip(positions, after):
        items[at] = tensor
    return positions, tuple(items)


def tensor_register_hook(self: Any, args: tuple, kwargs: dict) -> Any:
    """`register_hook` of a tensor made inside: the hook is part of the trace of `backward`."""
    tensor, hook = (self.value(arg) for arg in args)
    made = cut(self, tensor, "register_hook")
    if made.hooks or made.retains:
        raise Break("Unsupported register_hook() call", "a second hook")
    made.hooks.append(hook)
    return made


def tensor_retain_grad(self: Any, args: tuple, kwargs: dict) -> None:
    tensor = self.value(args[0])
    if type(tensor) is Traced and tensor.stand_in._node is None and id(tensor.stand_in) not in self.cuts:
        raise Break("Unsupported retain_grad() call", "retain_grad of a leaf")
    cut(self, tensor, "retain_grad").retains = True


def through_cuts(self: Any, roots: list, gradients: list) -> tuple[list, list]:
    """The roots of a pass that goes on behind each cut, with what its hooks make of the gradient there."""
    for made in reversed(dict.fromkeys(self.cuts.values())):
        known = [root for root in roots if type(root) is Traced and root.stand_in._requires_grad]
        leaves = history_of(self, roots) if len(known) == len(roots) else ()
        reached = [any(leaf is tensor.stand_in for leaf in leaves) for tensor in made.after]
        if not any(reached):
            continue
        chosen = [tensor for tensor, there in zip(made.after, reached) if there]
        found = iter(recorded_grad(self, roots, chosen, gradients, {"keep": True, "create": False, "unused": False}))
        with modes.no_grad():  # what nothing depends on has a gradient of zeros, as of a Function
            arrived = [next(found) if there else self.call_op(zeros_like, (tensor,), {}) for tensor, there in zip(made.after, reached)]
        passed = made.changed(self, arrived)
        given = [(tensor, gradient) for tensor, gradient in zip(made.before, passed) if gradient is not None]
        roots, gradients = [*roots, *[tensor for tensor, _ in given]], [*gradients, *[gradient for _, gradient in given]]
    return roots, gradients


def has_hooks(tensor: Any) -> bool:
    """Whether something is to run when the tensor's gradient is known."""
    meta = tensor._meta
    if meta is None:
        return False
    node = meta.accumulator and meta.accumulator()
    rare = node.rare if node is not None else None
    return bool(meta.hooks or meta.post_hooks or rare is not None and (rare.tensor_hooks or rare.pre_hooks or rare.post_hooks))


def history_of(self: Any, roots: list) -> set:
    """The leaves that the roots depend on, all of them within the trace; a break where hooks would run on the way."""
    nodes, leaves = [], set()
    for root in roots:
        if type(root) is not Traced or not root.stand_in._requires_grad:
            raise refuse("backward of a tensor that the graph does not know")
        edge = root.stand_in._node
        if edge is None:
            leaves.add(root.stand_in)
        else:
            nodes.append(edge.node if type(edge) is OutputEdge else edge)
    order, found = reachable(nodes)
    leaves |= found
    if any(id(leaf) in self.outer for leaf in leaves):
        raise refuse("backward into a tensor whose history began before the graph")
    for node in order:
        if node.rare is not None and (node.rare.tensor_hooks or node.rare.pre_hooks or node.rare.post_hooks or node.rare.retain):
            raise refuse("backward with hooks")
    return leaves


def leaves_of(self: Any, roots: list) -> list:
    """The tensors that a backward pass from the roots gives a gradient: inputs of the graph in order, then what was made inside."""
    traced = []
    for leaf in history_of(self, roots):
        known = self.traced.get(id(leaf))
        if known is None or id(leaf) in self.cuts:
            continue  # made inside, and nobody can ask for its gradient any more; or its history goes on elsewhere
        if known.stand_in is not leaf:
            raise refuse("backward into a tensor whose data was replaced since")
        if known.source is not None:
            without_hooks(self, known, True)
        elif has_hooks(known.stand_in):
            raise refuse("backward with hooks")
        traced.append(known)
    places = {id(item): at for at, item in enumerate(self.inputs)}
    return sorted(traced, key=lambda item: (places.get(id(item), len(places)), item.node.name))


def without_hooks(self: Any, known: Any, followed: bool = False) -> None:
    """Guard which hooks wait for the gradient of a leaf: none, unless they are `followed`."""
    meta = known.real._meta
    hooks = hooks_of(known.real)
    if meta is not None and meta.accumulator is not None or hooks != ((), ()) and not followed:
        raise refuse("backward with hooks")
    if hooks == ((), ()):
        self.guards.add("tensor hooks", known.source, "not {0}({v})", has_hooks, words=f"{known.source.name} has no hooks")
    else:
        self.guards.add("tensor hooks", known.source, "{0}({v}) == {1}", hooks_of, hooks, words=f"{known.source.name} has the same hooks")


def function_grad(self: Any, args: tuple, kwargs: dict) -> Any:
    """`autograd.grad(...)`."""
    names = ("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph", "only_inputs", "allow_unused", "is_grads_batched",
             "materialize_grads")
    given = {name: self.value(value) for name, value in (*zip(names, args), *kwargs.items())}
    if given.get("is_grads_batched") or given.get("materialize_grads"):
        raise refuse("grad with these arguments")
    roots, wanted, seeds = (as_list(self, given.get(name)) for name in ("outputs", "inputs", "grad_outputs"))
    seeds = seeds or [None] * len(roots)
    if len(seeds) != len(roots) or not wanted or not all(type(item) is Traced for item in (*roots, *wanted)) or any(
            seed is not None and type(seed) is not Traced for seed in seeds):
        raise refuse("grad of tensors that the graph does not know")
    if any(id(leaf) in self.cuts for leaf in history_of(self, roots)):
        raise refuse("grad through a tensor with hooks")
    for item in wanted:
        if item.source is not None and item.stand_in._node is None:
            without_hooks(self, item)
    create = bool(given.get("create_graph"))
    keep = create if given.get("retain_graph") is None else bool(given["retain_graph"])
    return recorded_grad(self, roots, wanted, seeds, {"keep": keep, "create": create, "unused": bool(given.get("allow_unused"))})


def recorded_grad(self: Any, roots: list, wanted: list, seeds: list, options: dict) -> Any:
    """The node `gradients` and its results."""
    self.sync_modes()
    with outlines(self.outlines):
        result = gradients([root.stand_in for root in roots], [item.stand_in for item in wanted],
                           [None if seed is None else seed.stand_in for seed in seeds], **options)
    return self.record(gradients, (roots, wanted, seeds), {name: True for name, value in options.items() if value}, result, [*roots, *wanted])


def differentiate(self: Any, roots: list, gradients: list, leaves: list, keep: bool) -> list:
    """The node `leaf_gradients` and its results."""
    self.sync_modes()
    seen: list = []
    plain = [None if g is None else g.stand_in if type(g) is Traced else g for g in gradients]
    with outlines(self.outlines):
        result = leaf_gradients([root.stand_in for root in roots], plain, [leaf.stand_in for leaf in leaves], keep)
    seen.extend(roots)
    return list(self.record(leaf_gradients, (roots, gradients, leaves), {"keep": True} if keep else {}, result, seen))


def forget_gradients(self: Any, params: Any) -> None:
    for param in params:
        param = self.value(param)
        if type(param) is not Traced:
            raise Break("Untraced tensor", "a parameter that the graph does not know")
        self.set_tensor_attribute(param, "grad", None)


def zero_gradients(self: Any, params: Any) -> bool:
    """Fill gradients with zeros in place; False where one has a history, before anything is recorded."""
    found = []
    for param in params:
        param = self.value(param)
        if type(param) is not Traced:
            return False
        gradient = self.value(self.tensor_attribute(param, "grad"))
        if gradient is not None:
            if type(gradient) is not Traced or gradient.stand_in._requires_grad:
                return False
            found.append(gradient)
    with modes.no_grad():
        for gradient in found:
            self.call_op(Tensor.zero_, (gradient,), {})
    return True


def layout_of(tensor: Tensor) -> tuple:
    array = tensor._array
    return array.shape, array.dtype


class Snapshot:
    """An optimizer's parameters and state tensors as a trace found them, and the shapes and dtypes of the latter."""

    def __init__(self, optimizer: Any, with_state: bool):
        self.groups = [list(group["params"]) for group in optimizer.param_groups]
        self.table = optimizer.state
        self.states = None
        if with_state:
            found = [(param, optimizer.state.get(param)) for params in self.groups for param in params]
            self.states = [(param, state, None if state is None else [*state.values()]) for param, state in found]
            self.tensors = [value for _, _, values in self.states for value in values or () if isinstance(value, Tensor)]
            self.layouts = [layout_of(tensor) for tensor in self.tensors]

    def __call__(self, optimizer: Any) -> bool:
        """Whether the optimizer still holds the same objects, and its state is as it was laid out."""
        groups = optimizer.param_groups
        if len(groups) != len(self.groups):
            return False
        for group, kept in zip(groups, self.groups):
            params = group["params"]
            if len(params) != len(kept) or not all(map(is_, params, kept)):
                return False
        if self.states is not None:
            table = optimizer.state
            if table is not self.table:
                return False
            for param, state, values in self.states:
                if table.get(param) is not state:
                    return False
                if values is not None and not (len(state) == len(values) and all(map(is_, state.values(), values))):
                    return False
            return [*map(layout_of, self.tensors)] == self.layouts
        return True


def guarded(self: Any, optimizer: Any, with_state: bool) -> bool:
    """Guard that the optimizer's tensors stay the same objects; False where it was made, or given others, inside."""
    source = self.source_of(optimizer)
    written = self.attributes.get(id(optimizer), (None, ()))[1]  # a scheduler notes in each step that it was called
    if source is None or "state" in written or "param_groups" in written:
        return False
    key = id(optimizer), with_state
    if key not in self.snapshots:
        made = self.snapshots[key] = Snapshot(optimizer, with_state)
        earlier = self.snapshots.get((id(optimizer), False))
        if with_state and earlier is not None:  # this one asks for more
            self.guards.all[:] = [guard for guard in self.guards.all if guard.operands != (earlier,)]
        what = "parameters and state" if with_state else "parameters"
        self.guards.add("optimizer", source, "{0}({v})", made, words=f"{source.name} has the same {what}")
    return True


def parameter(self: Any, raw: Any, name: str) -> Any:
    return self.load(self.sources.const(raw, name), raw)


def state_tensor(self: Any, raw: Any, name: str) -> Any:
    """A tensor of an optimizer's state, known to be this object; the program looks at its layout."""
    known = self.known.get(id(raw))
    if known is not None:
        return known.value
    source = self.sources.const(raw, name)
    node = self.placeholder(source)
    traced = self.trace_of(node, self.copy_of(raw))
    traced.source, traced.real = source, raw
    self.inputs.append(traced)
    return self.register(raw, traced, source)


def optimizer_params(self: Any, optimizer: Any) -> list:
    if guarded(self, optimizer, False):
        name = self.source_of(optimizer).name
        return [parameter(self, param, f"{name}.params[{i}]") for i, param in enumerate(
            param for group in optimizer.param_groups for param in group["params"])]
    groups = self.value(self.getattr(optimizer, "param_groups"))
    return [param for group in groups for param in self.value(self.getitem(self.value(group), "params"))]


def optimizer_zero_grad(self: Any, args: tuple, kwargs: dict) -> Any:
    """Gradients that are set to None need not be looked at first."""
    to_none = self.value(kwargs.get("set_to_none", args[1] if len(args) > 1 else True))
    optimizer = self.value(args[0])
    if to_none is not True:
        return None if zero_gradients(self, optimizer_params(self, optimizer)) else self.follow(Optimizer.zero_grad, args, kwargs)
    return forget_gradients(self, optimizer_params(self, optimizer))


def module_zero_grad(self: Any, args: tuple, kwargs: dict) -> Any:
    """As an optimizer's."""
    to_none = self.value(kwargs.get("set_to_none", args[1] if len(args) > 1 else True))
    if to_none is not True:
        done = zero_gradients(self, self.follow(list_parameters, args[:1], {}))
        return None if done else self.follow(Module.zero_grad, args, kwargs)
    return forget_gradients(self, self.follow(list_parameters, args[:1], {}))


def list_parameters(module: Any) -> list:
    return list(module.parameters())


def recorded_step(self: Any, closure: Any = None) -> Any:
    """`PointwiseOptimizer.step` as a trace wants it: the rule on tensors, and no plans for flat arrays."""
    loss = evaluate(closure)
    for group in self.param_groups:
        self._step_on_tensors(group)
    return loss


def optimizer_step(self: Any, args: tuple, kwargs: dict) -> Any:
    optimizer = self.value(args[0])
    if not optimizer._traceable:
        raise Break("Optimizer step", f"the rule of {type(optimizer).__name__} depends on the step")
    unless, self.unless = self.unless, None
    if len(args) > 1 or kwargs or not plain(optimizer) or not guarded(self, optimizer, False):
        return followed_step(self, args, kwargs, unless)
    name = self.source_of(optimizer).name
    ready = []
    for at, group in enumerate(optimizer.param_groups):
        for param in group["params"]:
            traced = parameter(self, param, f"{name}.params[{len(ready)}]")
            ready.append((at, param, traced, self.value(self.tensor_attribute(traced, "grad"))))
    ready = [item for item in ready if item[3] is not None]
    if not make_state(optimizer, ready) or not guarded(self, optimizer, True):
        return followed_step(self, args, kwargs, unless)
    groups = self.value(self.getattr(optimizer, "param_groups"))
    if not all(fits(optimizer.state[raw].get(key), raw) for at, raw, _, _ in ready
               for key in optimizer._layout(optimizer.param_groups[at]).slots):
        raise Break("Optimizer step", "state of another shape or dtype than its parameter, for which the step raises")
    with modes.no_grad():
        states = []
        for number, (at, raw, _, _) in enumerate(ready):
            layout = optimizer._layout(optimizer.param_groups[at])
            held = optimizer.state[raw] if layout.names else {}
            states.append({key: state_tensor(self, held[key], f"{name}.state[{number}].{key}") for key in layout.names})
        written = [] if unless is None else [tensor for (_, _, param, _), state in zip(ready, states) for tensor in (param, *state.values())]
        before = [self.call_op(Tensor.clone, (tensor,), {}) for tensor in written]
        rule = Rule(self, optimizer)
        for (at, _, param, grad), state in zip(ready, states):
            given = optimizer, self.value(self.getitem(groups, at)), param, grad, state, optimizer._layout(optimizer.param_groups[at]), TENSORS
            rule.apply(partial(self.follow, apply_rule, given, {}), (at, *state), [param, grad, *state.values()])
        for tensor, kept in zip(written, before):
            self.call_op(Tensor.copy_, (tensor, self.call_op(where, (unless, kept, tensor), {})), {})
    return None


def followed_step(self: Any, args: tuple, kwargs: dict, unless: Any) -> Any:
    """A step by the optimizer's own Python."""
    if unless is not None:
        raise Break("Optimizer step", "a step that may be skipped")
    return self.follow(recorded_step, args, kwargs)


def step_unless(self: Any, args: tuple, kwargs: dict) -> Any:
    """A scaler's step: computed in any case, and kept unless a gradient was not finite."""
    found, optimizer, *rest = (self.value(arg) for arg in args)
    hooked = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    if type(found) is not Traced or not isinstance(optimizer, PointwiseOptimizer) or hooked or rest or kwargs:
        raise Break("Optimizer step", "a step that may be skipped")
    with modes.no_grad():
        self.unless = self.call_op(Tensor.ne, (found, 0), {})
    try:
        return self.call(self.getattr(optimizer, "step"), (), {})
    finally:
        self.unless = None


def searched_step(self: Any, args: tuple, kwargs: dict) -> Any:
    raise Break("Optimizer step", "LBFGS evaluates its closure as often as the values ask for")


def plain(optimizer: Any) -> bool:
    """Whether all that a step does is the rule on real numbers."""
    if type(optimizer)._step_on_tensors is not PointwiseOptimizer._step_on_tensors:
        return False
    for group in optimizer.param_groups:
        if group.get("differentiable") or group.get("capturable") or group.get("fused"):
            return False
        if any(type(param) not in PLAIN or param.is_complex() for param in group["params"]):
            return False
    return True


def make_state(optimizer: Any, ready: list) -> bool:
    """The state that the first step would make, made before it: zeros, so that one translation serves every step.

    False where zeros are not what the first step keeps.
    """
    for at, param, _, _ in ready:
        group = optimizer.param_groups[at]
        layout = optimizer._layout(group)
        if layout.names and any(name not in optimizer.state.get(param, {}) for name in layout.names):
            later = [name for name, fill in layout.slots.items() if fill is None]
            if later and (later != ["momentum_buffer"] or group.get("dampening") != 0):
                return False
            state = optimizer.state[param]
            optimizer._make_state(param, state, layout)
            for name in later:
                if state.get(name) is None:
                    state[name] = zeros_like(param.detach())
    return True


TRAINING = {Tensor.backward: tensor_backward, api.backward: function_backward, api.grad: function_grad, Optimizer.zero_grad: optimizer_zero_grad,
            Module.zero_grad: module_zero_grad, PointwiseOptimizer.__dict__["step"]: optimizer_step,
            grad_scaler.step_unless: step_unless, LBFGS.__dict__["step"]: searched_step, BackwardBoundary.__dict__["_pass_through"]: module_border, Tensor.register_hook: tensor_register_hook, Tensor.retain_grad: tensor_retain_grad}
