"""Values of the wrong kind: what is wanted is said, and nothing is taken in silence."""

import math
import sys

import numpy as np
import pytest
from scipy import stats

import quasir as qr
from quasir.core.arguments import as_log_beta, check_count, number, reals
from quasir.core.formatting import short_repr

A = qr.Table({"a": 0.5, "b": 0.5})
POISSON, NORMAL = qr.from_scipy(stats.poisson(10)), qr.from_scipy(stats.norm())


def test_numbers():
    assert number("x", np.float32(0.5)) == number("x", np.array(0.5)) == 0.5
    for wrong in (True, np.bool_(True), "1", None, 1j, np.complex64(1), [1], 10**400, math.nan):
        with pytest.raises(qr.errors.InputError, match=r"^x is"):
            number("x", wrong)
    assert math.isnan(number("x", math.nan, nan=True))


def test_counts():
    assert check_count("n", np.uint8(200)) == 200
    assert type(check_count("n", np.int64(3))) is int
    for wrong in (0, -1, True, 2.0, "3", None, 10**30, 10**5000):
        with pytest.raises(qr.errors.InputError, match=r"^n is"):
            check_count("n", wrong)
    sampler = qr.QRS(A, A, beta=1)
    assert len(sampler.sample(3, max_proposals=sys.maxsize, seed=0)) == 3
    with pytest.raises(qr.errors.InputError, match="n is 1000000"):
        sampler.sample(10**30)


@pytest.mark.parametrize(
    "wrong",
    [
        ["1", "2"],
        np.array(["1"]),
        [1j],
        np.array([1j]),
        [None],
        [10**30],
        np.ma.array([1.0], mask=[True]),
        [np.ma.masked],
        [[1], [1, 2]],
        "12",
        {"a": 1},
        b"12",
    ],
)
def test_arrays_of_what_is_no_number(wrong):
    with pytest.raises(qr.errors.InputError, match=r"^values are"):
        reals("values", wrong)


@pytest.mark.parametrize(
    "wrong", [1j, "1", None, np.ma.masked, 10**30, [1], math.nan, math.inf, 1e200]
)
def test_a_feature_gives_numbers(wrong):
    feature = qr.Feature("odd", lambda x: wrong)
    with pytest.raises(qr.errors.FeatureError, match="'odd'"):
        feature(["a", "b"])
    with pytest.raises(qr.errors.QuasirError):
        qr.Draws.from_arrays([0.0], [0.0], features={"odd": [wrong]})


@pytest.mark.parametrize("wrong", [1j, "1", True, None, -1e200, math.nan, math.inf])
def test_a_target_gives_numbers(wrong):
    with pytest.raises(qr.errors.ScoreError):
        qr.draw(lambda items: [wrong] * len(items), A, 3, seed=0)


def test_a_target_that_fails_is_named():
    def broken(items):
        return items.nothing

    with pytest.raises(qr.errors.ScoreError, match="broken failed with AttributeError"):
        qr.QRS(broken, A, beta=1).sample(3, seed=0)


class Declared:
    """A proposal of numbers with a given log q."""

    def __init__(self, log_q, density=None):
        self.log_q = log_q
        if density is not None:
            self.density = density

    def sample(self, n, rng):
        return np.arange(n), self.log_prob(np.arange(n))

    def log_prob(self, items):
        return np.full(len(items), self.log_q, dtype=np.asarray(self.log_q).dtype)


@pytest.mark.parametrize(
    ("proposal", "right"),
    [
        (Declared(5.0), False),
        (Declared(1e-5), False),
        (Declared(1e-7), True),
        (Declared(np.float32(5e-4)), True),
        (Declared(np.float32(5e-3)), False),
        (Declared(5.0, density=True), True),
        (Declared(5.0, density=False), False),
    ],
)
def test_a_probability_is_at_most_1(proposal, right):
    def target(items):
        return np.zeros(len(items))

    def draw():
        return qr.QRS(target, proposal, beta=1).sample(1, seed=0, max_proposals=3000)

    if right:
        assert draw() is not None
        assert qr.Mixture([proposal, proposal]).log_prob([1, 2]) is not None
    else:
        for ask in (draw, lambda: qr.Mixture([proposal, A]).log_prob([1, 2])):
            with pytest.raises(qr.errors.ScoreError, match="a probability above 1"):
                ask()


