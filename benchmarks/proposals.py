"""What a search for a proposal finds, and what it takes: `proposal: auto`, measured.

    python -m benchmarks.proposals scientists black-box --draws 40000 --budget 32768

For each case a proposal is searched, with the seconds that this takes, and fresh draws are made
from it. Printed are the acceptance rates at TVD 0.3, 0.1 and 0.02 by the estimate, at the TVD that
the recipe asks for as it is guaranteed, and the accepted samples per second. Next to them stand the
same figures of what the recipe names (``shipped``), and of filtering the base: Z/b_max, at TVD 0.
`amazing` and `coffee` are on a folder with SmolLM2-135M-Instruct (--model).
"""

import argparse
import math
import time
from pathlib import Path

import quasir as qr
from quasir import recipes
from quasir.recipes.building import build, resolve

TVDS = (0.3, 0.1, 0.02)
RECIPES = ("scientists", "sports", "female", "contains")
SCIENCE = qr.features.science
CASES = (*RECIPES, "black-box", "black-box-mean", "amazing", "coffee")


def opaque(text):
    """Return what a black box says: nothing tells which words it looks for."""
    return bool(SCIENCE([text])[0])


def of_recipe(name):
    """Return the target of a built-in recipe, the proposal that it names, and its request."""
    path = recipes.find(name)
    recipe = recipes.read(Path(path))
    built = build(recipe, path.parent)
    _, target = resolve(recipe, built)
    asked = recipe.choose.asked
    shipped = None if built.proposal is built.base else built.proposal
    return target, shipped, asked.get("tvd", 0.1)


def case(name, folder):
    if name in RECIPES:
        return of_recipe(name)
    if name.startswith("black-box"):
        base = qr.text.CausalLM("quasir/biographies", max_tokens=40)
        feature = qr.Feature("opaque", opaque, boolean=True)
        if name == "black-box":
            return base * feature, None, 0.1
        return qr.constrain(base, {feature: 0.5}, n=20_000, seed=0), None, 0.1
    if name == "amazing":
        base = qr.text.CausalLM(str(folder), max_tokens=40, prompt="It was")
        word = qr.features.contains("amazing")
        return base * word, base.guided(qr.guides.boost({word: 40.0}), 0.2), 0.1
    chat = [{"role": "user", "content": "How do you start your day? One sentence."}]
    base = qr.text.CausalLM(str(folder), max_tokens=40, chat=chat)
    word = qr.features.words(["coffee"])
    return base * word, base.guided(qr.guides.boost({word: 10.0}), 0.2), 0.1


def row(name, target, q, n, tvd, seed):
    """Print the figures of one proposal."""
    start = time.perf_counter()
    draws = qr.draw(target, q, n, seed=seed)
    seconds = time.perf_counter() - start
    curve = qr.tradeoff(draws)
    figures = []
    for request in [{"tvd": t} for t in TVDS] + [{"tvd": tvd, "confidence": 0.95}]:
        try:
            figures.append(curve.at(**request).acceptance_rate.value)
        except qr.errors.UnreachableError:
            figures.append(math.nan)
    shown = " ".join(f"{x:8.4f}" for x in figures)
    per_second = figures[-1] * n / seconds
    print(f"  {name:10s} {shown} {per_second:10.2f} {n / seconds:8.0f}", flush=True)
    return figures[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="+", choices=CASES)
    parser.add_argument("--draws", type=int, default=40_000)
    parser.add_argument("--budget", type=int, default=32_768)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", type=Path, help="folder of SmolLM2-135M-Instruct")
    parser.add_argument("--keep", type=Path, help="folder for what was found")
    arguments = parser.parse_args()
    for name in arguments.cases:
        target, shipped, tvd = case(name, arguments.model)
        start = time.perf_counter()
        q = qr.propose(
            target, target.base, arguments.budget, arguments.seed, tvd=tvd, draws=arguments.draws
        )
        seconds = time.perf_counter() - start
        print(f"{name}: searched in {seconds:.0f} s\n{q.record}", flush=True)
        if arguments.keep:
            from quasir.text.found import save_proposal

            arguments.keep.mkdir(parents=True, exist_ok=True)
            save_proposal(q, arguments.keep / f"{name}.safetensors")
        print(f"  acceptance at TVD {TVDS}, guaranteed at {tvd}; accepted and drawn per second")
        draws, seed = arguments.draws, arguments.seed + 1
        row("found", target, q, draws, tvd, seed)
        if shipped is not None:
            row("shipped", target, shipped, draws, tvd, seed)
        row("base", target, target.base, draws, tvd, seed)


if __name__ == "__main__":
    main()
