"""Public callables with arguments that work, and values that do not belong there."""

import datetime  # noqa: F401
import decimal  # noqa: F401
import fractions  # noqa: F401
import math  # noqa: F401
import pathlib  # noqa: F401

import numpy as np
from scipy import stats

import quasir as qr
from quasir.core.types import Batch
from quasir.targets.lattice import RBM, Ising, Potts, UniformStates, grid

A, B = qr.Table({"a": 0.5, "b": 0.5}), qr.Table({"a": 0.8, "b": 0.2})
NUMBERS, OTHERS = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
IS_A = qr.Feature("is a", lambda x: x == "a")
LENGTH = qr.Feature("length", lambda x: len(str(x)))
DRAWS = qr.draw(A, B, 200, seed=0)
CURVE = qr.tradeoff(DRAWS)
SAMPLES = qr.QRS(A, B, beta=1).replay(DRAWS)
CHAIN = qr.IMH(A, B).replay(DRAWS)
WEIGHTED = qr.RejectionControl(A, B, beta=1).replay(DRAWS)
ESTIMATE = qr.Estimate(0.5, 0.1, 0.3, 0.7)
TOKENS = qr.Table({(0,): 1, (1, 1): 1})
BUDGET = 3000
"""Proposals of a call, at most: a beta that nothing exceeds must not search for ever."""


class BadRepr:
    def __repr__(self):
        raise RuntimeError("no repr")


class Uniform:
    """An editor of two tokens."""

    def log_token_probs(self, sequences, positions):
        return np.full((len(sequences), 2), -np.log(2))


def embed(texts):
    return [[len(text), 1] for text in texts]


def similarity(text, above, embed, name):
    # Without a function of the user's own, a model would be downloaded.
    given = globals()["embed"] if embed is None else embed
    return qr.features.similarity(text, above, given, name)(["a", "b"])


def sums(items):
    return np.array([float(sum(item)) for item in items])


ODD_VALUES = r"""
None ; True ; np.bool_(True) ; 0 ; -1 ; 3 ; 10**30 ; 10**5000 ; 0.5 ; math.nan ; math.inf ;
-math.inf ; 1e308 ; -1e308 ; 1e-320 ; 1j ; np.complex128(1 + 1j) ; np.float32(0.5) ; np.uint8(3) ;
np.int64(3) ; np.array(0.5) ; np.array([]) ; np.array([1.0, 2.0]) ; np.array([1e308, 1e308]) ;
np.array([math.nan, 1.0]) ; np.array([1j, 2.0]) ; np.array(["1", "2"]) ; np.array([None, 1],
dtype=object) ; np.ma.array([1.0, 2.0], mask=[False, True]) ; np.eye(2) ; np.zeros((2, 2, 2)) ; ""
; "ab" ; "1" ; "\ud800" ; b"ab" ; list() ; [None] ; ["a", "b"] ; [1, 2] ; [[1], [2, 3]] ; [[0, 1],
[1, 1]] ; (1, "a") ; dict() ; {"a": 1.0} ; {"a": "b"} ; {"a": 1e308, "b": 1e308, "c": 1e-320} ;
{3: [1.0, 2.0, 3.0, 4.0, 5.0]} ; [("a", 1), ("b", 2)] ; {1, 2} ; range(3) ; iter([1, 2]) ; lambda
x: x ; lambda: None ; lambda x: None ; lambda x: x.nothing ; object() ; BadRepr() ; dict ;
qr.Table ; A ; qr.Table({1: 0.5, 2: 0.5}) ; [A, B] ; stats.poisson ; stats.poisson(3) ;
stats.poisson([1, 2]) ; stats.norm(0, -1) ; stats.poisson(1e300) ; qr.from_scipy(stats.norm()) ;
OTHERS ; IS_A ; LENGTH ; qr.tilt(LENGTH, 1.0) ; A * qr.tilt(LENGTH, 1e308) ; A * IS_A ; ESTIMATE ;
DRAWS ; qr.Draws.from_arrays(log_p=[0.0, 1.0], log_q=[-1.0, -1.0]) ; SAMPLES ; SAMPLES[:0] ; CURVE
; np.random.default_rng(0) ; decimal.Decimal("0.5") ; fractions.Fraction(1, 2) ;
datetime.date(2020, 1, 1) ; pathlib.Path("no-such-folder") ; ...
"""
# Each is made anew for each call: an iterator can be used up.
ODD = {
    source: (lambda source=source: eval(source, globals()))
    for source in " ".join(ODD_VALUES.split()).split(" ; ")
}


def sampled(make):
    """Return a call that makes a sampler, shows it, and samples within a budget."""

    def call(n, seed, max_proposals, batch_size, **arguments):
        sampler = make(**arguments)
        assert "\n" not in repr(sampler)
        budget = BUDGET if max_proposals is None else max_proposals
        if isinstance(budget, (int, np.integer)):
            budget = min(int(budget), BUDGET)
        samples = sampler.sample(n, seed=seed, max_proposals=budget, batch_size=batch_size)
        assert "\n" not in repr(samples)
        return samples._repr_html_()

    return call


