"""`env` and `doctor`, called as functions."""
import json

import pytest

from rushlight.cli import environment, main


def test_env_as_json(capsys):
    assert main(["env", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert {"numpy", "python", "blas", "cores"} <= set(facts)


def test_env_for_people(capsys):
    assert main(["env"]) == 0
    assert "numpy" in capsys.readouterr().out


@pytest.mark.parametrize("name", environment.CHECKS)
def test_each_check_of_the_doctor_passes_here(name):
    assert environment.CHECKS[name]()


def test_a_failed_check_is_reported(monkeypatch, capsys):
    def broken():
        raise AssertionError("two and two make five")
    monkeypatch.setattr(environment, "CHECKS", {"arithmetic": broken})
    assert main(["doctor"]) == 1
    assert "FAILED: AssertionError: two and two make five" in capsys.readouterr().out


def test_wrong_usage_is_status_2():
    with pytest.raises(SystemExit) as stop:
        main(["no-such-command"])
    assert stop.value.code == 2
