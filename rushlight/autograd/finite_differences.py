"""gradcheck and gradgradcheck: recorded derivatives against finite differences."""
import warnings

import numpy as np

from ..core import modes
from ..tensor import Tensor, wrap
from .api import grad


class GradcheckError(RuntimeError):
    """A derivative is wrong."""


def tensors_of(value):
    return [value] if isinstance(value, Tensor) else [item for item in value if isinstance(item, Tensor)] if isinstance(value, (tuple, list)) else []


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0, check_undefined_grad=True,
              check_grad_dtypes=False, check_batched_grad=False, check_batched_forward_grad=False, check_forward_ad=False,
              check_backward_ad=True, fast_mode=False, masked=None):
    """Compare the gradients of `func` at `inputs` with finite differences; True if they agree, else GradcheckError (or False).

    inputs: a tensor or a tuple; those that require grad should be float64 or complex128. What is checked is always the whole
    Jacobian by backward, twice; `check_undefined_grad`, `check_grad_dtypes`, `check_backward_ad`, `fast_mode` and `masked` are accepted
    and change nothing. ValueError if no input requires grad; NotImplementedError if a check of forward mode or of batched
    gradients is asked for.

    >>> import rushlight as torch
    >>> x = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(torch.sin, (x,))
    True
    """
    refuse(check_batched_grad=check_batched_grad, check_batched_forward_grad=check_batched_forward_grad, check_forward_ad=check_forward_ad)
    try:
        inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
        check(func, inputs, eps, atol, rtol, nondet_tol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def refuse(**options):
    """NotImplementedError for a check that was asked for and is not made: passing it silently would claim that it held."""
    for name, asked in options.items():
        if asked:
            raise NotImplementedError(f"gradcheck: {name}=True is not built; without it, the Jacobian by backward is checked")


def check(func, inputs, eps, atol, rtol, nondet_tol):
    wanted = [tensor for tensor in inputs if isinstance(tensor, Tensor) and tensor._requires_grad]
    if not wanted:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True.")
    for index, tensor in enumerate(inputs):
        if isinstance(tensor, Tensor) and tensor._requires_grad:
            if tensor._dtype.name not in ("float64", "complex128"):
                warnings.warn(f"Input #{index} requires gradient and is not a double precision floating point or complex. This check will likely fail "
                              "if all the inputs are not of double precision floating point or complex. ", stacklevel=4)
            if any(step == 0 and size > 1 for step, size in zip(tensor._array.strides, tensor._array.shape)):
                raise RuntimeError(f"The {index}th input has a dimension with stride 0. gradcheck only supports inputs that are non-overlapping to be "
                                   "able to compute the numerical gradients correctly. You should call .contiguous on the input before passing it "
                                   "to gradcheck.")
    with modes.enable_grad():
        outputs = [output for output in tensors_of(func(*inputs)) if output._requires_grad]
    if not outputs:
        for row in numeric(func, inputs, wanted, eps, only_grad=False):
            for block in row:
                if np.any(block != 0):
                    raise GradcheckError("Numerical gradient for function expected to be zero")
        return
    analytical = [analytic(output, wanted) for output in outputs]
    with modes.enable_grad():
        again = [output for output in tensors_of(func(*inputs)) if output._requires_grad]
    for output_index, (first, second) in enumerate(zip(analytical, (analytic(output, wanted) for output in again))):
        for input_index, (a, b) in enumerate(zip(first, second)):
            if not np.allclose(a, b, rtol=0, atol=nondet_tol, equal_nan=True):
                raise GradcheckError("Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different "
                                     f"values, although analytical gradient matches numerical gradient. The tolerance for nondeterminism was "
                                     f"{nondet_tol}.")
    for output_index, row in enumerate(numeric(func, inputs, wanted, eps)):
        for input_index, block in enumerate(row):
            mine = analytical[output_index][input_index]
            if not np.allclose(mine, block, rtol=rtol, atol=atol, equal_nan=True):
                raise GradcheckError(f"Jacobian mismatch for output {output_index} with respect to input {input_index},\nnumerical:{wrap(block)!r}\n"
                                     f"analytical:{wrap(mine)!r}\n")


def parts(array):
    """The numbers of an array as one flat real array: complex ones as real part, imaginary part."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return np.concatenate([flat.real, flat.imag]) if flat.dtype.kind == "c" else flat.astype(np.float64)


def analytic(output, wanted):
    """The Jacobian of one output by backward: for each input a real array (numbers in the input, numbers in the output).

    PyTorch's gradient of a complex input z = a + ib holds the derivatives by a and b as its real and imaginary part.
    """
    kind = output._array.dtype
    units = (1, 1j) if kind.kind == "c" else (1,)
    columns = [[] for _ in wanted]
    for unit in units:
        for at in range(output.numel()):
            seed = np.zeros(output._array.shape, kind)
            seed.reshape(-1)[at] = unit
            gradients = grad([output], wanted, [wrap(seed)], retain_graph=True, allow_unused=True)
            for column, gradient, tensor in zip(columns, gradients, wanted):
                column.append(parts(np.zeros_like(tensor._array) if gradient is None else gradient._array))
    return [np.stack(column, 1) if column else np.zeros((parts(tensor._array).size, 0)) for column, tensor in zip(columns, wanted)]


def numeric(func, inputs, wanted, eps, only_grad=True):
    """The Jacobian by central differences, in the same layout: for each output a list of arrays."""
    def values():
        with modes.no_grad():
            results = func(*inputs)
        return [parts(output._array) for output in tensors_of(results)]

    with modes.enable_grad():
        flags = [output._requires_grad for output in tensors_of(func(*inputs))]
    sizes = [value.size for value in values()]
    rows = [[np.zeros((parts(tensor._array).size, size)) for tensor in wanted] for size in sizes]
    for number, tensor in enumerate(wanted):
        array = tensor._array
        for step, unit in enumerate((1, 1j) if array.dtype.kind == "c" else (1,)):
            for at, position in enumerate(np.ndindex(array.shape)):
                old = array[position].copy()
                array[position] = old + eps * unit
                plus = values()
                array[position] = old - eps * unit
                minus = values()
                array[position] = old
                for row, high, low in zip(rows, plus, minus):
                    row[number][at + step * array.size] = (high - low) / (2 * eps)
    return [row for row, flag in zip(rows, flags) if flag or not only_grad]


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, gen_non_contig_grad_outputs=False, raise_exception=True,
                  nondet_tol=0.0, check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False, check_fwd_over_rev=False,
                  check_rev_over_rev=True, fast_mode=False, masked=False):
    """gradcheck of the gradients themselves.

    >>> import rushlight as torch
    >>> x = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradgradcheck(torch.sin, (x,))
    True
    """
    refuse(check_batched_grad=check_batched_grad, check_fwd_over_rev=check_fwd_over_rev)
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    with modes.enable_grad():
        outputs = [output for output in tensors_of(func(*inputs)) if output._requires_grad]
    if grad_outputs is None:
        random = np.random.default_rng(0)
        grad_outputs = []
        for output in outputs:
            seed = random.standard_normal(output._array.shape)
            if output._dtype.is_complex:
                seed = seed + 1j * random.standard_normal(output._array.shape)
            grad_outputs.append(wrap(np.asarray(seed).astype(output._array.dtype)).requires_grad_())
    grad_outputs = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
    count = len(inputs)

    def first_derivative(*everything):
        arguments, seeds = everything[:count], everything[count:]
        wanted = [tensor for tensor in arguments if isinstance(tensor, Tensor) and tensor._requires_grad]
        with modes.enable_grad():
            results = [output for output in tensors_of(func(*arguments)) if output._requires_grad]
            gradients = grad(results, wanted, seeds, create_graph=True, allow_unused=True)
        return tuple(gradient for gradient in gradients if gradient is not None)

    return gradcheck(first_derivative, (*inputs, *grad_outputs), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol)
