"""A proposal that was found: what the search tried, and the file that keeps it.

The file holds the tensors of the heads, and a description in JSON as its metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors.numpy
import torch
from safetensors import SafetensorError, safe_open

from quasir.core.files import shortened, write_bytes
from quasir.errors import InputError, StoreError
from quasir.guides.guide import Setting
from quasir.guides.product import from_dict
from quasir.proposals.mixture import Mixture
from quasir.targets.feature import Feature
from quasir.text.fingerprints import find_setting
from quasir.text.guided import Guided, Part, mix_parts
from quasir.text.head import Head

if TYPE_CHECKING:
    from quasir.text.causal import CausalLM

KEY = "quasir"  # of the description, in the file's metadata


@dataclass(frozen=True)
class Candidate:
    """What one proposal would cost."""

    name: str
    weights: dict[str, float]  # of the base and of every part
    acceptance: float  # at the TVD that is asked for, as far as it would be guaranteed
    seconds: float  # of a draw
    seconds_per_sample: float


@dataclass(frozen=True)
class SearchRecord:
    """What a search tried, what each would cost, and what it chose.

    Examples
    --------
    >>> base = Candidate("base", {"base": 1.0}, 0.04, 0.004, 0.1)
    >>> print(SearchRecord(0.1, 0.95, 8192, 300, [base], "base", ("No word stands out.",)))
    Acceptance at TVD 0.1, guaranteed with confidence 0.95, and seconds per sample:
      base               1.00 base                         0.0400    0.1000  chosen
    8,192 draws of the search, of which the target allows 300. No word stands out.
    """

    tvd: float
    confidence: float | None
    draws: int
    possible: int
    tried: list[Candidate]
    chosen: str
    words: tuple[str, ...] = ()

    @property
    def best(self) -> Candidate:
        """What was chosen."""
        return next(one for one in self.tried if one.name == self.chosen)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        return asdict(self)

    def __str__(self) -> str:
        sure = "" if self.confidence is None else f", guaranteed with confidence {self.confidence}"
        lines = [f"Acceptance at TVD {self.tvd:g}{sure}, and seconds per sample:"]
        for one in self.tried:
            parts = " + ".join(f"{w:.2f} {name}" for name, w in one.weights.items())
            chosen = "  chosen" if one.name == self.chosen else ""
            cost = f"{one.acceptance:8.4f} {one.seconds_per_sample:9.4f}{chosen}"
            lines.append(f"  {one.name:18s} {parts:31s} {cost}")
        said = f"{self.draws:,} draws of the search, of which the target allows {self.possible:,}."
        return "\n".join([*lines, " ".join([said, *self.words])])


def save_proposal(found: Guided | Mixture, file: Path) -> None:
    """Write a proposal; `read_proposal` does the opposite. A trained head is one of float16.

    Of a mixture, the proposals that were given have names of their own: its guided part is kept.
    """
    tensors: dict[str, Any] = {}
    parts = []
    first: Any = found.components[0] if isinstance(found, Mixture) else found
    q: Guided = first if isinstance(first, Guided) else mix_parts(first, [])
    for i, (weight, guide, head) in enumerate(q.parts):
        described = None if guide is None else guide.to_dict()
        until = None if head is None else list(head.until)
        parts.append({"weight": weight, "guide": described, "until": until})
        if head is not None:
            tensors |= {f"{i}.{name}": x.half().numpy() for name, x in head.layers.items()}
            tensors[f"{i}.tokens"] = head.tokens.numpy()
            tensors[f"{i}.log_factors"] = head.log_factors.numpy()
    names = ("weights", "tokenizer") if any(p.head for p in q.parts) else ("tokenizer",)
    facts = {
        "parts": parts,
        "features": [feature.name for feature in q.features],
        "every": q.every,
        "setting": find_setting(q.base, (), names).to_dict(),
        "record": None if found.record is None else found.record.to_dict(),
    }
    # A file without tensors is not one that safetensors reads.
    tensors["format"] = np.ones(1, dtype=np.int64)
    write_bytes(file, safetensors.numpy.save(tensors, {KEY: json.dumps(facts)}))


@dataclass(frozen=True, eq=False)
class Kept:
    """What a file says, for any prompt of the model that it was found for."""

    file: Path
    parts: list[Part]
    features: list[str]
    every: int
    setting: Setting
    record: SearchRecord | None

    def placed(self, base: CausalLM, features: Mapping[str, Feature]) -> Guided:
        """Return the proposal on a base; `features` are those of the target, by name."""
        here = find_setting(base, (), [name for name, _ in self.setting.facts])
        if difference := self.setting.difference(here):
            raise InputError(
                f"the proposal {shortened(self.file)} was found for another model: {difference}. "
                "Find one for this model, with proposal: auto."
            )
        if missing := [name for name in self.features if name not in features]:
            raise InputError(
                f"the proposal {shortened(self.file)} reads the features {', '.join(missing)}, "
                "which this target does not have: name them as it does, or find another one."
            )
        own = [features[name] for name in self.features]
        made = mix_parts(base, self.parts, own, self.every)
        made.record = self.record
        return made


def read_proposal(file: Path) -> Kept:
    """Read a file that `save_proposal` wrote."""
    try:
        with safe_open(file, "pt") as kept:
            facts = json.loads(kept.metadata()[KEY])
            tensors = {name: kept.get_tensor(name) for name in kept.keys()}
        parts = [_part(one, tensors, f"{i}.") for i, one in enumerate(facts["parts"])]
        record = facts["record"]
        if record is not None:
            tried = [Candidate(**one) for one in record["tried"]]
            record = SearchRecord(**record | {"tried": tried, "words": tuple(record["words"])})
        named, every = list(facts["features"]), int(facts["every"])
        return Kept(file, parts, named, every, Setting.of(facts["setting"]), record)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"the proposal {shortened(file)} cannot be read: {error}. Find it again."
        ) from error


def _part(facts: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], start: str) -> Part:
    guide = None if facts["guide"] is None else from_dict(facts["guide"])
    if facts["until"] is None:
        return Part(float(facts["weight"]), guide)
    own = {name.removeprefix(start): x for name, x in tensors.items() if name.startswith(start)}
    tokens, log_factors = own.pop("tokens").numpy(), own.pop("log_factors").numpy()
    layers = {name: x.float() for name, x in own.items()}
    return Part(float(facts["weight"]), guide, Head(layers, tokens, log_factors, facts["until"]))
