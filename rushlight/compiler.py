"""`torch.compiler`: what user code may say to the compiler."""
from .compile import compiler as _compiler
from .compile.compiler import *  # noqa: F401,F403


def __getattr__(name):
    return getattr(_compiler, name)
