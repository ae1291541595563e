"""Random walks for the comparison: all runs of a rate go through the models side by side."""

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
    """Runs `RWMH` from stored draws, and measures what it gives.

    Parameters
    ----------
    target : Product
        On a language model as base.
    proposal : Proposal
        Whose draws the chains start at.
    editor : Editor
    max_tokens : int
        Of a text, as the editor counts them.

    Notes
    -----
    Runs are independent, and so are chains of one call with generators of their own: run k is
    chain k, or, where each sample has a chain, the chains k, k + runs, ... A network is asked about
    all of them at once. The chains of run k start at draws of its own stretch of the pool, the
    first with P(x) > 0; where tokenizers differ, some of these cannot be kept as the editor's
    tokens, and are passed over.
    """

    def __init__(
        self, target: Product, proposal: Proposal, editor: Editor, max_tokens: int
    ) -> None:
        self.target, self.proposal, self.editor = target, proposal, editor
        self.max_tokens = max_tokens

    def __call__(
        self,
        name: str,
        cost: Cost,
        n: int,
        seed: int,
        stretches: list[Draws],
        report: Report,
    ) -> tuple[int, list[Measured]]:
        """Return how many samples each run has, and what was measured on them."""
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
                f"{name} has no start: no text of a stretch with P(x) > 0 still has it as at most "
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
                    drawn + chain.steps / runs,
                    perplexity(items, self.target.base),
                    doubts=chain.doubts,
                )
            )
        return n, measured

    def _as_texts(self, stretch: Draws) -> Draws:
        """Return draws whose texts know the tokenizer of their ids."""
        return replace(stretch, items=_texts(stretch.items, self.proposal))


def _starts(sampler: RWMH, stretch: Draws, wanted: int) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Return where the first draws stand that a chain can start at."""
    possible = np.flatnonzero(stretch.log_p > -np.inf)
    found: list[int] = []
    while len(possible) and len(found) < wanted:
        places, possible = np.split(possible, [min(wanted - len(found), len(possible))])
        _, log_p = sampler.starts(take(stretch.items, places))
        found += places[log_p > -np.inf].tolist()
    return np.array(found, np.intp)


def _texts(items: Items, proposal: Any) -> Items:
    """Return stored texts with the tokenizer that their ids are of, or as plain strings."""
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
    """Return a masked model as the editor of a base's texts, and whether of its own token ids.

    Where their tokens differ, the chain is over the masked model's, and the base scores the text.
    """
    from quasir.text import MaskedLM

    try:
        shared = MaskedLM(model=masked.model, tokenizer=masked.tokenizer, base=base)
    except InputError:
        return masked, False
    shared.name = masked.name
    return shared, True
