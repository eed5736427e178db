"""Normal numbers: PyTorch's to the bit for float32, and a digest recorded from PyTorch 2.13 for a long run."""
import hashlib

import ml_dtypes
import numpy as np
import pytest

from rushlight.core.generator import Generator
from rushlight.core.normal import affine, normal_

RECORDED = {  # positions of a draw of so many, seed 11
    (16, "f4"): ([0, 7, 8, 15], [-0.5107975602149963, -0.5242824554443359, -0.24873711168766022, -0.007992205210030079]),
    (17, "f4"): ([0, 1, 8, 16], [-0.5107975602149963, 1.57270348072052, 0.07443918287754059, 1.9112735986709595]),
    (16, "f8"): ([0, 7, 8, 15], [0.27837984592949944, 0.5386378298124714, -0.5913690382419431, 0.06826324999477691]),
}


@pytest.mark.parametrize("count, kind", RECORDED)
def test_recorded(count, kind):
    at, expected = RECORDED[count, kind]
    values = normal_(np.empty(count, kind), generator=Generator().manual_seed(11))[at].astype("f8")
    assert np.abs(values - expected).max() <= (0 if kind == "f4" else 3e-16)


def test_recorded_mean_and_std():
    values = normal_(np.empty(20, "f4"), 0.5, 2.0, Generator().manual_seed(11))[[0, 3, 4, 19]]
    assert values.astype("f8").tolist() == [-0.5215951204299927, 0.7459826469421387, 0.19074976444244385, 1.49660062789917]


def test_a_long_run_has_the_bits_pytorch_gave():
    values = normal_(np.empty(100003, "f4"), generator=Generator().manual_seed(11))
    assert hashlib.sha256(values.tobytes()).hexdigest()[:16] == "0d1e3c1396a4081a"


def test_the_second_of_a_pair_waits_in_the_generator():
    together = normal_(np.empty(6, "f4"), generator=Generator().manual_seed(3))
    generator = Generator().manual_seed(3)
    one_by_one = [normal_(np.empty(1, "f4"), generator=generator).item() for _ in range(6)]
    assert together.tolist() == one_by_one
    generator.manual_seed(3)
    normal_(np.empty(1, "f4"), generator=generator)
    assert generator.manual_seed(3).next_normal is None  # seeding forgets it


def test_affine_rounds_once():
    values = np.array([1.0 + 2.0 ** -30, 1e300, 3.0])
    exact = [float(np.longdouble(v) * np.longdouble(1.0 + 2.0 ** -30) - np.longdouble(1.0)) for v in values]
    assert affine(values, 1.0 + 2.0 ** -30, -1.0)[0] == exact[0]
    assert affine(np.array([0.5]), 1.0, 0.25).tolist() == [0.75]


def test_moments():
    values = normal_(np.empty(1_000_003, "f4"), generator=Generator().manual_seed(0)).astype("f8")
    assert abs(values.mean()) < 0.004 and abs(values.std() - 1) < 0.004
    assert abs((values ** 3).mean()) < 0.02 and abs((values ** 4).mean() - 3) < 0.05


@pytest.mark.parametrize("kind", ["f4", "f8", "f2", "bf16"])
def test_equals_pytorch(kind):
    torch = pytest.importorskip("torch")
    dtype = {"f4": torch.float32, "f8": torch.float64, "f2": torch.float16, "bf16": torch.bfloat16}[kind]
    for count in (1, 2, 15, 16, 17, 31, 40, 100, 32769, 70001):
        for mean, std in ((0.0, 1.0), (0.3, 2.5), (0.0, 0.1), (2.0, 1.0)):
            generator, oracle = Generator().manual_seed(count), torch.Generator().manual_seed(count)
            array = np.empty(count, ml_dtypes.bfloat16 if kind == "bf16" else kind)
            normal_(array, mean, std, generator)
            expected = torch.empty(count, dtype=dtype).normal_(mean, std, generator=oracle).double().numpy()
            if kind == "f8":  # NumPy's vector log, sin and cos may differ from libm's in the last bit
                assert np.allclose(array, expected, rtol=1e-14, atol=1e-15)
            else:
                assert (array.astype("f8") == expected).all()
            assert (generator.get_state() == oracle.get_state().numpy()).all()


def test_strided_equals_pytorch():
    torch = pytest.importorskip("torch")
    array, tensor = np.zeros((4, 5, 6), "f4"), torch.zeros(4, 5, 6)
    normal_(array.transpose(2, 0, 1)[::2], generator=Generator().manual_seed(1))
    tensor.permute(2, 0, 1)[::2].normal_(generator=torch.Generator().manual_seed(1))
    assert (array == tensor.numpy()).all()
