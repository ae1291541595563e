"""Random walks beside the samplers that replay stored draws (appendix G of the paper).

    python -m experiments.walks RUN --samplers qrs,rwmh,rwmh-reset --walk-steps 200000

is `quasir compare` with two more samplers, and with the figure. `rwmh` and `rwmh-reset` start at
stored draws, one for each chain, but then edit texts with a masked language model, so that every
step calls two models.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import quasir as qr
from experiments.sampler_figure import plot_comparison
from quasir.compare import Comparison, Row, compare
from quasir.compare.comparison import (
    METHODS,
    check_names,
    cut,
    draws_to_hold,
    measure,
    row_of,
    run_seed,
)
from quasir.compare.sampler_table import Cost, Stretches, samplers_markdown
from quasir.core.files import write_with
from quasir.core.items import TokenTexts, take
from quasir.core.progress import Lines, Quiet, Reporter
from quasir.core.types import Items, Proposal, optional_attribute
from quasir.errors import InputError
from quasir.metrics import perplexity
from quasir.recipes.building import located
from quasir.recipes.schema import Recipe
from quasir.runs.active_run import ActiveRun, begin, prepare
from quasir.samplers.rwmh import Editor
from quasir.store import Store, locked
from quasir.targets.product import Product

if TYPE_CHECKING:
    from quasir.text import MaskedLM

WALKS = ("rwmh", "rwmh-reset")
SPARE = 2
"""Editor's tokens for one token of the base, at most, where their tokens differ."""


@dataclass(frozen=True)
class Models:
    """What a walk calls; `max_tokens` are the editor's."""

    target: Product
    proposal: Proposal
    editor: Editor
    max_tokens: int


