"""From constraints to transforms onto them: `biject_to` (bijective) and `transform_to` (simple, not always).

>>> import rushlight as torch
>>> torch.distributions.transform_to(torch.distributions.constraints.positive)(torch.tensor(0.0))
tensor(1.)
"""
import numbers

from . import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """A table from types of constraints to functions that make a transform."""

    def __init__(self):
        self._registry = {}

    def register(self, constraint, factory=None):
        """Add a constraint's factory; usable as a decorator."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint):
        """The transform onto a constraint."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def both(*kinds):
    """Register a factory in both tables for several constraints."""
    def add(factory):
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory
    return add


both(constraints.real)(lambda constraint: transforms.identity_transform)
both(constraints.positive, constraints.nonnegative)(lambda constraint: transforms.ExpTransform())


@both(constraints.greater_than, constraints.greater_than_eq)
def above(constraint):
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)])


@both(constraints.less_than)
def below(constraint):
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)])


@both(constraints.interval, constraints.half_open_interval)
def between(constraint):
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, numbers.Number) and low == 0 and isinstance(high, numbers.Number) and high == 1:
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


@biject_to.register(constraints.independent)
def independent_bijection(constraint):
    return transforms.IndependentTransform(biject_to(constraint.base_constraint), constraint.reinterpreted_batch_ndims)


@transform_to.register(constraints.independent)
def independent_transform(constraint):
    return transforms.IndependentTransform(transform_to(constraint.base_constraint), constraint.reinterpreted_batch_ndims)


biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda constraint: transforms.LowerCholeskyTransform())
both(constraints.corr_cholesky)(lambda constraint: transforms.CorrCholeskyTransform())
for kind in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(kind, lambda constraint: transforms.PositiveDefiniteTransform())


@biject_to.register(constraints.cat)
def cat_bijection(constraint):
    return transforms.CatTransform([biject_to(c) for c in constraint.cseq], constraint.dim, constraint.lengths)


@transform_to.register(constraints.cat)
def cat_transform(constraint):
    return transforms.CatTransform([transform_to(c) for c in constraint.cseq], constraint.dim, constraint.lengths)


@biject_to.register(constraints.stack)
def stack_bijection(constraint):
    return transforms.StackTransform([biject_to(c) for c in constraint.cseq], constraint.dim)


@transform_to.register(constraints.stack)
def stack_transform(constraint):
    return transforms.StackTransform([transform_to(c) for c in constraint.cseq], constraint.dim)
