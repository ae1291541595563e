"""Accepted samples a second of CPU time: the recipe's guide against the tuned mixture before it.

    python -m benchmarks.guide_against_tuned scientists --draws 20480 --share 0.1
    python -m benchmarks.guide_against_tuned RUN --adapter sports  # of quasir tune sports --guide

Until commit a8d9bd5 `scientists` drew half of its texts from a model tuned by DPG and half from the
base (`female` did until later), and both models scored each text. Now a recipe boosts words, in one
pass. A mixture also got cheaper: where P(x) = 0 it leaves out what costs a pass. Here the three
draw for the same target in one process, block by block in turn, and beta is chosen on each one's
draws for TVD 0.1: where the estimate is 0.1, and where 0.1 is guaranteed with confidence 0.95. A
guarantee gets better with more draws, so there a proposal has only the draws that it makes in the
guide's time.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import quasir as qr
from quasir import recipes
from quasir.core.streams import BLOCK, DrawStreams
from quasir.draws.ceiling import ratio_bounds
from quasir.draws.draw_blocks import draw_blocks
from quasir.recipes.building import build, resolve

CONSTRAINT = 0.1
WANTED = ">= 2.5"
"""Of `scientists`, against the recipe as it was."""


def rows(recipe="scientists", name="scientists", draws=20 * BLOCK, seed=0, share=None):
    """Yield the rows of a table: of a recipe with a guide, and the tuned model called `name`."""
    target, proposals = setting(recipe, name, share)
    drawn, seconds = in_turn(target, proposals, -(-draws // BLOCK), seed)
    speed = {which: len(drawn[which]) / seconds[which] for which in proposals}
    for how, confidence in (("estimated", None), ("guaranteed", 0.95)):
        rates = {
            which: rate(draws if confidence is None else in_time(draws, which, speed), confidence)
            for which, draws in drawn.items()
        }
        for other in ("the mixture as it was", "the mixture now"):
            pair = "guide", other
            accepted = {which: rates[which] * speed[which] for which in pair}
            yield (
                f"{name}: accepted samples/s at TVD {CONSTRAINT:g} ({how}), guide against {other}",
                accepted["guide"] / accepted[other] if accepted[other] else float("inf"),
                WANTED if (name, other) == ("scientists", "the mixture as it was") else ">= 0",
                "; ".join(
                    f"{which}: {rates[which]:.4f} of {speed[which]:.0f} draws a second of CPU "
                    f"time, {accepted[which]:.2f} accepted"
                    for which in pair
                ),
            )


class AsItWas(qr.Mixture):
    """A mixture that finds log q of every draw under every component."""

    def sample_each(self, n, rng):
        """Draw n items; return their log-probability under each component."""
        items, log_each = super().sample_each(n, rng)
        self.fill(log_each, items, np.arange(n))
        return items, log_each


def setting(recipe, name, share=None):
    """Return the target of a recipe, its proposal (with another share), and the mixtures."""
    path = recipes.find(recipe)
    read = recipes.read(Path(path))
    built = build(read, path.parent)
    _, target = resolve(read, built)
    base = built.base
    tuned = qr.text.CausalLM(
        "quasir/biographies",
        adapter=f"quasir/biographies-{name}",
        max_tokens=base.max_tokens,
        device=str(base.device),
    )
    guided = built.proposal
    return target, {
        "guide": guided if share is None else guided.base.guided(guided.guide, share),
        "the mixture as it was": AsItWas([tuned, base]),
        "the mixture now": qr.Mixture([tuned, base]),
    }


def in_turn(target, proposals, blocks, seed):
    """Return each proposal's draws and its CPU seconds; they alternate, block by block."""
    streams, seconds = DrawStreams.of(seed), dict.fromkeys(proposals, 0.0)
    pieces = {which: [] for which in proposals}
    for q in proposals.values():  # what is made once is made now
        draw_blocks(target, q, streams, blocks, 1, blocks * BLOCK + 64)
    for block in range(blocks):
        for which, q in proposals.items():
            start = time.process_time()
            pieces[which].append(draw_blocks(target, q, streams, block, 1))
            seconds[which] += time.process_time() - start
    draws = {
        which: replace(qr.Draws.concatenate(pieces[which]), known=ratio_bounds(target, q))
        for which, q in proposals.items()
    }
    return draws, seconds


def in_time(draws, which, speed):
    """Return the draws that a proposal makes in the time of the guide's."""
    return draws.take(np.arange(min(len(draws), int(len(draws) * speed[which] / speed["guide"]))))


def rate(draws, confidence):
    """Return the acceptance rate where TVD is 0.1; 0 if it cannot be guaranteed."""
    try:
        return qr.tradeoff(draws).at(tvd=CONSTRAINT, confidence=confidence).acceptance_rate.value
    except qr.errors.UnreachableError:
        return 0.0


def main():
    """Print the rows."""
    from benchmarks import show

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe")
    parser.add_argument("--adapter", help="of the tuned model; by default the recipe's name")
    parser.add_argument("--draws", type=int, default=20 * BLOCK)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, help="of the base; by default the recipe's")
    arguments = parser.parse_args()
    name = arguments.adapter or arguments.recipe
    show.table(rows(arguments.recipe, name, arguments.draws, arguments.seed, arguments.share))


if __name__ == "__main__":
    main()
