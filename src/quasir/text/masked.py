"""Masked language models as editors for `RWMH` (appendix G of the paper)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quasir.core.types import Array, Items
from quasir.errors import InputError
from quasir.samplers.rwmh import MASK, Tokens
from quasir.text.language_model import Network, WeightOptions
from quasir.text.texts import Texts, as_texts


class MaskedLM(Network):
    """A masked language model: the distribution of the token at a masked position.

    Parameters
    ----------
    name : str
        A folder or a hub id, such as ``bert-base-cased``.
    base : object with a ``tokenizer``, optional
        The model whose token ids are edited, if the masked model was made for its tokenizer. The
        masked model's tokenizer must have the base's tokens under the same ids, and may have
        further special tokens.
    device, dtype, revision, trust_remote_code
        See `CausalLM`.
    model, tokenizer
        A loaded transformers model and its tokenizer, instead of `name`.

    Notes
    -----
    With `base`, the base's token ids are edited directly. If the base has another tokenizer, omit
    `base`: the states of a chain are then token sequences of the masked model. A draw of the
    global proposal is encoded to become one, and the target scores their text. The chain's
    distribution is over those sequences, so a text with several encodings counts several times.

    Special tokens (mask, padding, separators, beginning and end) are never proposed. The unknown
    token can be proposed, because texts may contain it.

    Examples
    --------
    >>> import quasir as qr
    >>> base = qr.text.CausalLM("quasir/biographies", max_tokens=12)
    >>> editor = qr.text.MaskedLM("quasir/biographies-masked", base=base)
    >>> target = base * qr.features.contains("a")
    >>> walk = qr.RWMH(target, base, editor, thin=2).sample(3, seed=0)
    >>> len(walk)
    3
    """

    kind = "masked"

    def __init__(
        self, name: str | None = None, *, base: Any = None, **weights: Unpack[WeightOptions]
    ) -> None:
        super().__init__(name, **weights)
        if self.tokenizer.mask_token_id is None:
            raise InputError(f"{name or type(self.model).__name__!r} has no mask token.")
        self.texts_of = self.tokenizer if base is None else base.tokenizer
        _check_ids(self.texts_of, self.tokenizer)
        # The special tokens that the tokenizer puts before and after a text.
        whole = self.tokenizer(self.tokenizer.mask_token).input_ids
        at = whole.index(self.tokenizer.mask_token_id)
        self._before, self._after = whole[:at], whole[at + 1 :]
        padding = self.tokenizer.pad_token_id
        self._padding: int = 0 if padding is None else padding

    def encode(self, items: Items) -> list[Tokens]:
        """Return items as token ids; items of another tokenizer are encoded from their text."""
        return as_texts(items, self.texts_of).tuples()

    def decode(self, sequences: Sequence[Tokens]) -> Texts:
        """Return token sequences as texts."""
        return Texts.of(sequences, self.texts_of)

    def token_id(self, word: str) -> int:
        """Return the token id of a word that is one token; a leading space counts (" amazing")."""
        ids = self.tokenizer(word, add_special_tokens=False).input_ids
        if len(ids) != 1:
            raise InputError(
                f"{word!r} is {len(ids)} tokens of this tokenizer, but an edit inserts one token. "
                "Boost a word that is one token; in many tokenizers it begins with a space."
            )
        return int(ids[0])

    def log_token_probs(self, sequences: Sequence[Tokens], positions: NDArray[np.intp]) -> Array:
        """Return the log-probability of every token at the mask of each sequence."""
        return self._with_less_memory(lambda rows: self._ask(sequences, positions, rows))

    @torch.inference_mode()
    def _ask(self, sequences: Sequence[Tokens], positions: NDArray[np.intp], rows: int) -> Array:
        order = np.argsort([len(tokens) for tokens in sequences], kind="stable")
        answer = np.empty((len(sequences), self._banned.shape[0]))
        for start in range(0, len(order), rows):
            part = order[start : start + rows]
            framed = [self._framed(sequences[i]) for i in part]
            longest, limit = max(map(len, framed)), self.positions
            if limit is not None and longest > limit:
                raise InputError(
                    f"a sequence of {longest} tokens, with the special ones, needs more than the "
                    f"{limit} positions of this model: keep max_tokens to {self.max_tokens}."
                )
            ids = torch.tensor([row + [self._padding] * (longest - len(row)) for row in framed])
            mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in framed])
            at = torch.from_numpy(positions[part]) + len(self._before)
            logits = self._logits(*(x.to(self.device) for x in (ids, mask, at))).double()
            logits.masked_fill_(self._banned.to(self.device), -torch.inf)
            answer[part] = logits.log_softmax(dim=-1).cpu().numpy()
        return answer

    @property
    def max_tokens(self) -> int | None:
        """Maximum number of tokens in a sequence, or None if the model has no limit."""
        limit = self.positions
        return None if limit is None else limit - len(self._before) - len(self._after)

    def _framed(self, tokens: Tokens) -> list[int]:
        mask: int = self.tokenizer.mask_token_id
        return [*self._before, *(mask if t == MASK else t for t in tokens), *self._after]

    def _logits(self, ids: Tensor, mask: Tensor, at: Tensor) -> Tensor:
        """Return the logits at one position of each row."""
        rows = torch.arange(len(ids), device=ids.device)
        if self._head is None:
            whole: Tensor = self.model(input_ids=ids, attention_mask=mask).logits
            return whole[rows, at]
        states = self.model.base_model(input_ids=ids, attention_mask=mask).last_hidden_state
        return self._head(states[rows, at])

    @cached_property
    def _head(self) -> Callable[[Tensor], Tensor] | None:
        """The module that maps last states to logits, as in BERT; None if there is none."""
        others = [child for child in self.model.children() if child is not self.model.base_model]
        found = len(others) == 1 and self._is_head(others[0], self._framed((MASK,)))
        return others[0] if found else None

    @cached_property
    def _banned(self) -> Tensor:
        """True for the columns of the logits that are never proposed."""
        size = int(self.model.config.vocab_size)
        banned = torch.ones(size, dtype=torch.bool)
        banned[sorted(i for i in self.texts_of.get_vocab().values() if i < size)] = False
        unknown = self.tokenizer.unk_token_id
        special = {*self.tokenizer.all_special_ids, *self.texts_of.all_special_ids} - {unknown}
        banned[sorted(i for i in special if i < size)] = True
        return banned

    def __repr__(self) -> str:
        return f"MaskedLM({self.name!r})"


def _check_ids(base: Any, masked: Any) -> None:
    own = masked.get_vocab()
    other = {token: i for token, i in base.get_vocab().items() if own.get(token) != i}
    if other:
        token, i = next(iter(other.items()))
        raise InputError(
            f"the masked model has {len(other):,} of the base's tokens under other ids or not at "
            f"all, such as {token!r}, which is {i} for the base and {own.get(token)} here. Leave "
            "base out: the chain then edits the masked model's own tokens."
        )
