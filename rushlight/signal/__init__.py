"""`torch.signal`: window functions, in `windows`."""
from . import windows
