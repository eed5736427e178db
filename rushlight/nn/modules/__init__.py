"""PyTorch's module paths: `nn.modules.conv` is `nn.conv`, `nn.modules.module.Module` is `nn.Module`, and so on."""

from __future__ import annotations

import sys
from typing import Any

from rushlight.nn import (
    activation,
    adaptive_pooling,
    attention,
    batchnorm,
    container,
    container_parameters,
    conv,
    conv_transpose,
    distance,
    dropout,
    embedding,
    hooks,
    instancenorm,
    lazy,
    linear,
    loss,
    loss_margin,
    loss_regression,
    module_state,
    normalization,
    padding,
    pooling,
    reshaping,
    rnn,
    rnn_cells,
    sizes,
    softmax,
    transformer,
)
from rushlight.nn import module as module_file
from rushlight.nn.module import Module

# PyTorch's file -> the files here that hold what it holds.
PLACES = {
    "activation": (activation, softmax, attention),
    "adaptive": (softmax,),
    "batchnorm": (batchnorm, lazy),
    "channelshuffle": (reshaping,),
    "container": (container, container_parameters),
    "conv": (conv, conv_transpose, lazy),
    "distance": (distance,),
    "dropout": (dropout,),
    "flatten": (reshaping,),
    "fold": (reshaping,),
    "instancenorm": (instancenorm, lazy),
    "lazy": (lazy,),
    "linear": (linear, lazy),
    "loss": (loss, loss_regression, loss_margin),
    "module": (module_file, hooks, module_state),
    "normalization": (normalization,),
    "padding": (padding,),
    "pixelshuffle": (reshaping,),
    "pooling": (pooling, adaptive_pooling),
    "rnn": (rnn, rnn_cells),
    "sparse": (embedding,),
    "transformer": (transformer,),
    "upsampling": (reshaping,),
    "utils": (sizes,),
}
# Names that PyTorch spells otherwise.
RENAMED: dict[str, dict[str, Any]] = {
    "module": {
        "_IncompatibleKeys": module_state.IncompatibleKeys,
        "_EXTRA_STATE_KEY_SUFFIX": module_state.EXTRA_STATE,
        "_global_forward_hooks": hooks.GLOBAL.forward,
        "_global_forward_pre_hooks": hooks.GLOBAL.forward_pre,
        "_global_backward_hooks": hooks.GLOBAL.backward,
        "_global_backward_pre_hooks": hooks.GLOBAL.backward_pre,
    },
    "utils": {
        "_ntuple": sizes.ntuple,
        "_single": sizes.single,
        "_pair": sizes.pair,
        "_triple": sizes.triple,
        "_quadruple": sizes.quadruple,
        "_reverse_repeat_tuple": lambda t, n: tuple(x for x in reversed(t) for _ in range(n)),
    },
}


def _install() -> None:
    kind = type(sys)
    for name, sources in PLACES.items():
        place = kind(f"{__name__}.{name}", f"PyTorch's path to {', '.join(s.__name__ for s in sources)}.")
        for source in sources:
            place.__dict__.update({k: v for k, v in vars(source).items() if not k.startswith("__")})
        place.__dict__.update(RENAMED.get(name, {}))
        sys.modules[place.__name__] = place
        globals()[name] = place


def __getattr__(name: str) -> Any:
    """Every module class, as `nn` has it."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(sys.modules["rushlight.nn"], name)


_install()
__all__ = ["Module", *PLACES]
