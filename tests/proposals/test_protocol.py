"""Every proposal keeps the same demands, and a proposal that breaks one is found out."""

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

import quasir as qr
from quasir.core.scores import propose
from quasir.core.types import optional_attribute
from quasir.targets.lattice import UniformStates

LETTERS = qr.Table({"a": 0.5, "b": 0.3, "c": 0.2, "d": 0.0})
OTHERS = qr.Table({"b": 1, "c": 2, "e": 3})


class Dice:
    """A user's own proposal: the two methods and nothing else."""

    def sample(self, n, rng):
        return (items := rng.integers(1, 7, n)), self.log_prob(items)

    def log_prob(self, items):
        inside = (np.asarray(items) >= 1) & (np.asarray(items) <= 6)
        return np.where(inside, -np.log(6), -np.inf)


def causal(**settings):
    pytest.importorskip("torch")
    from tests.text.tiny import gpt2, tokenizer

    tok = tokenizer()
    return qr.text.CausalLM(model=gpt2(len(tok)), tokenizer=tok, max_tokens=4, **settings)


def masked():
    pytest.importorskip("torch")
    from tests.guides.small import model

    return model().guided(qr.guides.regex("a(b|ab)*"))


def translator(seed=0):
    pytest.importorskip("torch")
    from tests.text.tiny import marian, tokenizer

    tok = tokenizer(("a", "b"), bos=None, eos="</s>", pad="<p>")
    return marian(len(tok), tok.pad_token_id, tok.eos_token_id, seed), tok


def seq2seq():
    model, tok = translator()
    return qr.text.Seq2SeqLM(model=model, tokenizer=tok, source="a b b", max_tokens=4)


def round_trip():
    (there, tok), back = translator(2), translator(1)
    there.final_logits_bias[:, tok.eos_token_id] -= 3  # a translation of more than nothing
    return qr.text.RoundTrip((there, tok), back, "a b", beams=3, top_k=3, max_tokens=3)


@dataclass(frozen=True)
class Case:
    """A proposal, and what it is.

    Attributes
    ----------
    stable, listed : bool
        Whether it says that it is prefix-stable, and lists its support.
    discrete : bool
        Whether log q is that of a probability, and not of a density.
    atol : float
        How far log q may be from `log_prob`: networks compute in float32.
    """

    make: Callable[[], Any]
    stable: bool = True
    listed: bool = False
    discrete: bool = True
    atol: float = 1e-9


PROPOSALS = {
    "Table": Case(lambda: LETTERS, listed=True),
    "Table of integers": Case(lambda: qr.Table({3: 1, -7: 2, 100: 0}), listed=True),
    "from_scipy": Case(lambda: qr.from_scipy(stats.poisson(10)), listed=True),
    "from_scipy, too wide to list": Case(lambda: qr.from_scipy(stats.zipf(1.5)), stable=False),
    "from_scipy, continuous": Case(
        lambda: qr.from_scipy(stats.norm(0, 0.1)), stable=False, discrete=False
    ),
    "from_scipy, multivariate": Case(
        lambda: qr.from_scipy(stats.multinomial(3, [0.4, 0.6])), stable=False
    ),
    "UniformStates": Case(lambda: UniformStates(4, 3), listed=True),
    "Mixture": Case(lambda: qr.Mixture([LETTERS, OTHERS], weights=[1, 3]), listed=True),
    "nested Mixture": Case(
        lambda: qr.Mixture([qr.Mixture([LETTERS, OTHERS]), qr.Mixture([OTHERS, LETTERS, OTHERS])]),
        listed=True,
    ),
    "Mixture with an own class": Case(
        lambda: qr.Mixture([Dice(), qr.from_scipy(stats.poisson(3))]), stable=False
    ),
    "own class": Case(Dice, stable=False),
    "CausalLM": Case(causal, atol=1e-4),
    "CausalLM, warped": Case(lambda: causal(temperature=0.8, top_k=2), atol=1e-4),
    "Mixture of prompts": Case(
        lambda: qr.Mixture([(lm := causal()).prompted("a"), lm.prompted("b b")]), atol=1e-4
    ),
    "Guided, boosted": Case(
        lambda: causal().guided(qr.guides.boost({"a": 5.0}), share=0.3), atol=1e-4
    ),
    "Guided, masked": Case(masked, atol=1e-4),
    "Seq2SeqLM": Case(seq2seq, atol=1e-4),
    "RoundTrip": Case(round_trip, atol=1e-4),
}
N = 300


