"""History after in-place writes through views: the base gets a CopySlices node, its views AsStrided ones.

Both nodes know where the view lies inside the base (byte offset and strides), so they serve every kind of view.
Called by ops/dispatch.py only.
"""
import numpy as np

from ..autograd.node import Node, edge_pair
from ..tensor import asarray, new, tick


class Place:
    """Where a view lies in its base: enough to find its elements in any array laid out like the base."""

    __slots__ = ("shape", "strides", "dtype", "base_shape", "base_strides", "base_dtype", "offset", "contiguous")

    def __init__(self, base, view):
        owner, part = base._array, view._array
        self.shape, self.strides, self.dtype = part.shape, part.strides, part.dtype
        self.base_shape, self.base_strides, self.base_dtype = owner.shape, owner.strides, owner.dtype
        self.offset = part.__array_interface__["data"][0] - owner.__array_interface__["data"][0] if part.size else 0
        self.contiguous = owner.flags.c_contiguous

    def layout(self, values=None):
        """A new array with the base's shape and strides, holding `values` or zeros, and its view."""
        if 0 in self.base_shape:
            whole = np.empty(self.base_shape, self.base_dtype)
            return whole, np.empty(self.shape, self.dtype)
        extent = sum((size - 1) * step for size, step in zip(self.base_shape, self.base_strides)) + self.base_dtype.itemsize
        reach = self.offset + sum((size - 1) * step for size, step in zip(self.shape, self.strides)) + self.dtype.itemsize
        memory = np.zeros(max(extent, reach if 0 not in self.shape else 0), np.uint8)
        whole = np.ndarray(self.base_shape, self.base_dtype, memory, 0, self.base_strides)
        if values is not None:
            whole[...] = values
        if 0 in self.shape:
            return whole, np.empty(self.shape, self.dtype)
        return whole, np.ndarray(self.shape, self.dtype, memory, self.offset, self.strides)

    def element_geometry(self):
        """(size, stride, offset) in elements, for the ops that work on Tensors."""
        size = self.dtype.itemsize
        if not self.contiguous or self.dtype != self.base_dtype:
            raise NotImplementedError("double backward through an in-place write into a view of a non-contiguous base is not supported")
        return self.shape, tuple(step // size for step in self.strides), self.offset // size

    def add_to_view(self, part, gradient):
        """part += gradient, also where elements of the view share memory."""
        if 0 in self.strides:
            shared = tuple(axis for axis, (step, size) in enumerate(zip(self.strides, self.shape)) if step == 0 and size > 1)
            if shared:
                gradient = gradient.sum(axis=shared, keepdims=True)
                part = part[tuple(slice(0, 1) if axis in shared else slice(None) for axis in range(part.ndim))]
        part += gradient


class CopySlices(Node):
    """The base after a write through a view: the old base outside the view, the written values inside."""

    __slots__ = ("place",)
    label = "torch::autograd::CopySlices"

    @property
    def next_functions(self):
        old, written = self.edges
        if type(written).__name__ == "CopyBackwards":  # an assignment: show where the assigned values come from
            written = written.edges[1]
        return edge_pair(old), edge_pair(written)

    def apply(self, g, freed, need):
        old, written = self.edges
        whole, part = self.place.layout(g)
        values = np.array(part) if written is not None else None
        if old is None:
            return None, values
        part[...] = 0
        return whole, values

    def apply_graph(self, g, freed, need):
        old, written = self.edges
        geometry = self.place.element_geometry()
        g = g.contiguous()
        values = g.as_strided(*geometry) if written is not None else None
        if old is None:
            return None, values
        return g.as_strided_scatter(g.new_zeros(self.place.shape), *geometry), values


class AsStridedBackward0(Node):
    """A view that reads from a base whose history changed."""

    __slots__ = ("place",)

    def apply(self, g, freed, need):
        whole, part = self.place.layout()
        self.place.add_to_view(part, asarray(g))
        return (whole,)

    def apply_graph(self, g, freed, need):
        size, stride, offset = self.place.element_geometry()
        zeros = g.new_zeros(self.place.base_shape)
        return (zeros.as_strided_scatter(g, size, stride, offset),)


def copy_slices(base, view, written):
    """The base's new node after `view` was written with a value whose edge is `written` (or None)."""
    node = new(CopySlices)
    node.place = Place(base, view)
    old = (base._node or base) if base._requires_grad else None
    node.edges, node.rare, node.seq = (old, written), None, tick()
    return node


SEVERAL = ("This view is the output of a function that returns multiple views. Such functions do not allow the output views to be modified "
           "inplace. You should replace the inplace operation by an out-of-place one.")
IN_NO_GRAD = ("Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the "
              "inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want the "
              "inplace to be tracked).")


class ForbiddenView(Node):
    """Stands under a view that may not follow its base, once that was written: one of several made together, or made in no_grad. Using it raises."""

    __slots__ = ("made", "reason")

    def apply(self, g, freed, need):
        raise RuntimeError(f"{self.made} and its base or another view of its base has been modified inplace. {self.reason}")

    apply_graph = apply


def view_node(base, view):
    """The node of a view that follows its base."""
    if view._meta.multi or view._meta.made_in_no_grad:
        node = new(ForbiddenView)
        untracked = view._meta.made_in_no_grad or not view._requires_grad
        node.made = "A view was created in no_grad mode" if untracked else f"Output {view.output_nr} of {view._meta.multi} is a view"
        node.reason = IN_NO_GRAD if view._meta.made_in_no_grad else SEVERAL
        node.edges, node.rare, node.seq = (base._node or base,), None, tick()
        return node
    node = new(AsStridedBackward0)
    node.place = Place(base, view)
    edge = base._node
    node.edges, node.rare, node.seq = (edge if edge is not None else base,), None, tick()
    return node
