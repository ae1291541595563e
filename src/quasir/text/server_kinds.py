"""The kinds of servers, in one table: how each draws and scores, and what it is good for.

Every kind gives log-probabilities of its own meaning. A `Protocol` sends the requests that make
them mean one thing: log q of a draw is of the sampling step (after bias, temperature, top-k and
top-p, with the token that ends a text), and log a of given ids is of the model itself, at
temperature 1. `KINDS` says how; the documentation and the errors are made from it.
"""

from __future__ import annotations

import math
import queue
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from quasir.core.formatting import escaped, short_repr
from quasir.errors import InputError, ServerError
from quasir.text.server_client import BadAnswer, Client

ENDS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "</s>",
    "<eos>",
    "<end_of_turn>",
    "<|end|>",
    "<|return|>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
)
"""The usual names of the token that ends a text, where a server does not say which one it is."""
FORCED = 1000.0
"""Logit bias that leaves one token."""
LISTED = 256
"""Most probable tokens that are listed at first, where a token must be found among them."""


@dataclass(frozen=True)
class Sampling:
    """How a server samples."""

    max_tokens: int
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    logit_bias: tuple[tuple[int, float], ...] = ()
    mask: tuple[tuple[str, Any], ...] = ()

    @property
    def cuts(self) -> bool:
        """Whether top-k or top-p removes tokens."""
        return self.top_k is not None or (self.top_p is not None and self.top_p < 1)

    @property
    def is_model(self) -> bool:
        """Whether texts come from the model itself, so that given ids can be scored."""
        return self == Sampling(self.max_tokens)


class Drawn(NamedTuple):
    """A draw: its token ids, with the one that ended it; their log-probabilities; whether it ended.

    A log-probability that the server left out is NaN.
    """

    ids: list[int]
    log_q: list[float]
    ended: bool


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a server says about its model."""

    model: str
    context: int | None  # the most tokens of a prompt and a text
    end: int | None  # the token that ends a text
    start: int | None  # the token that begins one
    vocabulary: int = 0
    about: Mapping[str, Any]  # what tells this model from another of the same name


class Protocol:
    """How to talk to one kind of server."""

    kind: ClassVar[Kind]
    largest_seed = 2**53

    def __init__(self, client: Client, listed: Mapping[str, Any]) -> None:
        self.client, self.listed, self.model = client, listed, str(listed["id"])
        self.facts = Facts(model=self.model, context=None, end=None, start=None, about={})

    def find_special(self) -> None:
        """Find the tokens that begin and end a text, where the server can tell."""

    def check(self, sampling: Sampling) -> None:
        """Refuse settings whose effect this kind leaves out of its log-probabilities."""
        if sampling.mask:
            raise InputError(
                f"{self.kind.title} does not give the log-probabilities of masked draws, so a "
                "mask cannot be certified with it: vLLM does."
            )

    def draw(self, prefix: Sequence[int], sampling: Sampling, seed: int) -> Drawn:
        """Draw a text after the prefix."""
        raise NotImplementedError

    def score(self, prefix: Sequence[int], ids: Sequence[int], limit: int) -> float:
        """Return log a of given ids, at most `limit`: with the end if they are fewer."""
        raise NotImplementedError

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; the names of special tokens are read as such."""
        raise InputError(self._no_tokenizer())

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of some ids."""
        raise InputError(self._no_tokenizer())

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        """Return the ids of a chat, up to the assistant's answer."""
        raise InputError(self._no_tokenizer())

    def _no_tokenizer(self) -> str:
        return (
            f"{self.kind.title} is not asked for its tokenizer: give tokenizer=, the folder or "
            "hub id of the model that it serves."
        )

    def _one_token(self, text: str) -> int | None:
        found = self.encode(text)
        return found[0] if len(found) == 1 else None

    def _ends(self, token: int) -> bool:
        """Find out whether a token ends a text: it is made certain, and two are asked for."""
        drawn = self.draw([token], Sampling(2, logit_bias=((token, 100.0),)), 0)
        return drawn.ended and drawn.ids == [token]


