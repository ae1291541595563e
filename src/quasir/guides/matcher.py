"""Masks by llguidance: a matcher for each row of a batch.

llguidance never raises: a matcher that hits a limit goes into an error state, in which its mask
means nothing. So its state is asked for after every mask. Its mask also allows the end token where
a text can only stop, although it is not whole: that bit is taken back here.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import show
from quasir.errors import InputError
from quasir.guides.language import Language
from quasir.guides.machine import Ints, Rows, Weights, words_of
from quasir.guides.vocabulary import Vocabulary

__all__ = ["MatcherMachine"]


DEAD_END = "NoExtension"
"""The beginning of a message that is no failure: no token of the model can follow."""


class MatcherMachine:
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
            raise InputError(
                f"the guide {language!r} allows no text that this tokenizer can spell: its "
                "language is empty. Correct it."
            )

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
                f"{show(message, 300)}. Its masks mean nothing from there on: simplify the guide."
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
        """Return whether a text of these tokens is in the language.

        Parameters
        ----------
        ids : list of int
        cut : bool
            Whether the text was cut, and did not end by itself.
        """
        matcher = self.start.deep_copy()
        if matcher.try_consume_tokens(ids) < len(ids):
            self.refuse_error(matcher)
            return False
        self.refuse_error(matcher)
        return bool(matcher.is_accepting()) or (cut and not self.language.complete)


class MatcherRows:
    """A matcher for each row; None for a row that has left the language."""

    def __init__(self, machine: MatcherMachine, matchers: list[Any]) -> None:
        self.machine, self.matchers = machine, matchers
        self.mask: NDArray[np.int32] | None = None  # of the next tokens, if it is known

    def weights(self) -> Weights:
        """Return the mask of every row; a row that has left the language allows nothing."""
        if self.mask is None:
            self.mask = self._filled()
        return Weights(self.mask, ())

    def _filled(self) -> NDArray[np.int32]:
        from llguidance.numpy import fill_next_token_bitmask_par

        vocabulary = self.machine.vocabulary
        mask = np.zeros(
            (len(self.matchers), words_of(vocabulary.for_masks.vocab_size)), dtype=np.int32
        )
        alive = [(matcher, i) for i, matcher in enumerate(self.matchers) if matcher is not None]
        if alive:
            fill_next_token_bitmask_par(_executor(os.getpid()), alive, mask)
        for matcher, i in alive:
            if matcher.is_error():
                self.machine.refuse_error(matcher)
                mask[i] = 0
        if vocabulary.end is not None:
            word = vocabulary.end // 32
            bit = np.array([1 << vocabulary.end % 32], dtype=np.uint32).view(np.int32)[0]
            for row in np.flatnonzero(mask[:, word] & bit).tolist():
                if not self.matchers[row].is_accepting():
                    mask[row, word] &= ~bit
        return np.ascontiguousarray(mask[:, : words_of(vocabulary.size)])

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

    def put(self, rows: Ints, fresh: Rows) -> None:
        """Let fresh matchers take the places of others."""
        assert isinstance(fresh, MatcherRows)
        for row, matcher in zip(rows.tolist(), fresh.matchers, strict=True):
            self.matchers[row] = matcher
        self.mask = None

    def keep(self, into: Ints, source: Ints, left: int) -> None:
        """Move rows `source` to the places `into`, and keep the first `left` rows."""
        for to, origin in zip(into.tolist(), source.tolist(), strict=True):
            self.matchers[to] = self.matchers[origin]
        del self.matchers[left:]
        if len(into) or (self.mask is not None and len(self.mask) > left):
            self.mask = None


@functools.lru_cache(maxsize=1)
def _executor(process: int) -> Any:
    """Return this process's threads; a fork does not share those of its parent."""
    from llguidance import LLExecutor

    return LLExecutor()
