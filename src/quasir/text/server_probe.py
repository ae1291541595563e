"""The probe of a server: whether its log-probabilities are true, before anything rests on them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from textwrap import fill
from typing import Any

import numpy as np
from scipy import stats

from quasir.draws.draw_blocks import tvd_of_noise
from quasir.errors import InputError, ServerError
from quasir.text.server_kinds import Drawn, Protocol, Sampling

FIRST, TEXTS, TOKENS = 400, 6, 24
"""First tokens that are counted; texts that are scored again, and their most tokens."""
FALSE_ALARM = 1e-6
"""Chance that a server is refused by its first tokens, although it is honest."""
EXPECTED = 5.0  # least expected count of a cell of the chi-square
CERTAIN = 0.9
"""Where one token has more than this, first tokens say little: another prompt is counted."""
WRONG = 0.1  # nats per token: no rounding makes log a of given ids differ by so much
UNSEEN = 0.05  # nats per token: a setting that changes less is not in the numbers


@dataclass(frozen=True)
class Check:
    """One thing that was measured: passed, failed, or neither (None)."""

    name: str
    passed: bool | None
    said: str


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What was measured, what the server is good for, and what is wrong with it."""

    server: str
    model: str
    checks: tuple[Check, ...]
    good_for: tuple[str, ...]
    faults: tuple[str, ...]
    mismatch: float
    """The most that log a of given ids differed from log q of the same draw, in nats per text."""

    @property
    def verdict(self) -> str:
        """What it is good for, in words."""
        if len(self.good_for) == 2:
            return "good as a base and as a proposal"
        return f"good as a {self.good_for[0]} only" if self.good_for else "refused"

    def lines(self) -> list[str]:
        """Return the report of a terminal."""
        marks = {True: "ok", False: "WRONG", None: "-"}
        rows = [("model", "", self.model.rpartition("/")[2])]
        rows += [(check.name, marks[check.passed], check.said) for check in self.checks]
        lines = [f"  {name:<18} {mark:<5} {said}" for name, mark, said in rows]
        shown = [fill(line, 80, subsequent_indent=27 * " ") for line in lines]
        return [f"{self.server}: {self.verdict}", *shown]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        return asdict(self) | {"verdict": self.verdict}


