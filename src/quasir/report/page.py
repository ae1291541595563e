"""The report of a run as one HTML file: the wish, how close the samples are, and the texts.

The file needs no network: style, script and data are inside it. A slider moves along beta and
shows which of the drawn texts survive: those with alpha > beta.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from markupsafe import Markup

from quasir.certificates.check import MAX_Z, Check
from quasir.certificates.figures import COLOURS
from quasir.core.formatting import tail_text
from quasir.errors import InputError
from quasir.estimation.quantities import heading_of, meaning_of
from quasir.features import Feature
from quasir.report.packaged import hash_of_script, packaged, template
from quasir.report.page_data import as_json, page_data
from quasir.report.phrases import Phrase, beta_text, number_text, phrase, rate_phrase
from quasir.report.promise_sentences import promise_sentences
from quasir.report.wish_sentences import sentences

if TYPE_CHECKING:
    from quasir.certificates.certificate import Certificate
    from quasir.certificates.curve import Curve
    from quasir.certificates.wished import Wished
    from quasir.draws.draws import Draws

__all__ = ["About", "page"]


@dataclass(frozen=True)
class About:
    """What the page says about the run in words.

    Attributes
    ----------
    title : str
    asked : list of str
        Sentences that name the wish, the base and the proposal.
    facts : dict of str
        Version, seed, models, date, and whatever else identifies the run.
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
    wished: Sequence[Wished] = (),
) -> str:
    """Return the report as one HTML file.

    Parameters
    ----------
    about : About
        The run in words.
    curve : Curve
        The trade-off of these draws; the slider moves along its betas and the chosen one.
    certificate : Certificate
        The certificate at the chosen beta.
    draws : Draws
        The draws of the curve. Their items are texts, or have a text.
    features : sequence of Feature
        Features whose words are coloured.
    checks : sequence of Check
        The samples' moments, compared with the predicted ones.
    wished : sequence of Wished
        The wished moments, compared with the target's.

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
            "show texts that are not in the curves. Give the draws that the curve was made from."
        )
    data = page_data(curve.including(certificate.log_beta), certificate, draws, features)
    script = packaged("page_chart.js") + packaged("page.js")
    observed = {check.name: check for check in checks}
    doubtful = [check for check in checks if check.doubtful]
    html = template("page.html.jinja").render(
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
        promise=promise_sentences(certificate),
        script=Markup(script),
        script_hash=hash_of_script(script),
        style=Markup(packaged("page.css")),
        tail=tail_text(certificate.pareto_k),
        wishes=[(one.name, sentences(one, observed.get(one.name))) for one in wished],
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
