"""Every public value can be pickled and deep-copied, and then does the same."""

import copy
import inspect
import pickle

import numpy as np
import pytest
from scipy import stats

import quasir as qr
from quasir.samplers.rwmh import MASK
from tests.contexts.recipes import CONTEXTS, RECIPE
from tests.sequences import TableEditor, every_sequence, table_of, weights_of

BASE = qr.Table({"She sings.": 0.2, "He sings.": 0.3, "A chemist.": 0.5})
TEXTS = ["She sings.", "He sings.", "A chemist.", "An amazing chemist, she said."]
FEMALE, WORDS = qr.features.female, qr.features.words(["chemist"])
TARGET = BASE * (FEMALE | WORDS) * qr.tilt(qr.features.length(), 0.1)
DRAWS = qr.draw(TARGET, BASE, 3_000, seed=0)
SEQUENCES = table_of(every_sequence(3, 0, 2), weights_of(every_sequence(3, 0, 2), seed=5))
SPINS = qr.lattice.Ising(qr.lattice.grid(2, 2, 0.4), 0.1)


def embed(texts):
    return [[text.count("a"), text.count("i"), 1] for text in texts]


def given(context):
    return BASE * qr.features.contains(context)


def scored(target):
    return target.log_score(TEXTS)


def proposed(proposal):
    return list(proposal.sample(5, np.random.default_rng(0)).items), proposal.log_prob(TEXTS)


def fired(feature):
    return feature(TEXTS), feature.spans and [feature.spans(text) for text in TEXTS]


def sampled(sampler):
    found = sampler.sample(4, seed=1)
    return list(found.items), found.log_p


def of_curve(curve):
    certificates = (curve.at(tvd=0.01), curve.projection, curve.proposal)
    return (
        curve.columns(),
        [str(c) for c in certificates],
        curve.warnings,
        curve.guaranteed(0.9).tvd,
    )


def raised(sampler, error, **options):
    with pytest.raises(error) as found:
        sampler.sample(1_000, seed=0, **options)
    return found.value


