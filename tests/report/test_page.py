import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quasir as qr
from quasir import recipes
from quasir.certificates.certificate import WantedMoment, wanted_moments
from quasir.estimation.estimate import Estimate
from quasir.recipes.explain import explain
from quasir.report.page import About
from quasir.report.sentences import (
    MINUS,
    TIMES,
    beta_text,
    constraint_sentences,
    exactness_sentence,
    expectations,
    number_text,
    phrase,
    rate_phrase,
)
from quasir.report.shown_texts import BEGINNING, FOLDED, MOST_CHARACTERS, first_accepted, pieces
from tests.report.reading import (
    FEATURES,
    HOSTILE,
    Reader,
    biographies,
    check,
    data_of,
    fired,
    page_of,
    poisson_draws,
    shown_at,
    text_in,
)

DRAWS = biographies(4000)
CURVE = qr.tradeoff(DRAWS)
CHOSEN = CURVE.at(acceptance_rate=0.1)
SHOWN = CURVE.including(CHOSEN.log_beta)
"""The curve of the page: the chosen beta is one of its levels."""
HTML = page_of(DRAWS)
DATA = data_of(HTML)


def lines(data):
    return {line["name"]: line for panel in data["panels"] for line in panel["lines"]}


def test_the_shown_texts_are_the_first_accepted_at_every_beta():
    data = DATA
    assert data["log_beta"] == SHOWN.log_betas.tolist()
    assert set(CURVE.log_betas) < set(SHOWN.log_betas)
    before = set(range(len(DRAWS)))
    for level, log_beta in enumerate(data["log_beta"]):
        accepted = DRAWS.accepted(log_beta=log_beta).tolist()
        assert data["survivors"][level] == len(accepted)
        assert shown_at(data, level) == accepted[:20]
        assert set(accepted) <= before
        before = set(accepted)
    assert data["survivors"][0] > data["survivors"][-1] > 0
    for entry in data["texts"]:
        assert text_in(entry) == DRAWS.items[entry["draw"]]
        assert entry["log_alpha"] == DRAWS.log_alpha[entry["draw"]]


def test_a_draw_whose_alpha_is_beta_has_fallen():
    tie = int(DRAWS.accepted(beta=1)[3])
    curve = qr.tradeoff(DRAWS, log_betas=[DRAWS.log_alpha[tie]])
    data = data_of(page_of(DRAWS, curve=curve, log_beta=DRAWS.log_alpha[tie]))
    assert data["survivors"] == [int((DRAWS.log_alpha > DRAWS.log_alpha[tie]).sum())]
    assert tie not in [entry["draw"] for entry in data["texts"]]


def test_the_figures_are_those_of_the_curve():
    data = DATA
    for name, part in {
        "TVD": SHOWN.tvd,
        "upper bound": SHOWN.tvd_bound,
        "KL": SHOWN.kl,
        "KL from the base": SHOWN.kl_base,
        "science": SHOWN.moments["science"],
        "female": SHOWN.moments["female"],
    }.items():
        line = lines(data)[name]
        for end in ("low", "high"):
            np.testing.assert_allclose(line[end], getattr(part, end), rtol=1e-4)
        known = ~np.isnan(part.se)
        assert [v is not None for v in line["value"]] == known.tolist()
        shown = [v for v in line["value"] if v is not None]
        np.testing.assert_allclose(shown, part.value[known], rtol=1e-4)
        assert line["main"] == [phrase(part[i]).main for i in range(len(SHOWN))]
    assert data["rate"] == SHOWN.acceptance_rate.value.tolist()


def test_the_starting_points():
    (points,) = [panel["points"] for panel in DATA["panels"] if panel["points"]]
    q, q_proj = points
    assert (q["name"], q["rate"]) == ("q", 1)
    assert q["value"] == pytest.approx(CURVE.proposal.tvd.value, rel=1e-4)
    assert (q_proj["name"], q_proj["rate"]) == ("q_proj", pytest.approx(CURVE.n_possible / 4000))
    assert q_proj["value"] == pytest.approx(CURVE.projection.tvd.value, rel=1e-4)
    assert q["value"] > q_proj["value"] > 0


