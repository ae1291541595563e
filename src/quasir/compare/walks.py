"""Random walks for the comparison: all runs of a rate go through the models side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from quasir.compare.measures import Measured, measure
from quasir.compare.methods import Cost
from quasir.errors import InputError
from quasir.items import take
from quasir.metrics import perplexity
from quasir.progress import Progress
from quasir.samplers import RWMH
from quasir.samplers.rwmh import Editor
from quasir.target import Product
from quasir.typing import Proposal

if TYPE_CHECKING:
    from quasir.text import MaskedLM

__all__ = ["Walks", "editor_for"]


class Walks:
    """Runs `RWMH` and measures what it gives.

    Parameters
    ----------
    target : Product
        On a language model as base.
    proposal : Proposal
        Where chains start; the starts are fresh draws, not those of the pool.
    editor : Editor
    max_tokens : int
        Of a text.
    progress : bool or callable

    Notes
    -----
    Runs are independent, and so are chains of one call with generators of their own: run k is
    chain k, or, where each sample has a chain, the chains k, k + runs, ... A network is asked about
    all of them at once.
    """

    def __init__(
        self,
        target: Product,
        proposal: Proposal,
        editor: Editor,
        max_tokens: int,
        progress: Progress = False,
    ) -> None:
        self.target, self.proposal, self.editor = target, proposal, editor
        self.max_tokens, self.progress = max_tokens, progress

    def __call__(self, name: str, cost: Cost, n: int, runs: int, seed: int) -> list[Measured]:
        """Return what was measured on n samples of each run."""
        reset = name == "rwmh-reset"
        sampler = RWMH(
            self.target,
            self.proposal,
            self.editor,
            max_tokens=self.max_tokens,
            burn_in=0 if reset else cost.burn_in,
            thin=1 if reset else cost.steps,
            reset=cost.steps if reset else None,
            chains=runs,
        )
        chain = sampler.sample(n * runs, seed, progress=self.progress)
        measured = []
        for run in range(runs):
            at = np.arange(run, n * runs, runs)
            items = take(chain.items, at)
            columns = {name: column[at] for name, column in chain.features.items()}
            ppl = perplexity(items, self.target.base)
            measured.append(
                measure(items, columns, chain.proposals / runs, ppl, doubts=chain.doubts)
            )
        return measured


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