def rng(seed=3):
    return np.random.default_rng(seed)


def rows(items):
    """Return items as something that can be compared."""
    return items.tolist() if isinstance(items, np.ndarray) else list(items)


def global_state(seed=None):
    """Return what global random numbers come from, of torch only if it is loaded; seed it first."""
    torch = sys.modules.get("torch")
    if seed is not None:
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        if torch:
            torch.manual_seed(seed)
    numpy_state = np.random.get_state()[1].tolist()  # noqa: NPY002
    return random.getstate(), numpy_state, torch and torch.get_rng_state().tolist()


def gives_n_with_their_log_prob(case):
    proposal = case.make()
    for n in (1, 7, N):
        items, log_q = proposal.sample(n, rng())
        assert len(items) == n
        assert log_q.shape == (n,)
        assert log_q.dtype == np.float64
        np.testing.assert_allclose(log_q, proposal.log_prob(items), rtol=0, atol=case.atol)
    assert len({str(row) for row in rows(items)}) > 1


def takes_all_randomness_from_rng(case):
    proposal, twin = case.make(), case.make()
    global_state(seed=1)
    first, log_q = proposal.sample(N, rng())
    before = global_state(seed=2)
    for other in (proposal, twin):
        again = other.sample(N, rng())
        assert rows(again[0]) == rows(first)
        np.testing.assert_allclose(again[1], log_q, rtol=0, atol=case.atol)
    assert global_state() == before
    assert rows(proposal.sample(N, rng(4))[0]) != rows(first)


def is_prefix_stable(case):
    proposal = case.make()
    assert optional_attribute(proposal, "prefix_stable") is True
    items, log_q = proposal.sample(N, rng())
    for k in (1, 2, 50, N - 1):
        some, log_some = proposal.sample(k, rng())
        assert rows(some) == rows(items)[:k]
        np.testing.assert_allclose(log_some, log_q[:k], rtol=0, atol=case.atol)


def lists_its_support(case):
    proposal = case.make()
    support = optional_attribute(proposal, "support")
    assert np.exp(proposal.log_prob(support)).sum() == pytest.approx(1, abs=1e-9)
    listed = {str(row) for row in rows(support)}
    assert len(listed) == len(support)
    assert {str(row) for row in rows(proposal.sample(N, rng())[0])} <= listed


def has_no_probability_above_1(case):
    assert case.make().sample(N, rng())[1].max() <= 1e-12


DEMANDS = {
    gives_n_with_their_log_prob: lambda case: True,
    takes_all_randomness_from_rng: lambda case: True,
    is_prefix_stable: lambda case: case.stable,
    lists_its_support: lambda case: case.listed,
    has_no_probability_above_1: lambda case: case.discrete,
}
"""Demand -> of whom it is made."""
PAIRS = [
    pytest.param(case, demand, id=f"{name}-{demand.__name__}")
    for name, case in PROPOSALS.items()
    for demand, applies in DEMANDS.items()
    if applies(case)
]


@pytest.mark.parametrize(("case", "demand"), PAIRS)
def test_every_proposal(case, demand):
    demand(case)


@pytest.mark.parametrize("case", PROPOSALS.values(), ids=PROPOSALS)
def test_no_demand_is_left_out(case):
    """A proposal that says it is prefix-stable, or lists its support, is held to it."""
    proposal = case.make()
    assert bool(optional_attribute(proposal, "prefix_stable")) == case.stable
    assert (optional_attribute(proposal, "support") is not None) == case.listed