@pytest.mark.parametrize(
    ("target", "proposal"),
    [
        (NORMAL, POISSON),
        (POISSON, NORMAL),
        (qr.Table({1: 1}), NORMAL),
        (NORMAL * qr.Feature("above", lambda x: x > 0), POISSON),
        (NORMAL, qr.Mixture([POISSON, POISSON])),
    ],
)
def test_a_density_is_not_compared_with_probabilities(target, proposal):
    for make in (
        lambda: qr.QRS(target, proposal, beta=1),
        lambda: qr.IMH(target, proposal),
        lambda: qr.SIR(target, proposal, 10),
        lambda: (
            qr.Mixture([target, proposal])
            if hasattr(target, "sample")
            else qr.IMH(target, proposal)
        ),
    ):
        with pytest.raises(qr.errors.InputError, match="a density"):
            make()


def test_two_of_one_kind_and_those_that_do_not_say_are_taken():
    wide = qr.from_scipy(stats.norm(0, 2))
    assert len(qr.QRS(NORMAL, wide, beta=3).sample(5, seed=0)) == 5
    assert len(qr.QRS(lambda x: -(np.asarray(x) ** 2), wide, beta=9).sample(5, seed=0)) == 5
    assert NORMAL.density
    assert not POISSON.density
    assert qr.Mixture([NORMAL, wide]).density


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: qr.Table([("a", 1)]), "dictionary"),
        (lambda: qr.Table({"a": True}), "must be a number"),
        (lambda: qr.Table({"a": 1j}), "must be a number"),
        (lambda: qr.Mixture(A), "several proposals"),
        (lambda: qr.Mixture([A, "b"]), "component 1"),
        (lambda: qr.Mixture([A, A], [1e308, 1e-320]), "weights"),
        (lambda: qr.Mixture([A, A], [1e308, 1e308]), "weights"),
        (lambda: qr.Table({"a": 1e308, "b": 1e308}), "sum"),
        (lambda: qr.Mixture([A, A], "ab"), "weights"),
        (lambda: qr.from_scipy(stats.poisson), "with its parameters"),
        (lambda: qr.from_scipy("poisson"), "frozen scipy distribution"),
        (lambda: qr.from_scipy(stats.poisson(-1)), "parameters of poisson"),
        (lambda: qr.from_scipy(stats.poisson([1, 2])), "single numbers"),
        (lambda: qr.QRS(stats.poisson(3), A, beta=1), "from_scipy"),
        (lambda: qr.QRS(A, stats.poisson, beta=1), "from_scipy"),
        (lambda: qr.QRS(None, A, beta=1), "the target is a NoneType"),
        (lambda: qr.IMH(A, None), "the proposal is a NoneType"),
        (lambda: qr.draw(lambda x: np.zeros((len(x), 2)), A, 10), "<lambda> gave log P of shape"),
        (lambda: qr.draw(lambda x: 0.0, A, 10), r"shape \(\)"),
        (lambda: qr.SIR(A, qr.Table, 10), "the class Table"),
        (lambda: qr.QRS(A, A, log_beta=1e308), "log_beta is 1e"),
        (lambda: qr.QRS(A, A, beta="2"), "beta is '2'"),
        (lambda: qr.reward(len, 1e-320), "temperature"),
        (lambda: qr.IncrementalQRS(A, A, 1e-320).sample(3), "ask for a higher rate"),
        (
            lambda: (A * qr.tilt(qr.Feature("n", len), 1e308)).log_score(["aaa"]),
            "outside any range",
        ),
        (lambda: qr.Product(A, "ab"), "factors"),
        (lambda: (A * qr.Feature("n", len)).watch("ab"), "not a feature"),
        (lambda: qr.targets.Conditional("rain"), "function"),
        (lambda: A.log_prob("ab"), "sequence of items"),
        (lambda: A.log_prob({"a": 1}), "sequence of items"),
        (lambda: A.log_prob([["a"]]), "hashable"),
        (lambda: A.sample(3, 0), "Generator"),
        (lambda: POISSON.log_prob(["3"]), "must be numbers"),
        (lambda: qr.Feature("n", len)("text"), "sequence of items"),
        (lambda: qr.QRS(A, A, beta=1).replay([1, 2]), "must be Draws"),
        (lambda: qr.metrics.moments("text", qr.Feature("n", len)), "sequence of items"),
        (lambda: qr.metrics.moments(["a"], None), "None is not a feature"),
        (lambda: qr.metrics.over_runs(["1"]), "run 0"),
        (lambda: qr.metrics.ess(["1", "2", "3", "4"]), "not an array of numbers"),
        (lambda: qr.engines.Local(processes="2"), "processes"),
        (lambda: qr.lattice.Potts(qr.lattice.grid(1, 2), 3).log_score([[-1, 0]]), "from 0 to 2"),
        (lambda: qr.lattice.Ising([[0, math.nan], [math.nan, 0]]), "finite"),
        (lambda: qr.lattice.grid(10**6, 10**6), "rows . columns"),
    ],
)
def test_what_is_wanted_is_said(make, message):
    with pytest.raises(qr.errors.QuasirError, match=message):
        make()