@pytest.mark.parametrize("place", [0, 57, 198])
def test_the_page_opens_at_the_chosen_beta_itself(place):
    step = CURVE.log_betas[1] - CURVE.log_betas[0]
    chosen = CURVE.at(log_beta=CURVE.log_betas[place] + 0.4 * step)
    html = page_of(DRAWS, log_beta=chosen.log_beta)
    data = data_of(html)
    assert data["chosen"] == place + 1
    assert data["log_beta"][place + 1] == chosen.log_beta
    assert data["beta"][place + 1] == beta_text(chosen.log_beta)
    assert lines(data)["TVD"]["main"][place + 1] == phrase(chosen.tvd).main
    assert f'value="{place + 1}"' in html
    assert len(data["log_beta"]) == len(CURVE) + 1


def test_levels_are_in_order_even_where_the_curve_is_not():
    curve = qr.tradeoff(DRAWS, betas=[5.0, 0.5, 50.0])
    data = data_of(page_of(DRAWS, curve=curve, beta=5.0))
    np.testing.assert_allclose(np.exp(data["log_beta"]), [0.5, 5.0, 50.0])
    np.testing.assert_allclose(data["rate"], curve.acceptance_rate.value[[1, 0, 2]])
    np.testing.assert_allclose(
        lines(data)["TVD"]["value"], curve.tvd.value[[1, 0, 2]], rtol=1e-4, atol=1e-12
    )
    assert data["chosen"] == 1
    assert data["warnings_at"][2]
    assert all("beta = 50" in data["warnings"][k] for k in data["warnings_at"][2])


def test_hostile_texts_stay_texts():
    draws = biographies(400, hostile=True)
    hostile = qr.features.search("<script>", name="</script><b>&")
    about = About("<b>t</b></title>", ["<i>asked</i>"], {"<u>fact": "</dl><script>"})
    html = page_of(draws, [hostile, *FEATURES], about, [check("<s>", 0.1, 0.9, -9.0)])
    reader = Reader(html)
    assert [attributes.get("id") for (tag, attributes), _ in reader.scripts if tag == "script"] == [
        "data",
        None,
    ]
    assert not reader.comments
    assert not {"b", "i", "u", "s"} & {tag for tag, _ in reader.elements}
    for shown in ("<b>t</b></title>", "<i>asked</i>", "<u>fact", "</dl><script>", "<s>"):
        assert shown in reader.shown
    texts = [text_in(entry) for entry in data_of(html)["texts"]]
    assert sum(HOSTILE in text for text in texts) >= 3
    assert ("<script>", (0,)) in [mark for entry in data_of(html)["texts"] for mark in fired(entry)]


def test_texts_that_are_no_unicode():
    text = "a\ud800b\u2028\x00é"
    draws = qr.Draws.from_arrays(np.zeros(3), np.zeros(3), [text] * 3)
    html = page_of(draws, [], About("a\ud800"), beta=1)
    html.encode("utf-8")
    assert text_in(data_of(html)["texts"][0]) == text
    assert "a?" in Reader(html).shown


def test_words_are_coloured_where_their_feature_fired():
    texts = ["She is a chemist.", "He met her.", "She, he, her: a chemist, a chemist"]
    columns = {"female": qr.features.female(texts), "science": qr.features.science(texts)}
    draws = qr.Draws.from_arrays(np.zeros(3), np.zeros(3), texts, features=columns)
    either = qr.features.search("chemist|She is", name="either")
    plain = qr.Feature("plain", len)
    data = data_of(page_of(draws, [qr.features.female, plain, either], beta=0.5))
    assert [fired(entry) for entry in data["texts"]] == [
        [("She", (0, 2)), (" is", (2,)), ("chemist", (2,))],
        [],
        [("She", (0,)), ("her", (0,)), ("chemist", (2,)), ("chemist", (2,))],
    ]
    assert [feature["coloured"] for feature in data["features"]] == [True, False, True]


