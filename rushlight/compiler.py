"""`torch.compiler`: what user code may say to the compiler."""
from .compile.compiler import *  # noqa: F401,F403
from .compile import compiler as _compiler


def __getattr__(name):
    return getattr(_compiler, name)
