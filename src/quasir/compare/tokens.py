"""The number of the base's tokens in each item, from the store and without a model.

Perplexity is a mean over the tokens that the base scored. The store has the token ids that the
proposal drew; these are also the base's tokens where both have the same model or tokenizer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from quasir.core.items import TokenTexts
from quasir.core.types import Items
from quasir.errors import InputError
from quasir.metrics.text_codes import texts_of
from quasir.recipes.schema import Recipe, Source

__all__ = ["Counter", "token_counter"]

Counter: TypeAlias = Callable[[Items], NDArray[np.int64]]
"""Returns the number of tokens of each item."""


def token_counter(recipe: Recipe | None, items: Items) -> tuple[Counter | None, str]:
    """Return a counter of the base's tokens, or None and the reason why there is none.

    The end token counts as one; a text of ``max_tokens`` tokens was cut and has no end token, as in
    `quasir.metrics.perplexity`. Tokenizers are loaded only where the proposal has another model
    than the base: to see whether they are the same, and if not, to encode the texts again.
    """
    if recipe is None:
        return _no_counter("the run has no recipe that names its base")
    name = recipe.base.model
    if name is None or not isinstance(items, TokenTexts):
        return _no_counter("the base is no language model, and has no tokens")
    limit = recipe.max_tokens

    def stored(texts: Items) -> NDArray[np.int64]:
        lengths: NDArray[np.int64] = np.diff(texts.offsets)
        return lengths + (lengths < limit)

    others = sorted(_models(recipe.proposal, name) - {name})
    if not others:
        return stored, ""
    from quasir.text.loading import load_tokenizer
    from quasir.text.tokenizers import same_tokenizer

    try:
        tokenizer = load_tokenizer(name, recipe.base.revision)
        if all(same_tokenizer(load_tokenizer(other), tokenizer) for other in others):
            return stored, ""
    except InputError as error:
        return _no_counter(f"the proposal may have other tokens than the base, and {error}")
    return _encoded(tokenizer, limit), ""


def _no_counter(why: str) -> tuple[None, str]:
    """Return no counter, and the reason."""
    return None, why


def _encoded(tokenizer: Any, limit: int) -> Counter:
    """Return a counter that encodes texts as the base does to score them."""

    def count(texts: Items) -> NDArray[np.int64]:
        encoded = tokenizer(texts_of(texts), add_special_tokens=False).input_ids
        lengths = np.array([len(ids) for ids in encoded], np.int64)
        return lengths + ((lengths < limit) & (tokenizer.eos_token_id is not None))

    return count


def _models(source: Source, base: str) -> set[str]:
    """Return the names of the models whose tokens the proposal draws."""
    if source.mixture is not None:
        return set().union(*(_models(part, base) for part in source.mixture))
    if source.round_trip is not None:
        return {source.round_trip.back}
    return {source.model or base}
