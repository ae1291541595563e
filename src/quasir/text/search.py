"""The search for a proposal: what is wanted is stated, and an efficient proposal is found.

A pilot shows texts that the target allows. Boosts of the features' own words, or of tokens that
stand out in these texts, and a head on the base's states are fitted to them, by rounds: each draws
from the base, the boosts and the head together, and all texts so far teach the next head. Then
fresh draws, which taught nothing, decide on the weights: those at which an accepted sample takes
the fewest seconds, at the TVD that is asked for, as far as it would be guaranteed.

One round alone is a trap. A head fitted to few texts satisfies the constraint more often, but
leaves texts that it almost never draws; their ratios are huge, and its own draws do not show them.
The base in the mixture bounds the ratios, boosts hold the tail, and the head holds the body.
"""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from quasir.certificates.choice import choose_level, guaranteed_rate
from quasir.certificates.evaluator import SortedDraws
from quasir.core.arguments import check_count, number
from quasir.core.files import make_folder, write_bytes
from quasir.core.formatting import short_repr
from quasir.core.items import take
from quasir.core.progress import Progress
from quasir.core.streams import Purpose, derived_seed, root_seed
from quasir.core.types import Array, Seed, Target
from quasir.draws.ceiling import ratio_bounds
from quasir.draws.draw import draw
from quasir.draws.draws import Draws
from quasir.engines.engine import Engine
from quasir.errors import InputError, QuasirError, TuningError
from quasir.guides.boost import Boost, boost, feature_words
from quasir.guides.guide import Guide, Machine
from quasir.guides.matcher import LanguageFeature
from quasir.guides.product import Both, BothMachine
from quasir.guides.state import State
from quasir.guides.vocabulary import Vocabulary
from quasir.targets.factors import Pointwise
from quasir.targets.product import Product
from quasir.text.causal import CausalLM
from quasir.text.found import Candidate, SearchRecord
from quasir.text.guide_fit import fit_guide
from quasir.text.guided import Guided, Part, mix_parts
from quasir.text.head import Head
from quasir.text.head_fit import Pool, screen_tokens, train_head
from quasir.text.texts import Texts, as_texts

BUDGET = 32_768
"""Draws of a search, by default: a quarter for the pilot, for each round, and to judge."""
LEAST_BUDGET = 2_048
HIDDEN = 64  # width of a head's inner layer
FEW = 48
"""With fewer texts that the target allows, no token is screened and no head is trained."""
EASY = 0.4
"""Where the base itself is accepted so often, nothing could be worth its cost."""
ROUND = {"base": 0.2, "boosts": 0.3, "head": 0.5}
"""Weights of a round, for the parts that there are."""
ROUNDS = 3  # heads that are trained, each on the draws of all before
DAMPED = (0.75, 0.5)
"""Parts of the last head's g that are tried too."""
STEPS = (0.2, 0.1, 0.05)  # by which weights are moved from part to part
WEIGHING = 96  # parameters of a network that cost as much as weighing one token by a guide
ASKING = 0.2  # of the time of a draw, at most, for asking features about the text so far


