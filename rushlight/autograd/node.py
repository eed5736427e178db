"""Nodes of the recorded graph.  One class per op is made from its record (ops/generate.py); this is their base.

A node holds `edges` (for each input: the node that made it, an OutputEdge, the leaf tensor itself, or None),
`seq` (its age on tensor.tick's clock), `rare` (hooks, recorded line; None mostly) and the values that the
op's grad rules name.  `apply` runs the rules on ndarrays, `apply_graph` runs the same rules on Tensors.
"""
import weakref
from collections import OrderedDict

import numpy as np

from ..core import dtypes
from ..core.clock import Counter, line_of
from ..core.hooks import RemovableHandle
from ..tensor import OutputEdge, Tensor, asarray, meta_of, new, root_of

SECOND_BACKWARD = ("Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
                   "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
                   "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
                   "after calling backward.")


presenters = {}  # kind of record -> how its nodes show their edges; filled by the row above (ops/presented.py)
records = {}  # name -> record of an op that is loaded; filled by ops/record.py, read by the profiler


class Rare:
    """What few nodes have. Defaults stand on the class."""

    pre_hooks = post_hooks = None  # node hooks, by id
    tensor_hooks = None  # (output number, hook) by id: hooks of non-leaf tensors
    retain = None  # output number -> weak reference to the tensor that keeps its gradient
    line = None  # "file:line" of the user's code that recorded the op
    stack = None  # formatted stack of that moment (anomaly mode)
    metadata = None
    shown = None  # the edges that next_functions shows, where they are not the node's own
    hook_order = 0


class Freed:
    """Stands where a saved value was, and remembers which line ran the backward that freed it."""

    __slots__ = ("code", "instruction")
    _meta = True  # makes every reader of saved tensors look closer

    def __init__(self, frame):
        self.code, self.instruction = frame.f_code, frame.f_lasti

    def where(self):
        return f"{self.code.co_filename}:{line_of(self.code, self.instruction)} in {self.code.co_name}"


class Packed:
    """A saved tensor as a pack hook returned it."""

    __slots__ = ("content", "unpack", "edge", "requires_grad")
    _meta = True

    def __init__(self, tensor, hooks, is_output=False):
        pack, self.unpack = hooks
        self.requires_grad = tensor._requires_grad
        self.edge = None if is_output else tensor._node or (tensor if tensor._requires_grad else None)
        # the hook sees values without history, as in PyTorch: it may call .numpy(), and what it keeps holds no graph alive
        self.content = pack(tensor if is_output else tensor.detach())


def alias(tensor):
    """The same values and history in a new Tensor object."""
    twin = new(Tensor)
    twin._array, twin._dtype, twin._requires_grad = tensor._array, tensor._dtype, tensor._requires_grad
    twin._node, twin._grad, twin._meta, twin._shape = tensor._node, None, tensor._meta, None
    return twin


