"""Items as texts of a given tokenizer: its own token ids are kept, other items are encoded."""

from __future__ import annotations

from typing import Any

from quasir.core.items import as_items, text_of
from quasir.core.types import Items
from quasir.text.texts import Text, Texts

__all__ = ["as_texts", "same_tokenizer"]


def as_texts(items: Items, tokenizer: Any) -> Texts:
    """Return items as `Texts` of this tokenizer.

    Token ids of the same tokenizer are kept, because decoding and encoding again may change them.
    Any other item is encoded from its text.
    """
    if isinstance(items, Texts) and same_tokenizer(items.tokenizer, tokenizer):
        return items
    plain = list(items if isinstance(items, Texts) else as_items(items))
    if plain and not isinstance(items, Texts) and all(type(item) is Text for item in plain):
        return Texts.of([item.token_ids for item in plain], tokenizer)
    texts = [text_of(item) for item in plain]
    if not texts:
        return Texts.of([], tokenizer)
    return Texts.of(tokenizer(texts, add_special_tokens=False).input_ids, tokenizer)


def same_tokenizer(a: Any, b: Any) -> bool:
    """Tell whether two tokenizers give the same ids to the same tokens."""
    return a is b or (len(a) == len(b) and a.get_vocab() == b.get_vocab())
