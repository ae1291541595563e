"""Every sampler keeps the same demands, and a sampler that breaks one is found out."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import quasir as qr
from quasir.targets.lattice import Ising, grid
from tests.sequences import TableEditor, every_sequence, table_of, weights_of

EARLY = qr.Feature("early", lambda x: x in "ab")
TARGET = qr.Table({"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.1}) * qr.tilt(EARLY, 0.5)
PROPOSAL = qr.Table(dict.fromkeys("abcde", 0.2))  # "e" is impossible
NOTHING = qr.Table({"z": 1.0}).log_score  # no draw of the proposal is possible
SEQUENCES = every_sequence(3, 0, 3)
TWOS = qr.Feature("twos", lambda x: x.count(2))
SPINS = Ising(grid(2, 3, 0.4), 0.1)


def walk(**settings):
    target = qr.Product(table_of(SEQUENCES, weights_of(SEQUENCES, seed=5)), (), (TWOS,))
    starts = table_of(SEQUENCES, np.ones(len(SEQUENCES)))
    return qr.RWMH(target, starts, TableEditor(), max_tokens=3, **settings)


@dataclass(frozen=True)
class Case:
    """A sampler, and where the demands need to know more of it."""

    make: Callable[[], Any]
    features: tuple[str, ...] = ("early",)  # those of its target
    pool: int = 5000  # draws that `replay` is given; 0 where the sampler has none
    keeps_first: bool = True  # whether a budget that runs out leaves the first of the samples
    short: Callable[[], Any] | None = None  # the sampler whose budget runs out, if another
    budget: int = 150  # proposals that are too few for `N` samples
    told: int | None = None  # what the progress counts up to; by default the samples


N = 200
SAMPLERS = {
    "QRS": Case(lambda: qr.QRS(TARGET, PROPOSAL, beta=2)),
    "IncrementalQRS": Case(
        lambda: qr.IncrementalQRS(TARGET, PROPOSAL, acceptance_rate=0.25), keeps_first=False
    ),
    "RS": Case(lambda: qr.RS(TARGET, PROPOSAL, beta=4)),
    "RejectionControl": Case(lambda: qr.RejectionControl(TARGET, PROPOSAL, beta=2)),
    "RejectionChain": Case(lambda: qr.RejectionChain(TARGET, PROPOSAL, beta=1.5, thin=2)),
    "IMH": Case(lambda: qr.IMH(TARGET, PROPOSAL, burn_in=20, thin=3)),
    "IMH with reset": Case(lambda: qr.IMH(TARGET, PROPOSAL, reset=10)),
    # SIR refuses a budget below its pool before it draws; it runs short where none is possible.
    "SIR": Case(
        lambda: qr.SIR(TARGET, PROPOSAL, pool=3000),
        pool=3000,
        short=lambda: qr.SIR(NOTHING, PROPOSAL, pool=150),
        told=3000,
    ),
    "EmpiricalSupremum": Case(lambda: qr.EmpiricalSupremum(TARGET, PROPOSAL)),
    "RWMH": Case(lambda: walk(chains=5, thin=4), features=("twos",), pool=0),
    # All of its chains run side by side, so that a short budget gives none of their last states.
    "RWMH with reset": Case(
        lambda: walk(reset=9), features=("twos",), pool=0, short=lambda: walk(reset=9)
    ),
    "GibbsWithGradients": Case(
        lambda: qr.GibbsWithGradients(SPINS, chains=5, thin=2), features=(), pool=0
    ),
    "GibbsWithGradients, the site first": Case(
        lambda: qr.GibbsWithGradients(SPINS, site_first=True, burn_in=3), features=(), pool=0
    ),
}


def rows(samples):
    """Return the items as something that can be compared."""
    items = samples.items
    return items.tolist() if isinstance(items, np.ndarray) else list(items)


def gives_exactly_n(case):
    for n in (1, 7, N):
        samples = case.make().sample(n, seed=1)
        assert len(samples) == n == len(samples.items) == len(samples.log_p)


def is_decided_by_its_seed(case):
    sampler = case.make()
    first = rows(sampler.sample(N, seed=1))
    assert rows(sampler.sample(N, seed=1)) == first
    assert rows(case.make().sample(N, seed=1)) == first
    assert rows(sampler.sample(N, seed=2)) != first


def does_not_depend_on_the_batch_size(case):
    whole = case.make().sample(N, seed=1)
    for size in (1, 17, 10_000):
        part = case.make().sample(N, seed=1, batch_size=size)
        assert rows(part) == rows(whole)
        np.testing.assert_array_equal(part.log_p, whole.log_p)
        for count in ("proposals", "steps", "moves"):
            assert getattr(part, count, None) == getattr(whole, count, None)


def refuses_a_wrong_n(case):
    for wrong in (0, -1, 1.5, True, "a"):
        with pytest.raises(qr.errors.InputError, match="n is"):
            case.make().sample(wrong, seed=1)
        for name in ("max_proposals", "batch_size"):
            with pytest.raises(qr.errors.InputError, match=f"{name} is"):
                case.make().sample(1, seed=1, **{name: wrong})


def keeps_what_a_budget_allowed(case):
    sampler = (case.short or case.make)()
    with pytest.raises(qr.errors.BudgetExceeded) as error:
        sampler.sample(N, seed=1, max_proposals=case.budget)
    found, message = error.value.samples, str(error.value)
    assert 0 < found.proposals <= case.budget
    assert f"gave {len(found):,} of {N:,} samples" in message
    assert message.startswith(f"{found.proposals:,} ")
    assert (found.log_p > -np.inf).all()
    if case.short:
        assert len(found) == 0
    else:
        assert 0 < len(found) < N
    if case.keeps_first:
        whole = [] if case.short else rows(sampler.sample(N, seed=1))
        assert rows(found) == whole[: len(found)]


def gives_what_is_possible(case):
    sampler = case.make()
    samples = sampler.sample(N, seed=1)
    assert (samples.log_p > -np.inf).all()
    np.testing.assert_allclose(samples.log_p, sampler.target.log_score(samples.items), rtol=1e-12)
    for feature in getattr(sampler.target, "features", ()):
        np.testing.assert_array_equal(samples.features[feature.name], feature(samples.items))


def tells_what_is_documented(case):
    samples = case.make().sample(N, seed=1)
    assert isinstance(samples, qr.samplers.SampleSet)
    assert type(samples.proposals) is int
    assert type(samples.acceptance_rate) is float
    assert samples.acceptance_rate == N / samples.proposals
    assert isinstance(samples.distance, str)
    assert samples.distance
    assert isinstance(samples.warnings, tuple)
    assert all(isinstance(warning, str) for warning in samples.warnings)
    assert type(samples.distinct) is int
    assert 1 < samples.distinct <= N
    assert samples.log_p.dtype == np.float64
    if case.pool:
        assert samples.log_q.dtype == np.float64
        assert samples.log_q.shape == (N,)
    else:
        assert samples.log_q is None
    assert tuple(samples.features) == case.features
    assert all(column.shape == (N,) for column in samples.features.values())
    assert type(samples).__name__ in repr(samples)


def replays_stored_draws(case):
    sampler = case.make()
    draws = qr.draw(sampler.target, sampler.proposal, case.pool, seed=1)
    stored, live = sampler.replay(draws, N), sampler.sample(N, seed=1)
    assert rows(stored) == rows(live)
    for name in ("log_p", "log_q"):
        np.testing.assert_array_equal(getattr(stored, name), getattr(live, name))
    assert stored.proposals == live.proposals
    assert stored.warnings == live.warnings
    for wrong in (0, -1, 1.5, True, "a"):
        with pytest.raises(qr.errors.InputError, match="n is"):
            sampler.replay(draws, wrong)


def reports_its_progress(case):
    calls, wanted = [], case.told or N
    samples = case.make().sample(N, seed=1, progress=lambda *call: calls.append(call))
    assert calls
    done, of, proposed = zip(*calls, strict=True)
    assert done[-1] == wanted
    assert set(of) == {wanted}
    assert list(done) == sorted(done)
    assert list(proposed) == sorted(proposed)
    assert proposed[-1] >= samples.proposals


DEMANDS = (
    gives_exactly_n,
    is_decided_by_its_seed,
    does_not_depend_on_the_batch_size,
    refuses_a_wrong_n,
    keeps_what_a_budget_allowed,
    gives_what_is_possible,
    tells_what_is_documented,
    replays_stored_draws,
    reports_its_progress,
)
PAIRS = [
    pytest.param(case, demand, id=f"{name}-{demand.__name__}")
    for name, case in SAMPLERS.items()
    for demand in DEMANDS
    if case.pool or demand is not replays_stored_draws
]


@pytest.mark.parametrize(("case", "demand"), PAIRS)
def test_every_sampler(case, demand):
    demand(case)


def test_no_sampler_is_left_out():
    public = {name: getattr(qr.samplers, name) for name in qr.samplers.__all__}
    samplers = {name for name, made in public.items() if hasattr(made, "sample")}
    assert {type(case.make()).__name__ for case in SAMPLERS.values()} == samplers
    assert all(hasattr(case.make(), "replay") == bool(case.pool) for case in SAMPLERS.values())


class Broken(qr.QRS):
    """QRS with one fault."""

    def __init__(self, fault):
        super().__init__(TARGET, PROPOSAL, beta=2)
        self.fault, self.calls = fault, 0

    def sample(self, n, seed=None, max_proposals=None, batch_size=None, progress=False):
        self.calls += 1
        if self.fault == "one too few":
            n = n - 1 if n > 1 else n
        elif self.fault == "one too many":
            n = n + 1
        elif self.fault == "ignores its seed":
            seed = 1
        elif self.fault == "remembers its calls":
            seed = (seed or 0) + self.calls
        elif self.fault == "listens to the batch size":
            seed = seed + (batch_size or 0)
        elif self.fault == "takes any n":
            n = 5
        elif self.fault == "ignores its budget":
            max_proposals = None
        elif self.fault == "never reports":
            progress = False
        samples = self.super_sample(n, seed, max_proposals, batch_size, progress)
        if self.fault == "gives what is impossible":
            return replace(samples, log_p=np.where(np.arange(n) == 3, -np.inf, samples.log_p))
        if self.fault == "scores another item":
            return replace(samples, log_p=samples.log_p[::-1])
        if self.fault == "drops its features":
            return replace(samples, features={})
        return samples

    def super_sample(self, n, seed, max_proposals, batch_size, progress):
        try:
            return super().sample(n, seed, max_proposals, batch_size, progress)
        except qr.errors.BudgetExceeded as error:
            if self.fault == "loses what it found":
                error.samples = super().sample(1, seed=seed + 1)
            raise

    def replay(self, draws, n=None):
        if self.fault == "replays the end":
            draws = draws.take(np.arange(len(draws))[::-1])
        return super().replay(draws, n)


@pytest.mark.parametrize(
    ("fault", "demand"),
    [
        ("one too few", gives_exactly_n),
        ("one too many", gives_exactly_n),
        ("ignores its seed", is_decided_by_its_seed),
        ("remembers its calls", is_decided_by_its_seed),
        ("listens to the batch size", does_not_depend_on_the_batch_size),
        ("takes any n", refuses_a_wrong_n),
        ("ignores its budget", keeps_what_a_budget_allowed),
        ("loses what it found", keeps_what_a_budget_allowed),
        ("gives what is impossible", gives_what_is_possible),
        ("scores another item", gives_what_is_possible),
        ("drops its features", tells_what_is_documented),
        ("replays the end", replays_stored_draws),
        ("never reports", reports_its_progress),
    ],
)
def test_a_broken_sampler_fails(fault, demand):
    demand(Case(lambda: Broken("none")))
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        demand(Case(lambda: Broken(fault)))


def test_every_demand_can_fail():
    """Or a demand that asserts nothing would pass for all."""
    (marks,) = test_a_broken_sampler_fails.pytestmark
    assert {demand for _, demand in marks.args[1]} == set(DEMANDS)
