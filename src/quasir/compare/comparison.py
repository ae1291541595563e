"""Samplers at equal cost, on the same stretches of stored draws (appendices F and G)."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.certificates.certificate import Certificate
from quasir.certificates.curve import tradeoff
from quasir.compare.sampler_table import BLEU, UNKNOWN, Cell, Comparison, Cost, Row, Stretches
from quasir.core.arguments import as_rate, check_count, exp_or_inf
from quasir.core.files import is_file
from quasir.core.items import Coded, TokenTexts
from quasir.core.progress import Progress, Quiet, Reporter, progress_of
from quasir.core.streams import Purpose, derived_seed
from quasir.core.types import Items
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.estimation.estimate import Estimate, Key, Moment
from quasir.metrics import self_bleu, unique_share
from quasir.recipes.building import located
from quasir.recipes.schema import Recipe, Source
from quasir.runs.active_run import begin, prepare
from quasir.runs.integrity import check_seed, read_checked, refuse_changes
from quasir.runs.pipeline import draw_all
from quasir.samplers import IMH, SIR, IncrementalQRS
from quasir.store import MANIFEST, Store, locked

__all__ = ["SAMPLERS", "compare", "compare_recipe"]


class _Stored:
    """Stands for P and q where draws are replayed: neither is called."""

    def log_score(self, items: Any) -> Any:
        raise AssertionError

    log_prob = sample = log_score


STORED: Any = _Stored()


@dataclass(frozen=True, eq=False)
class Kept:
    """The samples that a sampler keeps from a stretch: their indices, in the sampler's order."""

    indices: NDArray[np.intp]
    proposals: int  # draws used for them, including the burn-in and the wait for a start
    warnings: Sequence[str]
    certificate: Certificate | None = None  # their distance to p, where it can be estimated


def _keep_first(stretch: Draws, n: int, cost: Cost, seed: int) -> Kept:
    certificate = tradeoff(stretch, log_betas=[0.0]).proposal
    return Kept(np.arange(n), n, certificate.warnings, certificate)


def _keep_qrs(stretch: Draws, n: int, cost: Cost, seed: int) -> Kept:
    """Keep the n largest alphas of the first n*steps draws (Algorithm 2); beta is the next one."""
    samples = IncrementalQRS(STORED, STORED, cost.rate).replay(stretch, n)
    level = samples.log_beta
    if level == -math.inf:  # the rate is out of reach
        certificate = tradeoff(stretch, log_betas=[0.0]).projection
        warnings = (*samples.warnings, *certificate.warnings)
    else:
        certificate = tradeoff(stretch, log_betas=[level]).at(log_beta=level)
        warnings = certificate.warnings
    return Kept(np.asarray(samples.items), samples.proposals, warnings, certificate)


def _keep_imh(stretch: Draws, n: int, cost: Cost, seed: int) -> Kept:
    chain = IMH(STORED, STORED, burn_in=cost.burn_in, thin=cost.steps).replay(stretch, n)
    return Kept(np.asarray(chain.items), chain.proposals, chain.warnings)


def _keep_reset_imh(stretch: Draws, n: int, cost: Cost, seed: int) -> Kept:
    chain = IMH(STORED, STORED, reset=cost.chain).replay(stretch, n)
    return Kept(np.asarray(chain.items), chain.proposals, chain.warnings)


def _keep_sir(stretch: Draws, n: int, cost: Cost, seed: int) -> Kept:
    # Where none of these has P(x) > 0, take all draws up to the first that has.
    first = int(np.argmax(stretch.log_p > -np.inf)) + 1
    candidates = stretch.take(np.arange(max(n * cost.steps, first)))
    samples = SIR(STORED, STORED, len(candidates)).replay(candidates, n, seed)
    return Kept(np.asarray(samples.items), samples.proposals, samples.warnings)


def draws_to_hold(n: int, possible: float) -> int:
    """Return how many draws hold n with P(x) > 0, six standard deviations on the safe side."""
    # N s - 6 sqrt(N s) = n, with s the share of these draws.
    return n if possible == 1 else math.ceil((3 + math.sqrt(9 + n)) ** 2 / possible)


