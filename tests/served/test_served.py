"""Served models against a small server whose distribution is known exactly."""

import itertools
from pathlib import Path

import numpy as np
import pytest

import quasir as qr
from quasir.errors import InputError, ServerError
from quasir.text.served import check_drawn
from quasir.text.server_kinds import CERTIFIED, REFUSED, Drawn
from tests.served.double import END, NEXT, START, Double, log_a, serving, warped

LIMIT = 4


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr("quasir.text.server_client.FIRST_WAIT", 0.001)
    monkeypatch.setattr("quasir.text.server_client.LONGEST_WAIT", 0.01)


@pytest.fixture
def double():
    return Double()


@pytest.fixture
def url(double):
    with serving(double) as address:
        yield address


def served(url, **options):
    options = {"max_tokens": LIMIT, "concurrency": 4, "patience": 5.0} | options
    return qr.text.Served(url, **options)


def all_texts():
    """Yield every sequence of ids that can be drawn."""
    for n in range(LIMIT + 1):
        yield from map(list, itertools.product(range(1, 5), repeat=n))


def exact_z():
    return sum(np.exp(log_a([START], ids, LIMIT)) for ids in all_texts() if 3 in ids)


@pytest.mark.parametrize(
    "settings", [{}, {"temperature": 0.7}, {"temperature": 1.5, "logit_bias": {3: 2.0, END: -1.0}}]
)
def test_the_probabilities_of_all_texts_sum_to_one(url, settings):
    model = served(url, max_tokens=2, trust=True, **settings)
    texts = qr.text.Texts.of([ids for ids in all_texts() if len(ids) <= 2], model.tokenizer)
    assert np.exp(model.log_prob(texts)).sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    "settings", [{}, {"temperature": 0.7}, {"top_k": 2}, {"top_p": 0.6}, {"logit_bias": {3: 2.0}}]
)
def test_log_q_is_of_the_sampling_step(url, settings):
    model = served(url, trust=True, **settings)
    items, log_q = model.sample(200, np.random.default_rng(1))
    rows = [warped(NEXT[i].copy(), **settings) for i in range(6)]
    for i in range(len(items)):
        ids = items.token_ids(i).tolist()
        whole = ids if len(ids) == LIMIT else [*ids, END]
        steps = zip([START, *whole[:-1]], whole, strict=True)
        assert log_q[i] == pytest.approx(sum(np.log(rows[a][b]) for a, b in steps), abs=1e-12)


def test_draw_i_depends_on_the_seed_and_i_only(url):
    one, many = served(url, concurrency=1), served(url, concurrency=16)
    first = one.sample(40, np.random.default_rng(3))
    again = many.sample(60, np.random.default_rng(3))
    assert [text.token_ids for text in first.items] == [t.token_ids for t in again.items][:40]
    np.testing.assert_array_equal(first.log_q, again.log_q[:40])
    request = qr.core.types.Request(np.random.default_rng(3), 25, 40)
    (part,) = one.sample_together([one], [request])
    np.testing.assert_array_equal(part.log_q, first.log_q[25:])


def test_several_prompts_are_drawn_together(url):
    base = served(url)
    models = [base.prompted("a"), base.prompted("d")]
    requests = [qr.core.types.Request(np.random.default_rng(i), 0, 10 + i) for i in (0, 1)]
    parts = base.sample_together(models, requests)
    for i, (model, part) in enumerate(zip(models, parts, strict=True)):
        alone = model.sample(10 + i, np.random.default_rng(i))
        assert [t.token_ids for t in part.items] == [t.token_ids for t in alone.items]
    assert base.sample_together([qr.Table({"a": 1})], requests[:1]) is None


def test_estimates_cover_the_exact_z_with_a_guarantee(url):
    base = served(url)
    target = base * qr.features.contains("c")
    proposal = qr.Mixture([base, base.prompted("b")], [1, 3])
    curve = qr.tradeoff(qr.draw(target, proposal, 600, seed=0))
    log_z = curve.at(beta=1.0).log_z
    assert abs(log_z.value - np.log(exact_z())) < 4 * log_z.se
    certificate = curve.at(tvd=0.05, confidence=0.95)
    assert certificate.guarantee is not None
    assert certificate.guarantee.tvd <= 0.05
    assert not [w for w in certificate.warnings if "nats" in w]


@pytest.mark.parametrize("settings", [{"logit_bias": {3: 2.0}}, {"temperature": 1.4}])
def test_a_boost_or_a_temperature_is_a_proposal_and_a_part_of_a_mixture(url, settings):
    base = served(url)
    target, other = base * qr.features.contains("c"), base.varied(**settings)
    assert qr.draw(target, other, 100, seed=0).log_p.max() > -np.inf
    draws = qr.draw(target, qr.Mixture([base, other], [1, 3]), 300, seed=0)
    assert draws.log_ratio.max() <= draws.known.log_ceiling == pytest.approx(np.log(4))
    curve = qr.tradeoff(draws)
    log_z = curve.at(beta=4.0).log_z
    assert abs(log_z.value - np.log(exact_z())) < 4 * log_z.se
    assert curve.at(beta=4.0).guarantee.tvd == 0.0


