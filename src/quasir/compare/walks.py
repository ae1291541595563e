"""Random walks for the comparison: the models compute all runs of a rate in one batch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from quasir.compare.measures import Measured, measure
from quasir.compare.methods import Cost
from quasir.core.items import TokenTexts, take
from quasir.core.optional import offered
from quasir.core.progress import Report
from quasir.core.types import Items, Proposal
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.metrics import perplexity
from quasir.proposals.mixture import Mixture
from quasir.samplers import RWMH
from quasir.samplers.rwmh import Editor
from quasir.targets.product import Product

if TYPE_CHECKING:
    from quasir.text import MaskedLM

__all__ = ["Walks", "editor_for"]


class Walks:
    """Runs `RWMH` from stored draws, and measures its samples.

    Parameters
    ----------
    target : Product
        With a language model as base.
    proposal : Proposal
        The proposal of the stored draws that the chains start at.
    editor : Editor
    max_tokens : int
        Longest text, in the editor's tokens.

    Notes
    -----
    Runs are independent: each chain of one call has its own generator. Run k is chain k or, where
    each sample has its own chain, the chains k, k + runs, ... The networks score all of them at
    once. The chains of run k start at the first draws with P(x) > 0 of its own stretch of the
    pool. Where tokenizers differ, a draw that the editor's tokens cannot express is skipped.
    """

    def __init__(
        self, target: Product, proposal: Proposal, editor: Editor, max_tokens: int
    ) -> None:
        self.target, self.proposal, self.editor = target, proposal, editor
        self.max_tokens = max_tokens

    def __call__(
        self,
        *,
        name: str,
        cost: Cost,
        n: int,
        seed: int,
        stretches: list[Draws],
        report: Report,
    ) -> tuple[int, list[Measured]]:
        """Return how many samples each run gave, and what was measured on them."""
        runs, reset = len(stretches), name == "rwmh-reset"
        sampler = RWMH(
            self.target,
            self.proposal,
            self.editor,
            max_tokens=self.max_tokens,
            burn_in=0 if reset else cost.burn_in,
            thin=1 if reset else cost.steps,
            reset=cost.chain if reset else None,
            chains=runs,
        )
        stretches = [self._as_texts(stretch) for stretch in stretches]
        places = [_starts(sampler, stretch, n if reset else 1) for stretch in stretches]
        fewest = min(map(len, places))
        if not fewest:
            raise InputError(
                f"{name} has no start: in some run, no text keeps P(x) > 0 when written as at most "
                f"{self.max_tokens} tokens of the editor. Name another --editor, or draw more."
            )
        n = min(n, fewest) if reset else n
        each = n if reset else 1
        starts = Draws.concatenate(
            [stretch.take(at[:each]) for stretch, at in zip(stretches, places, strict=True)]
        )
        in_turn = np.arange(runs * each).reshape(runs, each).T.ravel()
        chain = sampler.sample(n * runs, seed, progress=report, starts=starts.take(in_turn))
        measured = []
        for run in range(runs):
            at = np.arange(run, n * runs, runs)
            items = take(chain.items, at)
            columns = {name: column[at] for name, column in chain.features.items()}
            drawn = int(places[run][each - 1]) + 1
            measured.append(
                measure(
                    items,
                    columns,
                    proposals=drawn + chain.steps / runs,
                    ppl=perplexity(items, self.target.base),
                    doubts=chain.doubts,
                )
            )
        return n, measured

    def _as_texts(self, stretch: Draws) -> Draws:
        """Return the draws with texts that hold their tokenizer."""
        return replace(stretch, items=_texts(stretch.items, self.proposal))


def _starts(sampler: RWMH, stretch: Draws, wanted: int) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Return the indices of the first draws that a chain can start at."""
    possible = np.flatnonzero(stretch.log_p > -np.inf)
    found: list[int] = []
    while len(possible) and len(found) < wanted:
        places, possible = np.split(possible, [min(wanted - len(found), len(possible))])
        _, log_p = sampler.starts(take(stretch.items, places))
        found += places[log_p > -np.inf].tolist()
    return np.array(found, np.intp)


def _texts(items: Items, proposal: Any) -> Items:
    """Return stored texts with the tokenizer of their ids, or as plain strings."""
    if not isinstance(items, TokenTexts):
        return items
    from quasir.text import Texts

    while isinstance(proposal, Mixture):
        proposal = proposal.components[0]
    tokenizer = offered(proposal, "tokenizer")
    if tokenizer is None:
        return items.strings
    return Texts(items.ids, items.offsets, tokenizer)


def editor_for(masked: MaskedLM, base: object) -> tuple[MaskedLM, bool]:
    """Return a masked model as the editor of a base's texts, and whether both share their tokens.

    Where the tokens differ, the chain is over the masked model's tokens, and the base scores the
    text.
    """
    from quasir.text import MaskedLM

    try:
        shared = MaskedLM(model=masked.model, tokenizer=masked.tokenizer, base=base)
    except InputError:
        return masked, False
    shared.name = masked.name
    return shared, True
