"""Draw docs/proposals-tail.png, and print the table of docs/proposals.md: what each part gives.

    python docs/pictures/proposals.py

The parts are those of the proposal that the recipe `scientists` names. Fresh draws of base, boosts
and head together are scored under each of them, so the ratios of every mixture are known.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import quasir as qr
from quasir import recipes
from quasir.core.items import take
from quasir.recipes.building import build, resolve
from quasir.text.guided import Part, mix_parts
from quasir.text.weighing import Request, Scored

DRAWS, SEED = 8_192, 1
NAMES = ("base", "boosts", "head", "half head")
MIXTURES = {
    "base": (1.0, 0.0, 0.0, 0.0),
    "base 0.3, boosts 0.7": (0.3, 0.7, 0.0, 0.0),
    "base 0.02, head 0.98": (0.02, 0.0, 0.98, 0.0),
    "base 0.3, boosts 0.2, head 0.5": (0.3, 0.2, 0.5, 0.0),
    "base 0.3, half of the head's g 0.7": (0.3, 0.0, 0.0, 0.7),
    "base 0.3, head 0.7 (the recipe's)": (0.3, 0.0, 0.7, 0.0),
}
COLOURS = ("#555555", "#0072b2", "#d55e00", "#cc79a7", "#009e73", "#000000")


def score():
    """Return the draws, scored under all parts."""
    path = recipes.find("scientists")
    recipe = recipes.read(path)
    built = build(recipe, path.parent)
    target, q = resolve(recipe, built)[1], built.proposal
    whole = q.parts[0]
    parts = [Part(0.3, whole.guide), whole._replace(weight=0.5)]
    drawn = qr.draw(target, mix_parts(q.base, parts, q.features, q.every), DRAWS, seed=SEED)
    at = np.flatnonzero(drawn.log_p > -np.inf)
    parts.append(whole._replace(weight=0.1, head=whole.head.damped(0.5 / 0.75)))
    parts = [part._replace(weight=0.3) for part in parts]
    every = mix_parts(q.base, parts, q.features, q.every)
    log_a, log_each = every.log_prob_parts(take(drawn.items, at))
    log_most = drawn.known.log_ceiling + np.log(0.2)
    return Scored(
        n=DRAWS,
        log_p=drawn.log_p[at],
        log_q=drawn.log_q[at],
        log_each=np.concatenate([log_a[None], log_each]),
        log_most=np.array([log_most]),
        floors=np.eye(len(NAMES))[:1],
        work=np.ones(len(NAMES)),
        seconds=1.0,
    )


def rate(scored, weights, tvd, confidence=None, draws=40_000):
    """Return the acceptance rate of a mixture."""
    request = Request(tvd, confidence, draws)
    return scored.judge("", NAMES, np.array(weights), request).acceptance


def main():
    """Print the table, and draw the picture."""
    scored = score()
    print("| proposal | TVD 0.3 | TVD 0.1 | TVD 0.02 | guaranteed, TVD 0.1 |")
    print("|---|---|---|---|---|")
    for name, weights in MIXTURES.items():
        rates = [rate(scored, weights, tvd) for tvd in (0.3, 0.1, 0.02)]
        rates.append(rate(scored, weights, 0.1, 0.95))
        print(f"| {name} | " + " | ".join(f"{x:.4f}" if x else "" for x in rates) + " |")
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    mass = np.exp(scored.log_p - scored.log_q)
    tvds = np.geomspace(0.01, 0.5, 25)
    for (name, weights), colour in zip(MIXTURES.items(), COLOURS, strict=True):
        with np.errstate(divide="ignore"):
            own = np.logaddexp.reduce(np.log(np.array(weights))[:, None] + scored.log_each, axis=0)
        ratio = np.exp(scored.log_p - own) / (mass.sum() / scored.n)
        order = np.argsort(ratio)[::-1]
        above = np.cumsum(mass[order]) / mass.sum()
        left.plot(ratio[order], above, color=colour, label=name)
        rates = np.array([rate(scored, weights, tvd) for tvd in tvds])
        right.plot(np.where(rates > 0, rates, np.nan), tvds, color=colour)
    left.set(xscale="log", yscale="log", xlabel="ratio P/q, in units of Z", xlim=(0.3, 300))
    left.set(ylabel="share of p above it", ylim=(1e-3, 1.1))
    right.set(xscale="log", yscale="log", xlabel="acceptance rate", ylabel="TVD")
    left.legend(fontsize=6)
    figure.savefig(Path(__file__).parents[1] / "proposals-tail.png", dpi=110)


if __name__ == "__main__":
    main()