@dataclass(frozen=True)
class Walk:
    """A random walk: one chain for each run or, with `reset`, one for each sample.

    Chains start at the first draws with P(x) > 0 of the run's own stretch of the pool. Where
    tokenizers differ, a draw that the editor's tokens cannot express is skipped. All runs together
    have at most `walk_steps` steps, and then fewer samples, but at least one.
    """

    models: Models
    reset: bool
    walk_steps: int | None
    reporter: Reporter

    def need(self, n: int, cost: Cost, possible: float) -> int:
        """Return how many draws hold a start for each chain."""
        return draws_to_hold(n if self.reset else 1, possible)

    def title(self, cost: Cost) -> str:
        """Return the name in the table."""
        return f"RWMH{'-reset' * self.reset}-{cost.steps}"

    def samples(self, stretches: Stretches) -> int:
        """Return the samples of a run that the steps allow."""
        cost, n = stretches.cost, stretches.n
        if self.walk_steps is None:
            return n
        burn_in, each = (0, cost.chain) if self.reset else (cost.burn_in, cost.steps)
        return min(n, max(1, (self.walk_steps // stretches.runs - burn_in) // each))

    def row(self, sampler: str, pool: qr.Draws, stretches: Stretches, limit: int | None) -> Row:
        """Walk from the draws of every stretch, and measure each run's samples."""
        cost, runs, n = stretches.cost, stretches.runs, self.samples(stretches)
        target, proposal = self.models.target, self.models.proposal
        schedule: dict[str, Any] = (
            {"reset": cost.chain} if self.reset else {"burn_in": cost.burn_in, "thin": cost.steps}
        )
        most = self.models.max_tokens
        walk = qr.RWMH(
            target, proposal, self.models.editor, max_tokens=most, chains=runs, **schedule
        )
        parts = [replace(one, items=_texts(one.items, proposal)) for one in cut(pool, stretches)]
        indices = [_starts(walk, part, n if self.reset else 1) for part in parts]
        each = min(map(len, indices))
        if not each:
            raise InputError(
                f"{sampler} has no start: in some run, no text keeps P(x) > 0 when written as at "
                f"most {most} tokens of the editor. Name another --editor, or draw more."
            )
        n = each if self.reset else n
        starts = qr.Draws.concatenate(
            [part.take(at[:each]) for part, at in zip(parts, indices, strict=True)]
        )
        in_turn = np.arange(runs * each).reshape(runs, each).T.ravel()
        seed = run_seed(pool.seed, cost.steps, int(self.reset))
        with self.reporter.stage(f"walking, {self.title(cost)}") as report:
            chain = walk.sample_from(starts.take(in_turn), n * runs, seed, report)
        measured = []
        for run in range(runs):
            own = chain.take(np.arange(run, n * runs, runs))
            ppl = perplexity(own.items, target.base)
            proposals = int(indices[run][each - 1]) + 1 + chain.steps / runs
            measured.append((measure(own.items, own.features, proposals, ppl), chain.warnings))
        return row_of(sampler, self.title(cost), cost, n, measured)


def _starts(walk: qr.RWMH, stretch: qr.Draws, wanted: int) -> NDArray[np.intp]:
    """Return the indices of the first draws that a chain can start at."""
    possible = np.flatnonzero(stretch.log_p > -np.inf)
    found: list[int] = []
    while len(possible) and len(found) < wanted:
        indices, possible = np.split(possible, [min(wanted - len(found), len(possible))])
        _, log_p = walk.starts(take(stretch.items, indices))
        found += indices[log_p > -np.inf].tolist()
    return np.array(found, np.intp)


def _texts(items: Items, proposal: Any) -> Items:
    """Return stored texts with the tokenizer of their ids, or as plain strings."""
    if not isinstance(items, TokenTexts):
        return items
    while isinstance(proposal, qr.Mixture):
        proposal = proposal.components[0]
    tokenizer = optional_attribute(proposal, "tokenizer")
    if tokenizer is None:
        return items.strings
    return qr.text.Texts(items.ids, items.offsets, tokenizer)


def compare_with_walks(
    folder: Path,
    samplers: Sequence[str],
    rates: Sequence[float],
    *,
    editor: str | None = None,
    walk_steps: int | None = None,
    reporter: Reporter | None = None,
    **options: Any,
) -> Comparison:
    """Compare samplers on a run's stored draws, and write the tables and the figure into it.

    `editor` is the walks' masked model. The options are those of `compare`.
    """
    reporter = reporter or Quiet()
    size = len(Store.open(folder))
    order = prepare(str(folder), folder, draws=size)
    masked = _editor(samplers, editor, order.recipe)
    with locked(folder):
        methods, recipe = dict(METHODS), located(order.recipe, order.recipe_dir)
        if masked is not None:
            begun = begin(order, reporter=reporter)
            models, recipe = _models(begun, masked, reporter), begun.recipe
            methods |= {
                name: Walk(models, name == "rwmh-reset", walk_steps, reporter) for name in WALKS
            }
        with reporter.stage("comparing") as report:
            found = compare(
                qr.Draws.load(folder),
                samplers,
                rates,
                recipe=recipe,
                methods=methods,
                progress=report,
                **options,
            )
        found.write(folder / "compare", folder.name)
        figure = plot_comparison(found)
        write_with(
            folder / "compare" / "samplers.png",
            lambda path: figure.savefig(path, dpi=160, format="png"),
        )
    return found


def _editor(names: Sequence[str], editor: str | None, recipe: Recipe) -> MaskedLM | None:
    """Load the editor of the random walks, or say what is missing."""
    check_names(names, [*METHODS, *WALKS])
    walks = " and ".join(name for name in names if name in WALKS)
    if not walks:
        return None
    if recipe.base.model is None:
        raise InputError(
            f"{walks} edit the texts of a language model, but the base of this run is none: leave "
            "them out of --samplers."
        )
    from quasir.text.loading import BUILT_IN

    name = editor or f"{recipe.base.model}-masked"
    if editor is None and name not in BUILT_IN:
        raise InputError(
            f"{walks} edit texts with a masked language model, and none is named: give --editor "
            "NAME, a folder or a hub id such as bert-base-cased, or leave them out of --samplers."
        )
    return qr.text.MaskedLM(name)


def _models(run: ActiveRun, masked: MaskedLM, reporter: Reporter) -> Models:
    limit = run.recipe.max_tokens
    try:
        editor = qr.text.MaskedLM(
            model=masked.model, tokenizer=masked.tokenizer, base=run.pair[0].base
        )
        editor.name = masked.name
    except InputError:
        editor = masked
        reporter.say(
            f"! {masked.name} has other tokens than the base: its chains are over its own tokens, "
            "and the target scores their text"
        )
        # The base has its own limit; the editor's must not cut a text that the base can give.
        limit = min(SPARE * limit, masked.max_tokens or SPARE * limit)
    return Models(run.pair[0], run.pair[1], editor, limit)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare from the command line, as `quasir compare` does."""
    parser = argparse.ArgumentParser(prog="python -m experiments.walks", description=__doc__)
    parser.add_argument("run", type=Path, help="folder of a run with its draws")
    parser.add_argument("--samplers", default="qrs,imh,imh-reset,rwmh,rwmh-reset")
    parser.add_argument("--rates", default="1e-1,1e-3")
    parser.add_argument("-n", type=int, default=1000, help="samples of a run")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--burn-in", type=int, default=1000)
    parser.add_argument("--editor", help="masked model: built in, a folder, or a hub id")
    parser.add_argument("--walk-steps", type=int, help="edits of each walk at a rate, at most")
    given = vars(parser.parse_args(arguments))
    folder = given.pop("run")
    samplers, rates = given.pop("samplers").split(","), given.pop("rates").split(",")
    found = compare_with_walks(
        folder, samplers, [float(rate) for rate in rates], reporter=Lines(), **given
    )
    print(samplers_markdown(found, folder.name), end="")


if __name__ == "__main__":
    main()