def test_a_feature_has_one_colour_in_the_texts_and_in_the_curves():
    data = DATA
    for feature in data["features"]:
        assert lines(data)[feature["name"]]["colour"] == feature["colour"] > 0
    many = {f"f{j}": np.arange(200) % (j + 2) == 0 for j in range(8)}
    log_w = np.random.default_rng(0).normal(size=200)
    draws = qr.Draws.from_arrays(log_w, np.zeros(200), features=many)
    looks = [
        (line["colour"], line["dashed"])
        for name, line in lines(data_of(page_of(draws, []))).items()
        if name in many
    ]
    assert len(set(looks)) == 8


spans = st.lists(st.tuples(st.integers(-3, 15), st.integers(-3, 15)), max_size=4)


@settings(max_examples=50)
@given(st.text(max_size=12), st.lists(spans, max_size=3))
def test_pieces_are_the_text_with_every_place_kept(text, places):
    cut = pieces(text, places)
    assert "".join(piece for piece, _ in cut) == text
    assert all(piece for piece, _ in cut)
    marks = [on for piece, on in cut for _ in piece]
    for i, on in enumerate(marks):
        covered = tuple(j for j, spans in enumerate(places) if any(a <= i < b for a, b in spans))
        assert on == covered


@settings(max_examples=50)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=40),
    st.lists(st.integers(-1, 10), min_size=1, max_size=6),
    st.integers(1, 4),
)
def test_first_accepted_is_the_union_over_the_betas(alphas, betas, shown):
    log_alpha = np.array(alphas, dtype=float)
    found = first_accepted(log_alpha, np.array(betas, dtype=float), shown)
    wanted = {int(i) for b in betas for i in np.flatnonzero(log_alpha > b)[:shown]}
    assert found.tolist() == sorted(wanted)


def test_beyond_the_largest_ratio_nothing_is_a_bare_0():
    data = DATA
    for name in ("TVD", "upper bound", "KL"):
        line = lines(data)[name]
        assert line["value"][-1] is None
        assert line["main"][-1].startswith("at most 0.")
        assert line["rest"][-1] == "0 on these draws"
        assert line["value"][-2] is not None
    assert any("tail has not been seen" in data["warnings"][k] for k in data["warnings_at"][-1])


def test_a_tail_too_heavy_for_a_number():
    log_w = 2.0 * np.random.default_rng(0).standard_exponential(5000)
    draws = qr.Draws.from_arrays(log_w, np.zeros(5000), ["x"] * 5000)
    curve = qr.tradeoff(draws)
    html = page_of(draws, [], curve=curve, log_beta=curve.log_betas[-1] + 1)
    line = lines(data_of(html))["KL"]
    assert (line["main"][-1], line["high"][-1], line["value"][-1]) == ("unknown", None, None)
    assert "no number can be given" in Reader(html).shown


def test_no_draw_is_possible():
    draws = qr.Draws.from_arrays(
        np.full(1000, -np.inf),
        np.zeros(1000),
        ["x"] * 1000,
        log_base=np.zeros(1000),
        features={"f": np.arange(1000) % 2 == 0},
    )
    html = page_of(draws, FEATURES, beta=2)
    data, shown = data_of(html), Reader(html).shown
    assert (data["panels"], data["texts"], data["survivors"]) == ([], [], [0])
    assert (data["rate"], data["chosen_rate"]) == ([None], None)
    assert "None of the 1,000 draws had P(x) > 0" in shown
    assert "fewer than 1 in 271 proposals" in shown
    assert "No curve can be drawn" in shown
    assert "unknown" in shown


def test_all_ratios_are_equal():
    log_p = np.where(np.arange(1000) % 2, -np.inf, 0.0)
    draws = qr.Draws.from_arrays(log_p, np.zeros(1000), [f"text {i}" for i in range(1000)])
    html = page_of(draws, [], tvd=0.01)
    data = data_of(html)
    assert len(data["log_beta"]) == 1
    assert shown_at(data, 0) == list(range(0, 40, 2))
    assert data["survivors"] == [500]
    assert lines(data)["TVD"]["main"] == ["at most 0.00737"]
    (slider,) = [a for tag, a in Reader(html).elements if tag == "input"]
    assert "disabled" in slider


