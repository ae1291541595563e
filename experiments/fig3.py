"""Fig. 3: a rare word in every text, from eight proposals.

These are the plain model, the model after five prompts, the model tuned by DPG, and a guide.

The paper's word is "Wikileaks", in about 1e-4 of GPT-2's texts; ours is as rare in the texts of
`quasir/general`. The guide is not in the paper.
"""

from __future__ import annotations

import math

from matplotlib.figure import Figure
from scipy import stats

from experiments.controlled import Pool
from experiments.plots import draw_tvd, mark_projection, new_figure, rates_axis
from experiments.results import Place, Result, Row, cell, main
from experiments.words import guided, plain, prompted, tuned
from quasir.certificates.figures import COLOURS

WORD = "pirate"
PROMPTS = {
    "simple": "Pirate.",
    "multiple": "Pirate, pirate, pirate.",
    "knowledge": "Here is what I know about the pirate:",
    "jeopardy": "This robber sails the seas and hides his gold on islands.",
    "news": "Here is the latest film about a pirate:",
}
"""The paper's five kinds of prompts."""
AT = (1e-2, 1e-3, 1e-4)
PART = 4
"""Eight pools have a quarter of the draws of a pool each."""
GREY = "#777777"
TUNED = "DPG, half base"
ENOUGH = 10
"""Draws with the word, below which a proposal is not judged."""


def run(place: Place) -> Result:
    """Draw from every proposal, and compare."""
    draws = max(1, place.draws // PART)
    pools = {"plain": Pool(plain(place, WORD, draws))}
    for name, prompt in PROMPTS.items():
        pools[name] = Pool(prompted(place, WORD, name, prompt, draws))
    pools["guide"] = Pool(guided(place, WORD, draws))
    pools[TUNED] = Pool(tuned(place, WORD, draws))
    z, se = frequency(pools)
    rows: list[Row] = [("texts of a with the word", "about 1e-4", f"{z:.2e} ± {se:.0e}")]
    for name, pool in pools.items():
        share = pool.curve.n_possible / pool.curve.n
        rows.append((f"{name}: share of draws with the word", "figure only", f"{share:.3g}"))
        if pool.curve.n_possible:
            rows.append((f"{name}: TVD(p, q)", "figure only", cell(pool.curve.proposal.tvd)))
        for rate in AT:
            cert = pool.at(rate) if share >= rate else None
            ours = "out of reach" if cert is None else cell(cert.tvd)
            rows.append((f"{name}: TVD at AR {rate:g}", "figure only", ours))
    return Result(
        title=f"Fig. 3: a rare word, from eight proposals (ours: {WORD!r})",
        rows=rows,
        draws={pool.folder.name: len(pool.draws) for pool in pools.values()},
        verdict=verdict(pools),
        figure=figure(pools),
        bounds=[row for name in ("guide", TUNED) for row in pools[name].bounds(AT, name)],
    )


def verdict(pools: dict[str, Pool]) -> str:
    """Say which proposals help, as far as the draws show it."""
    hits = {name: pool.curve.n_possible for name, pool in pools.items()}
    share = {name: hits[name] / pool.curve.n for name, pool in pools.items()}
    best = max(PROMPTS, key=lambda name: share[name])
    said = [
        "The plain model is exact, as in the paper, and accepts about 1 draw in "
        f"{1 / frequency(pools)[0]:,.0f}."
    ]
    if hits[best] < ENOUGH:
        together = sum(hits[name] for name in PROMPTS)
        expected = frequency(pools)[0] * sum(pools[name].curve.n for name in PROMPTS)
        low, high = (end / expected for end in count_interval(together))
        said.append(
            f"The five prompts together have the word in {together} draws, "
            f"{together / expected:.1f} times as often as the plain model (95 %: {low:.1f} to "
            f"{high:.1f} times). The paper's prompts help GPT-2 clearly; our model is small, and "
            "its prompts are short."
        )
    else:
        said.append(f"The best prompt is {best!r}: {share[best]:.2g} of its draws have the word.")
    if hits[TUNED] < ENOUGH:
        said.append(
            f"Only {hits[TUNED]} draws of the tuned model have it: it was tuned too briefly, and "
            "is no better yet. In the paper it is the best proposal."
        )
    else:
        said.append(f"The tuned model has it in {share[TUNED]:.2g} of its draws.")
    said.append(
        "A boost of the word, fitted on a pilot and not in the paper, brings it into "
        f"{share['guide']:.2g} of the draws without any tuning."
    )
    return " ".join(said)


def count_interval(count: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact interval (Garwood) of the mean of a Poisson count.

    Examples
    --------
    >>> [round(end, 2) for end in count_interval(10)]
    [4.8, 18.39]
    """
    tail = (1 - level) / 2
    low = stats.chi2.ppf(tail, 2 * count) / 2 if count else 0.0
    return float(low), float(stats.chi2.isf(tail, 2 * count + 2) / 2)


def frequency(pools: dict[str, Pool]) -> tuple[float, float]:
    """Return how often the plain model has the word, and its error: Z, from the guide's draws."""
    log_z = pools["guide"].curve.log_z[0]
    return math.exp(log_z.value), math.exp(log_z.value) * log_z.se


def figure(pools: dict[str, Pool]) -> Figure:
    """Draw TVD against the acceptance rate for every proposal.

    A disc is q itself; the square is the plain model, filtered, which is p.
    """
    made, ((axes,),) = new_figure(1, width=6.6)
    colours = (GREY, *COLOURS, "black")
    for (name, pool), colour in zip(pools.items(), colours, strict=True):
        if pool.curve.n_possible:
            draw_tvd(axes, pool.curve, name, colour)
            if name == "plain":
                mark_projection(axes, pool.curve, "tvd", GREY, label=None)
    rates_axis(axes, "TVD(p, ·)")
    # Beside the axes: inside, it would hide the discs at TVD 1.
    axes.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return made


if __name__ == "__main__":
    main("fig3", run, __doc__)
