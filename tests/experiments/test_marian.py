"""A translation model in Marian's format, on weights small enough to list every translation."""

import itertools
import struct

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch")

from experiments.marian import BYTES, END, FLOATS, HEADS, Marian, Translations, read_weights  # noqa: E402
from experiments.paraphrases import Paraphrases, draw_pool  # noqa: E402

import quasir as qr  # noqa: E402
from tests.text.tiny import tokenizer  # noqa: E402

WORDS = ("a", "b", "c")
WIDTH, INNER = 2 * HEADS, 8


def weights(seed=0):
    """Return random weights with Marian's names: two layers of the encoder, two of the decoder."""
    torch.manual_seed(seed)
    made = {"Wemb": torch.randn(1 + len(WORDS), WIDTH), "decoder_ff_logit_out_b": torch.randn(1, 4)}

    def add(name, *parts, inner=WIDTH):
        for part in parts:
            rows, columns = {"1": (WIDTH, inner), "2": (inner, WIDTH)}.get(part, (WIDTH, WIDTH))
            made[f"{name}_W{part}"] = torch.randn(rows, columns)
            made[f"{name}_b{part}"] = torch.randn(1, columns)

    for side, layer in itertools.product(("encoder", "decoder"), (1, 2)):
        attention = f"{side}_l{layer}_{'self' if side == 'encoder' else 'context'}"
        add(attention, "q", "k", "v", "o")
        add(f"{side}_l{layer}_ffn", "1", "2", inner=INNER)
        normal = [f"{attention}_Wo", f"{side}_l{layer}_ffn_ffn"]
        if side == "decoder":
            made[f"decoder_l{layer}_rnn_W"] = torch.randn(WIDTH, WIDTH)
            add(f"decoder_l{layer}_rnn", "f")
            normal.append(f"decoder_l{layer}_rnn_ffn")
        for name in normal:
            made[f"{name}_ln_scale"] = torch.rand(1, WIDTH) + 0.5
            made[f"{name}_ln_bias"] = torch.randn(1, WIDTH)
    return made


MODEL = Marian(weights(), tokenizer(WORDS, bos="</s>", eos="</s>"))
EVERY = [text for length in range(4) for text in itertools.product((1, 2, 3), repeat=length)]


def by_hand(q, ids):
    """Return log q of one text, token by token, with no prefix shared."""
    source, cells, token, total = MODEL.encode(q.source), MODEL.start(), None, 0.0
    for place, following in enumerate([*ids, END][: q.max_tokens]):
        logits, cells = MODEL.step(token, place, cells, source)
        logits = logits[0].double() / q.temperature
        if q.top_k is not None:
            logits[logits < logits.topk(q.top_k).values[-1]] = -np.inf
        total += float(logits.log_softmax(0)[following])
        token = torch.tensor([following])
    return total


@pytest.mark.parametrize(
    "settings", [{}, {"top_k": 2}, {"temperature": 1.7}, {"temperature": 0.6, "top_k": 3}]
)
def test_translations_sum_to_1_and_are_drawn_as_they_are_scored(settings):
    q = Translations(MODEL, "a b", max_tokens=3, **settings)
    texts = qr.text.Texts.of(EVERY, q.tokenizer)
    log_q = q.log_prob(texts)
    assert np.exp(log_q).sum() == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(log_q, [by_hand(q, ids) for ids in EVERY], atol=1e-4)
    items, drawn = q.sample(4000, np.random.default_rng(0))
    np.testing.assert_allclose(q.log_prob(items), drawn, atol=1e-4)
    place = {ids: i for i, ids in enumerate(EVERY)}
    counts = np.bincount([place[item.token_ids] for item in items], minlength=len(EVERY))
    expected = 4000 * np.exp(log_q)
    often = expected > 5
    pooled = [*counts[often], counts[~often].sum()], [*expected[often], expected[~often].sum()]
    keep = np.array(pooled[1]) > 0
    assert counts[expected == 0].sum() == 0
    p = stats.chisquare(
        np.array(pooled[0])[keep], 4000 * np.array(pooled[1])[keep] / sum(pooled[1])
    ).pvalue
    assert p > 1e-6
    first, _ = q.sample(7, np.random.default_rng(0))
    assert first.strings == items.strings[:7]  # prefix-stable


