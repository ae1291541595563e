"""Functions that several commands share, for existing runs."""

from __future__ import annotations

from pathlib import Path

from quasir.certificates.curve import Curve
from quasir.certificates.tradeoff import tradeoff
from quasir.cli.bar import Bar, say
from quasir.core.arguments import as_log_beta, as_rate
from quasir.errors import InputError
from quasir.estimation.promise import BOUNDS
from quasir.estimation.quantities import QUANTITIES
from quasir.runs.integrity import read_checked
from quasir.store import Store

__all__ = ["check_wish", "given_wish", "streamed", "wish_of"]


def wish_of(
    run: Path, confidence: float | None = None, **wishes: float | None
) -> tuple[dict[str, float], bool]:
    """Return the wish that was given, or the recipe's, and whether it is the recipe's."""
    if given := given_wish(confidence, **wishes):
        return given, False
    if not (run / "recipe.yaml").exists():
        raise InputError(f"{run} has no recipe to choose beta by: give one of {', '.join(wishes)}.")
    return read_checked(run, Store.open(run)).choose.wish, True


def given_wish(confidence: float | None = None, **wishes: float | None) -> dict[str, float]:
    """Return the wish that was given, checked; empty if there is none."""
    given = {name: wish for name, wish in wishes.items() if wish is not None}
    if len(given) > 1:
        raise InputError(f"give one wish, not {' and '.join(given)}.")
    for name, wish in given.items():
        check_wish(name, wish)
    if confidence is not None:
        if not 0 < confidence < 1:
            raise InputError(f"--confidence is {confidence:g}, but must lie between 0 and 1.")
        if not set(given) & set(BOUNDS):
            raise InputError("--confidence goes with a wish that can be promised: --tvd or --kl.")
        given["confidence"] = confidence
    return given


def check_wish(name: str, wish: float) -> None:
    """Refuse a wish that no draws could meet, before any draw is read."""
    if name in ("beta", "log_beta"):
        as_log_beta(**{name: wish})
    elif name == "acceptance_rate":
        as_rate(wish)
    elif not (quantity := QUANTITIES[name]).low <= wish <= quantity.high:
        raise InputError(
            f"{name} is {wish:g}, but must be from {quantity.low:g} to {quantity.high:g}."
        )


def streamed(store: Store, stream: bool) -> Curve:
    """Return the curve of a run, and tell the user if it was streamed."""
    with Bar("summarising") as bar:
        curve = tradeoff(store, stream=stream or None, progress=bar)
    if curve.bin_width:
        seen = curve.tvd.value > 0
        slack = max((curve.tvd_slack[seen] / curve.tvd.value[seen]).tolist(), default=0.0)
        say(
            f"streamed: betas are whole powers of e^{curve.bin_width:g}, and TVD is known to "
            f"within {100 * slack:.2g} % of that of all draws"
        )
    return curve