def used(make, use):
    """Return a call that makes a thing and uses it."""
    return lambda **arguments: use(make(**arguments))


def drawn(proposal):
    """Draw from a proposal, score it, and show it."""
    assert len(repr(proposal)) < 120
    items, _ = Batch(*proposal.sample(3, np.random.default_rng(0)))
    return proposal.log_prob(items)


def scored(model):
    return model.log_score(np.zeros((1, model.size), int))


SAMPLING = {"n": 3, "seed": 0, "max_proposals": BUDGET, "batch_size": None}
PAIR = {"target": A, "proposal": B}
LEVEL = {"beta": 1.0, "log_beta": None}
CHAINED = {"burn_in": 1, "thin": 1, "reset": None}
TEXTS = ["a b", "a c", "b"]
SCORED = {"items": ["a", "b"]}
RNG = np.random.default_rng(0)


def case(call, /, **arguments):
    """Return a callable, and keyword arguments that it takes."""
    return call, arguments


CALLS = {
    "QRS": case(sampled(qr.QRS), **PAIR, **LEVEL, **SAMPLING),
    "RS": case(sampled(qr.RS), **PAIR, beta=5.0, log_beta=None, **SAMPLING),
    "RejectionControl": case(sampled(qr.RejectionControl), **PAIR, **LEVEL, **SAMPLING),
    "IncrementalQRS": case(sampled(qr.IncrementalQRS), **PAIR, acceptance_rate=0.5, **SAMPLING),
    "EmpiricalSupremum": case(sampled(qr.EmpiricalSupremum), **PAIR, **SAMPLING),
    "IMH": case(sampled(qr.IMH), **PAIR, **CHAINED, bound=None, **SAMPLING),
    "RejectionChain": case(
        sampled(qr.RejectionChain), **PAIR, **LEVEL, **CHAINED, bound=5.0, **SAMPLING
    ),
    "SIR": case(sampled(qr.SIR), **PAIR, pool=100, **SAMPLING),
    "RWMH": case(
        sampled(qr.RWMH),
        target=sums,
        proposal=TOKENS,
        editor=Uniform(),
        max_tokens=3,
        min_tokens=0,
        boost={1: 0.1},
        chains=2,
        **CHAINED,
        **SAMPLING,
    ),
    "GibbsWithGradients": case(
        sampled(qr.GibbsWithGradients),
        target=Ising(grid(2, 2, 0.1)),
        proposal=None,
        site_first=False,
        chains=2,
        **CHAINED,
        **SAMPLING,
    ),
    "QRS.replay": case(qr.QRS(A, B, beta=1).replay, draws=DRAWS, n=3),
    "IMH.replay": case(qr.IMH(A, B).replay, draws=DRAWS, n=3),
    "SIR.replay": case(qr.SIR(A, B, 9).replay, draws=DRAWS, n=3, seed=0),
    "IncrementalQRS.replay": case(qr.IncrementalQRS(A, B, 0.5).replay, draws=DRAWS, n=3),
    "QRS.log_prob": case(qr.QRS(A, B, beta=1).log_prob, **SCORED),
    "Table": case(used(qr.Table, drawn), weights={"a": 1.0, "b": 2.0}),
    "Table.log_prob": case(A.log_prob, **SCORED),
    "Table.sample": case(A.sample, n=3, rng=RNG),
    "Mixture": case(used(qr.Mixture, drawn), components=[A, B], weights=[1.0, 2.0]),
    "Mixture.sample": case(qr.Mixture([A, B]).sample, n=3, rng=RNG),
    "Mixture.log_prob": case(qr.Mixture([A, B]).log_prob, **SCORED),
    "from_scipy": case(used(qr.from_scipy, drawn), distribution=stats.poisson(3)),
    "ScipyDistribution": case(
        used(qr.proposals.ScipyDistribution, drawn), distribution=stats.norm()
    ),
    "scipy.log_prob": case(NUMBERS.log_prob, items=np.array([1, 2])),
    "scipy.sample": case(NUMBERS.sample, n=3, rng=RNG),
    "Product": case(
        used(qr.Product, lambda p: (repr(p), p.log_score(["a", "b"]))),
        base=A,
        factors=[qr.tilt(IS_A, 1.0)],
        watched=[LENGTH],
    ),
    "Product.log_score": case((A * IS_A).log_score, **SCORED),
    "Feature": case(
        used(qr.Feature, lambda f: (repr(f), f(["a", "b"]))),
        name="long",
        function=len,
        batched=False,
        expensive=False,
        spans=None,
    ),
    "Feature()": case(IS_A, items=["a", "b"]),
    "(f & g)()": case(IS_A & ~IS_A, items=["a", "b"]),
    "tilt": case(
        used(qr.tilt, lambda t: (A * t).log_score(["a"])), feature=LENGTH, coefficient=1.0
    ),
    "reward": case(
        used(qr.reward, lambda t: (A * t).log_score(["a"])), function=len, temperature=1.0
    ),
    "Conditional": case(qr.targets.Conditional, make=lambda word: A),
    "tradeoff": case(
        used(qr.tradeoff, lambda curve: (repr(curve), str(curve), curve._repr_html_())),
        draws=DRAWS,
        betas=[1.0],
        log_betas=None,
        stream=None,
    ),
    "Curve.at": case(
        used(CURVE.at, lambda c: (repr(c), str(c), c.to_dict())),
        beta=1.0,
        log_beta=None,
        acceptance_rate=None,
        tvd=None,
        kl=None,
    ),
    "Curve.at acceptance_rate": case(CURVE.at, acceptance_rate=0.5),
    "Curve.at tvd": case(CURVE.at, tvd=0.5),
    "Curve.at kl": case(CURVE.at, kl=0.5),
    "Certificate.estimate": case(CURVE.at(beta=1).estimate, name="tvd"),
    "Draws.from_arrays": case(
        used(qr.Draws.from_arrays, lambda d: (repr(d), d._repr_html_(), qr.tradeoff(d))),
        log_p=[0.0, -1.0],
        log_q=[-1.0, -1.0],
        items=["a", "b"],
        log_base=None,
        features={"f": [1.0, 2.0]},
        seed=0,
    ),
    "Draws.take": case(DRAWS.take, indices=[0, 1]),
    "Draws.accepted": case(DRAWS.accepted, beta=1.0, log_beta=None),
    "Draws.concatenate": case(qr.Draws.concatenate, parts=[DRAWS, DRAWS]),
    "Samples.take": case(SAMPLES.take, indices=[0, 1]),
    "WeightedSamples.mean": case(WEIGHTED.mean, values=np.zeros(len(WEIGHTED))),
    "draw": case(qr.draw, **PAIR, n=3, seed=0, batch_size=None, engine=None),
    "features.length": case(qr.features.length, unit="words", name=None),
    "features.pronouns": case(qr.features.pronouns, gender="male", case="any", name=None),
    "features.words": case(qr.features.words, words=["a"], name=None, case=False),
    "features.contains": case(qr.features.contains, text="a", name=None, case=False),
    "features.search": case(qr.features.search, pattern="a", name=None, case=False),
    "features.similarity": case(similarity, text="a", above=0.5, embed=embed, name=None),
    "metrics.self_bleu": case(qr.metrics.self_bleu, texts=TEXTS, n=2, unit="word"),
    "metrics.distinct": case(qr.metrics.distinct, texts=TEXTS, n=1, unit="character"),
    "metrics.unique_share": case(qr.metrics.unique_share, texts=TEXTS),
    "metrics.perplexity": case(qr.metrics.perplexity, texts=["a", "b"], base=A, tokens=[1, 2]),
    "metrics.moments": case(qr.metrics.moments, items=["a", "b"], features=IS_A),
    "metrics.over_runs": case(qr.metrics.over_runs, values=[1.0, 2.0]),
    "metrics.Runs": case(used(qr.metrics.Runs, str), mean=1.0, sd=0.1, runs=3),
    "metrics.ess": case(qr.metrics.ess, chain=np.arange(9.0)),
    "metrics.autocorrelation_time": case(qr.metrics.autocorrelation_time, chain=np.arange(9.0)),
    "metrics.to_arviz": case(qr.metrics.to_arviz, chains={"x": np.zeros(5)}),
    "engines.Local": case(
        qr.engines.Local, processes=None, threads=None, measure=False, tell=print
    ),
    "engines.Ray": case(
        qr.engines.Ray, address=None, workers=None, cpus_per_worker=1, gpus_per_worker=0, tell=print
    ),
    "lattice.grid": case(grid, rows=2, columns=2, strength=1.0),
    "lattice.Ising": case(used(Ising, scored), coupling=grid(1, 2), field=0.0),
    "lattice.Potts": case(used(Potts, scored), coupling=grid(1, 2), categories=3, field=0.0),
    "lattice.RBM": case(used(RBM, scored), weights=[[1.0], [2.0]], visible=0.0, hidden=0.0),
    "lattice.UniformStates": case(used(UniformStates, drawn), size=2, categories=2),
    "Ising.log_score": case(Ising(grid(1, 2)).log_score, items=np.zeros((1, 2), int)),
    "Potts.log_score": case(Potts(grid(1, 2), 3).log_score, items=np.zeros((1, 2), int)),
    "UniformStates.log_prob": case(UniformStates(2).log_prob, items=np.zeros((1, 2), int)),
}
"""Name -> a callable, and keyword arguments that it takes."""
