"""Classifiers and reward models as features: from a hub, a folder, or already loaded."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.special import expit, softmax

from quasir.core.arguments import number
from quasir.core.files import hash_of
from quasir.core.formatting import short_repr
from quasir.core.hub import refuse_no_model, why_silent
from quasir.core.items import text_of
from quasir.core.types import Array, Items
from quasir.errors import InputError, QuasirWarning
from quasir.targets.feature import Feature
from quasir.targets.product import Tilt, reward

__all__ = ["classifier", "reward_model"]

BUILT_IN = Path(__file__).parents[1] / "text" / "models"
AT_ONCE = 32  # texts that a network reads in one batch
UNLIMITED = 10**6  # more tokens than any network reads at once


def classifier(
    model: str | Path | tuple[Any, Any],
    label: str | None = None,
    above: float | None = None,
    *,
    value: Literal["probability", "logit"] = "probability",
    prompt: str | None = None,
    hypothesis: str | None = None,
    low: float | None = None,
    high: float | None = None,
    revision: str | None = None,
    name: str | None = None,
) -> Feature:
    """Return what a classifier says of a text: a probability or logit, or whether it is `above`.

    Parameters
    ----------
    model : str, Path or (model, tokenizer)
        ``quasir/sentiment``, a folder, a hub id, or a sequence classifier of transformers that is
        loaded, with its tokenizer. One that is named is loaded at the first use.
    label : str, optional
        The label to look at. It may be left out where there is one label alone, and with a
        `hypothesis`.
    above : float, optional
        Makes the feature boolean: whether the value is above this.
    value : "probability" or "logit"
        A probability is between 0 and 1, so that a target with it has a ceiling. A logit has one
        only if `low` and `high` declare its bounds.
    prompt : str, optional
        For a model that was trained on pairs: it reads the prompt and the text as a pair.
    hypothesis : str, optional
        For a model of natural language inference (zero-shot): a sentence about the text, such as
        "This text is about sport." The label is then the one of entailment.
    low, high : float, optional
        Bounds that you declare for a logit; a value outside is an error.
    revision : str, optional
        Of a model on the hub.
    name : str, optional

    Notes
    -----
    A text with more tokens than the network can read is cut, and a `QuasirWarning` says how
    many were. It runs on the GPU if there is one.

    Examples
    --------
    >>> good = classifier("quasir/sentiment", label="POSITIVE", above=0.5)
    >>> good(["A wonderful film with a great cast.", "A boring film. What a waste of time."])
    array([ True, False])
    """
    if value not in ("probability", "logit"):
        raise InputError(f"value is {short_repr(value)}, but must be 'probability' or 'logit'.")
    if prompt is not None and hypothesis is not None:
        raise InputError("prompt and hypothesis do not go together.")
    if above is not None and value == "probability" and not 0 <= number("above", above) < 1:
        raise InputError(f"above is {short_repr(above)}, but a probability is between 0 and 1.")
    kind: dict[str, Any] = {"low": low, "high": high}
    if above is not None:
        kind = {"boolean": True}
    elif value == "probability":
        kind = {"low": 0.0, "high": 1.0}
    network = Classifier(model, revision)
    if network.is_here:
        network.index_of(label, hypothesis is not None)
    limit = "" if above is None else f" above {above:g}"
    title = f"{network.name}: {label or hypothesis or value}{limit}" if name is None else name
    ask = Score(network, label, value, above, prompt, hypothesis)
    return Feature(title, ask, batched=True, expensive=True, **kind)


def reward_model(
    model: str | Path | tuple[Any, Any],
    temperature: float = 1.0,
    *,
    prompt: str | None = None,
    low: float | None = None,
    high: float | None = None,
    revision: str | None = None,
) -> Tilt:
    """Return the factor exp(r(x)/temperature), where r(x) is what a reward model says of a text.

    The target base(x) exp(r(x)/temperature) is the optimum of KL-regularised reinforcement
    learning, which RLHF aims at.

    Parameters
    ----------
    model : str, Path or (model, tokenizer)
        As in `classifier`: a sequence classifier with one output, the reward.
    temperature : float
        The weight of the KL divergence from the base: a smaller one asks for more reward.
    prompt : str, optional
        For a model that was trained on pairs: it reads the prompt and the text as a pair.
    low, high : float, optional
        Bounds that you declare: the ratios then have a ceiling, and guarantees are possible. A
        reward outside is an error.
    revision : str, optional

    Examples
    --------
    >>> import quasir as qr
    >>> base = qr.Table({"A fine film.": 0.5, "A dull film.": 0.5})
    >>> target = base * reward_model("my-folder/reward-model", temperature=0.1, high=5.0)
    >>> target.factors[0].coefficient
    10.0
    """
    ask = Score(Classifier(model, revision), None, "logit", None, prompt, None)
    feature = Feature("reward", ask, batched=True, expensive=True, low=low, high=high)
    return reward(feature, temperature)


@dataclass(frozen=True)
class Score:
    network: Classifier
    label: str | None
    value: str
    above: float | None
    prompt: str | None
    hypothesis: str | None

    def __call__(self, items: Items) -> Any:
        distinct = list(dict.fromkeys(text_of(item) for item in items))
        rows = dict(zip(distinct, self._scores(distinct), strict=True))
        scores = np.array([rows[text_of(item)] for item in items], dtype=np.float64)
        return scores if self.above is None else scores > self.above

    def _scores(self, texts: list[str]) -> Array:
        column = self.network.index_of(self.label, self.hypothesis is not None)
        pairs = [texts]
        if self.prompt is not None:
            pairs = [[self.prompt] * len(texts), texts]
        elif self.hypothesis is not None:
            pairs = [texts, [self.hypothesis] * len(texts)]
        logits = self.network(*pairs)
        if self.value == "probability":
            logits = self.network.probabilities(logits)
        scores: Array = logits[:, column]
        return scores


class Classifier:
    """A sequence classifier of transformers; one that is named is loaded at the first use."""

    def __init__(self, model: str | Path | tuple[Any, Any], revision: str | None = None) -> None:
        self.revision = revision
        self._pair: tuple[Any, Any] | None = None
        if isinstance(model, (str, Path)):
            self.name = str(model)
        elif isinstance(model, (tuple, list)) and len(model) == 2:
            self._pair = (model[0].eval(), model[1])
            self.name = getattr(model[0].config, "_name_or_path", "") or "classifier"
        else:
            raise InputError(f"{short_repr(model)} is no name and no pair (model, tokenizer).")

    @property
    def folder(self) -> Path | None:
        built_in = BUILT_IN / self.name.removeprefix("quasir/")
        path = built_in if self.name.startswith("quasir/") else Path(self.name)
        return path if (path / "config.json").is_file() else None

    @property
    def is_here(self) -> bool:
        return self._pair is not None or self.folder is not None

    @property
    def identity(self) -> dict[str, str | None]:
        """What identifies the model: its name, and the hash of its weights where they are here."""
        files = [] if self.folder is None else sorted(self.folder.glob("*.safetensors"))
        return {
            "name": Path(self.name).name if Path(self.name).is_absolute() else self.name,
            "revision": self.revision,
            "weights_sha256": hash_of(files[0]) if files else None,
        }

    @property
    def loaded(self) -> tuple[Any, Any]:
        return self._pair or _load(self.name, self.folder, self.revision)

    @property
    def labels(self) -> list[str]:
        """The names of its outputs: of a folder, without loading the network."""
        named = None
        if self._pair is None and self.folder is not None:
            named = json.loads((self.folder / "config.json").read_text()).get("id2label")
        return list((named or self.loaded[0].config.id2label).values())

    def index_of(self, label: str | None, entailment: bool = False) -> int:
        """Return the index of a label; of the one of entailment, where it is asked for."""
        labels = self.labels
        folded = [one.casefold() for one in labels]
        if label is not None:
            exact = [i for i, one in enumerate(labels) if one == label]
            same = exact or [i for i, one in enumerate(folded) if one == label.casefold()]
            lacks = f"no label {short_repr(label)}"
        elif entailment:
            same = [i for i, one in enumerate(folded) if one.startswith("entail")]
            lacks = "no label of entailment, which a hypothesis needs"
        else:
            same, lacks = [0] * (len(labels) == 1), "more than one label"
        if len(same) != 1:
            raise InputError(
                f"the classifier {short_repr(self.name)} has {lacks}: its labels are "
                f"{', '.join(labels)}. Give one of them as label."
            )
        return same[0]

    def probabilities(self, logits: Array) -> Array:
        """Return the probabilities of the labels: of each alone, or of all together."""
        config = self.loaded[0].config
        if config.num_labels == 1:
            raise InputError(
                f"the classifier {short_repr(self.name)} has one output, a number without a "
                "probability: give value='logit', or use qr.reward_model."
            )
        several = config.problem_type == "multi_label_classification"
        shares: Array = expit(logits) if several else softmax(logits, axis=1)
        return shares

    def __call__(self, *columns: Sequence[str]) -> Array:
        import torch

        network, tokenizer = self.loaded
        if tokenizer.pad_token is None:  # reward models made of causal ones
            tokenizer.pad_token = tokenizer.eos_token
        if network.config.pad_token_id is None:
            network.config.pad_token_id = tokenizer.pad_token_id
        positions = getattr(network.config, "max_position_embeddings", UNLIMITED)
        limit, texts, cut = min(tokenizer.model_max_length, positions), columns[-1], 0
        logits = np.zeros((len(texts), network.config.num_labels))
        order = np.argsort(
            [sum(map(len, row)) for row in zip(*columns, strict=True)], kind="stable"
        )
        for start in range(0, len(texts), AT_ONCE):
            rows = order[start : start + AT_ONCE]
            given = [[column[i] for i in rows] for column in columns]
            cut += sum(len(ids) > limit for ids in tokenizer(*given, verbose=False)["input_ids"])
            batch = tokenizer(
                *given, padding=True, truncation=True, max_length=limit, return_tensors="pt"
            )
            with torch.inference_mode():
                found = network(**batch.to(network.device)).logits
            logits[rows] = found.double().cpu().numpy()
        if cut:
            warnings.warn(
                f"{cut:,} of {len(texts):,} texts have more tokens than the classifier "
                f"{self.name} can read: it read their first {limit:,}.",
                QuasirWarning,
                stacklevel=2,
            )
        return logits


@cache
def _load(name: str, folder: Path | None, revision: str | None) -> tuple[Any, Any]:
    """Load a network and its tokenizer, once: features of one model share it."""
    try:
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        from quasir.core.products import with_packed_products
    except ImportError as error:
        raise InputError(
            "a classifier needs transformers and torch: pip install 'quasir[text]'."
        ) from error
    silent, options = None, {}
    if folder is None:
        refuse_no_model(name, ["quasir/sentiment"])
        silent = why_silent(name)
        options = {"revision": revision, "local_files_only": silent is not None}
    source = name if folder is None else str(folder)
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        network = AutoModelForSequenceClassification.from_pretrained(
            source, dtype=torch.float32, use_safetensors=True, **options
        )
    except (OSError, ValueError) as error:
        why = silent or next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(
            f"the classifier {short_repr(name)} could not be loaded: {why}. Give "
            "quasir/sentiment, a folder with config.json and model.safetensors, or a hub id."
        ) from error
    network = network.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    return with_packed_products(network), tokenizer
