"""Languages by llguidance: the masks of a batch's rows, and whether a whole text is in one."""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.formatting import short_repr
from quasir.core.types import Items, optional_attribute
from quasir.errors import FeatureError, InputError
from quasir.guides.guide import Ints, Machine, Rows, Weights
from quasir.guides.language import Language
from quasir.guides.vocabulary import Vocabulary, token_ids
from quasir.targets.feature import Feature

DEAD_END = "NoExtension"
"""The beginning of a message that is no failure: no token of the model can follow."""


class MatcherMachine(Machine):
    """A language for a model's tokens."""

    def __init__(self, language: Language, vocabulary: Vocabulary) -> None:
        from llguidance import LLMatcher

        self.language, self.vocabulary = language, vocabulary
        self.start = LLMatcher(vocabulary.for_masks, language.lark, log_level=0)
        self.refuse_error(self.start)
        self.first: NDArray[np.int32] | None = None
        self.first = self.begin(1).weights().mask
        assert self.first is not None
        if not self.start.is_accepting() and not self.first.any():
            raise InputError(f"the guide {language!r} allows no text: its language is empty.")

    def begin(self, n: int) -> MatcherRows:
        """Return n rows at the beginning of a text."""
        rows = MatcherRows(self, [self.start.deep_copy() for _ in range(n)])
        if self.first is not None:
            rows.mask = np.broadcast_to(self.first, (n, self.first.shape[1]))
        return rows

    def refuse_error(self, matcher: Any) -> None:
        """Raise `InputError` if a matcher is in an error state."""
        if matcher.is_error() and not matcher.get_error().startswith(DEAD_END):
            message = " ".join(matcher.get_error().split())
            raise InputError(
                f"the matcher of the guide {self.language!r} stopped with an error: "
                f"{short_repr(message, 300)}. Simplify the guide."
            )

    @functools.cached_property
    def forced_tokens(self) -> int:
        """The fewest tokens that spell the bytes every text begins with."""
        forced = self.start.compute_ff_bytes()
        pieces = self.vocabulary.for_masks
        known = {pieces.decode_bytes([i]) for i in range(self.vocabulary.size)}
        longest = max(map(len, known))
        fewest = [0] + [len(forced) + 1] * len(forced)
        for stop in range(1, len(forced) + 1):
            for start in range(max(0, stop - longest), stop):
                if forced[start:stop] in known:
                    fewest[stop] = min(fewest[stop], fewest[start] + 1)
        # The last bytes may be the beginning of a longer token.
        ends = range(max(0, len(forced) - longest + 1), len(forced) + 1)
        return min(fewest[at] + (at < len(forced)) for at in ends) if forced else 0

    def holds(self, ids: list[int], cut: bool) -> bool:
        """Return whether a text of these tokens is in the language."""
        if max(ids, default=0) >= self.vocabulary.for_masks.vocab_size:
            return False  # a model may have more tokens than its tokenizer: these have no text
        matcher = self.start.deep_copy()
        read = matcher.try_consume_tokens(ids)
        self.refuse_error(matcher)
        if read < len(ids):
            return False
        return bool(matcher.is_accepting()) or (cut and not self.language.complete)


