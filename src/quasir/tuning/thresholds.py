"""Thresholds at which a run starts, changes its weights or ends, and the messages for them."""

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
    "no_better",
]

ENOUGH = 200.0
"""Effective draws to start with: with fewer, the first steps follow a handful of texts."""

FEW = 50.0
"""Effective draws below which the start of a run gives a warning."""

COLLAPSED = 5.0
"""Effective draws below which a run ends: the policy could only memorise a few texts."""

SCARCE, NEAR = 500.0, 0.3
"""Weights are centred below this many effective draws, or below this TVD(p, pi).

Few draws are memorised: an adapter fitted to 290 draws of the built-in model reached KL 1.94 with
plain weights and 1.76 with centred ones; fitted to an effective 1,500 draws it went from 1.56 to
1.52 and 1.55. Per text of a minibatch plain weights have the variance of p, and centred ones about
sum (p - pi)^2/(0.45 (p + pi)) times that, which is at most 2 TVD/0.45.
"""

FRUITLESS = 2
"""Evaluations without improvement that end a round: then only new draws help, not more steps."""

LOST = 10.0
"""A run is given up once KL(p, pi) exceeds twice its starting value plus this many nats."""


def never_met(rounds: Rounds) -> str:
    """Return the message for a run in which too few draws, or none, have P(x) > 0."""
    return (
        f"the target was met by {rounds.possible:,} of {rounds.drawn:,} draws, too few to learn "
        "from: every gradient would be zero. Start with a prompt or a model that meets it more "
        "often (warm_start=...), tune first towards a weaker target, such as "
        "base * qr.tilt(feature, 3), or raise give_up."
    )


def few(rounds: Rounds) -> str:
    """Return the warning for a run that starts with few effective draws."""
    return (
        f"{rounds.drawn:,} draws are worth only {rounds.ess:.0f} draws of the target: the first "
        "steps will follow a handful of texts. A warm start helps."
    )


def collapsed(rounds: Rounds) -> str:
    """Return the message for weights that lie on a handful of draws."""
    return (
        f"of {rounds.possible:,} draws with P(x) > 0 a handful have all the weight (an effective "
        f"{rounds.ess:.2f} draws): pi would memorise those texts. A proposal nearer to the target "
        "(warm_start=...) or more draws a round help"
    )


def no_better(steps: int) -> str:
    """Return the warning for a run that never improved on the base."""
    return (
        f"no evaluation in {steps} steps was better than the base, so the proposal is the base "
        "itself. Lower the rate, or take more draws a round."
    )
