"""What the commands do with a run over contexts: one context of it, or all together."""

from __future__ import annotations

import json as jsonlib
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quasir.cli.bar import Bars, say
from quasir.cli.options import check_asked
from quasir.draws.draws import Draws
from quasir.errors import InputError, QuasirError
from quasir.runs.begun import check_seed
from quasir.runs.contexts.loading import draws_by_context
from quasir.runs.contexts.more import draw_more_of
from quasir.runs.contexts.on_disk import ContextRun, OneContext
from quasir.runs.contexts.one_page import write_context_page
from quasir.runs.contexts.outcome import ContextResult, conclude_context
from quasir.runs.contexts.outputs import sample_lines
from quasir.runs.contexts.pipeline import finish_contexts
from quasir.runs.plan import Plan, plan_run
from quasir.store import locked

__all__ = [
    "Plans",
    "one_of",
    "plan_contexts",
    "refuse_context",
    "report_contexts",
    "sample_contexts",
    "show_contexts",
]


def refuse_context(run: Path, context: int | None) -> None:
    """Refuse --context for a run that has none."""
    if context is not None:
        raise InputError(f"{run} is no run over contexts: leave --context out.")


def opened(run: Path, seed: int | None) -> ContextRun:
    """Open a run over contexts; a seed must be its own."""
    made = ContextRun(run)
    check_seed(made.store, seed)
    return made


def one_of(run: Path, context: int, seed: int | None = None) -> OneContext:
    """Return one context of a run."""
    return opened(run, seed)[context]


def show_contexts(run: Path, json: bool, seed: int | None) -> None:
    """Print what holds over all contexts."""
    made = opened(run, seed)
    if json:
        every = [result.to_dict() for result in made.outcome.results]
        print(jsonlib.dumps({"whole": made.certificate.to_dict(), "contexts": every}))
    else:
        print(made.certificate)


def report_contexts(run: Path, context: int | None, seed: int | None) -> Path:
    """Write the page of a run over contexts, or of one of them; return its path."""
    made = opened(run, seed)
    made.store.numbers()  # without draws there is nothing to report, and nothing to lock
    with locked(run):
        if context is None:
            return finish_contexts(run, Bars()).report
        return write_context_page(made[context])


def found_draws(made: ContextRun, context: int | None) -> dict[int, Draws]:
    """Return the draws of one context, or of all that have any."""
    if context is None:
        return draws_by_context(made.store, made.entries)
    return {context: made[context].draws} if made.store.counts()[context] else {}


def sample_contexts(
    run: Path,
    n: int | None,
    asked: dict[str, float | None],
    context: int | None,
    max_draws: int | None,
    *,
    json: bool,
    code: bool,
    seed: int | None,
) -> None:
    """Print n samples of one context, or of each; by default as many as the recipe says."""
    made = opened(run, seed)
    request = check_asked(asked) or made.recipe.choose.asked
    places = range(len(made)) if context is None else [made[context].place]
    wanted_of_each = n or made.recipe.samples_of_each(len(made))
    found = found_draws(made, context)
    results = []
    for place in places:
        entry, draws = made.entries[place], found.get(place)

        def more(wanted: int, place: int = place) -> Draws:
            with locked(run):
                draw_more_of(run, place, wanted, allow_code=code, reporter=Bars())
            return ContextRun(run)[place].draws

        result = conclude_context(entry, draws, request, wanted_of_each, more=more, most=max_draws)
        if result.unserved is not None:
            say(f"! context {place} is not served: {result.unserved}")
        results.append(result)
    _print_samples(results, json)


def _print_samples(results: list[ContextResult], json: bool) -> None:
    served = [result for result in results if result.unserved is None]
    lines = [line for result in served for line in sample_lines(result)]
    if json:
        every = [result.to_dict() for result in results]
        print(jsonlib.dumps({"contexts": every, "samples": lines}, ensure_ascii=False))
        return
    for line in lines:
        sys.stdout.write(jsonlib.dumps(line, ensure_ascii=False) + "\n")
    if len(served) == 1:
        say(str(served[0].certificate))
    else:
        say(f"{len(lines):,} samples of {len(served):,} contexts")


@dataclass(frozen=True)
class Plans:
    """The plan of each context that can be planned for, and why the others cannot."""

    plans: dict[int, Plan]
    unplanned: dict[int, str]

    @property
    def draws(self) -> float:
        """Draws of all contexts together."""
        return sum(plan.draws.value for plan in self.plans.values())

    @property
    def seconds(self) -> float:
        """Time on one machine for the draws that are missing; NaN if it is not known."""
        known = [plan.seconds.value for plan in self.plans.values() if plan.seconds is not None]
        return sum(known) if len(known) == len(self.plans) else math.nan

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        return {
            "draws": self.draws,
            "seconds": self.seconds if math.isfinite(self.seconds) else None,
            "contexts": {str(place): plan.to_dict() for place, plan in self.plans.items()},
            "unplanned": {str(place): why for place, why in self.unplanned.items()},
        }

    def __str__(self) -> str:
        hours = f"{self.seconds / 3600:.3g}" if math.isfinite(self.seconds) else "unknown"
        lines = [f"{len(self.plans):,} contexts: {self.draws:,.0f} draws in all, {hours} hours"]
        most = sorted(self.plans.items(), key=lambda pair: -pair[1].draws.value)[:10]
        for place, plan in most:
            lines.append(f"  context {place:<9} {plan.draws.value:,.0f} draws")
        if len(self.plans) > len(most):
            lines.append(f"  and {len(self.plans) - len(most):,} with fewer")
        for place, why in list(self.unplanned.items())[:10]:
            lines.append(f"  ! context {place}: {why}")
        if len(self.unplanned) > 10:
            lines.append(f"  ! and {len(self.unplanned) - 10:,} more cannot be planned for")
        return "\n".join(lines)


def plan_contexts(
    run: Path,
    asked: dict[str, float | None],
    context: int | None,
    se: float | None,
    of: str | None,
    share: float,
    seed: int | None,
) -> Plans:
    """Plan for one context, or for all."""
    made = opened(run, seed)
    request = check_asked(asked) or made.recipe.choose.asked
    places = range(len(made)) if context is None else [made[context].place]
    found = found_draws(made, context)
    plans, unplanned = {}, {}
    last: QuasirError | None = None
    for place in places:
        try:
            if place not in found:
                raise InputError(f"context {place} has no draws: nothing can be planned from them.")
            plans[place] = plan_run(made.store, request, se, of, share, pilot=found[place])
        except QuasirError as error:
            unplanned[place], last = str(error), error
    if not plans and last is not None:
        raise last
    return Plans(plans, unplanned)
