"""The kinds of servers: the requests that make their log-probabilities mean one thing.

Log q of a draw is of the sampling step (after bias, temperature, top-k and top-p, with the token
that ends a text); log a of given ids is of the model itself. docs/servers.md has them in a table.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from quasir.core.formatting import escaped, short_repr
from quasir.errors import InputError, ServerError
from quasir.text.decoding import Warp
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
    """How a server samples; by default from the model itself."""

    max_tokens: int
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    mask: str = ""  # as JSON

    @property
    def used(self) -> list[str]:
        """The settings that make it differ from the model itself."""
        plain = Sampling(self.max_tokens)
        return [name for name, value in vars(self).items() if value != getattr(plain, name)]

    @property
    def cuts(self) -> list[str]:
        """The settings that remove tokens: with them, log q of given ids is not known."""
        return [name for name in self.used if name in ("top_k", "top_p", "mask")]


class Drawn(NamedTuple):
    """Token ids, with the one that ended the text; log q of each, NaN if left out; if it ended."""

    ids: list[int]
    log_q: list[float]
    ended: bool


class Protocol:
    """How to talk to one kind of server, and what it says about its model."""

    kind: ClassVar[str]
    title: ClassVar[str]
    owner: ClassVar[str]  # what its list of models gives as their owner
    leaves_out: ClassVar[tuple[str, ...]] = ()  # settings that its log q does not count: refused
    largest_seed = 2**53
    text_field = ""  # what its tokenizer calls a text, where it is asked
    plain_text: ClassVar[Mapping[str, Any]] = {}  # so that nothing is added to a text

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
        """Refuse settings that this kind leaves out of its log-probabilities."""
        left_out = [name for name in sampling.used if name in self.leaves_out]
        if left_out:
            raise InputError(
                f"{self.title} does not count {' and '.join(left_out)} in its "
                "log-probabilities, so log q would not be that of the draw. Leave this setting "
                "out, or serve the model with vLLM."
            )

    def draw(self, prefix: Sequence[int], sampling: Sampling, seed: int) -> Drawn:
        """Draw a text after the prefix."""
        raise NotImplementedError

    def _settings(self, sampling: Sampling) -> dict[str, Any]:
        """Return what all kinds call alike; what is not said might be a default of the model."""
        how = {name: getattr(sampling, name) for name in ("temperature", "top_k", "top_p")}
        bias = {str(token): bias for token, bias in sampling.logit_bias}
        return how | {"min_p": 0.0} | ({"logit_bias": bias} if bias else {})

    def score(self, prefix: Sequence[int], ids: Sequence[int], limit: int) -> list[float]:
        """Return log a of each of at most `limit` given ids; with the end if they are fewer."""
        whole = [*prefix, *self._with_end(ids, limit)]
        path, body, read = self._scoring(whole)

        def scores(answer: Any) -> list[float]:
            found = read(answer)
            if len(found) != len(whole):
                raise BadAnswer(f"{len(found)} log-probabilities of {len(whole)} tokens")
            return found[len(prefix) :]

        return self.client.ask(path, body, scores)

    def _scoring(self, whole: list[int]) -> tuple[str, Any, Callable[[Any], list[float]]]:
        """Return the request that scores ids as a prompt, and what reads its answer."""
        raise NotImplementedError

    def log_q(
        self, prefix: Sequence[int], ids: Sequence[int], limit: int, sampling: Sampling
    ) -> float:
        """Return the log-probability that given ids are drawn with, at most `limit`.

        After bias b and temperature T, log q(x) = (log a(x) + b(x)) / T - log Z at each token.
        No server gives log q of a token that it did not draw, but log Z is known from one that it
        did: the same equation holds for that token, with the log q that the server reports.
        """
        scores, bias = self.score(prefix, ids, limit), dict(sampling.logit_bias)
        if not sampling.used or -math.inf in scores:
            return math.fsum(scores)
        tokens, one, total = self._with_end(ids, limit), replace(sampling, max_tokens=1), 0.0
        for i, log_a in enumerate(scores):
            before = [*prefix, *tokens[:i]]
            drawn = self.draw(before, one, 0)
            (other,) = self.score(before, drawn.ids, 1)
            apart = log_a + bias.get(tokens[i], 0.0) - other - bias.get(drawn.ids[0], 0.0)
            total += drawn.log_q[0] + apart / sampling.temperature
        return total

    def encode(self, text: str, **more: Any) -> list[int]:
        """Return the ids of a text; the names of special tokens are read as such."""
        if not self.text_field:
            raise InputError(
                f"{self.title} is not asked for its tokenizer: give tokenizer=, the folder or "
                "hub id of the model that it serves."
            )
        body = {"model": self.model, self.text_field: text, **self.plain_text, **more}
        return self.client.ask("/tokenize", body, lambda answer: list(answer["tokens"]))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of some ids."""
        body = {"model": self.model, "tokens": list(ids)}
        return self.client.ask("/detokenize", body, lambda answer: str(answer[self.text_field]))

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

    kind, title, owner = "vllm", "vLLM", "vllm"
    text_field = "prompt"
    plain_text: ClassVar = {"add_special_tokens": False}

    def __init__(self, client: Client, listed: Mapping[str, Any]) -> None:
        super().__init__(client, listed)
        self.about["vllm"] = client.ask("/version", read=lambda answer: answer["version"])

    def find_special(self) -> None:
        added = self.encode("a", add_special_tokens=True)
        self.start = added[0] if len(added) > 1 else None
        named = map(self._one_token, ENDS)
        self.end = next((token for token in named if token is not None and self.ends(token)), None)

    def draw(self, prefix: Sequence[int], sampling: Sampling, seed: int) -> Drawn:
        none = {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
        body = {"model": self.model, "prompt": list(prefix), "max_tokens": sampling.max_tokens}
        body |= {"logprobs": 0, "return_token_ids": True, "seed": seed}
        body |= self._settings(sampling) | none
        if self.end is not None:  # this token ends a text, and no other
            body |= {"ignore_eos": True, "stop_token_ids": [self.end]}
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

    def _scoring(self, whole: list[int]) -> tuple[str, Any, Callable[[Any], list[float]]]:
        body = {"model": self.model, "prompt": whole, "echo": True, "max_tokens": 0, "logprobs": 0}
        return "/v1/completions", body, lambda x: x["choices"][0]["logprobs"]["token_logprobs"]

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        body = {"model": self.model, "messages": messages, "add_generation_prompt": True}
        return self.client.ask("/tokenize", body, lambda answer: list(answer["tokens"]))


class _LlamaCpp(Protocol):
    """The server of llama.cpp. Given ids are scored one by one, by a bias that makes each certain.

    The entry of a token that leaves a character of several bytes unfinished is absent: it is looked
    up in the list of most probable tokens. A grammar of tokens fails there, and stopped the server.
    """

    kind, title, owner = "llama.cpp", "llama.cpp", "llamacpp"
    leaves_out = ("mask",)
    largest_seed = 2**32 - 1  # which itself means a random one
    text_field = "content"
    plain_text: ClassVar = {"add_special": False, "parse_special": True}

    def __init__(self, client: Client, listed: Mapping[str, Any]) -> None:
        super().__init__(client, listed)
        self.props: dict[str, Any] = client.ask("/props")
        self.context = self.props["default_generation_settings"].get("n_ctx")
        meta = listed.get("meta") or {}
        self.vocabulary = int(meta.get("n_vocab", 0))
        self.about = {name: meta.get(name) for name in ("n_params", "size", "ftype")}
        # With more requests than slots, each would find the cache of another text.
        client.concurrency = min(client.concurrency, int(self.props.get("total_slots", 1)))

    def find_special(self) -> None:
        names = [str(self.props.get(name) or "") for name in ("bos_token", "eos_token")]
        self.start, self.end = (self._one_token(name) if name else None for name in names)

    def _ask(self, read: Any, prefix: Sequence[int], n: int, **more: Any) -> Any:
        body = {"prompt": list(prefix), "n_predict": n, "n_probs": 1, "return_tokens": True}
        body |= {"cache_prompt": True, "samplers": ["temperature", "top_k", "top_p"]}
        return self.client.ask("/completion", body | self._settings(Sampling(n)) | more, read)

    def draw(self, prefix: Sequence[int], sampling: Sampling, seed: int) -> Drawn:
        n, bias = sampling.max_tokens, [list(pair) for pair in sampling.logit_bias]
        how = self._settings(sampling) | {"logit_bias": bias}
        drawn: Drawn = self._ask(self._read, prefix, n, post_sampling_probs=True, seed=seed, **how)
        # Some versions go on to the end of a character.
        drawn = Drawn(drawn.ids[:n], drawn.log_q[:n], drawn.ended and len(drawn.ids) <= n)
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
        """Return the log-probability of a token from the list of most probable ones."""
        plain = self.encode("a")[0]

        def read(answer: Any) -> dict[int, float]:
            listed = answer["completion_probabilities"][0]["top_logprobs"]
            return {entry["id"]: entry["logprob"] for entry in listed}

        for n in [LISTED] * (not sampling.used) + [self.vocabulary or 10**6]:
            found = self._ask(read, prefix, 1, n_probs=n, logit_bias=[[plain, FORCED]])
            if token in found:
                break
        else:
            raise ServerError(f"the server at {self.client.root} does not list token {token}.")
        if not sampling.used:
            return float(found[token])
        for biased, bias in sampling.logit_bias:
            found[biased] += bias
        warp = Warp(sampling.temperature, sampling.top_k or None, sampling.top_p)
        warped = warp(torch.tensor(list(found.values()))).log_softmax(0)
        return float(warped[list(found).index(token)])

    def score(self, prefix: Sequence[int], ids: Sequence[int], limit: int) -> list[float]:
        """Score token by token; what came before is in the server's cache."""

        def read(answer: Any) -> tuple[int, float | None, bool]:
            entries = answer.get("completion_probabilities")
            own = entries[0]["logprob"] if entries else None
            return answer["tokens"][0], own, answer["stop_type"] == "eos"

        tokens, found = self._with_end(ids, limit), []
        for i, token in enumerate(tokens):
            before = [*prefix, *tokens[:i]]
            drawn, own, ends = self._ask(read, before, 1, logit_bias=[[token, FORCED]])
            if drawn != token:
                raise ServerError(f"the server at {self.client.root} cannot draw token {token}.")
            found.append(self._listed(before, token, Sampling(1)) if own is None else own)
            if ends:  # nothing is drawn after a token that ends the text
                return found if i >= len(ids) - 1 else [-math.inf]
        return found

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        body = {"messages": messages}
        return self.encode(self.client.ask("/apply-template", body, lambda x: str(x["prompt"])))


class _SGLang(Protocol):
    """SGLang, by its documented format."""

    kind, title, owner = "sglang", "SGLang", "sglang"
    leaves_out = ("top_k", "top_p", "mask")

    def draw(self, prefix: Sequence[int], sampling: Sampling, seed: int) -> Drawn:
        how = self._settings(sampling) | {"max_new_tokens": sampling.max_tokens, "top_k": -1}
        how |= {"sampling_seed": seed, "ignore_eos": True, "stop_token_ids": [self.end]}

        def read(answer: Any) -> Drawn:
            meta = answer["meta_info"]
            pairs = meta["output_token_logprobs"]
            ended = meta["finish_reason"]["type"] == "stop"
            return Drawn([pair[1] for pair in pairs], [pair[0] for pair in pairs], ended)

        body = {"input_ids": list(prefix), "sampling_params": how, "return_logprob": True}
        return self.client.ask("/generate", body, read)

    def _scoring(self, whole: list[int]) -> tuple[str, Any, Callable[[Any], list[float]]]:
        how = {"max_new_tokens": 0, "temperature": 1.0}
        body = {"input_ids": whole, "sampling_params": how, "return_logprob": True}
        body["logprob_start_len"] = 0
        return "/generate", body, lambda x: [p[0] for p in x["meta_info"]["input_token_logprobs"]]


CERTIFIED = (_VLLM, _LlamaCpp, _SGLang)
REFUSED = {
    "ollama": (
        "Ollama",
        "library",
        "since 0.12.11 it gives log-probabilities, but no token ids, and it does not score "
        "prompts. Serve the same GGUF file with llama.cpp's server",
    ),
    "tgi": (
        "TGI",
        "tgi",
        "it scores prompts (`decoder_input_details`), but takes them as texts: drawn ids "
        "would be encoded again, and may become others",
    ),
    "openai": (
        "OpenAI's own API",
        "openai",
        "it gives no token ids, at most 5 log-probabilities of a token (20 in a chat), "
        "and refuses `echo` with `logprobs`, so given ids cannot be scored",
    ),
}
"""The kinds that are told apart and cannot be certified: title, owner of its models, and why."""


def find_protocol(client: Client, model: str | None, kind: str | None) -> Protocol:
    """Find out the kind of a server and its model, and how to talk to it."""
    listed = client.ask("/v1/models", read=lambda answer: list(answer["data"]))
    named = {str(entry.get("id")): entry for entry in listed}
    if not named:
        raise ServerError(f"the server at {client.root} has no model loaded.")
    if model not in named and (model is not None or len(named) > 1):
        has = f"{len(named)} models" if model is None else f"no model {short_repr(model)}"
        names = ", ".join(map(short_repr, named))
        raise InputError(f"the server at {client.root} has {has}: give model, one of {names}.")
    entry = listed[0] if model is None else named[model]
    owner = str(entry.get("owned_by", ""))
    known = ", ".join(protocol.kind for protocol in CERTIFIED)
    for protocol in CERTIFIED:
        if owner == protocol.owner if kind is None else kind == protocol.kind:
            return protocol(client, entry)
    for name, (title, its_owner, why) in REFUSED.items():
        if owner == its_owner if kind is None else kind == name:
            raise InputError(
                f"the server at {client.root} is of the kind {title}, which cannot be a "
                f"certified base or proposal: {why}. The kinds that can are {known}."
            )
    told = f"owned by {short_repr(owner)}" if kind is None else f"not {short_repr(kind)}"
    raise InputError(
        f"the kind of the server at {client.root} is not known ({told}): give kind, one of "
        f"{known}, if it is one of them. Others cannot be certified, because nobody has found out "
        "what their log-probabilities mean."
    )
