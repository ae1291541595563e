"""The target and the proposals of Fig. 5, and their pools of draws.

P(x) = a(x) [cosine(x, y) > 0.95]. The tokens of the translator are not those of a, so P scores the
text of a draw. A translator can write one text as many sequences of tokens; P is 0 but for the one
that its tokenizer gives, so that each text counts once, and TVD is over texts. Each distinct text
is embedded and scored once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import quasir as qr
from experiments.marian import Marian, Translations
from experiments.models import Models
from experiments.registry import sentence_model, translators
from quasir.core.files import write_json
from quasir.core.streams import DrawStreams
from quasir.core.types import Array, Items, Proposal
from quasir.draws.draw_blocks import cut_warnings, draw_blocks
from quasir.features.similarity import SentenceModel
from quasir.store import MANIFEST, Store, locked
from quasir.text.texts import Texts

__all__ = ["QUESTIONS", "Paraphrases", "draw_pool", "known", "round_trip", "target"]

QUESTIONS = (
    "How is the two wheeler insurance from Bharti Axa insurance?",
    'Are there Doctor Who references in the Muse song "Knights of Cydonia"?',
    'In French, how do you say "cool"?',
)
ABOVE, TOP, BEAMS, TOKENS = 0.95, 30, 5, 48
"""The paper's threshold, top-k and beams; the most tokens of a translation."""
BASE_TOKENS = 2 * TOKENS
"""The most tokens of a, so that it cuts no translation."""
TEXTS_AT_ONCE = 64
LIKELY = 2_000
"""Translations that are tried for paraphrases, beside those that are drawn."""


class Paraphrases:
    """P(x) for one question; remembers the cosine and the score of each text."""

    def __init__(
        self,
        question: str,
        base: Any,
        embed: Callable[[list[str]], Any],
        tokenizer: Any,
        above: float,
    ) -> None:
        self.base, self.tokenizer, self.above = base, tokenizer, above
        self.similarity = qr.features.similarity(question, embed=embed)
        self.cosines: dict[str, float] = {}
        self.log_a: dict[str, float] = {}

    def log_score(self, items: Items) -> Array:
        """Return log P(x) of each draw."""
        texts = [str(item) for item in items]
        self.learn(texts)
        log_a = np.array([self.log_a.get(text, -np.inf) for text in texts])
        written = self.tokenizer(texts, add_special_tokens=False).input_ids
        own = [tuple(ids) == item.token_ids for ids, item in zip(written, items, strict=True)]
        return np.where(own, log_a, -np.inf)

    def cosine(self, items: Items) -> Array:
        """Return the cosine of each text that was scored."""
        return np.array([self.cosines[str(item)] for item in items])

    def learn(self, texts: list[str]) -> None:
        """Embed the texts that are new, and score those of them that are similar."""
        new = sorted(set(texts) - set(self.cosines), key=len)
        for first in range(0, len(new), TEXTS_AT_ONCE):
            some = new[first : first + TEXTS_AT_ONCE]
            cosines = self.similarity(some)
            near = [text for text, x in zip(some, cosines, strict=True) if x > self.above]
            if near:
                self.log_a.update(zip(near, self.base.log_prob(near).tolist(), strict=True))
            self.cosines.update(zip(some, cosines.tolist(), strict=True))

    def remember(self, draws: qr.Draws) -> None:
        """Take cosines and scores over from stored draws."""
        texts, cosines = draws.texts, draws.features["cosine"].tolist()
        self.cosines.update(zip(texts, cosines, strict=True))
        scores = zip(texts, draws.log_p.tolist(), strict=True)
        self.log_a.update((text, log_p) for text, log_p in scores if log_p > -np.inf)
        # A text that was only drawn in a way that is not its own is scored anew.
        near = {text for text, x in self.cosines.items() if x > self.above}
        for text in near - set(self.log_a):
            del self.cosines[text]


def target(models: Models, question: str, tokenizer: Any) -> Paraphrases:
    """Return P of a question, over texts of a translator's tokenizer."""
    base = qr.text.CausalLM(models.general, max_tokens=BASE_TOKENS)
    embed = SentenceModel(models.sentences or str(sentence_model()))
    return Paraphrases(question, base, embed, tokenizer, ABOVE)


def round_trip(models: Models, question: str) -> tuple[Any, Any]:
    """Return the way back with top-30, as in the paper, and the same without a cut."""
    if models.round_trip is None:
        folder = translators()
        there, back = (Marian.load(next(folder.glob(f"{way}-*"))) for way in ("enpt", "pten"))
        source = there.translate(question, BEAMS, TOKENS)[0]
        cut = Translations(back, source, top_k=TOP, max_tokens=TOKENS)
        return cut, Translations(back, source, max_tokens=TOKENS)
    trip = qr.text.RoundTrip(
        *models.round_trip, question, beams=BEAMS, top_k=TOP, max_tokens=TOKENS
    )
    given = {"model": trip.model, "tokenizer": trip.tokenizer, "max_tokens": TOKENS}
    return trip, qr.text.Seq2SeqLM(source=trip.source, **given)


class Known:
    """q(x): texts that are known, each with a probability in proportion to its P(x)."""

    prefix_stable = truncates = True

    def __init__(self, texts: Texts, log_p: Array) -> None:
        self.texts, self.tokenizer = texts, texts.tokenizer
        self.log_q = log_p - np.logaddexp.reduce(log_p)
        self.place = {item.token_ids: i for i, item in enumerate(texts)}

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Texts, Array]:
        """Draw n of them."""
        sums = np.exp(self.log_q).cumsum()
        at = np.searchsorted(sums, rng.random(n) * sums[-1], side="right")
        return self.texts.take(at), self.log_q[at]

    def log_prob(self, items: Items) -> Array:
        """Return log q(x); -inf of a text that is not known."""
        at = [self.place.get(tuple(item.token_ids)) for item in items]
        return np.array([-np.inf if i is None else self.log_q[i] for i in at])


def known(file: Path, P: Paraphrases, draws: qr.Draws, whole: Any) -> Known | None:
    """Return the paraphrases among some draws, and among the likeliest translations.

    A file keeps them, for a pool depends on them.
    """
    if not file.is_file():
        given = [item.token_ids for item in draws.items]
        if isinstance(whole, Translations):
            given += [item.token_ids for item in whole.likely(LIKELY)]
        texts = Texts.of(list(dict.fromkeys(given)), P.tokenizer)
        log_p = P.log_score(texts)
        at = np.flatnonzero(log_p > -np.inf)
        ids = [list(texts[int(i)].token_ids) for i in at]
        write_json(file, {"token_ids": ids, "log_p": log_p[at].tolist()})
    kept = json.loads(file.read_text())
    if not kept["log_p"]:
        return None
    return Known(Texts.of(kept["token_ids"], P.tokenizer), np.array(kept["log_p"]))


def draw_pool(folder: Path, P: Paraphrases, q: Proposal, draws: int, seed: int = 0) -> None:
    """Draw what a pool lacks, block by block; what is there is kept."""
    with locked(folder):
        if (folder / MANIFEST).is_file():
            store = Store.open(folder)
            if len(store):
                P.remember(qr.Draws.load(store))
        else:
            store = Store.create(folder, seed, 1, warnings=cut_warnings(P, q))
        for number in store.missing(draws):
            part = draw_blocks(P, q, DrawStreams(seed), number, 1, draws)
            store.add(number, replace(part, features={"cosine": P.cosine(part.items)}).rows)
