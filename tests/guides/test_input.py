"""What is wrong with a guide is said in words, before anything is drawn."""

import json

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

import quasir as qr
from tests.guides.small import JSON, model


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: qr.guides.json_schema({"type": "objct"}), "Invalid type: objct"),
        (lambda: qr.guides.json_schema({"type": "string", "pattern": "(a"}), "unclosed group"),
        (lambda: qr.guides.json_schema('{"type": '), "is not a JSON schema"),
        (lambda: qr.guides.json_schema(3), "is not a JSON schema"),
        (lambda: qr.guides.json_schema({"not": {"type": "string"}}), "Unimplemented keys"),
        (lambda: qr.guides.json_schema({"type": "integer", "minimum": 3, "maximum": 1}), "Unsatis"),
        (lambda: qr.guides.regex("(a"), "unclosed group"),
        (lambda: qr.guides.regex("(?=a)b"), "look-around"),
        (lambda: qr.guides.regex(3), "must be strings"),
        (lambda: qr.guides.grammar("start: foo"), "unknown name"),
        (lambda: qr.guides.grammar(None), "must be strings"),
        (lambda: qr.guides.choice([]), "list of different strings"),
        (lambda: qr.guides.choice("yes"), "list of different strings"),
        (lambda: qr.guides.choice(["a", "a"]), "list of different strings"),
        (lambda: qr.guides.choice(["a", ""]), "list of different strings"),
        (lambda: qr.guides.regex("a", complete="no"), "must be True or False"),
        (lambda: qr.guides.regex("a", name=""), "must be strings"),
        (lambda: qr.guides.boost({}), "nothing to boost"),
        (lambda: qr.guides.boost(3), "cannot be boosted"),
        (lambda: qr.guides.boost({"a": 0.0}), "above 0"),
        (lambda: qr.guides.boost({"a": -2.0}), "above 0"),
        (lambda: qr.guides.boost({"a": float("inf")}), "above 0"),
        (lambda: qr.guides.boost({"a": float("nan")}), "is nan"),
        (lambda: qr.guides.boost({"a": "much"}), "must be a number"),
        (lambda: qr.guides.boost([" "]), "names no word"),
        (lambda: qr.guides.boost({3: 2.0}), "cannot be boosted"),
        (lambda: qr.guides.boost(qr.features.length()), "names no word"),
        (lambda: qr.guides.boost({"a": 2.0}).feature, "allows every text"),
        (lambda: (qr.guides.boost({"a": 2.0}) * qr.guides.boost({"b": 2.0})).feature, "every text"),
    ],
)
def test_a_guide_that_cannot_be(make, words):
    with pytest.raises(qr.errors.InputError, match=words):
        make()


@pytest.mark.parametrize(
    ("guide", "words"),
    [
        (lambda: qr.guides.regex(r"[^\s\S]"), "language is empty"),
        (lambda: qr.guides.grammar('start: start "a"'), "language is empty"),
        (lambda: qr.guides.regex("xyz"), "language is empty"),
        (lambda: qr.guides.regex("(abab){3}"), "6 tokens or more, but max_tokens is 4"),
        (lambda: qr.guides.boost({"geologist": 3.0}), "no sequence of this model's tokens spells"),
        (lambda: "a*", "must be one of qr.guides"),
    ],
)
def test_a_guide_that_this_model_cannot_follow(guide, words):
    with pytest.raises(qr.errors.InputError, match=words):
        model().guided(guide())


@pytest.mark.parametrize("share", [-0.1, 1.0, 2, float("nan"), "0.2", None])
def test_a_share_that_cannot_be(share):
    with pytest.raises(qr.errors.InputError, match="share"):
        model().guided(qr.guides.boost({"a": 2.0}), share)


def test_a_long_language_is_fine_if_it_may_be_cut():
    q = model().guided(qr.guides.regex("(abab){3}", complete=False))
    assert len(q.sample(5, np.random.default_rng(0)).items) == 5


def test_a_slow_tokenizer_is_refused():
    lm = model()

    class Slow(PreTrainedTokenizerFast):
        is_fast = False

    lm.tokenizer = Slow(tokenizer_object=lm.tokenizer.backend_tokenizer, eos_token="</s>")
    with pytest.raises(qr.errors.InputError, match="slow one"):
        lm.guided(qr.guides.regex("a*"))
    assert lm.guided(qr.guides.boost({"a": 2.0})).log_prob(lm.encode(["a"])).shape == (1,)


def test_a_matcher_that_stops_is_an_error():
    """llguidance never raises: its error state is asked for."""
    lm = model()
    q = lm.guided(qr.guides.regex("(a|b)*"))

    class Stopped:
        def is_error(self):
            return True

        def stop_reason(self):
            return "ParserTooComplex"

        def get_error(self):
            return "too many items\nin a row"

    with pytest.raises(qr.errors.InputError, match="too many items in a row"):
        q.machine.refuse_error(Stopped())


def test_parser_limits_are_reported():
    """A grammar that explodes goes into llguidance's error state, and that is said."""
    lm = model(JSON, limit=12)
    deep = " | ".join(f"r{i}" for i in range(400))
    rules = "\n".join(f"r{i}: s s" for i in range(400))
    guide = f'start: s\ns: {deep} | "a" | "b"\n{rules}'
    q = lm.guided(qr.guides.grammar(guide))
    with pytest.raises(qr.errors.InputError, match="stopped with an error"):
        q.log_prob(qr.text.Texts.of([[2, 3] * 6], lm.tokenizer))


def test_files_that_are_no_guides(tmp_path):
    for content in ("", "[]", '{"guide": "lamp"}', '{"guide": "boost"}', json.dumps({"a": 1})):
        (tmp_path / "guide.json").write_text(content)
        with pytest.raises(qr.errors.StoreError, match="guide"):
            qr.guides.load(tmp_path / "guide.json")
    with pytest.raises(qr.errors.StoreError, match="cannot be read"):
        qr.guides.load(tmp_path / "none.json")
