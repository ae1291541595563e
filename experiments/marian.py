"""A translation model in Marian's binary format, and the proposal that draws its translations.

This is the worked example of a proposal from outside transformers: `Translations` needs `sample`
and `log_prob`, and both are one walk along the tokens. Rows with the same prefix share its states,
so a block of draws costs as much as its distinct prefixes.

The models are Bergamot's "tiny" ones: an encoder of attention layers, and a decoder of simple
recurrent units (SSRU) with attention to the source. Weights are bytes with one multiplier for each
matrix. A translation begins with a zero vector instead of a start token, and ends with token 0.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from quasir.text.texts import Texts, as_texts

__all__ = ["Marian", "Translations", "read_weights"]

FLOATS, BYTES = 0x404, 0x4101
"""The codes of Marian's types: float32, and int8 laid out for matrix products."""
END, HEADS = 0, 8
PREFIXES_AT_ONCE = 256
"""Prefixes whose probabilities over all tokens are held in memory at once."""


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the weights in a file of Marian's binary format, version 1, by their names."""
    content = path.read_bytes()
    _, count = struct.unpack_from("<QQ", content)
    heads = [struct.unpack_from("<QQQQ", content, 16 + 32 * i) for i in range(count)]
    at = 16 + 32 * count
    names, shapes, weights = [], [], {}
    for length, _, _, _ in heads:
        names.append(content[at : at + length - 1].decode())
        at += length
    for _, _, dimensions, _ in heads:
        shapes.append(struct.unpack_from(f"<{dimensions}i", content, at))
        at += 4 * dimensions
    (padding,) = struct.unpack_from("<Q", content, at)
    at += 8 + padding
    for name, shape, (_, kind, _, length) in zip(names, shapes, heads, strict=True):
        size = math.prod(shape)
        if kind == FLOATS:
            weights[name] = torch.frombuffer(
                bytearray(content[at : at + 4 * size]), dtype=torch.float32
            )
            weights[name] = weights[name].reshape(shape)
        elif kind == BYTES and size > 1:
            values = torch.frombuffer(bytearray(content[at : at + size]), dtype=torch.int8).float()
            (multiplier,) = struct.unpack_from("<f", content, at + size)
            # A matrix is stored transposed, the embeddings are not.
            stored = values.reshape(shape) if name == "Wemb" else values.reshape(shape[::-1]).T
            weights[name] = stored / multiplier
        at += length
    return weights


