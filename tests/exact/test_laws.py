"""Exact laws on spaces small enough to enumerate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import quasir as qr
from tests.reference import exact

weight = st.integers(0, 30)
positive = st.integers(1, 30)


@st.composite
def spaces(draw):
    """Finite spaces with whole weights, so that draws can hold each item just so often."""
    size = draw(st.integers(1, 8))
    q = draw(st.lists(positive, min_size=size, max_size=size))
    p = draw(st.lists(weight, min_size=size, max_size=size))
    p[draw(st.integers(0, size - 1))] = draw(positive)
    beta = draw(st.floats(0.01, 50))
    return np.array(q), np.array(p), beta


@settings(max_examples=200, deadline=None)
@given(spaces())
def test_every_estimate_against_enumeration(space):
    """Draws that hold each item exactly in proportion to q give the exact values."""
    counts, weights, beta = space
    q = counts / counts.sum()
    code = np.repeat(np.arange(len(q)), counts)
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(weights), np.log(q)
    flag = np.arange(len(q)) % 2 == 0
    base = np.arange(1, len(q) + 1) / np.arange(1, len(q) + 1).sum()
    curve = qr.tradeoff(
        qr.Draws.from_arrays(
            log_p[code],
            log_q[code],
            log_base=np.log(base)[code],
            features={"flag": flag[code], "size": np.arange(len(q))[code]},
        ),
        betas=[beta],
    )
    cert, truth = curve.at(beta=beta), exact(q, weights, beta)
    for name in ("acceptance_rate", "z", "z_beta", "tvd", "kl", "tvd_bound"):
        value = getattr(cert, name).value
        assert value == pytest.approx(float(truth[name]), rel=1e-12, abs=1e-13), name
    p_b = truth["p_beta"]
    assert cert.moments["flag"].value == pytest.approx(float((p_b * flag).sum()), abs=1e-12)
    assert cert.moments["size"].value == pytest.approx(
        float((p_b * np.arange(len(q))).sum()), abs=1e-12
    )
    inside = p_b > 0
    kl_base = float((p_b[inside] * np.log(p_b[inside] / base[inside])).sum())
    assert cert.kl_base.value == pytest.approx(kl_base, abs=1e-12)
    check_limits(curve, q, weights, flag, base)


def check_limits(curve, q, weights, flag, base):
    """Appendix D: q_proj, and q itself."""
    p = weights / weights.sum()
    inside = weights > 0
    projected = np.where(inside, q, 0) / q[inside].sum()
    for cert, law in ((curve.proposal, q), (curve.projection, projected)):
        kl = (p[inside] * np.log(p[inside] / law[inside])).sum()
        assert cert.tvd.value == pytest.approx(np.abs(p - law).sum() / 2, abs=1e-12)
        assert cert.kl.value == pytest.approx(kl, abs=1e-12)
        assert cert.moments["flag"].value == pytest.approx((law * flag).sum(), abs=1e-12)
        some = law > 0
        kl_base = (law[some] * np.log(law[some] / base[some])).sum()
        assert cert.kl_base.value == pytest.approx(kl_base, abs=1e-12)
        assert cert.tvd_bound.value == pytest.approx(1, abs=1e-12)
    assert curve.projection.acceptance_rate.value == pytest.approx(q[inside].sum(), abs=1e-12)
    assert curve.proposal.acceptance_rate.value == 1


@settings(max_examples=100, deadline=None)
@given(spaces())
def test_the_law_of_algorithm_1(space):
    """Walk the algorithm's tree: sum over i of rho^(i-1) q(x) r(x), as in appendix B."""
    counts, weights, beta = space
    q = counts / counts.sum()
    items = [f"item {i}" for i in range(len(q))]
    sampler = qr.QRS(
        qr.Table(dict(zip(items, weights, strict=True))),
        qr.Table(dict(zip(items, q, strict=True))),
        beta=beta,
    )
    r = np.minimum(1, weights / (beta * q))
    rho = 1 - (q * r).sum()
    law, left = np.zeros(len(q)), 1.0
    for _ in range(100_000):
        law += left * q * r
        left *= rho
        if left < 1e-16:
            break
    np.testing.assert_allclose(np.exp(sampler.log_prob(items)), law, rtol=1e-9, atol=1e-13)


