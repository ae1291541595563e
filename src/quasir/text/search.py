"""The search for a proposal: what is wanted is stated, and an efficient proposal is found.

A pilot shows texts that the target allows. Boosts of the features' own words, or of tokens that
stand out in these texts, and a head on the base's states are fitted to them, by rounds: each draws
from the base, the boosts and the head together, and all texts so far teach the next head. Then
fresh draws, which taught nothing, decide on the weights (`quasir.text.weighing`).

One round alone is a trap. A head fitted to few texts satisfies the constraint more often, but
leaves texts that it almost never draws; their ratios are huge, and its own draws do not show them.
The base in the mixture bounds the ratios, boosts hold the tail, and the head holds the body.

Several contexts have one search. It is for the pairs of a context and its text: p is the mean of
the contexts' p, each with its own Z, and q the mean of their proposals, which have the same parts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from quasir.core.arguments import check_count, number
from quasir.core.formatting import short_repr
from quasir.core.items import take
from quasir.core.progress import Progress
from quasir.core.scores import log_prob_of
from quasir.core.streams import root_seed
from quasir.core.types import Array, Proposal, Seed, Target
from quasir.draws.ceiling import log_base_ratio, ratio_bounds
from quasir.draws.draws import Draws
from quasir.engines.engine import Engine
from quasir.errors import InputError, QuasirError, TuningError
from quasir.guides.automaton import State
from quasir.guides.boost import Boost, boost, feature_words
from quasir.guides.guide import Guide, Machine
from quasir.guides.matcher import LanguageFeature
from quasir.guides.product import Both, BothMachine
from quasir.proposals.mixture import Mixture
from quasir.targets.feature import Feature
from quasir.targets.product import Pointwise, Product
from quasir.text.causal import CausalLM
from quasir.text.found import Candidate, SearchRecord
from quasir.text.guide_fit import fit_guide
from quasir.text.guided import Guided, Part, mix_parts
from quasir.text.head import Head
from quasir.text.head_fit import Pool, balanced, screen_tokens, train_head
from quasir.text.stages import Place, Stages
from quasir.text.weighing import Request, Scored, check_choice, choose_weights, cost

BUDGET = 32_768
"""Draws of a search, by default: as many for the pilot as for each round, and to judge."""
LEAST_BUDGET = 2_048
PILOT = 256
"""Draws of the first stage: they show whether the base will do, and how long a draw takes."""
FEW = 48
"""With fewer texts that the target allows, no token is screened and no head is trained."""
EASY = 0.4
"""Where the base itself is accepted so often, nothing could be worth its cost."""
ROUND = {"base": 0.2, "boosts": 0.3, "head": 0.5}
"""Weights of a round, for the parts that there are."""
SCREENED_AT, TRAINED_AT = 0.995, 0.9
"""Quantiles at which weights are cut: a few texts that q hardly ever draws must not decide."""
ROUNDS = 3  # heads that are trained, each on the draws of all before
LEAST_SAMPLES = 10  # of a run: with fewer by the guarantee, the estimate chooses the weights
DAMPED = (0.75, 0.5)
"""Parts of the last head's g that are tried too."""
GIVEN = 0.5  # weight in the pilot, and in the draws that judge, of proposals that the user gives
WEIGHING = 96  # parameters of a network that cost as much as weighing one token by a guide
SCORING = 0.5  # work of scoring a text, in draws
TRAINING = 2.5  # seconds of a search for each that the base needs for as many draws
ASKING = 0.2  # of the time of a draw, at most, for asking features about the text so far
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}


