"""Sentence models by name: built in, in a package, in a folder."""

import pytest

import quasir as qr
from quasir.features.similarity import SentenceModel, is_installed


def test_a_package_is_found_without_importing_it(tmp_path, monkeypatch):
    folder = tmp_path / "my_sentences" / "model"
    folder.mkdir(parents=True)
    (tmp_path / "my_sentences" / "__init__.py").write_text("raise RuntimeError")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not is_installed("my-sentences")
    (folder / "modules.json").write_text("[]")
    assert is_installed("my-sentences")
    assert SentenceModel("my-sentences").folder == folder
    assert not is_installed("not an identifier/at all")
    assert not is_installed("__main__")
    assert not is_installed("json")


def test_a_folder_and_a_hub_id(tmp_path):
    (tmp_path / "modules.json").write_text("[]")
    assert SentenceModel(str(tmp_path)).folder == tmp_path
    assert SentenceModel("someone/some-model").folder is None
    with pytest.raises(qr.errors.InputError, match="no sentence model that comes with the package"):
        _ = SentenceModel("quasir/biographies").folder


def test_the_built_in_one_has_a_hash():
    identity = SentenceModel("quasir/sentences").identity
    assert identity["name"] == "quasir/sentences"
    assert len(identity["weights_sha256"]) == 64


def test_a_text_without_a_letter_has_no_direction():
    pytest.importorskip("sentence_transformers")
    feature = qr.features.similarity("How are you?", embed="quasir/sentences")
    found = feature(["", "How are you?", " \n"])
    assert found[1] == pytest.approx(1, abs=1e-5)
    assert found[0] == found[2] == 0
    assert feature(["", "  "]).tolist() == [0.0, 0.0]
