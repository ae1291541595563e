"""Scoring a mixture of guided parts: one forward pass gives log a and log q of all of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.guides.automaton import Bits, BoostMachine, State
from quasir.guides.guide import Entries, Ints, Machine, Weights
from quasir.guides.language import Language
from quasir.guides.matcher import MatcherMachine
from quasir.guides.product import BothMachine
from quasir.guides.trie import Trie, TrieBuilder
from quasir.guides.vocabulary import Vocabulary
from quasir.text.fingerprints import find_setting
from quasir.text.guided_decoding import Compiled, first_logs, weigh
from quasir.text.language_model import Pass, passes, positions_at_once
from quasir.text.texts import Texts

if TYPE_CHECKING:
    from quasir.text.causal import CausalLM


class Steps(NamedTuple):
    """Every scored token of some texts, under one part of a mixture."""

    part: Ints  # the texts
    owner: Ints  # of each token, its text, as a place in `part`
    place: Ints  # its place in the text
    token: Ints
    log_a: Array  # log a(x_t)
    log_source: Array  # the same under the part's head; log a without one
    log_g: Array  # log g(s_t, x_t)
    log_mass: Array  # log G_t; -inf where the guide allows nothing more: from there on q is a
    atom: Ints  # the atom of a watched boost that the token belongs to; -1 if it is not boosted
    atom_mass: Array  # (tokens, atoms): of the tokens of each atom; it is a part of G_t

    def guided(self) -> NDArray[np.bool_]:
        """Return which tokens were drawn while the guide still allowed some."""
        stuck = np.zeros((len(self.part), int(self.place.max(initial=0)) + 1), dtype=bool)
        stuck[self.owner, self.place] = self.log_mass == -np.inf
        free: NDArray[np.bool_] = np.logical_or.accumulate(stuck, axis=1)
        return ~free[self.owner, self.place]

    def log_q(self) -> Array:
        """Return log q of every token."""
        with np.errstate(invalid="ignore"):
            log_q = self.log_source + self.log_g - self.log_mass
        own: Array = np.where(self.guided(), log_q, self.log_a)
        return own


def score_guided(
    lm: CausalLM, texts: Texts, parts: list[Compiled], state: State
) -> tuple[Array, Array]:
    """Return log a of every text, and log q under every part; -inf where it cannot be drawn."""
    log_a, log_each = np.full(len(texts), -np.inf), np.full((len(parts), len(texts)), -np.inf)
    # The first normaliser is the ceiling of a mask: the first token is scored as it is drawn.
    h = lm._prompt().states[0]
    logits = lm.warp(lm._head(h[None]))[0]
    first = [first_logs(lm, part, state, logits, h) for part in parts]
    first_a = logits.double().log_softmax(0).cpu().numpy()
    for steps in guided_steps(lm, texts, parts, state):
        for j, (one, (first_q, _)) in enumerate(zip(steps, first, strict=True)):
            at_first, n = one.place == 0, len(one.part)
            each_a = np.where(at_first, first_a[one.token], one.log_a)
            each = np.where(at_first, first_q.cpu().numpy()[one.token], one.log_q())
            log_a[one.part] = np.bincount(one.owner, each_a, minlength=n)
            log_each[j, one.part] = np.bincount(one.owner, each, minlength=n)
    return log_a, log_each


def guided_steps(
    lm: CausalLM,
    texts: Texts,
    parts: list[Compiled],
    state: State,
    watched: BoostMachine | None = None,
) -> Iterator[list[Steps]]:
    """Yield every token of the texts with its scores under every part, some texts at a time."""
    for each in passes(lm, texts, lm._rows):
        walked = [pass_weights(each, part.machine) for part in parts]
        bits = pass_bits(each, state)
        size, step = len(each.wanted), positions_at_once(lm.vocabulary_size)
        entries, atom = Weights(None, ()), np.full(size, -1)
        if watched is not None:
            entries, _ = pass_weights(each, watched)
        for row, token, _, number in entries.entries:
            own = each.wanted[row] == token
            atom[row[own]] = number[own]
        atom_mass = np.zeros((size, 0 if watched is None else len(watched.atoms)))
        log_a = np.empty(size)
        log_source, log_mass = np.empty((len(parts), size)), np.empty((len(parts), size))
        tokens = torch.from_numpy(each.wanted).to(lm.device)
        for start in range(0, size, step):
            at = slice(start, min(start + step, size))
            logits = lm.warp(lm._head(each.states[at]))
            below = logits.sub_(logits.amax(dim=-1, keepdim=True))
            mass = below.exp()
            log_total = mass.sum(dim=-1).double().log()
            log_a[at] = (below.gather(1, tokens[at, None])[:, 0].double() - log_total).cpu().numpy()
            for j, part in enumerate(parts):
                now = _slice(walked[j][0], at)
                seen = weigh(lm, part, below, mass, each.states[at], bits[at], now)
                log_norm = 0.0 if part.head is not None else log_total
                chosen = seen.source.gather(1, tokens[at, None])[:, 0].double()
                log_source[j, at] = (chosen - log_norm).cpu().numpy()
                log_mass[j, at] = (seen.log_mass - log_norm).cpu().numpy()
                for row, token, _, number in _slice(entries, at).entries if j == 0 else ():
                    share = seen.weighted.cpu().numpy()[row, token]
                    share = share / np.exp(log_total.cpu().numpy())[row]
                    np.add.at(atom_mass[at], (row, number), share)
        yield [
            Steps(
                *each[:4],
                log_a,
                log_source[j],
                walked[j][1],
                np.minimum(log_mass[j], 0.0) if part.below_one else log_mass[j],
                atom,
                atom_mass,
            )
            for j, part in enumerate(parts)
        ]


def pass_bits(each: Pass, state: State) -> Bits:
    """Return the state before every token of a pass."""
    bits = np.zeros((len(each.wanted), state.bits), dtype=bool)
    for rows, at, tokens in walk(each, state) if state.bits else ():
        bits[at] = rows.bits
        rows.advance(tokens)
    return bits


def walk(each: Pass, machine: Any) -> Iterator[tuple[Any, Ints, Ints]]:
    """Yield the rows of a machine at every place, the tokens' numbers there, and the tokens."""
    counts = np.bincount(each.owner, minlength=len(each.part))
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    none = np.zeros(0, dtype=np.int64)
    rows = machine.begin(len(each.part))
    for place in range(int(counts.max(initial=0))):
        # Longer texts come first.
        left = int((counts > place).sum())
        rows.keep(none, none, left)
        at = starts[:left] + place
        yield rows, at, each.wanted[at]


