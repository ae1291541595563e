"""What language models have in common: their weights, how texts are drawn and scored, memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypedDict, TypeVar, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quasir.core.arguments import check_count
from quasir.core.streams import Purpose, stream
from quasir.core.types import Array, Batch, Items, Part, Request
from quasir.errors import InputError, QuasirWarning
from quasir.guides.guide import Ints
from quasir.text.decoding import Warp
from quasir.text.fingerprints import tokenizer_digest, weights_digest
from quasir.text.loading import hash_weights, load
from quasir.text.texts import Texts, as_texts

MEASURED = 16
"""Texts that are scored again, to see the rounding of a model with fewer digits than float32."""

LOGITS_AT_ONCE = 1 << 22
"""Logits in memory at once, instead of texts x tokens x vocabulary: 16 MB fit in a CPU cache."""

POSITIONS_AT_ONCE = 512
"""Minimum positions at once: with fewer, reading a large output matrix again dominates."""

TOKENS_AT_ONCE = 1 << 13
"""Tokens in a batch: on a CPU 512 texts of 40 tokens took a fifth longer than batches of 128."""

Result = TypeVar("Result")
Model = TypeVar("Model", bound="NetworkLM")


class WeightOptions(TypedDict, total=False):
    """Which weights are loaded, and where; or which are given."""

    device: str | None
    dtype: str
    revision: str | None
    adapter: str | None
    device_map: str | None
    quantization: str | None
    trust_remote_code: bool
    model: Any
    tokenizer: Any


class ModelOptions(WeightOptions, total=False):
    """Which weights, and how texts are drawn."""

    temperature: float
    top_k: int | None
    top_p: float | None


class BatchHalving:
    """Something that processes at most `_rows` texts at once, and halves that without memory."""

    _rows = 256

    def _with_less_memory(self, work: Callable[[int], Result]) -> Result:
        """Return `work(rows)`; if memory runs out, halve the rows and try again."""
        while True:
            try:
                return work(self._rows)
            except RuntimeError as error:
                said = ("not enough memory", "can't allocate memory")
                full = isinstance(error, torch.OutOfMemoryError)
                full = full or any(words in str(error).lower() for words in said)
                if not full or self._rows <= 1:
                    raise
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()
                self._rows //= 2
                warnings.warn(
                    f"out of memory: going on with {self._rows} texts at once.",
                    QuasirWarning,
                    stacklevel=3,
                )

    def _in_batches(self, n: int, work: Callable[[slice], Tensor]) -> Array:
        """Return `work` of all n texts, at most `_rows` at once."""

        def all_parts(rows: int) -> Tensor:
            return torch.cat([work(slice(i, i + rows)) for i in range(0, n, rows)])

        return self._with_less_memory(all_parts).cpu().numpy()


class Network(BatchHalving):
    """A network and its tokenizer, loaded by name or given, in evaluation mode."""

    kind: ClassVar[str]

    def __init__(
        self, name: str | None, *, model: Any = None, tokenizer: Any = None, **options: Any
    ) -> None:
        if (name is None) == (model is None) or (model is None) != (tokenizer is None):
            raise InputError("give the model's name, or a model and its tokenizer.")
        given = (model.eval(), tokenizer) if name is None else load(name, self.kind, **options)
        (self.model, self.tokenizer), self.name = given, name
        self.revision, self.adapter = options.get("revision"), options.get("adapter")

    @property
    def device(self) -> torch.device:
        """The device that holds the weights."""
        return torch.device(self.model.device)

    @property
    def positions(self) -> int | None:
        """The most tokens that the network reads, or None if it has no limit."""
        limit: int | None = getattr(self.model.config, "max_position_embeddings", None)
        return limit

    def identity(self) -> dict[str, str | None]:
        """Return what tells this model from others: its name, and hashes of its weights."""
        digest = weights_digest(self.model) if self.name is None else hash_weights(self.name)
        found = {
            "name": None if self.name is None else _base_name(self.name),
            "revision": self.revision or getattr(self.model.config, "_commit_hash", None),
            "weights_sha256": digest,
            "tokenizer_sha256": tokenizer_digest(self.tokenizer),
        }
        if self.adapter is not None:
            found["adapter"] = _base_name(self.adapter)
            found["adapter_sha256"] = hash_weights(self.adapter)
        return found

    @torch.inference_mode()
    def _is_head(self, head: Any, tokens: Sequence[int]) -> bool:
        """Return whether a module maps the network's last states to its logits, on some tokens."""
        ids = torch.tensor([list(tokens)], device=self.device)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        was_training = self.model.training
        self.model.eval()  # with dropout the two passes below would differ
        ours = head(self.model.base_model(**inputs).last_hidden_state)
        logits = self.model(**inputs).logits
        self.model.train(was_training)
        return ours.shape == logits.shape and torch.allclose(ours, logits, atol=1e-4, rtol=1e-4)


