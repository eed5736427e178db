"""How many results an op has: which size of its input that depends on, so that the others may stay free."""

from typing import Any


def counted_dim(name: str, args: tuple, kwargs: dict) -> Any:
    """What decides how many results an op has: a dim whose size is their number, ("split" or "chunk", dim, number), "none" where no size does."""
    place = {"split": 2, "chunk": 2, "tensor_split": 2, "split_with_sizes": 2, "unsafe_chunk": 2, "unsafe_split": 2, "unbind": 1}.get(name)
    if name in ("broadcast_tensors", "meshgrid", "is_contiguous", "tensor_split", "split_with_sizes"):
        return "none"
    if place is None:
        return 0 if name == "__iter__" else None
    dim = kwargs.get("dim", args[place] if len(args) > place else 0)
    if name == "unbind" or type(dim) is not int:
        return dim if type(dim) is int else None
    number = args[1] if len(args) > 1 else next((kwargs[key] for key in ("chunks", "split_size", "split_size_or_sections") if key in kwargs), None)
    if isinstance(number, (list, tuple)):
        return "none"
    return (name.removeprefix("unsafe_"), dim, number) if type(number) is int and number > 0 else dim


def sizes_that_count(name: str, args: tuple, kwargs: dict, ndim: int) -> list[int]:
    """The dims of an op's input whose sizes decide how many results there are, or more of them than the graph can say.

    >>> sizes_that_count("split", (None, 4), {"dim": 2}, 3), sizes_that_count("tensor_split", (None, 4), {}, 3)
    ([2], [0, 1, 2])
    """
    counted = counted_dim(name, args, kwargs)
    dim = counted[1] if type(counted) is tuple else counted
    if counted == "none" and name in ("split", "split_with_sizes"):  # parts of given sizes: those of one dim
        dim = kwargs.get("dim", args[2] if len(args) > 2 else 0)
    if type(dim) is not int or not -ndim <= dim < ndim:
        return list(range(ndim))
    return [dim % ndim]
