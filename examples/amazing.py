"""Texts that contain a given word, from a real model of GPT-2's size, without a hub (Fig. 3).

The target is SmolLM2-135M-Instruct restricted to texts that contain the word. The proposals are the
plain model, the model with each of three prompts, and the model with a boost: tokens that spell the
word get a factor. The table at the end says what each is worth.

    pip install '.[text]' gguf accelerate
    python examples/amazing.py --out runs/amazing

If it is stopped, the same command goes on.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

import quasir as qr
from kept_draws import kept_draws

PROMPTS = {
    "simple": "{Word}.",
    "multiple": "{Word}, {word}, {word}.",
    "knowledge": "Here is what I find {word}:",
}
TVDS = (0.3, 0.2, 0.1, 0.05)
SHARE = 0.1
"""Share of the plain model in the boosted proposal: no ratio is above 1/0.1."""


def boosted(base, target, feature, factor, pilot, folder):
    """Return the model with a boost of this factor; fitted on a pilot, if there is one."""
    begun = base.guided(qr.guides.boost({feature: factor}), SHARE)
    if not pilot:
        return begun
    guide, share = folder / "guide.json", folder / "share.json"
    if not share.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fitted = begun.fit(target, n=pilot, seed=100_000, progress=True)
        fitted.guide.save(guide)
        share.write_text(json.dumps(fitted.share))
    return base.guided(qr.guides.load(guide), json.loads(share.read_text()))


def report(name, proposal, draws):
    """Print the trade-off of a proposal, and return its row of the table."""
    print(f"\n== {name}: {getattr(proposal, 'prompt', None) or 'no prompt'}")
    curve = qr.tradeoff(draws)
    print(curve)
    rates = {}
    for tvd in TVDS if curve.n_possible else ():
        try:
            rates[tvd] = curve.at(tvd=tvd).acceptance_rate
        except qr.errors.UnreachableError as error:
            print(f"at TVD {tvd:g}: {error}")
    accepted = draws.take(draws.accepted(log_beta=float(curve.log_betas[-1])))
    for item in accepted.items[:3]:
        print(f"  {item.text!r}")
    print(flush=True)
    return curve, rates


def table(rows):
    """Print what each proposal is worth beside filtering the plain model."""
    # The boosted draws know Z best: many of them have the word, and their ratios are alike.
    z = rows["boosted"][0].at(beta=1).z
    print(f"\nFiltering the plain model accepts Z = {z} of its draws, at TVD 0.")
    print(f"{'proposal':<10} {'draws':>7} {'with word':>10} {'ESS':>7}", end="")
    print("".join(f"  {f'at TVD {tvd:g}':>24}" for tvd in TVDS))
    for name, (curve, rates) in rows.items():
        print(f"{name:<10} {curve.n:>7,} {curve.n_possible:>10,} {curve.ess:>7.1f}", end="")
        print("".join(f"  {cell(rates.get(tvd), z.value):>24}" for tvd in TVDS))


def cell(rate, z):
    """Return an acceptance rate as the table shows it, with how many times filtering's it is."""
    return "-" if rate is None else f"{rate.value:.4f} ± {rate.se:.4f} ({rate.value / z:.1f} x)"


def main():
    """Draw from each proposal and print its trade-off, then the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=256, help="from each of the others")
    parser.add_argument("--boosted", type=int, default=768, help="draws with the boost")
    parser.add_argument("--factor", type=float, default=300.0, help="of the boost")
    parser.add_argument("--pilot", type=int, default=0, help="draws to fit the factors on; 0: none")
    parser.add_argument("--word", default="amazing")
    parser.add_argument("--max-tokens", type=int, default=30)
    parser.add_argument("--model", default="quasir/smollm2", help="a name, a folder or a hub id")
    parser.add_argument("--out", type=Path, default=Path("runs/amazing"))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    base = qr.text.CausalLM(arguments.model, max_tokens=arguments.max_tokens)
    feature = qr.features.contains(arguments.word, case=False)
    target = base * feature
    forms = {"word": arguments.word, "Word": arguments.word.capitalize()}
    out = arguments.out
    boost = boosted(base, target, feature, arguments.factor, arguments.pilot, out / "boosted")
    if boost.guide.fitted:
        print(f"fitted: share {boost.share:.3f}, {dict(boost.guide.fitted)}", file=sys.stderr)
    proposals = {"plain": base}
    proposals |= {name: base.prompted(p.format(**forms)) for name, p in PROMPTS.items()}
    sizes = dict.fromkeys(proposals, arguments.draws) | {"boosted": arguments.boosted}
    rows = {}
    for name, proposal in ({"boosted": boost} | proposals).items():
        draws = kept_draws(target, proposal, sizes[name], arguments.seed, out / name)
        rows[name] = report(name, proposal, draws)
    table(rows)
    agreement(boost, qr.Draws.load(out / "boosted" / "000"))


def agreement(proposal, draws, n=64):
    """Print how well log_prob agrees with the log q that texts were drawn with."""
    off = np.abs(proposal.log_prob(draws.items[:n]) - draws.log_q[:n])
    print(f"\nlog_prob of {n} drawn texts differs from their log q by at most {off.max():.1e}.")


if __name__ == "__main__":
    main()
