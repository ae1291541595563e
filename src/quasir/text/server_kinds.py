"""The kinds of servers, in one table: how each draws and scores, and what it is good for.

Every kind gives log-probabilities of its own meaning. A `Protocol` sends the requests that make
them mean one thing: log q of a draw is of the sampling step (after bias, temperature, top-k and
top-p, with the token that ends a text), and log a of given ids is of the model itself, at
temperature 1. `KINDS` says how; the documentation and the errors are made from it.
"""

from __future__ import annotations

import json
import math
import queue
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from quasir.core.formatting import escaped, short_repr
from quasir.errors import InputError, ServerError
from quasir.text.server_client import BadAnswer, Client

ENDS = (
    *("<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"),
    *("<end_of_turn>", "<|end|>", "<|return|>", "<\uff5cend\u2581of\u2581sentence\uff5c>"),
)
"""The usual names of the token that ends a text, where a server does not say which one it is."""
FORCED = 1000.0  # logit bias that leaves one token
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
    mask: str = ""  # as JSON

    @property
    def cuts(self) -> bool:
        """Whether top-k or top-p removes tokens."""
        return self.top_k is not None or self.top_p is not None

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


class Protocol:
    """How to talk to one kind of server, and what it says about its model."""

    kind: ClassVar[Kind]
    largest_seed = 2**53

    def __init__(self, client: Client, listed: Mapping[str, Any]) -> None:
        self.client, self.model = client, str(listed["id"])
        self.context: int | None = listed.get("max_model_len")  # tokens of a prompt and a text
        self.vocabulary = 0  # its size, where that is known
        self.start: int | None = None  # the token that begins a text
        self.end: int | None = None  # the token that ends one
        self.about: dict[str, Any] = {}  # what tells this model from another of the same name

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
        raise InputError(
            f"{self.kind.title} is not asked for its tokenizer: give tokenizer=, the folder or "
            "hub id of the model that it serves."
        )

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of some ids."""
        raise NotImplementedError

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        """Return the ids of a chat, up to the assistant's answer."""
        raise NotImplementedError

    def ends(self, token: int) -> bool:
        """Find out whether a token ends a text: it is made certain, and two are asked for."""
        drawn = self.draw([token], Sampling(2, logit_bias=((token, 100.0),)), 0)
        return drawn.ended and drawn.ids == [token]

    def _with_end(self, ids: Sequence[int], limit: int) -> list[int]:
        return [*ids] if len(ids) >= limit or self.end is None else [*ids, self.end]

    def _one_token(self, text: str) -> int | None:
        found = self.encode(text)
        return found[0] if len(found) == 1 else None


class _VLLM(Protocol):
    """vLLM, started with processed log-probabilities."""

    def __init__(self, client: Client, listed: Mapping[str, Any]) -> None:
        super().__init__(client, listed)
        self.about["vllm"] = client.ask("/version", read=lambda answer: answer["version"])

    def find_special(self) -> None:
        added = self._tokens(prompt="a", add_special_tokens=True)
        self.start = added[0] if len(added) > 1 else None
        named = map(self._one_token, ENDS)
        self.end = next((token for token in named if token is not None and self.ends(token)), None)

    def check(self, sampling: Sampling) -> None:
        pass  # processed log-probabilities are of what is sampled from

    def draw(self, prefix: Sequence[int], sampling: Sampling, seed: int) -> Drawn:
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
        }
        if self.end is not None:  # this token ends a text, and no other
            body |= {"ignore_eos": True, "stop_token_ids": [self.end]}
        if sampling.logit_bias:
            body["logit_bias"] = {str(token): bias for token, bias in sampling.logit_bias}
        if sampling.mask:
            body["structured_outputs"] = json.loads(sampling.mask)
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
        whole = [*prefix, *self._with_end(ids, limit)]
        body = {"model": self.model, "prompt": whole, "echo": True, "max_tokens": 0, "logprobs": 0}

        def read(answer: Any) -> float:
            found = answer["choices"][0]["logprobs"]["token_logprobs"]
            if len(found) != len(whole):
                raise BadAnswer(f"{len(found)} log-probabilities of {len(whole)} tokens")
            return math.fsum(found[len(prefix) :])

        return self.client.ask("/v1/completions", body, read)

    def encode(self, text: str) -> list[int]:
        return self._tokens(prompt=text, add_special_tokens=False)

    def decode(self, ids: Sequence[int]) -> str:
        body = {"model": self.model, "tokens": list(ids)}
        return self.client.ask("/detokenize", body, lambda answer: str(answer["prompt"]))

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        return self._tokens(messages=messages, add_generation_prompt=True)

    def _tokens(self, **body: Any) -> list[int]:
        body = {"model": self.model, **body}
        return self.client.ask("/tokenize", body, lambda answer: list(answer["tokens"]))


