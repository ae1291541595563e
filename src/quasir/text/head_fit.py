"""Fitting what a head has: the tokens that a constraint makes more likely, and the layers of g.

Both fits see the texts of the search that the target allows, with the weights P/q of their draws.

A token v is screened by a score test: over the places before the constraint is met, its count minus
the sum of a(v | prefix), in standard deviations of the latter. The factors of those that stand out
are where the likelihood is largest, found by Newton's method, since it is concave in their logs.

The layers are fitted by weighted maximum likelihood, stopped on texts that are held out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from quasir.core.streams import Purpose, stream
from quasir.core.types import Array
from quasir.guides.automaton import State
from quasir.guides.guide import Ints, Machine
from quasir.text.guided_scores import pass_bits, pass_weights
from quasir.text.head import Head
from quasir.text.language_model import passes, positions_at_once
from quasir.text.texts import Texts

if TYPE_CHECKING:
    from quasir.text.causal import CausalLM

CUT = 0.995
"""Quantile at which weights are cut: a few texts that q hardly ever draws must not decide."""
STANDS_OUT, MOST_TOKENS, LEAST_COUNT = 5.0, 24, 3
"""A token is boosted if it stands out by so many standard deviations; at most so many tokens are,
and none that fewer texts have."""
DAMPED = 0.7
"""Part of each log factor that is used: in full they satisfy the constraint more often, but the
ratios of texts without these tokens become so large that a small TVD costs more."""
PLACES = 40_000  # places that factors are fitted on, at most
HELD_OUT, BATCH, EPOCHS, PATIENCE = 0.1, 64, 3, 1
RATE, DECAY, DROPPED = 1e-3, 0.1, 0.1
SKIPPED = 0.5  # of the places of a batch, chosen anew each time: they cost most of the time


@dataclass(frozen=True, eq=False)
class Pool:
    """The tokens of some texts, and the base's states before them."""

    log_weight: Array  # of each text
    starts: Ints  # where each text's tokens begin, and one more
    token: Tensor
    states: Tensor  # (tokens, d), float16
    bits: Tensor
    boosted: Any  # sparse (tokens, vocabulary): the logs of a boost's factors before each token

    @classmethod
    @torch.inference_mode()
    def of(
        cls, lm: CausalLM, texts: Texts, state: State, machine: Machine, log_weight: Array
    ) -> Pool:
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
            log_weight,
            np.searchsorted(joined[order], np.arange(len(texts) + 1)),
            torch.from_numpy(np.concatenate(tokens))[at],
            torch.cat(states)[at].clone(),
            torch.from_numpy(np.concatenate(bits))[at],
            sparse.vstack(boosts, format="csr")[order],
        )

    @classmethod
    def join(cls, pools: Sequence[Pool], log_weight: Array) -> Pool:
        """Join pools, with these weights for all texts."""
        begins = np.cumsum([0, *(len(pool.token) for pool in pools)])
        starts = [pool.starts[:-1] + begin for pool, begin in zip(pools, begins, strict=False)]
        return cls(
            log_weight,
            np.concatenate([*starts, begins[-1:]]),
            torch.cat([pool.token for pool in pools]),
            torch.cat([pool.states for pool in pools]),
            torch.cat([pool.bits for pool in pools]),
            sparse.vstack([pool.boosted for pool in pools], format="csr"),
        )

    def __len__(self) -> int:
        return len(self.log_weight)

    def at(self, texts: Ints) -> tuple[Tensor, Tensor]:
        """Return the tokens of some texts, and which of the texts each belongs to."""
        sizes = self.starts[texts + 1] - self.starts[texts]
        owner = np.repeat(np.arange(len(texts)), sizes)
        before = np.repeat(np.cumsum(sizes) - sizes - self.starts[texts], sizes)
        return torch.from_numpy(np.arange(len(owner)) - before), torch.from_numpy(owner)


def balanced(log_weight: Array) -> Array:
    """Return log weights, cut, that sum to the effective number of texts."""
    if not len(log_weight):
        return log_weight
    cut = np.minimum(log_weight, np.quantile(log_weight, CUT))
    ess = 2 * np.logaddexp.reduce(cut) - np.logaddexp.reduce(2 * cut)
    made: Array = cut - np.logaddexp.reduce(cut) + ess
    return made