def test_items_that_are_no_texts_without_features_or_base():
    draws = poisson_draws(5000)
    data = data_of(page_of(draws, [], tvd=0.05))
    assert [text_in(entry) for entry in data["texts"]] == [
        str(draws.items[entry["draw"]]) for entry in data["texts"]
    ]
    assert [panel["title"] for panel in data["panels"]] == [
        "Total variation distance",
        "KL divergence to the target",
    ]
    assert data["features"] == []


def test_draws_without_items():
    draws = qr.Draws.from_arrays(np.random.default_rng(0).normal(size=500), np.zeros(500))
    html = page_of(draws, FEATURES, acceptance_rate=0.5)
    assert data_of(html)["texts"] == []
    assert "kept without their items" in Reader(html).shown


def test_a_real_feature_has_a_panel_of_its_own():
    columns = {"length": np.arange(500.0), "even": np.arange(500) % 2 == 0}
    log_w = np.random.default_rng(0).normal(size=500)
    draws = qr.Draws.from_arrays(log_w, np.zeros(500), features=columns)
    panels = data_of(page_of(draws, []))["panels"]
    own = {panel["title"]: [line["name"] for line in panel["lines"]] for panel in panels[2:]}
    assert own == {"Features": ["even"], "Feature length": ["length"]}


def test_ratios_that_are_no_floats():
    log_w = np.random.default_rng(0).normal(size=500) + 800
    draws = qr.Draws.from_arrays(log_w, np.zeros(500), ["x"] * 500)
    data = data_of(page_of(draws, [], acceptance_rate=0.5))
    assert all(re.fullmatch(r"e\^(79|80)\d(\.\d+)?", text) for text in data["beta"])
    assert data["rate"][0] == pytest.approx(0.99)


def test_warnings_stand_at_the_top():
    assert "warnings" not in Reader(HTML).attribute("id")
    few = biographies(60)
    html = page_of(few)
    reader = Reader(html)
    certificate = qr.tradeoff(few).at(acceptance_rate=0.1)
    assert len(certificate.warnings) > 1
    assert f"{len(certificate.warnings)} warnings about these figures" in reader.shown
    for warning in certificate.warnings:
        assert reader.shown.index(warning) < reader.shown.index("The estimates")
    assert reader.attribute("id").index("warnings") < reader.attribute("id").index("certificate")


def test_checks():
    good, wrong = check("female", 0.51, 0.5, 0.71), check("science", 0.9, 0.99, -6.4)
    unknown = check("length", 12.0, 11.0, math.nan, se=math.nan)
    reader = Reader(page_of(DRAWS, checks=[good, unknown]))
    assert "checks" in reader.attribute("id")
    assert "warnings" not in reader.attribute("id")
    assert "suspicious" not in reader.attribute("class")
    reader = Reader(page_of(DRAWS, checks=[good, wrong]))
    assert reader.attribute("class").count("suspicious") == 1
    assert "One warning about these figures" in reader.shown
    assert f"science was observed as 0.900, where 0.990 was predicted, {MINUS}6.4" in reader.shown
    assert "checks" not in Reader(HTML).attribute("id")


def test_the_file_stands_alone():
    reader = Reader(HTML)
    assert not reader.attribute("src")
    assert reader.attribute("href") == ["data:,"]
    style = next(text for (tag, _), text in reader.scripts if tag == "style")
    assert "url(" not in style
    assert "@import" not in style
    # The one address is the name of SVG, which is fetched by nobody.
    assert set(re.findall(r"https?://[^\s\"']+", HTML)) == {"http://www.w3.org/2000/svg"}


def test_a_hundred_thousand_draws_stay_below_two_megabytes():
    n = 100_000
    log_w = 2.5 * np.random.default_rng(0).normal(size=n)
    texts = [f"Café number {i}: she " + "and so on " * 60 for i in range(n)]
    draws = qr.Draws.from_arrays(log_w, np.zeros(n), texts, log_base=np.zeros(n))
    html = page_of(draws, acceptance_rate=0.01)
    data = data_of(html)
    assert data["rate"][0] / data["rate"][-1] > 1e3
    assert len(data["texts"]) > 120
    assert len(html.encode("utf-8")) < 2_000_000