class _LlamaCpp(Protocol):
    """The server of llama.cpp.

    Log q of a draw is of the sampling step only with `post_sampling_probs`. The entry of a token
    that leaves a character of several bytes unfinished is absent; it is looked up in the list of
    most probable tokens. Given ids are scored one by one: a bias makes the token certain, and the
    log-probability, without `post_sampling_probs`, is that without the bias. (A grammar of tokens
    would take one request, but fails on unfinished characters, and stopped the server.)
    """

    largest_seed = 2**32 - 1  # which itself means a random one

    def __init__(self, client: Client, listed: Mapping[str, Any]) -> None:
        super().__init__(client, listed)
        self.props: dict[str, Any] = client.ask("/props")
        self.context = self.props["default_generation_settings"].get("n_ctx")
        meta = listed.get("meta") or {}
        self.vocabulary = int(meta.get("n_vocab", 0))
        self.about = {name: meta.get(name) for name in ("n_params", "size", "ftype")}
        self._open_slots()

    def _open_slots(self) -> None:
        self._slots: queue.SimpleQueue[int] = queue.SimpleQueue()
        for slot in range(int(self.props.get("total_slots", 1))):
            self._slots.put(slot)

    def __getstate__(self) -> dict[str, Any]:
        return {name: x for name, x in vars(self).items() if name != "_slots"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open_slots()

    def find_special(self) -> None:
        names = [str(self.props.get(name) or "") for name in ("bos_token", "eos_token")]
        self.start, self.end = (self._one_token(name) if name else None for name in names)

    def _ask(self, read: Any, prefix: Sequence[int], n: int, **more: Any) -> Any:
        body = {
            "prompt": list(prefix),
            "n_predict": n,
            "n_probs": 1,
            "return_tokens": True,
            "cache_prompt": True,
            "samplers": ["temperature", "top_k", "top_p"],
            "temperature": 1.0,
            "top_k": 0,
            "top_p": 1.0,
            "min_p": 0.0,
        }
        return self.client.ask("/completion", body | more, read)

    def draw(self, prefix: Sequence[int], sampling: Sampling, seed: int) -> Drawn:
        drawn: Drawn = self._ask(
            self._read,
            prefix,
            sampling.max_tokens,
            post_sampling_probs=True,
            seed=seed,
            temperature=sampling.temperature,
            top_k=sampling.top_k or 0,
            top_p=1.0 if sampling.top_p is None else sampling.top_p,
            logit_bias=[[token, bias] for token, bias in sampling.logit_bias],
        )
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
        log_q, left = [], list(answer.get("completion_probabilities") or [])
        for token in answer["tokens"]:
            own = left.pop(0)["prob"] if left and left[0]["id"] == token else 0.0
            log_q.append(math.log(own) if own > 0 else math.nan)
        if left:
            raise BadAnswer(f"{len(left)} probabilities of tokens that were not drawn")
        return Drawn(list(answer["tokens"]), log_q, answer["stop_type"] == "eos")

    def _listed(self, prefix: Sequence[int], token: int, sampling: Sampling) -> float:
        """Return the log-probability of a token from the list of most probable ones.

        Another token is made certain, whose text is whole; that does not change the list.
        """
        plain = self.encode("a")[0]

        def read(answer: Any) -> dict[int, float]:
            listed = answer["completion_probabilities"][0]["top_logprobs"]
            return {entry["id"]: entry["logprob"] for entry in listed}

        model = sampling.is_model
        for n in [LISTED] * model + [self.vocabulary or 10**6]:
            found = self._ask(read, prefix, 1, n_probs=n, logit_bias=[[plain, FORCED]])
            if token in found:
                return float(found[token]) if model else _warped(found, token, sampling)
        raise ServerError(f"the server at {self.client.root} does not list token {token}.")

    def score(self, prefix: Sequence[int], ids: Sequence[int], limit: int) -> float:
        """Score token by token; what came before is in the server's cache, in one slot."""
        tokens = self._with_end(ids, limit)
        total, slot = 0.0, self._slots.get()
        try:
            for i, token in enumerate(tokens):
                log_prob, ends = self._forced([*prefix, *tokens[:i]], token, slot)
                total += log_prob
                if ends:  # nothing is drawn after a token that ends the text
                    return total if i >= len(ids) - 1 else -math.inf
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

        log_prob, ends = self._ask(read, prefix, 1, logit_bias=[[token, FORCED]], id_slot=slot)
        return self._listed(prefix, token, Sampling(1)) if math.isnan(log_prob) else log_prob, ends

    def encode(self, text: str) -> list[int]:
        body = {"content": text, "add_special": False, "parse_special": True}
        return self.client.ask("/tokenize", body, lambda answer: list(answer["tokens"]))

    def decode(self, ids: Sequence[int]) -> str:
        body = {"tokens": list(ids)}
        return self.client.ask("/detokenize", body, lambda answer: str(answer["content"]))

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        body = {"messages": messages}
        return self.encode(self.client.ask("/apply-template", body, lambda x: str(x["prompt"])))


def _warped(raw: Mapping[int, float], token: int, sampling: Sampling) -> float:
    """Return the log-probability of a token after bias, temperature, top-k and top-p."""
    logits = dict(raw)
    for biased, bias in sampling.logit_bias:
        logits[biased] += bias
    names = sorted(logits, key=lambda i: -logits[i])[: sampling.top_k]
    falling = np.array([logits[i] for i in names]) / sampling.temperature
    falling -= np.logaddexp.reduce(falling)
    if sampling.top_p is not None:
        kept = np.searchsorted(np.cumsum(np.exp(falling)), sampling.top_p) + 1
        falling = falling[:kept] - np.logaddexp.reduce(falling[:kept])
    found = dict(zip(names, falling.tolist(), strict=False))
    return float(found.get(token, -math.inf))


class _SGLang(Protocol):
    """SGLang, by its documented format."""

    def check(self, sampling: Sampling) -> None:
        super().check(sampling)
        if sampling.cuts:
            raise InputError(
                "SGLang's log-probabilities leave out top_k and top_p, so log q would not be that "
                "of the draw: leave them out."
            )

    def draw(self, prefix: Sequence[int], sampling: Sampling, seed: int) -> Drawn:
        how: dict[str, Any] = {
            "max_new_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_k": -1,
            "top_p": 1.0,
            "min_p": 0.0,
            "sampling_seed": seed,
            "ignore_eos": True,
            "stop_token_ids": [self.end],
        }
        if sampling.logit_bias:
            how["logit_bias"] = {str(token): bias for token, bias in sampling.logit_bias}

        def read(answer: Any) -> Drawn:
            meta = answer["meta_info"]
            pairs = meta["output_token_logprobs"]
            ended = meta["finish_reason"]["type"] == "stop"
            return Drawn([pair[1] for pair in pairs], [pair[0] for pair in pairs], ended)

        body = {"input_ids": list(prefix), "sampling_params": how, "return_logprob": True}
        return self.client.ask("/generate", body, read)

    def score(self, prefix: Sequence[int], ids: Sequence[int], limit: int) -> float:
        whole = [*prefix, *self._with_end(ids, limit)]
        how = {"max_new_tokens": 0, "temperature": 1.0}
        body = {"input_ids": whole, "sampling_params": how, "return_logprob": True}

        def read(answer: Any) -> float:
            pairs = answer["meta_info"]["input_token_logprobs"]
            if [pair[1] for pair in pairs] != whole:
                raise BadAnswer(f"log-probabilities of {len(pairs)} tokens, not of {len(whole)}")
            return math.fsum(pair[0] for pair in pairs[len(prefix) :])

        return self.client.ask("/generate", body | {"logprob_start_len": 0}, read)


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
        protocol=_VLLM,
        start="vllm serve MODEL --logprobs-mode processed_logprobs",
        drawn="processed log-probabilities: with bias, mask, temperature, top-k and top-p",
        given="one pass over the ids as a prompt; always of the model itself",
        run="run: `make test-vllm` (version 0.32 on a CPU, float32)",
    ),
    Kind(
        name="llama.cpp",
        title="llama.cpp",
        owner="llamacpp",
        protocol=_LlamaCpp,
        start="llama-server -m MODEL.gguf --parallel 4",
        drawn="`post_sampling_probs`: with bias, temperature, top-k and top-p",
        given="one short request for each token, by a bias that its raw log-probability ignores",
        run="run: `make test` (xllamacpp on a CPU, Q4_1)",
    ),
    Kind(
        name="sglang",
        title="SGLang",
        owner="sglang",
        protocol=_SGLang,
        start="python -m sglang.launch_server --model-path MODEL --enable-deterministic-inference",
        drawn="`return_logprob`: with bias and temperature; top-k and top-p are refused",
        given="one pass over the ids as a prompt (`logprob_start_len: 0`)",
        run="not run by us: written after its documentation, tested with recorded answers",
    ),
    Kind(
        name="ollama",
        title="Ollama",
        owner="library",
        refused="by its documentation it cannot score given ids. It runs GGUF files, as "
        "llama.cpp's server does: serve the same file with that one",
    ),
    Kind(
        name="tgi",
        title="TGI",
        owner="tgi",
        refused="by its documentation it takes texts and no token ids, so what is scored would be "
        "encoded twice",
    ),
    Kind(
        name="openai",
        title="OpenAI's own API",
        owner="openai",
        refused="by its documentation it gives no token ids, and cannot score given ones",
    ),
)
"""All kinds that are told apart, those that can be certified first."""
for _kind in KINDS:
    if _kind.protocol is not None:
        _kind.protocol.kind = _kind


