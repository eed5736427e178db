"""What an AttributeError says of a name that PyTorch has (the list itself is compared in tests/test_public.py)."""
import pytest

from rushlight.core.absent import absence, refuse, refuser


def test_listed_names_are_refused_with_the_reason():
    with pytest.raises(AttributeError, match=r"module 'rushlight' has no attribute 'hub': PyTorch has this name, Rushlight has not \(it opens the network\)"):
        refuse("rushlight", "hub")
    refuse("rushlight", "zerso")


def test_other_names_are_left_to_pythons_suggestion():
    assert absence("rushlight.nn", "Liner") == ""
    with pytest.raises(AttributeError) as said:
        refuser("rushlight.nn")("Liner")
    assert str(said.value) == "module 'rushlight.nn' has no attribute 'Liner'"
