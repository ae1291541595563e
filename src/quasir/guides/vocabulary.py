"""A model's tokens as guides see them: their texts, llguidance's table of them, items as ids."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.items import as_items, text_of
from quasir.core.types import Items
from quasir.errors import InputError


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The tokens of a model."""

    tokenizer: Any
    size: int  # the number of logits; it may be more than the tokenizer has tokens
    end: int | None  # the token that ends a text

    @cached_property
    def pieces(self) -> list[str]:
        """What each token adds to a text that already has a letter."""
        count = min(self.size, len(self.tokenizer))
        letter = self.spelled("a") or self.spelled("e") or (0,)
        pairs = [[*letter, i] for i in range(count)]
        before = self.decoded(list(letter))
        texts = decode(self.tokenizer, pairs)
        return [text[len(before) :] for text in texts] + [""] * (self.size - count)

    @cached_property
    def kinds(self) -> NDArray[np.int64]:
        """For each token, 1 if its text begins with a letter or digit, plus 2 if it ends so."""
        return np.array(
            [_is_word(text[:1]) + 2 * _is_word(text[-1:]) for text in self.pieces], dtype=np.int64
        )

    @cached_property
    def _token_of(self) -> dict[str, int]:
        """The token of each piece."""
        return {piece: i for i, piece in enumerate(self.pieces) if piece}

    def split(self, text: str) -> list[tuple[int, ...]]:
        """Return all ways to spell a text with two tokens, also those that no tokenizer gives."""
        pairs = [(text[:i], text[i:]) for i in range(1, len(text))]
        known = self._token_of
        spelled = [(known[a], known[b]) for a, b in pairs if a in known and b in known]
        return [ids for ids in spelled if self.decoded(list(ids)).strip() == text.strip()]

    def spelled(self, text: str) -> tuple[int, ...]:
        """Return the tokens that the tokenizer spells a text with; none if it cannot."""
        ids = self.tokenizer(text, add_special_tokens=False).input_ids
        if self.decoded(ids).strip() != text.strip() or any(i >= self.size for i in ids):
            return ()
        return tuple(ids)

    def decoded(self, ids: list[int]) -> str:
        """Return the text of some tokens."""
        return decode(self.tokenizer, [ids])[0]

    @cached_property
    def for_masks(self) -> Any:
        """The tokenizer as llguidance wants it."""
        import llguidance.hf

        if not getattr(self.tokenizer, "is_fast", False):
            raise InputError(
                f"the tokenizer is a slow one ({type(self.tokenizer).__name__}), but a guide with "
                "a language needs a fast one: load it with use_fast=True."
            )
        try:
            return llguidance.hf.from_tokenizer(
                self.tokenizer, n_vocab=max(self.size, len(self.tokenizer)), eos_token=self.end
            )
        except Exception as error:  # the library raises plain ValueErrors and its own panics
            raise InputError(
                f"llguidance cannot read this tokenizer ({type(self.tokenizer).__name__}): "
                f"{str(error).splitlines()[0]}. A guide with a language needs tokens of known "
                "bytes, such as those of byte-level BPE or SentencePiece."
            ) from error


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def decode(tokenizer: Any, sequences: list[list[int]]) -> list[str]:
    """Return the texts of sequences of tokens, with all that they say."""
    decoded: list[str] = tokenizer.batch_decode(
        sequences, skip_special_tokens=False, clean_up_tokenization_spaces=False
    )
    return decoded


def same_tokenizer(a: Any, b: Any) -> bool:
    """Tell whether two tokenizers give the same ids to the same tokens."""
    return a is b or (len(a) == len(b) and a.get_vocab() == b.get_vocab())


def token_ids(items: Items, tokenizer: Any) -> list[list[int]]:
    """Return the ids of each item in this tokenizer; its own are kept, others encoded from text."""
    same = same_tokenizer(getattr(items, "tokenizer", tokenizer), tokenizer)
    if same and hasattr(items, "ids") and hasattr(items, "offsets"):
        pieces = np.split(items.ids, items.offsets[1:-1]) if len(items) else []
        return [part.tolist() for part in pieces]
    listed = list(as_items(items))
    if same and listed and all(hasattr(item, "token_ids") for item in listed):
        return [list(item.token_ids) for item in listed]
    texts = [text_of(item) for item in listed]
    encoded: list[list[int]] = tokenizer(texts, add_special_tokens=False).input_ids if texts else []
    return encoded
