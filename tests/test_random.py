"""torch.random: fork_rng undoes what was drawn in its block, after an error too."""
import pytest

import rushlight as torch


def drawn():
    return torch.rand(3).tolist()


def test_fork_rng():
    torch.manual_seed(1)
    expected = drawn()
    torch.manual_seed(1)
    with torch.random.fork_rng():
        drawn()
        torch.manual_seed(9)
    assert drawn() == expected
    torch.manual_seed(1)
    with pytest.raises(ZeroDivisionError), torch.random.fork_rng():
        drawn()
        raise ZeroDivisionError
    assert drawn() == expected
    torch.manual_seed(1)
    with torch.random.fork_rng(enabled=False):
        drawn()
    assert drawn() != expected


def test_a_generator_of_its_own_leaves_the_default_alone():
    torch.manual_seed(1)
    expected = drawn()
    torch.manual_seed(1)
    torch.rand(5, generator=torch.Generator().manual_seed(2))
    assert drawn() == expected


def test_state_tensors():
    state = torch.get_rng_state()
    first = drawn()
    torch.set_rng_state(state)
    assert drawn() == first and state.dtype is torch.uint8 and state.shape == (5056,)
    generator = torch.Generator()
    generator.set_state(state)
    assert torch.rand(3, generator=generator).tolist() == first
    assert torch.rand(3, generator=torch.default_generator) is not None


@pytest.mark.parametrize("fill", [lambda: torch.zeros(4, 6, dtype=torch.complex64)[:, ::2], lambda: torch.zeros(3, 4, dtype=torch.complex64).t(),
                                  lambda: torch.zeros(12, dtype=torch.complex64).flip(0)])
def test_complex_normals_in_strided_memory(fill):
    torch.manual_seed(3)
    x = fill()
    x.normal_(2.0, 3.0)
    assert torch.view_as_real(x).unique().numel() == 24
    torch.manual_seed(3)
    assert torch.equal(torch.randn(4, 3, dtype=torch.complex64, out=torch.zeros(4, 6, dtype=torch.complex64)[:, ::2]).flatten()[:1],
                       torch.tensor([0.5680019855499268 + 0.12362587451934814j]))


def test_uniform_over_nearly_all_floats():
    torch.manual_seed(3)
    assert torch.zeros(3, dtype=torch.float64).uniform_(-1e300, 1e300).tolist() == [-9.31783608698959e+299, -4.2651954655738614e+299, 5.458298886571687e+299]
    with pytest.raises(RuntimeError, match="to is out of bounds for c10::Half"):
        torch.zeros(3, dtype=torch.float16).uniform_(0, 1e5)
    for _ in range(80):  # machine code takes over
        many = torch.empty(1 << 16).uniform_(-1, 1)
    assert many.min() >= -1 and many.max() < 1
    with pytest.raises(RuntimeError, match="from is out of bounds for float"):
        many.uniform_(1e39, 1e39)


@pytest.mark.parametrize("draw, kind, words", [
    (lambda z: z.normal_(1j), TypeError, r"normal_\(\): argument 'mean' \(position 1\) must be float, not complex"),
    (lambda z: z.normal_(std="a"), TypeError, r"normal_\(\): argument 'std' must be float, not str"),
    (lambda z: z.normal_(1, 2, 3), TypeError, r"normal_\(\) takes from 0 to 2 positional arguments but 3 were given"),
    (lambda z: z.uniform_(0, None), TypeError, r"uniform_\(\): argument 'to' \(position 2\) must be float, not NoneType"),
    (lambda z: z.random_(1.5), TypeError, r"random_\(\) received an invalid combination of arguments"),
    (lambda z: z.bernoulli_(1j), TypeError, r"bernoulli_\(\) received an invalid combination of arguments"),
    (lambda z: z.to(torch.complex64).random_(3), RuntimeError, "check_random_bounds handles only integral, floating-point and boolean types"),
    (lambda z: z.to(torch.complex64).random_(), NotImplementedError, '"random_kernel_cpu" not implemented for \'ComplexFloat\''),
    (lambda z: z.to(torch.complex64).bernoulli_(), NotImplementedError, '"bernoulli_scalar_cpu_" not implemented'),
    (lambda z: z.to(torch.complex64).geometric_(0.5), NotImplementedError, '"geometric_cpu" not implemented'),
    (lambda z: z.bool().geometric_(0.5), NotImplementedError, '"geometric_cpu" not implemented for \'Bool\''),
    (lambda z: z.to(torch.complex64).log_normal_(), NotImplementedError, '"log_normal_cpu" not implemented'),
    (lambda z: z.to(torch.complex64).cauchy_(), RuntimeError, "Cauchy distribution is a continuous probability distribution"),
    (lambda z: z.long().exponential_(), RuntimeError, "Exponential distribution is a continuous probability distribution. dtype must be a floating point but you specified Long"),
    (lambda z: torch.randperm(129, dtype=torch.int8), RuntimeError, "value cannot be converted to type int8_t without overflow"),
    (lambda z: torch.randperm(2050, dtype=torch.float16), RuntimeError, "n cannot be greater than 2049 for Half type."),
    (lambda z: torch.randperm(2, dtype=torch.bool), NotImplementedError, '"randperm" not implemented for \'Bool\''),
])
def test_what_draws_refuse(draw, kind, words):
    with pytest.raises(kind, match=words):
        draw(torch.zeros(3))


def test_numbers_that_draws_take():
    torch.manual_seed(0)
    want = torch.zeros(3).normal_(2.0, 3.0).tolist()
    torch.manual_seed(0)
    assert torch.zeros(3).normal_(torch.tensor(2), std=torch.tensor(3.0)).tolist() == want
    assert torch.randperm(128, dtype=torch.int8).sort().values.tolist() == list(range(128))
    assert set(torch.zeros(50).random_(1, torch.tensor(3)).tolist()) == {1.0, 2.0}
