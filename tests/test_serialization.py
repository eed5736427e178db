"""torch.serialization: the names are there, and a listed class still does not make a file run code."""
import io
import os
import pickle

import pytest

import rushlight as torch
from rushlight.serialize.zip_write import write_archive


class Asks:
    def __reduce__(self):
        return os.getenv, ("HOME",)


def test_safe_globals_change_nothing():
    file = io.BytesIO()
    write_archive(file, [("archive/data.pkl", pickle.dumps(Asks(), 2))])
    with torch.serialization.safe_globals([os.getenv]):
        assert torch.serialization.get_safe_globals() == [os.getenv]
        file.seek(0)
        with pytest.raises(torch.serialization.SecurityError, match="asks for `os.getenv`"):
            torch.load(file, weights_only=False)
    assert torch.serialization.get_safe_globals() == []
    assert torch.serialization.load is torch.load
