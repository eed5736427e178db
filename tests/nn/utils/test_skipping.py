"""skip_init makes a module and consumes no random numbers."""
import pytest

import rushlight as torch

nn = torch.nn


def test_no_random_number_is_drawn():
    torch.manual_seed(0)
    want = torch.rand(2).tolist()
    torch.manual_seed(0)
    layer = nn.utils.skip_init(nn.Linear, 5, 1)
    assert layer.weight.shape == (1, 5) and torch.rand(2).tolist() == want
    with pytest.raises(RuntimeError, match="Module must support a 'device' arg to skip initialization"):
        nn.utils.skip_init(nn.ReLU)
