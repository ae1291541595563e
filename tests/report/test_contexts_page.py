"""The page of a run over contexts, in a real browser: a thousand contexts sort and open."""

import numpy as np
import pytest
from selenium.webdriver.common.by import By

from quasir.certificates.contexts_certificate import ContextsCertificate
from quasir.estimation.estimate import Estimate
from quasir.estimation.guarantee import LEVELS, MeanGuarantee
from quasir.report.page import About, contexts_page
from tests.report.test_browser import chromium, look

__all__ = ["chromium", "look"]

CONTEXTS = 1000
HOSTILE = "<img src=x onerror=alert(1)> </script><script>alert(1)</script>"


def row(place, tvd, rate):
    unserved = "No draw is possible." if place % 100 == 7 else None
    known = {"beta": 2.0, "acceptance_rate": rate, "tvd": tvd, "tvd_guaranteed": tvd + 0.1}
    return {
        "context": place,
        "fields": {"question": HOSTILE if place == 3 else f"Question number {place}?"},
        "draws": 500 + place,
        "samples": 0 if unserved else 5,
        **({} if unserved else known),
        "certificate_id": f"{place}-abc",
        "unserved": unserved,
        "warnings": ["It is suspicious."] * (place % 3),
        "shown": [] if unserved else [f"An answer to {place}."],
    }


@pytest.fixture(scope="module")
def html():
    rng = np.random.default_rng(0)
    rows = [row(i, *rng.random(2)) for i in range(CONTEXTS)]
    whole = ContextsCertificate(
        contexts=CONTEXTS,
        served=990,
        n=500_000,
        estimates={"tvd": Estimate(0.5, 0.01, 0.48, 0.52)},
        guarantee=MeanGuarantee(0.6, 990, np.arange(64)[::-1] * 15, 0.95),
        basis="A basis.",
        unserved={i: "No draw is possible." for i in range(7, CONTEXTS, 100)},
        suspicious=660,
    )
    return contexts_page(About("questions", ["A constraint."], {"draws": "500,000"}), whole, rows)


def keys(browser, name):
    script = (
        f"return Array.from(document.querySelectorAll('#contexts tbody tr'), r => r.dataset.{name})"
    )
    return browser.execute_script(script)


@pytest.mark.parametrize("name", ["rate", "tvd", "warnings", "draws"])
def test_it_sorts_both_ways(look, html, name):
    browser = look(html)
    assert keys(browser, "context") == [str(i) for i in range(CONTEXTS)]
    button = browser.find_element(By.CSS_SELECTOR, f'button[data-key="{name}"]')
    for turn in (1, -1):
        button.click()
        found = keys(browser, name)
        numbers = [turn * float(x) for x in found if x]
        assert numbers == sorted(numbers)
        # Contexts without a number stand last, both ways.
        assert all(found[: len(numbers)])
        assert len(found) == CONTEXTS
    browser.find_element(By.CSS_SELECTOR, 'button[data-key="context"]').click()
    assert keys(browser, "context") == [str(i) for i in range(CONTEXTS)]


def test_a_context_opens(look, html):
    browser = look(html)
    line = browser.find_element(By.ID, "context-5")
    answer = line.find_element(By.TAG_NAME, "pre")
    assert not answer.is_displayed()
    line.find_element(By.TAG_NAME, "summary").click()
    assert answer.is_displayed()
    assert answer.text == "An answer to 5."
    unserved = browser.find_element(By.ID, "context-7")
    unserved.find_element(By.TAG_NAME, "summary").click()
    assert "Not served: No draw is possible." in unserved.text


def test_texts_are_texts(look, html):
    browser = look(html)
    line = browser.find_element(By.ID, "context-3")
    assert "<img src=x" in line.text
    assert not line.find_elements(By.TAG_NAME, "img")


def test_the_numbers_of_contexts_above_levels(html):
    found = int(np.flatnonzero(LEVELS <= 0.1)[-1])
    assert f"{(63 - found) * 15} above 0.1," in html
    assert "at most 0.6, with confidence 0.95" in html