def propose(
    target: Target,
    base: CausalLM,
    budget: int | str = BUDGET,
    seed: Seed = None,
    progress: Progress = None,
    *,
    candidates: Sequence[Proposal] = (),
    words: Sequence[str] = (),
    tvd: float = 0.1,
    confidence: float | None = 0.95,
    draws: int = 40_000,
    engine: Engine | None = None,
    folder: Path | None = None,
) -> Guided | Mixture:
    """Find a proposal for a target on its own base: boosts, a head, or the base itself.

    Parameters
    ----------
    target : Target
        With this model as its base.
    base : CausalLM
    budget : int or str
        Draws that the search may make, or its time, such as ``"4min"``. They never enter an
        estimate: their streams are their own.
    seed : int, numpy Generator or None
    progress : bool or callable
        See `draw`.
    candidates : sequence of Proposal
        Proposals that may help, and are judged with the others: ``base.prompted("...")``, or a
        tuned model.
    words : sequence of str
        Words that may help, beside those that the features say.
    tvd, confidence : float
        What samples will be asked for; without a confidence, the estimate decides.
    draws : int
        Draws of the run that the proposal is for: guarantees depend on their number.
    engine : Engine, optional
        See `draw`.
    folder : Path, optional
        Where the draws of the search are kept, so that a search that was killed goes on.

    Returns
    -------
    Guided or Mixture
        A mixture if it has some of the candidates. Its `record` says what was tried, what each
        would cost, and what was chosen.

    Raises
    ------
    TuningError
        If no draw of the pilot is possible under the target.

    Examples
    --------
    >>> import quasir as qr
    >>> base = qr.text.CausalLM("quasir/biographies", max_tokens=12)
    >>> q = qr.propose(base * qr.features.female, base, budget=2_048, seed=0)
    >>> q.record.tried[0].name
    'base'
    """
    if not isinstance(target, Product) or target.base is not base:
        raise InputError(
            f"the target must be made of this very base, as base * feature, not "
            f"{short_repr(target)}: the search needs log a and log q of one pass."
        )
    check_count("draws", draws)
    if not 0 < number("tvd", tvd) <= 1:
        raise InputError(f"tvd is {tvd!r}, but must be above 0 and at most 1.")
    search = Search(
        stages=Stages(
            places=[Place(target, tuple(candidates))],
            seed=root_seed(seed),
            progress=progress,
            engine=engine,
            folder=folder,
        ),
        words=words,
        budget=read_budget(budget),
        request=Request(tvd, confidence, draws),
    )
    return search.run()


class Budget(NamedTuple):
    """How much a search may take: draws, or seconds."""

    draws: int | None
    seconds: float = math.inf


def read_budget(budget: Any) -> Budget:
    """Read a number of draws, or a time."""
    if isinstance(budget, str) and not budget.isdigit():
        found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(s|min|h)", budget)
        if found is None or not float(found[1]):
            raise InputError(
                f"the budget {short_repr(budget)} is no number of draws, such as 8192, and no "
                "time, such as 90s, 4min or 1h."
            )
        return Budget(None, float(found[1]) * UNITS[found[2]])
    value = int(budget) if isinstance(budget, str) else budget
    return Budget(check_count("budget", value, least=LEAST_BUDGET))