def pass_weights(each: Pass, machine: Machine) -> tuple[Weights, Array]:
    """Return the guide's weights, a row for each token, and log g of the tokens themselves."""
    weight = np.empty(len(each.wanted))
    masks: list[tuple[Ints, NDArray[np.int32]]] = []
    parts: list[list[Entries]] = []
    for rows, at, tokens in walk(each, machine):
        now = rows.weights()
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
        return Weights(mask, tuple(map(_join, zip(*parts, strict=True)))), np.log(weight)


def _join(parts: tuple[Entries, ...]) -> Entries:
    """Join the entries of all places, by row."""
    joined = Entries(*map(np.concatenate, zip(*parts, strict=True)))
    return joined.at(np.argsort(joined.row, kind="stable"))


def _slice(weights: Weights, at: slice) -> Weights:
    mask = None if weights.mask is None else weights.mask[at]
    entries = []
    for part in weights.entries:
        low, high = np.searchsorted(part.row, [at.start, at.stop])
        some = part.at(slice(low, high))
        entries.append(some._replace(row=some.row - at.start))
    return Weights(mask, tuple(entries))


@torch.inference_mode()
def grow_trie(
    lm: CausalLM, vocabulary: Vocabulary, languages: list[Language], texts: Texts, trie: Trie | None
) -> Trie:
    """Return the trie of what was known before and of what these texts show."""
    matchers = [MatcherMachine(language, vocabulary) for language in languages]
    builder = TrieBuilder(trie)
    distinct = sorted(set(texts.tuples()))
    part = Compiled(BothMachine(matchers), below_one=True)
    new = Texts.of(distinct, texts.tokenizer)
    for (steps,) in guided_steps(lm, new, [part], State([], vocabulary)):
        starts = np.searchsorted(steps.owner, np.arange(len(steps.part) + 1))
        probability, mass = np.exp(steps.log_a), np.exp(steps.log_mass)
        for text, (first, stop) in zip(steps.part, pairwise(starts.tolist()), strict=True):
            node = builder.visit(-1, -1, 1.0, float(mass[first]), cut=False)
            for at in range(first, stop):
                token, cut = int(steps.token[at]), at + 1 == stop
                if token == lm.end or steps.log_g[at] == -np.inf:
                    break  # the text ends here, or leaves the language
                if cut:
                    left = float(all(m.holds(list(distinct[text]), cut=True) for m in matchers))
                else:
                    left = float(mass[at + 1])
                node = builder.visit(node, token, float(probability[at]), left, cut=cut)
    return builder.freeze(find_setting(lm, languages))