def propose(
    target: Target,
    base: CausalLM,
    budget: int = BUDGET,
    seed: Seed = None,
    progress: Progress = None,
    *,
    tvd: float = 0.1,
    confidence: float | None = 0.95,
    draws: int = 40_000,
    engine: Engine | None = None,
    folder: Path | None = None,
) -> Guided:
    """Find a proposal for a target on its own base: boosts, a head, or the base itself.

    Parameters
    ----------
    target : Target
        With this model as its base.
    base : CausalLM
    budget : int
        Draws that the search may make. They never enter an estimate: their streams are their own.
    seed : int, numpy Generator or None
    progress : bool or callable
        See `draw`.
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
    Guided
        Its `record` says what was tried, what each would cost, and what was chosen.

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
    check_count("budget", budget, least=LEAST_BUDGET)
    check_count("draws", draws)
    if not 0 < number("tvd", tvd) <= 1:
        raise InputError(f"tvd is {tvd!r}, but must be above 0 and at most 1.")
    search = Search(
        target=target,
        base=base,
        budget=budget,
        seed=root_seed(seed),
        progress=progress,
        request=(tvd, confidence, draws),
        engine=engine,
        folder=folder,
    )
    return search.run()


class Search:
    """One search. Its stages are numbered, and each has streams of its own."""

    def __init__(
        self,
        *,
        target: Product,
        base: CausalLM,
        budget: int,
        seed: int,
        progress: Progress,
        request: tuple[float, float | None, int],
        engine: Engine | None,
        folder: Path | None,
    ) -> None:
        self.target, self.base, self.seed, self.progress = target, base, seed, progress
        self.size, self.request = budget // (ROUNDS + 1), request
        self.engine, self.folder = engine, folder
        self.pools: list[Pool] = []
        self.kept: list[tuple[Texts, Array]] = []  # what the target allows, and log P/q
        self.drawn = self.possible = self.stage = 0
        self.seconds = 0.0  # of a draw of the base, by the last stage
        self.words: list[str] = []
        wanted = [factor.feature for factor in target.factors]
        self.language = Both.of(self._languages()) if self._languages() else None
        self.spoken = [feature for feature in wanted if feature_words(feature)]
        self.silent = [
            feature
            for feature in wanted
            if not feature_words(feature) and not isinstance(feature, LanguageFeature)
        ]
        self.vocabulary: Vocabulary = mix_parts(base, []).vocabulary
        self.features, self.every = self.spoken, 1
        self.parts: dict[str, Part] = {}
        if self.language is not None:
            self.parts["mask"] = Part(1.0, self.language)

    def _languages(self) -> list[Guide]:
        wanted = [f.feature for f in self.target.factors if isinstance(f, Pointwise)]
        return [
            language
            for feature in wanted
            if isinstance(feature, LanguageFeature)
            for language in feature.languages
        ]

    def run(self) -> Guided:
        """Return the proposal that was found."""
        if not self._pilot():
            return self._judge()
        self._screen()
        head = None
        for place in range(ROUNDS if self.possible >= FEW and self.base._plain else 0):
            head = self._train(head, place)
            guide = self.parts["boosts"].guide if "boosts" in self.parts else self.language
            self.parts["head"] = Part(1.0, guide, head)
            if place + 1 < ROUNDS:
                self._learn(self._mixture(ROUND), self.size)
        return self._judge()

    def _pilot(self) -> bool:
        """Draw the pilot, and fit the boosts of the features' words; return if more may help."""
        first = self._mixture({"base": 0.2, "mask": 0.8})
        draws = self._learn(first, self.size // 4)
        at = draws.log_p > -np.inf
        rate = self._rate(draws.log_ratio[at], len(draws), first)
        if rate > EASY:
            self.words.append("The base itself is accepted so often that nothing more was tried.")
            return False
        if self.spoken:
            self._boost()
        else:
            self._learn(first, self.size - self.size // 4)
        if not self.possible:
            raise TuningError(
                f"none of the {self.drawn:,} draws of the search is possible under the target, so "
                "there is nothing to learn a proposal from. Give a larger budget; a prompt that "
                "makes the base meet the constraint more often; the words that it is about, as "
                "qr.guides.boost({'word': 100.0}); or a model tuned towards it (quasir tune)."
            )
        self._ask()
        return True

    def _boost(self) -> None:
        """Fit the boosts of the features' words; the rounds of the fit are draws like others."""
        words = boost(self.spoken)
        guide = words if self.language is None else self.language * words
        begun, n = self.base.guided(guide, 0.2), self.size - self.size // 4
        try:
            fitted = fit_guide(begun, self.target, n, self.seed, self.progress, self._learn)
        except TuningError:
            self.words.append("No boost of the features' words made a draw possible.")
        else:
            self.parts["boosts"] = Part(1.0, fitted.guide)

    def _ask(self) -> None:
        """Find which silent features can be asked about prefixes: those that are quick enough."""
        quick = []
        for feature in self.silent:
            if not feature.boolean or feature.expensive:
                continue
            strings = self.kept[0][0].strings[:64]
            started = time.perf_counter()
            try:
                feature(strings)
            except QuasirError:
                continue
            asked = (time.perf_counter() - started) / len(strings) * self.base.max_tokens
            every = asked / (ASKING * self.seconds)
            if every <= self.base.max_tokens / 4:
                quick.append(feature)
                self.every = max(self.every, 1 << max(math.ceil(math.log2(max(every, 1.0))), 0))
        self.features = [*self.spoken, *quick]

    @property
    def until(self) -> list[int]:
        """The bits that say that the constraint is met, as far as they are known."""
        met = State(self.features, self.vocabulary, self.every).met
        names = [f.feature.name for f in self.target.factors if isinstance(f, Pointwise)]
        return [met[name] for name in names if name in met]

    def _screen(self) -> None:
        """Boost tokens that stand out, where a feature has no words of its own."""
        if not self.silent or self.possible < FEW:
            return
        found = screen_tokens(self.base, self._pool(), self.until)
        if found is None:
            self.words.append("No token stands out in the texts that the target allows.")
            return
        tokens = [self.vocabulary.pieces[i].strip() for i in found.tokens[:8].tolist()]
        self.words.append(f"Tokens that stand out: {', '.join(tokens)}.")
        guide = self.parts["boosts"].guide if "boosts" in self.parts else self.language
        self.parts["boosts"] = Part(1.0, guide, found)
        self._learn(self._mixture(ROUND), self.size)

    def _train(self, begun: Head | None, number: int) -> Head:
        pool = self._pool()
        if begun is None:
            width, bits = pool.states.shape[1], pool.bits.shape[1]
            begun = Head.zero(width, bits, HIDDEN, self.seed % 2**63)
            screened = self.parts["boosts"].head if "boosts" in self.parts else None
            if screened is not None:
                more = screened.tokens, screened.log_factors, screened.until
                begun = Head(begun.layers, *more)
        return train_head(self.base, pool, begun, self.seed, number)

    def _mixture(self, weights: dict[str, float]) -> Any:
        """Return the mixture with these weights, for the parts that there are."""
        own = {name: w for name, w in weights.items() if name in self.parts and w > 0}
        total = sum(own.values()) + weights["base"]
        if not own:
            return self.base
        parts = [self.parts[name]._replace(weight=w / total) for name, w in own.items()]
        return mix_parts(self.base, parts, self.features, self.every)

    def _draw(self, q: Any, n: int) -> Draws:
        """Make the draws of the next stage, or read those of a search that was killed."""
        self.stage += 1
        file = None if self.folder is None else self.folder / f"stage-{self.stage}.npz"
        if file is not None and file.exists():
            draws, seconds = _read(file, self.base.tokenizer)
        else:
            started = time.process_time()
            streams = derived_seed(self.seed, Purpose.SEARCH_DRAW, self.stage)
            draws = draw(self.target, q, n, streams, progress=self.progress, engine=self.engine)
            seconds = (time.process_time() - started) / n
            if file is not None:
                _write(file, draws, seconds)
        self.seconds = seconds / self._work(q)
        return draws

    def _learn(self, q: Any, n: int) -> Draws:
        """Make the draws of the next stage, and keep what they teach."""
        draws = self._draw(q, n)
        self._keep(draws)
        return draws

    def _keep(self, draws: Draws) -> None:
        at = np.flatnonzero(draws.log_p > -np.inf)
        self.drawn, self.possible = self.drawn + len(draws), self.possible + len(at)
        if len(at):
            texts = as_texts(take(draws.items, at), self.base.tokenizer)
            self.kept.append((texts, draws.log_ratio[at]))

    def _pool(self) -> Pool:
        """Return all that was learned from; what is new takes one pass."""
        state = State(self.features, self.vocabulary, self.every)
        machine: Machine = BothMachine([])
        if "boosts" in self.parts:
            guide = self.parts["boosts"].guide or Both(())
            words = [part for part in guide.parts if isinstance(part, Boost)]
            machine = words[0].compile(self.vocabulary) if words else machine
        for texts, log_weight in self.kept[len(self.pools) :]:
            self.pools.append(Pool.of(self.base, texts, state, machine, log_weight))
        return Pool.join(self.pools)

    def _judge(self) -> Guided:
        """Choose the weights on fresh draws, and return that proposal with its record."""
        fresh = self._draw(self._mixture({"mask": 0.2} | ROUND), self.size)
        at = np.flatnonzero(fresh.log_p > -np.inf)
        log_p, log_q = fresh.log_p[at], fresh.log_q[at]
        for by in DAMPED if "head" in self.parts else ():
            whole = self.parts["head"]
            assert whole.head is not None
            self.parts[f"{by} head"] = whole._replace(head=whole.head.damped(by))
        names = ["base", *self.parts]
        each = [part._replace(weight=0.5 / len(self.parts)) for part in self.parts.values()]
        every = mix_parts(self.base, each, self.features, self.every)
        log_a, log_each = every.log_prob_parts(take(fresh.items, at))
        logs = np.concatenate([log_a[None], log_each])

        def candidate(name: str, weights: Array) -> Candidate:
            with np.errstate(divide="ignore"):
                own = np.logaddexp.reduce(np.log(weights)[:, None] + logs, axis=0)
            # Draws of the full mixture stand for those of this one; the others have P(x) = 0.
            expected = np.cumsum(np.exp(own - log_q))
            times = np.diff(np.floor(expected + 0.5), prepend=0.0).astype(int)
            log_ratio = np.repeat(log_p - own, times)[: len(fresh)]
            said = dict(zip(names, weights.tolist(), strict=True))
            q = self._mixture(said)
            rate, seconds = self._rate(log_ratio, len(fresh), q), self.seconds * self._work(q)
            cost = seconds / rate if rate else math.inf
            used = {name: w for name, w in said.items() if w > 0}
            return Candidate(name, used, rate, seconds, cost)

        alone = np.eye(len(names))
        tried = [candidate("base", alone[0])]
        if len(names) > 1:
            for i, name in enumerate(names[1:], start=1):
                tried.append(candidate(f"base and {name}", 0.3 * alone[0] + 0.7 * alone[i]))
            tried.append(_improved(candidate, tried, names))
        best = min(tried, key=lambda one: one.seconds_per_sample)
        q = self._mixture({"base": 0.0} | best.weights)
        tvd, confidence, _ = self.request
        record = SearchRecord(
            tvd, confidence, self.drawn, self.possible, tried, best.name, tuple(self.words)
        )
        found: Guided = q if isinstance(q, Guided) else mix_parts(self.base, [])
        found.record = record
        return found

    def _rate(self, log_ratio: Array, n: int, q: Any) -> float:
        """Return the acceptance rate at the request, by the ratios of the draws with P(x) > 0."""
        tvd, confidence, draws = self.request
        log_p = np.full(n, -np.inf)
        log_p[: len(log_ratio)] = log_ratio
        known = ratio_bounds(self.target, q)
        nothing = np.zeros(n)
        made = Draws(log_p=log_p, log_q=nothing, log_u=nothing, known=known)
        if not len(log_ratio):
            return 0.0
        evaluator = SortedDraws(made)
        if confidence is not None and known.log_ceiling < math.inf:
            exact = evaluator.values("acceptance_rate", np.array([known.log_ceiling]))[0]
            return max(guaranteed_rate(evaluator, "tvd", tvd, confidence, draws), float(exact))
        level = choose_level(evaluator, "tvd", tvd)
        if level is None:
            return 0.0
        return float(evaluator.values("acceptance_rate", np.array([level]))[0])

    def _work(self, q: Any) -> float:
        """Return the work of a draw in draws of the base; by sizes, so that no clock decides."""
        size, network = self.base.vocabulary_size, self.base.model.num_parameters()
        output = self.base.model.get_output_embeddings().weight.numel()
        parts = getattr(q, "parts", ())
        heads = sum(part.head is not None and bool(part.head.layers) for part in parts)
        return float(1 + (len(parts) * WEIGHING * size + heads * output) / network)


def _improved(
    candidate: Callable[[str, Array], Candidate], tried: list[Candidate], names: list[str]
) -> Candidate:
    """Return the cheapest weights, moved from part to part by ever smaller steps."""
    start = min(tried, key=lambda one: one.seconds_per_sample)
    weights = np.array([start.weights.get(name, 0.0) for name in names])
    best = candidate("mixture", weights)
    for step in STEPS:
        going = True
        while going:
            going = False
            for source in range(len(names)):
                for into in range(len(names)):
                    moved = weights.copy()
                    by = min(step, moved[source])
                    moved[source], moved[into] = moved[source] - by, moved[into] + by
                    if source == into or by == 0.0:
                        continue
                    other = candidate("mixture", moved)
                    if other.seconds_per_sample < 0.999 * best.seconds_per_sample:
                        best, weights, going = other, moved, True
    return best


def _write(file: Path, draws: Draws, seconds: float) -> None:
    """Keep the draws of a stage, so that a search that was killed goes on."""
    texts, columns = draws.items, ("log_p", "log_q", "log_base")
    kept = {name: getattr(draws, name) for name in columns}
    content = io.BytesIO()
    np.savez(content, ids=texts.ids, offsets=texts.offsets, seconds=seconds, **kept)
    make_folder(file.parent)
    write_bytes(file, content.getvalue())


def _read(file: Path, tokenizer: Any) -> tuple[Draws, float]:
    kept = np.load(file)
    texts = Texts(kept["ids"], kept["offsets"], tokenizer)
    columns = {name: kept[name] for name in ("log_p", "log_q", "log_base")}
    return Draws(**columns, log_u=np.zeros(len(texts)), items=texts), float(kept["seconds"])