def test_large_and_small_weights():
    tiny = qr.Table({"a": 1e-320, "b": 3e-320})
    assert np.exp(tiny.log_prob(["b"]))[0] == pytest.approx(0.75, rel=1e-3)
    assert qr.Table({2**63: 1, -1: 1}).log_prob([2**63]).tolist() == [math.log(0.5)]


def test_betas_out_of_reach():
    curve = qr.tradeoff(qr.draw(A, A, 500, seed=0))
    cert = curve.at(log_beta=800)
    assert any("Instead, choose a smaller beta" in warning for warning in cert.warnings)
    assert curve.at(beta=1e-320).acceptance_rate == curve.at(beta=1e-300).acceptance_rate
    assert as_log_beta(log_beta=1e-320) == 1e-320
    for wrong in ([1e308], [math.nan], [], "1", [True], [1j]):
        with pytest.raises(qr.errors.InputError, match="log_betas"):
            qr.tradeoff(qr.draw(A, A, 50, seed=0), log_betas=wrong)


def test_poisson_of_1e300():
    huge = qr.from_scipy(stats.poisson(1e300))
    with pytest.raises(qr.errors.InputError, match="scipy cannot draw"):
        huge.sample(3, np.random.default_rng(0))


def test_orders_of_ngrams_past_every_text():
    texts = ["a b c", "a b d", "x"]
    # All but a few precisions are 0.1, for the two texts that share a word.
    assert qr.metrics.self_bleu(texts, n=10**9) == pytest.approx(0.2 / 3)
    with pytest.raises(qr.errors.InputError, match="0/0"):
        qr.metrics.distinct(texts, n=10**9)


def test_large_and_small_chains():
    chain = np.random.default_rng(0).normal(size=200)
    want = qr.metrics.autocorrelation_time(chain)
    assert qr.metrics.autocorrelation_time(chain * 1e300) == pytest.approx(want)
    assert qr.metrics.autocorrelation_time(chain * 1e-300) == pytest.approx(want)


def test_values_are_shown_in_a_line():
    assert "\n" not in short_repr(np.zeros((50, 50)))
    assert len(short_repr("x" * 10_000)) <= 80
    assert short_repr(10**5000) == "a int"
