"""`torch._dynamo`: the names that scripts use, from rushlight.compile.dynamo."""
from .compile import dynamo as _names


def __getattr__(name):
    return getattr(_names, name)
