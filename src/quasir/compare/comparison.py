"""Samplers at equal cost on stored draws (appendices F and G of the paper).

At one rate all samplers are given the same stretches of the pool, one for each run, and each pays
about ``steps`` proposals for a sample, the inverse of the acceptance rate.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from quasir import recipes
from quasir.certificates.curve import tradeoff
from quasir.compare.sampler_table import (
    Comparison,
    Cost,
    Counter,
    Kept,
    Row,
    Stretches,
    measure_kept,
    token_counter,
    write_comparison,
)
from quasir.core.arguments import as_rate, check_count
from quasir.core.files import is_file
from quasir.core.progress import Progress, Quiet, Reporter, progress_of
from quasir.core.streams import Purpose, derived_seed
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.recipes.building import located
from quasir.recipes.schema import Recipe
from quasir.runs.integrity import check_seed, read_checked, refuse_changes
from quasir.runs.pipeline import begin, draw_all, folder_of, prepare
from quasir.samplers import IMH, SIR, IncrementalQRS
from quasir.samplers.schedule import Schedule
from quasir.store import MANIFEST, Store, locked

FEWEST = 10  # samples of a run: rather than fewer samples, there are fewer runs,
FEWEST_RUNS = 5  # but rather than fewer runs than this, there are fewer samples


class _Replayed:
    """Stands for P and q where draws are replayed: neither is called."""

    def log_score(self, items: Any) -> NoReturn:
        raise AssertionError("stored draws have been scored and drawn")

    log_prob = sample = log_score


STORED: Any = _Replayed()


class Method:
    """A sampler in the comparison; `possible` is the share of draws with P(x) > 0."""

    name: str  # in the table

    def need(self, n: int, cost: Cost, possible: float) -> int:
        """Return how many draws give n samples, with room for chance."""
        raise NotImplementedError

    def most(self, stretch: Draws, cost: Cost) -> int:
        """Return how many samples a stretch gives."""
        raise NotImplementedError

    def keep(self, stretch: Draws, n: int, cost: Cost, seed: int) -> Kept:
        """Return which draws of a stretch are the sampler's n samples."""
        raise NotImplementedError

    def title(self, cost: Cost) -> str:
        """Return the name in the table; a chain's is followed by its steps."""
        return self.name

    def row(self, sampler: str, pool: Draws, stretches: Stretches, count: Counter | None) -> Row:
        """Run the sampler on every stretch, and return what was measured."""
        cost, n, measured = stretches.cost, stretches.n, []
        for run, stretch in enumerate(stretches.cut(pool)):
            # The streams 0 and 1 belong to samplers that take more than stored draws.
            kept = self.keep(stretch, n, cost, run_seed(pool.seed, cost.steps, 2 + run))
            measured.append(measure_kept(stretch, kept, count))
        return Row.of(sampler, self.title(cost), cost, n, measured)


class _Proposal(Method):
    name = "proposal"

    def keep(self, stretch: Draws, n: int, cost: Cost, seed: int) -> Kept:
        certificate = tradeoff(stretch, log_betas=[0.0]).proposal
        return Kept(np.arange(n), n, certificate, tuple(certificate.warnings))


