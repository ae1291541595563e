"""The Hugging Face hub: which names can be models there, and whether it answers."""

from __future__ import annotations

import os
from collections.abc import Collection
from difflib import get_close_matches
from importlib import import_module

from quasir.core.formatting import short_repr
from quasir.errors import InputError

PATIENCE = 5.0  # seconds to wait for the hub. Its own client tries five times, for about a minute.


def refuse_no_model(name: str, built_in: Collection[str]) -> None:
    """Refuse a name that is no folder, no built-in model, and can be no hub id."""
    owner, slash, model = name.partition("/")
    if slash and owner and model and "/" not in model and owner not in ("quasir", ".", "..", "~"):
        return
    near = get_close_matches(name, [*built_in, *(one.partition("/")[2] for one in built_in)], 1)
    meant = next((one for one in built_in if near and one.endswith(near[0])), None)
    maybe = f"; did you mean {meant}?" if meant else "."
    raise InputError(
        f"there is no model {short_repr(name)}{maybe} Name a folder, a model that `quasir models` "
        "lists, or one of the Hugging Face hub as OWNER/NAME, as in openai-community/gpt2."
    )


def why_silent(name: str) -> str | None:
    """Return why the hub cannot be asked for a model, or None if it answers."""
    hub = import_module("huggingface_hub")
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return "HF_HUB_OFFLINE is set, and the model is not in the cache"
    try:
        hub.HfApi().model_info(name, timeout=PATIENCE)
    except hub.errors.HfHubHTTPError:
        return None  # it answers; what it says is said where the model is loaded
    except Exception as error:
        return f"it does not answer ({type(error).__name__}), and the model is not in the cache"
    return None
