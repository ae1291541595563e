"""Tune proposals for the wishes of section 3.2.2 on the built-in model, and measure what they save.

The target is fitted first, on draws from the base; the proposal is tuned towards it; then both
proposals are judged on fresh draws, which neither has seen: the acceptance rate at which QRS is
within a given TVD of the target. Stopped, and started again with the same command, it goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

import quasir as qr
import quasir.tuning
from quasir.target import Pointwise, Tilt

MODEL = "quasir/biographies"
MAX_TOKENS = 40
WISHES: dict[str, dict[str, float]] = {
    "scientists": {"science": 1.0, "female": 0.5},
    "sports": {"sports": 1.0, "female": 0.5},
    "female": {"female": 0.5},
}
LEVELS = (0.3, 0.1, 0.02)
FITTED, TUNED, FRESH = range(3)
"""What draws are for: each has seeds of its own."""


def fitted_target(base: qr.text.CausalLM, name: str, draws: int, seed: int, out: Path) -> Any:
    """Return the target of a wish; lambda is fitted once and kept beside the run."""
    wishes = {qr.features.NAMED[feature]: mean for feature, mean in WISHES[name].items()}
    path = out / "target.json"
    if not path.is_file():
        target = qr.constrain(base, wishes, n=draws, seed=seed, progress=True)
        print(f"{target}\n", flush=True)
        out.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".partial")
        facts = {"wishes": WISHES[name], "coefficients": target.coefficients, "draws": draws}
        temporary.write_text(json.dumps(facts, indent=2) + "\n")
        os.replace(temporary, path)
    # Made from the file in every case, so that a run that goes on has the very same target.
    coefficients = json.loads(path.read_text())["coefficients"]
    factors = [
        Tilt(feature, coefficients[feature.name])
        if feature.name in coefficients
        else Pointwise(feature)
        for feature in wishes
    ]
    return qr.Product(base, factors)


def measured(target: Any, proposal: qr.text.CausalLM, n: int, seed: int) -> qr.Curve:
    """Return the trade-off on fresh draws."""
    return qr.tradeoff(qr.draw(target, proposal, n, seed=seed, progress=True))


def rate_at(curve: qr.Curve, tvd: float) -> qr.Estimate | None:
    """Return the acceptance rate at a TVD, or None where the draws cannot vouch for one."""
    try:
        return curve.at(tvd=tvd).acceptance_rate
    except qr.Unreachable as error:
        print(error, file=sys.stderr)
        return None


def print_table(curves: dict[str, qr.Curve]) -> None:
    """Print TVD and KL of each proposal, and its acceptance rate at each level."""
    names = list(curves)
    print(f"{'on fresh draws':<26}" + "".join(f"{name:>34}" for name in names) + f"{'times':>8}")
    rows = [
        ("draws", [f"{curve.n:,}" for curve in curves.values()]),
        ("Z", [f"{curve.proposal.z}" for curve in curves.values()]),
        ("TVD(p, q)", [f"{curve.proposal.tvd}" for curve in curves.values()]),
        ("KL(p, q)", [f"{curve.proposal.kl}" for curve in curves.values()]),
        ("effective draws a draw", [f"{curve.ess / curve.n:.4g}" for curve in curves.values()]),
    ]
    for label, cells in rows:
        print(f"{label:<26}" + "".join(f"{cell:>34}" for cell in cells))
    for level in LEVELS:
        rates = [rate_at(curve, level) for curve in curves.values()]
        cells = ["unknown" if rate is None else str(rate) for rate in rates]
        first, last = rates[0], rates[-1]
        times = f"{last.value / first.value:.2f}" if first and last else ""
        print(
            f"{f'AR at TVD {level:g}':<26}"
            + "".join(f"{cell:>34}" for cell in cells)
            + f"{times:>8}"
        )


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python training/proposals.py scientists --out runs/scientists "
        "--minutes 60",
    )
    parser.add_argument("wish", choices=list(WISHES), help="which of the built-in wishes")
    parser.add_argument("--out", type=Path, required=True, help="folder for the tuned proposal")
    parser.add_argument("--minutes", type=float, help="stop tuning after so long")
    parser.add_argument("--fit", type=int, default=200_000, help="draws to fit lambda on")
    parser.add_argument("--fresh", type=int, default=100_000, help="draws to judge each proposal")
    parser.add_argument("--loss", default="kl", choices=list(quasir.tuning.LOSSES))
    parser.add_argument("--lora", type=int, default=8, help="rank of the adapter; 0 tunes all")
    parser.add_argument("--rate", type=float, help="learning rate")
    parser.add_argument("--steps", type=int, default=6000, help="steps at most")
    parser.add_argument("--draws", type=int, default=8192, help="draws a round")
    parser.add_argument("--batch", type=int, default=64, help="texts a step")
    parser.add_argument("--warm-start", help="a prompt, such as 'She is a scientist.'")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2, help="threads of torch (default 2)")
    return parser.parse_args()


def main() -> None:
    """Fit, tune, and print the table."""
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    base = qr.text.CausalLM(MODEL, max_tokens=MAX_TOKENS)
    seeds = [3 * arguments.seed + use for use in (FITTED, TUNED, FRESH)]
    target = fitted_target(base, arguments.wish, arguments.fit, seeds[FITTED], arguments.out)
    tuned = quasir.tuning.DPG(
        target,
        base,
        loss=arguments.loss,
        steps=arguments.steps,
        batch=arguments.batch,
        lora=arguments.lora or None,
        seed=seeds[TUNED],
        out=arguments.out,
        draws=arguments.draws,
        rate=arguments.rate,
        warm_start=arguments.warm_start,
        minutes=arguments.minutes,
    ).run()
    curves = {
        name: measured(target, proposal, arguments.fresh, seeds[FRESH])
        for name, proposal in (("base", base), ("tuned", tuned))
    }
    print_table(curves)


if __name__ == "__main__":
    main()