@dataclass(kw_only=True)
class Search:
    """One search. Its stages are numbered, and each has streams of its own."""

    stages: Stages
    budget: Budget
    request: Request
    words: Sequence[Any] = ()  # or features of words

    def __post_init__(self) -> None:
        self.places, self.seed = self.stages.places, self.stages.seed
        self.base = self.places[0].base
        self.pools: list[Pool] = []
        self.said: list[str] = []
        self.vocabulary = mix_parts(self.base, []).vocabulary
        wanted = self.places[0].wanted
        languages, *others = [place.languages for place in self.places]
        shared = bool(languages) and all(other == languages for other in others)
        self.language: Guide | None = Both.of(languages) if shared else None
        spoken = [i for i, feature in enumerate(wanted) if feature_words(feature)]
        # A state is one for all contexts if the features have as many groups of words in each.
        self.read = [i for i in spoken if self._alike(i, lambda groups: len(groups))]
        self.spoken: list[Any] = [wanted[i] for i in spoken if self._alike(i, tuple)]
        self.silent = [
            i
            for i, feature in enumerate(wanted)
            if feature not in self.spoken and not isinstance(feature, LanguageFeature)
        ]
        self.spoken += self.words
        self._divide(self.budget.draws or LEAST_BUDGET)
        self.every = 1
        self.screened: Head | None = None
        self.parts: dict[str, Part] = {}
        if self.language is not None:
            self.parts["mask"] = Part(1.0, self.language)
        self.given = [f"given {i}" for i, _ in enumerate(self.places[0].candidates, start=1)]
        for name, one in zip(self.given, self.places[0].candidates, strict=True):
            self.said.append(f"{name.capitalize()} is {short_repr(one)}.")

    def _alike(self, i: int, fact: Callable[[Any], Any]) -> bool:
        return len({fact(feature_words(place.wanted[i])) for place in self.places}) == 1

    def features(self, place: int = 0) -> list[Feature]:
        """Return what the state reads, in one of the places."""
        return [self.places[place].wanted[i] for i in self.read]

    def run(self) -> Guided | Mixture:
        """Return the proposal that was found."""
        if self._is_easy():
            said = "The base itself is accepted so often that nothing more was tried."
            self.said.append(said)
            return self._recorded(mix_parts(self.base, []), [self.first])
        self._pilot()
        self._screen()
        for place in range(ROUNDS if self.stages.possible >= FEW and self.base._plain else 0):
            pool = self._pool(TRAINED_AT)
            head = train_head(self.base, pool, self.screened, self.seed, place)
            guide = self.parts["boosts"].guide if "boosts" in self.parts else self.language
            self.parts["head"] = Part(1.0, guide, head)
            if place + 1 < ROUNDS:
                self.stages.learn(self._mixture(ROUND), self.size)
        return self._judge()

    def _is_easy(self) -> bool:
        """Draw the first stage: it says whether the base will do, and how long a draw takes."""
        drawn = self.stages.learn(self._mixture({"base": 1.0}), PILOT)
        self.first = self._scored(drawn, {}, 1.0).judge("base", ["base"], np.ones(1), self.request)
        if self.budget.draws is None:
            draws = int(self.budget.seconds / (TRAINING * max(self.stages.seconds, 1e-9)))
            self._divide(max(draws, LEAST_BUDGET))
        return self.first.acceptance > EASY

    def _divide(self, draws: int) -> None:
        """Divide draws among stages: the pilot, screened tokens, rounds but one, the judges."""
        self.size = (draws - PILOT) // (ROUNDS + 1 + bool(self.silent))
        self.stages.total = draws

    def _pilot(self) -> None:
        """Draw the pilot, and fit the boosts of words."""
        first = self._mixture({"base": 0.2, "mask": 0.8, **self._weights_given(GIVEN)})
        self.stages.learn(first, self.size // 4)
        if self.spoken:
            self._boost()
        else:
            self.stages.learn(first, self.size - self.size // 4)
        if not self.stages.possible:
            raise TuningError(
                f"none of the {self.stages.drawn:,} draws of the search is possible under the "
                "target, so there is nothing to learn a proposal from. Give a larger budget; a "
                "prompt that makes the base meet the constraint more often; the words that it is "
                "about, as boost: [word]; or a model tuned towards it (quasir tune). With "
                "proposal: base, nothing is searched."
            )
        self._ask()

    def _weights_given(self, total: float) -> dict[str, float]:
        return {name: total / len(self.given) for name in self.given}

    def _boost(self) -> None:
        """Fit the boosts of words; the rounds of the fit are draws like others."""
        words = boost(self.spoken)
        guide = words if self.language is None else self.language * words
        begun, n = self.base.guided(guide, 0.2), self.size - self.size // 4
        target = self.places[0].target

        def make(now: Guided, n: int) -> list[tuple[Guided, Draws]]:
            each = [Guided(place.base, now.guide, now.share) for place in self.places]
            return list(zip(each, self.stages.learn(each.__getitem__, n), strict=True))

        try:
            fitted = fit_guide(begun, target, n, self.seed, None, make)
        except TuningError:
            self.said.append("No boost of the words made a draw possible.")
        else:
            self.parts["boosts"] = Part(1.0, fitted.guide)

    def _ask(self) -> None:
        """Find which silent features can be asked about prefixes: those that are quick enough."""
        wanted = self.places[self.stages.kept[0].place].wanted
        for i in self.silent:
            feature = wanted[i]
            if not feature.boolean or feature.expensive or feature_words(feature):
                continue
            strings = self.stages.kept[0].texts.strings[:64]
            try:
                took = self.stages.timed(f"asked-{i}", partial(feature, strings))
            except QuasirError:
                continue
            asked = took / len(strings) * self.base.max_tokens
            every = asked / (ASKING * self.stages.seconds)
            if every <= self.base.max_tokens / 4:
                self.read.append(i)
                self.every = max(self.every, 1 << max(math.ceil(math.log2(max(every, 1.0))), 0))

    @property
    def until(self) -> list[int]:
        """The bits that say that the constraint is met, as far as they are known."""
        met = State(self.features(), self.vocabulary, self.every).met
        factors = self.places[0].target.factors
        names = [f.feature.name for f in factors if isinstance(f, Pointwise)]
        return [met[name] for name in names if name in met]

    def _screen(self) -> None:
        """Boost tokens that stand out, where a feature has no words of its own."""
        if not self.silent or self.stages.possible < FEW:
            return
        self.screened = found = screen_tokens(self.base, self._pool(SCREENED_AT), self.until)
        if found is None:
            self.said.append("No token stands out in the texts that the target allows.")
            return
        tokens = [self.vocabulary.pieces[i].strip() for i in found.tokens[:8].tolist()]
        self.said.append(f"Tokens that stand out: {', '.join(tokens)}.")
        guide = self.parts["boosts"].guide if "boosts" in self.parts else self.language
        self.parts["boosts"] = Part(1.0, guide, found)
        self.stages.learn(self._mixture(ROUND), self.size)

    def _mixture(self, weights: Mapping[str, float]) -> Callable[[int], Any]:
        """Return what makes the mixture with these weights in each place, of what there is."""
        named = {name: w for name, w in weights.items() if w > 0}
        own = {name: w for name, w in named.items() if name in self.parts}
        share = 1.0 - sum(named.get(name, 0.0) for name in self.given)
        total = (sum(own.values()) + named.get("base", 0.0)) or 1.0
        parts = [self.parts[name]._replace(weight=w / total) for name, w in own.items()]

        def make(place: int) -> Any:
            base, candidates = self.places[place].base, self.places[place].candidates
            guided: Any = base
            if parts:
                guided = mix_parts(base, parts, self.features(place), self.every)
            given = {
                name: one for name, one in zip(self.given, candidates, strict=True) if name in named
            }
            if not given:
                return guided
            return Mixture([guided, *given.values()], [share, *(named[name] for name in given)])

        return make

    def _pool(self, cut: float) -> Pool:
        """Return all that was learned from; what is new takes one pass."""
        machine: Machine = BothMachine([])
        if "boosts" in self.parts:
            guide = self.parts["boosts"].guide or Both(())
            words = [part for part in guide.parts if isinstance(part, Boost)]
            machine = words[0].compile(self.vocabulary) if words else machine
        for _, place, texts, logs in self.stages.kept[len(self.pools) :]:
            state = State(self.features(place), self.vocabulary, self.every)
            base = self.places[place].base
            self.pools.append(Pool.of(base, texts, state, machine, logs))
        by_stage: dict[int, list[Array]] = {}
        log_p = []
        for stage, place, _, (log_ratio, own, _) in self.stages.kept:
            log_z = self.stages.log_z(place)
            by_stage.setdefault(stage, []).append(log_ratio - log_z)
            log_p.append(own - log_z)
        log_weight = [balanced(np.concatenate(each), cut) for each in by_stage.values()]
        return Pool.join(self.pools, np.concatenate(log_weight), np.concatenate(log_p))

    def _judge(self) -> Guided | Mixture:
        """Choose the weights on fresh draws, and return that proposal with its record."""
        mixture = {"mask": 0.2} | ROUND | self._weights_given(GIVEN / 2)
        drawn_by = self._mixture(mixture)
        fresh = self.stages.draw(drawn_by, self.size)
        for by in DAMPED if "head" in self.parts else ():
            whole = self.parts["head"]
            assert whole.head is not None
            self.parts[f"{by} head"] = whole._replace(head=whole.head.damped(by))
        names = ["base", *self.parts, *self.given]
        scored = self._scored(fresh, self.parts, self._work(drawn_by(0)))
        tried = choose_weights(scored, names, self.request)
        best = min(tried, key=cost)
        tvd, confidence, draws = self.request
        if confidence is not None and best.acceptance * draws < LEAST_SAMPLES:
            self.said.append(
                f"{draws:,} draws would guarantee a TVD of {tvd:g} for fewer than {LEAST_SAMPLES} "
                "samples, so the estimate has chosen."
            )
            self.request = self.request._replace(confidence=None)
            tried = choose_weights(scored, names, self.request)
            best = min(tried, key=cost)
        low, high = sorted(check_choice(scored, names, self.request))
        self.said.append(
            "Chosen on one half of the judging draws and judged on the other, a proposal is "
            f"accepted at {low:.4f} and {high:.4f}: so sure is this table."
        )
        q = self._mixture(best.weights)(0)
        return self._recorded(q if q is not self.base else mix_parts(self.base, []), tried)

    def _scored(self, fresh: list[Draws], parts: Mapping[str, Part], by: float) -> Scored:
        """Return draws, of this much work, with their log-probabilities under every component."""
        columns, most, floors = [], [], []
        for i, (place, draws) in enumerate(zip(self.places, fresh, strict=True)):
            target, base, given = place.target, place.base, place.candidates if parts else ()
            at, log_z = np.flatnonzero(draws.log_p > -np.inf), self.stages.log_z(i)
            if not len(at):
                continue
            each = [part._replace(weight=0.5 / len(parts)) for part in parts.values()]
            items, features = take(draws.items, at), self.features(i)
            log_a, log_parts = mix_parts(base, each, features, self.every).log_prob_parts(items)
            logs = [log_a, *log_parts, *(log_prob_of(one, items) for one in given)]
            columns.append((draws.log_p[at] - log_z, draws.log_q[at], np.array(logs)))
            components: list[Any] = [base]
            for one in each:
                alone = [one._replace(weight=1.0)]
                components.append(mix_parts(base, alone, features, self.every))
            ratios = [log_base_ratio(one, base, target) for one in (*components, *given)]
            floors.append(np.exp(-np.array(ratios)))
            most.append(ratio_bounds(target, base).log_ceiling - log_z)
        if not columns:  # no draw is possible
            columns = [(np.zeros(0), np.zeros(0), np.zeros((1, 0)))]
            most, floors = [0.0], [np.ones(1)]
        log_p, log_q, log_each = (
            np.concatenate(one, axis=-1) for one in zip(*columns, strict=True)
        )
        n, work = sum(len(draws) for draws in fresh), [1.0, *map(self._part_work, parts.values())]
        if parts:
            work += [2 * SCORING] * len(self.given)
        bounds = np.array(most), np.array(floors), np.array(work)
        return Scored(n, log_p, log_q, log_each, *bounds, self.stages.seconds / by)

    def _recorded(self, q: Guided | Mixture, tried: list[Candidate]) -> Guided | Mixture:
        q.record = SearchRecord(
            tvd=self.request.tvd,
            confidence=self.request.confidence,
            draws=self.stages.drawn,
            possible=self.stages.possible,
            tried=tried,
            chosen=min(tried, key=cost).name,
            words=tuple(self.said),
        )
        return q

    def _part_work(self, part: Part) -> float:
        """Return the work of a part in draws of the base; by sizes, so that no clock decides."""
        model = self.base.model
        output = model.get_output_embeddings().weight.numel()
        has_layers = part.head is not None and bool(part.head.layers)
        weighed = WEIGHING * self.base.vocabulary_size + has_layers * output
        return float(weighed / model.num_parameters())

    def _work(self, q: Any) -> float:
        """Return the work of a draw in draws of the base."""
        if isinstance(q, Mixture):
            return self._work(q.components[0]) + 2 * SCORING * (len(q.components) - 1)
        return 1.0 + sum(map(self._part_work, getattr(q, "parts", ())))
