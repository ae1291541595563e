"""What a search for a proposal finds, and what it takes: `proposal: auto`, measured.

    python -m benchmarks.proposals                      # all cases
    python -m benchmarks.proposals scientists black-box --draws 40000 --budget 4min

For each case a proposal is searched, with the seconds that this takes, and fresh draws are made
from it. Printed are the acceptance rates at TVD 0.3, 0.1 and 0.02 by the estimate, at the TVD that
the recipe asks for as it is guaranteed, and the accepted samples and the draws per second. Next to
them stand the same figures of what the recipe names (``shipped``; for SmolLM2, a boost that was set
by hand), or, where it names nothing, of the base. The last line compares the guaranteed rates, per
draw and per second; filtering the base is Z/b_max, at TVD 0.
"""

import argparse
import math
import time
from pathlib import Path

import quasir as qr
from quasir import recipes
from quasir.recipes.building import build, resolve
from quasir.text.found import save_proposal

TVDS = (0.3, 0.1, 0.02)
RECIPES = ("scientists", "sports", "female", "contains")
BLACK_BOXES = ("black-box", "sentiment")
SMOLLM2 = ("amazing", "coffee")
CASES = (*RECIPES, *BLACK_BOXES, *SMOLLM2)
DRAWS, BUDGET = 40_000, 32_768
SLOW_DRAWS, SLOW_BUDGET = 4_096, 4_096  # for SmolLM2: half an hour of search on two cores
SCIENCE = qr.features.science


def opaque(text):
    """Return what a black box says: nothing tells which words it looks for."""
    return bool(SCIENCE([text])[0])


def of_recipe(name):
    """Return the target of a built-in recipe, the proposal that it names, and its TVD."""
    path = recipes.find(name)
    recipe = recipes.read(Path(path))
    built = build(recipe, path.parent)
    _, target = resolve(recipe, built)
    shipped = None if built.proposal is built.base else built.proposal
    return target, shipped, recipe.choose.asked.get("tvd", 0.1)


def case(name):
    """Return target, shipped proposal and TVD of a case."""
    if name in RECIPES:
        return of_recipe(name)
    if name == "black-box":
        base = qr.text.CausalLM("quasir/biographies", max_tokens=40)
        return base * qr.Feature("opaque", opaque, boolean=True), None, 0.1
    if name == "sentiment":
        base = qr.text.CausalLM("quasir/general", max_tokens=40)
        bad = qr.features.classifier("quasir/sentiment", label="NEGATIVE", above=0.5)
        return qr.constrain(base, {bad: 0.5}, n=8_000, seed=0), None, 0.1
    how = {"prompt": "It was"}, qr.features.contains("amazing"), 40.0
    if name == "coffee":
        chat = [{"role": "user", "content": "How do you start your day? One sentence."}]
        how = {"chat": chat}, qr.features.words(["coffee"]), 10.0
    before, word, factor = how
    base = qr.text.CausalLM("quasir/smollm2", max_tokens=40, **before)
    return base * word, base.guided(qr.guides.boost({word: factor}), 0.2), 0.1


def row(name, target, q, n, tvd, seed):
    """Print the figures of one proposal; return the guaranteed rate, draws per second, curve."""
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
    speed = n / seconds
    print(f"  {name:10s} {shown} {figures[-1] * speed:10.2f} {speed:8.0f}", flush=True)
    return figures[-1], speed, curve


def measure(name, arguments):
    """Search, draw and print one case."""
    target, shipped, tvd = case(name)
    slow, seed = name in SMOLLM2, arguments.seed
    draws = arguments.draws or (SLOW_DRAWS if slow else DRAWS)
    budget = arguments.budget or (SLOW_BUDGET if slow else BUDGET)
    start, cpu = time.perf_counter(), time.process_time()
    q = qr.propose(target, target.base, budget, seed, tvd=tvd, draws=draws)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(f"{name}: searched in {seconds:.0f} s ({cpu:.0f} of the CPU)\n{q.record}", flush=True)
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        save_proposal(q, arguments.keep / f"{name}.safetensors")
    print(f"  acceptance at TVD {TVDS}, guaranteed at {tvd}; accepted and drawn per second")
    rate, speed, _ = row("found", target, q, draws, tvd, seed + 1)
    if shipped is not None:
        kind, (other, its_speed, _) = (
            "shipped",
            row("shipped", target, shipped, draws, tvd, seed + 1),
        )
    else:
        kind, (_, its_speed, curve) = (
            "filtering",
            row("base", target, target.base, draws, tvd, seed + 1),
        )
        other = curve.at(tvd=0).acceptance_rate.value
    ratio = rate / other
    print(
        f"  found/{kind}: {ratio:.2f} per draw, {ratio * speed / its_speed:.2f} per second",
        flush=True,
    )


def main():
    """Measure the cases that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help=", ".join(CASES))
    parser.add_argument("--draws", type=int)
    parser.add_argument("--budget", help="draws, or a time such as 4min")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for what was found")
    arguments = parser.parse_args()
    if unknown := set(arguments.cases) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    for name in arguments.cases or CASES:
        measure(name, arguments)


if __name__ == "__main__":
    main()
