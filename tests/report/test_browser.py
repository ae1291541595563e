"""The page in a real browser: what a reader sees, and does with the keyboard alone."""

import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from selenium import webdriver
from selenium.common.exceptions import NoAlertPresentException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

import quasir as qr
from quasir.report.page import About
from tests.report.reading import HOSTILE, biographies, check, page_of

DRAWS = biographies(4000, hostile=True)
CURVE = qr.tradeoff(DRAWS)
CHOSEN = CURVE.at(acceptance_rate=0.1)
SHOWN = CURVE.including(CHOSEN.log_beta)
ABOUT = About(
    "scientists",
    ["Every text is about a scientist: science = 1 for every text.", "A sentence."],
    {"version": "0.1.0", "a long name without a space " + "x" * 80: "y" * 200},
)
SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """Return a headless chromium with a profile of its own."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.fail(
            "the page is tested in a real browser, and there is none: install the Debian packages "
            "chromium and chromium-driver."
        )
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for switch in (*SWITCHES, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(executable_path=driver))
    yield browser
    browser.quit()


@pytest.fixture
def look(chromium, tmp_path):
    """Return a function that opens a page, and want no error in the log when the test is over."""
    metrics = {"height": 900, "deviceScaleFactor": 1, "mobile": False}

    def open_page(html, width=1200, scheme="light"):
        file = tmp_path / "page.html"
        file.write_text(html, "utf-8")
        scheme = {"name": "prefers-color-scheme", "value": scheme}
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        chromium.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {"width": width, **metrics, "mobile": width < 500}
        )
        chromium.get(file.as_uri())
        return chromium

    log_of(chromium)
    yield open_page
    assert log_of(chromium) == []
    with pytest.raises(NoAlertPresentException):
        _ = chromium.switch_to.alert.text


def log_of(browser):
    """Return the log's entries so far: all that come before one that is written now."""
    browser.execute_script("console.log('so far')")
    entries = []

    def all_is_there(browser):
        entries.extend(browser.get_log("browser"))
        return any("so far" in entry["message"] for entry in entries)

    WebDriverWait(browser, 60).until(all_is_there)
    return entries[: next(i for i, entry in enumerate(entries) if "so far" in entry["message"])]


@cache
def scientists(*checks):
    return page_of(DRAWS, about=ABOUT, checks=checks, curve=CURVE, acceptance_rate=0.1)


def state(browser):
    """Return what the page says of itself."""
    return browser.execute_script("return {...document.body.dataset}")


def listed(browser, kind):
    """Return (draw, text) of the visible texts of one kind: survives or fallen."""
    rows = browser.execute_script(
        "return [...document.querySelectorAll('#texts li')].filter(li => li.checkVisibility() &&"
        " li.dataset.state === arguments[0]).map(li => [Number(li.dataset.draw),"
        " li.querySelector('.text').textContent])",
        kind,
    )
    return [tuple(row) for row in rows]


def figure(browser, panel, line):
    """Return the large figure of a line in the legend of a panel."""
    selector = f"#panel-{panel} .legend li:nth-child({line + 1}) .main"
    return browser.find_element(By.CSS_SELECTOR, selector).text


def agrees(browser, level):
    """Check all that is shown at a level against the draws and the curve."""
    log_beta = float(SHOWN.log_betas[level])
    accepted = DRAWS.accepted(log_beta=log_beta)
    here = state(browser)
    assert int(here["index"]) == level
    assert float(here["logBeta"]) == log_beta
    assert int(here["survivors"]) == len(accepted)
    assert listed(browser, "survives") == [(i, DRAWS.items[i]) for i in accepted[:20].tolist()]
    certificate = CURVE.at(log_beta=log_beta)
    summary = browser.find_element(By.ID, "summary").text
    assert f"{len(accepted):,} of 4,000 draws survive" in summary
    one_in = float(summary.split(" proposals")[0].removeprefix("1 in ").replace(",", ""))
    assert one_in == pytest.approx(1 / certificate.acceptance_rate.value, rel=6e-3)
    shown = browser.find_element(By.ID, "beta-text").text
    assert float(shown) == pytest.approx(np.exp(log_beta), rel=6e-4)
    for (panel, line), part in {
        (0, 0): certificate.tvd,
        (0, 1): certificate.tvd_bound,
        (1, 0): certificate.kl,
        (2, 0): certificate.moments["science"],
        (2, 1): certificate.moments["female"],
        (3, 0): certificate.kl_base,
    }.items():
        text = figure(browser, panel, line)
        if np.isnan(part.se):
            assert float(text.removeprefix("at most ")) == pytest.approx(part.high, rel=6e-3)
            assert text.startswith("at most ")
        else:
            assert float(text) == pytest.approx(part.value, rel=6e-3)
    warnings = browser.find_element(By.ID, "warnings-here")
    assert warnings.is_displayed() == bool(certificate.warnings)
    return set(accepted.tolist())


