"""Gibbs with gradients over texts: the gradient by one-hot tokens, and the chain's distribution."""

import itertools

import numpy as np
import pytest
import torch

import quasir as qr
from quasir.samplers import GibbsWithGradients
from quasir.samplers.gibbs_with_gradients import log_moves, log_values
from quasir.samplers.local_chains import log_metropolis
from tests.statistical.goodness import fits
from tests.text.tiny import gpt2, llama, tokenizer

MODELS = {"gpt2": gpt2, "llama": llama}
WORDS = ("a", "b", "c")


def target_of(kind="gpt2", length=2, limit=3, **settings):
    tok = tokenizer(WORDS, bos="</s>", eos="</s>")
    model = MODELS[kind](len(tok))
    lm = qr.text.CausalLM(model=model, tokenizer=tok, max_tokens=limit, **settings)
    torch.manual_seed(1)
    direction = torch.randn(model.get_input_embeddings().weight.shape[1])

    def log_factor(embeddings):
        return torch.tanh(embeddings @ direction).sum(dim=1)

    return qr.text.DifferentiableText(lm, log_factor, length)


def states_of(target):
    """Return every text of the length, without the end token."""
    tokens = [i for i in range(target.categories) if i != target.base.end]
    return np.array(list(itertools.product(tokens, repeat=target.size)))


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("length", "limit"), [(2, 3), (3, 3)], ids=["ends", "cut"])
@pytest.mark.parametrize("settings", [{}, {"temperature": 0.7}, {"prompt": "b a"}], ids=str)
def test_the_gradient_is_that_by_one_hot_rows(kind, length, limit, settings):
    """Written out with one-hot rows as the variables, and differentiated by torch."""
    target = target_of(kind, length, limit, **settings)
    lm, states = target.base, states_of(target)[:5]
    table = lm.model.get_input_embeddings().weight.detach()
    ids = torch.from_numpy(states)
    hot = torch.nn.functional.one_hot(ids, target.categories).float().requires_grad_(True)
    prefix = table[torch.tensor(lm.prefix)].expand(len(ids), -1, -1)
    logits = lm.model(inputs_embeds=torch.cat([prefix, hot @ table], dim=1)).logits
    log_probs = lm.warp(logits[:, len(lm.prefix) - 1 :]).log_softmax(-1)
    log_p = (hot * log_probs[:, :length]).sum(dim=(1, 2)) + target.log_factor(hot @ table)
    if length < limit:
        log_p = log_p + log_probs[:, length, lm.end]
    (expected,) = torch.autograd.grad(log_p.sum(), hot)
    np.testing.assert_allclose(log_p.detach(), target.log_score(target.decode(states)), atol=1e-4)
    gradient = target.grad(states)
    others = [i for i in range(target.categories) if i != lm.end]
    np.testing.assert_allclose(gradient[..., others], expected[..., others], atol=1e-4)
    assert (gradient[..., lm.end] == -np.inf).all()
    sites = np.arange(len(states)) % length
    np.testing.assert_allclose(
        target.grad_at(states, sites)[:, others],
        gradient[np.arange(len(states)), sites][:, others],
        atol=1e-5,
    )


@pytest.mark.parametrize("site_first", [False, True])
@pytest.mark.parametrize("kind", MODELS)
def test_p_is_stationary(kind, site_first):
    target = target_of(kind)
    sampler, states = (
        GibbsWithGradients(target, target.base, site_first=site_first),
        states_of(target),
    )
    matrix, p = matrix_and_p(sampler, states)
    # The network's float32 answers are the same in both directions to about 1e-7.
    assert np.abs(p @ matrix - p).max() < 1e-6
    wrong, _ = matrix_and_p(sampler, states, right=False)
    assert np.abs(p @ wrong - p).max() > 1e-3


def matrix_and_p(sampler, states, right=True):
    target = sampler.target
    place = {tuple(x): i for i, x in enumerate(states.tolist())}
    log_p = target.log_score(target.decode(states))
    p = np.exp(log_p) / np.exp(log_p).sum()
    if sampler.site_first:
        sites = [np.full(len(states), i) for i in range(target.size)]
        moves = [log_values(states[:, s[0]], sampler._gradient_at(states, s)) for s in sites]
        moves = np.stack(moves, axis=1) - np.log(target.size)
    else:
        moves = log_moves(states, sampler._gradient(states))
    np.testing.assert_allclose(np.exp(moves).sum(axis=(1, 2)), 1, atol=1e-12)
    matrix = np.zeros((len(states), len(states)))
    for (x, state), i in itertools.product(enumerate(states), range(target.size)):
        for value in np.flatnonzero(moves[x, i] > -np.inf):
            other = state.copy()
            other[i] = value
            y = place[tuple(other)]
            back = moves[y, i, state[i]] if right else moves[x, i, value]
            accept = log_metropolis(log_p[x], log_p[y], moves[x, i, value], back)
            matrix[x, y] += np.exp(moves[x, i, value] + accept)
    matrix[np.diag_indices(len(states))] = 1 - matrix.sum(axis=1)
    return matrix, p


@pytest.mark.parametrize("site_first", [False, True])
def test_the_chain_has_the_distribution_of_its_length(site_first):
    target = target_of()
    sampler = GibbsWithGradients(target, target.base, site_first=site_first, reset=5)
    samples = sampler.sample(2_000, seed=0)
    states = states_of(target)
    matrix, _ = matrix_and_p(sampler, states)
    # Chains start at the base's texts of this length.
    start = np.exp(target.base.log_prob(target.decode(states)))
    expected = start / start.sum() @ np.linalg.matrix_power(matrix, 4)
    names = [tuple(x) for x in states.tolist()]
    drawn = [item.token_ids for item in samples.items]
    assert fits(drawn, names, expected)
    assert not fits(drawn, names, start)
    assert samples.move_rate > 0.2
    np.testing.assert_allclose(samples.log_p, target.log_score(samples.items), atol=1e-4)


def test_texts_of_another_length_are_impossible():
    target = target_of()
    texts = target.base.encode(["a", "a b", "a b c"])
    np.testing.assert_array_equal(target.log_score(texts) > -np.inf, [False, True, False])


def test_how_many_run_at_once_changes_nothing():
    target = target_of()
    sampler = GibbsWithGradients(target, target.base, chains=6, thin=3)
    one, many = (sampler.sample(30, seed=1, batch_size=size) for size in (1, 6))
    assert list(one.items) == list(many.items)


def test_wrong_settings_are_refused():
    target = target_of()
    with pytest.raises(qr.errors.InputError, match="at most max_tokens = 3"):
        qr.text.DifferentiableText(target.base, target.log_factor, 4)
    with pytest.raises(qr.errors.InputError, match="no gradient"):
        target_of(top_k=2)
    broken = qr.text.DifferentiableText(target.base, lambda e: e, 2)
    with pytest.raises(qr.errors.ScoreError, match="one number for each"):
        broken.log_score(target.decode(states_of(target)))