PAIR = (TARGET, BASE)
SAMPLERS = {
    "QRS": lambda: qr.QRS(*PAIR, beta=1.0),
    "RS": lambda: qr.RS(*PAIR, beta=9.0),
    "RejectionControl": lambda: qr.RejectionControl(*PAIR, beta=1.0),
    "IncrementalQRS": lambda: qr.IncrementalQRS(*PAIR, acceptance_rate=0.2),
    "EmpiricalSupremum": lambda: qr.EmpiricalSupremum(*PAIR),
    "IMH": lambda: qr.IMH(*PAIR),
    "SIR": lambda: qr.SIR(*PAIR, pool=50),
    "RejectionChain": lambda: qr.RejectionChain(*PAIR, beta=1.0),
    "RWMH": lambda: qr.RWMH(SEQUENCES, SEQUENCES, TableEditor(), max_tokens=2),
    "GibbsWithGradients": lambda: qr.GibbsWithGradients(SPINS),
}
VALUES = {
    **{name: (make, sampled) for name, make in SAMPLERS.items()},
    "Table": (lambda: BASE, proposed),
    "Mixture": (lambda: qr.Mixture([BASE, BASE], [1, 2]), proposed),
    "ScipyDistribution": (
        lambda: qr.from_scipy(stats.poisson(3)),
        lambda q: (q.sample(5, np.random.default_rng(0)), q.log_prob([1, 400]), q.support),
    ),
    "ScipyDistribution of a density": (
        lambda: qr.from_scipy(stats.norm(1, 2)),
        lambda q: (q.sample(5, np.random.default_rng(0)), q.strata([0.0, 1.0])),
    ),
    "Product": (lambda: TARGET, scored),
    "Tilt": (lambda: qr.reward(len, 2.0), lambda tilt: tilt.log_factor(tilt.feature(TEXTS))),
    "Conditional": (
        lambda: qr.targets.Conditional(given),
        lambda t: t.given("amazing").log_score(TEXTS),
    ),
    "Constrained": (
        lambda: qr.constrain(BASE, {FEMALE: 0.5, qr.features.contains("He"): 0.2}, n=2000, seed=0),
        lambda c: (scored(c), c.coefficients, c.achieved),
    ),
    "Feature": (lambda: qr.Feature("length", len, low=0, high=99), fired),
    "Feature: contains": (lambda: qr.features.contains("amazing"), fired),
    "Feature: regex": (lambda: qr.features.search(r"(a+)+b|chem"), fired),
    "Feature: words": (lambda: WORDS, fired),
    "Feature: pronouns": (lambda: qr.features.pronouns("male", case="lower"), fired),
    "Feature: length": (lambda: qr.features.length("characters"), fired),
    "Feature: similarity": (lambda: qr.features.similarity("a", embed=embed), fired),
    "Feature: combined": (lambda: ~(FEMALE & WORDS) | qr.features.science, fired),
    "Scores": (lambda: TARGET.scores(TEXTS), vars),
    "Batch": (lambda: BASE.sample(3, np.random.default_rng(0)), lambda b: (list(b.items), b.log_q)),
    "Draws": (lambda: DRAWS, lambda d: (list(d), d.log_alpha, d.features, d.known)),
    "Curve": (lambda: qr.tradeoff(DRAWS), of_curve),
    "Certificate": (lambda: qr.tradeoff(DRAWS).at(beta=1.0), str),
    "Guarantee": (lambda: qr.tradeoff(DRAWS).at(beta=1.0).guarantee, str),
    "Guarantee: along a curve": (lambda: qr.tradeoff(DRAWS).guarantees, vars),
    "Choice": (lambda: qr.tradeoff(DRAWS).at(acceptance_rate=0.5).choice, vars),
    "Estimate": (lambda: qr.tradeoff(DRAWS).tvd, vars),
    "Moment": (lambda: qr.certificates.Moment("female"), str),
    "Check": (
        lambda: qr.certificates.Check(
            name="x", observed=0.5, observed_se=0.1, predicted=0.4, predicted_se=0.1, z=0.7
        ),
        vars,
    ),
    "Samples": (lambda: SAMPLERS["QRS"]().sample(3, seed=0), vars),
    "WeightedSamples": (
        lambda: SAMPLERS["RejectionControl"]().sample(3, seed=0),
        lambda s: str(s.mean([1, 2, 3])),
    ),
    "ApproximateSamples": (lambda: SAMPLERS["SIR"]().sample(3, seed=0), vars),
    "ChainSamples": (lambda: SAMPLERS["IMH"]().sample(3, seed=0), vars),
    "ClimbingSamples": (lambda: SAMPLERS["EmpiricalSupremum"]().sample(3, seed=0), vars),
    "SampleSet": (lambda: qr.samplers.SampleSet(items=["a"], log_p=np.zeros(1), proposals=1), vars),
    "BudgetExceeded": (
        lambda: raised(SAMPLERS["QRS"](), qr.errors.BudgetExceeded, max_proposals=100),
        lambda e: (str(e), list(e.samples.items)),
    ),
    "RatioExceededError": (
        lambda: raised(qr.RS(TARGET, BASE, beta=0.1), qr.errors.RatioExceededError),
        str,
    ),
    "UnreachableError": (
        lambda: qr.errors.UnreachableError("no beta", qr.tradeoff(DRAWS).at(beta=1.0)),
        lambda e: (str(e), str(e.best)),
    ),
    "StoreError": (lambda: qr.errors.StoreError("damaged", [3]), lambda e: (str(e), e.damaged)),
    "TuningError": (lambda: qr.errors.TuningError("no", BASE), lambda e: (str(e), scored(e.tuned))),
    "WorkFailedError": (lambda: qr.errors.WorkFailedError("failed", number=3), vars),
    **{
        name: (lambda name=name: getattr(qr.errors, name)("what happened"), str)
        for name in (
            "FeatureError",
            "InfeasibleError",
            "InputError",
            "QuasirError",
            "QuasirWarning",
            "RecipeError",
            "ScoreError",
            "ServerError",
        )
    },
    "metrics.Runs": (lambda: qr.metrics.over_runs([1.0, 2.0]), str),
    "lattice.Ising": (lambda: SPINS, lambda t: t.log_score(np.eye(4, dtype=int))),
    "lattice.RBM": (
        lambda: qr.lattice.RBM([[1.0], [2.0]], 0.0, 0.0),
        lambda t: t.log_score(np.eye(2, dtype=int)),
    ),
    "lattice.Potts": (
        lambda: qr.lattice.Potts(qr.lattice.grid(1, 2), 3),
        lambda t: t.log_score(np.eye(2, dtype=int)),
    ),
    "lattice.UniformStates": (lambda: qr.lattice.UniformStates(2), lambda t: t.support),
    "engines.Local": (lambda: qr.engines.Local(processes=1), lambda e: repr(e)[:20]),
    "engines.Ray": (lambda: qr.engines.Ray(), lambda e: repr(e)[:20]),
    "guides.Guide": (lambda: qr.guides.regex("a+b"), lambda g: g.to_dict()),
    "guides.Language": (lambda: qr.guides.regex("a+b"), lambda g: g.to_dict()),
    "guides.Boost": (lambda: qr.guides.boost(FEMALE), lambda g: g.to_dict()),
}
PROTOCOLS = {
    *("Differentiable", "Editor", "Factor", "Proposal", "Reporter", "Scorer"),
    "engines.Engine",
}
"""Classes of which a user makes the values."""
ELSEWHERE = {"guides.Trie", "Run"}
"""Classes whose values need a model or a folder; below, and in tests/guides."""
DO_COPY = {"pickle": lambda x: pickle.loads(pickle.dumps(x)), "deepcopy": copy.deepcopy}