def test_the_slider_by_keyboard(look, tmp_path):
    browser = look(scientists())
    start = SHOWN.log_betas.tolist().index(CHOSEN.log_beta)
    agrees(browser, start)
    # Reach it as a reader without a mouse would.
    for _ in range(20):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        if browser.switch_to.active_element.get_attribute("id") == "beta":
            break
    slider = browser.switch_to.active_element
    assert slider.get_attribute("id") == "beta"
    assert slider.value_of_css_property("outline-style") == "solid"
    slider.send_keys(Keys.ARROW_RIGHT)
    agrees(browser, start + 1)
    slider.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    agrees(browser, start - 2)
    before = set(range(len(DRAWS)))
    slider.send_keys(Keys.HOME)
    for level in (0, 20, 40, 200):
        now = int(state(browser)["index"])
        if level == 200:
            slider.send_keys(Keys.END)
        else:
            slider.send_keys(*([Keys.ARROW_RIGHT] * (level - now)))
        kept = agrees(browser, level)
        assert kept <= before
        before = kept
    assert "β = " in slider.get_attribute("aria-valuetext")
    browser.save_screenshot(str(tmp_path / "last.png"))
    browser.find_element(By.ID, "back").click()
    agrees(browser, start)


def test_the_marks_move_with_the_slider_on_every_curve(look):
    browser = look(scientists())
    places = "return [...document.querySelectorAll('.marks .here')].map(l => +l.getAttribute('x1'))"
    before = browser.execute_script(places)
    browser.find_element(By.ID, "beta").send_keys(Keys.END)
    after = browser.execute_script(places)
    assert len(before) == len(after) == 4
    # A larger beta accepts less, and the axis falls to the right.
    assert all(b > a for a, b in zip(before, after, strict=True))
    starts = browser.find_elements(By.CSS_SELECTOR, "#panel-0 [data-start]")
    assert {start.get_attribute("data-start") for start in starts} == {"q", "q_proj"}
    assert len(browser.find_elements(By.CSS_SELECTOR, ".chart .band")) == 6


def test_a_curve_can_be_touched(look):
    browser = look(scientists())
    chart = browser.find_element(By.CSS_SELECTOR, "#panel-1 .chart")
    webdriver.ActionChains(browser).move_to_element_with_offset(chart, 200, 0).click().perform()
    low = int(state(browser)["index"])
    webdriver.ActionChains(browser).move_to_element_with_offset(chart, -60, 0).click().perform()
    high = int(state(browser)["index"])
    assert high < low
    agrees(browser, high)


def test_those_that_fell_out(look):
    browser = look(scientists())
    assert listed(browser, "fallen") == []
    browser.find_element(By.ID, "fallen").send_keys(Keys.SPACE)
    log_beta = float(state(browser)["logBeta"])
    fallen = [draw for draw, _ in listed(browser, "fallen")]
    assert len(fallen) > 20
    assert (DRAWS.log_alpha[fallen] <= log_beta).all()
    accepted = DRAWS.accepted(log_beta=log_beta)[:20].tolist()
    assert [draw for draw, _ in listed(browser, "survives")] == accepted
    struck = browser.find_element(By.CSS_SELECTOR, "#texts li[data-state=fallen] .text")
    assert "line-through" in struck.value_of_css_property("text-decoration")


def test_a_script_in_a_text_is_text(look):
    browser = look(scientists())
    browser.find_element(By.ID, "beta").send_keys(Keys.HOME)
    shown = [text for _, text in listed(browser, "survives") if HOSTILE in text]
    assert len(shown) >= 3
    visible = browser.find_element(By.ID, "texts").text
    assert "<script>alert(1)</script>" in visible
    assert "<!--" in visible
    inside = "return document.querySelectorAll('#texts script').length"
    assert browser.execute_script(inside) == 0
    signs = browser.find_elements(By.CSS_SELECTOR, "#texts .newline")
    assert len([sign for sign in signs if sign.is_displayed()]) >= 2 * len(shown)
    fetched = "return performance.getEntriesByType('resource').length"
    assert browser.execute_script(fetched) == 0


