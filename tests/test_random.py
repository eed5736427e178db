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
