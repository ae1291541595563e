"""A beta that the draws chose: what is proved for it, and what its samples are."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.contexts_guarantee import rare
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import quasir as qr
from quasir.certificates.contexts_certificate import certify_contexts
from quasir.core.formatting import rounded_down, rounded_up
from quasir.estimation.guarantee import Guarantee
from quasir.report.page import About, page
from quasir.report.sentences import _SUPERSCRIPTS, TIMES, guarantee_sentences
from quasir.runs.sampling import choose_beta, sample_run

BASE = qr.Table({"he": 0.9, "she": 0.1})
SHE = qr.Feature("she", lambda x: x == "she", boolean=True)
TARGET = BASE * qr.tilt(SHE, 2.0)
DRAWS = qr.draw(TARGET, BASE, 2000, seed=0)
CURVE = qr.tradeoff(DRAWS)
CONSTRAINTS = [
    {"tvd": 0.1},
    {"tvd": 0.1, "confidence": 0.99},
    {"acceptance_rate": 0.5},
    {"kl": 0.05},
]


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_a_choice_says_that_samples_of_its_draws_are_not_iid(constraint):
    certificate = CURVE.at(**constraint)
    note = certificate.choice.note
    assert "not exactly i.i.d." in note
    assert note[:40] in str(certificate)
    assert json.loads(json.dumps(certificate.to_dict()))["choice"]["note"] == note
    assert note in certificate._repr_html_()
    html = page(About("letters"), CURVE, certificate, DRAWS, features=[])
    assert "not exactly i.i.d." in html
    whole = certify_contexts([certificate], contexts=1, n=2000, guarantee=None, unserved={})
    assert "not exactly i.i.d." in str(whole).replace("\n  ", " ")


@pytest.mark.parametrize("constraint", [{"beta": 2.0}, {"tvd": 0.0}])
def test_a_beta_that_the_draws_did_not_choose_has_no_such_note(constraint):
    certificate = CURVE.at(**constraint)
    assert certificate.choice is None
    assert "i.i.d." not in str(certificate)
    assert certificate.to_dict()["choice"] is None


def test_a_guaranteed_choice_covers_what_chose_it_and_says_so():
    certificate = CURVE.at(tvd=0.1, confidence=0.99)
    assert certificate.guarantee.tvd == 0.1
    assert "covered for tvd; every other bound" in certificate.guarantee.basis
    assert certificate.choice.covers("tvd")
    assert not certificate.choice.covers("kl")
    assert not CURVE.at(tvd=0.1).choice.covers("tvd")


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_drawing_on_keeps_the_confidence_and_the_choice(constraint):
    before, _ = choose_beta(CURVE, constraint)
    asked = []

    def more(n):
        asked.append(n)
        return qr.draw(TARGET, BASE, n, seed=0)

    sampled = sample_run(DRAWS, before, 3000, more)
    after = sampled.certificate
    assert asked
    assert after.n > before.n
    assert (
        after.guarantee.confidence
        == before.guarantee.confidence
        == constraint.get("confidence", 0.95)
    )
    assert after.choice == before.choice
    assert after.guarantee.basis == before.guarantee.basis
    assert (after.cost is None) == (before.cost is None)
    assert after.log_beta == before.log_beta


def test_the_closest_beta_keeps_the_confidence_too():
    draws = qr.draw(TARGET, BASE, 50, seed=1)
    certificate, why = choose_beta(qr.tradeoff(draws), {"tvd": 1e-9, "confidence": 0.99})
    if why is not None:
        assert certificate.guarantee.confidence == 0.99
        assert certificate.choice is not None


def test_exactly_how_samples_differ_from_p_beta_after_a_choice():
    """Over all possible draws: with the draws that chose, the rare item is too rare."""
    space, n = rare(0.02, 30.0), 60
    rare_draws = np.arange(n + 1)
    chance = binom.pmf(rare_draws, n, space.q[1])
    beta = np.array([space.chosen(np.array([n - k, k])) for k in rare_draws])
    kept = space.q[:, None] * np.minimum(space.w[:, None], beta)
    p_beta = kept / kept.sum(axis=0)
    accept = np.minimum(space.w[:, None] / beta, 1.0)

    def off(of_first, of_rare):
        """Return the rare samples expected, less those of as many i.i.d. samples."""
        samples = of_first * accept[0] + of_rare * accept[1]
        return float(chance @ (of_rare * accept[1] - samples * p_beta[1]))

    assert off(n - rare_draws, rare_draws) < -0.02
    # The control: new draws, at the beta that the first ones chose, are i.i.d. from p_beta.
    assert off(n * space.q[0], n * space.q[1]) == pytest.approx(0, abs=1e-12)


def guarantee_of(tvd, confidence=0.95):
    return Guarantee(
        tvd=tvd,
        truncated_mass=None,
        kl=None,
        acceptance_rate=(0, 1),
        moments={},
        confidence=confidence,
        basis=".",
    )


def sentences_of(tvd, constraint=None):
    made = CURVE.at(**(constraint or {"beta": 1.0}))
    return guarantee_sentences(replace(made, guarantee=guarantee_of(tvd)))


def test_where_nothing_is_guaranteed_the_page_does_not_say_how_often_it_is_right():
    for tvd in (None, 1.0):
        headline, more = sentences_of(tvd)
        assert headline.startswith("Nothing is guaranteed")
        assert "of all runs" not in " ".join(more)
    assert "right in at least 95 % of all runs" in " ".join(sentences_of(0.2)[1]).replace("  ", " ")
    chosen = " ".join(sentences_of(0.2, {"tvd": 0.1})[1])
    assert "fixed in advance" in chosen
    assert "fixed in advance" in sentences_of(0.2, {"tvd": 0.1})[0]
    assert "fixed in advance" not in sentences_of(0.2)[0]
    assert "right less often" in chosen


@given(st.floats(1e-12, 1, exclude_min=True), st.integers(1, 6))
def test_a_shown_bound_is_never_on_the_wrong_side(x, digits):
    up, down = rounded_up(x, digits), rounded_down(x, digits)
    assert down <= x <= up
    assert up - down <= 10.0 ** (1 - digits) * x * (1 + 1e-9)
    assert float(f"{up:.{digits}g}") == up
    assert rounded_up(up, digits) == up


@given(st.floats(1e-7, 0.999))
def test_the_sentences_show_no_less_than_the_bound(tvd):
    headline, _ = sentences_of(tvd)
    shown = re.search(r"at most (.*) \(95 % .* more than (.*) percentage points", headline)
    plain = {value: chr(key) for key, value in _SUPERSCRIPTS.items()}
    for text, least in zip(shown.groups(), (tvd, 100 * tvd), strict=True):
        mantissa, *exponent = text.split(f" {TIMES} 10")
        power = int("".join(plain[ord(c)] for c in exponent[0])) if exponent else 0
        assert float(mantissa) * 10.0**power >= least * (1 - 1e-12)
    assert float(str(guarantee_of(tvd)).split("at most ")[1]) >= tvd


def test_small_bounds_are_not_shown_as_zero():
    assert "more than 0.0401 percentage points" in sentences_of(0.000400001)[0]
    assert math.isinf(rounded_up(math.inf))