def _chunks(lm: CausalLM, at: Tensor) -> Iterator[Tensor]:
    yield from torch.split(at, positions_at_once(lm.vocabulary_size))


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
    for some in _chunks(lm, at):
        a = _probabilities(lm, pool, some)
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
    some = at[:: -(-len(at) // PLACES)]
    a = torch.cat([_probabilities(lm, pool, part)[:, tokens] for part in _chunks(lm, some)])
    hit = (pool.token[some][:, None] == tokens).double()
    return Head(None, tokens.numpy(), DAMPED * _newton(a, hit, weight[some]).numpy(), until)


def _probabilities(lm: CausalLM, pool: Pool, at: Tensor) -> Tensor:
    states = pool.states[at].to(lm.device, next(iter(lm.model.parameters())).dtype)
    return lm.warp(lm._head(states)).softmax(-1).double().cpu()


def _newton(a: Tensor, hit: Tensor, weight: Tensor) -> Tensor:
    """Return the log factors of greatest likelihood; a prior as strong as one text holds them."""
    logs = torch.zeros(a.shape[1], dtype=torch.float64)
    for _ in range(50):
        q = a * logs.exp()
        q = q / (1 - a.sum(1) + q.sum(1))[:, None]
        slope = weight @ (hit - q) - 0.1 * logs
        mean = weight @ q
        curvature = torch.diag(mean + 0.1) - (q * weight[:, None]).T @ q
        step = torch.linalg.solve(curvature, slope).clamp(-1, 1)
        logs = logs + step
        if step.abs().max() < 1e-6:
            break
    return logs


def train_head(
    lm: CausalLM, pool: Pool, begun: Head, seed: int, number: int, epochs: int = EPOCHS
) -> Head:
    """Return a head fitted to the pool's texts, from where `begun` is; the seed decides all."""
    random = stream(seed, Purpose.SEARCH_TRAIN, number)
    order = random.permutation(len(pool))
    held, left = np.split(order, [max(1, int(HELD_OUT * len(pool)))])
    dropout = torch.Generator().manual_seed(int(random.integers(2**62)))
    weight = torch.from_numpy(np.exp(pool.log_weight - pool.log_weight.max())).float()
    weight = weight / weight.mean()
    output = lm.model.get_output_embeddings()
    layers = {name: x.clone().requires_grad_() for name, x in begun.to(lm.device).layers.items()}
    head = Head(layers, begun.tokens, begun.log_factors, begun.until).to(lm.device)
    optimiser = torch.optim.AdamW(layers.values(), RATE, weight_decay=DECAY)

    def log_q(texts: Ints, drop: bool) -> Tensor:
        at, owner = pool.at(texts)
        kept = None
        if drop:
            some = torch.rand(len(at), generator=dropout) >= SKIPPED
            at, owner = at[some], owner[some]
            size = len(at), len(layers["bias"])
            kept = (torch.rand(size, generator=dropout) >= DROPPED).float() / (1 - DROPPED)
            kept = kept.to(lm.device)
        h = pool.states[at].to(lm.device).float()
        bits = pool.bits[at].to(lm.device)
        made = head.shifted(h, bits, kept)
        logits = output(made.to(output.weight.dtype)).float() / lm.warp.temperature
        boosts = pool.boosted[at.numpy()].tocoo()
        place = torch.from_numpy(np.stack([boosts.row, boosts.col]).astype(np.int64)).to(lm.device)
        value = torch.from_numpy(boosts.data).to(logits)
        logits = head.boosted(logits, bits).index_put_(tuple(place), value, accumulate=True)
        wanted = pool.token[at].to(lm.device)[:, None]
        each = logits.gather(1, wanted)[:, 0] - logits.logsumexp(1)
        return torch.zeros(len(texts), device=lm.device).index_add(0, owner.to(lm.device), each)

    def loss(texts: Ints, drop: bool) -> Tensor:
        own = weight[torch.from_numpy(texts)].to(lm.device)
        return -(own * log_q(texts, drop)).sum()

    best, kept, worse = np.inf, begun.layers, 0
    places = float(np.diff(pool.starts).mean()) * BATCH * (1 - SKIPPED)
    for _ in range(epochs):
        mixed = random.permutation(left)
        for batch in np.split(mixed, range(BATCH, len(mixed), BATCH)):
            optimiser.zero_grad()
            (loss(batch, True) / places).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        with torch.no_grad():
            parts = np.split(held, range(BATCH, len(held), BATCH))
            now = sum(float(loss(part, False)) for part in parts)
        if now < best:
            best, worse = now, 0
            kept = {name: x.detach().clone() for name, x in layers.items()}
        else:
            worse += 1
            if worse == PATIENCE:
                break
    # As its file keeps it: what is judged is what will draw.
    rounded = {name: x.detach().cpu().half().float() for name, x in kept.items()}
    return Head(rounded, begun.tokens, begun.log_factors, begun.until)