@settings(max_examples=50, deadline=None)
@given(spaces(), st.integers(0, 100))
def test_limits_of_the_incremental_sampler(space, seed):
    """Rate 1 is q_proj; a rate far below Z/max ratio is p itself."""
    counts, weights, _ = space
    q = counts / counts.sum()
    items = [f"item {i}" for i in range(len(q))]
    target = qr.Table(dict(zip(items, weights, strict=True)))
    proposal = qr.Table(dict(zip(items, q, strict=True)))
    all_of_it = qr.IncrementalQRS(target, proposal, acceptance_rate=1.0).sample(20, seed=seed)
    draws = qr.draw(target, proposal, all_of_it.proposals, seed=seed)
    possible = np.flatnonzero(draws.log_p > -np.inf)
    assert list(all_of_it.items) == list(draws.items.take(possible[:20]))
    low = qr.IncrementalQRS(target, proposal, acceptance_rate=1e-5).sample(1, seed=seed)
    possible = weights > 0
    assert low.log_beta >= (np.log(weights[possible]) - np.log(q[possible])).max()
    want = weights[items.index(low.items[0])] / weights.sum()
    assert low.log_p_beta[0] == pytest.approx(np.log(want), abs=1e-12)


POISSON = {
    0.5: (0.999496, 0.12294066, 0.04814649, 0.99508413),
    1: (0.876849, 0.07492242, 0.01988471, 0.54011130),
    2: (0.498182, 0.00353111, 0.00048655, 0.03219052),
    3: (0.333282, 0.00015500, 0.00001831, 0.00104235),
    4: (0.249997, 0.00001133, 0.00000121, 0.00008205),
}


@pytest.mark.parametrize("beta", POISSON)
def test_two_poissons_exactly(beta):
    """Section 3.1, from log_prob over the support."""
    x = np.arange(200)
    p, q = stats.poisson(11).pmf(x), stats.poisson(10).pmf(x)
    sampler = qr.QRS(qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10)), beta=beta)
    p_b = np.exp(sampler.log_prob(x))
    rate, tvd, kl, bound = POISSON[beta]
    assert p_b.sum() == pytest.approx(1, abs=1e-12)
    assert np.minimum(1, p / (beta * q)) @ q == pytest.approx(rate, abs=1e-6)
    assert np.abs(p - p_b).sum() / 2 == pytest.approx(tvd, abs=1e-8)
    assert (p * np.log(p / p_b)).sum() == pytest.approx(kl, abs=1e-8)
    assert p[p > beta * q].sum() == pytest.approx(bound, abs=1e-8)


def test_a_support_that_the_proposal_lacks_is_not_seen():
    """Footnote 3: TVD's limit is then 1 - p(Supp q), and draws from q cannot show it."""
    listed = qr.Table({"a": 0.5, "b": 0.3, "c": 0.2})
    target = listed.log_score  # a plain function has no list of items
    proposal = qr.Table({"a": 0.5, "b": 0.5})
    cert = qr.tradeoff(qr.draw(target, proposal, 5000, seed=0)).at(beta=5)
    assert cert.tvd.value == 0
    assert cert.z.value == pytest.approx(0.8, abs=0.02)
    p_b = np.exp(qr.QRS(target, proposal, beta=5).log_prob(["a", "b", "c"]))
    assert np.abs(p_b - [0.5, 0.3, 0.2]).sum() / 2 == pytest.approx(0.2)
    with pytest.raises(qr.errors.InputError, match=r"1 of the 3 items .* which have 0\.2 of"):
        qr.draw(listed, proposal, 5000, seed=0)
