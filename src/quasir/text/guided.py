"""A language model with a guide, as a proposal: one pass gives log q and log a."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from quasir.core.arguments import check_request, number, show
from quasir.core.progress import Progress
from quasir.core.requests import Part, Request
from quasir.core.types import Array, Batch, Items, Seed, Target
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.guides.boost import Boost
from quasir.guides.guide import Guide
from quasir.guides.language import Language
from quasir.guides.machine import Machine
from quasir.guides.matcher import MatcherMachine
from quasir.guides.product import Both
from quasir.guides.trie import Trie
from quasir.guides.vocabulary import Vocabulary
from quasir.targets.factors import Pointwise
from quasir.targets.feature import Feature
from quasir.targets.product import Product
from quasir.text.guided_decoding import GuidedChooser, first_logs
from quasir.text.guided_scores import text_scores
from quasir.text.texts import Texts
from quasir.text.tokenizers import as_texts

if TYPE_CHECKING:
    from quasir.text.causal import CausalLM

__all__ = ["Guided"]

MACHINES = 8
"""Compiled guides that the prompts of one model share, at most."""


class Guided:
    """A causal language model whose next tokens a guide weighs; made by `CausalLM.guided`.

    The next token v has probability a(v | x) g(s, v)/G_t, G_t being the sum over all tokens. A
    share of the draws comes from the model itself, and log q is that of the mixture. All of this,
    and the model's own log a(x), comes out of one pass.

    Where the guide allows none of the tokens that the model can give, a text goes on as the model
    does: it is not in the guide's language, and q still sums to 1.

    Parameters
    ----------
    base : CausalLM
    guide : Guide
    share : float
        Share of the draws that come from the base itself, at least 0 and below 1.

    Examples
    --------
    >>> import quasir as qr
    >>> base = qr.text.CausalLM("quasir/biographies", max_tokens=12)
    >>> q = base.guided(qr.guides.boost({"chemist": 50.0}), share=0.2)
    >>> items, log_q, log_base = q.sample_scored(8, np.random.default_rng(0))
    >>> bool(np.allclose(log_q, q.log_prob(items), atol=1e-3))
    True
    >>> bool((log_base - log_q <= np.log(1 / 0.2)).all())
    True
    """

    prefix_stable = True

    def __init__(self, base: CausalLM, guide: Guide, share: float = 0.0) -> None:
        if not isinstance(guide, Guide):
            raise InputError(
                f"the guide is {show(guide)}, but must be one of qr.guides, such as "
                "qr.guides.boost({'word': 20.0})."
            )
        self.base, self.guide = base, guide
        self.share = number("share", share)
        if not 0 <= self.share < 1:
            raise InputError(
                f"share is {show(share)}, but must be at least 0 and below 1: the share of the "
                "draws that come from the base itself."
            )
        self.tokenizer, self.max_tokens = base.tokenizer, base.max_tokens
        self._refuse_too_long()

    @cached_property
    def machine(self) -> Machine:
        """The guide for the model's tokens; made anew in every process."""
        made: dict[Guide, Machine] = self.base._shared.setdefault("machines", {})
        if self.guide not in made:
            if len(made) == MACHINES:
                del made[next(iter(made))]
            made[self.guide] = self.guide.compiled(self.vocabulary)
        return made[self.guide]

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens; all prompts share them."""
        kept = self.base._shared
        if "vocabulary" not in kept:
            size = self.base.model.config.vocab_size
            kept["vocabulary"] = Vocabulary(self.tokenizer, size, self.base.end)
        vocabulary: Vocabulary = kept["vocabulary"]
        return vocabulary

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "machine"}

    def _refuse_too_long(self) -> None:
        machines = getattr(self.machine, "machines", [self.machine])
        for machine in machines:
            if not isinstance(machine, MatcherMachine) or not machine.language.complete:
                continue
            fewest = machine.forced_tokens
            if fewest > self.max_tokens:
                raise InputError(
                    f"every text of {machine.language!r} begins with {fewest} tokens or more, but "
                    f"max_tokens is {self.max_tokens}: no text would be whole. Raise max_tokens, "
                    "or make the guide with complete=False."
                )

    @property
    def truncates(self) -> bool:
        """Whether some texts have probability 0."""
        return self.base.truncates or (self.guide.cuts and self.share == 0)

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw n texts. All uniforms, one a token and one more, come from `rng` first."""
        items, log_q, _ = self.sample_scored(n, rng)
        return Batch(items, log_q)

    @torch.inference_mode()
    def sample_scored(self, n: int, rng: np.random.Generator) -> tuple[Items, Array, Array]:
        """Draw n texts as `sample` does; return log q, and log a of the base, of the same pass."""
        n = check_request(n, rng)
        uniforms = rng.random((n, self.max_tokens + 1))
        from_base = torch.from_numpy(uniforms[:, -1] < self.share).to(self.base.device)

        def decoded(rows: int) -> tuple[Any, ...]:
            chooser = GuidedChooser(self.machine, from_base, self.guide.below_one)
            return *self.base._decode(uniforms[:, :-1], rows, chooser), chooser.log_a

        tokens, lengths, log_guided, log_a = self.base._with_less_memory(decoded)
        items = Texts.from_rows(
            tokens.cpu().numpy().astype(np.int32), lengths.cpu().numpy(), self.tokenizer
        )
        log_base = log_a.cpu().numpy()
        return items, self.mixed(log_base, log_guided.cpu().numpy()), log_base

    def sample_together(
        self, models: Sequence[Any], requests: Sequence[Request]
    ) -> list[Part] | None:
        """Draw rows of several models that differ in the base's prompt alone; None otherwise."""
        from quasir.text.guided_together import sample_guided

        return sample_guided(models, requests)

    @torch.inference_mode()
    def log_prob_each(self, items: Items) -> tuple[Array, Array]:
        """Return log a and log q of each text, from one pass."""
        texts = as_texts(items, self.tokenizer)
        log_a, log_guided = self.base._with_less_memory(
            lambda rows: text_scores(self.base, texts, self.machine, self.guide.below_one)
        )
        return log_a, self.mixed(log_a, log_guided)

    def log_prob(self, items: Items) -> Array:
        """Return the log-probability that `sample` draws each text with."""
        return self.log_prob_each(items)[1]

    def mixed(self, log_a: Array, log_guided: Array) -> Array:
        """Return log q of the mixture from log a and log q of the guided model."""
        if self.share == 0:
            return log_guided
        mixed: Array = np.logaddexp(
            math.log(self.share) + log_a, math.log1p(-self.share) + log_guided
        )
        return mixed

    @cached_property
    @torch.inference_mode()
    def log_first_mass(self) -> float:
        """The log of G_1, the mass that the guide's first weights leave."""
        state = self.base._prompt().states
        log_a, log_q = first_logs(self.machine, self.base.warp(self.base._head(state))[0])
        drawn = int(torch.argmax(log_q))
        log_g = math.log(self.machine.begin(1).weights().of(np.array([drawn]))[0])
        return float(log_a[drawn] + log_g - log_q[drawn])

    def log_most_base_ratio(self, base: Any, target: Target | None = None) -> float:
        """Return the log of a number that a(x)/q(x) never exceeds where P(x) > 0, or infinity.

        With the share s it is 1/s. With weights of at most 1 it is G_1, if the target is 0 outside
        the guide's language; with both, 1/(s + (1 - s)/G_1).
        """
        if base is not self.base:
            return math.inf
        log_guided = math.inf
        if self.guide.below_one and self._within_language(target):
            log_guided = self.log_first_mass
        with np.errstate(divide="ignore"):
            parts = np.log([self.share, 1.0 - self.share]) - [0.0, log_guided]
        return float(-np.logaddexp.reduce(parts))

    def reaches(self, target: Target) -> bool:
        """Return whether q(x) > 0 wherever P(x) > 0, as far as that is known."""
        if not isinstance(target, Product) or target.base is not self.base:
            return False
        return self.share > 0 or self._within_language(target)

    def _within_language(self, target: Target | None) -> bool:
        """Return whether the target is 0 outside the guide's language."""
        languages = [part for part in self.guide.parts if isinstance(part, Language)]
        if not languages:
            return True
        if not isinstance(target, Product):
            return False
        wanted = [f.feature for f in target.factors if isinstance(f, Pointwise)]
        given = {language for feature in wanted for language in _languages_in(feature)}
        return given.issuperset(languages)

    def learn(self, draws: Draws | Items) -> Guided:
        """Return the proposal with the frozen trie of some draws (ASAp, CARS).

        What these texts show of the mass that the language keeps is put into a trie of prefixes,
        together with what was known before. A prefix is counted once, however often it was drawn.
        It takes one scoring pass over the distinct texts.

        Parameters
        ----------
        draws : Draws, or column of texts
            Best drawn from this proposal.

        Returns
        -------
        Guided
            No ratio a(x)/q(x) in the language is above c(root), ``trie.bound[0]``.
        """
        from quasir.text.learning import grown

        languages = [part for part in self.guide.parts if isinstance(part, Language)]
        if not languages:
            raise InputError(
                f"{self.guide!r} has no language, so there is nothing to learn about it: a trie "
                "needs a guide such as qr.guides.json_schema."
            )
        items = draws.items if isinstance(draws, Draws) else draws
        if items is None:
            raise InputError("these draws have no items, but a trie is made of their tokens.")
        known = next((part for part in self.guide.parts if isinstance(part, Trie)), None)
        texts = as_texts(items, self.tokenizer)
        trie = grown(self.base, self.vocabulary, languages, texts, known)
        boosts = [part for part in self.guide.parts if isinstance(part, Boost)]
        return Guided(self.base, Both.of([*languages, trie, *boosts]), self.share)

    def fit(
        self,
        target: Target,
        n: int = 4_000,
        seed: Seed = None,
        progress: Progress = None,
    ) -> Guided:
        """Return the proposal with the factors that bring q closest to p on a pilot.

        What is minimised is not KL(p, q), which minds rare texts too little for a small TVD, but
        Renyi's divergence of order 3; without a share it is convex in the logs of the factors.

        The pilot has four rounds, each drawn from what the earlier ones gave. Factors that the
        boost has are where it begins. If the share is above 0, it is fitted too.

        Parameters
        ----------
        target : Target
            With this model as its base.
        n : int
            Draws of the pilot.
        seed : int, numpy Generator or None
        progress : bool or callable
            See `draw`.

        Raises
        ------
        TuningError
            If none of the pilot's draws is possible under the target.
        """
        from quasir.text.guide_pilot import piloted

        return piloted(self, target, n, seed, progress)

    def __repr__(self) -> str:
        share = f", share={self.share:.3g}" if self.share else ""
        return f"{self.base!r}.guided({self.guide!r}{share})"


def _languages_in(feature: Feature) -> tuple[Language, ...]:
    """Return the languages that a text of this feature is surely in."""
    own: tuple[Language, ...] = getattr(feature, "languages", ())
    if feature._made_of and feature._made_of[0] == "and":
        return tuple(x for part in feature._made_of[1:] for x in _languages_in(part))
    return own