class MatcherRows(Rows):
    """A matcher for each row; None for a row that has left the language, which allows nothing."""

    columns = ("matchers",)

    def __init__(self, machine: MatcherMachine, matchers: list[Any]) -> None:
        self.machine, self.matchers = machine, np.array(matchers, dtype=object)
        self.mask: NDArray[np.int32] | None = None  # of the next tokens, if it is known

    def weights(self) -> Weights:
        """Return the mask of every row."""
        if self.mask is None:
            self.mask = self._filled()
        return Weights(self.mask, ())

    def _filled(self) -> NDArray[np.int32]:
        from llguidance.numpy import fill_next_token_bitmask_par

        vocabulary = self.machine.vocabulary
        words = -(-vocabulary.for_masks.vocab_size // 32)  # of 32 bits
        mask = np.zeros((len(self.matchers), words), dtype=np.int32)
        alive = [(matcher, i) for i, matcher in enumerate(self.matchers) if matcher is not None]
        if alive:
            fill_next_token_bitmask_par(_executor(os.getpid()), alive, mask)
        for matcher, i in alive:  # llguidance never raises; its mask means nothing after an error
            if matcher.is_error():
                self.machine.refuse_error(matcher)
                mask[i] = 0
        if vocabulary.end is not None:  # it is allowed where a text can only stop: that is undone
            word = vocabulary.end // 32
            bit = np.array([1 << vocabulary.end % 32], dtype=np.uint32).view(np.int32)[0]
            for row in np.flatnonzero(mask[:, word] & bit).tolist():
                if not self.matchers[row].is_accepting():
                    mask[row, word] &= ~bit
        return np.ascontiguousarray(mask[:, : -(-vocabulary.size // 32)])

    def advance(self, tokens: Ints) -> None:
        """Let each matcher read its row's token."""
        from llguidance.numpy import consume_token_par

        allowed = self.weights().of(tokens) > 0
        end = self.machine.vocabulary.end
        for i, matcher in enumerate(self.matchers):
            if matcher is not None and (not allowed[i] or tokens[i] == end):
                self.matchers[i] = None
        rows = [i for i, matcher in enumerate(self.matchers) if matcher is not None]
        self.mask = None
        if rows:
            pairs = [(self.matchers[i], int(tokens[i])) for i in rows]
            read = consume_token_par(_executor(os.getpid()), pairs)
            for i, well in zip(rows, read, strict=True):
                if not well:  # although the mask allowed it
                    self.machine.refuse_error(self.matchers[i])

    def put(self, rows: Ints, fresh: MatcherRows) -> None:
        """Let fresh matchers take the places of others."""
        super().put(rows, fresh)
        self.mask = None

    def keep(self, into: Ints, source: Ints, left: int) -> None:
        """Move rows `source` to the places `into`, and keep the first `left` rows."""
        if len(into) or left < len(self.matchers):
            self.mask = None
        super().keep(into, source, left)


@functools.lru_cache(maxsize=1)
def _executor(process: int) -> Any:
    """Return this process's threads; a fork does not share those of its parent."""
    from llguidance import LLExecutor

    return LLExecutor()


class LanguageFeature(Feature):
    """Whether the whole text is in all of some languages, by the tokens that it was drawn as."""

    def __init__(
        self, languages: tuple[Language, ...], tokenizer: Any = None, max_tokens: int | None = None
    ) -> None:
        name = " and ".join(language.name for language in languages)
        super().__init__(name, self._holds, batched=True, boolean=True)
        self.languages, self.tokenizer, self.max_tokens = languages, tokenizer, max_tokens
        self._matchers: list[Any] = []

    def bound(self, base: Any) -> LanguageFeature:
        """Return this feature for the texts of a base, if that has a tokenizer."""
        tokenizer = optional_attribute(base, "tokenizer")
        limit = optional_attribute(base, "max_tokens")
        if tokenizer is None or (self.tokenizer is tokenizer and self.max_tokens == limit):
            return self
        made = LanguageFeature(self.languages, tokenizer, limit)
        made.name = self.name
        return made

    def same_as(self, other: Feature) -> bool:
        """Return whether the other feature is that of the same language."""
        return isinstance(other, LanguageFeature) and self.languages == other.languages

    def _holds(self, items: Items) -> NDArray[np.bool_]:
        tokenizer = self.tokenizer or getattr(items, "tokenizer", None)
        complete = all(language.complete for language in self.languages)
        if tokenizer is None or not (complete or self.max_tokens is not None):
            lacks = "has no tokenizer" if tokenizer is None else "does not know where texts are cut"
            raise FeatureError(f"feature {self.name!r} {lacks}: use it as base * guide.feature.")
        if not self._matchers or self._matchers[0].vocabulary.tokenizer is not tokenizer:
            vocabulary = Vocabulary(tokenizer, len(tokenizer), tokenizer.eos_token_id)
            try:
                self._matchers = [language.compile(vocabulary) for language in self.languages]
            except InputError as error:
                raise FeatureError(f"feature {self.name!r} cannot be read: {error}") from error
        limit = -1 if self.max_tokens is None else self.max_tokens
        held = [
            all(matcher.holds(ids, cut=len(ids) == limit) for matcher in self._matchers)
            for ids in token_ids(items, tokenizer)
        ]
        return np.array(held, dtype=bool)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_matchers": []}
