"""What a fitted boost is worth: acceptance at some TVDs, beside filtering the base.

    python -m benchmarks.guide_quality contains scientists --draws 100000 --keep FOLDER --minutes 10

A boost is fitted on a pilot, then draws are made with it. Filtering the base accepts
Z/b_max of its draws, at TVD 0. All of it is on the built-in model, and takes one pass a draw.
With --keep the guide and the ratios are kept in a folder, and the next call goes on from there.
"""

import argparse
import math
import time
from pathlib import Path

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
    parser.add_argument("--keep", type=Path, help="folder for guides and ratios")
    parser.add_argument("--minutes", type=float, default=math.inf)
    arguments = parser.parse_args()
    base = qr.text.CausalLM("quasir/biographies", device="cpu")
    for name in arguments.recipes:
        report(name, base, arguments)


def report(name, base, arguments):
    target, wanted, most = case(name, base)
    folder = arguments.keep and arguments.keep / name
    start = time.perf_counter()
    q = fitted(base, target, wanted, arguments, folder)
    print(f"{name}: share {q.share:.3f}, fit {time.perf_counter() - start:.0f} s", flush=True)
    start, drawn, streams = time.process_time(), 0, DrawStreams.of(arguments.seed + 1)
    log_p, log_q = [], []
    for block in range(-(-arguments.draws // BLOCK)):
        path = folder and folder / f"{block}.npy"
        if path and path.exists():
            columns = np.load(path)
        elif time.process_time() - start > 60 * arguments.minutes:
            break
        else:
            piece = draw_blocks(target, q, streams, block, 1)
            columns = np.array([piece.log_p, piece.log_q])
            drawn += len(piece)
            if path:
                np.save(path, columns)
        log_p.append(columns[0])
        log_q.append(columns[1])
    speed = drawn / (time.process_time() - start)
    worth(qr.Draws.from_arrays(np.concatenate(log_p), np.concatenate(log_q)), most, speed)


def fitted(base, target, wanted, arguments, folder):
    """Return the fitted proposal, as it was kept or fitted now."""
    if folder and (folder / "guide.json").exists():
        share = float((folder / "share").read_text())
        return base.guided(qr.guides.load(folder / "guide.json"), share)
    q = base.guided(qr.guides.boost(wanted), arguments.share)
    q = q.fit(target, n=arguments.pilot, seed=arguments.seed, progress=False)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "share").write_text(f"{q.share!r}\n")
        q.guide.save(folder / "guide.json")
    return q


def worth(draws, most, speed):
    curve, z = qr.tradeoff(draws), float(np.exp(draws.log_ratio).mean())
    print(f"  {draws!r}, {speed:.0f} a second of CPU time", flush=True)
    print(f"  Z = {z:.4g}; filtering the base accepts {z / most:.4g}", flush=True)
    for tvd in TVDS:
        try:
            rate = curve.at(tvd=tvd).acceptance_rate
        except qr.errors.UnreachableError as error:
            print(f"  TVD {tvd}: {str(error)[:200]}", flush=True)
            continue
        print(f"  TVD {tvd}: acceptance {rate}, {rate.value * most / z:.1f} times", flush=True)
    print(f"  q itself: TVD {curve.proposal.tvd}", flush=True)


if __name__ == "__main__":
    main()
