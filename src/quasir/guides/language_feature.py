"""The feature of a guide's language: whether a whole text is in it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.items import as_items, text_of
from quasir.core.optional import offered
from quasir.core.types import Items
from quasir.errors import FeatureError, InputError
from quasir.guides.language import Language
from quasir.guides.vocabulary import Vocabulary
from quasir.targets.factors import Pointwise
from quasir.targets.feature import Feature
from quasir.targets.product import Product, multiply

__all__ = ["LanguageFeature"]


class LanguageFeature(Feature):
    """Whether the whole text is in a guide's language, by the tokens that it was drawn as.

    It is decided by the same matcher that makes the masks. ``base * feature`` tells it the base's
    tokenizer and max_tokens; by itself it takes the tokenizer from the texts that it is given.

    Attributes
    ----------
    languages : tuple of Language
        All of them must hold.
    tokenizer : tokenizer or None
    max_tokens : int or None
        A text of that many tokens was cut; None if that is not known.
    """

    def __init__(
        self,
        languages: tuple[Language, ...],
        tokenizer: Any = None,
        max_tokens: int | None = None,
    ) -> None:
        name = " and ".join(language.name for language in languages)
        super().__init__(name, self._holds, batched=True, boolean=True)
        self.languages, self.tokenizer, self.max_tokens = languages, tokenizer, max_tokens
        self._matchers: list[Any] = []

    def bound(self, base: Any) -> LanguageFeature:
        """Return this feature for the texts of a base, if that has a tokenizer."""
        tokenizer = offered(base, "tokenizer")
        if tokenizer is None or self.tokenizer is not None:
            return self
        return LanguageFeature(self.languages, tokenizer, offered(base, "max_tokens"))

    def same_as(self, other: Feature) -> bool:
        """Return whether the other feature is that of the same language."""
        return isinstance(other, LanguageFeature) and self.languages == other.languages

    def __rmul__(self, base: Any) -> Any:
        """Return base * feature: the base, restricted to texts of the language."""
        inner = base.base if isinstance(base, Product) else base
        return multiply(base, Pointwise(self.bound(inner)))

    def _holds(self, items: Items) -> NDArray[np.bool_]:
        tokenizer = self.tokenizer or getattr(items, "tokenizer", None)
        if tokenizer is None:
            raise FeatureError(
                f"feature {self.name!r} has no tokenizer to read these items with: use it as "
                "base * guide.feature, or give it texts that a language model drew."
            )
        complete = all(language.complete for language in self.languages)
        if not complete and self.max_tokens is None:
            raise FeatureError(
                f"feature {self.name!r} has complete=False, but does not know where texts are cut: "
                "use it as base * guide.feature."
            )
        matchers = self._compiled(tokenizer)
        limit = -1 if self.max_tokens is None else self.max_tokens
        return np.array(
            [
                all(matcher.holds(ids, cut=len(ids) == limit) for matcher in matchers)
                for ids in _tokens_of(items, tokenizer)
            ],
            dtype=bool,
        )

    def _compiled(self, tokenizer: Any) -> list[Any]:
        if not self._matchers or self._matchers[0].vocabulary.tokenizer is not tokenizer:
            vocabulary = Vocabulary(tokenizer, len(tokenizer), tokenizer.eos_token_id)
            try:
                self._matchers = [language.compiled(vocabulary) for language in self.languages]
            except InputError as error:
                raise FeatureError(f"feature {self.name!r} cannot be read: {error}") from error
        return self._matchers

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_matchers": []}


def _tokens_of(items: Items, tokenizer: Any) -> list[list[int]]:
    """Return the token ids of each item: its own where it has them, else by encoding its text."""
    own = getattr(items, "tokenizer", tokenizer)
    same = own is tokenizer or own.get_vocab() == tokenizer.get_vocab()
    if same and hasattr(items, "ids") and hasattr(items, "offsets"):
        pieces = np.split(items.ids, items.offsets[1:-1]) if len(items) else []
        return [part.tolist() for part in pieces]
    listed = list(as_items(items))
    if same and listed and all(hasattr(item, "token_ids") for item in listed):
        return [list(item.token_ids) for item in listed]
    texts = [text_of(item) for item in listed]
    encoded: list[list[int]] = tokenizer(texts, add_special_tokens=False).input_ids if texts else []
    return encoded
