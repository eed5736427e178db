"""`autograd.functional`: jacobian, hessian and products with them, made of `grad` calls."""
import numpy as np

from ..core import modes
from ..tensor import Tensor, wrap
from .api import directional, grad


def as_inputs(inputs, create_graph):
    """The inputs as tensors that record, and whether there was just one."""
    single = not isinstance(inputs, tuple)
    tensors = (inputs,) if single else inputs
    for index, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"The inputs given to the function should be Tensors or a tuple of Tensors, but element {index} of the tuple has type "
                            f"{type(tensor)}.")
    if create_graph:
        prepared = tuple(tensor.view_as(tensor) if tensor._requires_grad else tensor.detach().requires_grad_() for tensor in tensors)
    else:
        prepared = tuple(tensor.detach().requires_grad_() for tensor in tensors)
    return prepared, single


def outputs_of(function, inputs, name, strict):
    """The function's outputs as a tuple, and whether there was just one. With `strict` each must depend on a variable."""
    outputs = function(*inputs)
    single = not isinstance(outputs, tuple)
    outputs = (outputs,) if single else outputs
    for output in outputs:
        if not isinstance(output, Tensor):
            raise TypeError(f"The outputs of the user-provided function given to {name} must be either a Tensor or a tuple of Tensors but the given "
                            f"outputs of the user-provided function has type {type(output)}.")
    for index, output in enumerate(outputs if strict else ()):
        if not output._requires_grad:
            raise RuntimeError(f"Output {index} of the user-provided function does not require gradients. The outputs must be computed in a "
                               "differentiable manner from the input when running in strict mode.")
    return outputs, single


