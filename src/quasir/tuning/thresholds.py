"""When a run begins, changes its ways, and is given up; and what is said then."""

from __future__ import annotations

from quasir.tuning.rounds import Rounds

__all__ = [
    "COLLAPSED",
    "ENOUGH",
    "FEW",
    "FRUITLESS",
    "LOST",
    "NEAR",
    "SCARCE",
    "collapsed",
    "few",
    "never_met",
]

ENOUGH = 200.0
"""Effective draws to begin with: with fewer the first steps follow a handful of texts."""

FEW = 50.0
"""Effective draws below which a run that begins is warned about."""

COLLAPSED = 5.0
"""Effective draws at which there is nothing left to learn but a few texts by heart."""

SCARCE, NEAR = 500.0, 0.3
"""Effective draws below which, and TVD(p, pi) below which, weights are centred.

Draws that are few are learnt by heart: fitted to 290 of the built-in model with an adapter, pi got
to KL 1.94 with plain weights and 1.76 with centred ones; fitted to an effective 1,500, from 1.56 to
1.52 and 1.55. And per text of a minibatch plain weights have the variance of p, centred ones
about sum (p - pi)^2/(0.45 (p + pi)) times that, which is at most 2 TVD/0.45.
"""

FRUITLESS = 2
"""Evaluations without an improvement that end a round: fresh draws help then, more steps do not."""

LOST = 10.0
"""Nats that KL(p, pi) may be above its double at the start before the run is given up."""


def never_met(rounds: Rounds) -> str:
    """Say that no draw, or too few, had P(x) > 0."""
    return (
        f"the target was met by {rounds.possible:,} of {rounds.drawn:,} draws, too few to learn "
        "from: every gradient would be zero. Begin with a prompt or a model that meets it more "
        "often (warm_start=...), tune first towards a weaker target, such as "
        "base * qr.tilt(feature, 3), or raise give_up."
    )


def few(rounds: Rounds) -> str:
    """Say that there is little to begin with."""
    return (
        f"{rounds.drawn:,} draws are worth only {rounds.ess:.0f} of the target: the first steps "
        "will follow a handful of texts. A warm start helps."
    )


def collapsed(rounds: Rounds) -> str:
    """Say that the weights have collapsed."""
    return (
        f"of {rounds.possible:,} draws with P(x) > 0 a handful have all the weight (an effective "
        f"{rounds.ess:.2f} draws): pi would learn those texts by heart. A proposal nearer to the "
        "target (warm_start=...) or more draws a round help"
    )