def same(a, b):
    """Compare plain values and arrays all the way down; NaN equals NaN."""
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            same(one, other)
    elif hasattr(a, "__dict__") and not isinstance(a, np.ndarray):
        assert type(a) is type(b)
        same(vars(a), vars(b))
    elif isinstance(a, np.ndarray) and a.dtype.kind == "f":
        # A matrix product's last bit depends on where in memory its numbers are.
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15)
    elif isinstance(a, np.ndarray):
        np.testing.assert_array_equal(a, b)
    else:
        assert a == b or (a != a and b != b)


@pytest.mark.parametrize("how", DO_COPY)
@pytest.mark.parametrize("name", VALUES)
def test_a_copy_does_the_same(name, how):
    make, behaviour = VALUES[name]
    value = make()
    fresh = DO_COPY[how](value)
    assert type(fresh) is type(value)
    used = behaviour(value)
    same(behaviour(fresh), used)
    same(behaviour(DO_COPY[how](value)), used)  # also after its caches are filled


def test_every_public_class_is_here():
    names = set(qr.__all__) - {"text", "tuning"}  # those below, with torch
    public = {name for name in names if inspect.isclass(getattr(qr, name))}
    for module in (qr.guides, qr.engines, qr.metrics, qr.features, qr.lattice):
        short = module.__name__.rpartition(".")[2]
        classes = {name for name in module.__all__ if inspect.isclass(getattr(module, name))}
        public |= {f"{short}.{name}" for name in classes if not hasattr(qr, name)}
    home = dict.fromkeys(public, qr)
    for module in (qr.errors, qr.samplers, qr.certificates, qr.targets, qr.proposals):
        home |= {name: module for name in module.__all__ if inspect.isclass(getattr(module, name))}
    assert home.keys() - PROTOCOLS - ELSEWHERE <= set(VALUES)
    for name in home.keys() - PROTOCOLS - ELSEWHERE:
        made = VALUES[name][0]()
        of = home[name] if "." not in name else getattr(qr, name.split(".")[0])
        assert isinstance(made, getattr(of, name.rpartition(".")[2]))


def test_runs_and_stores(tmp_path):
    run = qr.run("poissons", out=tmp_path / "run", draws=20_000, progress=False)
    store = qr.store.Store.open(tmp_path / "run")
    streamed = qr.tradeoff(tmp_path / "run", stream=True)
    contexts = qr.run(RECIPE, out=tmp_path / "contexts", contexts=CONTEXTS, progress=False)
    for again in DO_COPY.values():
        same(again(run).curve.columns(), run.curve.columns())
        same(qr.Draws.load(again(store)).log_p, qr.Draws.load(store).log_p)
        same(of_curve(again(streamed)), of_curve(streamed))
        assert str(again(contexts).certificate) == str(contexts.certificate)


@pytest.mark.parametrize("how", DO_COPY)
def test_language_models(how):
    """The classes of `quasir.text`, and the trie, on models of a few words."""
    pytest.importorskip("torch")
    from tests.guides.small import model
    from tests.proposals.test_protocol import causal, round_trip, seq2seq
    from tests.text.test_masked import causal as words
    from tests.text.test_masked import editor

    again, guided = DO_COPY[how], model().guided(qr.guides.regex("a(b|ab)*"))
    learnt = guided.learn(guided.sample(20, np.random.default_rng(0)).items)
    for lm in (causal(), seq2seq(), round_trip(), guided, learnt):
        items, log_q = lm.sample(4, np.random.default_rng(0))
        fresh, log_fresh = again(lm).sample(4, np.random.default_rng(0))
        assert [str(item) for item in items] == [str(item) for item in fresh]
        np.testing.assert_allclose(log_q, log_fresh, atol=1e-5)
        same([str(item) for item in again(items)], [str(item) for item in items])
        assert again(items[0]) == items[0]
    (trie,) = (part for part in learnt.guide.parts if isinstance(part, qr.guides.Trie))
    assert again(trie) == trie
    masks, asked = editor(words()), ([(MASK, 3)], np.array([0]))
    same(again(masks).log_token_probs(*asked), masks.log_token_probs(*asked))
