"""The fields of a recipe: base, features, wishes, proposal, number of draws, choice of beta."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

from quasir import features
from quasir.core.streams import LARGEST_SEED

__all__ = ["Choice", "FeatureSpec", "Recipe", "RoundTripSpec", "SimilaritySpec", "Source"]

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Fraction = Annotated[float, Field(gt=0, le=1)]


class Part(BaseModel):
    """A part of a recipe; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    def given(self, names: tuple[str, ...]) -> list[str]:
        """Return which of these fields are not None."""
        return [name for name in names if getattr(self, name) is not None]


class SimilaritySpec(Part):
    """The similarity of a text to a given one, by sentence embeddings."""

    text: str
    above: float | None = None


class FeatureSpec(Part):
    """One feature: the name of a built-in one, or exactly one kind with its settings."""

    named: str | None = None
    words: list[str] | None = None
    contains: str | None = None
    regex: str | None = None
    pronouns: Literal["female", "male"] | None = None
    length: Literal["characters", "words", "tokens"] | None = None
    similarity: SimilaritySpec | None = None
    python: Annotated[str, Field(pattern=r"^[^:]+\.py:[A-Za-z_]\w*$")] | None = None
    case: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"named": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_kind(self) -> FeatureSpec:
        kinds = self.given(
            ("named", "words", "contains", "regex", "pronouns", "length", "similarity", "python")
        )
        if len(kinds) != 1:
            raise ValueError(
                f"a feature is of exactly one kind, but this has {' and '.join(kinds) or 'none'}: "
                "give one of words, contains, regex, pronouns, length, similarity and python, or "
                f"the name of a built-in one ({', '.join(features.NAMED)})"
            )
        if self.named is not None and self.named not in features.NAMED:
            raise ValueError(
                f"no feature is called {self.named!r}: built in are {', '.join(features.NAMED)}; "
                "define others as in {contains: word}"
            )
        if self.case is not None and not self.given(("words", "contains", "regex")):
            raise ValueError("case goes with words, contains or regex")
        return self

    @property
    def boolean(self) -> bool:
        """Whether it is true or false; a user's own feature counts as such, since it may be."""
        return self.length is None and (
            self.similarity is None or self.similarity.above is not None
        )


class RoundTripSpec(Part):
    """Translation there and back (section 3.3)."""

    there: str
    back: str
    text: str
    beams: PositiveInt = 5
    top_k: PositiveInt | None = 30


class Source(Part):
    """A distribution: a language model, a table, a Poisson, a round trip, or a mixture."""

    model: str | None = None
    adapter: str | None = None
    revision: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    prompt: str | None = None
    source: str | None = None
    temperature: Positive = 1.0
    top_k: PositiveInt | None = None
    top_p: Fraction | None = None
    table: Annotated[dict[str, Positive], Field(min_length=1)] | None = None
    poisson: Positive | None = None
    round_trip: RoundTripSpec | None = None
    mixture: Annotated[list[Source], Field(min_length=1)] | None = None
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
        of_model = self.given(("model", "adapter", "revision", "prompt", "source"))
        if len(kinds) > 1 or (kinds and of_model):
            raise ValueError(
                f"{' and '.join([*kinds, *of_model])} do not go together: give a model, or one of "
                "table, poisson, round_trip and mixture"
            )
        if self.prompt is not None and self.source is not None:
            raise ValueError(
                "a causal model has a prompt, an encoder-decoder has a source: give one of them"
            )
        return self


class Choice(Part):
    """How to choose beta: exactly one wish."""

    acceptance_rate: Fraction | None = None
    tvd: Annotated[float, Field(ge=0, le=1)] | None = None
    tvd_bound: Annotated[float, Field(ge=0, le=1)] | None = None
    kl: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    beta: Positive | None = None
    log_beta: Finite | None = None

    @model_validator(mode="after")
    def _one(self) -> Choice:
        names = self.given(tuple(type(self).model_fields))
        if len(names) != 1:
            raise ValueError(
                f"beta is chosen by exactly one wish, but there are {len(names)}: give one of "
                f"{', '.join(type(self).model_fields)}"
            )
        return self

    @property
    def wish(self) -> dict[str, float]:
        """The wish, as `Curve.at` takes it."""
        name = self.given(tuple(type(self).model_fields))[0]
        return {name: getattr(self, name)}


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
        Name -> lambda (written ``lambda`` in YAML); fitted where absent.
    proposal : Source
        q(x); settings that it leaves out are taken from the base.
    draws, fit : int
        Draws for the trade-off, and draws of the base for the fit of lambda.
    max_tokens, seed : int
    choose : Choice
    samples : int
        How many samples to keep.
    """

    about: str = ""
    base: Source
    features: dict[str, FeatureSpec] = {}
    want: dict[str, Finite] = {}
    coefficients: dict[str, Finite] = Field({}, alias="lambda")
    proposal: Source = Source()
    draws: PositiveInt = 20_000
    fit: PositiveInt = 20_000
    max_tokens: PositiveInt = 40
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)] = 0
    choose: Choice = Choice(acceptance_rate=0.01)
    samples: PositiveInt = 1000

    @property
    def pointwise(self) -> list[str]:
        """The features whose wish holds for every item."""
        return [
            name
            for name, wish in self.want.items()
            if wish in (0.0, 1.0) and name not in self.coefficients and self.features[name].boolean
        ]

    @property
    def unfitted(self) -> list[str]:
        """The features whose lambda is not known yet."""
        return [
            name
            for name in self.want
            if name not in self.coefficients and name not in self.pointwise
        ]
