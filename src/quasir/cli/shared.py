"""Functions that several commands share, for existing runs."""

from __future__ import annotations

from pathlib import Path

from quasir import recipes
from quasir.certificates.curve import Curve
from quasir.certificates.tradeoff import tradeoff
from quasir.cli.bar import Bar, say
from quasir.errors import InputError
from quasir.store import Store

__all__ = ["existing", "streamed", "wish_of"]


def existing(run: Path) -> Path:
    """Return the folder of an existing run; checked here because a lock would make the folder."""
    Store.open(run)
    return run


def wish_of(run: Path, **wishes: float | None) -> dict[str, float]:
    """Return the wish that was given, or the recipe's."""
    given = {name: wish for name, wish in wishes.items() if wish is not None}
    if len(given) > 1:
        raise InputError(f"give one wish, not {' and '.join(given)}.")
    if given:
        return given
    if not (run / "recipe.yaml").exists():
        raise InputError(f"{run} has no recipe to choose beta by: give one of {', '.join(wishes)}.")
    return recipes.read(run / "recipe.yaml").choose.wish


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
