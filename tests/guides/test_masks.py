"""Masks on the built-in model's 6,144 tokens, bit by bit."""

import numpy as np
import pytest

import quasir as qr
from quasir.guides.matcher import MatcherMachine
from quasir.guides.vocabulary import Vocabulary
from quasir.text.loading import load_tokenizer


@pytest.fixture(scope="module")
def vocabulary():
    tokenizer = load_tokenizer("quasir/biographies")
    return Vocabulary(tokenizer, len(tokenizer), tokenizer.eos_token_id)


def bits(mask, size):
    return np.unpackbits(mask.view(np.uint8), bitorder="little")[:size].astype(bool)


def upper(c):
    return 65 <= c <= 90


def lower(c):
    return 97 <= c <= 122


def digit(c):
    return 48 <= c <= 57


def step(state, c):
    """Return the next state of [A-Z][a-z]+ [0-9]{4}, or None; 7 accepts."""
    moves = {
        0: {1: upper(c)},
        1: {2: lower(c)},
        2: {2: lower(c), 3: c == 32},
        **{i: {i + 1: digit(c)} for i in range(3, 7)},
    }
    return next((to for to, allowed in moves.get(state, {}).items() if allowed), None)


def walk(state, text):
    for c in text:
        state = step(state, c)
        if state is None:
            return None
    return state


def test_every_bit_of_a_regular_expression(vocabulary):
    machine = MatcherMachine(qr.guides.regex("[A-Z][a-z]+ [0-9]{4}"), vocabulary)
    table = [vocabulary.for_masks.decode_bytes([i]) for i in range(vocabulary.size)]
    rng = np.random.default_rng(0)
    checked = 0
    for _ in range(12):
        rows, state = machine.begin(1), 0
        for _ in range(10):
            # The byte 0xff, which no text has, stands for nothing in llguidance.
            wanted = np.array([text != b"" and walk(state, text) is not None for text in table])
            wanted[vocabulary.end] = state == 7
            found = bits(rows.weights().mask[0], vocabulary.size)
            np.testing.assert_array_equal(found, wanted)
            checked += 1
            choices = np.flatnonzero(wanted & (np.arange(len(wanted)) != vocabulary.end))
            if not len(choices):
                break
            token = int(rng.choice(choices))
            state = walk(state, table[token])
            rows.advance(np.array([token]))
    assert checked > 40


@pytest.mark.parametrize(
    "guide",
    [
        qr.guides.json_schema(
            {
                "type": "object",
                "properties": {"name": {"type": "string"}, "born": {"type": "integer"}},
                "required": ["name", "born"],
                "additionalProperties": False,
            }
        ),
        qr.guides.choice(["She was born in 1912.", "She was a chemist.", "He was born in 1912."]),
        qr.guides.grammar('start: "(" start ")" | word\nword: /[a-z ]+/'),
    ],
    ids=str,
)
def test_the_mask_allows_what_the_matcher_reads(vocabulary, guide):
    """Every token, in every state of some walks: no spelling is forced."""
    machine = MatcherMachine(guide, vocabulary)
    rng = np.random.default_rng(1)
    for _ in range(3):
        rows = machine.begin(1)
        for _ in range(12):
            allowed = bits(rows.weights().mask[0], vocabulary.size)
            matcher = rows.matchers[0]
            read = np.array(
                [matcher.deep_copy().try_consume_tokens([i]) == 1 for i in range(len(allowed))]
            )
            read[vocabulary.end] = allowed[vocabulary.end] = False
            np.testing.assert_array_equal(allowed, read)
            if not allowed.any():
                break
            rows.advance(np.array([rng.choice(np.flatnonzero(allowed))]))


def test_rows_move_as_the_decoder_moves_them(vocabulary):
    machine = MatcherMachine(qr.guides.regex("[A-Z][a-z]+ [0-9]{4}"), vocabulary)
    ids = [vocabulary.spelled(text)[0] for text in ("A", "B", "C")]
    rows = machine.begin(3)
    rows.advance(np.array(ids))
    wanted = rows.weights().mask[2].copy()
    rows.put(np.array([0]), machine.begin(1))
    first = machine.begin(1).weights().mask[0]
    np.testing.assert_array_equal(rows.weights().mask[0], first)
    rows.keep(np.array([0]), np.array([2]), 2)
    assert rows.weights().mask.shape[0] == 2
    np.testing.assert_array_equal(rows.weights().mask[0], wanted)
    rows.advance(np.array([vocabulary.end, vocabulary.spelled("9")[0]]))
    assert not rows.weights().mask.any()  # both have left the language
