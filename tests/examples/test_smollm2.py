"""The examples of SmolLM2, on models small enough to list: the model itself is not fetched."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import quasir as qr
from quasir import recipes
from quasir.recipes.placeholders import fields_of, fill, read_contexts, refuse_missing
from tests.guides.small import all_ids, model

FOLDER = Path(__file__).parents[2] / "examples"


@pytest.fixture
def examples(monkeypatch):
    """Return the modules of the examples, with small parts of draws."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import amazing
    import json_mode
    import kept_draws

    monkeypatch.setattr(kept_draws, "PART", 64)
    return {"kept_draws": kept_draws, "amazing": amazing, "json_mode": json_mode}


class Refusing:
    """A proposal that must not be asked."""

    def sample(self, n, rng):
        raise AssertionError("a part that is on disk was drawn again")

    log_prob = sample


def test_a_stopped_run_gives_the_same_draws(examples, tmp_path):
    lm = model()
    target, kept_draws = lm * qr.features.contains("a"), examples["kept_draws"].kept_draws
    kept_draws(target, lm, 64, 3, tmp_path / "stopped")
    on = kept_draws(target, lm, 160, 3, tmp_path / "stopped")
    once = kept_draws(target, lm, 160, 3, tmp_path / "once")
    assert len(on) == 160
    np.testing.assert_array_equal(on.log_q, once.log_q)
    again = kept_draws(target, Refusing(), 160, 3, tmp_path / "stopped")
    np.testing.assert_array_equal(again.log_p, on.log_p)
    with pytest.raises(AssertionError, match="drawn again"):
        kept_draws(target, Refusing(), 256, 3, tmp_path / "stopped")


def test_all_spellings_are_listed(examples):
    lm = model(limit=5)
    made = examples["json_mode"]
    pieces = made.pieces_of(lm.tokenizer)
    for text in ("ab", "a ab", "b"):
        decoded = [ids for ids in all_ids(lm) if lm.tokenizer.decode(ids) == text]
        assert sorted(made.spellings(text, pieces)) == sorted(decoded)


def test_the_law_of_a_choice_is_whole(examples):
    made, lm, options = examples["json_mode"], model(limit=5), ["ab", "a ab"]
    pieces = made.pieces_of(lm.tokenizer)
    listed, a, q = made.choice_law(lm, options, pieces)
    assert q.sum() == pytest.approx(1.0, abs=1e-6)
    own = np.exp(lm.log_prob(qr.text.Texts.of([ids for _, ids in listed], lm.tokenizer)))
    np.testing.assert_allclose(a, own, rtol=1e-4)
    # Without the token "ab", some spellings are missing, and the check must see it.
    fewer = {piece: tokens for piece, tokens in pieces.items() if piece != "ab"}
    assert made.choice_law(lm, options, fewer)[2].sum() < 0.999


def test_rounds_come_nearer_to_the_exact_law(examples, tmp_path, capsys):
    made, lm = examples["json_mode"], model(limit=5)
    guide = qr.guides.regex("(ab)*b?")
    target, q = lm * guide.feature, lm.guided(guide)
    draws = made.masked(target, q, 128, tmp_path)
    rows = made.rounds(target, q, draws, 64, 3, tmp_path)
    assert [row[0] for row in rows] == [0, 64, 128, 192]
    assert rows[-1][3] > max(0.8, rows[0][3])
    assert "exact samples at Z/G_1" in capsys.readouterr().out
    np.testing.assert_allclose(made.rounds(target, q, draws, 64, 3, tmp_path), rows)


def test_shares_are_those_of_the_model(examples, tmp_path, monkeypatch):
    made, lm = examples["json_mode"], model(('"', "a", "b", '"a', 'b"'), limit=4)
    monkeypatch.setattr(made, "HOBBIES", ["a", "b"])
    guide = qr.guides.regex('"(a|b)"')
    target, q = lm * guide.feature, lm.guided(guide)
    found = made.shares(qr.draw(target, q, 4000, seed=0))
    pieces = made.pieces_of(lm.tokenizer)
    mass = {
        letter: np.exp(
            lm.log_prob(qr.text.Texts.of(made.spellings(f'"{letter}"', pieces), lm.tokenizer))
        ).sum()
        for letter in "ab"
    }
    for letter, (_, _, p, se) in found.items():
        assert abs(p - mass[letter] / sum(mass.values())) < 5 * se


def test_the_table_is_beside_filtering(examples, tmp_path, capsys):
    made, lm = examples["amazing"], model(limit=5)
    feature = qr.features.contains("b", case=False)
    target = lm * feature
    boost = made.boosted(lm, target, feature, 4.0, 0, tmp_path)
    assert boost.share == made.SHARE
    fitted = made.boosted(lm, target, feature, 4.0, 256, tmp_path)
    assert made.boosted(lm, target, feature, 4.0, 256, tmp_path).guide == fitted.guide
    rows = {}
    for name, proposal in {"plain": lm, "boosted": fitted}.items():
        rows[name] = made.report(name, proposal, qr.draw(target, proposal, 512, seed=0))
    made.table(rows)
    out = capsys.readouterr().out
    exact = np.exp(lm.log_prob(qr.text.Texts.of(all_ids(lm), lm.tokenizer)))
    has = np.array(["b" in lm.tokenizer.decode(ids).lower() for ids in all_ids(lm)])
    z = float(out.split("accepts Z = ")[1].split(" ")[0])
    assert z == pytest.approx((exact * has).sum(), rel=0.1)
    assert out.splitlines()[-1].startswith("boosted")
    draws = qr.draw(target, fitted, 64, seed=1)
    made.agreement(fitted, draws)
    assert float(capsys.readouterr().out.split("at most ")[1].rstrip(".\n")) < 1e-4


def test_spellings_of_no_token(examples):
    assert examples["json_mode"].spellings("xyz", {"x": [1], "y": [2]}) == []
    pairs = examples["json_mode"].spellings("xx", {"x": [1, 2]})
    assert sorted(pairs) == sorted(itertools.product([1, 2], repeat=2))


def test_the_chats_have_the_field_of_their_recipe():
    recipe = recipes.read(FOLDER / "chats" / "reviews.yaml")
    contexts = read_contexts(FOLDER / "chats" / "reviews.jsonl")
    assert fields_of(recipe) == ["review"]
    assert len(contexts) == 20
    refuse_missing(recipe, contexts)
    filled = fill(recipe, contexts[3])
    assert filled.base.chat[-1].content == contexts[3].fields["review"]
    shots = [turn.content for turn in filled.base.chat if turn.role == "assistant"]
    assert all(set(json.loads(shot)) == {"mood", "stars"} for shot in shots)
