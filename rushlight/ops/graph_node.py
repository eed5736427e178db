"""The node of an op that has a record, and what un-broadcasting is on ndarrays: how rules run where no straight-line code was generated.

Read `GraphNode.run_rules` first; ops/generate.py makes a class of it for each op.
"""
import numpy as np

from ..autograd.node import Freed, Node
from ..core import dtypes, modes
from ..tensor import Tensor, asarray, wrap

# (op's name, gradient) -> whether the gradients of a product of half types are better left to products of them (rushlight/__init__.py).
HALF_GRADIENTS = []
# (array, dtype) -> a large array to or from a half type, or None: NumPy converts their elements one by one (rushlight/__init__.py).
HALF_CASTS = []
# (op, tensor, shape, values) -> what an elementwise op's rule gives for large arrays of half types, or None.
HALF_RULES = []
WORTH = 1 << 15  # elements from which that is asked


# Ops that move elements and compute nothing: half types are not widened for them. And those whose rules do no more.
MOVING = frozenset("_cat _stack _index _flip _roll _repeat _embedding _gather _index_select _masked_select _take".split())
MOVING_BACK = frozenset("_cat _stack _flip _roll _sum_all _sum_dims".split())
AS_IT_STANDS = (lambda g: g).__code__.co_code


def recast(array, dtype):
    """`array.astype(dtype)`."""
    if array.size >= WORTH and HALF_CASTS and (array.itemsize == 2 or np.dtype(dtype).itemsize == 2):
        result = HALF_CASTS[0](array, np.dtype(dtype))
        if result is not None:
            return result
    return array.astype(dtype)


def has_fix(op):
    return op.family == "pointwise" and len(op.tensors) > 1


def sum_to(gradient, shape):
    """The gradient of broadcasting `shape` to the gradient's shape: sum over what was broadcast. ndarrays."""
    if gradient.shape == shape:
        return gradient
    extra = gradient.ndim - len(shape)
    if extra < 0:
        return np.broadcast_to(gradient, shape)
    axes = tuple(range(extra)) + tuple(i + extra for i, size in enumerate(shape) if size == 1 and gradient.shape[i + extra] != 1)
    if axes:
        gradient = np.add.reduce(gradient, axis=axes, keepdims=True)
    if gradient.shape[extra:] != shape:
        return np.broadcast_to(gradient.reshape(gradient.shape[extra:]), shape)
    return gradient.reshape(shape)


def unbroadcast(shapes, gradients):
    return tuple(None if g is None else sum_to(asarray(g), shape) for g, shape in zip(gradients, shapes))


