"""Tune proposals for the constraints of section 3.2.2, and measure their gain.

Lambda is fitted on draws of the base, the proposal is tuned towards that target, and lambda is
fitted again on draws of the tuned proposal, which determine it far better. The proposal in use is
a mixture of the tuned model and the base, half and half. A tuned model alone forgets some texts
that the target allows, and their ratios have no bound; the ratios of the mixture are at most twice
the base's. All proposals are evaluated on new draws, by the acceptance rate at which QRS is within
a given TVD of the target. If the script is stopped, the same command resumes it.

The draws of the base come from a run of any recipe that draws from it, such as
`quasir draw contains --draws 1000000 --out runs/contains`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from proposal_card import export

import quasir as qr
from quasir import recipes
from quasir.core.files import write_text
from quasir.targets.product import Pointwise, Tilt

MODEL = "quasir/biographies"
MAX_TOKENS = 40
CONSTRAINTS: dict[str, dict[str, float]] = {
    "scientists": {"science": 1.0, "female": 0.5},
    "sports": {"sports": 1.0, "female": 0.5},
    "female": {"female": 0.5},
}
LEVELS = (0.3, 0.1, 0.02)
TUNED, FITTED, FRESH = 1, 2, 3
"""Seeds of the run: tuning, the second fit, and the draws for evaluation each have their own."""


def base_draws(pool: Path) -> qr.Draws:
    """Load the stored draws of the base."""
    draws = qr.Draws.load(pool)
    if not np.array_equal(draws.log_base, draws.log_q):
        sys.exit(f"the proposal of {pool} is not the base")
    return draws


def target_of(
    base: qr.text.CausalLM, constraint: str, coefficients: dict[str, float]
) -> qr.Product:
    """Return the target of a constraint with given coefficients lambda."""
    named = [qr.features.NAMED[name] for name in CONSTRAINTS[constraint]]
    return qr.Product(
        base,
        [
            Tilt(feature, coefficients[feature.name])
            if feature.name in coefficients
            else Pointwise(feature)
            for feature in named
        ],
    )


def fitted(base: qr.text.CausalLM, constraint: str, path: Path, **draws: Any) -> dict[str, float]:
    """Fit lambda once and store it in a file, so that a resumed run has the same target."""
    if not path.is_file():
        constraints = {
            qr.features.NAMED[name]: mean for name, mean in CONSTRAINTS[constraint].items()
        }
        target = qr.constrain(base, constraints, **draws)
        print(f"{target}\n", flush=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(target.coefficients, indent=2) + "\n")
    coefficients: dict[str, float] = json.loads(path.read_text())
    return coefficients


def under(target: qr.Product, draws: qr.Draws) -> qr.Draws:
    """Return draws of the base, scored by a target on the base."""
    log_b = sum(factor.log_factor(factor.feature(draws.items)) for factor in target.factors)
    return qr.Draws.from_arrays(
        log_p=draws.log_base + log_b, log_q=draws.log_q, log_base=draws.log_base
    )


def rate_at(curve: qr.Curve, tvd: float) -> qr.Estimate | None:
    """Return the acceptance rate at a TVD, or None if the draws do not determine it."""
    try:
        return curve.at(tvd=tvd).acceptance_rate
    except qr.errors.UnreachableError as error:
        print(error, file=sys.stderr)
        return None


def table(curves: dict[str, qr.Curve]) -> str:
    """Return TVD and KL of each proposal, and its acceptance rate at each level, in Markdown."""
    rows = [
        ["", *curves, "times"],
        ["---"] * (len(curves) + 2),
        ["draws to judge by", *(f"{curve.n:,}" for curve in curves.values()), ""],
        ["TVD(p, q)", *(str(curve.proposal.tvd) for curve in curves.values()), ""],
        ["KL(p, q)", *(str(curve.proposal.kl) for curve in curves.values()), ""],
        ["effective draws a draw", *(f"{c.ess / c.n:.3g}" for c in curves.values()), ""],
    ]
    for level in LEVELS:
        rates = [rate_at(curve, level) for curve in curves.values()]
        cells = ["unknown" if rate is None else str(rate) for rate in rates]
        first, last = rates[0], rates[-1]
        times = f"{last.value / first.value:.1f}" if first and last else ""
        rows.append([f"AR at TVD {level:g}", *cells, times])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python training/proposals.py scientists --base-draws runs/contains "
        "--out runs/scientists --minutes 25",
    )
    parser.add_argument(
        "constraint", choices=list(CONSTRAINTS), help="which of the built-in constraints"
    )
    parser.add_argument(
        "--base-draws", type=Path, required=True, help="folder of a run that drew from the base"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the tuned proposal")
    parser.add_argument("--minutes", type=float, default=40.0, help="time limit of the tuning")
    parser.add_argument(
        "--fit", type=int, default=40_000, help="draws of the base for the first fit"
    )
    parser.add_argument(
        "--refit", type=int, default=20_000, help="draws of the tuned model for the second fit"
    )
    parser.add_argument(
        "--fresh", type=int, default=50_000, help="draws to evaluate the tuned model"
    )
    parser.add_argument(
        "--lora", type=int, default=8, help="rank of the adapter; 0 tunes all weights"
    )
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate")
    parser.add_argument("--steps", type=int, default=10_000, help="maximum number of steps")
    parser.add_argument("--draws", type=int, default=12_288, help="draws per round")
    parser.add_argument(
        "--round-steps", type=int, default=150, help="maximum number of steps in a round"
    )
    parser.add_argument("--every", type=int, default=25, help="steps between evaluations")
    parser.add_argument("--memory", type=int, default=15_000, help="draws kept to train on")
    parser.add_argument("--batch", type=int, default=64, help="texts per step")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch")
    parser.add_argument("--export", type=Path, help="folder for the adapter and its card")
    parser.add_argument(
        "--shipped",
        action="store_true",
        help="tune nothing: evaluate the built-in proposal with the lambda of its recipe",
    )
    return parser.parse_args()


def main() -> None:
    """Fit, tune, fit again, and print the table."""
    arguments = parse_arguments()
    if arguments.shipped and arguments.export is not None:
        sys.exit("--shipped tunes nothing, so there is nothing to --export")
    torch.set_num_threads(arguments.threads)
    base = qr.text.CausalLM(MODEL, max_tokens=MAX_TOKENS)
    constraint, out = arguments.constraint, arguments.out
    drawn = base_draws(arguments.base_draws)
    if arguments.shipped:
        tuned = qr.text.CausalLM(MODEL, adapter=f"{MODEL}-{constraint}", max_tokens=MAX_TOKENS)
        coefficients = recipes.read(recipes.find(constraint)).fitted
    else:
        tuned, coefficients = tune(base, drawn, arguments)
    target = target_of(base, constraint, coefficients)
    mixed = qr.Mixture([tuned, base], [0.5, 0.5])
    proposals = {"alone": tuned, "mixed": mixed}
    for name, proposal in proposals.items():
        if not (out / name).is_dir():
            draws = qr.draw(target, proposal, arguments.fresh, seed=FRESH, progress=True)
            draws.save(out / name)
    # The base was fitted to none of its draws, so all of them can evaluate it.
    curves = {
        "base": qr.tradeoff(under(target, drawn)),
        "tuned": qr.tradeoff(qr.Draws.load(out / "alone")),
        "mixed": qr.tradeoff(qr.Draws.load(out / "mixed")),
    }
    write_text(out / "table.md", table(curves) + "\n")
    print(table(curves))
    if arguments.export is not None:
        shown = (
            f"training/proposals.py {constraint} --fit {arguments.fit} --draws {arguments.draws} "
            f"--minutes {arguments.minutes:g}"
        )
        export(out, arguments.export, constraint, CONSTRAINTS[constraint], shown, table(curves))


def tune(
    base: qr.text.CausalLM, drawn: qr.Draws, arguments: argparse.Namespace
) -> tuple[qr.text.CausalLM, dict[str, float]]:
    """Return a tuned proposal, and the lambda that was fitted on its draws."""
    constraint, out = arguments.constraint, arguments.out
    pool = drawn.take(np.arange(min(arguments.fit, len(drawn))))
    first = fitted(base, constraint, out / "lambda-base.json", draws=pool)
    tuned = qr.tuning.DPG(
        target_of(base, constraint, first),
        base,
        steps=arguments.steps,
        batch=arguments.batch,
        lora=arguments.lora or None,
        seed=TUNED,
        out=out,
        pool=pool,
        draws=arguments.draws,
        round_steps=arguments.round_steps,
        every=arguments.every,
        memory=arguments.memory,
        rate=arguments.rate,
        minutes=arguments.minutes,
    ).run()
    more = {"proposal": tuned, "n": arguments.refit, "seed": FITTED, "progress": True}
    return tuned, fitted(base, constraint, out / "lambda.json", **more)


if __name__ == "__main__":
    main()
