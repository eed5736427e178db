"""Which rule a node of a graph asks for: Python's operators and functions under the names of ops."""

import math
import operator

from ..graph import Node
from ..graph.node import target_name
from .rules import RULES
from .rules_primitive import composite_rule

OPERATORS = {operator.add: "add", operator.sub: "sub", operator.mul: "mul", operator.truediv: "div", operator.neg: "neg",
             operator.pow: "pow", operator.lt: "lt", operator.le: "le", operator.gt: "gt", operator.ge: "ge",
             operator.eq: "eq", operator.ne: "ne", operator.and_: "bitwise_and", operator.or_: "bitwise_or",
             operator.xor: "bitwise_xor", operator.invert: "bitwise_not", operator.getitem: "getitem", operator.abs: "abs",
             operator.matmul: "matmul", abs: "abs"}
FUNCTIONS = {getattr(math, name): name for name in "sqrt log log2 log10 log1p exp expm1 sin cos tan asin acos atan sinh cosh tanh asinh".split()}
OPERATORS.update(FUNCTIONS)
# Arithmetic on Python's numbers that gives floats.
FLOATING = frozenset({operator.truediv, operator.pow, *FUNCTIONS})


def op_name(node: Node) -> str | None:
    """The name of a node's rule."""
    if node.op == "call_method":
        return node.target if node.target in RULES or composite_rule(node.target) else None
    if node.op != "call_function":
        return None
    target = node.target
    try:
        if target in OPERATORS:
            return OPERATORS[target]
    except TypeError:  # unhashable callables
        return None
    record = getattr(target, "op_record", None)
    name = record.name if record is not None else target_name(target)
    ours = record is not None or str(getattr(target, "__module__", "")).startswith("rushlight.")
    return name if ours and (name in RULES or composite_rule(name)) else None