MUTANTS = {
    "texts are not escaped": ("\\u003c", "<", False),
    "the script fails": ('"log_beta":', '"log_gamma":', True),
    "another script is let in": ("</main>", "<script>document.title = 1</script></main>", True),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_page_is_seen_to_be_broken(chromium, tmp_path, mutant):
    """The control of the tests above: each of these would fail them."""
    old, new, logged = MUTANTS[mutant]
    html = scientists()
    assert old in html
    file = tmp_path / "broken.html"
    file.write_text(html.replace(old, new), "utf-8")
    log_of(chromium)
    chromium.get(file.as_uri())
    errors = [entry for entry in log_of(chromium) if entry["level"] == "SEVERE"]
    assert bool(errors) == logged
    if mutant == "another script is let in":
        assert "Content Security Policy" in errors[0]["message"]
        assert chromium.title == "scientists · quasir"
    else:
        assert "survivors" not in state(chromium)


def test_words_have_the_colour_of_their_feature(look):
    browser = look(scientists())
    marks = browser.execute_script(
        "return [...document.querySelectorAll('#texts li:not([hidden]) mark, #features mark')].map("
        "m => [m.textContent, getComputedStyle(m).borderBottomColor])"
    )
    colours = {}
    for text, colour in marks:
        name = {"She": "female", "she": "female"}.get(text, "science")
        colours.setdefault(text if text == "female" else name, set()).add(colour)
    assert set(colours) == {"science", "female"}
    assert all(len(found) == 1 for found in colours.values())
    assert colours["science"] != colours["female"]


def widths(browser):
    return browser.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )


def test_a_phone_needs_no_sideways_scrolling(look, tmp_path):
    checks = [check("female", 0.5, 0.52, -1.3), check("science" * 9, 0.5, 0.9, -28)]
    browser = look(scientists(*checks), width=375)
    browser.find_element(By.ID, "fallen").send_keys(Keys.SPACE)
    scroll, client = widths(browser)
    assert scroll == client == 375
    outside = browser.execute_script(
        "return [...document.querySelectorAll('main *')].filter(e =>"
        " e.checkVisibility() && e.getBoundingClientRect().right > 375.5).map(e => e.outerHTML)"
    )
    assert outside == []
    browser.save_screenshot(str(tmp_path / "phone.png"))


def luminance(colour):
    channels = [int(part) for part in colour.split("(")[1].rstrip(")").split(",")[:3]]
    return sum(channels) / 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(look, tmp_path, scheme):
    browser = look(scientists(), scheme=scheme)
    style = "const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]"
    paper, ink = map(luminance, browser.execute_script(style))
    assert (paper > 240 and ink < 60) if scheme == "light" else (paper < 40 and ink > 200)
    picture = tmp_path / f"{scheme}.png"
    assert browser.save_screenshot(str(picture))
    assert Path(picture).stat().st_size > 20_000


def test_a_page_where_nothing_is_possible(look):
    draws = qr.Draws.from_arrays(np.full(50, -np.inf), np.zeros(50), ["x"] * 50)
    browser = look(page_of(draws, beta=1))
    assert state(browser)["survivors"] == "0"
    assert browser.find_element(By.ID, "warnings").is_displayed()
    assert "No draw of the 50 survives" in browser.find_element(By.ID, "texts-count").text
    assert browser.find_element(By.ID, "summary").text.startswith("fewer than 1 in")


def test_the_rest_of_a_long_text_is_a_click_away(look):
    texts = ["she said so. " * 800, "short"]
    draws = qr.Draws.from_arrays(np.zeros(2), np.zeros(2), texts)
    browser = look(page_of(draws, [qr.features.female], beta=0.5), width=380)
    (folded,) = browser.find_elements(By.CSS_SELECTOR, "#texts details")
    rest = folded.find_element(By.CSS_SELECTOR, ".text")
    assert not rest.is_displayed()
    summary = folded.find_element(By.TAG_NAME, "summary")
    assert summary.text == "9,800 more characters"
    summary.click()
    assert rest.is_displayed()
    whole = browser.execute_script(
        "return [...document.querySelectorAll('#texts li:first-child .text')]"
        ".map(p => p.textContent).join('')"
    )
    assert whole.replace(" …", "") == texts[0]


def test_z_stays_in_one_line_on_a_phone(look):
    long = check("a feature with a long name", 0.51, 0.5, -3.4e-5)
    browser = look(scientists(long), width=380)
    z = browser.find_element(By.CSS_SELECTOR, "#checks td:last-child")
    lines = browser.execute_script(
        "const range = document.createRange(); range.selectNodeContents(arguments[0]);"
        "return new Set([...range.getClientRects()].map(r => Math.round(r.top))).size",
        z,
    )
    assert lines == 1
