"""A base small enough to enumerate, with features to constraint about."""

import numpy as np

import quasir as qr

RNG = np.random.default_rng(0)
SIZE = 50
COUNTS = RNG.integers(1, 60, SIZE)
A = COUNTS / COUNTS.sum()
BASE = qr.Table(dict(enumerate(A)))
FLAGS = {name: RNG.random(SIZE) < share for name, share in (("x", 0.3), ("y", 0.5), ("z", 0.2))}
LEVEL = RNG.normal(10, 4, SIZE)


def column(name, values):
    return qr.Feature(name, lambda items: values[np.asarray(items)], batched=True)


X, Y, Z = (column(name, values) for name, values in FLAGS.items())
SIZE_OF = column("level", LEVEL)


def whole():
    """Draws that hold each item exactly in proportion to the base."""
    code = np.repeat(np.arange(SIZE), COUNTS)
    log_a = np.log(A)[code]
    return qr.Draws.from_arrays(log_a, log_a, items=code, log_base=log_a)
