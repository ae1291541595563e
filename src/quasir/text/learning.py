"""Growing a trie from draws: one scoring pass says what mass the language keeps where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from quasir.guides.language import Language
from quasir.guides.matcher import MatcherMachine
from quasir.guides.product import BothMachine
from quasir.guides.trie import Trie, TrieBuilder
from quasir.guides.vocabulary import Vocabulary
from quasir.text.guided_scores import Steps, guided_steps
from quasir.text.texts import Texts

if TYPE_CHECKING:
    from quasir.text.causal import CausalLM

__all__ = ["grown"]


@torch.inference_mode()
def grown(
    lm: CausalLM,
    vocabulary: Vocabulary,
    languages: list[Language],
    texts: Texts,
    trie: Trie | None,
) -> Trie:
    """Return the trie of what was known before and of what these texts show."""
    matchers = [MatcherMachine(language, vocabulary) for language in languages]
    builder = TrieBuilder(trie)
    distinct = {tuple(texts.token_ids(i).tolist()) for i in range(len(texts))}
    new = Texts.of(sorted(distinct), texts.tokenizer)
    for steps in guided_steps(lm, new, BothMachine(matchers), below_one=True):
        _add(builder, steps, new, lm, matchers)
    return builder.frozen()


def _add(
    builder: TrieBuilder,
    steps: Steps,
    texts: Texts,
    lm: CausalLM,
    matchers: list[MatcherMachine],
) -> None:
    starts = np.searchsorted(steps.owner, np.arange(len(steps.part) + 1))
    probability, mass = np.exp(steps.log_a), np.exp(steps.log_mass)
    for i, text in enumerate(steps.part):
        first, stop = int(starts[i]), int(starts[i + 1])
        node = builder.visit(-1, -1, 1.0, float(mass[first]), cut=False)
        for at in range(first, stop):
            token = int(steps.token[at])
            if token == lm.end or steps.log_g[at] == -np.inf:
                break  # the text ends here, or leaves the language
            a = float(probability[at])
            if at + 1 < stop:
                node = builder.visit(node, token, a, float(mass[at + 1]), cut=False)
            else:
                ids = texts.token_ids(int(text)).tolist()
                whole = all(matcher.holds(ids, cut=True) for matcher in matchers)
                builder.visit(node, token, a, float(whole), cut=True)
