"""llama.cpp for real: SmolLM2 (Q4_1) behind its server, on this machine."""

import json
import math

import numpy as np
import pytest
import yaml

import quasir as qr
from quasir.errors import InputError
from quasir.text.server_kinds import Sampling
from tests.cli.helpers import quasir, start
from tests.served.real_servers import llama_server, smollm2_folder
from tests.waiting import wait_until

PROMPT = "The capital of France is"


@pytest.fixture(scope="module")
def url():
    with llama_server() as (address, _):
        yield address


@pytest.fixture(scope="module")
def model(url):
    return qr.text.Served(url, prompt=PROMPT, max_tokens=8, concurrency=2)


@pytest.fixture(scope="module")
def drawn(model):
    return model.sample(10, np.random.default_rng(0))


def test_the_probe_finds_it_honest(model):
    probe = model.probe
    assert probe.good_for == ("base", "proposal"), probe.lines()
    assert all(check.passed for check in probe.checks), probe.lines()
    assert 0 < probe.mismatch < 0.01


def test_drawn_texts_score_as_they_were_drawn(model, drawn):
    assert np.abs(model.log_prob(drawn.items) - drawn.log_q).max() < 0.01
    assert all(text.text for text in drawn.items)


def test_a_draw_depends_on_its_seed_only(model, drawn):
    again = model.sample(3, np.random.default_rng(0))
    assert [t.token_ids for t in again.items] == [t.token_ids for t in drawn.items][:3]
    np.testing.assert_array_equal(again.log_q, drawn.log_q[:3])


def full_list(model, prefix, **settings):
    """Return the probability of every token, after sampling, as the server lists them.

    There is no list where the token that was drawn leaves a character unfinished.
    """
    for seed in range(100):
        more = {"n_probs": 49152, "post_sampling_probs": True, "seed": seed} | settings
        answer = model.protocol._ask(dict, prefix, 1, **more)
        for entry in answer.get("completion_probabilities", []):
            return {each["id"]: each["prob"] for each in entry["top_probs"]}
    raise AssertionError("no list")


def test_the_numbers_include_temperature_bias_and_cuts_and_sum_to_one(model):
    prefix = model.prefix
    plain = full_list(model, prefix)
    assert sum(plain.values()) == pytest.approx(1, abs=1e-5)
    cold = full_list(model, prefix, temperature=0.7)
    power = {i: p ** (1 / 0.7) for i, p in plain.items()}
    best = max(plain, key=plain.get)
    assert cold[best] == pytest.approx(power[best] / sum(power.values()), rel=1e-3)
    biased = full_list(model, prefix, logit_bias=[[260, 3.0]])
    up = plain[260] * math.exp(3)
    assert biased[260] == pytest.approx(up / (1 - plain[260] + up), rel=1e-3)
    three = full_list(model, prefix, top_k=3)
    assert len(three) == 3
    assert sum(three.values()) == pytest.approx(1, abs=1e-5)


def test_a_token_inside_a_character_has_its_probability(model):
    """llama.cpp leaves its entry out; without it log q would be too large by several nats."""
    arrow = model.protocol.encode("\u21a9")
    assert len(arrow) > 1
    prefix = [*model.prefix, *model.protocol.encode(" See")]
    bias = tuple((token, 25.0 - 5 * i) for i, token in enumerate(arrow))
    sampling = Sampling(len(arrow), temperature=0.9, logit_bias=bias)
    found = model.protocol.draw(prefix, sampling, 1)
    assert found.ids[0] in arrow
    assert np.isfinite(found.log_q).all()
    raised = {token: b for token, b in bias}
    warm = {i: (math.log(p) + raised.get(i, 0)) / 0.9 for i, p in full_list(model, prefix).items()}
    log_q = warm[found.ids[0]] - np.logaddexp.reduce(list(warm.values()))
    assert found.log_q[0] == pytest.approx(log_q, abs=2e-3)
    odd = sum(model.protocol.score(prefix, arrow, len(arrow)))
    plain = [full_list(model, [*prefix, *arrow[:i]])[token] for i, token in enumerate(arrow)]
    assert odd == pytest.approx(float(np.log(plain).sum()), abs=2e-3)


def test_every_token_that_ends_a_text_is_counted(model):
    """This model has several; the text keeps those that are not the usual one."""
    protocol, end = model.protocol, model.end
    others = [token for token in (0, 4) if protocol.ends(token)]
    assert protocol.ends(end)
    assert others
    ids = [*protocol.encode(" Paris."), others[0]]
    *_, last = protocol.score(model.prefix, ids, 8)
    listed = full_list(model, [*model.prefix, *ids[:-1]])
    assert last == pytest.approx(math.log(listed[others[0]]), abs=2e-3)
    assert protocol.score(model.prefix, [others[0], *ids], 8) == [-math.inf]


