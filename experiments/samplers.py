"""QRS beside IMH and random walks (`fig:qrs_vs_imh`, `tab:ext_female_science`, appendices F and G).

Every sampler but the walks replays the same draws, so a row costs what its rate says. A walk's name
has its thinning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import quasir as qr
from experiments import words
from experiments.constrained import tuned
from experiments.results import Place, Result, Row, main
from experiments.sampler_figure import plot_comparison
from experiments.walks import WALKS, compare_with_walks
from quasir.compare import Comparison, compare
from quasir.compare import Row as Measured
from quasir.core.progress import Lines
from quasir.estimation.estimate import Moment

SAMPLES, RUNS, BURN_IN = 1000, 10, 1000
"""As in the paper; less where the pool is too small."""
RATES = (1e-1, 1e-2, 1e-3)
WALK_STEPS = 10_000
"""Edits of each walk; the paper has up to a million."""
SAMPLERS = ("qrs", "imh", "imh-reset")
WORD = "amazing"
FEWEST = 10
"""Samples below which a row is left out."""
STATED = {
    ("qrs", 1e-1): "44.1 ± 1.1 %, 100 %",
    ("imh", 1e-1): "55.0 %, 58.0 %",
    ("imh-reset", 1e-1): "41.4 %, 100 %",
    ("rwmh", 1e-1): "37.5 %, 23.4 %",
    ("qrs", 1e-3): "49.3 ± 1.5 %, 100 %",
    ("imh", 1e-3): "51.5 %, 94.9 %",
}
"""The paper's shares of women, and of samples that are unique."""


def run(place: Place) -> Result:
    """Replay the pool through the samplers, and walk."""
    folder = tuned(place, "scientists")
    size = len(qr.store.Store.open(folder))
    burn_in = min(BURN_IN, size // 40)
    of_walks = min(burn_in, WALK_STEPS // RUNS // 4)
    options = {"n": SAMPLES, "reporter": Lines()}
    first, *others = [
        compare_with_walks(
            folder, SAMPLERS, [rate], runs=runs_of(size, rate, burn_in), burn_in=burn_in, **options
        )
        for rate in RATES
    ]
    found = replace(
        first,
        rows=first.rows + [row for one in others for row in one.rows[1:]],
        stretches=first.stretches + [part for one in others for part in one.stretches],
    )
    walks = compare_with_walks(
        folder,
        WALKS,
        RATES[:1],
        runs=RUNS,
        burn_in=of_walks,
        walk_steps=WALK_STEPS,
        editor=place.models.editor,
        **options,
    )
    on_word = of_a_word(place)
    rows = [*found.rows, *(row for row in walks.rows if row.sampler in WALKS)]
    kept = [row for row in rows if row.n >= FEWEST or row.sampler == "proposal"]
    return Result(
        title="QRS, IMH and random walks (`fig:qrs_vs_imh`, `tab:ext_female_science`)",
        verdict=f"{verdict(found, kept, burn_in, of_walks)} {said_of(on_word)}",
        rows=rows_of(kept),
        draws={folder.name: found.pool_size}
        | ({f"{WORD}-dpg": on_word.pool_size} if on_word else {}),
        numbers={f"{row.method} at {row.cost.rate:g}": row.to_dict() for row in kept}
        | {f'"{WORD}": {row.method}': row.to_dict() for row in (on_word.rows if on_word else [])},
        figure=plot_comparison(found),
    )


def of_a_word(place: Place) -> Comparison | None:
    """Replay the draws of DPG for a word, at the first rate; None if they are too few."""
    if not words.can_have(place.of_large, f"{WORD}-dpg"):
        return None
    folder = words.tuned(place.of_large, WORD)
    size = len(qr.store.Store.open(folder))
    burn_in = min(BURN_IN, size // 40)
    runs = runs_of(size, RATES[0], burn_in)
    found = compare(
        qr.Draws.load(folder), SAMPLERS, RATES[:1], n=SAMPLES, runs=runs, burn_in=burn_in
    )
    return found if found.stretches[0].n >= FEWEST else None


def said_of(found: Comparison | None) -> str:
    """Say how the samplers compare on one word."""
    if found is None:
        return f"`tab:ext_amazing` has the same on one word; it needs `--large {words.WORTH_IT}`."
    of = {row.sampler: row.cells for row in found.rows}
    unique = {name: f"{100 * of[name]['unique'].runs.mean:.0f} %" for name in SAMPLERS}
    part = found.stretches[0]
    return (
        f'On "{WORD}" (`tab:ext_amazing`; {part.runs} runs of {part.n} at {RATES[0]:g}), unique '
        f"are {unique['qrs']} of QRS, {unique['imh']} of IMH (62.9 % in the paper) and "
        f"{unique['imh-reset']} of IMH-reset; TVD of QRS: {of['qrs']['tvd'].text()} (0.17)."
    )


def runs_of(size: int, rate: float, burn_in: int) -> int:
    """Return the runs of a rate: at most the paper's, each with samples enough to be shown."""
    return int(min(RUNS, max(1, size // (burn_in + (FEWEST + 1) / rate))))


def rows_of(kept: Sequence[Measured]) -> list[Row]:
    """Return the rows beside the paper's."""
    rows = []
    for row in kept:
        paper = STATED.get((row.sampler, row.cost.rate))
        if paper is not None:
            women = row.cells[Moment("female")].text(100.0)
            unique = row.cells["unique"].text(100.0)
            runs = len(row.cells["unique"].values)
            what = f"{row.method} at {row.cost.rate:g}: women, unique ({runs} runs of {row.n})"
            rows.append((what, paper, f"{women} %, {unique} %"))
    return rows


def verdict(found: Comparison, kept: Sequence[Measured], burn_in: int, of_walks: int) -> str:
    """Say how the samplers compare with the paper's."""
    least = {
        name: min(
            (100 * row.cells["unique"].runs.mean for row in kept if row.sampler == name),
            default=float("nan"),
        )
        for name in (*SAMPLERS, *WALKS)
    }
    sizes = ", ".join(f"{s.runs} runs of {s.n} at {s.cost.rate:g}" for s in found.stretches)
    seen = "The pool is too small to compare QRS and IMH."
    if least["imh"] < least["qrs"] and least["imh-reset"] > 99:
        seen = (
            "Agrees: at equal cost IMH meets the constraints like QRS but repeats itself "
            f"({least['imh']:.0f} % unique at its worst, QRS {least['qrs']:.0f} %), IMH-reset does "
            f"not, and a random walk moves slowly ({least['rwmh']:.0f} % unique)."
        )
    return (
        f"{seen} Our walks begin "
        "where P > 0 and never leave it; the paper's begin anywhere, and many of their samples "
        "miss the constraint. Perplexity and Self-BLEU are in the numbers; they cannot be "
        "compared, because models and lengths differ and the paper's Self-BLEU is over characters. "
        f"Samples: {sizes}. Burn-in: {burn_in} for IMH, {of_walks} for walks, 1,000 in the paper. "
        f"Rows with fewer than {FEWEST} are left out."
    )


if __name__ == "__main__":
    main("samplers", run, __doc__)
