"""Classifiers and reward models as features: tiny ones, made here."""

import pickle

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

import quasir as qr
from quasir.features.classifier import Classifier, classifier, reward_model
from tests.text.tiny import masked_tokenizer, tokenizer

TEXTS = ["good", "bad", "good film", "bad film bad", "film", "", "good good good bad"]


def network(labels=("NEGATIVE", "POSITIVE"), seed=0, **settings):
    """Return a loaded pair: a classifier of random weights and its tokenizer."""
    words = masked_tokenizer(tokenizer(("good", "bad", "film")))
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        initializer_range=1.0,
        max_position_embeddings=12,
        pad_token_id=words.pad_token_id,
        id2label=dict(enumerate(labels)),
        **settings,
    )
    return BertForSequenceClassification(config).eval(), words


@torch.inference_mode()
def logits_by_hand(pair, *texts):
    model, words = pair
    one = words(*[[text] for text in texts], return_tensors="pt", truncation=True, max_length=12)
    return model(**one).logits[0].double().numpy()


@pytest.fixture(scope="module")
def pair():
    return network()


@pytest.fixture(scope="module")
def folder(pair, tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    pair[0].save_pretrained(folder)
    pair[1].save_pretrained(folder)
    return folder


def test_a_probability_is_that_of_one_text_alone_whatever_the_batch(pair):
    feature = classifier(pair, label="POSITIVE")
    hand = []
    for text in TEXTS:
        powers = np.exp(logits_by_hand(pair, text))
        hand.append(powers[1] / powers.sum())
    np.testing.assert_allclose(feature(TEXTS), hand, atol=1e-6)
    np.testing.assert_allclose(feature(TEXTS * 30), hand * 30, atol=1e-6)
    assert feature.bounds == (0.0, 1.0)
    assert np.ptp(hand) > 0.2  # the texts differ, so that the order matters
    above = classifier(pair, "positive", above=0.5)
    assert above.boolean
    assert above(TEXTS).tolist() == [share > 0.5 for share in hand]


def test_a_folder_and_a_loaded_pair_agree_and_travel_to_other_processes(pair, folder):
    given, named = classifier(pair, "POSITIVE"), classifier(folder, "POSITIVE")
    np.testing.assert_allclose(given(TEXTS), named(TEXTS), atol=1e-6)
    again = pickle.loads(pickle.dumps(named))
    np.testing.assert_allclose(again(TEXTS), given(TEXTS), atol=1e-6)
    assert Classifier(folder).identity["weights_sha256"]


def test_several_labels_at_once_are_probabilities_of_their_own():
    pair = network(("sad", "funny", "long"), problem_type="multi_label_classification")
    hand = [1 / (1 + np.exp(-logits_by_hand(pair, text)[1])) for text in TEXTS]
    np.testing.assert_allclose(classifier(pair, "funny")(TEXTS), hand, atol=1e-6)


def test_a_hypothesis_asks_for_entailment_and_a_prompt_makes_pairs(pair):
    inference = network(("contradiction", "neutral", "entailment"))
    feature = classifier(inference, hypothesis="good film")
    powers = [np.exp(logits_by_hand(inference, text, "good film")) for text in TEXTS]
    hand = [power[2] / power.sum() for power in powers]
    np.testing.assert_allclose(feature(TEXTS), hand, atol=1e-6)
    pairs = classifier(pair, "POSITIVE", value="logit", prompt="bad film")
    hand = [logits_by_hand(pair, "bad film", text)[1] for text in TEXTS]
    np.testing.assert_allclose(pairs(TEXTS), hand, atol=1e-5)


def test_a_reward_model_tilts_by_its_output(pair):
    one = network(("reward",))
    base = qr.Table({text: 1 / 3 for text in ("good", "bad", "film")})
    target = base * reward_model(one, temperature=0.5, high=1000.0)
    rewards = [logits_by_hand(one, text)[0] for text in ("good", "bad", "film")]
    found = target.log_score(["good", "bad", "film"])
    np.testing.assert_allclose(found, np.log(1 / 3) + np.array(rewards) / 0.5, atol=1e-4)
    with pytest.raises(qr.errors.InputError, match="more than one label: its labels are NEGATIVE"):
        (base * reward_model(pair)).log_score(["good"])


def test_a_text_that_is_cut_is_said(pair):
    feature = classifier(pair, "POSITIVE")
    with pytest.warns(qr.errors.QuasirWarning, match="1 of 2 texts .* first 12"):
        cut = feature(["good " * 30, "good"])
    np.testing.assert_allclose(cut[0], feature(["good " * 10])[0], atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"label": "HAPPY"}, "no label 'HAPPY': its labels are NEGATIVE, POSITIVE"),
        ({}, "more than one label"),
        ({"hypothesis": "film"}, "no label of entailment"),
        ({"label": "POSITIVE", "prompt": "a", "hypothesis": "b"}, "do not go together"),
        ({"label": "POSITIVE", "above": 1.0}, "between 0 and 1"),
        ({"label": "POSITIVE", "value": "odds"}, "must be 'probability' or 'logit'"),
    ],
)
def test_mistakes_name_what_there_is(pair, arguments, words):
    with pytest.raises(qr.errors.InputError, match=words):
        classifier(pair, **arguments)(["good"])


@pytest.mark.parametrize("model", ["quasir/nothing", "no-such-folder", "owner/no-such-model"])
def test_a_name_that_is_no_model(model):
    with pytest.raises(qr.errors.InputError, match=r"no model|could not be loaded"):
        classifier(model, "POSITIVE")(["good"])


def test_one_output_has_no_probability():
    with pytest.raises(qr.errors.InputError, match="value='logit', or use"):
        classifier(network(("reward",)))(["good"])
