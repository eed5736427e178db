"""The settings of `compile`, by PyTorch's names (`torch._dynamo.config`), and the counters of what it did."""

import collections
import functools
from typing import Any


class Settings:
    """Attributes that may be set; `patch` sets some for a block or a function.

    >>> from rushlight.compile.config import Settings
    >>> settings = Settings(limit=8)
    >>> with settings.patch(limit=2):
    ...     settings.limit
    2
    """

    def __init__(self, **values: Any):
        self.__dict__.update(values)

    def patch(self, changes: dict | str | None = None, value: Any = None, **named: Any) -> "Patch":
        if isinstance(changes, str):
            named[changes] = value
        else:
            named.update(changes or {})
        return Patch(self, named)


class Patch:
    """Sets and restores settings; a context manager and a decorator."""

    def __init__(self, settings: Settings, changes: dict):
        self.settings, self.changes = settings, changes

    def __enter__(self) -> None:
        self.before = {name: getattr(self.settings, name) for name in self.changes}
        self.set(self.changes)

    def __exit__(self, *exc: object) -> None:
        self.set(self.before)

    def set(self, values: dict) -> None:
        for name, value in values.items():  # some are other names of others
            setattr(self.settings, name, value)

    def __call__(self, function: Any) -> Any:

        @functools.wraps(function)
        def patched(*args: Any, **kwargs: Any) -> Any:
            with Patch(self.settings, self.changes):
                return function(*args, **kwargs)
        return patched


class Config(Settings):
    """`cache_size_limit` is the old name of `recompile_limit`, and `accumulated_cache_size_limit` of `accumulated_recompile_limit`."""

    @property
    def accumulated_cache_size_limit(self) -> int:
        return self.accumulated_recompile_limit

    @accumulated_cache_size_limit.setter
    def accumulated_cache_size_limit(self, value: int) -> None:
        self.accumulated_recompile_limit = value

    @property
    def cache_size_limit(self) -> int:
        return self.recompile_limit

    @cache_size_limit.setter
    def cache_size_limit(self, value: int) -> None:
        self.recompile_limit = value


config = Config(
    recompile_limit=8, accumulated_recompile_limit=256, fail_on_recompile_limit_hit=False, error_on_recompile=False,
    assume_static_by_default=True, automatic_dynamic_shapes=True, specialize_int=False, specialize_float=False,
    capture_scalar_outputs=False, capture_dynamic_output_shape_ops=False, guard_nn_modules=True, suppress_errors=False,
    force_parameter_static_shapes=True, allow_unspec_int_on_nn_module=False, trace_autograd_ops=False, use_duck_shape=True,
    nested_graph_breaks=True, trace_numpy=True, optimize_ddp=True, compiled_autograd=False, verbose=False, disable=False, inline_inbuilt_nn_modules=True,
    # PyTorch runs a frame natively when a break falls into one of its loops or `try` blocks. Here such a frame is captured in
    # pieces once it has been called some times (None), at once (True), or never (False).
    break_in_loops=None,
)
counters: dict = collections.defaultdict(collections.Counter)
