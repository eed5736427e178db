"""What the tests of optimizers step through, in either framework: fixed parameters, fixed gradients, every option."""
import math

CONFIGURATIONS = [
    ("SGD", dict(lr=0.1)), ("SGD", dict(lr=0.1, momentum=0.9)), ("SGD", dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1)),
    ("SGD", dict(lr=0.1, momentum=0.5, dampening=0.3, maximize=True)), ("SGD", dict(lr=0.1, weight_decay=0.2, maximize=True)),
    ("Adam", dict(lr=0.1)), ("Adam", dict(lr=0.1, amsgrad=True, weight_decay=0.1)), ("Adam", dict(lr=0.1, maximize=True, betas=(0.4, 0.5))),
    ("Adam", dict(lr=0.1, fused=True)), ("Adam", dict(lr=0.1, foreach=True)),
    ("AdamW", dict(lr=0.1)), ("AdamW", dict(lr=0.1, amsgrad=True, weight_decay=0.5)),
    ("Adamax", dict(lr=0.1)), ("Adamax", dict(lr=0.1, weight_decay=0.1, maximize=True)),
    ("NAdam", dict(lr=0.1)), ("NAdam", dict(lr=0.1, weight_decay=0.1, decoupled_weight_decay=True, momentum_decay=0.01)),
    ("RAdam", dict(lr=0.1)), ("RAdam", dict(lr=0.1, weight_decay=0.1, betas=(0.8, 0.7))),
    ("Adagrad", dict(lr=0.1)), ("Adagrad", dict(lr=0.1, lr_decay=0.1, initial_accumulator_value=0.3, weight_decay=0.1)),
    ("Adadelta", dict()), ("Adadelta", dict(lr=0.5, weight_decay=0.1, maximize=True)),
    ("RMSprop", dict()), ("RMSprop", dict(momentum=0.9)), ("RMSprop", dict(centered=True, momentum=0.5, weight_decay=0.1)),
    ("Rprop", dict()), ("Rprop", dict(etas=(0.4, 1.5), step_sizes=(0.005, 0.02))),
    ("ASGD", dict()), ("ASGD", dict(t0=2, lambd=0.1, weight_decay=0.1)),
    ("Adafactor", dict(lr=0.1)), ("Adafactor", dict(lr=0.1, weight_decay=0.1, d=1.5, maximize=True)),
]
SHAPES = [(3,), (2, 2), ()]
STEPS = 4


def numbers(shape, start):
    """Nested lists (or a number) of that shape, without pattern."""
    if not shape:
        return math.sin(start)
    return [numbers(shape[1:], start + 1.7 * index + 0.3 * len(shape)) for index in range(shape[0])]


def flatten(nested):
    return [x for part in nested for x in flatten(part)] if isinstance(nested, list) else [nested]


def run(torch, name, options, dtype="float64", steps=STEPS, shapes=SHAPES, without=(), closing=None):
    """Step through fixed gradients; `without` holds (step, parameter) pairs that get none. (optimizer, parameters)"""
    dtype = getattr(torch, dtype)
    params = [torch.tensor(numbers(shape, 0.5 + index), dtype=dtype, requires_grad=True) for index, shape in enumerate(shapes)]
    optimizer = getattr(torch.optim, name)(params, **options)
    for step in range(steps):
        for index, (param, shape) in enumerate(zip(params, shapes)):
            param.grad = None if (step, index) in without else torch.tensor(numbers(shape, 3.1 * step + 0.7 * index), dtype=dtype)
        optimizer.step()
    return optimizer, params


def outcome(torch, *args, **kwargs):
    """All parameters as one list of numbers."""
    return [x for param in run(torch, *args, **kwargs)[1] for x in flatten(param.tolist())]
