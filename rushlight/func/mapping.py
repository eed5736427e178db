"""vmap: a function of one sample becomes a function of a batch. It runs once per sample; the results are stacked.

A sample inside is a `Sample`: a tensor whose values may not steer Python (as in PyTorch), and on which drawing random
numbers follows the `randomness` argument.
"""
import functools

from ..autograd.node import LeafStandIn
from ..core import generator, modes
from ..core.pytree import tree_flatten, tree_unflatten
from ..core.size import wrap_dim
from ..ops import dispatch, stack
from ..tensor import PLAIN, Tensor

CONTROL_FLOW = ("vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that yet, please shout "
                "over at https://github.com/pytorch/functorch/issues/257 .")
ITEM = ("vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on any Tensor, please try to rewrite "
        "what you're doing with other operations. If error is occurring somewhere inside PyTorch internals, please file a bug report.")


class Sample(Tensor):
    """One slice of a mapped tensor."""

    __slots__ = ()
    one_of_many = True

    def item(self):
        raise RuntimeError(ITEM)

    tolist = __float__ = __int__ = __index__ = __complex__ = item

    def __bool__(self):
        raise RuntimeError(CONTROL_FLOW)

    @classmethod
    def __dispatch__(cls, op, bound, out):
        """Run the op on plain tensors; the results are samples again."""
        plain = [plainly(bound[name]) for name in op.params]
        result = dispatch.general(op, plain, plainly(out))
        return marked(result, cls)

    @classmethod
    def __dispatch_inplace__(cls, function, tensor, args, kwargs):
        kind = type(tensor)
        tensor.__class__ = Tensor
        try:
            dispatch.inplace(function, tensor, tuple(plainly(arg) for arg in args), {name: plainly(arg) for name, arg in kwargs.items()})
        finally:
            tensor.__class__ = kind
        return tensor

    @staticmethod
    def __function__(function, args, kwargs):
        """A custom Function is called with plain tensors."""
        return marked(function.apply(*(plainly(arg) for arg in args), **kwargs), Sample)


Sample.__name__ = Sample.__qualname__ = "Tensor"


def plainly(value):
    """The value as a plain tensor (lists of samples too)."""
    if isinstance(value, Sample):
        twin = dispatch.alias(value)
        if value._node is None and value._requires_grad:
            twin._node = leaf_edge(value)
        return twin
    if type(value) in (list, tuple):
        return type(value)(plainly(item) for item in value)
    return value


def leaf_edge(leaf):
    """A leaf sample cannot be replaced by an alias in the graph: pass its gradient on to it."""
    twin = dispatch.alias(leaf)
    LeafStandIn.of(twin, leaf)
    return twin._node


def marked(result, kind):
    if isinstance(result, Tensor):
        if type(result) in PLAIN:
            result.__class__ = kind
        return result
    if isinstance(result, (tuple, list)):
        for item in result:
            marked(item, kind)
    return result




def name_of(func):
    """How errors call the mapped function."""
    return getattr(func, "__name__", None) or repr(func)