@dataclass(frozen=True)
class Method:
    title: str  # in the table
    need: Callable[[int, Cost, float], int]  # draws for n samples, if a share has P(x) > 0
    keep: Callable[[Draws, int, Cost, int], Kept] = _keep_first

    def row(self, sampler: str, pool: Draws, stretches: Stretches, limit: int | None) -> Row:
        cost, n, measured = stretches.cost, stretches.n, []
        for run, stretch in enumerate(cut(pool, stretches)):
            # Items that are indices, so that no texts are copied.
            bare = replace(stretch, items=np.arange(len(stretch)), features={}, log_base=None)
            # The streams 0 and 1 belong to samplers that take more than stored draws.
            kept = self.keep(bare, n, cost, run_seed(pool.seed, cost.steps, 2 + run))
            samples = stretch.take(kept.indices)
            items = kept.indices if samples.items is None else samples.items
            ppl = _perplexity(samples, limit)
            numbers = measure(items, samples.features, kept.proposals, ppl)
            if kept.certificate is not None:
                numbers |= {"tvd": kept.certificate.tvd, "kl": kept.certificate.kl}
            measured.append((numbers, tuple(kept.warnings)))
        return row_of(sampler, self.title.format(cost.steps), cost, n, measured)


METHODS: Mapping[str, Method] = {
    "qrs": Method("QRS", lambda n, cost, s: max(n * cost.steps, draws_to_hold(n, s)), _keep_qrs),
    "imh": Method(
        "IMH-{}", lambda n, cost, s: draws_to_hold(1, s) + cost.burn_in + n * cost.steps, _keep_imh
    ),
    "imh-reset": Method(
        "IMH-reset-{}",
        lambda n, cost, s: n * (cost.chain - 1) + draws_to_hold(n, s),
        _keep_reset_imh,
    ),
    "sir": Method("SIR", lambda n, cost, s: max(n * cost.steps, draws_to_hold(1, s)), _keep_sir),
}
SAMPLERS = tuple(METHODS)


def compare(
    pool: Draws,
    samplers: Sequence[str] = ("qrs", "imh", "imh-reset"),
    rates: Sequence[float] = (1e-1, 1e-3),
    n: int = 1000,
    runs: int = 10,
    *,
    burn_in: int = 1000,
    recipe: Recipe | None = None,
    methods: Mapping[str, Any] = METHODS,
    progress: Progress = False,
) -> Comparison:
    """Run samplers over `runs` disjoint stretches of stored draws, and measure what they keep.

    A run has `n` samples, or fewer where the pool is too small. Rates, samples per proposal, are
    rounded to 1/k. The `recipe` says which means are wanted, and what tokens the perplexity is of.
    """
    check_count("n", n)
    check_count("runs", runs)
    names = list(dict.fromkeys(samplers))
    check_names(names, methods)
    possible = float((pool.log_p > -np.inf).mean())
    wait = round(1 / (possible or 1.0)) - 1
    costs = list(dict.fromkeys(Cost(round(1 / as_rate(rate)), burn_in, wait) for rate in rates))
    if not costs:
        raise InputError("there are no rates to compare at: give at least one, such as 0.1.")
    if not possible:
        raise InputError(f"none of the {len(pool):,} draws had P(x) > 0: use another proposal.")
    used = [methods[name] for name in names]
    every = [stretches_for(len(pool), possible, cost, used, n, runs) for cost in costs]
    limit, no_ppl = token_limit(recipe, pool.items)
    report = progress_of(progress, "samples measured")
    total, done = sum(one.n * one.runs for one in every) * len(names), 0
    first = replace(every[0], cost=Cost(1, 0), n=every[0].n or min(n, every[0].length))
    rows = [Method("proposal", lambda n, *_: n).row("proposal", pool, first, limit)]
    for one in every:
        for name in names if one.n else ():
            rows.append(methods[name].row(name, pool, one, limit))
            done += one.n * one.runs
            report(done, total, done)
    return Comparison(
        rows=rows,
        pool_size=len(pool),
        stretches=every,
        n=n,
        runs=runs,
        boolean={name: column.dtype == bool for name, column in pool.features.items()},
        wanted={} if recipe is None else dict(recipe.want),
        no_ppl=no_ppl,
    )


def check_names(names: Sequence[str], known: Collection[str] = SAMPLERS) -> None:
    for name in names:
        if name not in known:
            raise InputError(f"no sampler is called {name!r}: there are {', '.join(known)}.")