class Marian:
    """The network: `encode` a source, then `step` from token to token.

    Parameters
    ----------
    weights : mapping
        Marian's names -> tensors.
    tokenizer
        Of transformers; its token 0 ends a text.
    """

    def __init__(self, weights: Mapping[str, Tensor], tokenizer: Any) -> None:
        self.weights, self.tokenizer = weights, tokenizer
        self.width = weights["Wemb"].shape[1]
        layers = {name.split("_")[1] for name in weights if name.startswith("encoder_l")}
        self.encoder_layers = len(layers)
        self.decoder_layers = len({n.split("_")[1] for n in weights if n.startswith("decoder_l")})

    @classmethod
    def load(cls, folder: Path) -> Marian:
        """Read the model and the tokenizer of a folder."""
        from transformers import PreTrainedTokenizerFast

        tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=str(folder / "tokenizer.json"), eos_token="</s>", unk_token="<unk>"
        )
        return cls(read_weights(next(folder.glob("model.*.bin"))), tokenizer)

    @torch.inference_mode()
    def encode(self, text: str) -> list[tuple[Tensor, Tensor]]:
        """Return the keys and values of a source, for each layer of the decoder."""
        ids = [*self.tokenizer(text, add_special_tokens=False).input_ids, END]
        x = self._embedded(torch.tensor([ids])) + self._positions(0, len(ids))
        for layer in range(1, self.encoder_layers + 1):
            name = f"encoder_l{layer}_self"
            x = self._attended(x, name, self._linear(x, name, "k"), self._linear(x, name, "v"))
            x = self._fed(x, f"encoder_l{layer}_ffn")
        contexts = [f"decoder_l{i}_context" for i in range(1, self.decoder_layers + 1)]
        return [(self._linear(x, name, "k"), self._linear(x, name, "v")) for name in contexts]

    @torch.inference_mode()
    def step(
        self, tokens: Tensor | None, place: int, cells: Tensor, source: list[tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """Return the logits of the tokens after `tokens`, and the new cells (layer, row, width)."""
        x = torch.zeros(cells.shape[1:]) if tokens is None else self._embedded(tokens)
        x = x + self._positions(place, 1)
        made = []
        for layer, (keys, values) in enumerate(source, start=1):
            name, weights = f"decoder_l{layer}_rnn", self.weights
            gate = torch.sigmoid(x @ weights[f"{name}_Wf"] + weights[f"{name}_bf"][0])
            cell = gate * cells[layer - 1] + (1 - gate) * (x @ weights[f"{name}_W"])
            made.append(cell)
            x = self._normal(x + torch.relu(cell), f"{name}_ffn")
            rows = (len(x), -1, -1)
            attended = self._attended(
                x[:, None], f"decoder_l{layer}_context", keys.expand(rows), values.expand(rows)
            )
            x = self._fed(attended[:, 0], f"decoder_l{layer}_ffn")
        logits = x @ self.weights["Wemb"].T + self.weights["decoder_ff_logit_out_b"][0]
        return logits, torch.stack(made)

    def start(self) -> Tensor:
        """Return the cells before the first token, of one row."""
        return torch.zeros(self.decoder_layers, 1, self.width)

    def translate(self, text: str, beams: int, max_tokens: int) -> list[str]:
        """Return what a beam search ends with, the best first, by log-probability per token."""
        source, cells, tokens = self.encode(text), self.start(), None
        beam: list[tuple[float, list[int]]] = [(0.0, [])]
        ended: list[tuple[float, list[int]]] = []
        for place in range(max_tokens):
            logits, cells = self.step(tokens, place, cells, source)
            scores = torch.tensor([score for score, _ in beam])[:, None] + logits.log_softmax(-1)
            best = scores.flatten().topk(min(2 * beams, scores.numel()))
            grown = []
            candidates = zip(best.values.tolist(), best.indices.tolist(), strict=True)
            for rank, (score, index) in enumerate(candidates):
                row, token = divmod(index, logits.shape[1])
                if token != END:
                    grown.append((row, score, token))
                elif rank < beams:
                    ended.append((score / (place + 1), beam[row][1]))
            grown = grown[:beams]
            cells = cells[:, [row for row, _, _ in grown]]
            tokens = torch.tensor([token for _, _, token in grown])
            beam = [(score, [*beam[row][1], token]) for row, score, token in grown]
            if len(ended) >= beams:
                break
        if not ended:
            ended = [(score / max_tokens, ids) for score, ids in beam]
        return [str(self.tokenizer.decode(ids)) for _, ids in sorted(ended, reverse=True)]

    def _embedded(self, ids: Tensor) -> Tensor:
        return self.weights["Wemb"][ids] * math.sqrt(self.width)

    def _positions(self, start: int, length: int) -> Tensor:
        half = self.width // 2
        rates = torch.exp(torch.arange(half) * -(math.log(10_000.0) / (half - 1)))
        angles = torch.arange(start, start + length)[:, None] * rates
        return torch.cat([angles.sin(), angles.cos()], dim=1)

    def _linear(self, x: Tensor, name: str, part: str) -> Tensor:
        return x @ self.weights[f"{name}_W{part}"] + self.weights[f"{name}_b{part}"][0]

    def _normal(self, x: Tensor, name: str) -> Tensor:
        scale, bias = (self.weights[f"{name}_ln_{part}"][0] for part in ("scale", "bias"))
        return layer_norm(x, (self.width,), scale, bias, 1e-9)

    def _attended(self, x: Tensor, name: str, keys: Tensor, values: Tensor) -> Tensor:
        def parted(y: Tensor) -> Tensor:
            return y.unflatten(-1, (HEADS, -1)).transpose(1, 2)

        query = parted(self._linear(x, name, "q"))
        scores = query @ parted(keys).transpose(2, 3) / math.sqrt(self.width // HEADS)
        mixed = (scores.softmax(-1) @ parted(values)).transpose(1, 2).flatten(2)
        return self._normal(x + self._linear(mixed, name, "o"), f"{name}_Wo")

    def _fed(self, x: Tensor, name: str) -> Tensor:
        inner = torch.relu(self._linear(x, name, "1"))
        return self._normal(x + self._linear(inner, name, "2"), f"{name}_ffn")


class Translations:
    """q(x): translations of a source, drawn token by token; top-k is renormalised at each token.

    Parameters
    ----------
    model : Marian
    source : str
    temperature : float
    top_k : int, optional
    max_tokens : int
        A text that is as long is cut, and scored without its end.

    Examples
    --------
    `tests/experiments/test_marian.py` sums the probabilities of all texts of a small model to 1.
    """

    prefix_stable = True

    def __init__(
        self,
        model: Marian,
        source: str,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        max_tokens: int = 48,
    ) -> None:
        self.model, self.source, self.max_tokens = model, source, max_tokens
        self.temperature, self.top_k = temperature, top_k
        self.tokenizer, self.truncates = model.tokenizer, top_k is not None

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Texts, np.ndarray]:
        """Draw n translations by one uniform for each token."""
        uniforms = rng.random((n, self.max_tokens))

        def choose(place: int, rows: np.ndarray, log_probs: Tensor) -> np.ndarray:
            sums = log_probs.double().exp().cumsum(0).numpy()
            below = uniforms[rows, place] * sums[-1]
            return np.searchsorted(sums, below, side="right")

        ids, lengths, log_q = self._walk(n, choose)
        return Texts.from_rows(ids, lengths, self.tokenizer), log_q

    def log_prob(self, items: Any) -> np.ndarray:
        """Return log q(x) of texts, by their tokens."""
        texts = as_texts(items, self.tokenizer)
        longest = max(self.max_tokens, int(texts.lengths.max(initial=0)))
        given = np.full((len(texts), longest + 1), END, np.int64)
        for i in range(len(texts)):
            given[i, : texts.lengths[i]] = texts.token_ids(i)
        _, _, log_q = self._walk(len(texts), lambda place, rows, _: given[rows, place])
        log_q[texts.lengths > self.max_tokens] = -np.inf
        return log_q

    @torch.inference_mode()
    def likely(self, n: int) -> Texts:
        """Return about the n likeliest translations, the likeliest first.

        It is a beam search of width n. What no n texts that ended can be beaten by is dropped: a
        text is never likelier than its beginning.
        """
        beam, scores = np.zeros((1, 0), np.int64), torch.zeros(1)
        cells, tokens = self.model.start(), None
        ended: list[tuple[float, tuple[int, ...]]] = []
        for place in range(self.max_tokens):
            made, found, least = [], [], ended[n - 1][0] if len(ended) >= n else -math.inf
            for first in range(0, len(beam), PREFIXES_AT_ONCE):
                part = slice(first, first + PREFIXES_AT_ONCE)
                now = None if tokens is None else tokens[part]
                logits, kept = self.model.step(now, place, cells[:, part], self._encoded)
                made.append(kept)
                log_probs = scores[part, None] + self._warped(logits)
                ends = zip(log_probs[:, END].tolist(), map(tuple, beam[part].tolist()), strict=True)
                ended += [end for end in ends if end[0] > least]
                log_probs[:, END] = -math.inf
                best = log_probs.flatten().topk(min(n, log_probs.numel()))
                at = best.values > least
                rows, chosen = np.divmod(best.indices[at].numpy(), log_probs.shape[1])
                found.append((best.values[at], torch.from_numpy(rows + first), chosen))
            ended = sorted(ended, reverse=True)[:n]
            scores, rows, chosen = (
                torch.cat([torch.as_tensor(part) for part in parts])
                for parts in zip(*found, strict=True)
            )
            order = scores.argsort(descending=True)[:n]
            scores, rows, tokens = scores[order], rows[order], chosen[order]
            if not len(order):
                break
            cells = torch.cat(made, dim=1)[:, rows]
            beam = np.column_stack([beam[rows.numpy()], tokens.numpy()])
        return Texts.of([ids for _, ids in ended], self.tokenizer)

    @cached_property
    def _encoded(self) -> list[tuple[Tensor, Tensor]]:
        return self.model.encode(self.source)

    def _walk(
        self, n: int, choose: Callable[[int, np.ndarray, Tensor], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Go from token to token, and return the tokens, the lengths and log q of n rows.

        `choose` gives the next tokens of rows that share a prefix, from its log-probabilities.
        """
        ids = np.full((n, self.max_tokens), END, np.int32)
        lengths, log_q = np.zeros(n, np.int64), np.zeros(n)
        cells, tokens = self.model.start(), None
        going, prefix = np.arange(n), np.zeros(n, np.int64)  # rows that go on, and their prefixes
        for place in range(self.max_tokens):
            if not len(going):
                break
            chosen = np.empty(len(going), np.int64)
            order = np.argsort(prefix, kind="stable")
            ends = np.searchsorted(prefix[order], np.arange(cells.shape[1] + 1))
            kept = []
            for first in range(0, cells.shape[1], PREFIXES_AT_ONCE):
                part = slice(first, first + PREFIXES_AT_ONCE)
                now = None if tokens is None else tokens[part]
                logits, made = self.model.step(now, place, cells[:, part], self._encoded)
                kept.append(made)
                log_probs = self._warped(logits)
                for i in range(len(log_probs)):
                    at = order[ends[first + i] : ends[first + i + 1]]
                    chosen[at] = choose(place, going[at], log_probs[i])
                    log_q[going[at]] += log_probs[i][chosen[at]].double().numpy()
            on = (chosen != END) & (log_q[going] > -np.inf)
            ids[going[on], place] = chosen[on]
            lengths[going[on]] += 1
            pairs, at = np.unique(np.stack([prefix[on], chosen[on]]), axis=1, return_inverse=True)
            going, prefix = going[on], at.reshape(-1)
            cells, tokens = torch.cat(kept, dim=1)[:, pairs[0]], torch.from_numpy(pairs[1])
        return ids, lengths, log_q

    def _warped(self, logits: Tensor) -> Tensor:
        if self.top_k is not None and self.top_k < logits.shape[1]:
            best = logits.topk(self.top_k, dim=1)
            logits = torch.full_like(logits, -math.inf).scatter(1, best.indices, best.values)
        return (logits / self.temperature).log_softmax(dim=1)