class Cut:
    """A proposal whose answer is changed before it is given."""

    def __init__(self, proposal, change):
        self.proposal, self.change = proposal, change
        self.density = optional_attribute(proposal, "density")

    def sample(self, n, rng):
        return self.change(*self.proposal.sample(n, rng))

    def log_prob(self, items):
        return self.proposal.log_prob(items)


WRONG = {
    "an item too few": lambda items, log_q: (items[:-1], log_q[:-1]),
    "no item": lambda items, log_q: (items[:0], log_q[:0]),
    "a log q too few": lambda items, log_q: (items, log_q[:-1]),
    "a log q too many": lambda items, log_q: (items, np.append(log_q, log_q[0])),
    "log q in a column": lambda items, log_q: (items, log_q[:, None]),
    "one log q for all": lambda items, log_q: (items, log_q[0]),
    "items alone": lambda items, log_q: items,
    "three things": lambda items, log_q: (items, log_q, log_q),
}


@pytest.mark.parametrize("case", PROPOSALS.values(), ids=PROPOSALS)
def test_an_answer_of_the_wrong_length_is_refused(case):
    proposal = case.make()
    for change in WRONG.values():
        with pytest.raises(qr.errors.ScoreError, match="Cut"):
            propose(Cut(proposal, change), 20, rng())
    # What is not changed is taken.
    taken, given = propose(Cut(proposal, lambda *pair: pair), 20, rng()), proposal.sample(20, rng())
    assert rows(taken.items) == rows(given[0])
    np.testing.assert_allclose(taken.log_q, given[1], rtol=0, atol=case.atol)


class Broken(qr.Table):
    """A table with one fault."""

    def __init__(self, fault):
        super().__init__({"a": 0.5, "b": 0.3, "c": 0.2})
        self.fault, self.calls = fault, 0
        if fault == "leaves an item out":
            self.support = self.support[:2]
        elif fault == "lists an item twice":
            self.support = self.support.take(np.array([0, 1, 2, 2]))

    def sample(self, n, rng):
        self.calls += 1
        if self.fault == "one too few":
            n -= 1
        elif self.fault == "asks numpy":
            rng = np.random.default_rng(np.random.randint(2**31))  # noqa: NPY002
        elif self.fault == "asks nobody":
            rng = np.random.default_rng(0)
        elif self.fault == "remembers its calls":
            rng = np.random.default_rng([*rng.integers(0, 99, 2), self.calls])
        items, log_q = super().sample(n, rng)
        if self.fault == "gives another log q":
            log_q = log_q[::-1]
        elif self.fault == "is not normalised":
            log_q = log_q + 1
        elif self.fault == "is turned round":
            items, log_q = items.take(np.arange(n)[::-1]), log_q[::-1]
        return items, log_q


@pytest.mark.parametrize(
    ("fault", "demand"),
    [
        ("one too few", gives_n_with_their_log_prob),
        ("gives another log q", gives_n_with_their_log_prob),
        ("is not normalised", gives_n_with_their_log_prob),
        ("asks numpy", takes_all_randomness_from_rng),
        ("asks nobody", takes_all_randomness_from_rng),
        ("remembers its calls", takes_all_randomness_from_rng),
        ("is turned round", is_prefix_stable),
        ("leaves an item out", lists_its_support),
        ("lists an item twice", lists_its_support),
        ("is not normalised", has_no_probability_above_1),
    ],
)
def test_a_broken_proposal_fails(fault, demand):
    demand(Case(lambda: Broken("none")))
    with pytest.raises(AssertionError):
        demand(Case(lambda: Broken(fault)))


def test_every_demand_can_fail():
    (marks,) = test_a_broken_proposal_fails.pytestmark
    assert {demand for _, demand in marks.args[1]} == set(DEMANDS)
