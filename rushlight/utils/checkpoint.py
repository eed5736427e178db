"""`torch.utils.checkpoint`: the public name of rushlight.autograd.checkpoint."""
from ..autograd.checkpoint import (  # noqa: F401
    CheckpointError,
    Reentrant,
    check_backward_validity,
    checkpoint,
    checkpoint_sequential,
    detach_variable,
    get_device_states,
    noop_context_fn,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
    set_device_states,
)

CheckpointFunction = Reentrant
