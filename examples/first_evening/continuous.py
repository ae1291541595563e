"""A continuous space: a banana in two dimensions, with a guarantee and a picture."""

import numpy as np
from matplotlib import pyplot as plt
from scipy import stats

import quasir as qr

base = qr.from_scipy(stats.multivariate_normal([0, 2], [[4, 0], [0, 4]]))
bend = qr.Feature("bend", lambda x: -2 * (x[1] - x[0] ** 2 / 3) ** 2, high=0.0)
draws = qr.draw(base * qr.reward(bend), base, 100_000, seed=0)
cert = qr.tradeoff(draws).at(tvd=0.02, confidence=0.95)
print(cert)
plt.scatter(*np.array(list(draws.samples(cert))).T, s=1)
plt.savefig("banana.png", dpi=100)
