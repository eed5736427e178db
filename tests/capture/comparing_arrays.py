"""Whether two results with NumPy's arrays in them are the same, types and dtypes too."""

import numpy as np

import rushlight as torch


def same(got, want):
    assert type(got) is type(want), (type(got), type(want))
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for one, other in zip(got, want):
            same(one, other)
    elif isinstance(want, (np.ndarray, np.generic)):
        assert got.dtype == want.dtype and got.shape == want.shape, (got.dtype, want.dtype, got.shape, want.shape)
        if want.dtype.kind in "fc":
            np.testing.assert_allclose(got, want, rtol=2e-3 if want.dtype == np.float16 else 1e-5 if want.dtype == np.float32 else 1e-12)
            if want.dtype.kind == "f":
                np.testing.assert_array_equal(np.signbit(got) & ~np.isnan(got), np.signbit(want) & ~np.isnan(want))  # zeros too
        else:
            np.testing.assert_array_equal(got, want)
    elif isinstance(want, torch.Tensor):
        assert got.dtype is want.dtype and got.requires_grad is want.requires_grad
        same(got.detach().numpy(), want.detach().numpy())
    elif isinstance(want, dict):
        same(list(got.items()), list(want.items()))
    else:
        assert got == want
