"""Answers to "what was recorded, what is still alive, and who holds it", looked up only when asked.

`show_graph` writes a recorded graph down, `show` what a function is compiled to; `leaks` and `track_graphs` find graphs that outlive their step. Nothing here costs
anything until it is called: no registry is kept, live objects are found through the garbage collector.
"""
from .graph_text import show_graph
from .leaks import GraphsHeldWarning, LeakReport, leaks, track_graphs
from .live import HeldGraphs
from .stages import show
from .steps import memory_table, profile_kernels

__all__ = ["GraphsHeldWarning", "HeldGraphs", "LeakReport", "leaks", "memory_table", "profile_kernels", "show", "show_graph", "track_graphs"]
