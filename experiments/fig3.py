"""Fig. 3: a rare word in every text, from eight proposals.

These are the plain model, the model after five prompts, the model tuned by DPG, and a guide.

The paper's word is "Wikileaks", in about 1e-4 of GPT-2's texts; ours is as rare in the texts of
`quasir/general`. The guide is not in the paper.
"""

from __future__ import annotations

from matplotlib.figure import Figure

from experiments.controlled import Pool
from experiments.plots import draw_tvd, new_figure, rates_axis
from experiments.results import Place, Result, Row, cell, main
from experiments.words import guided, plain, prompted, tuned
from quasir.certificates.figures import COLOURS

WORD = "zombie"
PROMPTS = {
    "simple": "Zombie.",
    "multiple": "Zombie, zombie, zombie.",
    "knowledge": "Here is what I know about the zombie:",
    "jeopardy": "This dead man walks at night and eats the living.",
    "news": "Here is the latest film about a zombie:",
}
"""The paper's five kinds of prompts."""
AT = (1e-2, 1e-3, 1e-4)
HALF = 2
"""Eight pools have half the draws of a pool each."""
GREY = "#777777"


def run(place: Place) -> Result:
    """Draw from every proposal, and compare."""
    draws = max(1, place.draws // HALF)
    pools = {"plain": Pool(plain(place, WORD, draws))}
    for name, prompt in PROMPTS.items():
        pools[name] = Pool(prompted(place, WORD, name, prompt, draws))
    pools["guide"] = Pool(guided(place, WORD, draws))
    pools["DPG, half base"] = Pool(tuned(place, WORD, draws))
    rows: list[Row] = []
    for name, pool in pools.items():
        share = pool.curve.n_possible / pool.curve.n
        stated = "1e-4" if name == "plain" else "figure only"
        rows.append((f"{name}: share of draws with the word", stated, f"{share:.3g}"))
        if pool.curve.n_possible:
            rows.append((f"{name}: TVD(p, q)", "figure only", cell(pool.curve.proposal.tvd)))
        for rate in AT:
            cert = pool.at(rate) if share >= rate else None
            ours = "out of reach" if cert is None else cell(cert.tvd)
            rows.append((f"{name}: TVD at AR {rate:g}", "figure only", ours))
    return Result(
        title=f"Fig. 3: a rare word, from eight proposals (ours: {WORD!r})",
        rows=rows,
        draws={name: len(pool.draws) for name, pool in pools.items()},
        verdict=verdict(pools),
        figure=figure(pools),
    )


def verdict(pools: dict[str, Pool]) -> str:
    """Say which proposals help."""
    share = {name: pool.curve.n_possible / pool.curve.n for name, pool in pools.items()}
    best = max(PROMPTS, key=lambda name: share[name])
    return (
        f"As in the paper, the plain model is exact and accepts only {share['plain']:.2g}, and the "
        f"tuned model reaches low TVD at higher rates. The best prompt here is {best!r}: "
        f"{share[best]:.2g} of its draws have the word. A small model follows prompts less than "
        "GPT-2 does. A boost of the word, which the paper does not have, brings it into "
        f"{share['guide']:.2g} of the draws without any tuning."
    )


def figure(pools: dict[str, Pool]) -> Figure:
    """Draw TVD against the acceptance rate for every proposal; a disc is q itself."""
    made, ((axes,),) = new_figure(1, width=5.2)
    colours = (GREY, *COLOURS, "black")
    for (name, pool), colour in zip(pools.items(), colours, strict=True):
        if pool.curve.n_possible:
            draw_tvd(axes, pool.curve, name, colour)
    rates_axis(axes, "TVD(p, ·)")
    axes.legend(frameon=False, fontsize="x-small", ncols=2)
    return made


if __name__ == "__main__":
    main("fig3", run, __doc__)