class _QRS(Method):
    """Keeps the n largest alphas of the first n*steps draws (Algorithm 2); beta is the next one."""

    name = "QRS"

    def need(self, n: int, cost: Cost, possible: float) -> int:
        return max(n * cost.steps, draws_to_hold(n, possible))

    def most(self, stretch: Draws, cost: Cost) -> int:
        return min(len(stretch) // cost.steps, count_possible(stretch))

    def keep(self, stretch: Draws, n: int, cost: Cost, seed: int) -> Kept:
        samples = IncrementalQRS(STORED, STORED, cost.rate).replay(_numbered(stretch), n)
        if samples.log_beta == -math.inf:
            certificate = tradeoff(stretch, log_betas=[0.0]).projection
            warnings = (*samples.warnings, *certificate.warnings)
        else:
            level = samples.log_beta
            certificate = tradeoff(stretch, log_betas=[level]).at(log_beta=level)
            warnings = tuple(certificate.warnings)
        return Kept(np.asarray(samples.items), samples.proposals, certificate, warnings)


class _IMH(Method):
    """Keeps one state in `steps` of one chain, after a burn-in."""

    name = "IMH"

    def need(self, n: int, cost: Cost, possible: float) -> int:
        return draws_to_hold(1, possible) + cost.burn_in + n * cost.steps

    def schedule(self, cost: Cost) -> Schedule:
        return Schedule(cost.burn_in, cost.steps)

    def most(self, stretch: Draws, cost: Cost) -> int:
        return len(self.schedule(cost).cut(stretch.log_p > -np.inf, 0)[1])

    def keep(self, stretch: Draws, n: int, cost: Cost, seed: int) -> Kept:
        chain = IMH(STORED, STORED, **self.schedule(cost).options).replay(_numbered(stretch), n)
        return Kept(np.asarray(chain.items), chain.proposals, None, chain.warnings)

    def title(self, cost: Cost) -> str:
        return f"{self.name}-{cost.steps}"


class _ResetIMH(_IMH):
    """Runs a chain of `steps` states for each sample, its wait for a start included."""

    name = "IMH-reset"

    def need(self, n: int, cost: Cost, possible: float) -> int:
        return n * (cost.chain - 1) + draws_to_hold(n, possible)

    def schedule(self, cost: Cost) -> Schedule:
        return Schedule(reset=cost.chain)


class _SIR(Method):
    """Draws n of the first n*steps draws by their weights."""

    name = "SIR"

    def need(self, n: int, cost: Cost, possible: float) -> int:
        return max(n * cost.steps, draws_to_hold(1, possible))

    def most(self, stretch: Draws, cost: Cost) -> int:
        return len(stretch) // cost.steps if count_possible(stretch) else 0

    def keep(self, stretch: Draws, n: int, cost: Cost, seed: int) -> Kept:
        # Where none of these has P(x) > 0, take all draws up to the first that has.
        first = int(np.argmax(stretch.log_p > -np.inf)) + 1
        candidates = _numbered(stretch).take(np.arange(max(n * cost.steps, first)))
        samples = SIR(STORED, STORED, len(candidates)).replay(candidates, n, seed)
        return Kept(np.asarray(samples.items), samples.proposals, None, samples.warnings)


METHODS: Mapping[str, Method] = {
    "qrs": _QRS(),
    "imh": _IMH(),
    "imh-reset": _ResetIMH(),
    "sir": _SIR(),
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
    methods: Mapping[str, Method] = METHODS,
    progress: Progress = False,
) -> Comparison:
    """Run samplers over disjoint stretches of stored draws, and measure what they keep.

    Parameters
    ----------
    pool : Draws
    samplers : sequence of str
        Of `SAMPLERS`; the proposal itself is always a row.
    rates : sequence of float
        Samples per proposal; rounded to 1/k for whole k, since a chain keeps one state in k.
    n, runs : int
        Samples of each run, and runs; fewer where the pool is too small.
    burn_in : int
        Proposals before the first sample of a chain that is not reset.
    recipe : Recipe, optional
        Says which means are wanted, and how to count tokens for the perplexity.
    methods : mapping, optional
        The samplers that can be named.
    progress : bool or callable

    Examples
    --------
    >>> from scipy import stats
    >>> import quasir as qr
    >>> target, proposal = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
    >>> pool = qr.draw(target, proposal, 30_000, seed=0)
    >>> found = compare(pool, ["qrs", "imh-reset"], [0.1], n=200, runs=10)
    >>> for row in found.rows:
    ...     print(row.method, row.n, row.runs, row.cells["draws_per_sample"], row.cells["tvd"])
    proposal 200 10 1 ± 0 0.124 ± 0.0012
    QRS 200 10 10 ± 0 ≤ 0.0067
    IMH-reset-10 200 10 10 ± 0 unknown
    """
    check_count("n", n)
    check_count("runs", runs)
    check_count("burn_in", burn_in, least=0)
    names = list(dict.fromkeys(samplers))
    check_names(names, methods)
    costs = _costs(rates, burn_in, pool)
    every = stretches_for(pool, costs, [methods[name] for name in names], n=n, runs=runs)
    count, no_ppl = token_counter(recipe, pool.items)
    report = progress_of(progress, "samples measured")
    total, done, rows = sum(one.n * one.runs for one in every) * len(names), 0, []
    if size := every[0].n or min(n, every[0].length):
        first = replace(every[0], cost=Cost(1, 0), n=size)
        rows.append(_Proposal().row("proposal", pool, first, count))
    for one in every:
        for name in names if one.n else ():
            rows.append(methods[name].row(name, pool, one, count))
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
    """Refuse a sampler that is not known."""
    for name in names:
        if name not in known:
            raise InputError(f"no sampler is called {name!r}: there are {', '.join(known)}.")


def _costs(rates: Sequence[float], burn_in: int, pool: Draws) -> list[Cost]:
    possible = count_possible(pool) / len(pool)
    wait = round(1 / (possible or 1.0)) - 1
    costs = list(dict.fromkeys(Cost(round(1 / as_rate(rate)), burn_in, wait) for rate in rates))
    if not costs:
        raise InputError("there are no rates to compare at: give at least one, such as 0.1.")
    if not possible:
        raise InputError(
            f"none of the {len(pool):,} draws had P(x) > 0, so no sampler can keep a sample: "
            "use a proposal that reaches the target's support, or draw more."
        )
    return costs


def stretches_for(
    pool: Draws, costs: Sequence[Cost], methods: Sequence[Method], *, n: int, runs: int
) -> list[Stretches]:
    """Cut a pool into stretches for each rate; those of one rate do not overlap.

    Each rate uses the whole pool. Where it is too small for n samples in each of `runs` runs, runs
    are lowered first, to `FEWEST_RUNS`; then n, to `FEWEST`; then runs again; then n.
    """
    pool = replace(pool, items=None, features={}, log_base=None)
    possible, every = count_possible(pool) / len(pool), []
    for cost in costs:
        need = max([n, *(method.need(n, cost, possible) for method in methods)])
        most = max(min(runs, len(pool) // need), min(runs, FEWEST_RUNS))
        for tried in range(most, 0, -1):
            length = min(need, len(pool) // tried)
            found = Stretches(cost=cost, length=length, runs=tried, n=0, wanted=runs * need)
            parts = found.cut(pool)
            size = min([n, length, *(m.most(part, cost) for m in methods for part in parts)])
            if size >= min(n, FEWEST):
                break
        every.append(replace(found, n=size))
    return every


def draws_to_hold(n: int, possible: float) -> int:
    """Return how many draws hold n with P(x) > 0, six standard deviations on the safe side.

    With s the share of draws with P(x) > 0, N draws hold N s of them on average, with a standard
    deviation of at most sqrt(N s). N s - 6 sqrt(N s) = n has the solution
    N s = (3 + sqrt(9 + n))^2.
    """
    return n if possible == 1 else math.ceil((3 + math.sqrt(9 + n)) ** 2 / possible)


def count_possible(stretch: Draws) -> int:
    """Return how many draws have P(x) > 0."""
    return int((stretch.log_p > -np.inf).sum())


def run_seed(seed: int, steps: int, run: int) -> int:
    """Return the seed of a run's own random choices at a rate; the stored draws have theirs."""
    return derived_seed(seed, Purpose.COMPARE, steps, run)


def _numbered(stretch: Draws) -> Draws:
    """Return draws whose items are their indices, so that no texts are copied."""
    return replace(stretch, items=np.arange(len(stretch)), features={}, log_base=None)


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
) -> tuple[Path, Comparison, dict[str, Path]]:
    """Compare samplers on the draws of a recipe's run; return its folder and the files written.

    `recipe` is a built-in recipe's name, a YAML file, a run's folder, or a folder of saved draws.
    No model is loaded where the draws are there. The options are those of `compare`.
    """
    reporter = reporter or Quiet()
    check_names(samplers)
    if not samplers:
        raise InputError(f"no sampler is named: there are {', '.join(SAMPLERS)}.")
    saved = Path(recipe)  # it may hold draws saved from Python, without a recipe
    folder = saved if out is None and _is_run(saved) else folder_of(recipe, out)
    read = _recipe(recipe, folder, draws, seed)
    with locked(folder):
        store = Store.open(folder) if _is_run(folder) else None
        if store is None or (read is not None and store.missing(read.draws)):
            order = prepare(recipe, folder, draws=draws, seed=seed)
            begun = begin(order, allow_code=allow_code, reporter=reporter)
            draw_all(begun, reporter=reporter)
            store, read = begun.store, begun.recipe
        pool = Draws.load(store)
        with reporter.stage("comparing") as report:
            found = compare(pool, samplers, rates, recipe=read, progress=report, **options)
        return folder, found, write_comparison(folder / "compare", folder.name, found)


def _is_run(folder: Path) -> bool:
    return is_file(folder / MANIFEST)


def _recipe(recipe: str, folder: Path, draws: int | None, seed: int | None) -> Recipe | None:
    """Return the recipe, or None for draws saved from Python; refuse a run of another recipe."""
    if _is_run(folder) and not (folder / "recipe.yaml").is_file() and Path(recipe).is_dir():
        check_seed(Store.open(folder), seed)
        return None
    source = recipes.find(recipe)
    read = located(recipes.read(source, draws=draws, seed=seed), source.parent)
    if _is_run(folder):
        before = located(read_checked(folder, Store.open(folder)), folder)
        refuse_changes(before, read, folder)
        read = read.model_copy(update={"fitted": before.fitted})
    return read
