"""A recipe: base, features, wanted means, proposal, draws, choice of beta."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, create_model, model_validator

from quasir.core.formatting import escaped, short_repr
from quasir.estimation.quantities import GUARANTEED, OPTIONS, Option
from quasir.features import NAMED
from quasir.recipes.parts import (
    Count,
    FeatureSpec,
    Finite,
    Fraction,
    GuideSpec,
    Name,
    Part,
    Positive,
    Rate,
    RewardSpec,
    SeedNumber,
    Temperature,
)

WEIGHTS = tuple(
    "model adapter revision dtype device device_map quantization trust_remote_code".split()
)
WARP = ("prompt", "chat", "temperature", "top_k", "top_p")
SERVED = ("server", "logit_bias", "mask")
OF_MODEL = (*WEIGHTS, "source", *WARP, *SERVED)
"""The settings of a language model; they mean nothing to other distributions."""
TokenId = Annotated[str, Field(pattern=r"^[0-9]{1,9}$")]
MODEL_NAMES = ("model", "adapter", "there", "back", "tokenizer")
"""The fields of all parts that name a model: a folder, a built-in one or a hub id."""


class RoundTripSpec(Part):
    """Translation there and back (section 3.3)."""

    templates: ClassVar = {"text": str}

    there: Name
    back: Name
    text: str
    beams: Count = 5
    top_k: Count | None = 30


class MessageSpec(Part):
    """One message of a chat."""

    templates: ClassVar = {"content": str}

    role: Name
    content: str


class ServerSpec(Part):
    """The server of a model: its address, or a mapping with more."""

    url: Name
    kind: Name | None = None
    tokenizer: Name | None = None
    key: Name | None = None
    concurrency: Count = 16

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"url": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _address(self) -> ServerSpec:
        parsed = urlsplit(self.url)
        if parsed.scheme not in ("http", "https") or not parsed.hostname:
            raise ValueError("the address of a server is given as http://host:8000/v1")
        if parsed.username or parsed.password or parsed.query:
            raise ValueError(
                "the address of a server is written into the run, so it must hold no password: "
                "put the key into an environment variable, and give its name as key"
            )
        return self


class Source(Part):
    """A distribution: a language model, a table, a Poisson, a round trip, or a mixture."""

    templates: ClassVar = {"prompt": str, "source": str}

    model: Name | None = None
    adapter: Name | None = None
    revision: Name | None = None
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    device: Name | None = None
    device_map: Name | None = None
    quantization: Literal["4bit", "8bit"] | None = None
    trust_remote_code: bool = False
    prompt: str | None = None
    chat: Annotated[list[MessageSpec], Field(min_length=1)] | None = None
    source: str | None = None
    temperature: Temperature = 1.0
    top_k: Count | None = None
    top_p: Fraction | None = None
    server: ServerSpec | None = None
    logit_bias: dict[TokenId, Annotated[Finite, Field(ge=-100, le=100)]] | None = None
    mask: dict[str, Any] | None = None
    table: Annotated[dict[str, Positive], Field(min_length=1)] | None = None
    poisson: Rate | None = None
    round_trip: RoundTripSpec | None = None
    mixture: Annotated[list[Source], Field(min_length=1)] | None = None
    guide: GuideSpec | None = None
    share: Annotated[Finite, Field(ge=0, lt=1)] | None = None
    auto: bool | Annotated[list[Source], Field(min_length=1)] = False
    weight: Positive = 1.0

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        if value == "base":
            return {}  # a proposal that leaves everything out is the base
        if value == "auto":
            return {"auto": True}
        return {"model": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_kind(self) -> Source:
        kinds = self.given(("table", "poisson", "round_trip", "mixture"))
        of_model = self.given(tuple(self.of_model))
        if len(kinds) > 1 or (kinds and of_model):
            raise ValueError(f"{' and '.join([*kinds, *of_model])} do not go together: give one")
        if self.guide is not None and (kinds or self.source is not None):
            raise ValueError(f"a guide goes with a causal model, not with {[*kinds, 'source'][0]}")
        loaded = self.given(("adapter", "revision", "source", "guide"))
        if self.server is not None and loaded:
            raise ValueError(f"{' and '.join(loaded)} do not go with a server, which has its model")
        if self.auto and (kinds or of_model or self.guide is not None):
            raise ValueError("auto is a search for a proposal: leave everything else out")
        if self.share is not None and self.words:
            raise ValueError("the factors and the share are searched: leave share out")
        if self.share is not None and self.guide is None:
            raise ValueError("share is the base's share of a guided model: it needs a guide")
        if len(before := self.given(("prompt", "chat", "source"))) > 1:
            raise ValueError(f"{' and '.join(before)} do not go together: give one")
        if self.revision is not None and self.model and self.model.startswith("quasir/"):
            raise ValueError(f"{short_repr(self.model)} has no revisions: leave revision out")
        weights = {f"part {i}": one.weight for i, one in enumerate(self.mixture or (), start=1)}
        of, weights = ("the table", self.table) if self.table else ("the mixture", weights)
        total = sum(weights.values())
        if not math.isfinite(total):
            raise ValueError(f"the weights of {of} add up to more than a float can hold (1e308)")
        small = [name for name, weight in weights.items() if weight / total == 0.0]
        if small:
            raise ValueError(
                f"the weight of {escaped(small[0])} in {of} is 0 beside the sum: raise it"
            )
        return self

    @property
    def of_model(self) -> list[str]:
        """The settings of a language model that are given; None is one, where the base has one."""
        return [name for name in OF_MODEL if name in self.model_fields_set]

    @property
    def searched(self) -> bool:
        """Whether it is to be searched: it says so, or it boosts words without factors."""
        return bool(self.auto or self.words)

    @property
    def candidates(self) -> list[Source]:
        """The proposals that a search is to try too."""
        return self.auto if isinstance(self.auto, list) else []

    @property
    def words(self) -> list[str]:
        """The words and features that it boosts without factors."""
        boost = None if self.guide is None else self.guide.boost
        return boost if isinstance(boost, list) else []

    @property
    def is_base(self) -> bool:
        """Whether it leaves everything out but its weight in a mixture, and so is the base."""
        others = ("table", "poisson", "round_trip", "mixture", "guide")
        return not self.of_model and not self.given(others) and not self.auto


def _field(option: Option) -> Any:
    limits: dict[str, Any] = {"gt" if option.excludes_low else "ge": option.low}
    if option.high < math.inf:
        limits["le"] = option.high
    return Annotated[Finite, Field(**limits)] | None, Field(None, description=option.help)


_Options: Any = create_model(
    "_Options", __base__=Part, **{name: _field(option) for name, option in OPTIONS.items()}
)


class Choice(_Options):  # type: ignore[misc]
    """How to choose beta: by exactly one quantity; with a confidence, the choice is guaranteed."""

    confidence: Annotated[Finite, Field(gt=0, lt=1)] | None = None

    @model_validator(mode="after")
    def _one(self) -> Choice:
        names = self.given(tuple(OPTIONS))
        if len(names) != 1:
            raise ValueError(f"beta is chosen by exactly one quantity of {', '.join(OPTIONS)}")
        if self.confidence is not None and names[0] not in GUARANTEED:
            raise ValueError(f"confidence goes with {', '.join(GUARANTEED)}, not with {names[0]}")
        return self

    @property
    def asked(self) -> dict[str, float]:
        """What is asked for, as `Curve.at` takes it."""
        return {name: getattr(self, name) for name in self.given((*OPTIONS, "confidence"))}


ALL_SAMPLES = 1000  # samples of a run whose recipe does not say how many

SEARCHED_FROM = 4_096  # a run of fewer draws, whose recipe names no proposal, draws from the base


class Recipe(Part):
    """An experiment: all that a run depends on; `meanings.yaml` says what each field means."""

    about: str = ""
    base: Source
    features: dict[Name, FeatureSpec] = Field({})
    want: dict[str, Finite] = Field({})
    reward: RewardSpec | None = None
    coefficients: dict[str, Finite] = Field({}, alias="lambda")
    fitted: dict[str, Finite] = Field({})
    proposal: Source = Source()
    draws: Count = 20_000
    fit: Count = 20_000
    max_tokens: Count = 40
    seed: SeedNumber = 0
    choose: Choice = Choice(acceptance_rate=0.01)
    samples: Count = ALL_SAMPLES
    over: Literal["contexts", "each"] | None = None

    @model_validator(mode="after")
    def _add_named_features(self) -> Recipe:
        """Let want and lambda name a built-in feature that features leave out."""
        for name in (*self.want, *self.coefficients):
            if name in NAMED and name not in self.features:
                added = FeatureSpec(named=name)
                added.model_fields_set.clear()  # it is a default, not given
                self.__dict__["features"] = {**self.features, name: added}
                self.model_fields_set.add("features")
        return self

    @model_validator(mode="after")
    def _write_reward_out(self) -> Recipe:
        """Turn a reward into the feature and the lambda that it is short for."""
        if self.reward is None:
            return self
        if "reward" in self.features:
            raise ValueError("reward is a feature here already: give it one of them another name")
        tilt = 1.0 / self.reward.temperature
        self.__dict__["features"] = {**self.features, "reward": self.reward.feature}
        self.__dict__["coefficients"] = {**self.coefficients, "reward": tilt}
        self.__dict__["reward"] = None
        self.model_fields_set.update(("features", "coefficients"))
        self.model_fields_set.discard("reward")
        return self

    def samples_of_each(self, contexts: int) -> int:
        """Return how many samples of each context are wanted."""
        if "samples" in self.model_fields_set:
            return self.samples
        return max(self.samples // contexts, 1)

    @property
    def searched_by_default(self) -> bool:
        """Whether a run searches a proposal because the recipe names none."""
        own_model = self.base.model is not None and self.base.server is None
        asked = bool(self.want or self.coefficients) and "proposal" not in self.model_fields_set
        return asked and own_model and self.draws >= SEARCHED_FROM

    @property
    def pointwise(self) -> list[str]:
        """The features whose constraint holds for every item."""
        return [
            name
            for name, moment in self.want.items()
            if moment in (0.0, 1.0)
            and name not in self.fitted
            and self.features[name].may_be_boolean
        ]

    @property
    def unfitted(self) -> list[str]:
        """The features whose lambda is not known yet."""
        pointwise = self.pointwise
        return [name for name in self.want if name not in self.fitted and name not in pointwise]
