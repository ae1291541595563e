r"""The weights of the gradient: how much each draw counts under each divergence.

Let p = P/Z be the target, pi = pi_theta the tuned network, and D_f the f-divergence

    D_f(pi || p) = sum_x p(x) f(pi(x)/p(x)),    f convex, f(1) = 0,

where a text with p(x) = 0 adds f'(inf) pi(x). Its gradient is (Go et al. 2023, theorem 1)

    grad D_f = sum_x p(x) f'(pi/p) grad pi(x)/p(x) = E_pi[f'(t(x)) grad log pi(x)],  t = pi/p.

It is estimated with two changes.

*Off-policy.* The draws come from m, the mixture of all proposals so far, so each is weighted by
pi(x)/m(x): grad D_f = E_m[(pi/m) f'(t) grad log pi].

*A constant.* E_pi[grad log pi] = grad sum_x pi(x) = 0, so that for every constant B

    grad D_f = -E_m[weight(x) grad log pi(x)],    weight = (pi/m) (B - f'(t)).

Every B is unbiased; two are useful. With ``B = f'(inf)`` texts with P(x) = 0 have weight 0: they
need not be kept or scored, and all weights are >= 0, as in a maximum-likelihood fit. With
``B = f'(1)`` (`centred`) the weight is 0 wherever pi(x) = p(x): the variance of the estimate
vanishes at the optimum. And a draw that is used many times is not memorised, because its weight is
negative once pi(x) is above p(x). But then texts with P(x) = 0 have the weight
-(pi/m) (f'(inf) - f'(1)), so some of them must be kept.

For the forward KL, whose mean weight is E_m[p/m] = 1, the second choice is the usual baseline: it
subtracts pi/m, whose mean is 1 as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.errors import InputError

if TYPE_CHECKING:
    from quasir.tuning.rounds import Pool

__all__ = ["LOSSES"]

Weight = Callable[[Array, Array, Array], Array]


@dataclass(frozen=True)
class Loss:
    """A divergence, defined by the weights of its gradient.

    `plain` and `centred` map (log p, log pi, log m), with p normalised, to the weights with
    B = f'(inf) and B = f'(1). `plain` is None if f'(inf) is infinite: then no draw may have
    P(x) = 0. `needs_pi` says whether the plain weight depends on pi.
    """

    name: str
    plain: Weight | None
    centred: Weight
    needs_pi: bool

    def weight(self, log_p: Array, log_pi: Array, log_m: Array, centred: bool = False) -> Array:
        """Return the weight of each draw; the gradient is -E_m[weight grad log pi]."""
        if centred or self.plain is None:
            return self.centred(log_p, log_pi, log_m)
        return self.plain(log_p, log_pi, log_m)


def kl(log_p: Array, log_pi: Array, log_m: Array) -> Array:
    """Forward KL(p, pi), which is DPG (Khalifa et al. 2021): p/m.

    f(t) = -log t, f'(t) = -1/t, f'(inf) = 0: weight = (pi/m)(0 + p/pi) = p/m, whatever pi is.
    """
    return np.exp(log_p - log_m)


def kl_centred(log_p: Array, log_pi: Array, log_m: Array) -> Array:
    """Forward KL with B = f'(1) = -1: (pi/m)(p/pi - 1) = (p - pi)/m."""
    return np.exp(log_p - log_m) - np.exp(log_pi - log_m)


def reverse_kl_centred(log_p: Array, log_pi: Array, log_m: Array) -> Array:
    """Reverse KL(pi, p): (pi/m) log(p/pi).

    f(t) = t log t, f'(t) = log t + 1, f'(1) = 1: weight = (pi/m)(1 - log t - 1). f'(inf) is
    infinite: a text with P(x) = 0 and pi(x) > 0 makes the divergence itself infinite.
    """
    return np.exp(log_pi - log_m) * (log_p - log_pi)


def tv(log_p: Array, log_pi: Array, log_m: Array) -> Array:
    """Total variation: pi/m where p > pi, else 0.

    f(t) = |t - 1|/2, f'(t) = sign(t - 1)/2, f'(inf) = 1/2: weight = (pi/m)(1/2 - sign(t - 1)/2).
    """
    return np.exp(log_pi - log_m) * _half_step(log_p, log_pi)


def tv_centred(log_p: Array, log_pi: Array, log_m: Array) -> Array:
    """Total variation with B = f'(1) = 0, the middle of the subgradients at 1: +-(pi/m)/2."""
    return np.exp(log_pi - log_m) * (_half_step(log_p, log_pi) - 0.5)