def find_protocol(client: Client, model: str | None, kind: str | None) -> Protocol:
    """Find out the kind of a server and its model, and how to talk to it."""
    listed = client.ask("/v1/models", read=lambda answer: list(answer["data"]))
    names = [str(entry.get("id")) for entry in listed]
    if not listed:
        raise ServerError(f"the server at {client.root} has no model loaded.")
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
    owner = str(entry.get("owned_by", ""))
    known = ", ".join(kind.name for kind in KINDS if kind.protocol)
    for found in KINDS:
        if owner == found.owner if kind is None else kind == found.name:
            if found.protocol is not None:
                return found.protocol(client, entry)
            raise InputError(
                f"the server at {client.root} is of the kind {found.title}, which cannot be a "
                f"certified base or proposal: {found.refused}. The kinds that can are {known}."
            )
    told = f"owned by {short_repr(owner)}" if kind is None else f"not {short_repr(kind)}"
    raise InputError(
        f"the kind of the server at {client.root} is not known ({told}): give kind, one of "
        f"{known}, if it is one of them. Others cannot be certified, because nobody has found out "
        "what their log-probabilities mean."
    )


def document() -> str:
    """Return the kinds in Markdown: the table of what is certified, and how each is started."""
    rows = ["| server | log q of a draw | log a of given ids | tested |", "|---|---|---|---|"]
    certified = [kind for kind in KINDS if kind.protocol]
    rows += [f"| {kind.title} | {kind.drawn} | {kind.given} | {kind.run} |" for kind in certified]
    rows += [f"| {k.title} | refused: {k.refused} | | |" for k in KINDS if k.refused]
    starts = [f"# {kind.title}\n{kind.start}" for kind in certified]
    return "\n".join([*rows, "", "```sh", *starts, "```"])
