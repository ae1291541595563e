"""The promise of a certificate in words that need no statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quasir.report.phrases import number_text

if TYPE_CHECKING:
    from quasir.certificates.certificate import Certificate

__all__ = ["promise_sentences"]


def promise_sentences(certificate: Certificate) -> tuple[str, list[str]]:
    """Return the headline, and the sentences below it.

    Examples
    --------
    >>> import quasir as qr
    >>> base = qr.Table({"he": 0.9, "she": 0.1})
    >>> she = qr.Feature("she", lambda x: x == "she", boolean=True)
    >>> curve = qr.tradeoff(qr.draw(base * qr.tilt(she, 2.0), base, 10_000, seed=0))
    >>> headline, more = promise_sentences(curve.at(tvd=0.1, confidence=0.95))
    >>> print(headline)
    On average, at most 10.0 in 100 samples are not perfect ones.
    >>> promise_sentences(curve.at(tvd=0))[0]
    'These are perfect samples of what was asked for.'
    """
    promise = certificate.promise
    if promise is None or promise.tvd is None:
        why = [] if promise is None else [promise.basis]
        return "Nothing is promised; the figures below are estimates.", why
    if promise.tvd == 0:
        return "These are perfect samples of what was asked for.", [
            "No ratio can exceed the chosen β, so rejection sampling is exact (TVD is 0).",
            promise.basis,
        ]
    sure = f"{100 * promise.confidence:.4g} %"
    more = [
        f"Exchange at most this share of them, {number_text(promise.tvd)}, and they are exactly "
        "what was asked for: that is what a total variation distance (TVD) means.",
        f"This is a promise, not an estimate: made in this way, it is right in at least {sure} of "
        "all runs, however many draws there are and however often you look.",
        promise.basis,
    ]
    return f"On average, at most {100 * promise.tvd:.1f} in 100 samples are not perfect ones.", more
