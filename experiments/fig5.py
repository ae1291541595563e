"""Fig. 5: paraphrases of three questions, held out from all training.

P(x) = a(x) [similarity(x, y) > t] with a language model of questions a. The proposal is a
paraphraser with top-30, mixed with the whole paraphraser and with a (recipe `paraphrase`). Beside
it stands top-30 alone, whose support lacks texts, and with `--round-trip THERE BACK` the paper's
proposal: a round trip through two translation models. (Through the paraphraser it would be no other
proposal: the best rewriting that a beam search finds is the question itself, for two of three.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import yaml
from matplotlib.figure import Figure

import quasir as qr
from experiments.controlled import RATES, Pool
from experiments.plots import LOWEST, draw_tvd, levels, new_figure, rates_axis
from experiments.results import Place, Result, Row, cell, main
from quasir.certificates.figures import COLOURS
from quasir.recipes import BUILT_IN

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
PART, OF_OTHERS = 4, 16
"""Each pool of the mixture has a quarter of the draws of a pool, each of the others a sixteenth."""
MODEL, TOP = "quasir/paraphraser", 30
MIXTURE, TOP_K, ROUND_TRIP = "mixture", f"top-{TOP}", "round trip"
SCORED, EMBEDDED = 100_000, 50_000
"""Draws whose probability under top-k is computed, and draws whose similarity is."""


def run(place: Place, round_trip: Sequence[str] | None = None) -> Result:
    """Draw paraphrases of each question from each proposal, and look at the threshold."""
    asked = [pools_of(place, i, round_trip) for i in range(len(QUESTIONS))]
    pools = [by_name[MIXTURE] for by_name in asked]
    cut = [out_of_support(pool, question) for pool, question in zip(pools, QUESTIONS, strict=True)]
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
        draws={p.folder.name: len(p.draws) for by_name in asked for p in by_name.values()},
        verdict=(
            "As in the paper, the questions differ: in how many draws of the proposal are "
            "paraphrases at all, which is where each curve begins, and in its slope. The numbers "
            "are of other models, questions, thresholds and proposals (ours is a small paraphraser "
            "in a mixture, the paper's translates there and back), and cannot be compared. "
            + said_of_support(cut)
        ),
        figure=figure(asked),
        tables={
            "Proposals beside each other": proposals_table(asked, cut),
            "Proposals and samples": samples_table(pools),
            f"What the threshold does, on at most {EMBEDDED:,} draws a question": threshold_table(
                pools
            ),
        },
        bounds=[
            row
            for pool, question in zip(pools, QUESTIONS, strict=True)
            for row in pool.bounds(RATES[1:], question)
        ],
    )


def lowest_rate(pool: Pool) -> float | None:
    """Return the lowest rate of the paper at which ten samples are left, or None."""
    for rate in (1e-5, 1e-4, 1e-3, 1e-2):
        if rate * len(pool.draws) >= 10 and rate <= pool.curve.n_possible / pool.curve.n:
            return rate
    return pool.curve.n_possible / pool.curve.n / 2 if pool.curve.n_possible else None


def recipes(round_trip: Sequence[str] | None) -> dict[str, dict[str, Any]]:
    """Return the recipe of each proposal: the mixture, top-k alone, and a round trip if given."""
    mixture = yaml.safe_load(BUILT_IN["paraphrase"].read_text(encoding="utf-8"))
    proposals: dict[str, Any] = {
        MIXTURE: mixture["proposal"],
        TOP_K: {"model": MODEL, "source": "{context}", "top_k": TOP},
    }
    if round_trip is not None:
        there, back = round_trip
        models = {"there": there, "back": back, "text": "{context}"}
        proposals[ROUND_TRIP] = {"round_trip": models | {"top_k": TOP}}
    return {name: mixture | {"proposal": proposal} for name, proposal in proposals.items()}


def pools_of(place: Place, i: int, round_trip: Sequence[str] | None) -> dict[str, Pool]:
    """Return the pools of a question, by their proposal."""
    pools = {}
    for name, recipe in recipes(round_trip).items():
        main_one = name == MIXTURE
        folder = f"paraphrase-{i}" if main_one else f"paraphrase-{i}-{name.replace(' ', '-')}"
        draws = max(1, place.draws // (PART if main_one else OF_OTHERS))
        pools[name] = Pool(place.pool(folder, recipe, draws, context=QUESTIONS[i]))
    return pools


def figure(asked: list[dict[str, Pool]]) -> Figure:
    """Draw TVD against the acceptance rate, one panel a question, as in the paper."""
    made, (axes,) = new_figure(len(asked), width=3.4)
    for panel, by_name, question in zip(axes, asked, QUESTIONS, strict=True):
        for (name, pool), colour in zip(by_name.items(), COLOURS, strict=False):
            if pool.curve.n_possible:
                band = name == MIXTURE  # one band a panel: more of them hide each other
                draw_tvd(panel, pool.curve, name, colour, points=False, band=band)
        rates_axis(panel, "TVD(p, p_β)", LOWEST)
        panel.set_ylim(-0.04, 1.04)
        panel.set_title(question, fontsize="small")
    axes[-1].legend(frameon=False, fontsize="small")
    return made


def out_of_support(pool: Pool, question: str) -> qr.Estimate:
    """Return the mass of p on texts that top-k cannot draw, from draws of the mixture."""
    draws = pool.draws
    at = np.flatnonzero(draws.log_p > -np.inf)[:SCORED]
    if not len(at):
        return qr.Estimate(np.nan, np.nan, 0.0, 1.0)
    recipe = qr.open_run(pool.folder).recipe
    paraphraser = qr.text.Seq2SeqLM(MODEL, question, top_k=TOP, max_tokens=recipe.max_tokens)
    some = draws.take(at)
    cut = paraphraser.log_prob(some.items) == -np.inf
    kept = qr.Draws.from_arrays(log_p=some.log_p, log_q=some.log_q, features={"cut": cut})
    return qr.tradeoff(kept).at(log_beta=float(kept.log_ratio.max()) + 1.0).moments["cut"]


def said_of_support(cut: list[qr.Estimate]) -> str:
    """Say what top-k cuts, which no draw of its own can show."""
    known = [100 * float(one.value) for one in cut if np.isfinite(one.value)]
    if not known:
        return "Too few draws have P > 0 to say what top-k cuts."
    return (
        f"Texts that top-{TOP} cannot draw have {min(known):.2g} to {max(known):.2g} % of p: its "
        "TVD is at least that, though its own draws show a curve that goes to 0."
    )


def proposals_table(asked: list[dict[str, Pool]], cut: list[qr.Estimate]) -> str:
    """Return what each proposal gives for each question, in Markdown."""
    lines = [
        "| question | proposal | draws | share with P > 0 | TVD by its draws | p out of reach |",
        "|---|---|---|---|---|---|",
    ]
    for by_name, question, lost in zip(asked, QUESTIONS, cut, strict=True):
        for name, pool in by_name.items():
            rate = lowest_rate(pool)
            cert = pool.at(rate) if rate else None
            tvd = "unknown" if cert is None else f"{cell(cert.tvd)} at AR {rate:.2g}"
            out = {MIXTURE: "none", TOP_K: cell(lost)}.get(name, "not measured")
            share = pool.curve.n_possible / pool.curve.n
            lines.append(
                f"| {question if name == MIXTURE else ''} | {name} | {len(pool.draws):,} "
                f"| {share:.3g} | {tvd} | {out} |"
            )
    return "\n".join(lines)


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
    """Return the share of draws above each threshold, and TVD(p, q_proj), from some draws."""
    lines = [
        "| question | threshold | share above | TVD(p, q_proj) | ESS |",
        "|---|---|---|---|---|",
    ]
    for pool, question in zip(pools, QUESTIONS, strict=True):
        near = qr.open_run(pool.folder).recipe.features["same meaning"].similarity
        assert near is not None
        assert near.above is not None
        assert near.model is not None
        some = pool.draws.take(np.arange(min(len(pool.draws), EMBEDDED)))
        possible = np.flatnonzero(some.log_p > -np.inf)
        cosine = np.full(len(some), -1.0)
        cosine[possible] = qr.features.similarity(question, embed=near.model)(
            some.take(possible).items
        )
        for step in THRESHOLDS:
            above = near.above + step
            log_p = np.where(cosine > above, some.log_base, -np.inf)
            draws = qr.Draws.from_arrays(log_p=log_p, log_q=some.log_q)
            curve = qr.tradeoff(draws, log_betas=levels(draws))
            share = curve.n_possible / curve.n
            tvd = cell(curve.projection.tvd) if curve.n_possible else "unknown"
            lines.append(f"| {question} | {above:.2f} | {share:.3g} | {tvd} | {curve.ess:.3g} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main(
        "fig5",
        run,
        __doc__,
        {
            "--round-trip": {
                "nargs": 2,
                "metavar": ("THERE", "BACK"),
                "help": "two translation models",
            }
        },
    )
