"""A language model and its guided parts, as a proposal: one pass gives log q and log a."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from quasir.core.arguments import check_request, number
from quasir.core.formatting import short_repr
from quasir.core.progress import Progress
from quasir.core.streams import learned_stream
from quasir.core.types import Array, Batch, Items, Request, Seed, Target
from quasir.core.types import Part as Drawn
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.guides.automaton import State
from quasir.guides.boost import Boost
from quasir.guides.guide import Guide, Ints, Machine, Setting
from quasir.guides.language import Language
from quasir.guides.matcher import LanguageFeature, MatcherMachine
from quasir.guides.product import Both, BothMachine
from quasir.guides.trie import Trie
from quasir.guides.vocabulary import Vocabulary, same_tokenizer
from quasir.targets.feature import Feature
from quasir.targets.product import Pointwise, Product
from quasir.text.causal_decoding import decode_together, same_family
from quasir.text.fingerprints import find_setting
from quasir.text.guided_decoding import Compiled, GuidedChooser, first_logs
from quasir.text.guided_scores import grow_trie, score_guided
from quasir.text.head import Head
from quasir.text.texts import as_texts

if TYPE_CHECKING:
    from quasir.text.causal import CausalLM

ROUNDING = 1e-12
"""A share below this is what rounding left of 0."""
MACHINES = 8
"""Compiled guides that the prompts of one model share, at most."""


class Part(NamedTuple):
    """A part of a mixture: the base, with a head or without, times a guide's weights."""

    weight: float
    guide: Guide | None = None
    head: Head | None = None


