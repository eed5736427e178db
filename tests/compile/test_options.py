"""`compile(options=...)`: known names are taken, others refused in PyTorch's words."""
import pytest

import rushlight as torch
from rushlight.compile.config import config


@pytest.mark.parametrize("options, text", [
    ({"nonsense": True}, "Unexpected optimization option nonsense, known options are"),
    ({"max_autotune": "yes"}, "Unexpected type of attr max_autotune, got str should be bool"),
    ({"fallback_random": 1}, "Unexpected type of attr fallback_random, got int should be bool")])
def test_unknown_options_are_refused_as_unknown_modes_are(options, text):
    with pytest.raises(RuntimeError, match=text):
        torch.compile(lambda x: x, options=options)
    with pytest.raises(RuntimeError, match=text):
        torch.compile(options=options)
    torch.compile(lambda x: x, options=options, backend="eager")  # another backend's options are its own


def test_known_options_are_taken():
    for options in ({}, {"max-autotune": True}, {"triton.cudagraphs": True, "epilogue_fusion": False}):
        compiled = torch.compile(lambda x: x + 1, options=options)
        assert compiled(torch.ones(1)).item() == 2


def test_old_names_of_settings_can_be_patched():
    with config.patch(cache_size_limit=2, accumulated_cache_size_limit=3):
        assert (config.recompile_limit, config.accumulated_recompile_limit) == (2, 3)
    assert (config.cache_size_limit, config.accumulated_cache_size_limit) == (8, 256)