def test_a_long_text_is_folded_and_a_very_long_one_cut():
    texts = ["she " * 200, "she " * 201, "she " * 2500, "she " * 20_000, ""]
    draws = qr.Draws.from_arrays(np.zeros(5), np.zeros(5), texts)
    whole, folded, ten, cut, empty = data_of(page_of(draws, [qr.features.female], beta=0.5))[
        "texts"
    ]
    assert (text_in(whole), whole["rest"], whole["more"]) == (texts[0], [], 0)
    for entry, text in ((folded, texts[1]), (ten, texts[2])):
        assert len(text_in(entry)) == BEGINNING
        assert text_in(entry) + text_in(entry, "rest") == text
        assert entry["more"] == 0
    # Words are coloured in the folded part too.
    assert sum(not isinstance(piece, str) for piece in ten["rest"]) == 2500 - BEGINNING // 4
    assert text_in(cut) + text_in(cut, "rest") == texts[3][:MOST_CHARACTERS]
    assert cut["more"] == len(texts[3]) - MOST_CHARACTERS
    assert (text_in(empty), empty["rest"], empty["more"]) == ("", [], 0)


def test_many_long_texts_do_not_make_a_large_page():
    n = 300
    log_w = 2.5 * np.random.default_rng(0).normal(size=n)
    draws = qr.Draws.from_arrays(log_w, np.zeros(n), ["she said so " * 1600] * n)
    html = page_of(draws, [], acceptance_rate=0.1)
    assert sum(len(text_in(entry, "rest")) for entry in data_of(html)["texts"]) == FOLDED
    assert len(html) < 2_000_000
    assert all(
        len(text_in(e)) + len(text_in(e, "rest")) + e["more"] == 19_200
        for e in data_of(html)["texts"]
    )


def test_numbers_in_words():
    assert number_text(-7.2e-5) == f"{MINUS}7.20 {TIMES} 10⁻⁵"
    assert number_text(3.456e8, 2) == f"3.5 {TIMES} 10⁸"
    assert number_text(999.9) == "1,000"
    assert number_text(123.4) == "123"
    assert (number_text(0.0), number_text(math.nan)) == ("0", "unknown")
    assert beta_text(-1000.0) == "e^-1000"
    assert str(phrase(Estimate(0.0, math.nan, 0.0, math.inf))).startswith("unknown")
    assert str(phrase(Estimate(math.nan, math.nan, 0.0, 1.0))) == "unknown (between 0 and 1.00)"
    assert phrase(Estimate(2.0, 1.0, 0.5, math.inf)).rest == "at least 0.500"
    assert rate_phrase(Estimate(1.0, 0.0, 0.99, 1.0)).main == "1 in 1 proposals"
    assert rate_phrase(Estimate(1e-5, 1e-6, 8e-6, 1.2e-5)).main == "1 in 100,000 proposals"


def test_each_constraint_says_what_was_wanted_and_what_there_is():
    wanted = wanted_moments(CURVE, CHOSEN, {"female": 0.7, "science": 1.0}, ["female", "science"])
    observed = [check("female", 0.654, 0.66, -0.5)]
    shown = Reader(page_of(DRAWS, checks=observed, wanted=wanted)).shown
    female = wanted[0]
    for number in (0.7, female.target.value, CHOSEN.tvd.value, female.at_beta.value, 0.654):
        assert number_text(float(number)) in shown
    assert shown.index("Wanted: a mean of 0.700") < shown.index("The target has")
    assert "by at most TVD" in shown
    assert "constraints" not in Reader(HTML).attribute("id")