class Guided:
    """A causal language model and its guided parts, as one proposal; made by `CausalLM.guided`.

    A part draws the next token v with probability a(v | x) g(s, v)/G_t, G_t being the sum over all
    tokens; a head replaces a(v | x) there by logits of its own. Every text comes from one part, or
    from the model itself in a share of the draws, and log q is that of the mixture. All of this,
    and the model's own log a(x), comes out of one pass.

    Where a guide allows none of the tokens that the model can give, be it the first token or a
    later one, a text goes on as the model does: it is not in the guide's language, and q still sums
    to 1.

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
    record: Any = None
    """What a search tried, and why it chose this proposal (`propose`)."""

    def __init__(self, base: CausalLM, guide: Guide, share: float = 0.0) -> None:
        if not isinstance(guide, Guide):
            raise InputError(f"the guide is {short_repr(guide)}, but must be one of qr.guides.")
        value = number("share", share)
        if not 0 <= value < 1:
            raise InputError(f"share is {short_repr(share)}, but must be at least 0 and below 1.")
        self._set(base, value, [Part(1.0 - value, guide)], (), 1)

    def _set(
        self,
        base: CausalLM,
        share: float,
        parts: Sequence[Part],
        features: Sequence[Feature],
        every: int,
    ) -> None:
        self.base, self.share = base, share if share > ROUNDING else 0.0
        self.parts, self.features, self.every = tuple(parts), tuple(features), every
        self.tokenizer, self.max_tokens = base.tokenizer, base.max_tokens
        self._refuse_other_settings()
        self._refuse_too_long()

    @property
    def guide(self) -> Guide:
        """The guide of the first part."""
        guide = self.parts[0].guide if self.parts else None
        return Both(()) if guide is None else guide

    @property
    def weights(self) -> Array:
        """The share of the base, and the weight of every part."""
        return np.array([self.share, *(part.weight for part in self.parts)])

    @cached_property
    def _compiled(self) -> list[Compiled]:
        """The parts for the model's tokens; made anew in every process."""
        made = []
        for _, guide, head in self.parts:
            machine = BothMachine([]) if guide is None else self._kept(guide, guide.compile)
            bounded = head is None and guide is not None and guide.below_one
            if head is not None:
                head.check(self.base, self._state.bits)
                head = head.to(self.base.device)
            made.append(Compiled(machine, bounded, head))
        return made

    @cached_property
    def _state(self) -> State:
        """What heads know of the features; made anew in every process."""
        key = ("state", *map(id, self.features), self.every)
        state: State = self._kept(key, lambda known: State(self.features, known, self.every))
        return state

    def _kept(self, key: Any, make: Callable[[Vocabulary], Any]) -> Any:
        """Return what all prompts of a model share, which is made if it is new."""
        made = self.base._shared.setdefault("machines", {})
        if key not in made:
            if len(made) == MACHINES:
                del made[next(iter(made))]
            made[key] = make(self.vocabulary)
        return made[key]

    @property
    def machine(self) -> Machine:
        """The first part's guide for the model's tokens."""
        return self._compiled[0].machine

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens; all prompts share them."""
        made = Vocabulary(self.tokenizer, self.base.vocabulary_size, self.base.end)
        vocabulary: Vocabulary = self.base._shared.setdefault("vocabulary", made)
        return vocabulary

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_compiled", "_state")}

    @property
    def languages(self) -> list[Language]:
        """The languages of the guide; a text must be in all of them."""
        return languages_of(self.guide)

    def _refuse_other_settings(self) -> None:
        """Refuse what was learned or fitted elsewhere; also later, since a model can be changed."""
        base = self.base
        if self.max_tokens != base.max_tokens or self.tokenizer is not base.tokenizer:
            raise InputError(
                f"max_tokens of the base is {base.max_tokens} now, and was {self.max_tokens}, "
                "or its tokenizer was replaced: make the proposal again with base.guided(guide)."
            )
        own = [(g, one) for _, g, _ in self.parts if g is not None for one in g.parts]
        for guide, part in own:
            here = find_setting(base, languages_of(guide), part.depends_on)
            if difference := (part.setting or Setting()).difference(here):
                raise InputError(
                    f"{part!r} was made in another setting: {difference}. Make it again here: "
                    "base.guided(guide).learn(draws) for a trie, .fit(target) for a boost."
                )

    def _refuse_too_long(self) -> None:
        machines = [getattr(each, "machines", [each]) for each, *_ in self._compiled]
        for machine in itertools.chain.from_iterable(machines):
            complete = isinstance(machine, MatcherMachine) and machine.language.complete
            if complete and (fewest := machine.forced_tokens) > self.max_tokens:
                raise InputError(
                    f"every text of {machine.language!r} begins with {fewest} tokens or more, but "
                    f"max_tokens is {self.max_tokens}. Raise it, or give the guide complete=False."
                )

    @property
    def truncates(self) -> bool:
        """Whether some texts have probability 0."""
        cuts = all(part.guide is not None and part.guide.cuts for part in self.parts)
        return self.base.truncates or (cuts and self.share == 0)

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw n texts. All uniforms, one per token and one more, come from `rng` first."""
        items, log_q, _ = self.sample_scored(n, rng)
        return Batch(items, log_q)

    def sample_scored(self, n: int, rng: np.random.Generator) -> tuple[Items, Array, Array]:
        """Draw n texts as `sample` does; return log q, and log a of the base, of the same pass."""
        (drawn,) = self._draw([self], [Request(rng, 0, check_request(n, rng))])
        assert drawn.log_base is not None
        return drawn.items, drawn.log_q, drawn.log_base

    def sample_together(
        self, models: Sequence[Any], requests: Sequence[Request]
    ) -> list[Drawn] | None:
        """Draw rows of several models that differ in the base's prompt alone; None otherwise."""
        if not all(type(q) is Guided for q in models):
            return None
        alike = all(q.parts == self.parts and q.features == self.features for q in models)
        if not alike or not same_family([q.base for q in models]):
            return None
        return self._draw(models, requests)

    def _draw(self, models: Sequence[Guided], requests: Sequence[Request]) -> list[Drawn]:
        own = [r._replace(rng=q._stream(r.rng)) for q, r in zip(models, requests, strict=True)]
        each = [request.uniforms(self.max_tokens + 1) for request in own]
        # The last uniform of a draw says which part draws it.
        last, ends = np.concatenate(each)[:, -1], np.cumsum(self.weights)[:-1]
        which = np.searchsorted(ends, last, side="right") - 1

        def chooser(draws: Ints) -> GuidedChooser:
            parts = torch.from_numpy(which[draws]).to(self.base.device)
            return GuidedChooser(self.base, self._compiled, self._state, parts)

        rows = [uniforms[:, :-1] for uniforms in each]
        drawn = decode_together([q.base for q in models], rows, chooser, len(self.parts))
        return [Drawn(texts, self.mix(log_a, log_each), log_a) for texts, log_a, log_each in drawn]

    def _stream(self, rng: np.random.Generator) -> np.random.Generator:
        """Return the generator of the uniforms: no draw that taught a trie comes again."""
        guides = [part.guide for part in self.parts if part.guide is not None]
        for trie in [x for guide in guides for x in guide.parts if isinstance(x, Trie)]:
            rng = learned_stream(rng, trie.fingerprint)
        return rng

    @torch.inference_mode()
    def log_prob_parts(self, items: Items) -> tuple[Array, Array]:
        """Return log a of each text, and log q under every part, from one pass."""
        texts = as_texts(items, self.tokenizer)
        if not self.parts:
            return self.base.log_prob(texts), np.zeros((0, len(texts)))
        return self.base._with_less_memory(
            lambda rows: score_guided(self.base, texts, self._compiled, self._state)
        )

    def log_prob_each(self, items: Items) -> tuple[Array, Array]:
        """Return log a and log q of each text, from one pass."""
        log_a, log_each = self.log_prob_parts(items)
        return log_a, self.mix(log_a, log_each)

    def log_prob(self, items: Items) -> Array:
        """Return the log-probability that `sample` draws each text with."""
        return self.log_prob_each(items)[1]

    def mix(self, log_a: Array, log_each: Array) -> Array:
        """Return log q of the mixture from log a and log q of its parts."""
        if self.share == 0 and len(self.parts) == 1:
            only: Array = log_each[0]
            return only
        with np.errstate(divide="ignore"):
            logs = np.log(self.weights)[:, None] + np.concatenate([log_a[None], log_each])
        mixed: Array = np.logaddexp.reduce(logs, axis=0)
        return mixed

    def log_most_base_ratio(self, base: Any, target: Target | None = None) -> float:
        """Return the log of a number that a(x)/q(x) never exceeds where P(x) > 0, or infinity.

        With the share s it is 1/s. A part with weights of at most 1 adds w/G_1 to s, if the target
        is 0 outside the guide's language; G_1 is the mass that its first weights leave.
        """
        if base is not self.base:
            return math.inf
        self._refuse_other_settings()
        parts = [self.share]
        h = self.base._prompt().states[0]
        with torch.inference_mode():
            logits = self.base.warp(self.base._head(h[None]))[0]
        for part, own in zip(self.parts, self._compiled, strict=True):
            if own.below_one and self._within_language(target, part.guide):
                log_mass = float(first_logs(self.base, own, self._state, logits, h)[1])
                # Where the guide allows no first token, q is a.
                parts.append(part.weight * math.exp(-log_mass if log_mass > -math.inf else 0.0))
        return -math.log(math.fsum(parts)) if any(parts) else math.inf

    def reaches(self, target: Target) -> bool:
        """Return whether q(x) > 0 wherever P(x) > 0, as far as that is known."""
        if not isinstance(target, Product) or target.base is not self.base:
            return False
        return self.share > 0 or any(
            self._within_language(target, part.guide) for part in self.parts
        )

    def _within_language(self, target: Target | None, guide: Guide | None) -> bool:
        """Return whether the target is 0 outside a guide's language."""
        languages = () if guide is None else languages_of(guide)
        if not languages:
            return True
        if not isinstance(target, Product):
            return False
        wanted = [f.feature for f in target.factors if isinstance(f, Pointwise)]
        given = {language for feature in wanted for language in self._languages_in(feature)}
        return given.issuperset(languages)

    def _languages_in(self, feature: Feature) -> list[Language]:
        """Return the languages that a text of this feature is surely in, as this model reads it."""
        if feature._made_of and feature._made_of[0] == "and":
            return [x for part in feature._made_of[1:] for x in self._languages_in(part)]
        if not isinstance(feature, LanguageFeature):
            return []
        if not same_tokenizer(feature.tokenizer or self.tokenizer, self.tokenizer):
            return []
        cut_here = feature.max_tokens in (None, self.max_tokens)
        return [x for x in feature.languages if x.complete or cut_here]

    def learn(self, draws: Draws | Items) -> Guided:
        """Return the proposal with the frozen trie of some draws (ASAp, CARS).

        What these texts show of the mass that the language keeps is put into a trie of prefixes,
        together with what was known before. A prefix is counted once, however often it was drawn.
        It takes one scoring pass over the distinct texts.

        Parameters
        ----------
        draws : Draws, or column of texts
            Best drawn from this proposal. Whatever their seed, new draws are independent of them.
            (Not of which ones were accepted, with the same seed: give all draws, or another seed.)

        Returns
        -------
        Guided
            No ratio a(x)/q(x) in the language is above c(root), ``trie.bound[0]``.
        """
        languages = self.languages
        if not languages:
            raise InputError(f"{self.guide!r} has no language, so there is nothing to learn.")
        self._refuse_other_settings()
        items = draws.items if isinstance(draws, Draws) else draws
        if items is None:
            raise InputError("these draws have no items, but a trie is made of their tokens.")
        texts = as_texts(items, self.tokenizer)
        known = next((part for part in self.guide.parts if isinstance(part, Trie)), None)
        trie = grow_trie(self.base, self.vocabulary, languages, texts, known)
        boosts = [part for part in self.guide.parts if isinstance(part, Boost)]
        return Guided(self.base, Both.of([*languages, trie, *boosts]), self.share)

    def fit(
        self, target: Target, n: int = 4_000, seed: Seed = None, progress: Progress = None
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
        from quasir.text.guide_fit import fit_guide

        return fit_guide(self, target, n, seed, progress)

    def __repr__(self) -> str:
        share = f", share={self.share:.3g}" if self.share else ""
        each = " + ".join(
            f"{part.weight:.3g} " * (len(self.parts) > 1)
            + (repr(part.guide) if part.head is None else f"<head {part.head.fingerprint[:8]}>")
            for part in self.parts
        )
        return f"{self.base!r}.guided({each}{share})"


def mix_parts(
    base: CausalLM, parts: Sequence[Part], features: Sequence[Feature] = (), every: int = 1
) -> Guided:
    """Return the mixture of the base and some parts, whose weights leave the base its share."""
    made = Guided.__new__(Guided)
    made._set(base, 1.0 - math.fsum(part.weight for part in parts), parts, features, every)
    return made


def languages_of(guide: Guide) -> list[Language]:
    """Return the languages of a guide; a text must be in all of them."""
    return [part for part in guide.parts if isinstance(part, Language)]
