"""Where P(x) = 0, a mixture of language models leaves out the passes that would find log q."""

import numpy as np
import pytest

import quasir as qr
from quasir.core.streams import BLOCK
from quasir.draws.draw_blocks import CHECKED

LETTERS = qr.Feature("early", lambda x: x < "c", boolean=True)
N = 3 * BLOCK


class Costly:
    """A table that says it has a tokenizer, as a language model does, and counts what it scores."""

    tokenizer = "of a model"
    prefix_stable = True

    def __init__(self, table):
        self.table, self.scored = qr.Table(table), 0

    def sample(self, n, rng):
        return self.table.sample(n, rng)

    def log_prob(self, items):
        self.scored += len(items)
        return self.table.log_prob(items)


class Plain(Costly):
    """The same without a tokenizer: scoring is free, and nothing is left out."""

    tokenizer = None


def early(items):
    """Return log scores: a target that is not made of a base."""
    return np.array([0.0 if x < "c" else -np.inf for x in items])


def setting(kind=Costly):
    base = kind({"a": 4, "b": 3, "c": 2, "d": 5})
    tuned = kind({"a": 1, "b": 6, "c": 1, "d": 1})
    return base, qr.Mixture([tuned, base], [0.7, 0.3])


def test_every_possible_draw_has_its_log_q():
    base, q = setting()
    draws = qr.draw(base * LETTERS, q, N, seed=0)
    possible = draws.features["early"]
    np.testing.assert_allclose(draws.log_q[possible], q.log_prob(draws.items)[possible], rtol=1e-12)
    np.testing.assert_array_equal(draws.log_p > -np.inf, possible)
    left_out = ~possible & (np.arange(N) >= CHECKED)
    assert np.isnan(draws.log_q[left_out]).all()
    assert left_out.sum() > 500
    assert (draws.log_ratio[~possible] == -np.inf).all()


def test_what_is_left_out_is_not_scored():
    base, q = setting()
    tuned = q.components[0]
    for target in (base * LETTERS, early):
        base.scored = tuned.scored = 0
        draws = qr.draw(target, q, N, seed=0, progress=False)
        possible = int((draws.log_p > -np.inf).sum())
        # Of each possible draw one component is asked; all are asked about the first draws, twice.
        # A base check of 256 draws of the base asks both.
        assert base.scored + tuned.scored <= possible + 4 * CHECKED + 2 * 256
        assert base.scored + tuned.scored < 0.85 * N


def test_a_possible_draw_left_out_is_noticed(monkeypatch):
    """A negative control: what the first test looks for can be seen."""
    inner = qr.Mixture.fill
    monkeypatch.setattr(qr.Mixture, "fill", lambda q, e, i, at: inner(q, e, i, at[1:]))
    with pytest.raises((AssertionError, qr.errors.ScoreError)):
        test_every_possible_draw_has_its_log_q()


def same(one, other):
    """Assert that two results are equal, NaN included."""
    np.testing.assert_array_equal(one, other)


def test_nothing_else_changes():
    """Estimates, chains and samples are those of draws with all their log q."""
    pools = []
    for kind in (Costly, Plain):
        base, q = setting(kind)
        target = base * LETTERS
        pools.append((target, q, qr.draw(target, q, N, seed=3, progress=False)))
    (target, q, left), (_, _, whole) = pools
    assert np.isnan(left.log_q).any()
    assert not np.isnan(whole.log_q).any()
    same(left.log_ratio, whole.log_ratio)
    same(left.log_alpha, whole.log_alpha)
    one, other = qr.tradeoff(left), qr.tradeoff(whole)
    for beta in (0.5, 0.9, 1.5):
        same(left.accepted(beta), whole.accepted(beta))
        a, b = one.at(beta=beta), other.at(beta=beta)
        for name in ("tvd", "acceptance_rate", "kl", "kl_base"):
            assert getattr(a, name) == getattr(b, name)
    assert one.at(tvd=0.05, confidence=0.95) == other.at(tvd=0.05, confidence=0.95)
    # Only KL(q, a) needs log q of draws that are impossible: it is not known, and says so.
    assert np.isnan(one.proposal.kl_base.value)
    assert np.isfinite(other.proposal.kl_base.value)
    for sampler in (qr.IMH(target, q), qr.SIR(target, q, pool=N)):
        a, b = sampler.replay(left, 200), sampler.replay(whole, 200)
        same(list(a.items), list(b.items))
        same(a.log_q, b.log_q)


def test_draws_are_kept_with_what_was_left_out(tmp_path):
    base, q = setting()
    draws = qr.draw(base * LETTERS, q, N, seed=0, progress=False)
    draws.save(tmp_path / "run")
    read = qr.Draws.load(tmp_path / "run")
    same(read.log_q, draws.log_q)
    same(read.log_ratio, draws.log_ratio)
    again = qr.Draws.from_arrays(draws.log_p, draws.log_q)
    same(again.log_ratio, draws.log_ratio)
    wrong = draws.log_q.copy()
    wrong[np.flatnonzero(draws.log_p > -np.inf)[0]] = np.nan
    with pytest.raises(qr.errors.ScoreError, match="log q = nan"):
        qr.Draws.from_arrays(draws.log_p, wrong)


def test_a_constraint_that_allows_more_is_refused():
    base, q = setting()
    draws = qr.draw(base * LETTERS, q, N, seed=0, progress=False)
    is_a = qr.Feature("is a", lambda x: x == "a", boolean=True)
    with pytest.raises(qr.errors.InputError, match="have no log q"):
        qr.constrain(base, {is_a: 0.5}, draws=draws)
    target = qr.constrain(base, {LETTERS: 1.0, is_a: 0.5}, draws=draws)
    whole = qr.draw(setting(Plain)[0] * LETTERS, setting(Plain)[1], N, seed=0, progress=False)
    assert target.coefficients["is a"] == pytest.approx(
        qr.constrain(setting(Plain)[0], {LETTERS: 1.0, is_a: 0.5}, draws=whole).coefficients["is a"]
    )
