"""The extra figure of appendix A (`fig:extra-ctg-experiments`): five constraints."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

import quasir as qr
from experiments import constrained, words
from experiments.controlled import Pool
from experiments.plots import OURS, draw_line, key, last_rate, lines_of, new_figure, rates_axis
from experiments.results import Place, Result, Row, cell, main

ENOUGH = 1e-3
"""The acceptance rate that the paper finds sufficient."""
TUNED, FOUND = "tuned by DPG", "auto"
BIOGRAPHIES = {
    "50 % female scientists": "scientists",
    "50 % female, sports": "sports",
    "50 % female": "female",
}
WORDS = {'100 % with "amazing"': "amazing", '100 % with "Wikileaks"': "Wikileaks"}
Pools = Mapping[str, Pool]
"""The pools of one constraint, by their proposals."""


def run(place: Place) -> Result:
    """Draw what the panels lack, and draw them."""
    all_pools = {title: pools_of(place, title) for title in (*BIOGRAPHIES, *WORDS)}
    panels = {title: pools for title, pools in all_pools.items() if pools}
    absent = [title for title in all_pools if title not in panels]
    rows: list[Row] = []
    for title, pools in panels.items():
        ours = ", ".join(f"{said(pool)} ({name})" for name, pool in pools.items())
        rows.append((f"TVD at AR 1e-3: {title}", "near 0", ours))
    return Result(
        title="Five constraints (`fig:extra-ctg-experiments`, `tab:betas`)",
        verdict=(
            "Agrees in shape: TVD, its bounds and KL fall with the acceptance rate, and KL from "
            "the base goes to that of p. Coloured lines are proposals like the paper's, tuned by "
            "DPG, those for words with a small budget. Black ones are not in the paper: what "
            "`proposal: auto` found, with a share of the base. No ratio exceeds a known ceiling "
            "there, and where β reaches it TVD is 0 by construction, which is no replication. "
            "Betas (`tab:betas`) carry the scale of P: they cannot be compared."
            + (f" Not run yet: {', '.join(absent)}." if absent else "")
        ),
        rows=rows,
        draws={
            pool.folder.name: len(pool.draws)
            for pools in panels.values()
            for pool in pools.values()
        },
        numbers={
            title: {name: pool.numbers() for name, pool in pools.items()}
            for title, pools in panels.items()
        },
        figure=figure(panels),
    )


def pools_of(place: Place, title: str) -> Pools:
    """Return the pools of a constraint that can be had: drawn now, or there already."""
    made: dict[str, Callable[[], Path]] = {}
    if title in BIOGRAPHIES:
        name = BIOGRAPHIES[title]
        if place.draws or place.has(constrained.pool_name(name)):
            made[TUNED] = partial(constrained.tuned, place, name)
        if constrained.has_found(place, name):
            made[FOUND] = partial(constrained.found, place, name)
    else:
        word, large = WORDS[title], place.of_large
        for name, pool, make in (
            (TUNED, f"{word}-dpg", words.tuned),
            (FOUND, f"{word}-auto", words.searched),
        ):
            if words.can_have(large, pool):
                made[name] = partial(make, large, word)
    pools = {}
    for name, draw in made.items():
        try:
            pools[name] = Pool(draw())
        except qr.errors.TuningError as error:
            print(f"! {title}, {name}, is left out: {error}", file=sys.stderr)
    return pools


def said(pool: Pool) -> str:
    """Return the TVD of a pool at the rate that is enough, and that it is 0 by a ceiling."""
    cert = pool.at(ENOUGH) if len(pool.draws) * ENOUGH >= 1 else None
    text = "unknown: too few draws" if cert is None else cell(cert.tvd)
    return "0 by its ceiling" if text == "0, for certain" else text


def figure(panels: Mapping[str, Pools]) -> Figure:
    """Draw a row for each constraint: TVD with its bounds, and both KLs."""
    made, axes = new_figure(len(panels), 2, height=2.1)
    for i, (title, pools) in enumerate(panels.items()):
        left, right = axes[2 * i : 2 * i + 2]
        for name, pool in pools.items():
            colour = OURS if name == FOUND else ""
            draw_line(left, pool.curve, "tvd", colour)
            draw_line(right, pool.curve, "kl", colour)
        if TUNED in pools:
            draw_line(right, pools[TUNED].curve, "kl_base")
            for quantity in ("truncated_mass", "tvd_bound"):
                draw_line(left, pools[TUNED].curve, quantity)
        lowest = last_rate([pool.curve for pool in pools.values()])
        rates_axis(left, "TVD(p, ·)", lowest)
        rates_axis(right, "KL, nats", lowest)
        left.set_title(title, fontsize="medium")
        for panel in (left, right):
            panel.set_ylim(bottom=0)
    lines = lines_of("tvd", "truncated_mass", "tvd_bound", "kl", "kl_base")
    key(made, [*lines, (FOUND, OURS, "-")], ("q", "q_proj"), 4)
    return made


if __name__ == "__main__":
    main("panels", run, __doc__)