class GraphNode(Node):
    """A node with an op record behind it: how the rules run on Tensors, and on ndarrays of any dtype."""

    __slots__ = ()
    variadic = False  # made by an op that returns as many views as the input has slices: its rules get all gradients, as `gs`

    def fetch(self, want, convert):
        """One saved value by its name in the rules, tensors through `convert`."""
        if want == "out":
            out = self.unpack_out()
            return [convert(part) for part in out] if type(out) is list else convert(out)
        value = getattr(self, want)
        if want in self.op.lists:
            return [item if item is None else convert(self.unpack(item)) for item in value] if type(value) is not Freed else self.unpack(value)
        if want in self.op.tensors:
            value = self.unpack(value)
            return convert(value) if isinstance(value, Tensor) else value
        return value

    def run_rules(self, rules, g, need, convert):
        """The gradients for each edge; list inputs are laid flat, as the edges are."""
        op, edges, results, at = self.op, self.edges, [], 0
        for name in (*op.tensors, *op.lists):
            count = 1 if name in op.tensors else self.list_lengths()[name]
            mine = edges[at:at + count]
            at += count
            if name not in rules or not any(e is not None and (need is None or e in need) for e in mine):
                results += [None] * count
                continue
            values = [g if want in ("g", "gs") else self.fetch(want, convert) for want in op.wants[name]]
            result = rules[name](*values)
            results += [result] if name in op.tensors else [part if edge is not None else None for part, edge in zip(result, mine)]
        return results

    def list_lengths(self):
        op = self.op
        total = len(self.edges) - len(op.tensors)
        return {name: total for name in op.lists}

    def apply_general(self, g, freed, need):
        """Like the straight-line `apply`, for any dtype: half types are widened, complex conjugated, results cast back."""
        op = self.op
        compute = self.compute
        is_complex = compute is not None and compute.is_complex and not op.complex_rule
        wide = compute is not None and not compute.native
        gradients = g if self._outputs > 1 or self.variadic else [g]

        def convert(tensor):
            array = tensor._array
            return recast(array, np.float32) if wide and not tensor._dtype.native else array

        if wide and HALF_GRADIENTS and not modes.flags["special"] and HALF_GRADIENTS[0](op.name, g):
            # The rules on Tensors: their products ask the processor for its own of half types.
            return tuple([None if result is None else result._array for result in self.apply_graph(wrap(g), freed, need)])
        rules = op.raw_rule
        if wide and self.moves(gradients[0]):
            wide = False
        elif wide and HALF_RULES and op.family == "pointwise" and not op.masks and gradients[0].size >= WORTH:
            rules, wide = {name: self.half_rule(name) for name in op.grad}, False
        if wide:
            gradients = [None if x is None else recast(x, np.float32) if x.dtype.itemsize == 2 else x for x in gradients]
        if is_complex:
            gradients = [None if x is None else np.conjugate(x) for x in gradients]
        value = self.rule_gradient(gradients)
        results = [None] * len(self.edges) if value is None else self.run_rules(rules, value, need, convert)
        final = []
        for result, meta in zip(results, self.metas):
            if result is not None:
                result = asarray(result)
                if is_complex:
                    result = np.conjugate(result)
                shape, numpy_dtype = meta
                if op.family == "pointwise":
                    result = sum_to(result, shape)
                if result.dtype != numpy_dtype:
                    if result.dtype.kind == "c" and numpy_dtype.kind != "c":
                        result = result.real
                    result = recast(result, numpy_dtype)
            final.append(result)
        if freed is not None:
            self.free(freed)
        return tuple(final)

    def half_rule(self, name):
        """A rule on large arrays of half types: by a kernel, or on widened ones."""
        op, meta, kind = self.op, self.metas[self.op.tensors.index(name)], self.compute.numpy

        def rule(*values):
            found = None if meta is None else HALF_RULES[0](op, name, meta[0], values)
            if found is not None:
                return found
            return op.raw_rule[name](*[recast(value, np.float32) if isinstance(value, np.ndarray) and value.dtype == kind else value for value in values])

        return rule

    def moves(self, g):
        """Whether the rules compute nothing, so that half types may stay as they are."""
        op = self.op
        if op.family != "pointwise":
            return op.name in MOVING_BACK
        same = all(meta is None or meta[0] == g.shape for meta in self.metas)
        return same and all(op.wants[name] == ("g",) and rule.__code__.co_code == AS_IT_STANDS for name, rule in op.grad.items())

    def apply_large(self, g, freed, need):
        """The rules on large ndarrays, each as a kernel on all cores where one can be made of it."""
        op = self.op
        results = self.run_rules(self.large_rules, g, need, lambda tensor: tensor._array)
        if freed is not None:
            self.free(freed)
        if has_fix(op) and self.fix is not None:
            return unbroadcast(self.fix, results)
        return tuple(results)

    def rule_gradient(self, gradients):
        """What `g` (one differentiable output) or `gs` is for the rules; None where no gradient arrived."""
        op = self.op
        if self.variadic:
            return gradients
        if op.outputs == 1:
            return gradients[0]
        if len(op.differentiable) == 1:
            return gradients[op.differentiable[0]]
        return gradients

    def free(self, freed):
        for field in self.saved:
            if field == "out":
                self.out = self.guard = freed
            elif field in self.op.tensors or field in self.op.lists:
                setattr(self, field, freed)

    def apply_graph(self, g, freed, need):
        """The rules on Tensors: differentiable again."""
        op = self.op
        value = self.rule_gradient(g if self._outputs > 1 or self.variadic else [g])
        if value is None:
            return (None,) * len(self.edges)
        metas = getattr(self, "metas", None)
        conjugate = metas is not None and self.compute is not None and self.compute.is_complex and not op.complex_rule
        if conjugate:
            value = value.conj() if isinstance(value, Tensor) else [None if x is None else x.conj() for x in value]
        results = self.run_rules(op.graph_rule, value, need, lambda tensor: tensor)
        shapes = [meta and meta[0] for meta in metas] if metas is not None else getattr(self, "fix", None)
        final = []
        for number, result in enumerate(results):
            if result is not None:
                if conjugate:
                    result = result.conj()
                if shapes is not None and op.family == "pointwise" and result.shape != shapes[number]:
                    result = result.sum_to_size(shapes[number])
                if metas is not None:
                    target = dtypes.BY_NUMPY[metas[number][1]]
                    if result._dtype is not target:
                        if result._dtype.is_complex and not target.is_complex:
                            result = result.real
                        result = result.to(target)
            final.append(result)
        if freed is not None:
            self.free(freed)
        return tuple(final)
