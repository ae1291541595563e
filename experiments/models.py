"""Which models the experiments run: those of the package registry, or the paper's own hub ids."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MODELS", "Models"]


@dataclass(frozen=True)
class Models:
    """Names of models: built in, fetched from the registry, a folder, or a hub id.

    Attributes
    ----------
    general : str
        a(x) of Figs. 3 and 5, and of "amazing".
    biographies : str
        a(x) of Fig. 4.
    adapters : str, optional
        How the names of the models tuned by DPG begin, such as ``quasir/biographies`` of
        ``quasir/biographies-scientists``; without it, models are tuned here.
    chat : bool
        Whether `general` has a template for chats.
    editor : str
        The masked model of random walks.
    round_trip : pair of str, optional
        Translation models there and back; None are those of `experiments.registry`.
    sentences : str, optional
        The embedding of sentences; None is that of `experiments.registry`.
    """

    general: str = "quasir/smollm2"
    biographies: str = "quasir/biographies"
    adapters: str | None = "quasir/biographies"
    chat: bool = True
    editor: str = "quasir/biographies-masked"
    round_trip: tuple[str, str] | None = None
    sentences: str | None = None


MODELS = {
    "registry": Models(),
    "paper": Models(
        general="gpt2",
        biographies="mkhalifa/gpt2-biographies",
        adapters=None,
        chat=False,
        editor="bert-base-cased",
        round_trip=("facebook/wmt19-en-de", "facebook/wmt19-de-en"),
        sentences="sentence-transformers/all-mpnet-base-v2",
    ),
}
