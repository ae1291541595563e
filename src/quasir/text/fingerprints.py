"""Fingerprints of language models: what a trie, a fit or a resumed run depends on.

The weights are hashed whole, once for each loaded model, so that no change goes unseen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from quasir.guides.guide import FACTS, Setting
from quasir.guides.language import Language

if TYPE_CHECKING:
    from quasir.text.causal import CausalLM

PASSING = {
    "_name_or_path",
    "_commit_hash",
    "architectures",
    "dtype",
    "torch_dtype",
    "transformers_version",
}
"""Entries of a configuration that say where it came from, not what the model computes."""

_known: WeakKeyDictionary[Any, tuple[Any, str]] = WeakKeyDictionary()


def find_setting(
    lm: CausalLM, made_of: Sequence[Language] = (), names: Iterable[str] = FACTS
) -> Setting:
    """Return the named facts of a model and of the languages that its guide is made of."""
    facts: dict[str, Callable[[], Any]] = {
        "weights": lambda: weights_digest(lm.model),
        "tokenizer": lambda: tokenizer_digest(lm.tokenizer),
        "prompt": lambda: _prompt(lm),
        "temperature": lambda: float(lm.warp.temperature),
        "top_k": lambda: lm.warp.top_k,
        "top_p": lambda: None if lm.warp.top_p is None else float(lm.warp.top_p),
        "max_tokens": lambda: lm.max_tokens,
        "languages": lambda: json.dumps(sorted({(x.kind, x.source, x.complete) for x in made_of})),
        "matcher": lambda: f"llguidance {version('llguidance')}" if made_of else None,
    }
    return Setting.of({name: facts[name]() for name in names})


def weights_digest(model: Any) -> str:
    """Return the hash of a model's weights and configuration; found again where they changed."""
    state = sorted(model.state_dict().items())
    facts = {k: v for k, v in model.config.to_diff_dict().items() if k not in PASSING}
    config = json.dumps(facts, sort_keys=True, default=str)
    now = [config, *(_quick_look(x) for _, x in state)]
    if model in _known and _known[model][0] == now:
        return _known[model][1]
    total = hashlib.sha256(type(model).__name__.encode())
    total.update(config.encode())
    for name, value in state:
        total.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        flat = value.detach().cpu().contiguous().reshape(-1)
        total.update(flat.view(torch.uint8).numpy())
    _known[model] = now, total.hexdigest()[:16]
    return _known[model][1]


def _quick_look(x: Tensor) -> tuple[Any, ...]:
    """Return what tells a tensor from itself before a change; sums show changes through `.data`."""
    version = 0 if x.is_inference() else x._version
    flat = x.detach().reshape(-1)
    sums = [flat[part::2].sum(dtype=torch.float64).item() for part in (0, 1)]
    return x.data_ptr(), version, *map(repr, sums)


def tokenizer_digest(tokenizer: Any) -> str:
    """Return the hash of what decides which token has which bytes, and which one ends a text."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = None if backend is None else type(backend.decoder).__name__
    if backend is not None and decoder not in ("NoneType", "ByteLevel"):  # these have no options
        decoder = backend.decoder.__getstate__().decode()
    facts = [
        sorted(tokenizer.get_vocab().items()),
        sorted(tokenizer.all_special_ids),
        tokenizer.eos_token_id,
        decoder,
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def _prompt(lm: CausalLM) -> str:
    """Return the prompt, by the tokens that the model reads before a text."""
    digest = hashlib.sha256(json.dumps(list(lm.prefix)).encode()).hexdigest()[:16]
    text = lm.tokenizer.decode(lm.prefix)
    return f"{digest} {text if len(text) <= 60 else text[:57] + '...'}"
