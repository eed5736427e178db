"""Derivative transforms, as functions of functions. Each run makes its inputs variables of its own and differentiates with respect
to them; what the function reads from outside stays connected to its own graph, so transforms nest."""
import functools

from ..autograd import api
from ..autograd.api import released
from ..core import modes
from ..core.pytree import tree_flatten, tree_map, tree_unflatten
from ..ops import stack, zeros_like
from ..tensor import Tensor


def variable(tensor):
    """The tensor as a new variable: connected to its own history, if it has any."""
    if not isinstance(tensor, Tensor):
        return tensor
    if tensor._requires_grad:
        return tensor.view_as(tensor)
    fresh = tensor.detach()
    fresh._meta = None
    if type(tensor) is not type(fresh):
        fresh.__class__ = type(tensor)
    return fresh.requires_grad_() if fresh.is_floating_point() or fresh.is_complex() else fresh


def wanted_variable(tensor):
    """A variable that is differentiated by: what is no tensor, and integers, are refused."""
    if not isinstance(tensor, Tensor):
        raise ValueError(f"Thing passed to transform API must be Tensor, got {type(tensor)}")
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise RuntimeError("only Tensors of floating point dtype can require gradients")
    return variable(tensor)


def moved_variable(tensor):
    """A variable that is moved along a direction."""
    if isinstance(tensor, Tensor) and not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
    return variable(tensor)


def own_leaves(variables):
    return {tensor for tensor in variables if isinstance(tensor, Tensor) and tensor._node is None}