def checked_vector(v, like, what):
    """The vector as a tuple with the same shapes; ones for a scalar if it may be left out."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if the {what} contains a single element.")
        return (wrap(np.ones_like(like[0]._array)),)
    vectors = v if isinstance(v, tuple) else (v,)
    if len(vectors) != len(like):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(vectors)}.")
    for index, (vector, tensor) in enumerate(zip(vectors, like)):
        if vector.shape != tensor.shape:
            raise RuntimeError(f"v has invalid size: should be {tensor.shape} but got {vector.shape}." if len(like) == 1 else
                               f"Entry {index} in v has invalid size: should be {tensor.shape} but got {vector.shape}.")
    return vectors


def gradient_of(outputs, inputs, vectors, create_graph, retain=None):
    """Like `grad`, with None for what is unused and no error where nothing requires grad."""
    kept = [(output, vector) for output, vector in zip(outputs, vectors) if output._requires_grad]
    if not kept:
        return (None,) * len(inputs)
    return grad([o for o, _ in kept], inputs, [v for _, v in kept], retain_graph=retain, create_graph=create_graph, allow_unused=True)


def filled(gradients, inputs, strict, message):
    """Zeros for what is unused; an error if `strict`."""
    result = []
    for index, (gradient, tensor) in enumerate(zip(gradients, inputs)):
        if gradient is None:
            if strict:
                raise RuntimeError(message.format(index))
            gradient = wrap(np.zeros_like(tensor._array))
        result.append(gradient)
    return tuple(result)


def finish(values, single, create_graph):
    values = tuple(value if create_graph else value.detach() for value in values)
    return values[0] if single else values


UNUSED = "The output of the user-provided function is independent of input {}. This is not allowed in strict mode."


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(outputs, v^T J): the product of a vector with the Jacobian.

    >>> import rushlight as torch
    >>> torch.autograd.functional.vjp(lambda x: x ** 2, torch.tensor([1.0, 2.0]), torch.ones(2))[1]
    tensor([2., 4.])
    """
    with modes.enable_grad():
        prepared, single = as_inputs(inputs, create_graph)
        outputs, single_out = outputs_of(func, prepared, "vjp", strict)
        vectors = checked_vector(v, outputs, "user-provided function returns")
        gradients = gradient_of(outputs, prepared, vectors, create_graph or strict)
    products = filled(gradients, prepared, strict, UNUSED)
    return finish(outputs, single_out, create_graph), finish(products, single, create_graph)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(outputs, J v): the directional derivative, by differentiating the vjp with respect to its vector.

    >>> import rushlight as torch
    >>> torch.autograd.functional.jvp(lambda x: x ** 2, torch.tensor([1.0, 2.0]), torch.ones(2))[1]
    tensor([2., 4.])
    """
    with modes.enable_grad():
        prepared, _ = as_inputs(inputs, create_graph)
        vectors = checked_vector(v, prepared, "inputs") if v is not None or prepared[0].numel() != 1 or len(prepared) != 1 else (
            wrap(np.ones_like(prepared[0]._array)),)
        outputs, single_out = outputs_of(func, prepared, "jvp", strict)
        products, _, gradients = directional(outputs, prepared, vectors, create_graph)
        missing = [at for at, gradient in enumerate(gradients) if gradient is None]
        if strict and missing:
            raise RuntimeError(UNUSED.format(missing[0]))
    products = filled(products, outputs, False, "")
    return finish(outputs, single_out, create_graph), finish(products, single_out, create_graph)


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """All partial derivatives: for each output and input, a tensor of shape (*output.shape, *input.shape).

    >>> import rushlight as torch
    >>> torch.autograd.functional.jacobian(lambda x: x ** 2, torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    with modes.enable_grad():
        prepared, single = as_inputs(inputs, create_graph)
        outputs, single_out = outputs_of(func, prepared, "jacobian", strict)
        rows = []
        for number, output in enumerate(outputs):
            columns = [[] for _ in prepared]
            for at in range(output.numel()):
                unit = np.zeros(output._array.shape, output._array.dtype)
                unit.reshape(-1)[at] = 1
                gradients = gradient_of((output,), prepared, (wrap(unit),), create_graph, True)
                for column, gradient in zip(columns, filled(gradients, prepared, strict, UNUSED)):
                    if strict and create_graph and not gradient._requires_grad:
                        raise RuntimeError(f"The jacobian of the user-provided function is independent of input {len(columns)}. This is not allowed in "
                                           "strict mode when create_graph=True.")
                    column.append(gradient)
            rows.append(tuple(joined(column, tuple(output.shape), tensor) for column, tensor in zip(columns, prepared)))
    rows = [tuple(value if create_graph else value.detach() for value in row) for row in rows]
    rows = [row[0] if single else row for row in rows]
    return rows[0] if single_out else tuple(rows)


def joined(parts, shape, like):
    """The rows of a Jacobian as one tensor."""
    if not parts:
        return wrap(np.zeros((*shape, *like._array.shape), like._array.dtype))
    return Tensor._stacked(parts).reshape((*shape, *like.shape))


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """All second derivatives of a scalar function.

    >>> import rushlight as torch
    >>> torch.autograd.functional.hessian(lambda x: (x ** 3).sum(), torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    _, single = as_inputs(inputs, create_graph)

    def scalar(*tensors):
        output = func(*tensors)
        if not isinstance(output, Tensor) or output.numel() != 1 or isinstance(output, tuple):
            raise RuntimeError("The Tensor returned by the function given to hessian should contain a single element")
        return output.squeeze()

    def gradient(*tensors):
        rows = jacobian(scalar, tensors, create_graph=True)
        return rows[0] if single else rows

    return jacobian(gradient, inputs, create_graph, strict) if not single else jacobian(lambda x: gradient(x), inputs, create_graph, strict)


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(output, v^T H): the product of a vector with the Hessian of a scalar function.

    >>> import rushlight as torch
    >>> torch.autograd.functional.vhp(lambda x: (x ** 3).sum(), torch.tensor([1.0, 2.0]), torch.ones(2))[1]
    tensor([ 6., 12.])
    """
    with modes.enable_grad():
        prepared, single = as_inputs(inputs, create_graph)
        vectors = checked_vector(v, prepared, "input")
        outputs, single_out = outputs_of(func, prepared, "vhp", strict)
        if not single_out or outputs[0].numel() != 1:
            raise RuntimeError("The Tensor returned by the function given to vhp should contain a single element")
        first = filled(gradient_of(outputs, prepared, (wrap(np.ones_like(outputs[0]._array)),), True), prepared, strict, UNUSED)
        second = gradient_of(first, prepared, vectors, create_graph)
    products = filled(second, prepared, strict, UNUSED)
    return finish(outputs, True, create_graph), finish(products, single, create_graph)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """(output, H v): as vhp, since Hessians are symmetric.

    >>> import rushlight as torch
    >>> torch.autograd.functional.hvp(lambda x: (x ** 3).sum(), torch.tensor([1.0, 2.0]), torch.ones(2))[1]
    tensor([ 6., 12.])
    """
    return vhp(func, inputs, v, create_graph, strict)
