"""The report of a run as one HTML file: the constraint, how close the samples are, and the texts.

The file needs no network: style, script and data are inside it. A slider moves along beta and
shows which of the drawn texts survive: those with alpha > beta.
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
from quasir.report.sentences import (
    Phrase,
    beta_text,
    constraint_sentences,
    guarantee_sentences,
    number_text,
    phrase,
    rate_phrase,
)

if TYPE_CHECKING:
    from quasir.certificates.certificate import Certificate
    from quasir.certificates.check import WantedMoment
    from quasir.certificates.curve import Curve
    from quasir.draws.draws import Draws
    from quasir.store import Store


@dataclass(frozen=True)
class About:
    """What the page says about the run in words."""

    title: str
    asked: Sequence[str] = ()  # sentences that name the constraint, the base and the proposal
    facts: Mapping[str, str] = field(default_factory=dict)  # version, seed, models, date, ...


def page(
    about: About,
    curve: Curve,
    certificate: Certificate,
    draws: Draws | Store,
    features: Sequence[Feature],
    checks: Sequence[Check] = (),
    wanted: Sequence[WantedMoment] = (),
) -> str:
    """Return the report as one HTML file; draws on disk are read shard by shard."""
    if curve.n != len(draws):
        raise InputError(
            f"the curve is of {curve.n:,} draws, but {len(draws):,} were given: the page would "
            "show texts that are not in the curves. Give the draws that the curve was made from."
        )
    data = page_data(curve.including(certificate.log_beta), certificate, draws, features)
    kept_items = data.pop("kept_items")
    script = packaged("page_chart.js") + packaged("page.js")
    observed = {check.name: check for check in checks}
    suspicious = [check for check in checks if check.suspicious]
    html = template("page.html.jinja").render(
        about=about,
        beta=beta_text(certificate.log_beta),
        certificate=certificate,
        checks=checks,
        colours=COLOURS,
        data=data,
        data_json=Markup(as_json(data)),
        suspicious=suspicious,
        estimates=_estimates(certificate),
        kept_items=kept_items,
        max_z=MAX_Z,
        n_possible=curve.n_possible,
        number=number_text,
        guarantee=guarantee_sentences(certificate),
        script=Markup(script),
        script_hash=hash_of_script(script),
        style=Markup(packaged("page.css")),
        tail=tail_text(certificate.pareto_k),
        constraints=[
            (one.name, constraint_sentences(one, observed.get(one.name))) for one in wanted
        ],
    )
    # A lone surrogate in a name cannot be encoded in UTF-8.
    return html.encode("utf-8", "replace").decode("utf-8")


def _estimates(certificate: Certificate) -> list[tuple[str, str, Phrase]]:
    """Return heading, meaning and phrase of each estimate."""
    rows = []
    for key, part in certificate.rows():
        said = rate_phrase(part) if key == "acceptance_rate" else phrase(part)
        rows.append((heading_of(key), meaning_of(key), said))
    return rows


@cache
def packaged(name: str) -> str:
    """Return the text of a file of this package."""
    return files("quasir.report").joinpath(name).read_text("utf-8")


@cache
def template(name: str) -> Template:
    """Return a template; it escapes what is put into it."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(packaged(name))


def hash_of_script(script: str) -> str:
    """Return the script's hash, so that the page's policy allows this script and no other."""
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")