class Prober:
    """Measures a server by five checks, as it would be used: after a prefix, with some settings."""

    def __init__(self, protocol: Protocol, prefix: list[int], sampling: Sampling) -> None:
        self.protocol, self.prefix, self.sampling = protocol, prefix, sampling
        self.client, self.end = protocol.client, protocol.end or 0
        self.open = prefix  # a prefix after which several tokens are likely
        limit = min(sampling.max_tokens, TOKENS)
        self.own = Sampling(limit) if sampling.cuts else replace(sampling, max_tokens=limit)
        self.checks: list[Check] = []
        self.faults: dict[str, list[str]] = {"base": [], "proposal": []}

    def run(self) -> Probe:
        """Return what was measured."""
        bias = self._first_tokens()
        texts = self._draw(self.prefix, self.own, range(TEXTS))
        alone = [self._draw(self.prefix, self.own, [0])[0] for _ in range(2)]
        mismatch = self._given([*texts, *alone])
        self._batch(texts[0], *alone)
        self._settings(bias, math.isfinite(mismatch))
        forced = self._draw(self.prefix, Sampling(2, logit_bias=((self.end, 100.0),)), [0])[0]
        passed = forced.ended and forced.ids == [self.end] and not np.isnan(forced.log_q).any()
        wrong = f"token {self.end} does not end a text, or is not counted"
        self._add("end of a text", passed, "counted" if passed else wrong, "base", "proposal")
        faults = dict.fromkeys(fault for part in self.faults.values() for fault in part)
        return Probe(
            server=f"{self.protocol.title} at {self.client.root}",
            model=self.protocol.model,
            checks=tuple(self.checks),
            good_for=tuple(use for use, faults in self.faults.items() if not faults),
            faults=tuple(faults),
            mismatch=mismatch,
        )

    def _draw(self, prefix: list[int], sampling: Sampling, seeds: Iterable[int]) -> list[Drawn]:
        drawn = self.client.map(lambda seed: self.protocol.draw(prefix, sampling, seed), seeds)
        for draw in drawn:  # an entry that is absent is not known
            draw.log_q.extend([math.nan] * (len(draw.ids) - len(draw.log_q)))
        return drawn

    def _apart(self, texts: list[Drawn], prefix: list[int], sampling: Sampling) -> Any:
        """Return log-probabilities of draws, scored as given ids, less log q."""

        def score(drawn: Drawn) -> float:
            ids, n = drawn.ids, len(drawn.ids)
            ids = ids[:-1] if drawn.ended and ids[-1] == self.end else ids
            return self.protocol.log_q(prefix, ids, n, sampling)

        return np.array(self.client.map(score, texts)) - [math.fsum(t.log_q) for t in texts]

    def _add(self, name: str, passed: bool | None, said: str, *spoilt: str) -> None:
        self.checks.append(Check(name, passed, said))
        for use in spoilt if passed is False else ():
            self.faults[use].append(f"{said[0].upper()}{said[1:]}.")

    def _first_tokens(self) -> tuple[int, float]:
        """Compare first tokens with what was reported of them; return a bias that is seen."""
        for prefix in (self.prefix, [self.end]):
            self.open = prefix
            drawn = self._draw(prefix, replace(self.sampling, max_tokens=1), range(FIRST))
            count = Counter(draw.ids[0] for draw in drawn)
            told: dict[int, list[float]] = defaultdict(list)
            for draw in drawn:
                told[draw.ids[0]].append(math.exp(min(draw.log_q[0], 1.0)))
            share = {token: float(np.nan_to_num(np.mean(ps))) for token, ps in told.items()}
            if max(share.values()) < CERTAIN and max(count.values()) < CERTAIN * FIRST:
                break
        p_value, total = _chi_square(count, share)
        said = f"{FIRST} first tokens, {len(count)} different: p = {p_value:.2g}"
        if total > 1.001:
            said = f"{said}; their probabilities add up to {total:.4g}"
        passed = p_value > FALSE_ALARM and total <= 1.001
        said = said if passed else f"the reported log q is not what is drawn from ({said})"
        self._add("log q of draws", passed, said, "base", "proposal")
        likely = count.most_common(1)[0][0]
        return likely, -4.0 if share[likely] > 0.5 else 4.0

    def _given(self, texts: list[Drawn]) -> float:
        """Score draws as given ids; return the most that they differ, or infinity."""
        name = "log a of given ids"
        try:
            apart = np.abs(self._apart(texts, self.prefix, self.own))
        except (ServerError, InputError) as error:
            self._add(name, False, f"given ids cannot be scored: {error}", "base")
            return math.inf
        apart[np.isnan(apart)] = np.inf
        most, tokens = float(apart.max()), sum(len(draw.ids) for draw in texts)
        said = f"off by at most {most:.2g} nats a text: TVD + {tvd_of_noise(most):.2g}"
        passed = bool(apart.sum() <= WRONG * tokens)
        said = said if passed else f"given ids are not scored by what draws ({said})"
        self._add(name, passed, said, "base")
        return most

    def _batch(self, among: Drawn, one: Drawn, two: Drawn) -> None:
        """Compare a seed among others and alone, twice."""
        name, same = "a seed in a batch", one.ids == two.ids == among.ids
        said = "a seed gives two texts, even alone: a run cannot be repeated, or resumed"
        if same:
            most = np.abs(np.subtract(one.log_q, among.log_q)).max()
            said = f"the same text as alone; log q differs by {most:.2g}"
        elif one.ids == two.ids:
            said = "another text than alone: draws are right, but a resumed run may differ"
        self._add(name, True if same else None, said)

    def _settings(self, bias: tuple[int, float], can_score: bool) -> None:
        """Look for temperature, top-p and a bias in the numbers."""
        some = Sampling(min(self.own.max_tokens, 12))
        tried = {
            "temperature": replace(some, temperature=0.6),
            "top_p": replace(some, top_p=0.5),
            "logit_bias": Sampling(1, logit_bias=(bias,)),
        }
        used = [*self.sampling.used, *(["top_p"] if self.sampling.top_k else [])]
        for name, sampling in tried.items():
            passed: bool | None = None
            if not can_score:
                said = "not known, because given ids cannot be scored"
            elif name in self.protocol.leaves_out:
                said = "not in log q: refused"
            else:
                texts = self._draw(self.open, sampling, range(TEXTS))
                moved = np.abs(self._apart(texts, self.open, Sampling(sampling.max_tokens))).sum()
                seen = moved > UNSEEN * sum(len(draw.ids) for draw in texts)
                said = "in log q" if seen else f"{name} is not in log q, so log q is not the draw's"
                passed = True if seen else (False if name in used else None)
            self._add(name, passed, said, "proposal", "base")


def _chi_square(count: Counter[int], share: dict[int, float]) -> tuple[float, float]:
    """Return the p-value of the counts, and the sum of the probabilities of what was drawn."""
    n = count.total()
    large = [token for token in count if n * share[token] >= EXPECTED]
    expected = np.array([n * share[token] for token in large] + [0.0])
    observed = np.array([count[token] for token in large] + [0])
    expected[-1], observed[-1] = n - expected.sum(), n - observed.sum()
    total = math.fsum(share.values())
    if expected[-1] < 1e-3 * n:  # what is left is rounding
        if observed[-1] > EXPECTED + 10 * max(expected[-1], 0.0):
            return 0.0, total
        expected, observed = expected[:-1], observed[:-1]
    if len(expected) < 2:
        return 1.0, total
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, len(expected) - 1)), total
