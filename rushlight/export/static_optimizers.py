"""Optimizers of static graphs: `minimize(loss)` adds the update of every trainable variable to the graph."""

from typing import Any

from ..ops import zeros_like
from ..tensor import wrap
from .static_graph import GraphTensor, Operation, assign, gradients, group, trainable_variables, variable


class Optimizer:
    """A rule that makes assignments from gradients."""

    def compute_gradients(self, loss: GraphTensor, var_list: list | None = None) -> list[tuple]:
        """(gradient, variable) for each trainable variable."""
        with loss.graph.as_default():
            variables = var_list if var_list is not None else trainable_variables()
        if not variables:
            raise ValueError("No variables to optimize.")
        return list(zip(gradients(loss, variables), variables))

    def apply_gradients(self, grads_and_vars: list[tuple], name: str = "train") -> Operation:
        """The operation that updates the variables."""
        pairs = [(gradient, target) for gradient, target in grads_and_vars if gradient is not None]
        if not pairs:
            raise ValueError("No gradients provided for any variable, check your graph for ops that do not support gradients, between variables "
                             f"{[str(target) for _, target in grads_and_vars]} and loss.")
        with pairs[0][1].graph.as_default():
            return group(*(step for gradient, target in pairs for step in self.update(gradient, target)), name=name)

    def minimize(self, loss: GraphTensor, var_list: list | None = None, name: str = "train") -> Operation:
        """The operation of one training step."""
        return self.apply_gradients(self.compute_gradients(loss, var_list), name)

    def update(self, gradient: GraphTensor, target: GraphTensor) -> list:
        raise NotImplementedError

    def slot(self, target: GraphTensor, what: str) -> GraphTensor:
        """A variable beside the variable, zeros at first."""
        return variable(zeros_like(wrap(target.held, target._dtype)), name=f"{target.node.name}_{what}", trainable=False)


class GradientDescentOptimizer(Optimizer):
    """w - rate * gradient."""

    def __init__(self, learning_rate: float):
        self.learning_rate = learning_rate

    def update(self, gradient: GraphTensor, target: GraphTensor) -> list:
        return [assign(target, target - self.learning_rate * gradient)]


class MomentumOptimizer(Optimizer):
    """w - rate * velocity, where velocity = momentum * velocity + gradient."""

    def __init__(self, learning_rate: float, momentum: float = 0.9):
        self.learning_rate, self.momentum = learning_rate, momentum

    def update(self, gradient: GraphTensor, target: GraphTensor) -> list:
        velocity = self.slot(target, "momentum")
        new = velocity * self.momentum + gradient
        return [assign(velocity, new), assign(target, target - self.learning_rate * new)]


class AdamOptimizer(Optimizer):
    """Adam (Kingma and Ba, 2015, algorithm 1)."""

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8):
        self.learning_rate, self.beta1, self.beta2, self.epsilon = learning_rate, beta1, beta2, epsilon

    def update(self, gradient: GraphTensor, target: GraphTensor) -> list:
        mean, square = self.slot(target, "adam_mean"), self.slot(target, "adam_square")
        count = variable(0.0, name=f"{target.node.name}_adam_count", trainable=False)
        step = count + 1
        new_mean = mean * self.beta1 + gradient * (1 - self.beta1)
        new_square = square * self.beta2 + gradient * gradient * (1 - self.beta2)
        corrected = new_mean / (1 - self.beta1 ** step)
        scale = (new_square / (1 - self.beta2 ** step)).sqrt() + self.epsilon
        return [assign(count, step), assign(mean, new_mean), assign(square, new_square), assign(target, target - self.learning_rate * corrected / scale)]


def any_optimizer(kind: str, **options: Any) -> Optimizer:
    """An optimizer by name: "sgd", "momentum" or "adam"."""
    return {"sgd": GradientDescentOptimizer, "momentum": MomentumOptimizer, "adam": AdamOptimizer}[kind](**options)