def _base_name(name: str) -> str:
    path = Path(name)
    return path.name if path.is_absolute() else name


class LanguageModel:
    """A distribution of texts: a base or a proposal, whoever computes it."""

    name: str | None
    revision: str | None
    adapter: str | None
    tokenizer: Any
    max_tokens: int
    warp: Warp
    prefix_stable = True
    log_z = 0.0

    @property
    def truncates(self) -> bool:
        """Whether top-k or top-p gives some texts probability 0."""
        return self.warp.truncates

    @property
    def end(self) -> int | None:
        """The token that ends a text."""
        token: int | None = self.tokenizer.eos_token_id
        return token

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw n texts. All uniforms, one per token, come from `rng` before decoding starts."""
        return self._draw(rng.random((n, self.max_tokens)))

    def log_prob(self, items: Items) -> Array:
        """Return the log-probability that `sample` draws each text with."""
        return self._score(as_texts(items, self.tokenizer))

    log_score = log_prob

    def encode(self, texts: Sequence[str]) -> Texts:
        """Encode texts with this model's tokenizer."""
        return as_texts(list(texts), self.tokenizer)

    def sample_together(
        self, models: Sequence[Any], requests: Sequence[Request]
    ) -> list[Part] | None:
        """Draw rows of several models in one batch; None if they cannot be mixed."""
        if len(models) > 1:
            return None
        return [Part(*self._draw(requests[0].uniforms(self.max_tokens)), None)]

    def _draw(self, uniforms: Array) -> Batch:
        raise NotImplementedError

    def _score(self, texts: Texts) -> Array:
        raise NotImplementedError


class NetworkLM(Network, LanguageModel):
    """A network that gives the next token; subclasses say how (`_draw`, `_hidden`, `_head`)."""

    def __init__(
        self,
        name: str | None = None,
        *,
        max_tokens: int,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        **weights: Unpack[WeightOptions],
    ) -> None:
        check_count("max_tokens", max_tokens)
        self.max_tokens, self.warp = max_tokens, Warp(temperature, top_k, top_p)
        super().__init__(name, **weights)

    @property
    def settings(self) -> dict[str, Any]:
        """How texts are drawn: what the constructor takes beside the weights."""
        ways = {name: getattr(self.warp, name) for name in ("temperature", "top_k", "top_p")}
        return {"max_tokens": self.max_tokens, **ways}

    def _variant(self, kind: type[Model], **settings: Any) -> Model:
        """Return a model with the same weights and other settings."""
        made = kind(model=self.model, tokenizer=self.tokenizer, **(self.settings | settings))
        made.name, made.revision, made.adapter = self.name, self.revision, self.adapter
        made._rows = self._rows
        return made

    @property
    def vocabulary_size(self) -> int:
        """Number of logits: some models have more than their tokenizer has tokens."""
        weight = getattr(self.model.get_output_embeddings(), "weight", None)
        return int(self.model.config.vocab_size if weight is None else weight.shape[0])

    @cached_property
    def mismatch(self) -> float:
        """The most that scores of draws differ from log q, in nats per text: 0 in float32."""
        exact = self.model.dtype in (torch.float32, torch.float64)
        if exact and not getattr(self.model, "is_quantized", False):
            return 0.0
        items, log_q = self.sample(MEASURED, stream(0, Purpose.MISMATCH))
        return float(np.abs(self.log_prob(items) - log_q).max())

    @torch.inference_mode()
    def _score(self, texts: Texts) -> Array:
        return self._with_less_memory(lambda rows: score_texts(self, texts, rows))

    def _hidden(self, ids: Tensor) -> Tensor:
        """Return the states that predict each token of the rows, and the state after the last."""
        raise NotImplementedError

    def _head(self, states: Tensor) -> Tensor:
        """Return the logits of some states."""
        raise NotImplementedError


