"""`torch._foreach_add` and its kin: one op over a list of tensors. Each runs the plain op for each tensor; there is no fused form."""
from collections.abc import Callable
from typing import Any

from .ops import LINALG
from .ops.creation import plain_number
from .tensor import Tensor

UNARY = frozenset("abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round rsqrt sigmoid sign sin "
                  "sinh sqrt tan tanh trunc zero clone max".split())
BINARY = frozenset("add sub mul div pow maximum minimum clamp_max clamp_min copy mm".split())
TERNARY = frozenset("addcmul addcdiv lerp".split())
CLAMP = {"maximum": "clamp_min", "minimum": "clamp_max"}  # with a number in place of a tensor


def spread(name: str, value: Any, count: int) -> list[Any]:
    """`value` for each tensor: a list gives each its own."""
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        if value and isinstance(value[0], Tensor):
            raise RuntimeError(f"Tensor lists must have the same number of tensors, got {count} and {len(value)}")
        raise RuntimeError(f"Tensor list must have same number of elements as scalar list. {name} got {count} tensors and {len(value)} scalars")
    return list(value)


def checked(name: str, tensors: Any) -> list[Tensor]:
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"{name}() received an invalid combination of arguments - expected a list or tuple of Tensors, got {type(tensors).__name__}")
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    return list(tensors)


def foreach(name: str) -> Callable[..., Any] | None:
    """The function of this name, such as "_foreach_add" or "_foreach_add_"; None if there is none.

    >>> import rushlight as torch
    >>> torch._foreach_add([torch.tensor([1.0]), torch.tensor([2.0])], 1)
    (tensor([2.]), tensor([3.]))
    """
    op = name.removeprefix("_foreach_").rstrip("_")
    in_place = name.endswith("_")
    operands = 1 if op in UNARY else 2 if op in BINARY else 3 if op in TERNARY else 0
    if op == "norm" and not in_place:
        return norm
    if not operands:
        return None

    def run(*args: Any, **named: Any) -> Any:
        tensors = checked(name, args[0])
        if len(args) < operands:
            raise TypeError(f"{name}() missing {operands - len(args)} required positional arguments")
        columns = [spread(name, value, len(tensors)) for value in args[1:operands]]
        rest = args[operands:]
        scales = spread(name, rest[0] if rest else named.pop("value", 1), len(tensors)) if op in ("addcmul", "addcdiv") else None
        results = []
        for at, tensor in enumerate(tensors):
            values = [column[at] for column in columns]
            extra = dict(named, value=plain_number(scales[at])) if scales is not None else named
            which = CLAMP[op] if op in CLAMP and not isinstance(values[0], Tensor) else op
            results.append(getattr(tensor, which + "_" * in_place)(*values, *(() if scales is not None else rest), **extra))
        return list(tensors) if in_place else tuple(results)

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"`{op}{'_' * in_place}` of each tensor of a list. {'Returns the list.' if in_place else 'Returns a tuple.'}"
    return run


def norm(tensors: Any, ord: float = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The vector norm of each tensor of a list, over all its elements."""
    return tuple(LINALG["vector_norm"](tensor, ord, dtype=dtype) for tensor in checked("_foreach_norm", tensors))
