"""Function transforms: grad, vjp, jvp, jacobians, vmap, functional calls of modules, and control flow as functions.

`rushlight.func` is what `torch.func` is. Transforms nest and compose: they run the function through the ordinary
recorded graph (transforms.py) or once per slice (mapping.py).
"""
from ..core.absent import refuser
from .control import associative_scan, cond, map, scan, while_loop
from .mapping import vmap
from .modules import functional_call, stack_module_state
from .transforms import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp

__all__ = ["associative_scan", "cond", "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "map", "scan",
           "stack_module_state", "vjp", "vmap", "while_loop"]
__getattr__ = refuser(__name__)
