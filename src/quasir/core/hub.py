"""The Hugging Face hub: which names can be models there, and whether it answers."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib import import_module

from quasir.core.formatting import short_repr
from quasir.errors import InputError

PATIENCE = 5.0  # seconds to wait for the hub. Its own client tries five times, for about a minute.


def refuse_no_model(name: str, built_in: Iterable[str]) -> None:
    """Refuse a name that is no folder, no built-in model, and can be no hub id."""
    owner, slash, model = name.partition("/")
    if slash and owner and model and "/" not in model and owner not in ("quasir", ".", "..", "~"):
        return
    raise InputError(
        f"there is no model {short_repr(name)}: no folder has this name, and the built-in models "
        f"are {', '.join(built_in)}. A model of the Hugging Face hub is written OWNER/NAME, as in "
        "openai-community/gpt2."
    )


def why_silent(name: str) -> str | None:
    """Return why the hub cannot be asked for a model, or None if it answers.

    A silent hub is not asked again: only what it gave before is used.
    """
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
