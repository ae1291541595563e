"""Guides: weights of the next tokens that turn a base into a proposal.

In a state s a guide gives the next token v the weight g(s, v) >= 0. The guided model draws it with
probability a(v | x) g(s, v)/G, G being the sum over all tokens, so that log a and log q come out of
one pass. A guide knows no tokenizer: `base.guided(guide)` makes it a machine for the base's own.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from quasir.core.files import write_json
from quasir.errors import InputError
from quasir.guides.machine import Machine
from quasir.guides.vocabulary import Vocabulary
from quasir.targets.feature import Feature

__all__ = ["Guide"]


class Guide:
    """Weights of the next tokens; `first * second` multiplies them.

    Guides are values: they can be compared, hashed, pickled, and written to a file.

    Examples
    --------
    >>> import quasir as qr
    >>> both = qr.guides.regex("[a-z ]+") * qr.guides.boost({"poet": 10.0})
    >>> qr.guides.from_dict(both.to_dict()) == both
    True
    """

    @property
    def parts(self) -> tuple[Guide, ...]:
        """The guides that this one is the product of."""
        return (self,)

    @property
    def cuts(self) -> bool:
        """Whether some weights are 0, so that some texts cannot be drawn."""
        return False

    @property
    def below_one(self) -> bool:
        """Whether no weight is above 1."""
        return False

    @property
    def feature(self) -> Feature:
        """The feature of the texts that the guide allows."""
        raise InputError(
            f"{self!r} allows every text, so it has no feature: only guides with a language do "
            "(regex, json_schema, grammar, choice)."
        )

    def compiled(self, vocabulary: Vocabulary) -> Machine:
        """Return the machine of this guide for a model's tokens."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary, which `qr.guides.from_dict` reads."""
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        """A hash of everything that the guide's weights depend on."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def save(self, file: str | Path) -> None:
        """Write the guide to a JSON file, which `qr.guides.load` reads."""
        write_json(Path(file), self.to_dict())

    def __mul__(self, other: Any) -> Guide:
        from quasir.guides.product import Both

        return Both.of([self, other]) if isinstance(other, Guide) else NotImplemented
