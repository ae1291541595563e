"""Targets: lazy scoring, and the fit of lambda."""

import time

import numpy as np

import quasir as qr
from benchmarks.show import best

COST = 1e-3


class Slow:
    """A base that costs a millisecond an item."""

    def __init__(self, table):
        self.table = table

    def log_prob(self, items):
        time.sleep(COST * len(items))
        return self.table.log_prob(items)


class Eager:
    """The same target without laziness: the base scores every item."""

    def __init__(self, product):
        self.product = product

    def log_score(self, items):
        return self.product.scores(items, log_base=self.product.base.log_prob(items)).log_p


def rows():
    proposal = qr.Table({f"text {i}": 1 / 50 for i in range(50)})
    product = Slow(proposal) * qr.features.words(["7"], name="seven")  # one in 50 fires
    n = 4096
    lazy = best(lambda: qr.draw(product, proposal, n, seed=0), 2)
    eager = best(lambda: qr.draw(Eager(product), proposal, n, seed=0), 1)
    yield (
        "lazy scoring: times cheaper, 2 % possible, 1 ms an item",
        eager / lazy,
        ">= 20",
        f"{n} draws: {lazy:.3f} s against {eager:.3f} s",
    )
    rng = np.random.default_rng(0)
    columns = {"a": rng.random(10**6) < 0.1, "b": rng.random(10**6) < 0.5}
    columns |= {"c": rng.normal(5, 2, 10**6), "d": rng.gamma(2.0, 3.0, 10**6)}
    log_a = np.zeros(10**6)
    draws = qr.Draws.from_arrays(log_a, log_a, log_base=log_a, features=columns)
    features = {name: qr.Feature(name, len) for name in columns}
    constraints = {features["a"]: 0.5, features["b"]: 0.3, features["c"]: 6.0, features["d"]: 5.0}
    base = qr.Table({"any": 1.0})  # its scores are in the draws
    seconds = best(lambda: qr.constrain(base, constraints, draws=draws))
    yield (
        "lambda: seconds for 1 million draws and 4 features",
        seconds,
        "<= 2",
        "two boolean, two real",
    )
