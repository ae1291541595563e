"""Fig. 3: "Wikileaks" in every text, from the paper's five prompts and what came after them.

The event is so rare that draws of one proposal hold few texts with the word. So those of all pools
together stand for p: they are draws of the mixture of all proposals. Every proposal is judged on
them by its own log q (`experiments/weighing.py`).
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import quasir as qr
from experiments import words
from experiments.controlled import Pool
from experiments.plots import COLOURS, GREY, OURS, key, new_figure, rates_axis
from experiments.results import Place, Result, Row, main
from experiments.weighing import RATES, Judged, judge
from quasir.core.files import make_folder, write_json
from quasir.core.items import take
from quasir.text.texts import Texts

WORD = "Wikileaks"
PROMPTS: dict[str, Any] = {
    "simple": "Wikileaks.",
    "multiple": "Wikileaks, Wikileaks, Wikileaks.",
    "knowledge": "Here is what I know about Wikileaks:",
    "jeopardy": "This medium was founded by Julian Assange in 2006.",
    "news": "Here are the latest developments on Wikileaks:",
    "chat": [{"role": "user", "content": "Write one sentence about Wikileaks."}],
}
"""The paper's five prompts, word for word, and a chat."""
MADE = {"boost": words.guided, "auto": words.searched, "dpg": words.tuned}
JUDGED = 1_500
"""Texts that all proposals score, at most, on average."""
STATED = (1e-2, 1e-5)
"""Acceptance rates of the table."""
FEW = 30
"""With fewer effective texts, proposals are not compared."""
STYLES = {
    "simple": (COLOURS[0], "-"),
    "multiple": (COLOURS[5], "-"),
    "knowledge": (COLOURS[2], "-"),
    "jeopardy": (COLOURS[4], "-"),
    "news": (COLOURS[3], "-"),
    "chat": ("#8c564b", "-"),
    "boost": (OURS, "-"),
    "auto": (OURS, "--"),
    "dpg": (COLOURS[1], "-"),
}
NAMES = {"boost": "boost of the word", "dpg": "DPG (small budget)", "auto": "auto"}


def run(place: Place) -> Result:
    """Draw from every proposal, and judge each on the draws of all."""
    pools = {name: Pool(folder) for name, folder in pools_of(place.of_large).items()}
    chosen = heavy(pools)
    log_q = scores(place, pools, {name: at for name, (at, _) in chosen.items()})
    kept = stand_for_p(pools, chosen, log_q)
    n = sum(len(pool.draws) for pool in pools.values())
    weights = np.exp(kept.log_ratio)
    z, se = weights.sum() / n, math.sqrt((weights**2).sum()) / n
    ess = float(weights.sum() ** 2 / (weights**2).sum())
    judged = {name: judge(kept, log_q[name], math.log(z)) for name in pools}
    shares = {name: (pool.curve.n_possible, pool.curve.n) for name, pool in pools.items()}
    return Result(
        title='Fig. 3: "Wikileaks" in every text',
        verdict=verdict(place, judged, shares, z, ess, len(kept)),
        rows=rows(judged, z, se, ess),
        draws={pool.folder.name: len(pool.draws) for pool in pools.values()},
        numbers={
            "Z": z,
            "Z se": se,
            "texts that are judged": len(kept),
            "effective texts": ess,
            "proposals": {
                name: {
                    "draws": shares[name][1],
                    "draws with the word": shares[name][0],
                    **one.numbers(),
                }
                for name, one in judged.items()
            },
        },
        figure=figure(judged, z, se),
    )


def names_of(place: Place) -> list[str]:
    """Return the proposals of these models: a model without a template has no chat."""
    return [name for name in (*PROMPTS, *MADE) if name != "chat" or place.models.chat]


def pools_of(place: Place) -> dict[str, Path]:
    """Return the pools by their proposals; with no draws wanted, those that are there."""
    wanted, pools = names_of(place), {}
    if place.draws < words.WORTH_IT:
        begun = {name for name in wanted if replace(place, draws=0).has(f"{WORD}-{name}")}
        at_once = {*PROMPTS, "boost"} if place.draws else set()
        wanted = [name for name in wanted if name in begun | at_once]
    for name in wanted:
        try:
            pools[name] = (
                words.prompted(place, WORD, name, PROMPTS[name])
                if name in PROMPTS
                else MADE[name](place, WORD)
            )
        except qr.errors.TuningError as error:
            print(f"! {name} is left out: {error}", file=sys.stderr)
    return pools


