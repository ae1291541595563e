"""The report of a run as one HTML file that needs no network, and of a run over contexts."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup
from numpy.typing import NDArray

from quasir.certificates.certificate import MAX_Z, Check
from quasir.certificates.figures import COLOURS
from quasir.core.formatting import escaped, rounded_up, tail_text
from quasir.estimation.estimate import Estimate
from quasir.estimation.guarantee import LEVELS
from quasir.estimation.quantities import QUANTITIES, heading_of, meaning_of
from quasir.features import Feature
from quasir.report.sentences import (
    beta_text,
    constraint_sentences,
    exactness_sentence,
    expectations,
    guarantee_sentences,
    number_text,
    phrase,
    rate_phrase,
)
from quasir.report.shown_texts import SHOWN, AcceptedDraws, shown_texts

if TYPE_CHECKING:
    from quasir.certificates.certificate import Certificate, WantedMoment
    from quasir.certificates.contexts_certificate import ContextsCertificate
    from quasir.certificates.curve import Curve
    from quasir.draws.draws import Draws
    from quasir.recipes.explain import Setting
    from quasir.store import Store

_SURROGATE = re.compile("[\ud800-\udfff]")
Hue = tuple[int, bool]
"""The number of a colour, and whether the line is dashed because the colour is used before."""

FIRST = 3  # texts near the top of the page
GUARANTEED = 2  # the number of the colour of guarantees
LONGEST = 120  # characters of a context in the table; all of it is shown when it is opened
TABLE_LEVELS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
SORTED = ("acceptance_rate", "tvd", "tvd_guaranteed", "draws", "samples")

PANELS: dict[str, tuple[str, str, list[int | None]]] = {
    "tvd": (
        "Total variation distance",
        "How far the samples are from the target: 0 is exact, 1 is nothing in common.",
        [0, 1],
    ),
    "kl": (
        "KL divergence to the target",
        "How far the samples are from the target, in nats: 0 is exact.",
        [0, None],
    ),
    "moments": (
        "Features",
        "The mean of each feature over the samples; for a yes-or-no feature, the share with yes.",
        [0, None],
    ),
    "kl_base": (
        "KL divergence from the base",
        "How far the constraint moves the samples away from the base model, in nats.",
        [0, None],
    ),
}  # panel -> title, note, and the lower and upper end of its vertical axis


@dataclass(frozen=True)
class About:
    """What the page says about the run in words."""

    title: str
    asked: Sequence[str] = ()  # sentences that name the constraint, the base and the proposal
    facts: Mapping[str, str] = field(default_factory=dict)  # version, seed, models, date, ...
    settings: Sequence[Setting] = ()  # every setting of the recipe, defaults too
    exact: str = ""  # the command that gives exact samples


def page(
    about: About,
    curve: Curve,
    certificate: Certificate,
    draws: Draws | Store,
    features: Sequence[Feature],
    checks: Sequence[Check] = (),
    wanted: Sequence[WantedMoment] = (),
) -> str:
    """Return the report of one context; draws on disk are read shard by shard."""
    data = page_data(curve.including(certificate.log_beta), certificate, draws, features)
    kept_items = data.pop("kept_items")
    observed = {check.name: check for check in checks}
    return _render(
        "page.html.jinja",
        packaged("page_chart.js") + packaged("page.js"),
        packaged("page.css"),
        about=about,
        beta=beta_text(certificate.log_beta),
        certificate=certificate,
        checks=checks,
        data=data,
        data_json=Markup(as_json(data)),
        suspicious=[check for check in checks if check.suspicious],
        estimates=[
            (heading_of(key), meaning_of(key), said(part))
            for key, part in certificate.rows()
            for said in [rate_phrase if key == "acceptance_rate" else phrase]
        ],
        exactness=exactness_sentence(curve, certificate),
        expected=expectations(wanted),
        first_texts=_first_texts(data),
        kept_items=kept_items,
        max_z=MAX_Z,
        n_possible=curve.n_possible,
        number=number_text,
        guarantee=guarantee_sentences(certificate),
        tail=tail_text(certificate.pareto_k),
        constraints=[
            (one.name, constraint_sentences(one, observed.get(one.name))) for one in wanted
        ],
    )


def contexts_page(
    about: About, whole: ContextsCertificate, rows: Sequence[Mapping[str, Any]]
) -> str:
    """Return the report of a run over contexts: the whole, and a table of contexts that sorts."""
    guarantee, levels = whole.guarantee, []
    headline = f"{whole.served:,} of {whole.contexts:,} contexts are served; no mean is guaranteed"
    if guarantee is not None:
        headline = (
            f"The mean TVD of {whole.served:,} contexts is at most {rounded_up(guarantee.tvd):.3g},"
            f" with confidence {guarantee.confidence:g}"
        )
        for wanted in TABLE_LEVELS:
            # The largest level below: as many as are above it are above this one at most.
            below = np.flatnonzero(np.asarray(LEVELS) <= wanted)
            levels.append((f"{wanted:g}", int(guarantee.above[below[-1]])))
    return _render(
        "contexts.html.jinja",
        packaged("contexts.js"),
        packaged("page.css") + packaged("contexts.css"),
        about=about,
        data_json=None,
        headline=headline,
        levels=levels,
        means=[
            ("Proposals per sample" if key == "proposals" else heading_of(key), phrase(part))
            for key, part in whole.estimates.items()
        ],
        most=lambda x: _number(rounded_up(x)),
        number=_number,
        rows=[_row(row) for row in rows],
        whole=whole,
    )


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a context in the table; what cannot be sorted by number goes last."""
    return {
        **row,
        "title": escaped(", ".join(str(value) for value in row["fields"].values()), LONGEST),
        "keys": {name: row.get(name) if _is_number(row.get(name)) else "" for name in SORTED},
        "worries": len(row["warnings"]) + (row["unserved"] is not None),
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _number(value: Any) -> str:
    return number_text(value) if _is_number(value) else "unknown"


def _render(name: str, script: str, style: str, **values: Any) -> str:
    """Fill a template, which escapes what is put into it."""
    environment = Environment(
        autoescape=True,
        loader=FunctionLoader(packaged),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # With its hash, the page's policy allows this script and no other.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    html = environment.get_template(name).render(
        colours=COLOURS,
        script=Markup(script),
        script_hash=f"sha256-{digest}",
        style=Markup(style),
        **values,
    )
    # A lone surrogate in a name cannot be encoded in UTF-8.
    return html.encode("utf-8", "replace").decode("utf-8")


def _first_texts(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    beta, hue = data["log_beta"][data["chosen"]], [one["colour"] for one in data["features"]]
    return [
        {
            "draw": entry["draw"],
            "cut": bool(entry["rest"] or entry["more"]),
            "pieces": [
                (piece, []) if isinstance(piece, str) else (piece[0], [hue[j] for j in piece[1:]])
                for piece in entry["pieces"]
            ],
        }
        for entry in data["texts"]
        if entry["log_alpha"] > beta
    ][:FIRST]


def page_data(
    curve: Curve, certificate: Certificate, draws: Draws | Store, features: Sequence[Feature]
) -> dict[str, Any]:
    """Return the page's data, ready for JSON; levels are in the order of beta."""
    order = np.argsort(curve.log_betas, kind="stable")
    log_betas = curve.log_betas[order]
    along = list(curve)
    certificates = [along[i] for i in order]
    rates = [one.acceptance_rate for one in certificates]
    accepted_rates = [rate_phrase(rate) for rate in rates]
    accepted = AcceptedDraws.of(draws, log_betas)
    colours = hues([*(feature.name for feature in features), *curve.moments])
    warnings: dict[str, int] = {}
    return {
        "draws": len(draws),
        "shown": SHOWN,
        "chosen": int(np.argmin(np.abs(log_betas - certificate.log_beta))),
        "chosen_rate": _above_0(certificate.acceptance_rate.value),
        "log_beta": log_betas.tolist(),
        "beta": [beta_text(log_beta) for log_beta in log_betas.tolist()],
        "rate": [_above_0(rate.value) for rate in rates],
        "accepted": [said.main for said in accepted_rates],
        "accepted_rest": [said.rest for said in accepted_rates],
        "survivors": accepted.survivors,
        "warnings_at": [
            [warnings.setdefault(warning, len(warnings)) for warning in one.warnings]
            for one in certificates
        ],
        "warnings": list(warnings),
        "features": [
            {"name": one.name, "colour": colours[one.name][0], "coloured": one.spans is not None}
            for one in features
        ],
        "panels": panels(curve, order, colours),
        "kept_items": accepted.draws.items is not None,
        "texts": shown_texts(accepted, features),
    }


def as_json(data: Any) -> str:
    r"""Return JSON that is safe inside a script element and can be encoded in UTF-8."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c")
    return _SURROGATE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", text)


def _above_0(rate: float) -> float | None:
    return rate if rate > 0 and math.isfinite(rate) else None


def hues(names: Sequence[str]) -> dict[str, Hue]:
    """Return the colour of each feature."""
    others = len(COLOURS) - 1
    return {name: (1 + j % others, j >= others) for j, name in enumerate(dict.fromkeys(names))}


def panels(curve: Curve, order: NDArray[np.intp], colours: dict[str, Hue]) -> list[dict[str, Any]]:
    """Return the panels, with points in the given order; none where no draw had P(x) > 0."""
    if not curve.n_possible:
        return []

    def line(name: str, part: Estimate, hue: Hue) -> dict[str, Any]:
        return _line(name, [part[i] for i in order], hue)

    drawn: dict[str, list[dict[str, Any]]] = {name: [] for name in PANELS}
    for key, part in curve.estimates.items():
        if isinstance(key, str) and (place := QUANTITIES[key].line) is not None:
            later = (0, bool(drawn[place.panel]))  # the second line of a panel is dashed
            drawn[place.panel].append(line(place.label, part, later))
    for name in ("tvd", "kl"):
        if (most := getattr(curve.guarantees, name)) is not None:
            drawn[name].append(_guaranteed([float(most[i]) for i in order]))
    moments = [line(name, part, colours[name]) for name, part in curve.moments.items()]
    shares = [one for one in moments if all(v is None or 0 <= v <= 1 for v in one["value"])]
    out = []
    for name, (title, note, ends) in PANELS.items():
        if name == "moments":
            if shares:
                out.append(_panel(title, note, shares, range=ends))
            own = [one for one in moments if one not in shares]
            mean = "Its mean over the samples."
            out += [_panel(f"Feature {one['name']}", mean, [one]) for one in own]
        elif drawn[name]:
            out.append(_panel(title, note, drawn[name], range=ends))
    out[0]["points"] = [_start("q", curve.proposal), _start("q_proj", curve.projection)]
    return out


def _panel(title: str, note: str, lines: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    empty = {"range": [None, None], "points": []}
    return {"title": title, "note": note, "lines": lines, **empty, **more}


def _line(name: str, parts: list[Estimate], hue: Hue) -> dict[str, Any]:
    said = [phrase(part) for part in parts]
    look = {"name": name, "colour": hue[0], "dashed": hue[1]}
    return look | {
        "value": [_known(part) for part in parts],
        "low": [_short(part.low) for part in parts],
        "high": [_short(part.high) for part in parts],
        "main": [one.main for one in said],
        "rest": [one.rest for one in said],
    }


def _guaranteed(most: list[float]) -> dict[str, Any]:
    look = {"name": "guaranteed (95 %)", "colour": GUARANTEED, "dashed": False}
    return look | {
        "value": [_short(bound) for bound in most],
        **dict.fromkeys(("low", "high"), [None] * len(most)),
        "main": [f"at most {number_text(rounded_up(bound))}" for bound in most],
        "rest": [""] * len(most),
    }


def _start(name: str, certificate: Certificate) -> dict[str, Any]:
    """Return the point of a proposal before any rejection."""
    tvd, rate = certificate.tvd, certificate.acceptance_rate
    ends = {"low": _short(tvd.low), "high": _short(tvd.high)}
    return {"name": name, "rate": _short(rate.value), "value": _known(tvd), **ends}


def _known(part: Estimate) -> float | None:
    """Return the value, or None where it is unknown: without a standard error, 0 is no estimate."""
    return None if math.isnan(part.se) else _short(part.value)


def _short(x: float) -> float | None:
    """Return a number with five digits, which is more than a screen shows; None if not finite."""
    return float(f"{x:.5g}") if math.isfinite(x) else None


@cache
def packaged(name: str) -> str:
    """Return the text of a file of this package."""
    return files("quasir.report").joinpath(name).read_text("utf-8")
