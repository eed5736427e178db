"""`torch.utils.data` and its modules: other names of rushlight.data and the modules in it, not copies."""
import sys

from .. import data
from ..data import _utils, collate, dataloader, dataset, distributed, sampler

for _name, _module in {"": data, ".dataloader": dataloader, ".dataset": dataset, ".distributed": distributed, ".sampler": sampler,
                       "._utils": _utils, "._utils.collate": collate}.items():
    sys.modules[__name__ + _name] = _module