class VLLM(Protocol):
    """vLLM, started with processed log-probabilities."""

    def __init__(self, client: Client, listed: Mapping[str, Any]) -> None:
        super().__init__(client, listed)
        version = client.ask("/version", read=lambda answer: answer["version"])
        self.facts = replace(
            self.facts, context=listed.get("max_model_len"), about={"vllm": version}
        )

    def find_special(self) -> None:
        """Find the tokens that begin and end a text: the server does not name them."""
        added = self._ask_tokens({"prompt": "a", "add_special_tokens": True})
        start = added[0] if len(added) > 1 else None
        named = map(self._one_token, ENDS)
        end = next((token for token in named if token is not None and self._ends(token)), None)
        self.facts = replace(self.facts, start=start, end=end)

    def check(self, sampling: Sampling) -> None:
        """Refuse nothing: processed log-probabilities are of what is sampled from."""

    def draw(self, prefix: Sequence[int], sampling: Sampling, seed: int) -> Drawn:
        """Draw a text after the prefix."""
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": list(prefix),
            "max_tokens": sampling.max_tokens,
            "logprobs": 0,
            "return_token_ids": True,
            "seed": seed,
            "temperature": sampling.temperature,
            "top_k": sampling.top_k or 0,
            "top_p": 1.0 if sampling.top_p is None else sampling.top_p,
            # The model's own defaults would count where nothing is said.
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "skip_special_tokens": False,
        }
        if self.facts.end is not None:  # this token ends a text, and no other
            body |= {"ignore_eos": True, "stop_token_ids": [self.facts.end]}
        if sampling.logit_bias:
            body["logit_bias"] = {str(token): bias for token, bias in sampling.logit_bias}
        if sampling.mask:
            body["structured_outputs"] = dict(sampling.mask)
        return self.client.ask("/v1/completions", body, self._read)

    def _read(self, answer: Any) -> Drawn:
        choice = answer["choices"][0]
        if choice.get("token_ids") is None or choice.get("logprobs") is None:
            raise ServerError(
                f"the server at {self.client.root} gives no token ids with its log-probabilities, "
                "so texts would have to be encoded again, which is not a bijection. A vLLM of "
                "version 0.10.2 or later does (return_token_ids)."
            )
        ended = choice["finish_reason"] == "stop"
        return Drawn(list(choice["token_ids"]), choice["logprobs"]["token_logprobs"], ended)

    def score(self, prefix: Sequence[int], ids: Sequence[int], limit: int) -> float:
        """Return log a of given ids from one pass over them as a prompt."""
        ends = [] if len(ids) >= limit or self.facts.end is None else [self.facts.end]
        whole = [*prefix, *ids, *ends]
        body = {"model": self.model, "prompt": whole, "echo": True, "max_tokens": 0, "logprobs": 0}

        def read(answer: Any) -> float:
            found = answer["choices"][0]["logprobs"]["token_logprobs"]
            if len(found) != len(whole):
                raise BadAnswer(f"{len(found)} log-probabilities of {len(whole)} tokens")
            return math.fsum(found[len(prefix) :])

        return self.client.ask("/v1/completions", body, read)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""
        return self._ask_tokens({"prompt": text, "add_special_tokens": False})

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of some ids."""
        body = {"model": self.model, "tokens": list(ids)}
        return self.client.ask("/detokenize", body, lambda answer: str(answer["prompt"]))

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        """Return the ids of a chat, by the template of the server."""
        return self._ask_tokens({"messages": messages, "add_generation_prompt": True})

    def _ask_tokens(self, body: Mapping[str, Any]) -> list[int]:
        body = {"model": self.model, **body}
        return self.client.ask("/tokenize", body, lambda answer: list(answer["tokens"]))


class LlamaCpp(Protocol):
    """The server of llama.cpp.

    Log q of a draw is of the sampling step only with `post_sampling_probs`. The entry of a token
    that leaves a character of several bytes unfinished is absent; it is looked up in the list of
    most probable tokens. Given ids are scored one by one: a bias makes the token certain, and the
    log-probability, without `post_sampling_probs`, is that without the bias. (A grammar of tokens
    would take one request, but fails on unfinished characters, and stopped the server.)
    """

    largest_seed = 2**32 - 1  # which means a random one

    def __init__(self, client: Client, listed: Mapping[str, Any]) -> None:
        super().__init__(client, listed)
        self.props: dict[str, Any] = client.ask("/props")
        meta = dict(listed.get("meta") or {})
        self.facts = replace(
            self.facts,
            context=self.props["default_generation_settings"].get("n_ctx"),
            vocabulary=int(meta.get("n_vocab", 0)),
            about={name: meta.get(name) for name in ("n_params", "size", "ftype")},
        )
        self._slots: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._open_slots()

    def _open_slots(self) -> None:
        for slot in range(int(self.props.get("total_slots", 1))):
            self._slots.put(slot)

    def __getstate__(self) -> dict[str, Any]:
        return {name: x for name, x in vars(self).items() if name != "_slots"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _slots=queue.SimpleQueue())
        self._open_slots()

    def find_special(self) -> None:
        """Find the tokens that begin and end a text, by the names that the server gives."""
        names = [str(self.props.get(name) or "") for name in ("bos_token", "eos_token")]
        start, end = (self._one_token(name) if name else None for name in names)
        self.facts = replace(self.facts, start=start, end=end)

    def _body(self, prefix: Sequence[int], n: int, **more: Any) -> dict[str, Any]:
        return {
            "prompt": list(prefix),
            "n_predict": n,
            "n_probs": 1,
            "return_tokens": True,
            "cache_prompt": True,
            "samplers": ["temperature"],
            "temperature": 1.0,
            "top_k": 0,
            "top_p": 1.0,
            "min_p": 0.0,
            **more,
        }

    def draw(self, prefix: Sequence[int], sampling: Sampling, seed: int) -> Drawn:
        """Draw a text after the prefix."""
        body = self._body(
            prefix,
            sampling.max_tokens,
            post_sampling_probs=True,
            seed=seed,
            samplers=["temperature", "top_k", "top_p"],
            temperature=sampling.temperature,
            top_k=sampling.top_k or 0,
            top_p=1.0 if sampling.top_p is None else sampling.top_p,
            logit_bias=[[token, bias] for token, bias in sampling.logit_bias],
        )
        drawn = self.client.ask("/completion", body, self._read)
        for i in np.flatnonzero(np.isnan(drawn.log_q)):
            before = [*prefix, *drawn.ids[:i]]
            drawn.log_q[i] = self._listed(before, drawn.ids[i], sampling)
        return drawn

    def _read(self, answer: Any) -> Drawn:
        speculative = answer["generation_settings"].get("speculative.types", "none")
        if speculative != "none":
            raise ServerError(
                f"the server at {self.client.root} drafts tokens ({escaped(str(speculative))}), "
                "and llama.cpp reports p = 1 for a token that was drafted. Start it without a "
                "draft model."
            )
        ids, entries = answer["tokens"], answer.get("completion_probabilities") or []
        log_q, j = [], 0
        for token in ids:
            log_prob = math.nan
            if j < len(entries) and entries[j]["id"] == token:
                if entries[j]["prob"] > 0:
                    log_prob = math.log(entries[j]["prob"])
                j += 1
            log_q.append(log_prob)
        if j < len(entries):
            raise BadAnswer(f"{len(entries)} probabilities that do not fit {len(ids)} tokens")
        return Drawn(list(ids), log_q, answer["stop_type"] == "eos")

    def _listed(self, prefix: Sequence[int], token: int, sampling: Sampling) -> float:
        """Return the log-probability of a token from the list of most probable ones.

        Another token is made certain, whose text is whole; that does not change the list.
        """
        plain = self.encode("a")[0]
        for n in [LISTED] * sampling.is_model + [self.facts.vocabulary]:
            body = self._body(prefix, 1, n_probs=n, logit_bias=[[plain, FORCED]])
            found = self.client.ask(
                "/completion",
                body,
                lambda answer: {
                    entry["id"]: entry["logprob"]
                    for entry in answer["completion_probabilities"][0]["top_logprobs"]
                },
            )
            if token in found:
                return found[token] if sampling.is_model else _warped(found, token, sampling)
        raise ServerError(f"the server at {self.client.root} does not list token {token}.")

    def score(self, prefix: Sequence[int], ids: Sequence[int], limit: int) -> float:
        """Return log a of given ids, token by token; the rest is in the server's cache."""
        end = self.facts.end
        tokens = [*ids] if len(ids) >= limit or end is None else [*ids, end]
        total, slot = 0.0, self._slots.get()
        try:
            for i, token in enumerate(tokens):
                before = [*prefix, *tokens[:i]]
                log_prob, ends = self._forced(before, token, slot)
                total += log_prob
                if ends and i < len(ids) - 1:
                    return -math.inf  # nothing is drawn after a token that ends the text
                if ends:
                    return total
        finally:
            self._slots.put(slot)
        return total

    def _forced(self, prefix: Sequence[int], token: int, slot: int) -> tuple[float, bool]:
        """Return log a of one token, and whether it ends a text."""

        def read(answer: Any) -> tuple[float, bool]:
            if answer["tokens"] != [token]:
                raise BadAnswer(f"token {answer['tokens']} in place of {token}")
            entries = answer.get("completion_probabilities")
            return entries[0]["logprob"] if entries else math.nan, answer["stop_type"] == "eos"

        body = self._body(prefix, 1, logit_bias=[[token, FORCED]], id_slot=slot)
        log_prob, ends = self.client.ask("/completion", body, read)
        return self._listed(prefix, token, Sampling(1)) if math.isnan(log_prob) else log_prob, ends

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""
        body = {"content": text, "add_special": False, "parse_special": True}
        return self.client.ask("/tokenize", body, lambda answer: list(answer["tokens"]))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of some ids."""
        body = {"tokens": list(ids)}
        return self.client.ask("/detokenize", body, lambda answer: str(answer["content"]))

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        """Return the ids of a chat, by the template of the server."""
        written = self.client.ask(
            "/apply-template", {"messages": messages}, lambda answer: str(answer["prompt"])
        )
        return self.encode(written)


def _warped(raw: Mapping[int, float], token: int, sampling: Sampling) -> float:
    """Return the log-probability of a token after bias, temperature, top-k and top-p."""
    logits = dict(raw)
    for biased, bias in sampling.logit_bias:
        logits[biased] += bias
    names = np.array(sorted(logits, key=lambda i: -logits[i]))
    falling = np.array([logits[i] for i in names]) / sampling.temperature
    if sampling.top_k is not None:
        falling = falling[: sampling.top_k]
    falling = falling - np.logaddexp.reduce(falling)
    if sampling.top_p is not None:
        kept = np.searchsorted(np.cumsum(np.exp(falling)), sampling.top_p) + 1
        falling = falling[:kept] - np.logaddexp.reduce(falling[:kept])
    place = int(np.flatnonzero(names == token)[0])
    return float(falling[place]) if place < len(falling) else -math.inf


class SGLang(Protocol):
    """SGLang, by its documented format."""

    def __init__(self, client: Client, listed: Mapping[str, Any]) -> None:
        super().__init__(client, listed)
        self.facts = replace(self.facts, context=listed.get("max_model_len"))

    def check(self, sampling: Sampling) -> None:
        """Refuse top-k and top-p, which its log-probabilities leave out."""
        super().check(sampling)
        if sampling.cuts:
            raise InputError(
                "SGLang's log-probabilities leave out top_k and top_p, so log q would not be that "
                "of the draw: leave them out."
            )

    def draw(self, prefix: Sequence[int], sampling: Sampling, seed: int) -> Drawn:
        """Draw a text after the prefix."""
        how: dict[str, Any] = {
            "max_new_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_k": -1,
            "top_p": 1.0,
            "min_p": 0.0,
            "sampling_seed": seed,
        }
        if self.facts.end is not None:
            how |= {"ignore_eos": True, "stop_token_ids": [self.facts.end]}
        if sampling.logit_bias:
            how["logit_bias"] = {str(token): bias for token, bias in sampling.logit_bias}
        body = {"input_ids": list(prefix), "sampling_params": how, "return_logprob": True}

        def read(answer: Any) -> Drawn:
            meta = answer["meta_info"]
            pairs = meta["output_token_logprobs"]
            ended = meta["finish_reason"]["type"] == "stop"
            return Drawn([pair[1] for pair in pairs], [pair[0] for pair in pairs], ended)

        return self.client.ask("/generate", body, read)

    def score(self, prefix: Sequence[int], ids: Sequence[int], limit: int) -> float:
        """Return log a of given ids from one pass over them as a prompt."""
        ends = [] if len(ids) >= limit or self.facts.end is None else [self.facts.end]
        whole = [*prefix, *ids, *ends]
        body = {
            "input_ids": whole,
            "sampling_params": {"max_new_tokens": 0, "temperature": 1.0},
            "return_logprob": True,
            "logprob_start_len": 0,
        }

        def read(answer: Any) -> float:
            pairs = answer["meta_info"]["input_token_logprobs"]
            if [pair[1] for pair in pairs] != whole:
                raise BadAnswer(f"log-probabilities of {len(pairs)} tokens, not of {len(whole)}")
            return math.fsum(pair[0] for pair in pairs[len(prefix) :])

        return self.client.ask("/generate", body, read)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of server. Texts are for the documentation and for errors."""

    name: str
    title: str
    owner: str  # what its list of models gives as their owner
    protocol: type[Protocol] | None = None
    start: str = ""  # the command that starts it
    drawn: str = ""  # how log q of a draw is found
    given: str = ""  # how log a of given ids is found
    run: str = ""  # how we tested it
    refused: str = ""  # why it cannot be certified


