"""`torch.utils.checkpoint`: the public name of rushlight.autograd.checkpoint."""
from ..autograd.checkpoint import CheckpointError, checkpoint, checkpoint_sequential, noop_context_fn  # noqa: F401
