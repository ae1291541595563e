import itertools
import json
import math

import numpy as np
import pytest
from scipy import stats

import quasir as qr

TARGET = qr.from_scipy(stats.poisson(11))
PROPOSAL = qr.from_scipy(stats.poisson(10))
DRAWS = qr.draw(TARGET, PROPOSAL, 100_000, seed=0)
CURVE = qr.tradeoff(DRAWS)


def curve_of(log_w, **columns):
    log_w = np.asarray(log_w, dtype=float)
    return qr.tradeoff(qr.Draws.from_arrays(log_w, np.zeros_like(log_w), **columns))


def test_a_good_certificate_has_no_warnings():
    cert = CURVE.at(beta=2)
    assert cert.warnings == ()
    assert cert.n == 100_000
    # E[w]^2/E[w^2] is exp(-0.1): the chi-square distance of two Poissons is exp((11-10)^2/10) - 1
    assert cert.ess == pytest.approx(np.exp(-0.1) * 100_000, rel=0.01)
    assert cert.pareto_k < 0.7
    assert cert.z.value == pytest.approx(1, abs=4 * cert.z.se)


def test_beta_above_every_ratio():
    cert = CURVE.at(beta=1000)
    assert cert.tvd_bound.low == 0 < cert.tvd_bound.high < 0.01
    assert 0 < cert.tvd.high <= cert.tvd_bound.high
    assert cert.kl.high > 0
    assert math.isnan(cert.tvd.se)
    assert any(
        "The tail has not been seen" in d and "generalised Pareto" in d for d in cert.warnings
    )
    assert "0 on these draws" in str(cert)


def test_the_upper_end_does_not_grow_with_beta():
    ends = [CURVE.at(log_beta=b).tvd_bound.high for b in np.linspace(2, 20, 10)]
    assert all(b <= a for a, b in itertools.pairwise(ends))


def test_a_tail_too_heavy_to_extrapolate_gets_no_number():
    rng = np.random.default_rng(0)
    curve = curve_of(2.0 * rng.standard_exponential(5000))  # shape 2
    assert curve.tail.k > 1
    cert = curve.at(log_beta=curve.log_betas[-1] + 1)
    assert (cert.tvd_bound.low, cert.tvd_bound.high) == (0, 1)
    assert cert.to_dict()["kl"]["high"] is None
    assert any("no number can be given" in d for d in cert.warnings)
    assert any("Pareto k is" in d for d in cert.warnings)
    assert any("ESS" in d for d in curve.warnings)


def test_few_draws_above_beta_or_accepted():
    rng = np.random.default_rng(0)
    curve = curve_of(rng.normal(size=2000))
    cert = curve.at(log_beta=2.8)
    assert any("draws have a ratio above beta" in d for d in cert.warnings)
    cert = curve.at(log_beta=6.0)
    assert any("are accepted at beta" in d for d in cert.warnings)


def test_no_draw_is_possible():
    curve = curve_of(np.full(1000, -np.inf), features={"f": np.arange(1000) % 2 == 0})
    cert = curve.at(beta=2)
    assert cert.beta == pytest.approx(2)
    assert "None of the 1,000 draws had P(x) > 0" in cert.warnings[0]
    assert cert.acceptance_rate.low == cert.acceptance_rate.value == 0
    assert cert.acceptance_rate.high == pytest.approx(3.7e-3, rel=0.01)
    assert (cert.tvd.low, cert.tvd.high) == (0, 1)
    assert math.isnan(cert.tvd.value)
    assert curve.proposal.moments["f"].value == 0.5
    assert "unknown" in str(curve)
    with pytest.raises(qr.errors.UnreachableError, match="None of the"):
        curve.at(tvd=0.1)
    json.dumps(cert.to_dict(), allow_nan=False)


def test_one_ratio_only():
    """A pointwise constraint from its own base: every possible draw has the ratio 1."""
    curve = curve_of(np.where(np.arange(1000) % 2, -np.inf, 0.0))
    assert curve.tail.k == -math.inf
    cert = curve.at(tvd=0.01)
    assert cert.acceptance_rate.value == pytest.approx(0.5)
    assert cert.tvd.value == 0 < cert.tvd.high < 0.01
    assert curve.projection.tvd.high > 0
    assert curve.proposal.tvd.value == pytest.approx(0.5)