KINDS = (
    Kind(
        name="vllm",
        title="vLLM",
        owner="vllm",
        protocol=VLLM,
        start="vllm serve MODEL --logprobs-mode processed_logprobs",
        drawn="processed log-probabilities: with bias, mask, temperature, top-k and top-p",
        given="one pass over the ids as a prompt; always of the model itself",
        run="run: `make test-vllm` (version 0.32 on a CPU, float32)",
    ),
    Kind(
        name="llama.cpp",
        title="llama.cpp",
        owner="llamacpp",
        protocol=LlamaCpp,
        start="llama-server -m MODEL.gguf --parallel 4",
        drawn="`post_sampling_probs`: with bias, temperature, top-k and top-p",
        given="one short request for each token, by a bias that its raw log-probability ignores",
        run="run: `make test` (xllamacpp on a CPU, Q4_1)",
    ),
    Kind(
        name="sglang",
        title="SGLang",
        owner="sglang",
        protocol=SGLang,
        start="python -m sglang.launch_server --model-path MODEL --enable-deterministic-inference",
        drawn="`return_logprob`: with bias and temperature; top-k and top-p are refused",
        given="one pass over the ids as a prompt (`logprob_start_len: 0`)",
        run="not run by us: written after its documentation, tested with recorded answers",
    ),
    Kind(
        name="ollama",
        title="Ollama",
        owner="library",
        refused="it cannot score given ids, and gives no token ids. It runs GGUF files, as "
        "llama.cpp's server does: serve the same file with that one",
    ),
    Kind(
        name="tgi",
        title="TGI",
        owner="tgi",
        refused="it takes no token ids, so texts would be encoded twice, and its "
        "log-probabilities leave out temperature, top-k and top-p",
    ),
    Kind(
        name="openai",
        title="OpenAI's own API",
        owner="openai",
        refused="it gives no token ids, cannot score given ones, and does not repeat a draw by its "
        "seed",
    ),
)
"""All kinds that are told apart, those that can be certified first."""