def js(log_p: Array, log_pi: Array, log_m: Array) -> Array:
    """Jensen-Shannon: (pi/m) log(1 + p/pi)/2.

    With M = (p + pi)/2, JS = KL(p, M)/2 + KL(pi, M)/2 has
    f(t) = (t log t - (t + 1) log((t + 1)/2))/2, f'(t) = log(2t/(t + 1))/2, f'(inf) = log(2)/2:
    weight = (pi/m) (log 2 - log(2t/(t + 1)))/2 = (pi/m) log(1 + 1/t)/2.
    """
    reward: Array = 0.5 * np.logaddexp(0.0, log_p - log_pi)
    return np.exp(log_pi - log_m) * reward


def js_centred(log_p: Array, log_pi: Array, log_m: Array) -> Array:
    """Jensen-Shannon with B = f'(1) = 0: (pi/m) (log(1 + p/pi) - log 2)/2."""
    reward: Array = 0.5 * (np.logaddexp(0.0, log_p - log_pi) - np.log(2.0))
    return np.exp(log_pi - log_m) * reward


def _half_step(log_p: Array, log_pi: Array) -> Array:
    """Return 1 where p > pi, 0 where p < pi, and 1/2 where they are equal."""
    step: Array = np.heaviside(np.sign(log_p - log_pi), 0.5)
    return step


LOSSES = {
    "kl": Loss("kl", kl, kl_centred, needs_pi=False),
    "reverse_kl": Loss("reverse_kl", None, reverse_kl_centred, needs_pi=True),
    "tv": Loss("tv", tv, tv_centred, needs_pi=True),
    "js": Loss("js", js, js_centred, needs_pi=True),
}
"""The available divergences, by name."""


def loss_named(name: str) -> Loss:
    """Return a loss by its name."""
    if name not in LOSSES:
        raise InputError(f"loss is {name!r}, but must be one of {', '.join(LOSSES)}.")
    return LOSSES[name]


SHARES = (0.45, 0.45, 0.1)
"""Shares of p, of the proposal and of m in the chances of draws, for centred weights."""


class Minibatches:
    """Minibatches drawn from the pool with unequal chances, and coefficients that correct for them.

    The gradient is -(1/N) sum_i c_i weight_i grad log pi(x_i) over the pool, where draw i stands
    for c_i draws. A minibatch takes draw i with chance s_i, so its coefficient is
    c_i weight_i/(N s_i). The chances are those of p: s_i ~ c_i P(x_i)/m(x_i). Then a coefficient
    is 1 for the forward KL and at most 1 for TV and JS, because (pi/m)/(p/m) = pi/p is bounded
    where the weight is not 0. With centred weights draws with P(x) = 0 also count, in proportion
    to pi. So the chances are then a mixture (`SHARES`): of p, of the proposal, which is near pi,
    and of m, which gives every draw a chance.

    `proposal` is the number of the current proposal, the one nearest to pi. `clip` is an upper
    limit of p/m: it lowers the variance, but the gradient is then that of another target,
    min(p, clip m). `chance` is that of each draw of the pool, and `clipped` the share of p's mass
    that clipping removed.
    """

    def __init__(
        self,
        pool: Pool,
        loss: Loss,
        proposal: int,
        log_z: float,
        centred: bool,
        clip: float | None = None,
    ) -> None:
        self.loss, self.centred = loss, centred
        self.n, self.stands_for, self.log_m = pool.n, pool.stands_for, pool.log_m
        self.log_p = pool.log_p - log_z
        self.clipped = 0.0
        mass = self._mass()
        if clip is not None:
            self.log_p = np.minimum(self.log_p, self.log_m + np.log(clip))
            whole, mass = mass.sum(), self._mass()
            self.clipped = float(1.0 - mass.sum() / whole)
        self.chance = mass / mass.sum()
        if centred or loss.plain is None:
            near = self.stands_for * np.exp(pool.log_q[:, proposal] - self.log_m)
            parts = (self.chance, near / near.sum(), self.stands_for / self.stands_for.sum())
            self.chance = sum(share * part for share, part in zip(SHARES, parts, strict=True))

    def _mass(self) -> Array:
        mass: Array = self.stands_for * np.exp(self.log_p - self.log_m)
        return mass

    def take(self, size: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """Return indices of `size` draws, by systematic sampling from one uniform."""
        cumulative = np.cumsum(self.chance)
        marks = (rng.random() + np.arange(size)) / size * cumulative[-1]
        # Rounding may put the last mark at the very end, where a draw may have chance 0.
        last = int(np.flatnonzero(self.chance)[-1])
        taken: NDArray[np.intp] = np.searchsorted(cumulative, marks, side="right")
        return taken.clip(max=last)

    def coefficients(self, index: NDArray[np.intp], log_pi: Array) -> Array:
        """Return the coefficients of the chosen draws; `log_pi` matters only if `needs_pi`."""
        weight = self.loss.weight(self.log_p[index], log_pi, self.log_m[index], self.centred)
        counted: Array = self.stands_for[index] * weight / (self.n * self.chance[index])
        return counted

    @property
    def needs_pi(self) -> bool:
        """Whether the coefficients depend on pi."""
        return self.loss.needs_pi or self.centred