def chosen(args, argnums):
    """The arguments to differentiate by, and whether argnums named just one."""
    single = isinstance(argnums, int)
    numbers = (argnums,) if single else tuple(argnums)
    for number in numbers:
        if not -len(args) <= number < len(args):
            raise RuntimeError(f"Got argnum={number}, but only {len(args)} positional inputs")
    return tuple(number % len(args) for number in numbers), single


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that returns (gradient, value) of a scalar function; with has_aux, (gradient, (value, aux)).

    >>> import rushlight as torch
    >>> torch.func.grad_and_value(torch.sin)(torch.tensor(0.0))
    (tensor(1.), tensor(0.))
    """
    @functools.wraps(func)
    def transformed(*args, **kwargs):
        numbers, single = chosen(args, argnums)
        with modes.enable_grad():
            arguments = [tree_map(wanted_variable, arg) if at in numbers else arg for at, arg in enumerate(args)]
            output = func(*arguments, **kwargs)
            aux = None
            if has_aux:
                if not (isinstance(output, tuple) and len(output) == 2):
                    raise RuntimeError("grad_and_value(f)(*args): output of function f should be a tuple: (output, aux) if has_aux is True")
                output, aux = output
            if not isinstance(output, Tensor):
                raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(output)}")
            if output.ndim:
                raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with {output.ndim} dims. Maybe "
                                   "you wanted to use the vjp or jacrev APIs instead?")
            leaves, spec = tree_flatten([arguments[at] for at in numbers])
            gradients = gradients_of((output,), leaves, None)
        own = own_leaves(leaves)
        result = tree_unflatten([released(gradient, own) for gradient in gradients], spec)
        value = released(output, own)
        result = result[0] if single else tuple(result)
        return (result, (value, tree_map(lambda leaf: released(leaf, own), aux))) if has_aux else (result, value)
    return transformed


def gradients_of(outputs, variables, seeds):
    """Gradients by autograd, zeros for what is unused, recorded themselves."""
    kept = [at for at, output in enumerate(outputs) if output._requires_grad]
    wanted = [tensor for tensor in variables if isinstance(tensor, Tensor) and tensor._requires_grad]
    found = (None,) * len(wanted)
    if kept and wanted:
        found = api.grad([outputs[at] for at in kept], wanted, None if seeds is None else [seeds[at] for at in kept], retain_graph=True,
                         create_graph=True, allow_unused=True)
    found = iter(found)
    results = []
    for tensor in variables:
        gradient = next(found) if isinstance(tensor, Tensor) and tensor._requires_grad else None
        results.append(zeros_like(tensor) if gradient is None and isinstance(tensor, Tensor) else gradient)
    return results


def grad(func, argnums=0, has_aux=False):
    """The gradient function of a scalar function.

    argnums: which arguments (an int or a tuple). has_aux: the function returns (output, aux); so does the gradient function.

    >>> import rushlight as torch
    >>> torch.func.grad(torch.sin)(torch.tensor(0.0))
    tensor(1.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def transformed(*args, **kwargs):
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient
    return transformed


def vjp(func, *primals, has_aux=False):
    """(func(*primals), vjp_fn): vjp_fn maps a cotangent of the output to the gradients of the primals.

    >>> import rushlight as torch
    >>> output, pull = torch.func.vjp(torch.sin, torch.tensor(0.0))
    >>> pull(torch.tensor(2.0))
    (tensor(2.),)
    """
    with modes.enable_grad():
        variables = tree_map(wanted_variable, primals)
        output = func(*variables)
        aux = None
        if has_aux:
            output, aux = output
    leaves, spec = tree_flatten(variables)
    outputs, out_spec = tree_flatten(output)
    own = own_leaves(leaves)

    def pull(cotangents, *more, retain_graph=True, create_graph=None):
        seeds, seed_spec = tree_flatten(cotangents if not more else (cotangents, *more))
        if len(seeds) != len(outputs):
            raise RuntimeError(f"Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. cotangents: "
                               f"{seed_spec}, primal output: {out_spec}")
        with modes.enable_grad():
            gradients = gradients_of(outputs, leaves, seeds)
        return tree_unflatten([released(gradient, own) for gradient in gradients], spec)

    value = tree_map(lambda leaf: released(leaf, own), output)
    return (value, pull, tree_map(lambda leaf: released(leaf, own), aux)) if has_aux else (value, pull)


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """(func(*primals), J @ tangents): forward-mode, by differentiating the vjp with respect to its cotangent.

    >>> import rushlight as torch
    >>> torch.func.jvp(torch.sin, (torch.tensor(0.0),), (torch.tensor(3.0),))
    (tensor(0.), tensor(3.))
    """
    if not isinstance(primals, tuple):
        raise RuntimeError("jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    with modes.enable_grad():
        variables = tree_map(moved_variable, primals)
        output = func(*variables)
        aux = None
        if has_aux:
            output, aux = output
        leaves, spec = tree_flatten(variables)
        directions, tangent_spec = tree_flatten(tangents)
        if len(directions) != len(leaves):
            raise RuntimeError("jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. For example, if primals is a "
                               f"tuple of 3 tensors, tangents also must be. Got primals with structure {spec} and tangents with structure {tangent_spec}")
        outputs, out_spec = tree_flatten(output)
        found, probes, _ = api.directional(outputs, leaves, directions)
        products = [zeros_like(value) if product is None else product for value, product in zip(outputs, found)]
    own = own_leaves(leaves) | set(probes)
    value = tree_map(lambda leaf: released(leaf, own), output)
    product = tree_unflatten([released(leaf, own) for leaf in products], out_spec)
    return (value, product, tree_map(lambda leaf: released(leaf, own), aux)) if has_aux else (value, product)


def linearize(func, *primals):
    """(func(*primals), jvp_fn) where jvp_fn maps tangents to J @ tangents.

    >>> import rushlight as torch
    >>> output, push = torch.func.linearize(torch.sin, torch.tensor(0.0))
    >>> push(torch.tensor(3.0))
    tensor(3.)
    """
    def push(*tangents):
        return jvp(func, primals, tangents)[1]
    return func(*primals), push


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    """The Jacobian function, one backward pass for each output element.

    >>> import rushlight as torch
    >>> torch.func.jacrev(torch.sin)(torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    @functools.wraps(func)
    def transformed(*args, **kwargs):
        numbers, single = chosen(args, argnums)

        def of_chosen(*values):
            full = list(args)
            for at, value in zip(numbers, values):
                full[at] = value
            return func(*full, **kwargs)

        result = vjp(of_chosen, *(args[at] for at in numbers), has_aux=has_aux)
        output, pull = result[:2]
        outputs, out_spec = tree_flatten(output)
        blocks = []
        for number, value in enumerate(outputs):
            rows = []
            for at in range(value.numel()):
                seeds = [zeros_like(other) for other in outputs]
                seeds[number].view(-1)[at] = 1
                rows.append(pull(tree_unflatten(seeds, out_spec)))
            if rows:
                blocks.append(tree_map(lambda *parts: stack(parts).reshape((*value.shape, *parts[0].shape)), rows[0], *rows[1:]))
            else:
                blocks.append(tree_map(lambda arg: arg.new_zeros((*value.shape, *arg.shape)), tuple(args[at] for at in numbers)))
        blocks = [block[0] if single else tuple(block) for block in blocks]
        jacobian = tree_unflatten(blocks, out_spec)
        return (jacobian, result[2]) if has_aux else jacobian
    return transformed


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """The Jacobian function, one forward-mode pass for each input element.

    >>> import rushlight as torch
    >>> torch.func.jacfwd(torch.sin)(torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    backward = jacrev(func, argnums, has_aux=has_aux)

    @functools.wraps(func)
    def transformed(*args, **kwargs):
        for at in chosen(args, argnums)[0]:
            tree_map(moved_variable, args[at])
        return backward(*args, **kwargs)
    return transformed


def hessian(func, argnums=0):
    """The function of all second derivatives.

    >>> import rushlight as torch
    >>> torch.func.hessian(lambda x: (x ** 3).sum())(torch.ones(2))
    tensor([[6., 0.],
            [0., 6.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
