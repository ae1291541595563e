"""The training texts of a built-in model: reading, splitting, encoding and batching them."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

__all__ = [
    "END_OF_TEXT",
    "HELD_OUT_SHARE",
    "IGNORED_LABEL",
    "batch_order",
    "data_and_licence",
    "encode",
    "kept_tokenizer",
    "pad",
    "read_texts",
    "split_held_out",
    "train_tokenizer",
    "without_openings",
]

END_OF_TEXT = "<|endoftext|>"
IGNORED_LABEL = -100
HELD_OUT_SHARE = 0.03
# Sixteen batches are sorted by length at a time: texts of similar length need little padding.
_BATCHES_SORTED_TOGETHER = 16


def read_texts(path: Path) -> list[str]:
    """Read one text per line from a gzipped UTF-8 file; empty lines are skipped."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [line.strip() for line in lines if line.strip()]


def _opening(text: str) -> str:
    """Return the first three words in lower case, the same in all biographies of one person."""
    return " ".join(re.findall(r"\w+", text.lower())[:3])


def split_held_out(texts: Sequence[str], share: float) -> tuple[list[str], list[str]]:
    """Split into a training and a held-out part by a hash of each text's opening words.

    Only the hash decides, not the order of the file or a seed. So later additions leave the split
    of the other texts unchanged, and two texts with the same opening are in the same part.
    """
    training, held_out = [], []
    for text in texts:
        digest = hashlib.sha256(_opening(text).encode()).digest()
        fraction = int.from_bytes(digest[:8], "big") / 2**64
        (held_out if fraction < share else training).append(text)
    return training, held_out


def without_openings(texts: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the texts whose opening none of `known` shares, so that held-out texts stay unseen."""
    openings = {_opening(text) for text in known}
    return [text for text in texts if _opening(text) not in openings]


def train_tokenizer(texts: Sequence[str], vocabulary: int, *, lower: bool = False) -> Tokenizer:
    """Train a byte-level BPE with one special token to begin, end and pad a text, like GPT-2's."""
    tokenizer = Tokenizer(models.BPE())
    if lower:
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def kept_tokenizer(
    run: Path, texts: Sequence[str], vocabulary: int, *, lower: bool = False
) -> Tokenizer:
    """Return the tokenizer of a run; it is trained on the texts at the first call."""
    path = run / "tokenizer.json"
    if not path.exists():
        train_tokenizer(texts, vocabulary, lower=lower).save(str(path))
    return Tokenizer.from_file(str(path))


def encode(tokenizer: Tokenizer, texts: Sequence[str], context: int) -> list[np.ndarray]:
    """Encode as `<|endoftext|> tokens... <|endoftext|>`, cut after `context` predictions.

    A text that is longer than the context has no end-of-text token at its end.
    """
    end = tokenizer.token_to_id(END_OF_TEXT)
    # Encoding only the start of a text saves time; 24 characters per token are always enough.
    encodings = tokenizer.encode_batch([text[: 24 * context] for text in texts])
    return [np.array([end, *e.ids, end][: context + 1], dtype=np.int64) for e in encodings]


def pad(sequences: Sequence[np.ndarray], end: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Stack sequences into inputs padded with `end` and labels that ignore the padding."""
    width = max(len(sequence) for sequence in sequences) - 1
    inputs = np.full((len(sequences), width), end)
    labels = np.full((len(sequences), width), IGNORED_LABEL)
    for row, sequence in enumerate(sequences):
        inputs[row, : len(sequence) - 1] = sequence[:-1]
        labels[row, : len(sequence) - 1] = sequence[1:]
    return torch.from_numpy(inputs), torch.from_numpy(labels)


def batch_order(sizes: np.ndarray, batch: int, seed: int, first: int = 0) -> Iterator[np.ndarray]:
    """Yield the members of batch `first`, `first + 1`, ... without end, epoch after epoch.

    Batch i depends on (seed, i) only, so a resumed run gets the same batches.
    """
    batches = len(sizes) // batch
    epoch, skip = divmod(first, batches)
    while True:
        rng = np.random.default_rng([seed, epoch])
        order = rng.permutation(len(sizes))[: batches * batch]
        for start in range(0, len(order), batch * _BATCHES_SORTED_TOGETHER):
            group = order[start : start + batch * _BATCHES_SORTED_TOGETHER]
            order[start : start + len(group)] = group[np.argsort(sizes[group], kind="stable")]
        yield from order.reshape(batches, batch)[rng.permutation(batches)][skip:]
        epoch, skip = epoch + 1, 0


def data_and_licence(texts: int, held_out: int, more: str = "") -> str:
    """Return the card's section on training texts and licence; `more` is added at the end."""
    return f"""{texts:,} English biographies, one a line, from Wikipedia (CC BY-SA),
gathered from public research repositories; the texts themselves are not part of quasir. The weights
are shared under the same licence, CC BY-SA, unlike quasir's code (Apache-2.0). {held_out:,}
texts ({100 * HELD_OUT_SHARE:.0f} %, by a hash of their opening words) were held out.{more}"""
