"""`torch.utils.checkpoint`: the public name of rushlight.autograd.checkpoint."""
from ..autograd.checkpoint import (CheckpointError, Reentrant, check_backward_validity, checkpoint, checkpoint_sequential,  # noqa: F401
                                   detach_variable, get_device_states, noop_context_fn, set_checkpoint_debug_enabled,
                                   set_checkpoint_early_stop, set_device_states)

CheckpointFunction = Reentrant