def test_a_cut_is_no_part_of_a_mixture(url):
    base = served(url)
    with pytest.raises(InputError, match=r"draws with top_k.* did not draw.* leave out top_k"):
        qr.draw(base * qr.features.contains("c"), qr.Mixture([base, base.varied(top_k=3)]), 100)


def test_a_lying_server_is_caught(double, url):
    double.lies = {"raw"}
    hot = served(url, temperature=0.3)
    with pytest.raises(ServerError, match="not what is drawn from"):
        hot.sample(10, np.random.default_rng(0))
    assert hot.probe.verdict == "refused"
    checks = {check.name: check.passed for check in hot.probe.checks}
    assert (checks["log q of draws"], checks["temperature"]) == (False, False)
    plain = served(url)  # at temperature 1 it does not lie
    assert plain.probe.good_for == ("base", "proposal")
    assert {c.name: c.passed for c in plain.probe.checks}["temperature"] is None


def test_a_server_that_draws_at_another_temperature_is_caught_by_its_first_tokens(double, url):
    double.lies = {"colder"}  # than what it says, wherever it says something
    probe = served(url).probe
    assert {check.name: check.passed for check in probe.checks}["log a of given ids"] is True
    assert probe.verdict == "refused"
    double.lies = set()
    assert served(url, temperature=0.7).probe.good_for == ("base", "proposal")


@pytest.mark.parametrize(
    ("lie", "verdict", "words"),
    [
        ("scores", "good as a proposal only", "not scored by what draws"),
        ("no_end", "refused", "not counted"),
        ("no_seed", "refused", "cannot be repeated"),
    ],
)
def test_the_probe_says_what_a_server_is_good_for(double, url, lie, verdict, words):
    double.lies = {lie}
    probe = served(url).probe
    assert probe.verdict == verdict
    assert words in " ".join("\n".join(probe.lines()).split())
    assert verdict in probe.lines()[0]
    assert probe.to_dict()["verdict"] == verdict


def test_noise_of_the_server_is_stated_on_the_certificate(double, url):
    double.noise = 0.05
    base = served(url)
    assert base.mismatch == pytest.approx(0.05)
    target = base * qr.features.contains("c")
    own = qr.draw(target, base, 200, seed=0)
    assert own.warnings == ()  # log a = log q, whatever the noise is
    certificate = qr.tradeoff(qr.draw(target, base.prompted("b"), 200, seed=0)).at(beta=1.0)
    assert any("up to 0.05 nats" in warning for warning in certificate.warnings)


def test_no_ratio_exceeds_its_ceiling_by_noise(double, url):
    double.noise = 0.3
    base = served(url)
    mixture = qr.Mixture([base, base.prompted("b")])
    draws = qr.draw(base * qr.features.contains("c"), mixture, 400, seed=0)
    assert draws.log_ratio.max() <= draws.known.log_ceiling + 1e-9
    assert qr.tradeoff(draws).at(beta=2.0).guarantee.tvd == 0.0
    assert any("0.6 nats" in warning for warning in draws.warnings)


@pytest.mark.parametrize("failure", [429, 503, 500, "half", "gone"])
def test_a_failed_request_is_sent_again_with_the_same_seed(double, url, failure):
    model = served(url, trust=True)
    double.seeds.clear()
    wanted = model.sample(12, np.random.default_rng(0))
    seeds, double.seeds = sorted(double.seeds), []
    double.failures = [failure, failure]
    found = model.sample(12, np.random.default_rng(0))
    assert [t.token_ids for t in found.items] == [t.token_ids for t in wanted.items]
    assert sorted(double.seeds) == seeds
    assert model.client.retried == 2


def test_a_slow_answer_is_asked_for_again(double, url):
    model = served(url, trust=True, timeout=0.3)
    double.failures = ["slow"]
    assert len(model.sample(3, np.random.default_rng(0)).items) == 3


def test_a_server_that_fails_for_good_ends_the_run_in_words(double, url):
    model = served(url, trust=True)
    double.failures = [500] * 100
    with pytest.raises(ServerError, match=r"HTTP 500: no room, after 5 tries .* Nothing was skip"):
        model.sample(4, np.random.default_rng(0))


def test_a_server_that_is_gone_ends_the_run_and_one_that_comes_back_goes_on(double):
    with serving(double) as url:
        model = served(url, trust=True, patience=0.3)
        wanted = model.sample(8, np.random.default_rng(0))
    with pytest.raises(ServerError, match=r"no longer answers .* goes on from the last draws"):
        model.sample(8, np.random.default_rng(0))
    with serving(double, port=int(url.rpartition(":")[2])):
        found = model.sample(8, np.random.default_rng(0))
    np.testing.assert_array_equal(found.log_q, wanted.log_q)