class Node:
    """One recorded op. `rushlight.autograd.graph.Node` in the public API."""

    __slots__ = ("edges", "seq", "rare", "__weakref__")
    saved = ()  # names of the saved values, as the op's parameters are called
    _outputs = 1
    op = None
    label: str | None = None  # where name() is not the class's name
    saves_out = False
    private_out = False  # see Op

    def name(self):
        """The node's name, as PyTorch writes it."""
        return self.label or type(self).__name__

    def __repr__(self):
        return f"<{self.name()} object at {id(self):#x}>"

    @property
    def next_functions(self):
        """Pairs (node, output number), one for each input; (None, 0) where no gradient is needed."""
        present = presenters.get(self.op.__class__)
        return tuple(edge_pair(edge) for edge in self.edges) if present is None else present(self)

    @property
    def metadata(self):
        """A dict for the user's own notes."""
        rare = rare_of(self)
        if rare.metadata is None:
            rare.metadata = {}
        return rare.metadata

    def _sequence_nr(self):
        return self.seq

    def register_hook(self, hook):
        """Call `hook(grad_inputs, grad_outputs)` after the node ran; what it returns replaces grad_inputs."""
        return register(rare_of(self), "post_hooks", hook)

    def register_prehook(self, hook):
        """Call `hook(grad_outputs)` before the node runs; what it returns replaces them."""
        return register(rare_of(self), "pre_hooks", hook)

    def _register_hook_dict(self, tensor):
        return None

    def __getattr__(self, name):
        if name.startswith("_saved_"):
            return self.saved_value(name[7:])
        if name.startswith("_raw_saved_"):
            return SavedHandle(self, name[11:])
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __dir__(self):
        """With the saved values, under PyTorch's names: tools that draw graphs look for `_saved_*` here."""
        return [*super().__dir__(), *(f"_saved_{shown_name(name)}" for name in self.saved)]

    def saved_value(self, name):
        own = SAVED_NAMES.get(name, name)
        if name.endswith(SIZES):
            base = name.removesuffix(SIZES)
            own = SAVED_NAMES.get(base, base) + "_shape"
        for candidate in (own, name):
            if candidate in self.saved:
                try:
                    value = object.__getattribute__(self, candidate)
                except AttributeError:
                    return None
                break
        else:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '_saved_{name}'")
        if candidate == "out":
            return self.unpack_out()
        if type(value) is Freed:
            raise second_backward(self, value)
        if isinstance(value, (Tensor, Packed)):
            return self.unpack(value)
        return value

    def propagate(self, g, grads, owned, freed):
        """Run `apply` and hand the gradients on; generated nodes do both in one piece."""
        for edge, gradient in zip(self.edges, self.apply(g, freed, None)):
            if gradient is not None and edge is not None:
                if edge in grads or type(edge) is OutputEdge:
                    deliver(grads, owned, edge, gradient, False)
                else:
                    grads[edge] = gradient

    def watch_output(self, counter, number=0):
        """The output's storage got a version counter: keep it if the output was saved."""
        if self.saves_out and type(getattr(self, "guard", None)) is not Freed and self.guard is not UNSHARED:
            self.guard = counter if self._outputs == 1 else (*(getattr(self, "guard", None) or ()), (number, counter))

    def unshare_out(self):
        """A write to the output is about to come, and the rule's own copy may not change (see Op.private_out)."""
        if type(self.out) is np.ndarray and self.guard is not UNSHARED and (self.guard is None or self.guard.last <= self.seq):
            self.out, self.guard = self.out.copy(), UNSHARED

    def unpack(self, saved):
        """The saved tensor behind `saved`, checked: not freed, and not written since it was saved."""
        kind = type(saved)
        if kind is Freed:
            raise second_backward(self, saved)
        if kind is Packed:
            return unpack_hooked(saved)
        if kind in (float, int, bool, complex) or kind is not Tensor and not isinstance(saved, Tensor):
            return saved
        root_meta = root_of(saved)._meta
        if root_meta is not None and root_meta.counter is not None and root_meta.counter.last > self.seq:
            raise modified(self, saved, root_meta.counter)
        return saved

    def raw_value(self, saved):
        """The ndarray (or number, or None) behind what was saved, checked like `unpack`."""
        value = self.unpack(saved)
        return value._array if isinstance(value, Tensor) else value

    def unpack_out(self):
        """The saved output as a Tensor with its history, checked like `unpack`; a list of several."""
        guard, out = self.guard, self.out
        if type(out) is Freed:
            raise second_backward(self, out)
        if type(out) is tuple:
            return [self.unpack_part(part, number) for number, part in enumerate(out)]
        if type(out) is Packed:
            tensor = alias(unpack_hooked(out))
            tensor._node, tensor._requires_grad = self, True
            return tensor
        if guard is not None and guard.last > self.seq:
            raise modified(self, None, guard)
        tensor = new(Tensor)
        tensor._array, tensor._requires_grad, tensor._node = out, True, self
        tensor._dtype, tensor._grad, tensor._meta, tensor._shape = dtypes.BY_NUMPY[out.dtype], None, None, None
        return tensor

    def unpack_part(self, out, number):
        """One of several saved outputs."""
        tensor = alias(unpack_hooked(out)) if type(out) is Packed else new(Tensor)
        if type(out) is not Packed:
            tensor._array, tensor._dtype = out, dtypes.BY_NUMPY[out.dtype]
            tensor._grad = tensor._meta = tensor._shape = None
        recorded = tensor._dtype.category >= dtypes.FLOAT and number in self.op.differentiable
        tensor._requires_grad, tensor._node = recorded, OutputEdge(self, number) if recorded else None
        for at, counter in self.guard or ():
            if at == number and counter.last > self.seq:
                raise modified(self, tensor, counter)
        return tensor


