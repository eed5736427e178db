"""Modules as functions of their parameters."""
from contextlib import contextmanager

from ..ops import stack


@contextmanager
def replaced(module, tensors, tie_weights=True, strict=False):
    """Inside, the module's parameters and buffers of these names are the given tensors."""
    known = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
    unknown = [name for name in tensors if name not in known]
    if strict:
        missing = [name for name in known if name not in tensors]
        if unknown or missing:
            raise RuntimeError("Error(s) in loading parameters and buffers for " + type(module).__name__ + ":" + (
                f" unexpected keys: {unknown}." if unknown else "") + (f" missing keys: {missing}." if missing else ""))
    for name in unknown:
        if not hasattr(module, name.split(".")[0]):
            raise AttributeError(f"'{type(module).__name__}' object has no attribute '{name.split('.')[0]}'")
    tensors = dict(tensors)
    if tie_weights:
        for name, value in list(tensors.items()):
            for other, twin in known.items():
                if other not in tensors and name in known and twin is known[name]:
                    tensors[other] = value
    places = []
    for name, value in tensors.items():
        path, _, last = name.rpartition(".")
        owner = module.get_submodule(path)
        table = owner._parameters if last in owner._parameters else owner._buffers
        places.append((table, last, table.get(last), value))
    for table, last, _, value in places:
        table[last] = value
    try:
        yield
    finally:
        for table, last, old, _ in places:
            table[last] = old


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """Call a module with other tensors in place of its parameters and buffers, which stay untouched.

    parameter_and_buffer_dicts: a dict of name to tensor, or several; names as `named_parameters` gives them.

    >>> import rushlight as torch
    >>> layer = torch.nn.Linear(2, 1)
    >>> torch.func.functional_call(layer, {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}, torch.ones(1, 2))
    tensor([[2.]])
    """
    if isinstance(parameter_and_buffer_dicts, dict):
        tensors = parameter_and_buffer_dicts
    else:
        tensors = {}
        for part in parameter_and_buffer_dicts:
            for name in part:
                if name in tensors:
                    raise ValueError(f"{name} appears in multiple dictionaries; behavior of functional call is ambiguous")
            tensors |= part
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with replaced(module, tensors, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def stack_module_state(models):
    """(parameters, buffers) of several modules of one class, each stacked along a new first dim, as dicts.

    >>> import rushlight as torch
    >>> parameters, buffers = torch.func.stack_module_state([torch.nn.Linear(2, 1) for _ in range(3)])
    >>> parameters["weight"].shape
    torch.Size([3, 1, 2])
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({module.training for module in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(module) is not type(models[0]) for module in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def joined(tables):
        result = {}
        for name in tables[0]:
            values = [table[name] for table in tables]
            needs = any(value.requires_grad for value in values)
            result[name] = stack([value.detach() for value in values]).requires_grad_(needs)
        return result

    return joined([dict(module.named_parameters()) for module in models]), joined([dict(module.named_buffers()) for module in models])