def find_protocol(client: Client, model: str | None, kind: str | None) -> Protocol:
    """Find out the kind of a server and its model, and how to talk to it."""
    listed = client.ask("/v1/models", read=lambda answer: list(answer["data"]))
    if not listed:
        raise ServerError(f"the server at {client.root} has no model loaded.")
    names = [str(entry.get("id")) for entry in listed]
    if model is None and len(names) > 1:
        raise InputError(
            f"the server at {client.root} has {len(names)} models: give model, one of "
            f"{', '.join(map(short_repr, names))}."
        )
    if model is not None and model not in names:
        raise InputError(
            f"the server at {client.root} has no model {short_repr(model)}: it has "
            f"{', '.join(map(short_repr, names))}."
        )
    entry = listed[0 if model is None else names.index(model)]
    found = find_kind(kind, str(entry.get("owned_by", "")), client.root)
    assert found.protocol is not None
    return found.protocol(client, entry)


def find_kind(name: str | None, owner: str, root: str) -> Kind:
    """Return a kind by its name, or else by the owner of the server's models."""
    known = [kind.name for kind in KINDS if kind.protocol]
    found = [kind for kind in KINDS if (owner == kind.owner if name is None else name == kind.name)]
    if not found:
        told = f"owned by {short_repr(owner)}" if name is None else f"not {short_repr(name)}"
        raise InputError(
            f"the kind of the server at {root} is not known ({told}): give kind, one of "
            f"{', '.join(known)}, if it is one of them. Others cannot be certified, because "
            "nobody has found out what their log-probabilities mean."
        )
    if found[0].protocol is None:
        raise InputError(
            f"the server at {root} is of the kind {found[0].title}, which cannot be a certified "
            f"base or proposal: {found[0].refused}. The kinds that can are {', '.join(known)}."
        )
    return found[0]


for _kind in KINDS:
    if _kind.protocol is not None:
        _kind.protocol.kind = _kind