UNSHARED = Counter()  # never written: the guard of a saved output that is the node's own copy
SAVED_NAMES = {"self": "input", "result": "out", "output": "out"}  # PyTorch's name -> the rules'
SIZES = "_sym_sizes"  # what PyTorch calls a saved shape


def shown_name(name):
    """PyTorch's name for a saved value."""
    base, suffix = (name.removesuffix("_shape"), SIZES) if name.endswith("_shape") else (name, "")
    return {"input": "self", "out": "result"}.get(base, base) + suffix


class SavedHandle:
    """`node._raw_saved_X`: lets hooks be put on one saved tensor."""

    def __init__(self, node, name):
        self.node, self.name = node, SAVED_NAMES.get(name, name)
        if self.name not in node.saved:
            raise AttributeError(f"'{type(node).__name__}' object has no attribute '_raw_saved_{name}'")

    def register_hooks(self, pack, unpack):
        """Replace the saved tensor by `pack(tensor)`; `unpack` gives it back in backward."""
        if self.name == "out":
            tensor = self.node.unpack_out()
            self.node.out, self.node.guard = Packed(tensor.detach(), (pack, unpack), True), True
        else:
            saved = object.__getattribute__(self.node, self.name)
            if type(saved) is Freed:
                raise second_backward(self.node, saved)
            if type(saved) is Packed:
                raise RuntimeError("Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks "
                                   "is allowed at a time.")
            setattr(self.node, self.name, Packed(saved, (pack, unpack)))


def unpack_hooked(packed):
    tensor = packed.unpack(packed.content)
    if not isinstance(tensor, Tensor):
        raise TypeError(f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(tensor).__name__}")
    twin = alias(tensor)
    twin._meta = None
    edge = packed.edge
    twin._requires_grad = packed.requires_grad
    if edge is not None and isinstance(edge, Tensor):
        if edge._array is tensor._array:
            return edge
        return LeafStandIn.of(twin, edge)
    twin._node = edge
    return twin


class LeafStandIn(Node):
    """Passes a gradient on to a leaf whose saved values came back from a hook as another tensor."""

    __slots__ = ()

    @classmethod
    def of(cls, tensor, leaf):
        node = new(cls)
        node.edges, node.seq, node.rare = (leaf,), 0, None
        tensor._node = node
        return tensor

    def apply(self, g, freed, need):
        return (g,)

    apply_graph = apply


class AccumulateGrad(Node):
    """The end of the graph at a leaf: adds the gradient to `variable.grad`."""

    __slots__ = ("variable",)
    label = "torch::autograd::AccumulateGrad"
    edges = ()

    def __init__(self, variable):
        self.variable, self.rare, self.seq = variable, None, 1 << 62

    @property
    def next_functions(self):
        return ()


def accumulator_of(leaf):
    """The AccumulateGrad node of a leaf; the same one as long as anybody holds it or hooks hang on it."""
    meta = meta_of(leaf)
    node = None if meta.accumulator is None else meta.accumulator()
    if node is None:
        node = AccumulateGrad(leaf)
        meta.accumulator = weakref.ref(node)
    return node


