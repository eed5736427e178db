"""The linear algebra ops that initialisation, clipping and parametrizations use, by the names of `torch.linalg`."""

from __future__ import annotations

from typing import Any

from rushlight.ops import LINALG


def __getattr__(name: str) -> Any:
    # Looked up on use: the ops are entered in the table family by family.
    try:
        return LINALG[name]
    except KeyError:
        raise AttributeError(f"module 'torch.linalg' has no attribute '{name}'") from None