class Pass(NamedTuple):
    """A forward pass over some texts: the states before every token that is scored."""

    part: Ints  # the texts
    owner: Ints  # of each scored token, the text, as a place in `part`
    place: Ints  # its place in the text
    wanted: Ints  # the token itself; an end token follows each text that was not cut
    states: Tensor  # (tokens, d)


def score_texts(lm: NetworkLM, texts: Texts, rows: int) -> Array:
    """Return log-probabilities in float64; -inf for texts that cannot be drawn."""
    log_prob = np.full(len(texts), -np.inf)
    step = positions_at_once(lm.vocabulary_size)
    for part, owner, _, wanted, states in passes(lm, texts, rows):
        tokens = torch.from_numpy(wanted).to(lm.device)
        each = torch.empty(len(tokens), dtype=torch.float64, device=tokens.device)
        for start in range(0, len(tokens), step):
            at = slice(start, start + step)
            logits = lm.warp(lm._head(states[at]))
            below = logits.sub_(logits.amax(dim=-1, keepdim=True))
            own = below.gather(1, tokens[at, None])[:, 0]
            each[at] = (own - below.exp_().sum(dim=-1).log()).double()
        log_prob[part] = np.bincount(owner, each.cpu().numpy(), minlength=len(part))
    return log_prob


def passes(lm: NetworkLM, texts: Texts, rows: int) -> Iterator[Pass]:
    """Yield forward passes over all texts that can be drawn, the longest first."""
    end, limit, lengths = lm.end, lm.max_tokens, texts.lengths
    possible = lengths <= limit if end is not None else lengths == limit
    if end is not None and len(texts.ids):
        # The end token inside a text would have ended it.
        owner = np.repeat(np.arange(len(texts)), lengths)
        possible[owner[texts.ids == end]] = False
    order = np.flatnonzero(possible)
    order = order[np.argsort(-lengths[order], kind="stable")]
    done = 0
    while done < len(order):
        longest = int(lengths[order[done]])
        part = order[done : done + min(rows, max(1, TOKENS_AT_ONCE // (longest + 1)))]
        done += len(part)
        asked, scored = scored_tokens(texts.take(part), end, limit)
        ids, chosen = torch.from_numpy(asked[:, :longest]), torch.from_numpy(scored)
        states = lm._hidden(ids.to(lm.device))[chosen.to(lm.device)]
        owner, place = np.nonzero(scored)
        yield Pass(part, owner, place, asked[scored], states)


def scored_tokens(texts: Texts, end: int | None, limit: int) -> tuple[Ints, NDArray[np.bool_]]:
    """Return a row of tokens for each text, and which are scored: its own, and the end's."""
    lengths = texts.lengths
    place = np.arange(int(lengths.max(initial=0)) + 1)
    scored = place < lengths[:, None]
    tokens = np.zeros(scored.shape, dtype=np.int64)
    tokens[scored] = texts.ids
    if end is not None:
        ends = (lengths < limit)[:, None] & (place == lengths[:, None])
        tokens[ends] = end
        scored |= ends
    return tokens, scored


def positions_at_once(vocabulary: int) -> int:
    """Return the number of positions whose logits are in memory at once."""
    return max(POSITIONS_AT_ONCE, LOGITS_AT_ONCE // vocabulary)
