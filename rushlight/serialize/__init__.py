"""Saving and loading: torch files, safetensors and NumPy files, without ever running code from a file."""
from ..core.errors import FormatError, SecurityError
from .api import load, save

__all__ = ["FormatError", "SecurityError", "load", "save"]
