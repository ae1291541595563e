"""Fitting what a head has: the tokens that a constraint makes more likely, and the layers of g.

Both fits see the texts of the search that the target allows, with the weights P/q of their draws.

A token v is screened by a score test: over the places before the constraint is met, its count minus
the sum of a(v | prefix), in standard deviations of the latter. Those that stand out are boosted by
the ratio of the odds, damped.

The layers are fitted to make log E_p[P/q] small, the Renyi divergence of order 2, where q has a
share of the base. Maximum likelihood, of order 1, hardly minds the few texts with large ratios, and
these set the cost of a small TVD. Several are fitted, and the head has their mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn.functional import cross_entropy

from quasir.core.products import fixed
from quasir.core.streams import Purpose, stream
from quasir.core.types import Array
from quasir.guides.automaton import State
from quasir.guides.guide import Ints, Machine
from quasir.text.guided_scores import pass_bits, pass_weights
from quasir.text.head import Head
from quasir.text.language_model import passes, positions_at_once
from quasir.text.texts import Texts
from quasir.text.weighing import SHARE

if TYPE_CHECKING:
    from quasir.text.causal import CausalLM

STANDS_OUT, MOST_TOKENS, LEAST_COUNT = 5.0, 24, 3
"""A token is boosted if it stands out by so many standard deviations; at most so many tokens are,
and none that fewer texts have."""
DAMPED = 0.7
"""Part of each log factor that is used: in full they satisfy the constraint more often, but the
ratios of texts without these tokens become so large that a small TVD costs more."""
HIDDEN, BATCH = 64, 32
RATE, DECAY, DROPPED = 2e-3, 0.1, 0.3
MEMBERS = 3
"""Heads whose g's are averaged: on few texts each errs in its own way, and the mean errs less."""


Logs = tuple[Array, Array, Array]
"""Of some texts: the logs of their weights, of P, and of a."""


@dataclass(frozen=True, eq=False)
class Pool:
    """The tokens of some texts, and the base's states before them."""

    log_weight: Array  # of each text
    log_p: Array  # P, normalised as far as Z is known
    log_a: Array
    starts: Ints  # where each text's tokens begin, and one more
    token: Tensor
    states: Tensor  # (tokens, d), float16
    bits: Tensor
    boosted: Any  # sparse (tokens, vocabulary): the logs of a boost's factors before each token

    @classmethod
    @torch.inference_mode()
    def of(cls, lm: CausalLM, texts: Texts, state: State, machine: Machine, logs: Logs) -> Pool:
        """Make one scoring pass over the texts; `machine` is that of a boost, or of nothing."""
        parts: list[tuple[Any, ...]] = []
        for each in passes(lm, texts, lm._rows):
            boosted = sparse.csr_array((len(each.wanted), lm.vocabulary_size))
            for row, token, value, _ in pass_weights(each, machine)[0].entries:
                boosted += sparse.csr_array((np.log(value), (row, token)), shape=boosted.shape)
            owner, h = each.part[each.owner], each.states.half().cpu()
            parts.append((owner, each.wanted, h, pass_bits(each, state), boosted))
        owners, tokens, states, bits, boosts = zip(*parts, strict=True)
        joined = np.concatenate(owners)
        order = np.argsort(joined, kind="stable")
        at = torch.from_numpy(order)
        return cls(
            *logs,
            np.searchsorted(joined[order], np.arange(len(texts) + 1)),
            torch.from_numpy(np.concatenate(tokens))[at],
            torch.cat(states)[at].clone(),
            torch.from_numpy(np.concatenate(bits))[at],
            sparse.vstack(boosts, format="csr")[order],
        )

    @classmethod
    def join(cls, pools: Sequence[Pool], log_weight: Array, log_p: Array) -> Pool:
        """Join pools, with these weights and log P for all texts."""
        begins = np.cumsum([0, *(len(pool.token) for pool in pools)])
        starts = [pool.starts[:-1] + begin for pool, begin in zip(pools, begins, strict=False)]
        return cls(
            log_weight,
            log_p,
            np.concatenate([pool.log_a for pool in pools]),
            np.concatenate([*starts, begins[-1:]]),
            torch.cat([pool.token for pool in pools]),
            torch.cat([pool.states for pool in pools]),
            torch.cat([pool.bits for pool in pools]),
            sparse.vstack([pool.boosted for pool in pools], format="csr"),
        )

    def __len__(self) -> int:
        return len(self.log_weight)

    def at(self, texts: Ints) -> Tensor:
        """Return the places of the tokens of some texts."""
        sizes = self.starts[texts + 1] - self.starts[texts]
        before = np.repeat(np.cumsum(sizes) - sizes - self.starts[texts], sizes)
        return torch.from_numpy(np.arange(len(before)) - before)