def test_a_constraint_for_a_number_has_no_limit_by_tvd():
    part = Estimate(12.0, 0.1, 11.8, 12.2)
    (wanted,) = [WantedMoment(name="length", moment=12.0, target=part, at_beta=part, tvd=None)]
    assert "does not bound" in " ".join(constraint_sentences(wanted))
    unseen = Estimate(0.0, math.nan, 0.0, 0.002)
    at_most = WantedMoment(name="f", moment=0.5, target=part, at_beta=part, tvd=unseen)
    assert "which is below 0.00200" in " ".join(constraint_sentences(at_most))


def wanted_of(moment, at_beta, tvd=0.02):
    part, distance = Estimate(at_beta, 0.01, 0.4, 0.6), Estimate(tvd, 0.001, 0.01, 0.03)
    return WantedMoment(name="female", moment=moment, target=part, at_beta=part, tvd=distance)


def test_the_headline_says_what_to_expect():
    shown = Reader(page_of(DRAWS, wanted=[wanted_of(0.5, 0.4771), wanted_of(1.0, 1.0)])).shown
    assert "You asked for 50 % female; expect 47.7 %." in shown
    assert shown.count("You asked for") == 1
    assert shown.index("You asked for") < shown.index("The estimates")
    assert expectations([wanted_of(1.0, 0.93)]) == ["You asked for 100 % female; expect 93 %."]
    number = replace(wanted_of(12.0, 11.5), name="length", tvd=None)
    assert expectations([number]) == ["You asked for a mean length of 12.0; expect 11.5."]
    assert expectations([wanted_of(0.5, math.nan)]) == []


def test_the_first_samples_stand_near_the_top():
    reader = Reader(HTML)
    accepted = DRAWS.accepted(log_beta=CHOSEN.log_beta)[:3]
    shown = [a["data-draw"] for tag, a in reader.elements if "data-draw" in a]
    assert shown == [str(i) for i in accepted]
    for i in accepted:
        assert DRAWS.items[i] in reader.shown
        assert reader.shown.index(DRAWS.items[i]) < reader.shown.index("The estimates")
    none = page_of(qr.Draws.from_arrays(np.zeros(9), np.zeros(9)), [], beta=1.0)
    assert "first" not in Reader(none).attribute("id")


def vowels(n, tilt):
    """Return draws whose largest ratio, e^tilt, is known."""
    base = qr.Table({"a": 0.2, "x": 0.8})
    return qr.draw(base * qr.tilt(qr.features.contains("a"), tilt), base, n, seed=0)


def test_exact_samples_are_suggested_where_they_cost_little():
    draws = vowels(20_000, 1.0)
    about = About("vowels", exact="quasir sample runs/vowels --tvd 0")
    curve = qr.tradeoff(draws)
    near, far = curve.at(log_beta=0.9), curve.at(log_beta=-1.0)
    exact = curve.at(tvd=0)
    assert exact.guarantee.tvd == 0
    proposals = [1 / float(one.acceptance_rate.value) for one in (exact, near)]
    assert proposals[1] < proposals[0] < 1.5 * proposals[1]
    shown = Reader(page_of(draws, [], about, curve=curve, log_beta=0.9)).shown
    said = "{} proposals per sample instead of {}".format(*(number_text(x, 2) for x in proposals))
    assert said in shown
    assert about.exact in shown
    assert exactness_sentence(curve, far) is None  # it is more than half as much again
    assert exactness_sentence(curve, exact) is None
    assert exactness_sentence(CURVE, CHOSEN) is None  # no ceiling is known
    base = qr.Table({"a": 0.2, "x": 0.8})
    same = qr.tradeoff(qr.draw(base * qr.features.contains("a"), base, 2_000, seed=0))
    assert "cost nothing more" in exactness_sentence(same, same.at(log_beta=-0.5))


def test_every_setting_is_there_and_defaults_are_marked():
    recipe = recipes.from_dict({"base": "quasir/biographies", "want": {"female": 1}, "draws": 9})
    html = page_of(DRAWS, about=About("s", facts={"seed": "0"}, settings=explain(recipe)))
    shown = " ".join(Reader(html).shown.split())
    assert "choose default{acceptance_rate: 0.01}" in shown
    assert "draws9 draws of the proposal" in shown
    assert "settings" in Reader(html).attribute("class")
