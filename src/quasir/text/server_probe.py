"""The probe of a server: whether its log-probabilities are true, before anything rests on them.

Five checks: first tokens are counted and compared with the probabilities that were reported; draws
are scored again as given ids; a seed is drawn alone and among others; temperature, top-p and bias
are looked for in the numbers; and the end of a text must be counted.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from quasir.draws.noise import tvd_of_noise
from quasir.errors import InputError, ServerError
from quasir.text.server_client import Client
from quasir.text.server_kinds import Drawn, Protocol, Sampling

FIRST, TEXTS, TOKENS = 400, 6, 24
"""First tokens that are counted; texts that are scored again, and their most tokens."""
FALSE_ALARM = 1e-6
"""Chance that a server is refused by its first tokens, although it is honest."""
EXPECTED = 5.0  # least expected count of a cell of the chi-square
CERTAIN = 0.9
"""Where one token has more than this, first tokens say little: another prompt is counted."""
WRONG = 0.2  # nats per token: no rounding makes log a of given ids differ by so much
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
        rows = [
            f"  {check.name:<20} {marks[check.passed]:<6} {check.said}" for check in self.checks
        ]
        return [f"{self.server}, model {self.model}: {self.verdict}", *rows]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        return asdict(self) | {"verdict": self.verdict}


def probe_server(
    client: Client, protocol: Protocol, prefix: Sequence[int], sampling: Sampling
) -> Probe:
    """Measure a server, as it would be used: after this prefix, with these settings."""
    return _Prober(client, protocol, list(prefix), sampling).run()


class _Prober:
    def __init__(
        self, client: Client, protocol: Protocol, prefix: list[int], sampling: Sampling
    ) -> None:
        self.client, self.protocol, self.prefix, self.sampling = client, protocol, prefix, sampling
        self.plain = Sampling(min(sampling.max_tokens, TOKENS))  # the model itself
        self.open = prefix  # a prefix after which several tokens are likely
        self.checks: list[Check] = []
        self.faults: dict[str, list[str]] = {"base": [], "proposal": []}

    def run(self) -> Probe:
        bias = self._first_tokens()
        texts = self._draw(self.prefix, self.plain, range(TEXTS))
        differences = self._given(texts)
        self._batch(texts)
        self._settings(bias, differences is not None)
        self._end()
        mismatch = math.inf if differences is None else float(np.abs(differences).max())
        good_for = tuple(use for use, faults in self.faults.items() if not faults)
        faults = dict.fromkeys(fault for part in self.faults.values() for fault in part)
        return Probe(
            server=f"{self.protocol.kind.title} at {self.client.root}",
            model=self.protocol.model,
            checks=tuple(self.checks),
            good_for=good_for,
            faults=tuple(faults),
            mismatch=mismatch,
        )

    def _draw(self, prefix: list[int], sampling: Sampling, seeds: Sequence[int]) -> list[Drawn]:
        drawn = self.client.map(lambda seed: self.protocol.draw(prefix, sampling, seed), seeds)
        for draw in drawn:  # an entry that is absent is not known
            draw.log_q.extend([math.nan] * (len(draw.ids) - len(draw.log_q)))
        return drawn

    def _score(self, drawn: Drawn, prefix: list[int]) -> float:
        """Return log a of the ids of a draw, as given ones; with the end, if it ended so."""
        ids = drawn.ids[:-1] if drawn.ended and drawn.ids[-1] == self.protocol.end else None
        if ids is not None:
            return self.protocol.score(prefix, ids, len(ids) + 1)
        return self.protocol.score(prefix, drawn.ids, len(drawn.ids))

    def _add(self, name: str, passed: bool | None, said: str, *spoilt: str) -> None:
        self.checks.append(Check(name, passed, said))
        for use in spoilt if passed is False else ():
            self.faults[use].append(f"{said[0].upper()}{said[1:]}.")

    def _first_tokens(self) -> tuple[int, float]:
        """Compare first tokens with what was reported of them; return a bias that is seen."""
        one = replace(self.sampling, max_tokens=1)
        end = self.protocol.end
        assert end is not None
        for prefix in (self.prefix, [end]):
            self.open = prefix
            drawn = self._draw(prefix, one, range(FIRST))
            count = Counter(draw.ids[0] for draw in drawn)
            told: dict[int, list[float]] = defaultdict(list)
            for draw in drawn:
                told[draw.ids[0]].append(math.exp(min(draw.log_q[0], 1.0)))
            share = {token: float(np.nan_to_num(np.mean(ps))) for token, ps in told.items()}
            if max(share.values()) < CERTAIN and max(count.values()) < CERTAIN * FIRST:
                break
        p_value, total = _chi_square(count, share)
        said = f"{FIRST} first tokens, {len(count)} different: chi-square p = {p_value:.2g}"
        passed = p_value > FALSE_ALARM
        if total > 1.001:
            passed, said = False, f"{said}, and their probabilities add up to {total:.4g}"
        if not passed:
            said = f"the reported log q is not what is drawn from ({said})"
        self._add("log q of draws", passed, said, "base", "proposal")
        likely = count.most_common(1)[0][0]
        return likely, -4.0 if share[likely] > 0.5 else 4.0

    def _given(self, texts: list[Drawn]) -> np.ndarray[Any, Any] | None:
        """Score draws as given ids; return how much larger log a is, or None."""
        try:
            again = self.client.map(lambda draw: self._score(draw, self.prefix), texts)
        except (ServerError, InputError) as error:
            self._add("log a of given ids", False, f"given ids cannot be scored: {error}", "base")
            return None
        difference = np.array(again) - [math.fsum(draw.log_q) for draw in texts]
        tokens = sum(len(draw.ids) for draw in texts)
        difference[np.isnan(difference)] = np.inf
        most = float(np.abs(difference).max())
        said = (
            f"{len(texts)} draws, scored again, differ by {np.abs(difference).mean():.2g} nats per "
            f"text, at most {most:.2g}, which adds {tvd_of_noise(most):.2g} to a TVD"
        )
        passed = bool(np.abs(difference).sum() <= WRONG * tokens)
        if not passed:
            said = f"given ids are scored by something else than what draws ({said})"
        self._add("log a of given ids", passed, said, "base")
        return difference

    def _batch(self, texts: list[Drawn]) -> None:
        alone = [self.protocol.draw(self.prefix, self.plain, 0) for _ in range(2)]
        if alone[0].ids != alone[1].ids:
            said = "the same seed gave two different texts: a run cannot be repeated, or resumed"
            self._add("a seed alone", None, said)
            return
        both = zip(alone[0].ids, texts[0].ids, strict=False)
        same = next((i for i, (a, b) in enumerate(both) if a != b), None)
        n = min(len(alone[0].ids), len(texts[0].ids)) if same is None else same
        pairs = zip(alone[0].log_q[:n], texts[0].log_q[:n], strict=False)
        apart = max((abs(a - b) for a, b in pairs), default=0.0)
        if same is None:
            said = f"the same text alone and among {len(texts)}; log q differs by {apart:.2g}"
            self._add("a seed in a batch", True, said)
        else:
            said = (
                f"another text among {len(texts)}, from token {same} on: draws are right, but a "
                "run that was stopped may go on with other texts"
            )
            self._add("a seed in a batch", None, said)

    def _settings(self, bias: tuple[int, float], can_score: bool) -> None:
        """Look for temperature, top-p and a bias in the numbers."""
        if not can_score:
            self._add("settings seen", None, "not known, because given ids cannot be scored")
            return
        two = Sampling(min(self.plain.max_tokens, 12))
        tried = {
            "temperature": replace(two, temperature=0.6),
            "top_p": replace(two, top_p=0.5),
            "logit_bias": Sampling(1, logit_bias=(bias,)),
        }
        used = {
            "temperature": self.sampling.temperature != 1,
            "top_p": self.sampling.cuts,
            "logit_bias": bool(self.sampling.logit_bias),
        }
        for name, sampling in tried.items():
            try:
                self.protocol.check(sampling)
            except InputError as error:
                self._add(f"{name} seen", None, f"refused: {error}")
                continue
            texts = self._draw(self.open, sampling, range(TEXTS))
            raw = self.client.map(lambda draw: self._score(draw, self.open), texts)
            pairs = zip(texts, raw, strict=True)
            moved = sum(abs(math.fsum(draw.log_q) - score) for draw, score in pairs)
            seen = moved > UNSEEN * sum(len(draw.ids) for draw in texts)
            said = "in log q" if seen else f"{name} is not in log q, so it is not that of the draw"
            passed = True if seen else (False if used[name] else None)
            self._add(f"{name} seen", passed, said, "proposal", "base")

    def _end(self) -> None:
        end = self.protocol.end
        assert end is not None
        forced = self.protocol.draw(self.prefix, Sampling(2, logit_bias=((end, 100.0),)), 0)
        passed = forced.ended and forced.ids == [end] and len(forced.log_q) == 1
        said = "has its entry" if passed else f"token {end} does not end a text, or is not counted"
        self._add("the end of a text", passed, said, "base", "proposal")


def _chi_square(count: Counter[int], share: dict[int, float]) -> tuple[float, float]:
    """Return the p-value of the counts, and the sum of the probabilities of what was drawn.

    Tokens whose expected count is small are one cell, with all those that were not drawn.
    """
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
