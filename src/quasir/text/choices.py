"""The probability that a model gives to each of some whole answers, by enumeration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from quasir.core.formatting import short_repr
from quasir.core.types import Array
from quasir.errors import InputError
from quasir.guides.vocabulary import Vocabulary
from quasir.text.causal import CausalLM

NEGLIGIBLE = 1e-9
"""A beginning of an answer that is less probable than this is not followed; it is counted."""
AT_ONCE = 64


@dataclass(frozen=True)
class Choices:
    """The probabilities of some answers, as `choose` returns them.

    Attributes
    ----------
    answers : tuple of str
    probabilities : array
        The probability that the model's whole text is each answer. With another end than the
        model's own, that it begins with the answer and that end.
    outside : float
        The probability of all other texts: 1 minus the sum of these.
    uncounted : float
        The most that unlikely spellings could add to the probabilities of all answers together.

    Examples
    --------
    >>> found = Choices(("yes", "no"), np.array([0.3, 0.1]), 0.6, 0.0)
    >>> print(found)
    yes      0.3       75.0 % of the answers
    no       0.1       25.0 % of the answers
    outside  0.6
    """

    answers: tuple[str, ...]
    probabilities: Array
    outside: float
    uncounted: float

    @property
    def shares(self) -> Array:
        """The probabilities among the answers alone: they sum to 1."""
        if not self.probabilities.any():
            raise InputError("no answer has a probability above 0, so that they have no shares.")
        shares: Array = self.probabilities / self.probabilities.sum()
        return shares

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        named = dict(zip(self.answers, self.probabilities.tolist(), strict=True))
        return {"probabilities": named, "outside": self.outside, "uncounted": self.uncounted}

    def __str__(self) -> str:
        shown = [short_repr(answer, 40)[1:-1] for answer in self.answers]
        width = max(map(len, [*shown, "outside"])) + 2
        total = self.probabilities.sum()
        lines = []
        for name, mass in zip(shown, self.probabilities, strict=True):
            share = f"{100 * mass / total:5.1f} % of the answers" if total > 0 else ""
            lines.append(f"{name:<{width}}{mass:<9.3g}{share}")
        return "\n".join([*lines, f"{'outside':<{width}}{self.outside:.3g}"])


def choose(
    model: str | CausalLM,
    prompt: str | Sequence[Any],
    answers: Sequence[str],
    *,
    end: str | None = None,
    temperature: float = 1.0,
) -> Choices:
    """Return the exact probability of each answer to a prompt, and the mass outside of them.

    All ways to spell an answer with tokens are counted, not only the tokenizer's own. Nothing is
    sampled. The probability of an answer depends on no other answer, in contrast to constrained
    decoding, which moves the mass outside onto the answers unevenly.

    Parameters
    ----------
    model : str or CausalLM
    prompt : str, or a list of messages
        A text that the answer follows after a space; or a chat, as ``CausalLM(chat=...)`` takes it.
    answers : sequence of str
    end : str, optional
        What must follow an answer, such as a new line, for a model that does not end its text
        there. By default the model's own end-of-sequence token: the answer is the whole text.
    temperature : float

    Examples
    --------
    >>> import quasir as qr
    >>> found = qr.choose("quasir/biographies", "She was born in the", ["U.S.", "north"], end=",")
    >>> found.probabilities.shape, bool(0 < found.outside < 1)
    ((2,), True)
    """
    right = not isinstance(answers, str) and all(isinstance(x, str) and x for x in answers)
    if not right or not len(answers) or len(set(answers)) < len(answers):
        raise InputError(
            f"answers are {short_repr(answers)}, but must be a list of texts, such as "
            '["yes", "no"], and no two of them the same.'
        )
    lm = model if isinstance(model, CausalLM) else CausalLM(model, max_tokens=1)
    if lm.truncates:
        raise InputError("choose needs the whole distribution: leave out top_k and top_p.")
    if end is None and lm.end is None:
        raise InputError("the model has no token that ends a text: give end, such as a new line.")
    given = {"prompt": prompt} if isinstance(prompt, str) else {"chat": prompt}
    lm = lm.varied(**given, temperature=temperature, max_tokens=1)
    space = " " if isinstance(prompt, str) and prompt and not prompt[-1:].isspace() else ""
    wanted = [f"{space}{answer}{end or ''}".encode() for answer in answers]
    for i, text in enumerate(wanted):
        others = wanted[:i] + wanted[i + 1 :]
        if end is not None and any(other.startswith(text) for other in others):
            raise InputError(
                f"another answer begins with {short_repr(answers[i] + end)}, so that their masses "
                "overlap: give another end."
            )
    found, uncounted = _masses(lm, wanted, whole=end is None)
    outside = max(0.0, 1.0 - float(found.sum()))
    return Choices(tuple(answers), found, outside, uncounted)


@torch.inference_mode()
def _masses(lm: CausalLM, wanted: list[bytes], whole: bool) -> tuple[Array, float]:
    """Return the probability of each text, or that a text begins so; and what is not counted."""
    pieces = _pieces(lm, wanted, whole)
    found, uncounted = np.zeros(len(wanted)), 0.0
    level: dict[tuple[int, ...], float] = {(): 0.0}
    while level:
        after: dict[tuple[int, ...], float] = {}
        for ids, log_next in _next_log_probs(lm, list(level)):
            log_next = log_next + level[ids]
            spelled = b"".join(pieces[i] for i in ids)
            rests = [text[len(spelled) :] if text.startswith(spelled) else None for text in wanted]
            if whole and b"" in rests:
                found[rests.index(b"")] += np.exp(log_next[lm.end])
            for token, piece in pieces.items():
                for index, rest in enumerate(rests):
                    if rest and not whole and piece.startswith(rest):
                        found[index] += np.exp(log_next[token])
                if any(r and r.startswith(piece) and (whole or r != piece) for r in rests):
                    if log_next[token] < np.log(NEGLIGIBLE):
                        uncounted += np.exp(log_next[token])
                    else:
                        after[(*ids, token)] = log_next[token]
        level = after
    return found, float(uncounted)


def _next_log_probs(lm: CausalLM, prefixes: list[tuple[int, ...]]) -> Any:
    """Yield the log-probabilities of the next token after each prefix; all have one length."""
    for start in range(0, len(prefixes), AT_ONCE):
        part = prefixes[start : start + AT_ONCE]
        ids = torch.tensor(part, dtype=torch.long, device=lm.device).reshape(len(part), -1)
        last = torch.zeros(len(part), ids.shape[1] + 1, dtype=torch.bool, device=lm.device)
        last[:, -1] = True
        logits = lm.warp(lm.logits(ids, last)).double()
        yield from zip(part, logits.log_softmax(-1).cpu().numpy(), strict=True)


def _pieces(lm: CausalLM, wanted: list[bytes], whole: bool) -> dict[int, bytes]:
    """Return the tokens that some spelling of a text may have, and the bytes of each."""
    table = Vocabulary(lm.tokenizer, lm.vocabulary_size, lm.end).for_masks
    special = set(lm.tokenizer.all_special_ids)
    ends = () if whole else {text[k:] for text in wanted for k in range(len(text))}
    pieces = {}
    for token in range(min(lm.vocabulary_size, len(lm.tokenizer))):
        piece = b"" if token in special else bytes(table.decode_bytes([token]))
        if piece and (any(piece in text for text in wanted) or any(map(piece.startswith, ends))):
            pieces[token] = piece
    return pieces
