"""The fields of a recipe: base, features, wishes, proposal, number of draws, choice of beta."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from quasir.core.formatting import escaped, shown
from quasir.estimation.promise import BOUNDS
from quasir.recipes.feature_schema import FeatureSpec
from quasir.recipes.guide_schema import GuideSpec
from quasir.recipes.numbers import Count, Finite, Fraction, Positive, SeedNumber, Share
from quasir.recipes.parts import Name, Part

__all__ = [
    "Choice",
    "FeatureSpec",
    "MessageSpec",
    "Recipe",
    "RoundTripSpec",
    "Source",
]

Temperature = Annotated[Positive, Field(ge=1e-3, le=1e3)]
"""Logits that are divided by less, or by more, no longer differ as numbers."""
Rate = Annotated[Positive, Field(ge=1e-9, le=1e9)]
"""Means of a Poisson distribution whose log-probability is right to 1e-5.

It is a difference of numbers near mean * log(mean); at 1e15 it would be off by whole units.
"""
LogLevel = Annotated[Finite, Field(ge=-1e9, le=1e9)]

OF_MODEL = (
    "model",
    "adapter",
    "revision",
    "dtype",
    "prompt",
    "chat",
    "source",
    "temperature",
    "top_k",
    "top_p",
)
"""The settings of a language model; they mean nothing to other distributions."""


class RoundTripSpec(Part):
    """Translation there and back (section 3.3)."""

    there: Name
    back: Name
    text: str
    beams: Count = 5
    top_k: Count | None = 30


class MessageSpec(Part):
    """One message of a chat."""

    role: Name
    content: str


class Source(Part):
    """A distribution: a language model, a table, a Poisson, a round trip, or a mixture."""

    model: Name | None = None
    adapter: Name | None = None
    revision: Name | None = None
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    prompt: str | None = None
    chat: Annotated[list[MessageSpec], Field(min_length=1)] | None = None
    source: str | None = None
    temperature: Temperature = 1.0
    top_k: Count | None = None
    top_p: Fraction | None = None
    table: Annotated[dict[str, Positive], Field(min_length=1)] | None = None
    poisson: Rate | None = None
    round_trip: RoundTripSpec | None = None
    mixture: Annotated[list[Source], Field(min_length=1)] | None = None
    guide: GuideSpec | None = None
    share: Annotated[Finite, Field(ge=0, lt=1)] | None = None
    weight: Positive = 1.0

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        if value == "base":
            return {}  # a proposal that leaves everything out is the base
        return {"model": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_kind(self) -> Source:
        kinds = self.given(("table", "poisson", "round_trip", "mixture"))
        of_model = self.given(tuple(self.of_model))
        if len(kinds) > 1 or (kinds and of_model):
            raise ValueError(
                f"{' and '.join([*kinds, *of_model])} do not go together: give a model, or one of "
                f"table, poisson, round_trip and mixture. {', '.join(OF_MODEL[1:])} are settings "
                "of a model and mean nothing elsewhere"
            )
        if self.guide is not None and (kinds or self.source is not None):
            raise ValueError(
                "a guide goes with a causal model, the base or one that is named here, not with "
                f"{(kinds or ['source'])[0]}"
            )
        if self.share is not None and self.guide is None:
            raise ValueError("share is the base's share of a guided model: it needs a guide")
        if len(before := self.given(("prompt", "chat", "source"))) > 1:
            raise ValueError(
                f"{' and '.join(before)} do not go together: a causal model has a prompt or a "
                "chat, an encoder-decoder has a source"
            )
        if self.revision is not None and self.model and self.model.startswith("quasir/"):
            raise ValueError(
                f"{shown(self.model)} comes with the package and has no revisions: leave revision "
                "out"
            )
        if self.table is not None:
            _check_weights("the table", self.table)
        if self.mixture is not None:
            weights = {f"part {i}": part.weight for i, part in enumerate(self.mixture, start=1)}
            _check_weights("the mixture", weights)
        return self

    @property
    def of_model(self) -> list[str]:
        """The settings of a language model that are given; None is one, where the base has one."""
        return [name for name in OF_MODEL if name in self.model_fields_set]

    @property
    def is_base(self) -> bool:
        """Whether it leaves everything out but its weight in a mixture, and so is the base."""
        others = ("table", "poisson", "round_trip", "mixture", "guide")
        return not self.of_model and not self.given(others)


def _check_weights(of: str, weights: Mapping[str, float]) -> None:
    """Refuse weights that overflow, or that are 0 beside the others."""
    total = sum(weights.values())
    if not math.isfinite(total):
        raise ValueError(f"the weights of {of} add up to more than a float can hold (1e308)")
    for name, weight in weights.items():
        if weight / total == 0.0:
            raise ValueError(
                f"the weight of {escaped(name)} in {of}, {weight:g}, is 0 beside the sum {total:g}"
            )


class Choice(Part):
    """How to choose beta: exactly one wish; with a confidence, the choice is promised."""

    acceptance_rate: Fraction | None = None
    tvd: Share | None = None
    tvd_bound: Share | None = None
    kl: Annotated[Finite, Field(ge=0)] | None = None
    beta: Positive | None = None
    log_beta: LogLevel | None = None
    confidence: Annotated[Finite, Field(gt=0, lt=1)] | None = None

    @property
    def _wishes(self) -> tuple[str, ...]:
        return tuple(name for name in type(self).model_fields if name != "confidence")

    @model_validator(mode="after")
    def _one(self) -> Choice:
        names = self.given(self._wishes)
        if len(names) != 1:
            raise ValueError(
                f"beta is chosen by exactly one wish, but there are {len(names)}: give one of "
                f"{', '.join(self._wishes)}"
            )
        if self.confidence is not None and names[0] not in BOUNDS:
            raise ValueError(
                f"confidence goes with a wish that can be promised, tvd or kl, not with {names[0]}"
            )
        return self

    @property
    def wish(self) -> dict[str, float]:
        """The wish, as `Curve.at` takes it."""
        return {name: getattr(self, name) for name in self.given((*self._wishes, "confidence"))}


class Recipe(Part):
    """An experiment: everything that a run depends on.

    Attributes
    ----------
    about : str
        A sentence that describes it.
    base : Source
        a(x).
    features : dict
        Name -> feature; a feature without a wish is only measured.
    want : dict
        Name -> wanted mean; for a boolean feature, 0 or 1 holds for every item.
    coefficients : dict
        Name -> lambda of a tilt that is given (written ``lambda`` in YAML).
    fitted : dict
        Name -> lambda of a wish that holds in the mean; fitted where absent.
    proposal : Source
        q(x); settings that it leaves out are taken from the base.
    draws, fit : int
        Draws for the trade-off, and draws of the base for the fit of lambda.
    max_tokens, seed : int
    choose : Choice
    samples : int
        How many samples to keep.
    over : "contexts" or "each", optional
        In a run over contexts: whether a wanted mean is over all of them, or in each.

    Notes
    -----
    In a run over contexts, `draws`, `fit` and `samples` are for all contexts together.
    """

    about: str = ""
    base: Source
    features: dict[Name, FeatureSpec] = Field({})
    want: dict[str, Finite] = Field({})
    coefficients: dict[str, Finite] = Field({}, alias="lambda")
    fitted: dict[str, Finite] = Field({})
    proposal: Source = Source()
    draws: Count = 20_000
    fit: Count = 20_000
    max_tokens: Count = 40
    seed: SeedNumber = 0
    choose: Choice = Choice(acceptance_rate=0.01)
    samples: Count = 1000
    over: Literal["contexts", "each"] | None = None

    @property
    def pointwise(self) -> list[str]:
        """The features whose wish holds for every item."""
        return [
            name
            for name, wish in self.want.items()
            if wish in (0.0, 1.0) and name not in self.fitted and self.features[name].may_be_boolean
        ]

    @property
    def unfitted(self) -> list[str]:
        """The features whose lambda is not known yet."""
        pointwise = self.pointwise
        return [name for name in self.want if name not in self.fitted and name not in pointwise]