def in_dims_for(in_dims, args, name):
    """in_dims spread over the leaves of args: an int or None for each."""
    leaves, spec = tree_flatten(args)
    if isinstance(in_dims, int):
        dims = [in_dims if isinstance(leaf, Tensor) else None for leaf in leaves]
        return leaves, spec, dims
    if not isinstance(in_dims, (tuple, list)):
        raise ValueError(f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a (potentially nested) tuple matching the "
                         f"structure of inputs, got: {type(in_dims)}.")
    dims = []

    def spread(part, dim):
        inner = tree_flatten(part)[0]
        if dim is None or isinstance(dim, int):
            dims.extend([dim] * len(inner))
        elif isinstance(part, dict) and isinstance(dim, dict):
            for key in part:
                spread(part[key], dim[key])
        elif isinstance(part, (tuple, list)) and isinstance(dim, (tuple, list)) and len(part) == len(dim):
            for item, own in zip(part, dim):
                spread(item, own)
        else:
            raise ValueError(f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the structure of inputs. in_dims has "
                             f"structure {tree_flatten(in_dims)[1]} but inputs has structure {spec}.")
    spread(args, tuple(in_dims))
    return leaves, spec, dims


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """A function that maps `func` over a dim of its tensor arguments and stacks the results.

    in_dims: the mapped dim of each argument (None: the same value for all), nested as the arguments. out_dims: where the batch
    goes in each result. randomness: "error", "different" (each sample draws its own) or "same".

    >>> import rushlight as torch
    >>> torch.vmap(torch.dot)(torch.ones(3, 2), torch.ones(3, 2))
    tensor([2., 2., 2.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")

    @functools.wraps(func)
    def mapped(*args, **kwargs):
        leaves, spec, dims = in_dims_for(in_dims, args, name_of(func))
        kw_leaves, kw_spec = tree_flatten(kwargs)
        kw_dims = [0 if isinstance(leaf, Tensor) else None for leaf in kw_leaves]
        every, every_dims = [*leaves, *kw_leaves], [*dims, *kw_dims]
        batch = batch_size(every, every_dims, in_dims, name_of(func))
        rows = []
        state = generator.default_generator.get_state() if randomness == "same" else None
        with random_rule(randomness):
            for at in range(batch):
                if state is not None and at:
                    generator.default_generator.set_state(state)
                samples = [leaf if dim is None else sample(leaf, dim, at) for leaf, dim in zip(every, every_dims)]
                rows.append(func(*tree_unflatten(samples[:len(leaves)], spec), **tree_unflatten(samples[len(leaves):], kw_spec)))
        return stacked(rows, out_dims, func)
    return mapped


def batch_size(leaves, dims, in_dims, name):
    sizes = []
    for leaf, dim in zip(leaves, dims):
        if dim is None:
            continue
        if not isinstance(leaf, Tensor):
            raise ValueError(f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for an input but the input is of type {type(leaf)}. We "
                             "cannot vmap over non-Tensor arguments, please use None as the respective in_dim")
        if not -leaf.ndim <= dim < leaf.ndim:
            raise ValueError(f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for some input, but that input is a Tensor of "
                             f"dimensionality {leaf.ndim} so expected in_dim to satisfy -{leaf.ndim} <= in_dim < {leaf.ndim}.")
        sizes.append(leaf.shape[dim])
    if not sizes:
        raise ValueError(f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): at least one input must be mapped: in_dims must not be None for all inputs")
    if any(size != sizes[0] for size in sizes):
        raise ValueError(f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped dimension")
    return sizes[0]


def sample(tensor, dim, at):
    part = tensor.select(dim, at) if type(tensor) in PLAIN else Sample.select(tensor, dim, at)
    part.__class__ = Sample
    return part


class random_rule:
    """Refuse to draw random numbers inside, if that is the rule."""

    def __init__(self, randomness):
        self.forbid = randomness == "error"

    def __enter__(self):
        self.previous = modes.RANDOM_RULE.get()
        if self.forbid:
            modes.flags["random_rules"] += 1
            modes.RANDOM_RULE.set("vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness "
                                  "flags on vmap or perform the randomness operation out of vmap")

    def __exit__(self, *exc):
        modes.RANDOM_RULE.set(self.previous)
        if self.forbid:
            modes.flags["random_rules"] -= 1


def stacked(rows, out_dims, func):
    """The results of all samples, stacked along out_dims."""
    columns = [tree_flatten(row) for row in rows]
    if not columns:
        raise RuntimeError("vmap over a batch of size 0 is not supported: there is no sample to learn the result's shape from")
    spec = columns[0][1]
    count = len(columns[0][0])
    if isinstance(out_dims, int) or out_dims is None:
        dims = [out_dims] * count
    else:
        dims = tree_flatten(tuple(out_dims), lambda leaf: leaf is None)[0]
        if len(dims) != count:
            raise ValueError(f"vmap({name_of(func)}, ..., out_dims={out_dims}): out_dims is not compatible with the structure of "
                             f"outputs. out_dims has structure {tree_flatten(tuple(out_dims))[1]} but outputs has structure {spec}.")
    results = []
    for number, dim in enumerate(dims):
        parts = [column[0][number] for column in columns]
        if not all(isinstance(part, Tensor) for part in parts):
            raise ValueError(f"vmap({name_of(func)}, ...): `{name_of(func)}` must only return Tensors, got type "
                             f"{type(parts[0])} as a return.")
        if dim is None:
            results.append(parts[0])
            continue
        plain = [plainly(part) for part in parts]
        result = stack(plain, wrap_dim(dim, parts[0].ndim + 1))
        results.append(result)
    return tree_unflatten(results, spec)
