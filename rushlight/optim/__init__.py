"""Optimizers, learning-rate schedules (`lr_scheduler`) and weight averaging (`swa_utils`), with PyTorch's names.

An optimizer loads when its name is first used. `__init__.pyi`, which tools/stubs.py writes, tells type checkers.
"""
from ..core.families import by_family

# The names by the file that has them.
FAMILIES = {
    "adadelta": "Adadelta", "adafactor": "Adafactor", "adagrad": "Adagrad", "adam": "Adam", "adamax": "Adamax", "adamw": "AdamW",
    "asgd": "ASGD", "lbfgs": "LBFGS", "muon": "Muon", "nadam": "NAdam", "optimizer": "Optimizer", "radam": "RAdam", "rmsprop": "RMSprop",
    "rprop": "Rprop", "sgd": "SGD", "sparse_adam": "SparseAdam",
}
PLACES = ("lr_scheduler", "swa_utils")
__getattr__, __dir__, __all__ = by_family(__name__, FAMILIES, PLACES)