@pytest.fixture(scope="module")
def boosted(model):
    (paris,) = model.protocol.encode(" Paris")
    return model.varied(logit_bias={paris: 3.0}, temperature=1.2)


def test_a_boost_scores_texts_that_it_did_not_draw(model, boosted, drawn):
    """Log q of a draw of the base under a bias and a temperature, against the full lists."""
    how = {"logit_bias": boosted.sampling.logit_bias, "temperature": 1.2}
    ids = drawn.items.token_ids(0)[:3].tolist()
    lists = [full_list(model, [*model.prefix, *ids[:i]], **how) for i in range(3)]
    log_q = sum(math.log(p[token]) for p, token in zip(lists, ids, strict=True))
    found = model.protocol.log_q(model.prefix, ids, 3, boosted.sampling)
    assert found == pytest.approx(log_q, abs=5e-3)
    assert boosted.mismatch < 0.02


@pytest.mark.parametrize("boost", [False, True])
def test_z_of_contains_agrees_with_another_proposal(model, boosted, boost):
    target = model * qr.features.contains("Paris")
    own = qr.tradeoff(qr.draw(target, model, 40, seed=1)).at(beta=1.0).z
    other = boosted if boost else model.prompted(f"Paris: {PROMPT}")
    draws = qr.draw(target, qr.Mixture([model, other]), 20, seed=2)
    assert draws.log_ratio.max() <= draws.known.log_ceiling == pytest.approx(math.log(2))
    certificate = qr.tradeoff(draws).at(beta=2.0)
    assert certificate.guarantee.tvd == 0.0
    assert abs(own.value - certificate.z.value) < 4 * math.hypot(own.se, certificate.z.se)
    assert 0.3 < own.value <= 1


def test_wrong_names_and_long_prompts_are_refused(url, model):
    with pytest.raises(InputError, match="has no model 'gpt'"):
        qr.text.Served(url, model="gpt")
    with pytest.raises(InputError, match="longer context"):
        model.varied(max_tokens=600)


@pytest.mark.slow
def test_it_agrees_with_the_same_weights_in_this_process(url):
    """llama.cpp rounds activations to 8 bits: texts differ by some tenths of a nat, Z does not."""
    folder = smollm2_folder()
    served = qr.text.Served(url, prompt=PROMPT, max_tokens=12, concurrency=2, tokenizer=folder)
    here = qr.text.CausalLM(folder, prompt=PROMPT, max_tokens=12)
    assert served.prefix == here.prefix
    draws = [
        qr.draw(lm * qr.features.contains("Paris"), lm, n, seed=3)
        for lm, n in ((served, 200), (here, 300))
    ]
    apart = here.log_prob(draws[0].items) - draws[0].log_q
    # The model in this process goes on after the other tokens that end a text on the server.
    goes_on = [bool({0, 4} & set(text.token_ids)) for text in draws[0].items]
    apart = apart[~np.array(goes_on)]
    assert len(apart) > 190
    assert abs(apart.mean()) < 0.15
    assert apart.std() < 0.6
    ours, theirs = (qr.tradeoff(each) for each in draws)
    for name in ("log_z", "acceptance_rate"):
        a, b = (curve.at(beta=0.5).estimate(name) for curve in (ours, theirs))
        assert abs(a.value - b.value) < 4 * math.hypot(a.se, b.se)


DRAWS = 2_000


def kept(folder):
    """Return the files of draws, and when each was written."""
    return {path: path.stat().st_mtime_ns for path in folder.glob("draws/**/*")}


@pytest.mark.slow
def test_a_run_that_is_killed_and_whose_server_restarts_ends_with_the_same_content(tmp_path):
    recipe = {
        "base": {"server": {"url": "", "concurrency": 2}, "prompt": PROMPT},
        "features": {"paris": {"contains": "Paris"}},
        "want": {"paris": 1},
        "draws": DRAWS,
        "max_tokens": 2,
    }
    contents = []
    for name, kills in (("killed", 2), ("whole", 0)):
        for kill in range(kills + 1):
            with llama_server() as (address, _):  # at another address every time
                recipe["base"]["server"]["url"] = address
                (tmp_path / "r.yaml").write_text(yaml.safe_dump(recipe))
                command = ("draw", tmp_path / "r.yaml", "--out", tmp_path / name)
                if kill == kills:
                    quasir(*command)
                    continue
                before, process = kept(tmp_path / name), start(*command)
                wait_until(lambda a=before, at=tmp_path / name: kept(at) not in (a, {}), process)
                process.kill()
                process.communicate()
        manifest = json.loads((tmp_path / name / "manifest.json").read_text())
        contents.append((manifest["content"], manifest["draws"]))
    assert contents[0] == contents[1]