def test_at_where_it_cannot_be_guaranteed():
    with pytest.raises(qr.errors.UnreachableError) as error:
        CURVE.at(tvd=1e-9)
    message = str(error.value)
    assert "best these draws can vouch for is" in message
    assert "draws would show it" in message
    assert error.value.best.tvd.value > 1e-9
    half = curve_of(np.where(np.arange(1000) % 2, -np.inf, 0.0))
    with pytest.raises(qr.errors.UnreachableError, match=r"only 500 of 1,000 draws \(0.5\)"):
        half.at(acceptance_rate=0.9)
    with pytest.raises(qr.errors.UnreachableError, match="only 3 of 3 draws"):
        curve_of([0.0, 0.5, 1.0]).at(tvd=1e-3)


WRONG = {
    "beta": (0, -1, math.inf, math.nan, "2"),
    "log_beta": (math.inf,),
    "acceptance_rate": (0, 1.5),
    "tvd": (-0.1, 1.1),
    "kl": (math.nan,),
}


@pytest.mark.parametrize(("name", "value"), [(k, x) for k, some in WRONG.items() for x in some])
def test_constraints_that_cannot_be_understood(name, value):
    with pytest.raises(qr.errors.InputError):
        CURVE.at(**{name: value})


@pytest.mark.parametrize("betas", [[0.0], [-1.0], [math.inf], [math.nan], []])
def test_betas_that_cannot_be_used(betas):
    with pytest.raises(qr.errors.InputError, match="betas"):
        qr.tradeoff(qr.draw(TARGET, PROPOSAL, 10, seed=0), betas=betas)


def test_to_dict_is_json_and_complete():
    rng = np.random.default_rng(0)
    curve = curve_of(
        rng.normal(size=500), log_base=rng.normal(size=500), features={"f": rng.random(500) < 0.5}
    )
    d = json.loads(json.dumps(curve.at(beta=2).to_dict(), allow_nan=False))
    assert set(d["tvd"]) == {"value", "se", "low", "high"}
    assert {"acceptance_rate", "tvd_bound", "kl", "z", "z_beta", "kl_base", "warnings"} <= set(d)
    assert d["moments"]["f"]["low"] < 0.5 < d["moments"]["f"]["high"]
    assert d["pareto_k"] is not None


def test_scaled_by_e800_the_level_is_kept_as_a_log():
    curve = curve_of(np.random.default_rng(0).normal(size=1000) + 800)
    cert = curve.at(log_beta=800.5)
    assert cert.beta == math.inf
    assert cert.z.value == math.inf
    assert cert.log_z.value == pytest.approx(800.5, abs=0.2)
    assert cert.to_dict()["z"]["value"] is None
    assert "e^800.5" in str(cert)
    small = curve_of(np.random.default_rng(0).normal(size=1000) - 800)
    assert small.at(acceptance_rate=0.5).log_beta == pytest.approx(-799.3, abs=0.3)


def test_curve_shows_itself():
    text = str(CURVE)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "TVD bound" in text
    assert "<table>" in CURVE._repr_html_()
    assert "<table>" in CURVE.at(beta=2)._repr_html_()
    frame = CURVE.to_frame()
    assert len(frame) == len(CURVE) == 200
    assert {"beta", "tvd", "tvd_se", "tvd_low", "tvd_high"} <= set(frame.columns)
    assert len(list(CURVE)) == 200
    figure = CURVE.plot()
    assert [axes.get_xlabel() for axes in figure.axes] == ["Acceptance rate"] * 2
    assert max(len(line) for line in str(CURVE.at(beta=1000)).splitlines()) <= 80


def test_html_is_escaped():
    rng = np.random.default_rng(0)
    curve = curve_of(rng.normal(size=100), features={"<script>": rng.random(100) < 0.5})
    assert "<script>" not in curve.at(beta=1)._repr_html_()


def test_z_beta_of_the_projection_is_its_acceptance_rate():
    """Far below every ratio Z_beta/beta is q(Supp P), and so are the ends of its interval."""
    log_p = np.where(np.arange(1000) % 3, np.linspace(-2.0, 2.0, 1000), -np.inf)
    found = qr.tradeoff(qr.Draws.from_arrays(log_p, np.zeros(1000))).projection
    z, rate = found.z_beta, found.acceptance_rate
    assert [z.value, z.low, z.high] == pytest.approx([rate.value, rate.low, rate.high], rel=2e-3)
    assert z.low < z.value < z.high
