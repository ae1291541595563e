"""Fig. 5: paraphrases of three questions, held out from all training.

P(x) = a(x) [similarity(x, y) > t] with a language model of questions a; the proposal is a
paraphraser with top-30, mixed with the whole paraphraser and with a (recipe `paraphrase`). The
paper translates there and back; `round_trip` of a recipe does so where two translation models are
given.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

import quasir as qr
from experiments.controlled import Pool
from experiments.plots import LOWEST, draw_tvd, levels, new_figure, rates_axis
from experiments.results import Place, Result, Row, cell, main
from quasir.certificates.figures import COLOURS

QUESTIONS = (
    "Has anyone ever seen a ghost in real life?",
    "How can I meet Narendra Modi?",
    "Which is the best phone under 15000 Rs.?",
)
STATED = ("0.20", "0.42", "near 0")
"""The paper's TVDs at an acceptance rate of 1e-5."""
THRESHOLDS = (0.0, 0.01, 0.02, 0.04)
"""Added to the recipe's threshold: below it P(x) = 0, and log q was not found."""
SHOWN = 3
PART = 4
"""Each of the three pools has a quarter of the draws of a pool."""
HEAD = "| question | threshold | share above | TVD(p, q_proj) | ESS |"


def run(place: Place) -> Result:
    """Draw paraphrases of each question, and look at the threshold."""
    draws = max(1, place.draws // PART)
    pools = [
        Pool(place.pool(f"paraphrase-{i}", "paraphrase", draws, context=question))
        for i, question in enumerate(QUESTIONS)
    ]
    rows: list[Row] = []
    for number, (pool, question) in enumerate(zip(pools, QUESTIONS, strict=True), start=1):
        curve = pool.curve
        share = curve.n_possible / curve.n
        rows.append((f"{number}: share of draws with P > 0", "figure only", f"{share:.3g}"))
        rate = lowest_rate(pool)
        cert = pool.at(rate) if rate else None
        ours = (
            "unknown: no draw has P > 0" if cert is None else f"{cell(cert.tvd)} at AR {rate:.2g}"
        )
        rows.append((f"{number}: TVD, {question}", f"{STATED[number - 1]} at AR 1e-5", ours))
    return Result(
        title="Fig. 5: paraphrases",
        rows=rows,
        draws={pool.folder.name: len(pool.draws) for pool in pools},
        verdict=(
            "As in the paper, the questions differ: in how many draws of the proposal are "
            "paraphrases at all, which is where each curve begins, and in its slope. The numbers "
            "are of other models, questions, thresholds and proposals (ours is a small paraphraser "
            "in a mixture, the paper's translates there and back), and cannot be compared."
        ),
        figure=figure(pools),
        tables={
            "Proposals and samples": samples_table(pools),
            "What the threshold does": threshold_table(pools),
        },
    )


def lowest_rate(pool: Pool) -> float | None:
    """Return the lowest rate of the paper at which ten samples are left, or None."""
    for rate in (1e-5, 1e-4, 1e-3, 1e-2):
        if rate * len(pool.draws) >= 10 and rate <= pool.curve.n_possible / pool.curve.n:
            return rate
    return pool.curve.n_possible / pool.curve.n / 2 if pool.curve.n_possible else None


def figure(pools: list[Pool]) -> Figure:
    """Draw TVD against the acceptance rate, one panel a question, as in the paper."""
    made, (axes,) = new_figure(len(pools), width=3.4)
    for panel, pool, question in zip(axes, pools, QUESTIONS, strict=True):
        if pool.curve.n_possible:
            draw_tvd(panel, pool.curve, "p_β", COLOURS[0], points=False)
        rates_axis(panel, "TVD(p, p_β)", LOWEST)
        panel.set_ylim(-0.04, 1.04)
        panel.set_title(question, fontsize="small")
    return made


def samples_table(pools: list[Pool]) -> str:
    """Return draws of the proposal beside samples, unselected."""
    lines = ["| question | proposal | QRS samples |", "|---|---|---|"]
    for pool, question in zip(pools, QUESTIONS, strict=True):
        best = np.argsort(-pool.draws.log_alpha)[:SHOWN]
        for i in range(SHOWN):
            possible = i < len(best) and pool.draws.log_p[best[i]] > -np.inf
            kept = pool.draws.items[int(best[i])].text if possible else "-"
            first = question if i == 0 else ""
            lines.append(f"| {first} | {safe(pool.draws.items[i].text)} | {safe(kept)} |")
    return "\n".join(lines)


def safe(text: str) -> str:
    """Return a text on one line of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def threshold_table(pools: list[Pool]) -> str:
    """Return the share of draws above each threshold, and TVD(p, q_proj), from the same draws."""
    lines = [
        "| question | threshold | share above | TVD(p, q_proj) | ESS |",
        "|---|---|---|---|---|",
    ]
    for pool, question in zip(pools, QUESTIONS, strict=True):
        near = qr.open_run(pool.folder).recipe.features["same meaning"].similarity
        assert near is not None
        assert near.above is not None
        assert near.model is not None
        cosine = qr.features.similarity(question, embed=near.model)(pool.draws.items)
        for step in THRESHOLDS:
            above = near.above + step
            log_p = np.where(cosine > above, pool.draws.log_base, -np.inf)
            draws = qr.Draws.from_arrays(log_p=log_p, log_q=pool.draws.log_q)
            curve = qr.tradeoff(draws, log_betas=levels(draws))
            share = curve.n_possible / curve.n
            tvd = cell(curve.projection.tvd) if curve.n_possible else "unknown"
            lines.append(f"| {question} | {above:.2f} | {share:.3g} | {tvd} | {curve.ess:.3g} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main("fig5", run, __doc__)
