"""Estimates on draws held out: exact in expectation, and with intervals that cover."""

import numpy as np
import pytest

import quasir as qr
from quasir.draws.draws import Draws
from quasir.text.texts import Texts
from quasir.tuning.evaluation import better_by, evaluate
from quasir.tuning.rounds import Pool, thin
from tests.text.tiny import every_text
from tests.tuning.exact import model, noise, normalised, pool_of, starts_with


def setting():
    """Return the texts, and the exact P, pi and two proposals."""
    base = model(limit=3)
    texts = every_text(base)
    target = base * starts_with("a") * qr.tilt(noise(1.0), 1.0)
    with np.errstate(divide="ignore"):
        log_p = np.log(normalised(target, texts)) + 3.0
    rng = np.random.default_rng(1)
    pi, first, second = np.exp(base.log_prob(texts) + rng.normal(0, 0.4, (3, len(texts))))
    return base, texts, log_p, *(law / law.sum() for law in (pi, first, second))


def exact_values(log_p, pi):
    p = np.exp(log_p - 3.0)
    inside = p > 0
    kl = float(p[inside] @ np.log(p[inside] / pi[inside]))
    return p, kl, float(np.maximum(p - pi, 0).sum())


def test_expectations_are_exact():
    """A pool that holds every text as often as the proposals give it: no draw, no error."""
    base, texts, log_p, pi, first, second = setting()
    pool = pool_of(texts, log_p, [first, second], [300, 100], base.tokenizer)
    pool.features = {"long": texts.lengths > 1}
    p, kl, tvd = exact_values(log_p, pi)
    evaluation = evaluate(pool, np.log(pi))
    assert evaluation.log_z.value == pytest.approx(3.0, abs=1e-10)
    assert evaluation.kl.value == pytest.approx(kl, abs=1e-10)
    assert evaluation.tvd.value == pytest.approx(tvd, abs=1e-10)
    inside = p > 0
    efficiency = 1 / (p[inside] ** 2 / pi[inside]).sum()
    assert evaluation.efficiency == pytest.approx(efficiency, rel=1e-10)
    moments = evaluation.moments
    assert moments["long"].value == pytest.approx(pi @ pool.features["long"], abs=1e-10)
    assert moments["possible"].value == pytest.approx(pi[inside].sum(), abs=1e-10)
    mixture = 0.75 * first + 0.25 * second
    assert evaluation.ess == pytest.approx(400 / (p**2 / mixture).sum(), rel=1e-10)
    for by, was in zip(("kl", "tvd"), exact_values(log_p, first)[1:], strict=True):
        gain = better_by(pool, np.log(pi), np.log(first), by)
        assert gain.value == pytest.approx(was - {"kl": kl, "tvd": tvd}[by], abs=1e-10)


def drawn_pool(rng, base, texts, log_p, laws, sizes):
    """Draw a pool from several laws, as a run does; `index` says which text each draw is."""
    pool, index = Pool(base.tokenizer), []
    for _ in laws:
        pool.add_proposal(lambda items: np.empty(0))
    for k, (law, n) in enumerate(zip(laws, sizes, strict=True)):
        chosen = rng.choice(len(texts), n, p=law)
        column = {"index": chosen.astype(float)}
        draws = Draws(
            log_p=log_p[chosen],
            log_q=np.log(law[chosen]),
            log_u=np.zeros(n),
            items=texts.take(chosen),
            features=column,
        )
        kept, stands_for = thin(draws, rng)
        at = kept.features["index"].astype(int)
        others = {
            j: (lambda items, j=j, at=at: np.log(laws[j][at])) for j in range(len(laws)) if j != k
        }
        pool.add(kept, n, stands_for, k, others, 0)
        index.append(at)
    return pool, np.concatenate(index)


def test_intervals_cover():
    """95 % of the intervals hold the exact value, within what 400 runs can tell."""
    base, texts, log_p, pi, first, second = setting()
    _, kl, tvd = exact_values(log_p, pi)
    old = np.log(first)
    better = exact_values(log_p, first)[1] - kl
    closer = exact_values(log_p, first)[2] - tvd
    possible = pi[log_p > -np.inf].sum()
    rng = np.random.default_rng(0)
    inside = {"kl": 0, "tvd": 0, "z": 0, "better": 0, "closer": 0, "possible": 0}
    runs = 400
    for _ in range(runs):
        held_out, index = drawn_pool(rng, base, texts, log_p, [first, second], [3000, 1000])
        log_pi, was = np.log(pi)[index], old[index]
        evaluation = evaluate(held_out, log_pi)
        parts = {
            "kl": (evaluation.kl, kl),
            "tvd": (evaluation.tvd, tvd),
            "z": (evaluation.log_z, 3.0),
            "possible": (evaluation.moments["possible"], possible),
            "better": (better_by(held_out, log_pi, was, "kl"), better),
            "closer": (better_by(held_out, log_pi, was, "tvd"), closer),
        }
        for name, (part, value) in parts.items():
            inside[name] += part.low <= value <= part.high
    # 4 standard errors of a proportion of 0.95 in 400 runs are 0.044.
    assert all(0.906 <= count / runs <= 0.994 for count in inside.values()), inside


def test_a_proposal_that_cannot_give_a_text_is_worse():
    base, texts, log_p, pi, first, second = setting()
    pool = pool_of(texts, log_p, [first, second], [300, 100], base.tokenizer)
    log_old = np.log(first)
    log_old[np.argmax(log_p)] = -np.inf
    gain = better_by(pool, np.log(pi), log_old, "kl")
    assert gain.value == np.inf
    assert gain.value > gain.se


def test_an_empty_pool_has_no_texts():
    base = model(limit=3)
    assert isinstance(Pool(base.tokenizer).items, Texts)
    assert Pool(base.tokenizer).n == 0
