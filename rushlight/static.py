"""`torch.static`: graphs that are built first and run later (as TensorFlow 1), and functions traced per signature (as tf.function)."""
from .export.static_function import ConcreteFunction, StaticFunction, TensorSpec, function
from .export.static_graph import (
                                  FailedPreconditionError,
                                  Graph,
                                  GraphTensor,
                                  InvalidArgumentError,
                                  Operation,
                                  assign,
                                  assign_add,
                                  assign_sub,
                                  global_variables,
                                  global_variables_initializer,
                                  gradients,
                                  group,
                                  placeholder,
                                  reset_default_graph,
                                  trainable_variables,
                                  variable,
)
from .export.static_graph import default_graph as get_default_graph
from .export.static_optimizers import AdamOptimizer, GradientDescentOptimizer, MomentumOptimizer, Optimizer
from .export.static_session import Session

__all__ = ["AdamOptimizer", "ConcreteFunction", "FailedPreconditionError", "GradientDescentOptimizer", "Graph", "GraphTensor", "InvalidArgumentError",
           "MomentumOptimizer", "Operation", "Optimizer", "Session", "StaticFunction", "TensorSpec", "assign", "assign_add", "assign_sub", "function",
           "get_default_graph", "global_variables", "global_variables_initializer", "gradients", "group", "placeholder", "reset_default_graph",
           "trainable_variables", "variable"]
