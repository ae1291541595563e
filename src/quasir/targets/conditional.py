"""Conditional targets: P depends on a context, such as the sentence to paraphrase."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quasir.core.arguments import check_callable
from quasir.core.types import Array, Items
from quasir.errors import InputError

__all__ = ["Conditional"]


class Conditional:
    """A target that takes a context, such as the sentence to paraphrase.

    Draws, curves and samplers are per context: `given` returns an ordinary target.

    Examples
    --------
    >>> import quasir as qr
    >>> base = qr.Table({"rain": 0.5, "sun": 0.5})
    >>> target = qr.Conditional(lambda word: base * qr.features.contains(word))
    >>> target.given("sun").log_score(["rain", "sun"]).round(3)
    array([  -inf, -0.693])
    """

    def __init__(self, make: Callable[[Any], Any]) -> None:
        check_callable("the argument of Conditional", make, "a function from a context to a target")
        self.make = make

    def given(self, context: Any) -> Any:
        """Return the target for this context."""
        return self.make(context)

    def log_score(self, items: Items) -> Array:
        """Refuse: there is no score without a context."""
        raise InputError("this target needs a context: use target.given(context).")
