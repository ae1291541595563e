"""Scoring with a guide: one forward pass gives log a, the weights and the normalisers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.guides.boost_machine import BoostMachine
from quasir.guides.machine import Entries, Ints, Machine, Rows, Weights
from quasir.text.log_prob import Pass, passes, step_of
from quasir.text.texts import Texts
from quasir.text.weighing import log_sums

if TYPE_CHECKING:
    from quasir.text.causal import CausalLM

__all__ = ["Steps", "guided_steps", "text_scores"]


class Steps(NamedTuple):
    """Every scored token of some texts.

    Attributes
    ----------
    part : array of int
        The texts.
    owner, place : array of int
        Of each token, its text, as a place in `part`, and its place in the text.
    token : array of int
    log_a, log_g, log_mass : array of float
        log a(x_t), log g(s_t, x_t) and log G_t. G_t is 0 where the guide allows nothing more; from
        there on the text goes on as the model does.
    atom : array of int
        The atom of a watched boost that the token belongs to; -1 if it is not boosted.
    atom_mass : array (tokens, atoms)
        The mass of the tokens of each atom; it is a part of G_t.
    """

    part: Ints
    owner: Ints
    place: Ints
    token: Ints
    log_a: Array
    log_g: Array
    log_mass: Array
    atom: Ints
    atom_mass: Array

    def guided(self) -> NDArray[np.bool_]:
        """Return which tokens were drawn while the guide still allowed some."""
        stuck = np.zeros((len(self.part), int(self.place.max(initial=0)) + 1), dtype=bool)
        stuck[self.owner, self.place] = self.log_mass == -np.inf
        free: NDArray[np.bool_] = np.logical_or.accumulate(stuck, axis=1)
        return ~free[self.owner, self.place]


def text_scores(
    lm: CausalLM, texts: Texts, machine: Machine, below_one: bool
) -> tuple[Array, Array]:
    """Return log a and log q of every text; -inf where it cannot be drawn."""
    log_a, log_q = np.full(len(texts), -np.inf), np.full(len(texts), -np.inf)
    for steps in guided_steps(lm, texts, machine, below_one):
        n = len(steps.part)
        with np.errstate(invalid="ignore"):
            gain = np.where(steps.guided(), steps.log_g - steps.log_mass, 0.0)
        log_a[steps.part] = np.bincount(steps.owner, steps.log_a, minlength=n)
        gains = np.bincount(steps.owner, gain, minlength=n)
        log_q[steps.part] = log_a[steps.part] + gains
    return log_a, log_q


def guided_steps(
    lm: CausalLM,
    texts: Texts,
    machine: Machine,
    below_one: bool,
    watched: BoostMachine | None = None,
) -> Iterator[Steps]:
    """Yield every token of the texts with its scores, some texts at a time.

    Parameters
    ----------
    lm : CausalLM
    texts : Texts
    machine : Machine
    below_one : bool
        Whether no weight is above 1.
    watched : BoostMachine, optional
        A boost that is not applied, but whose masses are wanted.
    """
    for each in passes(texts, lm._hidden, lm.end, lm.max_tokens, lm._rows, lm.device):
        weights, log_g = _weights_of(each, machine)
        size = len(each.wanted)
        entries, atom = _watched_entries(each, watched)
        atoms = 0 if watched is None else len(watched.atoms)
        log_a, log_mass, atom_mass = np.empty(size), np.empty(size), np.zeros((size, atoms))
        tokens = torch.from_numpy(each.wanted).to(lm.device)
        step = step_of(lm.model.config.vocab_size)
        for start in range(0, size, step):
            at = slice(start, min(start + step, size))
            logits = lm.warp(lm._head(each.states[at]))
            below = logits.sub_(logits.amax(dim=-1, keepdim=True))
            chosen = below.gather(1, tokens[at, None])[:, 0].double()
            weighed, log_total, mass = log_sums(below, _rows_of(weights, at))
            log_a[at] = (chosen - log_total).cpu().numpy()
            log_mass[at] = (mass - log_total).cpu().numpy()
            for row, token, _, number in _rows_of(entries, at).entries:
                found = weighed.cpu().numpy()[row, token] / np.exp(log_total.cpu().numpy())[row]
                np.add.at(atom_mass[at], (row, number), found)
        if below_one:
            log_mass = np.minimum(log_mass, 0.0)
        yield Steps(
            each.part,
            each.owner,
            each.place,
            each.wanted,
            log_a,
            log_g,
            log_mass,
            atom,
            atom_mass,
        )


def _watched_entries(each: Pass, watched: BoostMachine | None) -> tuple[Weights, Ints]:
    """Return the entries of a watched boost, and the atom of each token; -1 where it has none."""
    atom = np.full(len(each.wanted), -1)
    if watched is None:
        return Weights(None, ()), atom
    weights, _ = _weights_of(each, watched)
    for row, token, _, number in weights.entries:
        own = each.wanted[row] == token
        atom[row[own]] = number[own]
    return weights, atom


def _weights_of(each: Pass, machine: Machine) -> tuple[Weights, Array]:
    """Return the guide's weights, a row for each token, and log g of the tokens themselves."""
    counts = np.bincount(each.owner, minlength=len(each.part))
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    none = np.zeros(0, dtype=np.int64)
    weight = np.empty(len(each.wanted))
    masks: list[tuple[Ints, NDArray[np.int32]]] = []
    parts: list[list[Entries]] = []
    rows: Rows = machine.begin(len(each.part))
    for place in range(int(counts.max(initial=0))):
        # Longer texts come first.
        left = int((counts > place).sum())
        rows.keep(none, none, left)
        at = starts[:left] + place
        now, tokens = rows.weights(), each.wanted[at]
        weight[at] = now.of(tokens)
        if now.mask is not None:
            masks.append((at, now.mask))
        parts.append([entries._replace(row=at[entries.row]) for entries in now.entries])
        rows.advance(tokens)
    mask = None
    if masks:
        mask = np.empty((len(weight), masks[0][1].shape[1]), dtype=np.int32)
        for at, some in masks:
            mask[at] = some
    with np.errstate(divide="ignore"):
        return Weights(mask, tuple(map(_sorted, zip(*parts, strict=True)))), np.log(weight)


def _sorted(parts: tuple[Entries, ...]) -> Entries:
    """Join the entries of all places, by row."""
    joined = Entries(*map(np.concatenate, zip(*parts, strict=True)))
    order = np.argsort(joined.row, kind="stable")
    return joined.at(order)


def _rows_of(weights: Weights, at: slice) -> Weights:
    mask = None if weights.mask is None else weights.mask[at]
    entries = []
    for part in weights.entries:
        low, high = np.searchsorted(part.row, [at.start, at.stop])
        some = part.at(slice(low, high))
        entries.append(some._replace(row=some.row - at.start))
    return Weights(mask, tuple(entries))
