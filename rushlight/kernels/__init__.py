"""Graphs to native kernels: lowering, loops, code generation, the thread pool and the object cache.

`lower(graph_module, example_inputs)` is the entry; the rest is imported by its own name.  Importing this costs nothing: llvmlite
loads when the first kernel is made.
"""

from .lower import lower, programs
from .pool import get_num_threads, set_num_threads

__all__ = ["get_num_threads", "lower", "programs", "set_num_threads"]
