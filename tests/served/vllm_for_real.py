"""vLLM for real, in an environment of its own: ``make test-vllm``. Not part of ``make test``."""

import math
import os

import numpy as np
import pytest

import quasir as qr
from quasir.draws.draw_blocks import tvd_of_noise
from quasir.errors import ServerError
from tests.served.real_servers import smollm2_folder, vllm_server

PYTHON = os.environ.get("QUASIR_VLLM_PYTHON", ".venv-vllm/bin/python")
PROMPT = "The capital of France is"
TOKENS = 12


@pytest.fixture(scope="module")
def url():
    with vllm_server(PYTHON, "--logprobs-mode", "processed_logprobs") as address:
        yield address


@pytest.fixture(scope="module")
def served(url):
    return qr.text.Served(url, prompt=PROMPT, max_tokens=TOKENS, tokenizer=smollm2_folder())


@pytest.fixture(scope="module")
def here():
    return qr.text.CausalLM(smollm2_folder(), prompt=PROMPT, max_tokens=TOKENS)


def test_the_probe_finds_it_honest(served):
    print("\n" + "\n".join(served.probe.lines()))
    assert served.probe.good_for == ("base", "proposal")
    assert all(check.passed for check in served.probe.checks)
    assert served.mismatch < 1e-3


def test_it_scores_and_draws_as_the_same_weights_in_this_process(served, here):
    assert served.prefix == here.prefix
    items, log_q = served.sample(32, np.random.default_rng(0))
    np.testing.assert_allclose(here.log_prob(items), log_q, atol=2e-3)
    ours, log_here = here.sample(32, np.random.default_rng(1))
    np.testing.assert_allclose(served.log_prob(ours), log_here, atol=2e-3)


@pytest.mark.parametrize("settings", [{"temperature": 0.7}, {"top_k": 20}, {"top_p": 0.8}])
def test_log_q_includes_what_is_sampled_with(served, here, settings):
    there, ours = served.varied(**settings), here.varied(**settings)
    items, log_q = there.sample(24, np.random.default_rng(0))
    np.testing.assert_allclose(ours.log_prob(items), log_q, atol=5e-3)
    if not there.sampling.cuts:  # texts of another model too
        items, log_q = ours.sample(8, np.random.default_rng(1))
        np.testing.assert_allclose(there.log_prob(items), log_q, atol=5e-3)


def test_a_boost_is_mixed_with_the_base(served):
    (paris,) = served.protocol.encode(" Paris")
    boosted, target = served.varied(logit_bias={paris: 3.0}), served * qr.features.contains("Paris")
    draws = qr.draw(target, qr.Mixture([boosted, served]), 64, seed=7)
    assert draws.log_ratio.max() <= draws.known.log_ceiling == pytest.approx(math.log(2))
    own, mixed = (
        qr.tradeoff(each).at(beta=2.0).log_z
        for each in (qr.draw(target, served, 300, seed=8), draws)
    )
    print(f"log Z by the base {own}, with a boost {mixed}")
    assert abs(own.value - mixed.value) < 4 * math.hypot(own.se, mixed.se)


def test_z_and_the_trade_off_agree_with_this_process(served, here):
    other = "Paris! The capital of France is"
    curves = []
    for lm, n, seed in ((served, 300, 5), (here, 300, 6)):
        target = lm * qr.features.contains("Paris")
        proposal = qr.Mixture([lm.prompted(other), lm])
        curves.append(qr.tradeoff(qr.draw(target, proposal, n, seed=seed)))
    for beta in (0.5, 1.0, 1.5):
        for name in ("log_z", "acceptance_rate", "tvd"):
            a, b = (curve.at(beta=beta).estimate(name) for curve in curves)
            print(f"beta {beta}: {name} served {a}, here {b}")
            assert abs(a.value - b.value) < 4 * math.hypot(a.se, b.se) + 1e-6


def test_a_mask_is_a_proposal_whose_normaliser_is_known(served):
    masked = served.varied(mask={"regex": " [A-Z][a-z]{2,9}\\."}, logit_bias=None)
    items, log_q = masked.sample(16, np.random.default_rng(0))
    shorter = [text.text for text in items if len(text.token_ids) < TOKENS]
    assert all(text.endswith(".") for text in shorter)
    log_a = served.log_prob(items)
    assert (log_q >= log_a - 1e-3).all()  # log q - log a is minus the log of the mass that is left
    assert (log_q > log_a + 0.5).any()


def test_bfloat16_is_noisy_and_says_so():
    options = ("--logprobs-mode", "processed_logprobs", "--dtype", "bfloat16")
    with vllm_server(PYTHON, *options) as url:
        for at_once in (16, 1):
            half = qr.text.Served(url, prompt=PROMPT, max_tokens=24, concurrency=at_once)
            items, log_q = half.sample(24, np.random.default_rng(0))
            apart = np.abs(half.log_prob(items) - log_q)
            tokens = sum(min(len(text.token_ids) + 1, 24) for text in items)
            mean, most, each = apart.mean(), apart.max(), apart.sum() / tokens
            print(f"\nbfloat16, {at_once} at once: {mean:.2g} nats per text, at most {most:.2g}, ")
            print(f"{each:.2g} per token; this adds {tvd_of_noise(most):.2g} to a TVD")
            print("\n".join(half.probe.lines()))
        assert 0.001 < apart.mean() < 1
        assert half.mismatch > 0.001
        target = half * qr.features.contains("Paris")
        draws = qr.draw(target, half.prompted(f"Paris! {PROMPT}"), 16, seed=0)
        assert any("nats away from what they were drawn with" in text for text in draws.warnings)


def test_one_with_raw_log_probabilities_is_refused_at_another_temperature():
    with vllm_server(PYTHON) as raw:  # raw log-probabilities are its default
        plain = qr.text.Served(raw, prompt=PROMPT, max_tokens=TOKENS)
        assert plain.probe.good_for == ("base", "proposal")
        cold = plain.varied(temperature=0.7)
        print("\n" + "\n".join(cold.probe.lines()))
        assert cold.probe.verdict == "refused"
        with pytest.raises(ServerError, match="emperature is not in log q"):
            cold.sample(1, np.random.default_rng(0))