def edge_pair(edge):
    if edge is None:
        return None, 0
    if type(edge) is OutputEdge:
        return edge.node, edge.number
    if isinstance(edge, Tensor):
        return accumulator_of(edge), 0
    return edge, 0


def rare_of(node):
    """The node's rare state, made if there is none."""
    if node.rare is None:
        node.rare = Rare()
        if isinstance(node, AccumulateGrad):  # hooks must outlive the caller's reference
            meta_of(node.variable).accumulator = Strong(node)
    return node.rare


class Strong:
    """Called like a weak reference, but keeps its object."""

    __slots__ = ("node",)

    def __init__(self, node):
        self.node = node

    def __call__(self):
        return self.node


def deliver(grads, owned, edge, gradient, create):
    """Add a gradient to what has arrived at a node, an output of a node, or a leaf. `owned`: edges whose buffer may be written."""
    if type(edge) is not OutputEdge:  # nodes of several outputs are only reached through OutputEdges
        old = grads.get(edge)
        if old is not None:
            if isinstance(edge, Tensor):
                del grads[edge]  # so that the dict's order is the order in which leaves were completed
            gradient, ours = add(old, gradient, edge in owned, create)
            if ours:
                owned.add(edge)
        grads[edge] = gradient
        return
    node, number = edge.node, edge.number
    parts = grads.get(node)
    if parts is None:
        parts = grads[node] = [None] * node._outputs
    parts[number] = gradient if parts[number] is None else add(parts[number], gradient, False, create)[0]


def add(old, gradient, owned, create):
    """The sum of two gradients, and whether its buffer is ours to write into."""
    if create:
        return old + gradient, False
    if owned and old.shape == gradient.shape and old.dtype == gradient.dtype and old.dtype.kind != "V":
        np.add(old, gradient, out=old)
        return old, True
    if old.dtype.kind == "V":  # bfloat16: widen, add, round once
        return (old.astype(np.float32) + gradient.astype(np.float32)).astype(old.dtype), True
    return asarray(old + gradient), True


class state:
    """Whether any hook was ever registered: only then the engine tracks when a leaf is complete."""

    hooks = False


def register(owner, slot, hook):
    state.hooks = True
    hooks = getattr(owner, slot)
    if hooks is None:
        hooks = OrderedDict()
        setattr(owner, slot, hooks)
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def second_backward(node, freed):
    where = f" The first backward ran at {freed.where()}."
    if node.rare is not None and node.rare.line:
        where += f" The op {node.name()} was recorded at {node.rare.line}."
    return RuntimeError(SECOND_BACKWARD + where)


def modified(node, saved, counter):
    """The error for a saved tensor that was written after it was saved."""
    expected = counter.value - sum(1 for entry in counter.log if entry[0] > node.seq)
    writes = [entry for entry in counter.log if entry[0] > node.seq]
    tensor = saved if saved is not None else node.out
    array = tensor._array if isinstance(tensor, Tensor) else tensor
    maker = node if saved is None else saved.grad_fn
    made_by = ""
    if maker is not None:
        number = saved.output_nr if saved is not None else 0
        made_by = f", which is output {number} of {op_name(maker)},"
    kind = dtypes.BY_NUMPY[array.dtype].tensor_name
    text = (f"one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[torch.{kind}{' ' + str(list(array.shape)) if array.ndim else ' []'}]{made_by} is at version {counter.value}; expected version "
            f"{expected} instead. Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
            "torch.autograd.set_detect_anomaly(True, check_nan=False).")
    if writes:
        _, code, instruction = writes[0]
        text += f" It was written at {code.co_filename}:{line_of(code, instruction)} in {code.co_name}."
    if node.rare is not None and node.rare.line:
        text += f" {node.name()} saved it at {node.rare.line}."
    return RuntimeError(text)


def op_name(node):
    """The node's name as PyTorch's messages shorten it: `ExpBackward0` -> `Exp`."""
    return node.name().rstrip("0123456789").removesuffix("Backward")
