"""Optimizers, learning-rate schedules (`lr_scheduler`) and weight averaging (`swa_utils`), with PyTorch's names."""
import importlib

from ..core.absent import refuser
from . import lr_scheduler
from .adadelta import Adadelta
from .adafactor import Adafactor
from .adagrad import Adagrad
from .adam import Adam
from .adamax import Adamax
from .adamw import AdamW
from .asgd import ASGD
from .lbfgs import LBFGS
from .muon import Muon
from .nadam import NAdam
from .optimizer import Optimizer
from .radam import RAdam
from .rmsprop import RMSprop
from .rprop import Rprop
from .sgd import SGD
from .sparse_adam import SparseAdam

__all__ = ["ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam", "Optimizer", "RAdam",
           "RMSprop", "Rprop", "SGD", "SparseAdam", "lr_scheduler", "swa_utils"]


def __getattr__(name: str) -> object:
    if name == "swa_utils":  # needs nn, which is not below: loaded when asked for
        return importlib.import_module(".swa_utils", __name__)
    return refuser(__name__)(name)
