"""What a fitted boost is worth: acceptance at some TVDs, beside filtering the base.

    python -m benchmarks.guide_quality contains scientists --draws 100000

A boost is fitted on a pilot, then draws are made with it. Filtering the base accepts
Z/b_max of its draws, at TVD 0. All of it is on the built-in model, and takes one pass a draw.
"""

import argparse
import math
import time

import numpy as np

import quasir as qr
from quasir.core.streams import BLOCK, DrawStreams
from quasir.draws.draw_blocks import draw_blocks

TVDS = (0.1, 0.05, 0.02)
FITTED = {"scientists": 2.5035, "sports": 1.4388, "female": 1.9040}
"""lambda of `female`, as in the recipes."""


def case(name, base):
    """Return the target, what to boost, and the largest b(x)."""
    f = qr.features
    if name == "contains":
        feature = f.words(["geologist"])
        return base * feature, feature, 1.0
    tilt = qr.tilt(f.female, FITTED[name])
    most = math.exp(FITTED[name])
    if name == "female":
        return base * tilt, f.female, most
    words = f.science if name == "scientists" else f.sports
    return base * words * tilt, [words, f.female], most


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipes", nargs="+", choices=["contains", *FITTED])
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--pilot", type=int, default=4_000)
    parser.add_argument("--share", type=float, default=0.2, help="where the fit begins; 0: none")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", help="folder for the fitted guides")
    arguments = parser.parse_args()
    base = qr.text.CausalLM("quasir/biographies", device="cpu")
    for name in arguments.recipes:
        report(name, base, arguments)


def report(name, base, arguments):
    target, wanted, most = case(name, base)
    start = time.perf_counter()
    q = base.guided(qr.guides.boost(wanted), arguments.share)
    q = q.fit(target, n=arguments.pilot, seed=arguments.seed, progress=False)
    print(f"{name}: share {q.share:.3f}, fit {time.perf_counter() - start:.0f} s", flush=True)
    if arguments.save:
        q.guide.save(f"{arguments.save}/{name}.json")
    start, streams, pieces = time.perf_counter(), DrawStreams.of(arguments.seed + 1), []
    blocks = -(-arguments.draws // BLOCK)
    marks = {blocks // 5, blocks // 2, blocks} - {0}
    for block in range(blocks):
        pieces.append(draw_blocks(target, q, streams, block, 1))
        if block + 1 in marks:
            seconds = time.perf_counter() - start
            worth(qr.Draws.concatenate(pieces), most, seconds)


def worth(draws, most, seconds):
    curve, z = qr.tradeoff(draws), float(np.exp(draws.log_ratio).mean())
    print(f"  {draws!r}, {len(draws) / seconds:.0f} a second", flush=True)
    print(f"  Z = {z:.4g}; filtering the base accepts {z / most:.4g}", flush=True)
    for tvd in TVDS:
        try:
            rate = curve.at(tvd=tvd).acceptance_rate
        except qr.UnreachableError as error:
            print(f"  TVD {tvd}: {str(error)[:200]}", flush=True)
            continue
        print(f"  TVD {tvd}: acceptance {rate}, {rate.value * most / z:.1f} times", flush=True)
    print(f"  q itself: TVD {curve.proposal.tvd}", flush=True)


if __name__ == "__main__":
    main()
