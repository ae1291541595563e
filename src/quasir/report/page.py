"""The report of a run as one HTML file: what was asked, how close it came, and the texts.

The file needs no network: style, script and data are inside it. A slider moves along beta and
shows which of the drawn texts survive, which is alpha > beta for each.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from quasir.certificates.check import MAX_Z, Check
from quasir.certificates.figures import COLOURS
from quasir.core.formatting import tail_text
from quasir.errors import InputError
from quasir.estimation.quantities import heading_of, meaning_of
from quasir.features import Feature
from quasir.report.page_data import as_json, page_data
from quasir.report.phrases import Phrase, beta_text, number_text, phrase, rate_phrase

if TYPE_CHECKING:
    from quasir.certificates.certificate import Certificate
    from quasir.certificates.curve import Curve
    from quasir.draws.draws import Draws

__all__ = ["About", "page"]


@dataclass(frozen=True)
class About:
    """What the page says of the run in words.

    Attributes
    ----------
    title : str
    asked : list of str
        Sentences: what was asked, of which base, by which proposal.
    facts : dict of str
        Version, seed, models, date, and what else makes the run one of a kind.
    """

    title: str
    asked: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)


def page(
    about: About,
    curve: Curve,
    certificate: Certificate,
    draws: Draws,
    features: Sequence[Feature],
    checks: Sequence[Check] = (),
) -> str:
    """Return the report as one HTML file.

    Parameters
    ----------
    about : About
        What was asked, in words.
    curve : Curve
        The trade-off of these draws; the slider moves along its betas.
    certificate : Certificate
        That of the chosen beta.
    draws : Draws
        Those behind the curve. Texts, or anything that has a text.
    features : sequence of Feature
        Whose words to colour.
    checks : sequence of Check
        Moments observed on samples, beside those predicted.

    Examples
    --------
    >>> import quasir as qr
    >>> target, proposal = qr.Table({"a": 0.8, "b": 0.2}), qr.Table({"a": 0.5, "b": 0.5})
    >>> draws = qr.draw(target, proposal, 1000, seed=0)
    >>> curve = qr.tradeoff(draws)
    >>> html = page(About("letters"), curve, curve.at(beta=1), draws, features=[])
    >>> html.count("<h1>")
    1
    """
    if curve.n != len(draws):
        raise InputError(
            f"the curve is of {curve.n:,} draws, but {len(draws):,} were given: the page would "
            "show texts that the figures do not speak of. Give the draws that the curve is made of."
        )
    data = page_data(curve, certificate, draws, features)
    script = _packaged("page_chart.js") + _packaged("page.js")
    doubtful = [check for check in checks if check.doubtful]
    html = _template().render(
        about=about,
        beta=beta_text(certificate.log_beta),
        certificate=certificate,
        checks=checks,
        colours=COLOURS,
        data=data,
        data_json=Markup(as_json(data)),
        doubtful=doubtful,
        estimates=_estimates(certificate),
        kept_items=draws.items is not None,
        max_z=MAX_Z,
        n_possible=curve.n_possible,
        number=number_text,
        script=Markup(script),
        script_hash=_hash(script),
        style=Markup(_packaged("page.css")),
        tail=tail_text(certificate.pareto_k),
    )
    # A lone surrogate in a name is no Unicode: UTF-8 could not hold the page.
    return html.encode("utf-8", "replace").decode("utf-8")


def _estimates(certificate: Certificate) -> list[tuple[str, str, Phrase]]:
    """Return heading, meaning and phrase of each estimate."""
    rows = []
    for key, part in certificate.rows():
        said = rate_phrase(part) if key == "acceptance_rate" else phrase(part)
        rows.append((heading_of(key), meaning_of(key), said))
    return rows


@cache
def _packaged(name: str) -> str:
    return files("quasir.report").joinpath(name).read_text("utf-8")


@cache
def _template() -> Template:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_packaged("page.html.jinja"))


def _hash(script: str) -> str:
    """Return what the page's policy lets run: this script, and no other."""
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")
