"""What decides on a draw is independent of the draw; with keys without a purpose it is not."""

import numpy as np
import pytest
from scipy import stats

import quasir as qr
from quasir.core.streams import DrawStreams
from quasir.samplers.qrs import QRS
from tests.shared_streams import SharedStreams
from tests.statistical.goodness import FALSE_ALARM, fits

FAIR = qr.Table({0: 0.5, 1: 0.5})
MOSTLY_0, MOSTLY_1 = qr.Table({0: 0.95, 1: 0.05}), qr.Table({0: 0.05, 1: 0.95})
P = qr.Table({0: 0.9, 1: 0.1})
P_BETA = [0.5 / 0.6, 0.1 / 0.6]


class Spawning:
    """A user's own proposal, which takes its random numbers from a child of the generator."""

    prefix_stable = True

    def sample(self, n, rng):
        (child,) = rng.spawn(1)
        items = (child.random(n) < 0.5).astype(np.int64)
        return items, np.full(n, np.log(0.5))

    def log_prob(self, items):
        return np.full(len(items), np.log(0.5))


def coin():
    """Return scipy's fair coin."""
    return qr.from_scipy(stats.bernoulli(0.5))


PLAIN = {
    "table": FAIR,
    "scipy": coin(),
    "mixture": qr.Mixture([FAIR, FAIR]),
    "nested mixture": qr.Mixture([qr.Mixture([MOSTLY_0, MOSTLY_1]), coin()], weights=[3, 1]),
    "spawning": Spawning(),
}
SPAWN = ["mixture", "nested mixture", "spawning"]
"""Those whose generator has children: the ones that keys without a purpose are wrong for."""


def first_samples(proposal, keys, seeds=3_000):
    """Return the first sample of each seed: where a block's generator has just begun."""
    found = []
    for seed in range(seeds):
        streams = keys(seed)
        items, log_q = proposal.sample(64, streams.propose(0))
        items = np.array([int(x) for x in items])
        log_p = np.asarray(P.log_prob(list(items)))
        accepted = log_p - log_q - streams.log_u(0)[:64] > 0
        found.append(int(items[np.argmax(accepted)]))
        assert accepted.any()
    return found


@pytest.mark.parametrize("name", PLAIN)
def test_the_first_sample_of_each_seed_follows_p_beta(name):
    found = [
        int(QRS(P, PLAIN[name], beta=1.0).sample(1, seed=seed).items[0]) for seed in range(3_000)
    ]
    assert fits(found, [0, 1], P_BETA)


@pytest.mark.parametrize("name", PLAIN)
def test_keys_without_a_purpose_fail_where_a_proposal_spawns(name):
    assert fits(first_samples(PLAIN[name], SharedStreams), [0, 1], P_BETA) == (name not in SPAWN)
    assert fits(first_samples(PLAIN[name], DrawStreams), [0, 1], P_BETA)


def related(proposal, keys, code, blocks, places):
    """Tell whether a draw's own uniform says anything about its item, at these places of a block.

    -log u has mean 1 and variance 1, whatever the item is: so it must be for the draws that
    `code` marks, and for the others.
    """
    marked, log_u, last = [], [], max(places) + 1
    for block in range(blocks):
        streams = keys(7)
        items, _ = proposal.sample(last, streams.propose(block))
        marked.append(code(items)[places])
        log_u.append(streams.log_u(block)[places])
    marked, log_u = np.concatenate(marked), np.concatenate(log_u)
    groups = [-log_u[marked] - 1, -log_u[~marked] - 1]
    assert min(map(len, groups)) > 100
    z = np.array([group.sum() / np.sqrt(len(group)) for group in groups])
    return bool(stats.chi2.sf(float(z @ z), 2) < FALSE_ALARM)


def ones(items):
    return np.array([int(x) == 1 for x in items])


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("places", [[0], [1], range(1024)], ids=["first", "second", "whole block"])
def test_a_draws_uniform_says_nothing_about_its_item(name, places):
    places = np.array(places)
    assert not related(PLAIN[name], DrawStreams, ones, 2_000 if len(places) == 1 else 200, places)


@pytest.mark.parametrize("name", SPAWN)
def test_with_keys_without_a_purpose_it_does(name):
    assert related(PLAIN[name], SharedStreams, ones, 2_000, np.array([0]))


def test_with_keys_without_a_purpose_it_does_all_over_a_block_that_one_child_draws():
    assert related(Spawning(), SharedStreams, ones, 200, np.arange(1024))


@pytest.fixture(scope="module")
def models():
    """Language models of two words, whose texts have at most two tokens; one, and a mixture."""
    pytest.importorskip("torch")
    from tests.text import tiny

    tokenizer = tiny.tokenizer()
    made = [
        qr.text.CausalLM(
            model=tiny.gpt2(len(tokenizer), seed=seed, scale=0.1),
            tokenizer=tokenizer,
            max_tokens=2,
        )
        for seed in (0, 1)
    ]
    return made[0], qr.Mixture(made, weights=[4, 1])


def begins_with_the_first_token(items):
    return np.array([str(text).startswith("<s>") for text in items])


def test_language_models(models):
    single, mixture = models
    first, few = np.array([0]), np.arange(64)
    for model in (single, mixture):
        assert not related(model, DrawStreams, begins_with_the_first_token, 600, first)
        assert not related(model, DrawStreams, begins_with_the_first_token, 100, few)
    assert related(mixture, SharedStreams, begins_with_the_first_token, 600, first)