def balanced(log_weight: Array, quantile: float) -> Array:
    """Return log weights, cut, that sum to the effective number of texts."""
    if not len(log_weight):
        return log_weight
    cut = np.minimum(log_weight, np.quantile(log_weight, quantile))
    ess = 2 * np.logaddexp.reduce(cut) - np.logaddexp.reduce(2 * cut)
    made: Array = cut - np.logaddexp.reduce(cut) + ess
    return made


@torch.inference_mode()
def screen_tokens(lm: CausalLM, pool: Pool, until: Sequence[int]) -> Head | None:
    """Return boosts of the tokens that stand out before the constraint is met; None without any."""
    texts = np.repeat(np.exp(pool.log_weight), np.diff(pool.starts))
    before = torch.ones(len(pool.token), dtype=torch.bool)
    if until:
        before = ~pool.bits[:, list(until)].all(dim=1)
    at = torch.nonzero(before)[:, 0]
    size = lm.vocabulary_size
    drawn, count, expected, variance = (torch.zeros(size, dtype=torch.float64) for _ in range(4))
    weight = torch.from_numpy(texts)
    kind = next(iter(lm.model.parameters())).dtype
    for some in torch.split(at, positions_at_once(size)):
        states = pool.states[some].to(lm.device, kind)
        a = lm.warp(lm._head(states)).softmax(-1).double().cpu()
        w = weight[some]
        drawn.index_add_(0, pool.token[some], torch.ones_like(w))
        count.index_add_(0, pool.token[some], w)
        expected += w @ a
        variance += w**2 @ (a * (1 - a))
    z = (count - expected) / variance.clamp(min=1e-12).sqrt()
    z[drawn < LEAST_COUNT] = 0.0
    tokens = z.topk(min(MOST_TOKENS, size)).indices
    tokens = tokens[z[tokens] > STANDS_OUT]
    if not len(tokens):
        return None
    # The likeliest factor of a token, if its probability were the same in all places.
    all_places = weight[at].sum()
    more = (count[tokens] / all_places).logit(1e-6) - (expected[tokens] / all_places).logit(1e-6)
    return Head(None, tokens.numpy(), DAMPED * more.numpy(), until)


def train_head(lm: CausalLM, pool: Pool, boosts: Head | None, seed: int, number: int) -> Head:
    """Return a head fitted to the pool's texts: the mean of some, each from its own beginning."""
    streams = (stream(seed, Purpose.SEARCH_TRAIN, number, i) for i in range(MEMBERS))
    return Head.mean([_train(lm, pool, boosts, random) for random in streams])


def _train(lm: CausalLM, pool: Pool, boosts: Head | None, random: np.random.Generator) -> Head:
    dropout = torch.Generator().manual_seed(int(random.integers(2**62)))
    size, first = (pool.states.shape[1], pool.bits.shape[1]), int(random.integers(2**62))
    head = Head.zero(*size, HIDDEN, first, boosts).to(lm.device)
    for x in head.layers.values():
        x.requires_grad_()
    weight = np.exp(pool.log_weight - np.logaddexp.reduce(pool.log_weight))
    output = fixed(lm.model.get_output_embeddings())
    kind = next(iter(lm.model.parameters())).dtype
    optimiser = torch.optim.AdamW(head.layers.values(), RATE, weight_decay=DECAY)

    def loss(texts: Ints) -> Tensor:
        at = pool.at(texts)
        kept = (torch.rand(len(at), HIDDEN, generator=dropout) >= DROPPED).float() / (1 - DROPPED)
        h = pool.states[at].to(lm.device).float()
        own = pool.bits[at].to(lm.device)
        made = head.shifted(h, own, kept.to(lm.device))
        logits = output(made.to(kind)).float() / lm.warp.temperature
        boosts = pool.boosted[at.numpy()].tocoo()
        place = torch.from_numpy(np.stack([boosts.row, boosts.col]).astype(np.int64)).to(lm.device)
        value = torch.from_numpy(boosts.data).to(logits)
        logits = head.boosted(logits, own).index_put_(tuple(place), value, accumulate=True)
        each = cross_entropy(logits, pool.token[at].to(lm.device), reduction="none")
        sizes = pool.starts[texts + 1] - pool.starts[texts]
        log_q = torch.stack([-some.sum() for some in torch.split(each, sizes.tolist())])
        log_p, log_a = (torch.from_numpy(x[texts]).to(log_q) for x in (pool.log_p, pool.log_a))
        mixed = torch.logaddexp(log_a + math.log(SHARE), log_q + math.log1p(-SHARE))
        return torch.logsumexp(log_p - mixed, 0)

    steps = -(-len(pool) // BATCH)
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = RATE * (1 - step / steps)
        optimiser.zero_grad()
        # Texts are drawn by their weights: so none is passed for little.
        loss(random.choice(len(pool), BATCH, p=weight)).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return head
