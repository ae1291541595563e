"""Random-walk Metropolis-Hastings over tokens (appendix G, `appx:extra-localized-mcmc`).

An edit and its reverse mask the same place of the same sequence: one pass of the masked model gives
the probabilities of both directions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import check_count, number
from quasir.core.formatting import short_repr
from quasir.core.items import as_items
from quasir.core.scores import name_of, score
from quasir.core.types import Array, Items, optional_attribute
from quasir.errors import InputError, ScoreError
from quasir.samplers.local_chains import LocalSampler, Move, States, choose_column

__all__ = ["RWMH", "Editor"]

Tokens: TypeAlias = tuple[int, ...]
Operation: TypeAlias = Literal["insert", "delete", "replace"]

MASK = -1  # the token id of the masked position
REVERSE: dict[Operation, Operation] = {"insert": "delete", "delete": "insert"}


@runtime_checkable
class Editor(Protocol):
    """A source of tokens for a masked position, such as `quasir.text.MaskedLM`.

    It may also have ``encode(items)``, from the proposal's items to token sequences, and
    ``decode(sequences)`` back; without them, items are tuples of token ids. With ``token_id(word)``
    words can be boosted.

    Examples
    --------
    >>> class Letters:
    ...     def log_token_probs(self, sequences, positions):
    ...         return np.log(np.full((len(sequences), 2), 0.5))
    >>> isinstance(Letters(), Editor)
    True
    """

    def log_token_probs(self, sequences: Sequence[Tokens], positions: NDArray[np.intp]) -> Array:
        """Return a row for each sequence: the log probability of every token at its mask."""
        ...


@dataclass(eq=False, repr=False)
class RWMH(LocalSampler):
    """Chains over token sequences that insert, delete or replace one token at a time.

    Parameters
    ----------
    target : Target
        P.
    proposal : Proposal
        The global proposal; chain c starts at its c-th draw with P(x) > 0.
    editor : Editor
        The source of new tokens.
    max_tokens, min_tokens : int
        The longest and shortest allowed sequence; by default the proposal's ``max_tokens``, and 0.
    boost : mapping, optional
        Word or token id -> extra probability of proposing it, besides the editor's own:
        ``{"amazing": 0.01}`` mixes the editor, times 0.99, with a point mass on "amazing".
    burn_in, thin, reset
        See `IMH`; with a reset, each sample has its own chain and start.
    chains : int
        Without a reset: how many chains run side by side and give the samples in turn.

    Notes
    -----
    A step chooses uniformly one of the operations that the sequence's length allows, then one of
    its positions, then, except for a deletion, a token with the editor's probability. Each edit is
    balanced by its own reverse: ``min(1, P(x') q(x|x')/(P(x) q(x'|x)))``.

    The paper starts at any draw of the proposal, even if P(x) = 0, and its chains seem to have
    stayed there (37 % of RWMH-reset-1000 without "amazing"). Here chains start at P(x) > 0.

    Examples
    --------
    >>> import quasir as qr
    >>> class Uniform:
    ...     def log_token_probs(self, sequences, positions):
    ...         return np.full((len(sequences), 2), -np.log(2))
    >>> proposal = qr.Table({(0,): 1, (1, 1): 1, (0, 1): 1})
    >>> def target(items):
    ...     return np.array([sum(item) for item in items])
    >>> chain = qr.RWMH(target, proposal, Uniform(), max_tokens=3).sample(100, seed=0)
    >>> max(len(item) for item in chain.items)
    3
    """

    editor: Editor
    _: KW_ONLY
    max_tokens: int | None = None
    min_tokens: int = 0
    boost: Mapping[str | int, float] | None = None
    uniforms: ClassVar[int] = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.editor, Editor):
            raise InputError(f"{short_repr(self.editor)} has no log_token_probs: no editor.")
        if self.max_tokens is None:
            self.max_tokens = optional_attribute(self.proposal, "max_tokens")
        if self.max_tokens is None:
            raise InputError("give max_tokens: this proposal does not say how long its items are.")
        shortest = check_count("min_tokens", self.min_tokens, least=0)
        self.limits = Limits(shortest, check_count("max_tokens", self.max_tokens))
        if shortest > self.max_tokens:
            raise InputError(f"min_tokens is {shortest}, above max_tokens {self.max_tokens}.")
        self.boosts: dict[int, float] = {}
        if self.boost is not None and not isinstance(self.boost, Mapping):
            raise InputError(f"boost is {short_repr(self.boost)}, but must be a dictionary.")
        for word, weight in (self.boost or {}).items():
            token, value = self._token(word), number(f"the boost of {short_repr(word)}", weight)
            self.boosts[token] = self.boosts.get(token, 0.0) + value
            if not value > 0 or sum(self.boosts.values()) >= 1:
                raise InputError(f"boosts are above 0 and sum to less than 1, not {self.boost}.")

    def _token(self, word: str | int) -> int:
        if not isinstance(word, str):
            return check_count("the id of a boosted token", word, least=0)
        if (token_id := optional_attribute(self.editor, "token_id")) is None:
            raise InputError(f"this editor has no token_id: boost {short_repr(word)} by its id.")
        return int(token_id(word))

    def starts(self, items: Items) -> tuple[list[Tokens], Array]:
        """Return items as sequences, and their log P; -inf where the length is not allowed."""
        encode = optional_attribute(self.editor, "encode")
        try:
            every = encode(items) if encode else [tuple(map(int, item)) for item in items]
        except (TypeError, ValueError) as error:
            raise InputError(
                f"the proposal gives items such as {short_repr(items[0])}, but an editor without "
                "encode(items) needs tuples of token ids."
            ) from error
        low, high = self.limits
        fitting = [i for i, tokens in enumerate(every) if low <= len(tokens) <= high]
        log_p = np.full(len(every), -np.inf)
        if fitting:
            log_p[fitting] = score(self.target, self.decode([every[i] for i in fitting]))
        return every, log_p

    def propose(self, states: States, uniforms: Array) -> Move:
        """Edit each sequence; its uniforms choose the operation, the position and the token."""
        edits = [
            choose_edit(len(x), self.limits, u[0], u[1])
            for x, u in zip(states, uniforms, strict=True)
        ]
        masked = [edit.masked(x) for x, edit in zip(states, edits, strict=True)]
        probs = self.token_probs(masked, np.array([edit.position for edit in edits]))
        with np.errstate(divide="ignore"):
            log_probs = np.log(probs)
        tokens = choose_column(probs, uniforms[:, 2]).tolist()
        new, forward, backward = [], np.empty(len(edits)), np.empty(len(edits))
        for i, (x, edit, token) in enumerate(zip(states, edits, tokens, strict=True)):
            new.append(edit.applied(x, token))
            forward[i], backward[i] = log_directions(x, edit, token, log_probs[i], self.limits)
        changed = np.array([x != y for x, y in zip(states, new, strict=True)])
        return new, changed, forward, backward

    def token_probs(self, masked: Sequence[Tokens], positions: NDArray[np.intp]) -> Array:
        """Return the probability of every token at the masks, with the boost."""
        log_probs = np.asarray(self.editor.log_token_probs(masked, positions), dtype=np.float64)
        probs = np.exp(log_probs)
        rows = probs.ndim == 2 and len(probs) == len(masked)
        if not rows or not np.allclose(probs.sum(axis=1), 1.0, atol=1e-3):
            raise ScoreError(
                f"{name_of(self.editor)}.log_token_probs gave shape {probs.shape} for "
                f"{len(masked)} sequences: it must give a row for each, whose exp sum to 1."
            )
        probs /= probs.sum(axis=1, keepdims=True)
        if max(self.boosts, default=0) >= probs.shape[1]:
            raise InputError(
                f"token {max(self.boosts)} is boosted, but the editor has {probs.shape[1]} tokens."
            )
        probs *= 1.0 - sum(self.boosts.values())
        for token, weight in self.boosts.items():
            probs[:, token] += weight
        return probs

    def decode(self, states: Sequence[Tokens]) -> Items:
        """Return sequences as the items that the editor makes of them."""
        decode: Any = optional_attribute(self.editor, "decode") or as_items
        return decode(list(states))


class Limits(NamedTuple):
    shortest: int
    longest: int

    def legal(self, length: int) -> tuple[Operation, ...]:
        allowed: dict[Operation, bool] = {
            "insert": length < self.longest,
            "delete": length > self.shortest,
            "replace": length > 0,
        }
        return tuple(operation for operation, legal in allowed.items() if legal)


class Edit(NamedTuple):
    """An operation and its position; an insertion at i puts the token before position i."""

    operation: Operation
    position: int

    @property
    def reverse(self) -> Edit:
        return Edit(REVERSE.get(self.operation, self.operation), self.position)

    def masked(self, tokens: Tokens) -> Tokens:
        i = self.position
        return (*tokens[:i], MASK, *tokens[i + (self.operation != "insert") :])

    def applied(self, tokens: Tokens, token: int) -> Tokens:
        """Return the edited sequence; a deletion ignores the token."""
        i, middle = self.position, () if self.operation == "delete" else (token,)
        return (*tokens[:i], *middle, *tokens[i + (self.operation != "insert") :])

    def log_prob(self, length: int, limits: Limits) -> float:
        """Return the log probability of choosing this edit: an operation, then a position."""
        legal = limits.legal(length)
        if self.operation not in legal:
            return -math.inf
        return -math.log(len(legal)) - math.log(positions(self.operation, length))


def positions(operation: Operation, length: int) -> int:
    return length + 1 if operation == "insert" else length


def choose_edit(length: int, limits: Limits, u_operation: float, u_position: float) -> Edit:
    legal = limits.legal(length)
    operation = legal[int(u_operation * len(legal))]
    return Edit(operation, int(u_position * positions(operation, length)))


def log_directions(
    tokens: Tokens, edit: Edit, token: int, log_probs: Array, limits: Limits
) -> tuple[float, float]:
    """Return the log probabilities of the edit and of its reverse, given those at the mask."""
    forward = edit.log_prob(len(tokens), limits)
    backward = edit.reverse.log_prob(len(edit.applied(tokens, token)), limits)
    if edit.operation != "delete":
        forward += float(log_probs[token])
    if edit.operation != "insert":
        backward += float(log_probs[tokens[edit.position]])
    return forward, backward
