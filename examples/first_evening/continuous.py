"""Continuous spaces: a banana-shaped density in two dimensions, and a picture."""

import numpy as np
from matplotlib import pyplot as plt

import quasir as qr


class Wide:
    """A Gaussian that covers the banana."""

    def sample(self, n, rng):
        """Draw n points."""
        points = rng.normal([0, 2], [3, 3], size=(n, 2))
        return points, self.log_prob(points)

    def log_prob(self, points):
        """Return their log-densities."""
        return (-0.5 * ((points - [0, 2]) / 3) ** 2 - np.log(3 * np.sqrt(2 * np.pi))).sum(axis=1)


def banana(points):
    """Return the log of an unnormalised density."""
    x, y = points.T
    return -(x**2) / 4 - 2 * (y - x**2 / 3) ** 2


draws = qr.draw(banana, Wide(), 100_000, seed=0)
cert = qr.tradeoff(draws).at(tvd=0.02)
print(cert)
plt.scatter(*np.array(list(draws.samples(cert))).T, s=1, label=f"samples, TVD {cert.tvd}")
plt.legend()
plt.savefig("banana.png", dpi=120)
