"""Reading a page as a browser would, without one."""

import json
from html.parser import HTMLParser

import numpy as np
from scipy import stats

import quasir as qr
from quasir.certificates.certificate import Check
from quasir.report.page import About, page


class Reader(HTMLParser):
    """Collects every element and the text of each script."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.comments, self.scripts = [], [], []
        self.shown, self._raw = "", None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag in ("script", "style"):
            self._raw = (tag, dict(attributes))
            self.scripts.append([self._raw, ""])

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self._raw = None

    def handle_data(self, data):
        if self._raw:
            self.scripts[-1][1] += data
        else:
            self.shown += data

    def handle_comment(self, data):
        self.comments.append(data)

    def attribute(self, name):
        return [attributes[name] for _, attributes in self.elements if name in attributes]


def data_of(html):
    """Return the page's data; NaN and Infinity, which are no JSON, are refused."""

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    (data,) = [
        text for (_, attributes), text in Reader(html).scripts if attributes.get("id") == "data"
    ]
    return json.loads(data, parse_constant=refuse)


def text_in(entry, part="pieces"):
    """Return the text of an entry of the page's data: what is shown at once, or the `rest`."""
    return "".join(piece if isinstance(piece, str) else piece[0] for piece in entry[part])


def fired(entry):
    """Return the coloured words of an entry, each with the numbers of its features."""
    return [(piece[0], tuple(piece[1:])) for piece in entry["pieces"] if not isinstance(piece, str)]


def shown_at(data, level):
    """Return the draws shown at a level by the page's own rule: the first with alpha > beta."""
    alive = [e["draw"] for e in data["texts"] if e["log_alpha"] > data["log_beta"][level]]
    return alive[: data["shown"]]


HOSTILE = (
    "<script>alert(1)</script> she said </script> <!-- & \"she\" 'x' ]]> {{ 7*7 }}\nand\n\tleft"
)


def biographies(n, seed=0, hostile=False):
    """Return draws of made-up texts with two features, a base, and ratios that vary."""
    rng = np.random.default_rng(seed)
    who, what = rng.integers(2, size=n), rng.integers(4, size=n)
    roles = ("chemist", "painter", "historian", "swimmer")
    texts = [
        f"{('He', 'She')[g]} was a {roles[r]}, number {i}." + (" " + HOSTILE) * (hostile and i < 9)
        for i, (g, r) in enumerate(zip(who, what, strict=True))
    ]
    science = np.asarray(qr.features.science(texts))
    female = np.asarray(qr.features.female(texts))
    log_q = rng.normal(-20, 1, size=n)
    log_base = log_q + rng.normal(0, 0.7, size=n)
    log_p = np.where(science, log_base + 1.5 * female, -np.inf)
    columns = {"science": science, "female": female}
    return qr.Draws.from_arrays(log_p, log_q, texts, log_base, columns, seed=seed)


FEATURES = [qr.features.science, qr.features.female]


def page_of(draws, features=FEATURES, about=None, checks=(), curve=None, wanted=(), **constraint):
    """Return the page of some draws, by default at an acceptance rate of 0.1."""
    curve = curve or qr.tradeoff(draws)
    certificate = curve.at(**(constraint or {"acceptance_rate": 0.1}))
    return page(about or About("scientists"), curve, certificate, draws, features, checks, wanted)


def check(name, observed, predicted, z, se=0.01):
    """Return a check of a sample's mean against what the certificate predicts."""
    errors = {"observed_se": se, "predicted_se": 0.01}
    return Check(name=name, observed=observed, predicted=predicted, z=z, **errors)


def poisson_draws(n):
    """Return draws of integers."""
    return qr.draw(qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10)), n, seed=0)
