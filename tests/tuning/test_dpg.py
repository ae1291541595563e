"""Tuning on models whose every text can be listed: how close it gets, and from where."""

import numpy as np
import pytest
import torch

import quasir as qr
from quasir.tuning.policy import Policy
from tests.text.tiny import every_text
from tests.tuning.exact import (
    dpg,
    exact_kl,
    kl_tensor,
    loop_of,
    model,
    noise,
    normalised,
    starts_with,
)


def best_reachable(base, p, texts, lora, steps=800, rate=2e-2):
    """Return the KL that the same architecture reaches by the exact gradient on the exact p."""
    policy, exact = Policy(base, lora, seed=0), torch.from_numpy(p)
    optimizer = torch.optim.Adam(list(policy.parameters.values()), lr=rate)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * (1 - step / steps)
        optimizer.zero_grad()
        kl_tensor(exact, policy.log_probs(texts)).backward()
        optimizer.step()
    return exact_kl(p, policy.lm, texts)


def test_as_close_as_the_architecture_gets():
    """An adapter of rank 1 cannot reach p: what is left is within 5 % of what must be left."""
    base = model(words=("a", "b", "c"), limit=5, n_layer=1, n_embd=8, n_head=1)
    texts = every_text(base)
    has_b = qr.Feature("has b", lambda text: "b" in text.text)
    target = base * has_b * qr.tilt(noise(1.0), 1.0)
    p = normalised(target, texts)
    options = {"steps": 700, "batch": 256, "draws": 8000, "round_steps": 100, "rate": 2e-2}
    tuned = dpg(target, base, lora=1, every=50, **options).run()
    least = best_reachable(base, p, texts, lora=1)
    assert least > 0.1
    assert exact_kl(p, base, texts) > 2
    assert exact_kl(p, tuned, texts) < 1.05 * least


def test_the_proposal_is_replaced_by_better_ones():
    base = model(limit=3)
    texts = every_text(base)
    target = base * starts_with("a") * qr.tilt(noise(1.0), 1.0)
    p = normalised(target, texts)
    loop = loop_of(target, base, steps=120, rate=2e-3)
    assert loop.rounds.current >= 2
    proposals = [
        loop.policy.frozen(loop.checkpoints.proposal(k)) for k in range(1, loop.rounds.proposals)
    ]
    distances = [exact_kl(p, proposal, texts) for proposal in [base, *proposals]]
    # A replacement is by an estimate: it may be wrong by a little, never by much.
    assert np.diff(distances).max() < 0.02
    assert distances[-1] < 0.2 * distances[0]
    rounds = [row["proposal"] for row in loop.log.rows if row["event"] == "round"]
    assert rounds == sorted(rounds)
    assert rounds[-1] == loop.rounds.current


def test_a_policy_that_is_no_better_does_not_become_the_proposal():
    base = model(limit=3)
    loop = loop_of(base * starts_with("a"), base, rate=1e-12, steps=40)
    assert loop.rounds.proposals == 1
    assert loop.rounds.count > 1


def test_a_warm_start_beats_a_cold_one_where_the_target_is_rare():
    """One text of the base in a thousand has P > 0, after the prompt one in ten."""
    base = model(words=("a", "b", "c"), limit=4, seed=2)
    texts = every_text(base)
    target = base * starts_with("c a") * qr.tilt(noise(1.0), 1.0)
    p = normalised(target, texts)
    assert np.exp(base.log_prob(texts))[p > 0].sum() < 1e-3
    options = {"draws": 8000, "give_up": 24_000, "steps": 30, "rate": 1e-2}
    with pytest.warns(qr.errors.QuasirWarning, match="worth only"):
        cold = dpg(target, base, **options).run()
    warm = dpg(target, base, warm_start="c", **options).run()
    colder, warmer = (exact_kl(p, lm, texts) for lm in (cold, warm))
    assert warmer < 0.3 * colder
    assert warm.prompt is None


def test_a_warm_start_from_another_model():
    base = model(words=("a", "b", "c"), limit=4, seed=2)
    target = base * starts_with("c a")
    loop = loop_of(target, base, warm_start=base.prompted("c"), round_steps=30)
    given = loop.rounds.trained.drawn.sum(axis=0)
    assert given[0] > 0
    assert given[0] == given[1]  # half of the first draws each; the second is then replaced
    assert loop.rounds.current >= 2


def test_a_base_that_cuts_tokens_is_tuned_without_cutting():
    whole = model(limit=3)
    base = qr.text.CausalLM(
        model=whole.model, tokenizer=whole.tokenizer, max_tokens=3, top_k=2, temperature=1.5
    )
    target = base * starts_with("a")
    tuned = dpg(target, base, rate=1e-2).run()
    texts = every_text(base)
    p = normalised(target, texts)
    assert (p > 0).sum() < len(texts)
    assert np.isfinite(tuned.log_prob(texts)).all()
    assert exact_kl(p, tuned, texts) < 0.2


def test_nothing_outside_is_touched():
    """Neither the base's weights, nor anyone's random numbers."""
    base = model(limit=3)
    before = {name: value.clone() for name, value in base.model.state_dict().items()}
    torch.manual_seed(7)
    np.random.seed(7)  # noqa: NPY002
    for lora in (None, 2):
        dpg(base * starts_with("a"), base, lora=lora, steps=20, rate=1e-2).run()
    after = torch.rand(3), np.random.rand(3)  # noqa: NPY002
    torch.manual_seed(7)
    np.random.seed(7)  # noqa: NPY002
    assert torch.equal(after[0], torch.rand(3))
    np.testing.assert_array_equal(after[1], np.random.rand(3))  # noqa: NPY002
    assert before.keys() == base.model.state_dict().keys()
    assert all(torch.equal(before[name], v) for name, v in base.model.state_dict().items())
    assert not base.model.training
    assert all(p.requires_grad for p in base.model.parameters())


def test_a_run_is_fixed_by_its_seed():
    base = model(limit=3)
    target = base * starts_with("a")
    first, again, other = (
        dpg(target, base, seed=seed, rate=1e-2).run().model.state_dict() for seed in (3, 3, 4)
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps is 0"),
        ({"lora": 0}, "lora is 0"),
        ({"rate": -1.0}, "rate is -1.0"),
        ({"minutes": float("nan")}, "minutes is nan"),
    ],
)
def test_options_are_checked(options, message):
    base = model(limit=3)
    with pytest.raises(qr.errors.InputError, match=message):
        qr.tuning.DPG(base * starts_with("a"), base, **options)


def test_only_a_causal_model_can_be_tuned():
    table = qr.Table({"a": 1.0})
    with pytest.raises(qr.errors.InputError, match="must be a quasir"):
        qr.tuning.DPG(table, table)