def heavy(pools: dict[str, Pool], seed: int = 0) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the texts with the word that are judged, by pool, and the log of their chances.

    A text from n draws of q adds at most P/(n q) to Z. It is kept with a chance in proportion to
    that, and counts for the others: so few texts are scored, and means over p stay unbiased.
    """
    at = {name: np.flatnonzero(pool.draws.log_p > -np.inf) for name, pool in pools.items()}
    most = {
        name: pool.draws.log_ratio[at[name]] - math.log(len(pool.draws))
        for name, pool in pools.items()
    }
    log_all = np.logaddexp.reduce(np.concatenate(list(most.values())))
    found = {}
    for i, name in enumerate(pools):
        log_kept = np.minimum(math.log(JUDGED) + most[name] - log_all, 0.0)
        random = np.random.default_rng([seed, i]).random(len(pools[name].draws))[at[name]]
        chosen = np.log(random) < log_kept
        found[name] = at[name][chosen], log_kept[chosen]
    return found


def scores(
    place: Place, pools: dict[str, Pool], at: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return log q by each proposal, of chosen draws of all pools; kept in files."""
    found: dict[str, np.ndarray] = {}
    for name, pool in pools.items():
        columns, proposal = [], None
        for other in pools:
            file = place.out / "scores" / f"{WORD}-{other}-by-{name}.json"
            known = dict(json.loads(file.read_text())) if file.is_file() else {}
            new = [int(i) for i in at[other] if int(i) not in known]
            if name == other:
                known = dict(zip(at[name].tolist(), pool.draws.log_q[at[name]], strict=True))
            elif new:
                if proposal is None:
                    proposal = words.proposal_of(pool.folder)
                items: Any = take(pools[other].draws.items, np.array(new))
                texts = Texts(items.ids, items.offsets, proposal.tokenizer)
                known |= dict(zip(new, proposal.log_prob(texts).tolist(), strict=True))
                make_folder(file.parent)
                write_json(file, list(known.items()))
            columns.append(np.array([known[int(i)] for i in at[other]], np.float64))
        found[name] = np.concatenate(columns)
    return found


def stand_for_p(
    pools: dict[str, Pool],
    chosen: dict[str, tuple[np.ndarray, np.ndarray]],
    log_q: dict[str, np.ndarray],
) -> qr.Draws:
    """Return the chosen texts as draws of the mixture of all proposals, by their numbers of draws.

    A text that was kept with a chance has a log q that is smaller by that.
    """
    sizes = np.array([len(pool.draws) for pool in pools.values()])
    log_each = np.stack([log_q[name] for name in pools])
    log_mixed = np.logaddexp.reduce(log_each + np.log(sizes / sizes.sum())[:, None], axis=0)
    log_kept = np.concatenate([chosen[name][1] for name in pools])
    log_p = np.concatenate([pool.draws.log_p[chosen[name][0]] for name, pool in pools.items()])
    return qr.Draws.from_arrays(log_p=log_p, log_q=log_mixed + log_kept)


def rows(judged: dict[str, Judged], z: float, se: float, ess: float) -> list[Row]:
    """Return the rows beside the paper's; proposals are left out where the draws are too few."""
    found: list[Row] = [("texts of a with the word", "about 1e-4", f"{z:.1e} ± {se:.0e}")]
    if ess < FEW:
        return found
    best = best_prompt(judged, z)
    for name in dict.fromkeys((best, "dpg", "boost", "auto")):
        if name in judged:
            title = NAMES.get(name, f"best prompt ({name})")
            paper = {"dpg": "best of all"}.get(name, "better than filtering")
            if name in ("boost", "auto"):
                paper = "not in it"
            one = judged[name]
            own = [one.said(rate) for rate in STATED if not math.isnan(one.at(rate))]
            found.append((f"TVD: {title}", paper, ", ".join(own) or "no text that is judged"))
    return found


