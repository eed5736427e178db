"""gradcheck and gradgradcheck: recorded derivatives against finite differences."""
import warnings

import numpy as np

from ..core import modes
from ..tensor import Tensor, wrap
from . import forward_ad
from .api import grad
from .engine import reachable
from .function import Function
from .node import edge_pair


class GradcheckError(RuntimeError):
    """A derivative is wrong."""


def tensors_of(value):
    return [value] if isinstance(value, Tensor) else [item for item in value if isinstance(item, Tensor)] if isinstance(value, (tuple, list)) else []


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0, check_undefined_grad=True,
              check_grad_dtypes=False, check_batched_grad=False, check_batched_forward_grad=False, check_forward_ad=False,
              check_backward_ad=True, fast_mode=False, masked=None):
    """Compare the gradients of `func` at `inputs` with finite differences; True if they agree, else GradcheckError (or False).

    inputs: a tensor or a tuple; those that require grad should be float64 or complex128. `check_backward_ad`: the whole Jacobian by
    backward, twice. `check_forward_ad`: the Jacobian by dual numbers. `check_batched_grad`: two gradients at once (is_grads_batched)
    against one after the other. `check_undefined_grad`, `check_grad_dtypes`, `fast_mode` and `masked` are accepted and change nothing.
    ValueError if no input requires grad; NotImplementedError for `check_batched_forward_grad`, and for `check_forward_ad` of a custom
    Function with a `jvp` of its own, which forward mode here does not call.

    >>> import rushlight as torch
    >>> x = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(torch.sin, (x,))
    True
    """
    if check_batched_forward_grad:
        raise NotImplementedError("gradcheck: check_batched_forward_grad=True is not built; check_forward_ad=True checks one direction at a time")
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    try:
        inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
        outputs, wanted = outputs_to_check(func, inputs, eps)
        if not outputs:
            return True
        found = numeric(func, inputs, wanted, eps)
        if check_backward_ad:
            check_backward(func, inputs, outputs, wanted, found, atol, rtol, nondet_tol)
        if check_forward_ad:
            refuse_own_jvp(outputs)
            for output_index, row in enumerate(forward(func, inputs, wanted)):
                compare("Jacobian computed with forward mode mismatch", output_index, row, found[output_index], atol, rtol)
        if check_batched_grad:
            check_batched(outputs, wanted, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def outputs_to_check(func, inputs, eps):
    """(the outputs that require grad, the inputs that do); where no output does, its Jacobian must be zero."""
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
    return outputs, wanted


def check_backward(func, inputs, outputs, wanted, found, atol, rtol, nondet_tol):
    """The Jacobian by backward, which a second run must give again."""
    analytical = [analytic(output, wanted) for output in outputs]
    with modes.enable_grad():
        again = [output for output in tensors_of(func(*inputs)) if output._requires_grad]
    for output_index, (first, second) in enumerate(zip(analytical, (analytic(output, wanted) for output in again))):
        for input_index, (a, b) in enumerate(zip(first, second)):
            if not np.allclose(a, b, rtol=0, atol=nondet_tol, equal_nan=True):
                raise GradcheckError("Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different "
                                     f"values, although analytical gradient matches numerical gradient. The tolerance for nondeterminism was "
                                     f"{nondet_tol}.")
    for output_index, row in enumerate(analytical):
        compare("Jacobian mismatch", output_index, row, found[output_index], atol, rtol)


def compare(text, output_index, analytical, numerical, atol, rtol):
    for input_index, (mine, block) in enumerate(zip(analytical, numerical)):
        if not np.allclose(mine, block, rtol=rtol, atol=atol, equal_nan=True):
            raise GradcheckError(f"{text} for output {output_index} with respect to input {input_index},\nnumerical:{wrap(block)!r}\n"
                                 f"analytical:{wrap(mine)!r}\n")


def check_batched(outputs, wanted, atol, rtol):
    """Two random gradients in one call of `grad` give what they give one by one."""
    random = np.random.default_rng(0)
    for output_index, output in enumerate(outputs):
        shape = (2, *output._array.shape)
        seeds = random.standard_normal(shape) + (1j * random.standard_normal(shape) if output._dtype.is_complex else 0)
        seeds = wrap(np.asarray(seeds, output._array.dtype))
        together = grad([output], wanted, [seeds], retain_graph=True, allow_unused=True, is_grads_batched=True)
        single = [grad([output], wanted, [seed], retain_graph=True, allow_unused=True) for seed in seeds.unbind()]
        for input_index, (batch, parts_) in enumerate(zip(together, zip(*single))):
            if (batch is None) != (parts_[0] is None) or batch is not None and not np.allclose(
                    batch._array, np.stack([part._array for part in parts_]), rtol=rtol, atol=atol, equal_nan=True):
                raise GradcheckError(f"For output {output_index} and input {input_index}: batched gradients differ from those computed one by one")


def refuse_own_jvp(outputs):
    """A Function's own `jvp` would seem checked."""
    order, _ = reachable([edge_pair(output._node)[0] for output in outputs if output._node is not None])
    for node in order:
        function = getattr(type(node), "_function", None)
        if function is not None and function.jvp is not Function.jvp:
            raise NotImplementedError(f"gradcheck: check_forward_ad=True of {function.__name__}, which has a jvp of its own: forward mode "
                                      "differentiates its backward instead and never calls it")


def forward(func, inputs, wanted):
    """The Jacobian by dual numbers, one direction at a time, in the layout of `numeric`."""
    rows = None
    for number, tensor in enumerate(wanted):
        array = tensor._array
        for step, unit in enumerate((1, 1j) if array.dtype.kind == "c" else (1,)):
            for at in range(array.size):
                direction = np.zeros(array.shape, array.dtype)
                direction.reshape(-1)[at] = unit
                with forward_ad.dual_level():
                    dual = forward_ad.make_dual(tensor, wrap(direction))
                    results = [output for output in tensors_of(func(*(dual if item is tensor else item for item in inputs))) if output._requires_grad]
                    tangents = [forward_ad.unpack_dual(result).tangent for result in results]
                if rows is None:
                    rows = [[np.zeros((parts(other._array).size, parts(result._array).size)) for other in wanted] for result in results]
                for row, tangent in zip(rows, tangents):
                    if tangent is not None:
                        row[number][at + step * array.size] = parts(tangent._array)
    return rows or []


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

    return gradcheck(first_derivative, (*inputs, *grad_outputs), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol,
                     check_batched_grad=check_batched_grad, check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev)