def stretches_for(
    size: int, possible: float, cost: Cost, methods: Sequence[Any], n: int, runs: int
) -> Stretches:
    """Cut a pool into stretches for a rate, which do not overlap; n is lowered if it is small."""

    def need(n: int) -> int:
        return max([n, *(int(method.need(n, cost, possible)) for method in methods)])

    length = min(need(n), size // runs)
    found = bisect_right(range(1, n + 1), length, key=need)
    return Stretches(cost=cost, length=length, runs=runs, n=found, wanted=runs * need(n))


def cut(pool: Draws, stretches: Stretches) -> list[Draws]:
    starts = range(0, stretches.runs * stretches.length, stretches.length)
    return [pool.take(np.arange(start, start + stretches.length)) for start in starts]


def run_seed(seed: int, steps: int, run: int) -> int:
    """Return the seed of a run's own random choices at a rate; the stored draws have theirs."""
    return derived_seed(seed, Purpose.COMPARE, steps, run)


def measure(
    items: Items, features: Mapping[str, NDArray[Any]], proposals: float, ppl: float
) -> dict[Key, float | Estimate]:
    """Measure one run's samples; `ppl` is their perplexity, NaN where it is not known."""
    some = items.support[0] if isinstance(items, Coded) else items[0]
    are_texts = len(items) > 1 and (hasattr(some, "text") or isinstance(some, str))
    numbers: dict[Key, float | Estimate] = {"draws_per_sample": proposals / len(items)}
    for name, column in features.items():
        numbers[Moment(name)] = float(np.asarray(column, np.float64).mean())
    return numbers | {
        "ppl": ppl,
        "self_bleu": self_bleu(items, BLEU) if are_texts else math.nan,
        "unique": unique_share(items),
    }


def row_of(sampler: str, method: str, cost: Cost, n: int, measured: Sequence[Any]) -> Row:
    cells = {key: Cell.of([numbers[key] for numbers, _ in measured]) for key in measured[0][0]}
    for key in ("tvd", "kl"):
        cells[key] = Cell.of([numbers[key] for numbers, _ in measured if key in numbers], UNKNOWN)
    warnings = tuple(warnings for _, warnings in measured)
    return Row(sampler, method, cost, n, len(measured), cells, warnings)


def _perplexity(samples: Draws, limit: int | None) -> float:
    log_base = samples.log_base
    if log_base is None or limit is None or not np.isfinite(log_base).all():
        return math.nan  # the base may not have scored all stored draws
    lengths = np.diff(samples.items.offsets)
    # A text of `limit` tokens was cut and has no end token, as in `quasir.metrics.perplexity`.
    return exp_or_inf(float(-log_base.sum() / (lengths + (lengths < limit)).sum()))


def token_limit(recipe: Recipe | None, items: Items) -> tuple[int | None, str]:
    """Return the base's limit of tokens, or None and why its tokens cannot be counted."""
    if recipe is None:
        return None, "the run has no recipe that names its base"
    if recipe.base.model is None or not isinstance(items, TokenTexts):
        return None, "the base is no language model that runs here, with tokens"
    if any(
        part.round_trip or part.model not in (None, recipe.base.model)
        for part in recipe.proposal.parts(Source)
    ):
        return None, "the proposal has another model than the base, and may have other tokens"
    return recipe.max_tokens, ""


def compare_recipe(
    recipe: str,
    samplers: Sequence[str],
    rates: Sequence[float],
    *,
    draws: int | None = None,
    out: Path | None = None,
    allow_code: bool = False,
    seed: int | None = None,
    reporter: Reporter | None = None,
    **options: Any,
) -> tuple[Path, Comparison]:
    """Compare samplers on the draws of a recipe's run, and write the tables into its folder."""
    reporter = reporter or Quiet()
    check_names(samplers)
    if not samplers:
        raise InputError(f"no sampler is named: there are {', '.join(SAMPLERS)}.")
    folder, read = Path(recipe), None
    if out is None and is_file(folder / MANIFEST) and not is_file(folder / "recipe.yaml"):
        pool = Draws.load(folder)  # saved from Python
        check_seed(Store.open(folder), seed)
    else:
        order = prepare(recipe, out, draws=draws, seed=seed)
        folder, read = order.folder, located(order.recipe, order.recipe_dir)
        store = Store.open(folder) if is_file(folder / MANIFEST) else None
        if store is not None:
            refuse_changes(located(read_checked(folder, store), folder), read, folder)
        if store is None or store.missing(read.draws):
            with locked(folder):
                begun = begin(order, allow_code=allow_code, reporter=reporter)
                draw_all(begun, reporter=reporter)
        pool = Draws.load(folder)
    with locked(folder), reporter.stage("comparing") as report:
        found = compare(pool, samplers, rates, recipe=read, progress=report, **options)
        found.write(folder / "compare", folder.name)
    return folder, found
