"""`torch.utils.tensorboard`: SummaryWriter, written by the package tensorboardX where it is installed."""
from typing import Any


class SummaryWriter:
    """Writes event files for TensorBoard. Made by tensorboardX (pip install tensorboardX); ModuleNotFoundError without it."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        try:
            from tensorboardX import SummaryWriter as Writer
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("SummaryWriter needs the package tensorboardX, which is not installed: pip install tensorboardX",
                                      name="tensorboardX") from error
        return Writer(*args, **kwargs)