def rate_for(one: Judged, tvd: float) -> float:
    """Return the highest acceptance rate with this TVD, or 0."""
    return float(RATES[np.nan_to_num(one.tvd, nan=2.0) <= tvd].max(initial=0.0))


def best_prompt(judged: dict[str, Judged], z: float) -> str:
    """Return the prompt that comes nearest to p at the rate of filtering."""
    return min(
        (n for n in judged if n in PROMPTS), key=lambda n: np.nan_to_num(judged[n].at(z), nan=2)
    )


def rounded(number: float) -> str:
    """Return a number with two digits that count."""
    return f"{float(f'{number:.2g}'):,.0f}"


def verdict(
    place: Place,
    judged: dict[str, Judged],
    shares: dict[str, tuple[int, int]],
    z: float,
    ess: float,
    texts: int,
) -> str:
    """Say what agrees, as far as the draws show it."""
    times = {NAMES.get(name, name): rate_for(one, 0.5) / z for name, one in judged.items()}
    better = sorted((n for n in times if times[n] > 1), key=lambda n: -times[n])
    listed = ", ".join(f"{n} {rounded(times[n])}" for n in better)
    absent = [NAMES.get(n, n) for n in names_of(place) if n not in judged]
    said = [
        f"The paper's word and prompts, word for word, on {place.models.general}. Filtering the "
        f"plain model (the square) is exact and keeps 1 text in {rounded(1 / z)}; the paper: about "
        "1 in 10,000. In the pools, the word is in "
        + ", ".join(f"{hits} of {n:,} ({name})" for name, (hits, n) in shares.items())
        + ". Agrees: prompts bring the word far more often than the base. "
        + at_filtering(judged, z)
        + " A boost of the word and a chat are not in the paper.",
        f"All lines come from {texts:,} of the texts with the word, chosen by their weights, and "
        f"worth {ess:.0f} draws of p.",
    ]
    if ess < FEW:
        said.append("That is too few to compare proposals: lines and bands are a sketch.")
    else:
        said.append(
            f"Times as many samples as filtering gives, at a TVD of 0.5: {listed or 'none'}; the "
            "others give fewer."
        )
    far = [NAMES.get(name, name) for name, one in judged.items() if np.isnan(one.tvd).all()]
    if far:
        said.append(
            f"Without a line: {', '.join(far)}; these draws show too little of it above an AR of "
            f"{RATES[-1]:g}."
        )
    if absent:
        need = f"a search or a tuning needs `--large {words.WORTH_IT}`"
        said.append(f"Not run yet: {', '.join(absent)} ({need}).")
    return " ".join(said)


def at_filtering(judged: dict[str, Judged], z: float) -> str:
    """Say how near the best prompt comes to p at the rate of filtering, which is exact."""
    best = best_prompt(judged, z)
    here = f"{judged[best].said(z)}, where filtering is exact"
    if judged[best].at(z) < 0.5:
        return f"They trade quality for efficiency: the best ({best}) has a TVD of {here}."
    return (
        "Differs: in the paper prompts trade quality for efficiency, and here the best "
        f"({best}) still has a TVD of {here}. A model that is tuned to chats writes other texts "
        "after a prompt than without one."
    )


def figure(judged: dict[str, Judged], z: float, se: float) -> Figure:
    """Draw TVD against the acceptance rate for every proposal, and the filtered base."""
    made, (axes,) = new_figure(1, height=4.0)
    lines = []
    for name, one in judged.items():
        colour, style = STYLES[name]
        one.draw(axes, colour, style)
        lines.append((NAMES.get(name, name), colour, style))
    axes.errorbar(z, 0.0, xerr=min(2 * se, 0.9 * z), fmt="s", color=GREY, markersize=6, zorder=6)
    lowest = max(10 ** math.floor(math.log10(z / 2)), 1e-8)
    rates_axis(axes, "TVD(p, ·)", min(lowest, RATES[-1]))
    axes.set_ylim(-0.04, 1.04)
    lines.append(("filtered base, exact", GREY, "s"))
    key(made, lines, ("q",))
    return made


if __name__ == "__main__":
    main("fig3", run, __doc__)
