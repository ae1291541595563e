"""Language models behind a server as proposals and bases: vLLM, llama.cpp and SGLang."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np

from quasir.core.arguments import check_count, number
from quasir.core.formatting import short_repr
from quasir.core.types import Array, Batch, Part, Request
from quasir.errors import InputError, ServerError
from quasir.guides.vocabulary import same_tokenizer
from quasir.text.causal_decoding import as_chat, prefix_tokens
from quasir.text.decoding import Warp
from quasir.text.language_model import LanguageModel
from quasir.text.loading import load_tokenizer
from quasir.text.server_client import Client
from quasir.text.server_kinds import Drawn, Protocol, Sampling, find_protocol
from quasir.text.server_probe import Probe, Prober
from quasir.text.texts import Texts

SAMPLE_TEXT = "The fox, 2,048 na\u00efve caf\u00e9s \u4f60\u597d\n\tdef f(x): x<|im_end|></s>"
"""Two tokenizers that read this alike are taken to be the same."""
ABOVE_ONE = 1e-3  # how far above 0 rounding may bring the log-probability of a token
PIECES = 16
"""Requests for each one at the same time that are sent before their draws are kept."""


class Served(LanguageModel):
    """A language model behind a server: `sample` draws texts, `log_prob` scores them.

    Items are token ids, so that nothing is encoded twice. Log q is that of the sampling step, with
    temperature, top-k, top-p and bias; before the first draw, a probe finds out whether the
    server's log-probabilities are true, and refuses one whose are not (docs/servers.md).

    Parameters
    ----------
    url : str
        The address of the server, such as ``http://localhost:8000/v1``; ``/v1`` may be left out.
    model : str, optional
        The model's name on the server; it may be left out where there is one.
    max_tokens : int
        Maximum number of tokens in a text.
    prompt : str, optional
        Text before each item; an item is the continuation alone.
    chat : list of dict, optional
        Messages with role and content, instead of a prompt.
    temperature, top_k, top_p
        How texts are drawn.
    logit_bias : dict, optional
        Token id -> what is added to its logit: a boost, for a proposal.
    mask : dict, optional
        What every text must be, as vLLM takes it (``{"regex": "[0-9]+"}``), for a proposal.
    kind : {"vllm", "llama.cpp", "sglang"}, optional
        Kind of the server; it is found out where it is not given.
    tokenizer : optional
        The model's tokenizer, or the folder or hub id of one. By default the server is asked to
        encode and decode. With it, texts are those of a `CausalLM` of the same tokenizer.
    key : str, optional
        Name of the environment variable that holds the server's key; the key is written nowhere.
    concurrency : int
        Most requests at once.
    patience, timeout : float
        Seconds that a request is tried for, while the server is away or busy; and that one answer
        may take.
    trust : bool
        Leave the probe out. Then nothing is certified.

    Notes
    -----
    Draw i is made by one request whose seed comes from (seed, i). Given ids are scored by the
    model itself; with a bias or a temperature, each token takes two more short requests. With a
    cut or a mask `log_prob` is not known, so such a model can be a proposal alone or a base that
    is its own proposal, and not a part of a mixture.

    Examples
    --------
    >>> import quasir as qr
    >>> base = qr.text.Served("http://localhost:8000/v1", prompt="The capital")  # doctest: +SKIP
    >>> draws = qr.draw(base * qr.features.contains(" is"), base, 1_000)  # doctest: +SKIP
    """

    revision = adapter = None

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        max_tokens: int = 40,
        prompt: str | None = None,
        chat: Any = None,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        logit_bias: Mapping[int, float] | None = None,
        mask: Mapping[str, Any] | None = None,
        kind: str | None = None,
        tokenizer: Any = None,
        key: str | None = None,
        concurrency: int = 16,
        patience: float = 300.0,
        timeout: float = 600.0,
        trust: bool = False,
    ) -> None:
        for name, seconds in (("patience", patience), ("timeout", timeout)):
            if not number(name, seconds) > 0:
                raise InputError(f"{name} is {seconds:g} seconds, but must be above 0.")
        self.client = Client(url, key, concurrency, patience, timeout)
        self.protocol = find_protocol(self.client, model, kind)
        self.name, self.trust = self.protocol.model, trust
        self.tokenizer = _find_tokenizer(self.protocol, tokenizer)
        self.probes: dict[Sampling, Probe] = {}
        warp: Any = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        self._set(max_tokens, prompt, chat, logit_bias, mask, **warp)

    def _set(
        self, max_tokens: int, prompt: Any, chat: Any, logit_bias: Any, mask: Any, **warp: Any
    ) -> None:
        """Check and take what can vary from one model of a server to another."""
        given = {"max_tokens": max_tokens, "prompt": prompt, "chat": chat}
        self.settings = given | warp | {"logit_bias": logit_bias, "mask": mask}
        self.max_tokens, self.warp = check_count("max_tokens", max_tokens), Warp(**warp)
        self.sampling = Sampling(
            max_tokens,
            float(self.warp.temperature),
            self.warp.top_k or 0,
            1.0 if self.warp.top_p is None else self.warp.top_p,
            _biases(logit_bias),
            json.dumps(mask, sort_keys=True) if mask else "",
        )
        self.protocol.check(self.sampling)
        self.prompt, self.chat = prompt, as_chat(chat)
        if prompt is not None and self.chat is not None:
            raise InputError("give a prompt or a chat, not both.")
        if self.chat is not None and isinstance(self.tokenizer, ServerTokenizer):
            messages = [{"role": role, "content": content} for role, content in self.chat]
            self.prefix = self.protocol.encode_chat(messages)
        else:
            self.prefix = prefix_tokens(self.tokenizer, prompt, self.chat, self.name)
        context = self.protocol.context
        if context is not None and len(self.prefix) + max_tokens > context:
            raise InputError(
                f"max_tokens = {max_tokens}, after {len(self.prefix)} tokens of prompt, is more "
                f"than the {context} tokens that the server takes: set max_tokens to at most "
                f"{context - len(self.prefix)}, or start the server with a longer context."
            )

    def varied(self, **changes: Any) -> Served:
        """Return a model of the same server with some settings changed."""
        made, kept = copy.copy(self), self.settings
        if {"prompt", "chat"} & changes.keys():  # one replaces the other
            kept = kept | {"prompt": None, "chat": None}
        made._set(**kept | changes)
        return made

    def prompted(self, prompt: str) -> Served:
        """Return this model with a prompt: it draws and scores continuations of the prompt."""
        return self.varied(prompt=prompt)

    @property
    def truncates(self) -> bool:
        """Whether top-k, top-p or a mask gives some texts probability 0."""
        return bool(self.sampling.cuts)

    @property
    def scores_given(self) -> bool:
        """Whether `log_prob` is known, and cheap enough to check draws with."""
        return not self.sampling.used

    @property
    def rows_at_once(self) -> int:
        """Draws to make before they are kept: enough that no request waits for the slowest."""
        return PIECES * self.client.concurrency

    @property
    def probe(self) -> Probe:
        """What is known about the server's log-probabilities; found out at the first call."""
        if self.sampling not in self.probes:
            self.probes[self.sampling] = Prober(self.protocol, self.prefix, self.sampling).run()
        return self.probes[self.sampling]

    @property
    def mismatch(self) -> float:
        """The most that log a of given ids was seen to differ from log q of a draw, in nats."""
        return 0.0 if self.trust else self.probe.mismatch

    def identity(self) -> dict[str, str | None]:
        """Return what tells this model from others, as far as a server says it."""
        from quasir.text.fingerprints import tokenizer_digest

        facts = {f"server_{name}": str(fact) for name, fact in self.protocol.about.items()}
        return {
            "name": self.name,
            "server": self.protocol.kind,
            **facts,
            "tokenizer_sha256": tokenizer_digest(self.tokenizer),
        }

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw n texts, each by a request with a seed of its own, which comes from `rng`."""
        (drawn,) = self._draws([(self, rng.random(n))])
        return Batch(drawn.items, drawn.log_q)

    def sample_together(
        self, models: Sequence[Any], requests: Sequence[Request]
    ) -> list[Part] | None:
        """Draw rows of several models of this server at once; None if there are others."""
        if not all(isinstance(lm, Served) and lm.client is self.client for lm in models):
            return None
        rows = [request.uniforms(1)[:, 0] for request in requests]
        return self._draws(list(zip(models, rows, strict=True)))

    def _draws(self, rows: Sequence[tuple[Served, Array]]) -> list[Part]:
        for lm, _ in rows:
            lm._require("proposal")
        jobs = [(lm, uniform) for lm, own in rows for uniform in own]
        found = iter(self.client.map(lambda job: job[0]._one(job[1]), jobs))
        parts = []
        for _, own in rows:
            drawn = list(islice(found, len(own)))
            log_q = np.array([log_prob for _, log_prob in drawn], dtype=np.float64)
            parts.append(Part(Texts.of([ids for ids, _ in drawn], self.tokenizer), log_q, None))
        return parts

    def _one(self, uniform: float) -> tuple[list[int], float]:
        """Return the ids of a draw, without the token that ends a text, and log q."""
        seed = int(uniform * self.protocol.largest_seed)
        drawn = self.protocol.draw(self.prefix, self.sampling, seed)
        check_drawn(drawn, self.sampling.max_tokens, self.client.root)
        ids = drawn.ids[:-1] if drawn.ended and drawn.ids[-1] == self.end else drawn.ids
        return ids, math.fsum(drawn.log_q)

    def _score(self, texts: Texts) -> Array:
        if cut := " and ".join(self.sampling.cuts):
            raise InputError(
                f"{self!r} draws with {cut}, so log q of a text that it did not draw is not known: "
                "it can be a proposal alone, or a base that is its own proposal. For a mixture, "
                f"which a guarantee needs, leave out {cut}: a temperature, a logit_bias or another "
                "prompt can be mixed with the base."
            )
        self._require("base")

        def score(ids: list[int]) -> float:
            if len(ids) > self.max_tokens or self.end in ids:
                return -math.inf  # it cannot be drawn
            return self.protocol.log_q(self.prefix, ids, self.max_tokens, self.sampling)

        rows = [texts.token_ids(i).tolist() for i in range(len(texts))]
        return np.array(self.client.map(score, rows), dtype=np.float64)

    def log_prob(self, items: Any) -> Array:
        """Return the log-probability that `sample` draws each text with."""
        if isinstance(items, Texts) and not same_tokenizer(items.tokenizer, self.tokenizer):
            raise InputError(
                f"these texts are token ids of another tokenizer than that of {self!r}: use models "
                "of one tokenizer, and give both the same tokenizer=."
            )
        return super().log_prob(items)

    log_score = log_prob

    def _require(self, use: str) -> None:
        """Refuse a server that the probe found to be no good for a use."""
        if not self.trust and use not in self.probe.good_for:
            raise ServerError(
                f"the server at {self.client.root} cannot be a certified {use}. "
                f"{' '.join(self.probe.faults)} `quasir doctor --server {self.client.root}` shows "
                "what was measured."
            )

    def __repr__(self) -> str:
        settings = {name: x for name, x in self.settings.items() if x is not None}
        shown = ", ".join(f"{name}={short_repr(x, 40)}" for name, x in settings.items())
        return f"Served({self.client.root!r}, model={self.name!r}, {shown})"


class ServerTokenizer:
    """The tokenizer of a server, which is asked to encode and decode."""

    is_fast = False

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.bos_token_id, self.eos_token_id = protocol.start, protocol.end
        special = (self.bos_token_id, self.eos_token_id)
        self.all_special_ids = [token for token in special if token is not None]
        self._read = protocol.encode(SAMPLE_TEXT)

    def __len__(self) -> int:
        return self.protocol.vocabulary

    def get_vocab(self) -> dict[str, int]:
        """Return how it reads a text: what tells it from other tokenizers."""
        return {str(i): token for i, token in enumerate(self._read)}

    def __call__(self, text: str | Iterable[str], add_special_tokens: bool = False) -> Any:
        """Encode a text, or several."""
        encode = self.protocol.encode
        ids = encode(text) if isinstance(text, str) else self.protocol.client.map(encode, text)
        return SimpleNamespace(input_ids=ids)

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        """Decode a text."""
        return self.protocol.decode(ids)

    def batch_decode(self, sequences: Iterable[Sequence[int]], **_: Any) -> list[str]:
        """Decode several texts."""
        return self.protocol.client.map(self.protocol.decode, sequences)


def check_drawn(drawn: Drawn, limit: int, root: str) -> None:
    """Refuse an answer that is not a whole draw with the probability of each of its tokens."""
    n, log_q, wrong = len(drawn.ids), np.array(drawn.log_q, dtype=np.float64), ""
    if not n or len(log_q) != n or not (log_q > -np.inf).all():
        wrong = (
            f"drew {n} tokens, but gave {np.isfinite(log_q).sum()} log-probabilities: log q of "
            "such a text is not known"
        )
    elif log_q.max() > ABOVE_ONE:
        wrong = f"gave a token the log-probability {log_q.max():g}: a probability above 1"
    elif not drawn.ended and n != limit:
        wrong = (
            f"cut a text after {n} tokens, but {limit} were asked for and the text had not ended: "
            "its context is too short, or a stop word is set"
        )
    if wrong:
        raise ServerError(f"the server at {root} {wrong}.")


def _find_tokenizer(protocol: Protocol, given: Any) -> Any:
    """Return the tokenizer that is given, or the server's own; the server must read as it does."""
    tokenizer = load_tokenizer(given) if isinstance(given, str) else given
    if tokenizer is None:
        protocol.find_special()
    else:
        protocol.start, protocol.end = tokenizer.bos_token_id, tokenizer.eos_token_id
    if protocol.end is None:
        raise InputError(
            f"the server at {protocol.client.root} does not tell which token ends a text: give "
            "tokenizer, the folder or hub id of the model that it serves."
        )
    if tokenizer is None:
        return ServerTokenizer(protocol)
    if protocol.text_field:  # it is asked how it reads
        own = tokenizer(SAMPLE_TEXT, add_special_tokens=False).input_ids
        if (read := protocol.encode(SAMPLE_TEXT)) != own:
            raise InputError(
                f"the tokenizer {short_repr(given)} reads a text as {short_repr(own, 60)}, and the "
                f"server as {short_repr(read, 60)}: it is not that of the served model."
            )
    return tokenizer


def _biases(given: Any) -> tuple[tuple[int, float], ...]:
    try:
        found = sorted((int(token), float(bias)) for token, bias in (given or {}).items())
    except (AttributeError, TypeError, ValueError):
        found = [(0, math.nan)]
    if not all(abs(bias) <= 100 for _, bias in found):
        raise InputError(
            f"logit_bias is {short_repr(given)}, but must give numbers to token ids, from -100 to "
            "100, as in {7042: 2.0}."
        )
    return tuple(found)
