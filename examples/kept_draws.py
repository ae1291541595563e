"""Draws that survive a stop, for the examples of a slow model."""

import os
import sys

import quasir as qr

PART = 128
"""Draws of a part, which is drawn whole or not at all."""


def kept_draws(target, proposal, n, seed, folder):
    """Draw n times, in parts; a part that is in the folder is read instead.

    The last part is cut. Part i has the seed `seed` + i, so that a run that was stopped gives the
    same draws.
    """
    parts = []
    for number in range(-(-n // PART)):
        part = folder / f"{number:03}"
        if not part.exists():
            drawn = qr.draw(target, proposal, PART, seed=seed + number, progress=False)
            unfinished = folder / f"unfinished-{os.getpid()}"
            drawn.save(unfinished)
            unfinished.rename(part)
            print(f"{folder.name}: {(number + 1) * PART:,} draws", file=sys.stderr, flush=True)
        parts.append(qr.Draws.load(part))
    return qr.Draws.concatenate(parts).take(range(n))
