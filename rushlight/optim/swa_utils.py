"""`torch.optim.swa_utils`: the public name of rushlight.averaging, which stands above, since a model is an nn.Module."""
from ..averaging import SWALR, AveragedModel, get_ema_avg_fn, get_ema_multi_avg_fn, get_swa_avg_fn, get_swa_multi_avg_fn, update_bn  # noqa: F401
