"""The doctor shows the machine, and finds a draw that is wrong."""

import json

import pytest

from quasir.cli import doctor as doctor_module
from quasir.cli.doctor import PACKAGES, extras
from tests.cli.helpers import inside


def test_what_the_doctor_says():
    code, out, _ = inside("doctor")
    assert code == 0
    for wanted in ("quasir", "numpy", "torch", "cores", "models", "cache", "self-test", ": ok"):
        assert wanted in out
    assert "WRONG" not in out


def test_as_json(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    told = json.loads(inside("doctor", "--json")[1])
    assert set(told) == {"versions", "extras", "devices", "places", "self_test"}
    assert set(told["versions"]) == {"quasir", "python", *PACKAGES}
    assert told["places"]["cache"] == str(tmp_path / "quasir")
    assert told["self_test"]["passed"] is True
    for one in told["self_test"]["comparisons"]:
        assert abs(one["value"] - one["exact"]) < 5 * one["se"]


def test_what_is_installed_of_the_extras(monkeypatch):
    """Each extra of the package is there; a package that is absent is named."""
    assert {"text", "ray", "pandas", "arviz"} <= set(extras())
    assert "torch 2" in extras()["text"]
    lines = ["numpy>=2.0", "torch>=2.6; extra == 'text'", 'no-such-thing>=1 ; extra == "text"']
    monkeypatch.setattr(doctor_module, "requires", lambda name: lines)
    assert set(extras()) == {"text"}
    assert extras()["text"].startswith("torch 2")
    assert extras()["text"].endswith("; not installed: no-such-thing")


@pytest.mark.parametrize("name", ["acceptance_rate", "tvd", "kl"])
def test_a_wrong_estimate_is_found(monkeypatch, name):
    """The control: against a value that is a third off, the self-test fails."""
    monkeypatch.setitem(doctor_module.EXACT, name, 0.67 * doctor_module.EXACT[name])
    code, out, _ = inside("doctor")
    assert code == 1
    assert out.count("WRONG") == 1
    code, out, _ = inside("doctor", "--json")
    assert code == 1
    assert json.loads(out)["self_test"]["passed"] is False