def test_an_unreachable_server_is_named_at_once():
    with pytest.raises(ServerError, match=r"no server answers at http://127.0.0.1:9 "):
        served("http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "large"}, "has no model 'large': give model, one of 'small'"),
        ({"max_tokens": 100}, "set max_tokens to at most 63"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"concurrency": 0}, "concurrency"),
        ({"patience": -1}, "patience"),
        ({"temperature": 0}, "temperature"),
        ({"kind": "ollama"}, "no token ids"),
        ({"kind": "mine"}, "one of vllm, llama.cpp, sglang"),
        ({"prompt": "a", "chat": [{"role": "user", "content": "b"}]}, "not both"),
        ({"logit_bias": {"x": 1}}, "numbers to token ids"),
        ({"logit_bias": {1: 1000}}, "from -100 to 100"),
        ({"key": "QUASIR_NO_SUCH_KEY"}, "QUASIR_NO_SUCH_KEY, which is not set"),
    ],
)
def test_bad_options_are_refused(url, options, words):
    with pytest.raises(InputError, match=words):
        served(url, **options)


@pytest.mark.parametrize(
    "address", ["localhost:8000", "ftp://host", "", "http://user:secret@host", "http://host?key=1"]
)
def test_bad_addresses_are_refused(address):
    with pytest.raises(InputError, match="address of a server"):
        served(address)


def test_kinds_that_cannot_be_certified_say_why(double, url):
    for _, owner, _ in REFUSED.values():
        double.owner = owner
        with pytest.raises(InputError, match="cannot be a certified base"):
            served(url)
    double.owner = "someone"
    with pytest.raises(InputError, match="not known"):
        served(url)


def test_several_models_need_a_name_and_none_is_an_error(double, url):
    double.models = ["small", "other"]
    with pytest.raises(InputError, match="give model, one of 'small', 'other'"):
        served(url)
    assert served(url, model="other").name == "other"
    double.models = []
    with pytest.raises(ServerError, match="no model loaded"):
        served(url)


def test_a_server_without_token_ids_is_refused(double, url):
    double.lies = {"no_ids"}
    with pytest.raises(ServerError, match="gives no token ids"):
        served(url)


def test_another_tokenizer_is_refused(double, url):
    class Other:
        eos_token_id, bos_token_id = END, START

        def __call__(self, text, add_special_tokens=False):
            return type("Encoded", (), {"input_ids": [1, 2, 3]})

    with pytest.raises(InputError, match="not that of the served model"):
        served(url, tokenizer=Other())
    base = served(url, trust=True)
    with serving(Double(words=("</s>", "b", "a", "c", "d", "<s>"))) as elsewhere:
        texts = served(elsewhere, trust=True).sample(2, np.random.default_rng(0)).items
    with pytest.raises(InputError, match="another tokenizer"):
        base.log_prob(texts)


def test_requests_at_once_are_bounded(double, url):
    served(url, concurrency=3, trust=True).sample(60, np.random.default_rng(0))
    assert double.most_at_once <= 3


def test_a_chat_goes_through_the_template_of_the_server(url):
    assert served(url, chat=[{"role": "user", "content": "abc"}]).prefix == [START, 4]


def test_texts_that_cannot_be_drawn_have_probability_zero(url):
    base = served(url, trust=True)
    texts = qr.text.Texts.of([[1, END, 2], [1] * (LIMIT + 1)], base.tokenizer)
    assert (base.log_prob(texts) == -np.inf).all()


def test_a_mask_is_sent_as_it_is_given_and_cuts_the_support(double, url):
    masked = served(url, trust=True, mask={"choice": ["ab", "ba"]})
    masked.sample(2, np.random.default_rng(0))
    assert double.masks[-1] == {"choice": ["ab", "ba"]}
    assert masked.truncates
    assert not masked.scores_given
    assert hash(masked.sampling)


@pytest.mark.parametrize(
    ("drawn", "words"),
    [
        (([], [], True), "drew 0 tokens"),
        (([1, 2], [-1.0], True), "gave 1 log-probabilities"),
        (([1, 2], [-1.0, np.nan], True), "gave 1 log-probabilities"),
        (([1, 0], [-1.0, 0.5], True), "a probability above 1"),
        (([1, 2], [-1.0, -1.0], False), "cut a text after 2 tokens, but 4 were asked for"),
    ],
)
def test_an_answer_that_is_no_whole_draw_is_refused(drawn, words):
    with pytest.raises(ServerError, match=words):
        check_drawn(Drawn(*drawn), LIMIT, "http://host")


def test_the_documentation_says_what_each_kind_refuses_and_why_others_are_refused():
    page = (Path(__file__).parents[2] / "docs" / "servers.md").read_text()
    for kind in CERTIFIED:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| {kind.title} | ")]
        assert row.split(" |")[2].strip() == ", ".join(f"`{name}`" for name in kind.leaves_out)
    for title, _, why in REFUSED.values():
        assert f"- **{title}**: {why}." in page