def test_a_beam_as_wide_as_the_space_finds_the_best():
    q = Translations(MODEL, "a b", max_tokens=4)
    ended = [ids for ids in EVERY if len(ids) < 4]
    per_token = [by_hand(q, ids) / (len(ids) + 1) for ids in ended]
    best = q.tokenizer.decode(ended[int(np.argmax(per_token))])
    assert MODEL.translate("a b", 200, 4)[0] == best


@pytest.mark.parametrize("n", [1, 5, 1000])
def test_the_likeliest_translations_are_found_and_in_order(n):
    q = Translations(MODEL, "a b", max_tokens=4)
    whole = [ids for ids in EVERY if len(ids) < 4]
    best = sorted(whole, key=lambda ids: -by_hand(q, ids))[:n]
    found = [item.token_ids for item in q.likely(n)]
    assert found[0] == best[0]
    if n > len(whole):  # no beam is cut
        assert set(found) == set(best)
    np.testing.assert_allclose(
        [by_hand(q, ids) for ids in found], sorted((by_hand(q, ids) for ids in found), reverse=True)
    )


def test_a_file_is_read_with_its_layouts(tmp_path):
    plain, square = np.float32([[1.5, -2.0]]), np.int8([[1, 2, 3], [4, 5, 6]])
    embeddings = np.int8([[7, 8], [9, 10]])
    parts = [
        ("b", FLOATS, plain.shape, plain.tobytes()),
        ("W", BYTES, (2, 3), square.T.tobytes() + struct.pack("<f", 2.0)),
        ("Wemb", BYTES, (2, 2), embeddings.tobytes() + struct.pack("<f", 4.0)),
    ]
    content = struct.pack("<QQ", 1, len(parts))
    for name, kind, shape, stored in parts:
        content += struct.pack("<QQQQ", len(name) + 1, kind, len(shape), len(stored))
    content += b"".join(name.encode() + b"\0" for name, *_ in parts)
    content += b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in parts)
    content += struct.pack("<Q", 3) + b"\0\0\0" + b"".join(stored for *_, stored in parts)
    (tmp_path / "model.bin").write_bytes(content)
    found = read_weights(tmp_path / "model.bin")
    np.testing.assert_array_equal(found["b"], plain)
    np.testing.assert_array_equal(found["W"], square / 2)
    np.testing.assert_array_equal(found["Wemb"], embeddings / 4)


class Counted:
    """A base that counts what it scores."""

    scored = 0

    def log_prob(self, texts):
        self.scored += len(texts)
        return np.array([-1.0 - text.count("b") for text in texts])


def test_each_text_is_embedded_and_scored_once_and_a_pool_resumes(tmp_path):
    embedded, base = [], Counted()

    def embed(texts):
        embedded.extend(texts)
        return [[text.count("a") + 0.1, text.count("c")] for text in texts]

    def target():
        return Paraphrases("a b", base, embed, MODEL.tokenizer, above=0.9)

    q = qr.Mixture(
        [
            Translations(MODEL, "a b", max_tokens=3, top_k=2),
            Translations(MODEL, "a b", max_tokens=3),
        ]
    )
    draw_pool(tmp_path / "pool", target(), q, 1024)
    first = qr.Draws.load(tmp_path / "pool")
    assert len(embedded) - 1 == len(set(first.texts)) < 1024
    near = {t for t, x in zip(first.texts, first.features["cosine"], strict=True) if x > 0.9}
    assert base.scored == len(near) == len(set(first.take(first.log_p > -np.inf).texts))
    draw_pool(tmp_path / "pool", target(), q, 2048)
    both = qr.Draws.load(tmp_path / "pool")
    assert both.texts[:1024] == first.texts
    np.testing.assert_array_equal(both.log_p[:1024], first.log_p)
    assert len(embedded) - 2 == len(set(both.texts))


def test_a_text_that_is_not_written_as_its_tokenizer_writes_it_counts_for_nothing():
    target = Paraphrases(
        "a", Counted(), lambda texts: np.ones((len(texts), 1)), MODEL.tokenizer, 0.5
    )
    texts = [qr.text.Text("a b", (1, 2)), qr.text.Text("a b", (1, 3))]
    np.testing.assert_array_equal(target.log_score(texts), [-2.0, -np.inf])
