"""Random-walk Metropolis-Hastings over tokens (appendix G, `appx:extra-localized-mcmc`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import check_count
from quasir.core.items import as_items
from quasir.core.optional import offered
from quasir.core.progress import Progress, progress_of
from quasir.core.scores import check_pair, name_of, score, show
from quasir.core.types import Array, Items, Proposal, Seed, Target
from quasir.draws.draws import Draws
from quasir.errors import InputError, ScoreError
from quasir.samplers.boost import boost_of, boosted
from quasir.samplers.describe import describe
from quasir.samplers.edits import Limits, Tokens, choose_edit, log_directions
from quasir.samplers.local_chains import LocalChains, States, choose_column, log_metropolis
from quasir.samplers.loop import check_draws, check_sizes
from quasir.samplers.results import ChainSamples
from quasir.samplers.schedule import Schedule

__all__ = ["RWMH", "Editor"]

AT_ONCE = 256
"""Chains stepped at once by default."""


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
        """Return log probabilities of every token at `positions`, where the sequences have a mask.

        The result has a row for each sequence and a column for each token of the vocabulary;
        -inf for a token that is never proposed.
        """
        ...


class RWMH:
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
    A step chooses uniformly one of the operations that the sequence's length allows; then
    uniformly one of its positions: n + 1 for an insertion into n tokens, n for a deletion or
    replacement; then, except for a deletion, a token v with the editor's probability m(v) given
    the rest. The probability of the reverse has the same factors, and the move is accepted with
    probability ``min(1, P(x') q(x|x')/(P(x) q(x'|x)))``. At the length limits fewer operations are
    legal; both probabilities take this into account. If several edits lead to the same x', each is
    balanced by its own reverse, so p is still stationary.

    The paper starts at any draw of the proposal, even if P(x) = 0, and its chains seem to have
    stayed there (37 % of RWMH-reset-1000 without "amazing"). Here chains start at P(x) > 0, and
    so P(x) > 0 for every state.

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

    def __init__(
        self,
        target: Target,
        proposal: Proposal,
        editor: Editor,
        *,
        max_tokens: int | None = None,
        min_tokens: int = 0,
        boost: Mapping[str | int, float] | None = None,
        burn_in: int = 0,
        thin: int = 1,
        reset: int | None = None,
        chains: int = 1,
    ) -> None:
        if not isinstance(editor, Editor):
            raise InputError(
                f"the editor is a {type(editor).__name__}, but must have the method "
                "log_token_probs(sequences, positions), as quasir.text.MaskedLM has."
            )
        check_pair(target, proposal)
        longest = offered(proposal, "max_tokens") if max_tokens is None else max_tokens
        if longest is None:
            raise InputError("give max_tokens: this proposal does not say how long its items are.")
        self.target, self.proposal, self.editor = target, proposal, editor
        self.limits = Limits(min_tokens, longest)
        self.boost = boost_of({} if boost is None else boost, editor)
        self.schedule = Schedule(burn_in, thin, reset)
        self.chains = check_count("chains", chains)

    def __repr__(self) -> str:
        return describe(self, **self.schedule.options, chains=self.chains)

    def sample(
        self,
        n: int,
        seed: Seed = None,
        max_proposals: int | None = None,
        batch_size: int | None = None,
        progress: Progress = None,
        starts: Draws | None = None,
    ) -> ChainSamples:
        """Return n samples.

        Parameters
        ----------
        n : int
            How many samples; the chains give them in turn.
        seed : int, numpy Generator or None
        max_proposals : int, optional
            The budget of steps, including the draws that were tried as starts.
        batch_size : int, optional
            How many chains are stepped at once; it does not change the samples.
        progress : bool or callable
        starts : Draws, optional
            Stored draws of the proposal: chain c starts at the c-th of them with P(x) > 0, and
            nothing is drawn from the proposal.

        Raises
        ------
        BudgetExceeded
            If the budget was used up; its ``samples`` holds those found.
        """
        n = check_sizes(n, max_proposals, batch_size)
        if starts is not None:
            check_draws(starts)
        local = LocalChains(
            target=self.target,
            proposal=self.proposal,
            kernel=self.step,
            uniforms=4,
            starts=self.starts,
            schedule=self.schedule,
            chains=self.chains,
            stored=starts,
        )
        report = progress_of(progress, "found")
        return local.run(n, seed, self._decode, batch_size or AT_ONCE, max_proposals, report)

    def starts(self, items: Items) -> tuple[list[Tokens], Array]:
        """Return items as sequences, and their log P; -inf where the length is not allowed."""
        encode = offered(self.editor, "encode")
        every = encode(items) if encode else [_tokens(item) for item in items]
        lengths = np.array([len(tokens) for tokens in every])
        fitting = np.flatnonzero(
            (lengths >= self.limits.shortest) & (lengths <= self.limits.longest)
        )
        log_p = np.full(len(every), -np.inf)
        if len(fitting):
            log_p[fitting] = score(self.target, self._decode([every[i] for i in fitting]))
        return every, log_p

    def step(
        self, states: States, log_p: Array, uniforms: Array
    ) -> tuple[list[Tokens], Array, NDArray[np.bool_]]:
        """Make one step of each chain; its 4 uniforms: operation, position, token, acceptance."""
        edits = [
            choose_edit(len(x), self.limits, u[0], u[1])
            for x, u in zip(states, uniforms, strict=True)
        ]
        masked = [edit.masked(x) for x, edit in zip(states, edits, strict=True)]
        probs = self.token_probs(masked, np.array([edit.position for edit in edits]))
        with np.errstate(divide="ignore"):
            log_probs = np.log(probs)
        tokens = choose_column(probs, uniforms[:, 2])
        candidates, forward, backward = [], np.empty(len(edits)), np.empty(len(edits))
        for i, (x, edit) in enumerate(zip(states, edits, strict=True)):
            candidates.append(edit.applied(x, int(tokens[i])))
            forward[i], backward[i] = log_directions(
                x, edit, int(tokens[i]), log_probs[i], self.limits
            )
        log_p_new = np.full(len(edits), -np.inf)
        asked = [
            i
            for i, (x, y) in enumerate(zip(states, candidates, strict=True))
            if x != y and backward[i] > -np.inf
        ]
        if asked:
            log_p_new[asked] = score(self.target, self._decode([candidates[i] for i in asked]))
        moved = np.log1p(-uniforms[:, 3]) <= log_metropolis(log_p, log_p_new, forward, backward)
        kept = [y if m else x for x, y, m in zip(states, candidates, moved, strict=True)]
        return kept, np.where(moved, log_p_new, log_p), moved

    def token_probs(self, masked: Sequence[Tokens], positions: NDArray[np.intp]) -> Array:
        """Return the probability of every token at the masks, with the boost."""
        log_probs = np.asarray(self.editor.log_token_probs(masked, positions), dtype=np.float64)
        probs = np.exp(log_probs)
        if (
            probs.ndim != 2
            or len(probs) != len(masked)
            or not np.allclose(probs.sum(axis=1), 1.0, atol=1e-3)
        ):
            raise ScoreError(
                f"{name_of(self.editor)}.log_token_probs gave shape {probs.shape} for "
                f"{len(masked)} sequences, with sums {probs.sum(axis=-1).ravel()[:3]}...: it must "
                "give a row of log probabilities for each, which sum to 1."
            )
        probs /= probs.sum(axis=1, keepdims=True)
        return boosted(probs, self.boost)

    def _decode(self, states: Sequence[Tokens]) -> Items:
        decode: Any = offered(self.editor, "decode") or as_items
        return decode(list(states))


def _tokens(item: Any) -> Tokens:
    try:
        return tuple(check_count("a token", token, least=0) for token in item)
    except TypeError as error:
        raise InputError(
            f"the proposal gives items such as {show(item)}, but an editor without encode(items) "
            "needs tuples of token ids."
        ) from error
