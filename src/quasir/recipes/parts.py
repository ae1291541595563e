"""What recipes are made of: kinds of values, languages, features and guides."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from quasir import features
from quasir.core.formatting import short_repr
from quasir.core.streams import LARGEST_SEED
from quasir.features import Feature
from quasir.guides import Language, choice, grammar, json_schema, regex

EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d{1,4}")
"""Numbers that YAML reads as a text: it wants a point and a sign, as in 1.0e+5."""
LARGEST_COUNT, LARGEST_FLOAT_BITS = 10**12, 1023


def _real(value: Any) -> Any:
    """Turn 1e-2, which YAML reads as a text, into the number that its reader sees."""
    if isinstance(value, str) and EXPONENT.fullmatch(value):
        return float(value)
    if isinstance(value, int) and value.bit_length() > LARGEST_FLOAT_BITS:
        raise ValueError("must be a number that a float can hold, at most about 1e308")
    return value


def _whole(value: Any) -> Any:
    number = value if isinstance(value, int) else _real(value)
    return int(number) if isinstance(number, float) and number.is_integer() else value


Name = Annotated[str, Field(min_length=1)]
Finite = Annotated[float, Field(allow_inf_nan=False), BeforeValidator(_real)]
Positive = Annotated[Finite, Field(gt=0)]
Fraction = Annotated[Finite, Field(gt=0, le=1)]
Count = Annotated[int, Field(gt=0, le=LARGEST_COUNT), BeforeValidator(_whole)]
SeedNumber = Annotated[int, Field(ge=0, le=LARGEST_SEED), BeforeValidator(_whole)]
Cosine = Annotated[Finite, Field(ge=-1, le=1)]
# Logits that are divided by less, or by more, no longer differ as numbers.
Temperature = Annotated[Positive, Field(ge=1e-3, le=1e3)]
# Means of a Poisson distribution whose log-probability is right to 1e-5: it is a difference of
# numbers near mean * log(mean), and at 1e15 it would be off by whole units.
Rate = Annotated[Positive, Field(ge=1e-9, le=1e9)]

FIELD = re.compile(r"\{(\{)?([A-Za-z_]\w*)\}(?(1)\})")
"""A field of a context in a text; with its first group, the text of one in doubled braces."""
SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
"""Characters that mean something in the patterns of languages (those of Rust)."""


def put_fields(text: str, value: Callable[[str], str], escape: Callable[[str], str] = str) -> str:
    """Return a text with its fields replaced; what a value holds is not looked at again."""
    return FIELD.sub(lambda m: f"{{{m[2]}}}" if m[1] else escape(value(m[2])), text)


def escape_for_language(text: str) -> str:
    """Return the pattern of a language that a text alone is in."""
    return SPECIAL.sub(r"\\\g<0>", text)


P = TypeVar("P", bound="Part")


class Part(BaseModel):
    """A part of a recipe; an unknown key is an error, and so is a number in quotes."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, strict=True)

    templates: ClassVar[Mapping[str, Callable[[str], str]]] = {}
    """The texts that may hold fields of a context, and how a value is escaped in each."""

    def given(self, names: tuple[str, ...]) -> list[str]:
        """Return which of these fields are not None."""
        return [name for name in names if getattr(self, name) is not None]

    def only(self, what: str, names: tuple[str, ...]) -> str:
        """Return the one of these fields that is given; refuse none or several."""
        kinds = self.given(names)
        if len(kinds) != 1:
            raise ValueError(
                f"{what} is of exactly one kind, but this has {' and '.join(kinds) or 'none'}: "
                f"give one of {', '.join(names)}"
            )
        return kinds[0]

    def parts(self, kind: type[P]) -> Iterator[P]:
        """Yield all parts of one kind within it, and itself if it is of that kind."""
        if isinstance(self, kind):
            yield self
        for value in vars(self).values():
            inner = value.values() if isinstance(value, dict) else value
            for one in inner if isinstance(value, (dict, list)) else [value]:
                if isinstance(one, Part):
                    yield from one.parts(kind)

    def changed(self, change: Callable[[Part], Mapping[str, Any]]) -> Self:
        """Return it with the values that `change` gives for it, and for every part within it."""

        def within(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: within(one) for key, one in value.items()}
            if isinstance(value, list):
                return [within(one) for one in value]
            return value.changed(change) if isinstance(value, Part) else value

        new = {name: within(value) for name, value in vars(self).items()} | dict(change(self))
        update = {name: value for name, value in new.items() if value != getattr(self, name)}
        return self.model_copy(update=update) if update else self


def check_beside(name: str, what: str) -> None:
    """Refuse a file that a run could not keep under the same path."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(
            f"a run keeps a copy of {what}, so the file lies beside the recipe or in a folder "
            "there: give its path from the recipe's folder, without '..'"
        )


LANGUAGES = {"regex": regex, "json_schema": json_schema, "grammar": grammar, "choice": choice}


class LanguageSpec(Part):
    """A language of whole texts: exactly one kind."""

    templates: ClassVar = {"regex": escape_for_language, "choice": str}

    regex: str | None = None
    json_schema: dict[str, Any] | str | None = None
    grammar: str | None = None
    choice: Annotated[list[str], Field(min_length=1)] | None = None
    complete: bool = True

    @model_validator(mode="after")
    def _one_kind(self) -> LanguageSpec:
        self.only("a language", tuple(LANGUAGES))
        tried = self
        if self.regex is not None:  # the values of a context's fields are not known yet
            plain = put_fields(self.regex, lambda name: "x")
            tried = self.model_copy(update={"regex": plain})
        tried.make("language")
        return self

    def make(self, name: str) -> Language:
        """Return the language, with the name of its feature."""
        kind = self.given(tuple(LANGUAGES))[0]
        made: Language = LANGUAGES[kind](getattr(self, kind), complete=self.complete, name=name)
        return made


class SimilaritySpec(Part):
    """The similarity of a text to a given one, by sentence embeddings."""

    templates: ClassVar = {"text": str}

    text: str
    above: Cosine | None = None
    model: Name | None = None
    instead: Annotated[dict[Name, Cosine], Field(max_length=1)] | None = None

    @model_validator(mode="after")
    def _a_threshold_each(self) -> SimilaritySpec:
        if self.instead is not None and self.above is None:
            raise ValueError("instead gives a package and its threshold, so above is needed too")
        return self


class ClassifierSpec(Part):
    """What a classifier says of a text: a probability or logit, or whether it is above a level."""

    templates: ClassVar = {"prompt": str, "hypothesis": str}

    model: Name
    label: Name | None = None
    above: Finite | None = None
    value: Literal["probability", "logit"] = "probability"
    prompt: str | None = None
    hypothesis: str | None = None
    low: Finite | None = None
    high: Finite | None = None
    revision: Name | None = None

    @model_validator(mode="after")
    def _sound(self) -> ClassifierSpec:
        self.make("classifier")
        return self

    def make(self, name: str) -> Feature:
        """Return the feature; the model is loaded at its first use."""
        return features.classifier(**vars(self), name=name)


PYTHON = Annotated[str, Field(pattern=r"^[^:]+\.py:[A-Za-z_]\w*$")]
"""A function of the user's own: a file beside the recipe, and a name in it."""
WORDS = ("words", "contains", "search")
FEATURE_KINDS = (*WORDS, "pronouns", "length", "similarity", "language", "classifier", "python")
"""The kinds of features; a language is of whole texts."""


class FeatureSpec(Part):
    """One feature: the name of a built-in one, or exactly one kind with its settings."""

    templates: ClassVar = {"words": str, "contains": str, "search": re.escape}

    named: str | None = None
    words: Annotated[list[str], Field(min_length=1)] | None = None
    contains: str | None = None
    search: str | None = None
    pronouns: Literal["female", "male"] | None = None
    length: Literal["characters", "words", "tokens"] | None = None
    similarity: SimilaritySpec | None = None
    language: LanguageSpec | None = None
    classifier: ClassifierSpec | None = None
    python: PYTHON | None = None
    batched: bool | None = None
    case: bool | None = None
    boolean: bool | None = None
    low: Finite | None = None
    high: Finite | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"named": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_kind(self) -> FeatureSpec:
        kind = self.only("a feature", ("named", *FEATURE_KINDS))
        if self.named is not None and self.named not in features.NAMED:
            raise ValueError(
                f"no feature is called {short_repr(self.named)}: built in are "
                f"{', '.join(features.NAMED)}; define others as in {{contains: word}}"
            )
        if kind in WORDS:
            self.make(kind)  # so that a wrong pattern is found with its line
        elif self.case is not None:
            raise ValueError("case goes with words, contains or search")
        if self.python is not None:
            check_beside(self.python.rpartition(":")[0], "the code")
        declared = self.given(("boolean", "low", "high"))
        own = self.given(("batched", "boolean", "low", "high"))
        if own and self.python is None:
            raise ValueError(f"{' and '.join(own)}: only features of your own (python) have it")
        if self.boolean and len(declared) > 1:
            raise ValueError("a boolean feature is 0 or 1: leave out low and high")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ValueError(f"low is {self.low:g}, which is not below high, {self.high:g}")
        return self

    @property
    def kind(self) -> str:
        """What it is: "named", or one of `FEATURE_KINDS`."""
        return self.given(("named", *FEATURE_KINDS))[0]

    @property
    def may_be_boolean(self) -> bool:
        """Whether it is true or false; a user's own feature counts, unless it declares bounds."""
        if self.python is not None:
            return not self.given(("low", "high"))
        measured = self.similarity or self.classifier
        return self.length is None and (measured is None or measured.above is not None)

    @property
    def is_boolean(self) -> bool:
        """Whether it is surely true or false: a user's own feature must declare it."""
        return bool(self.boolean) or (self.python is None and self.may_be_boolean)

    def make(self, name: str) -> Feature:
        """Return the feature, of any kind but the user's own code."""
        for kind in self.given(WORDS):
            case = {} if self.case is None else {"case": self.case}
            made: Feature = getattr(features, kind)(getattr(self, kind), name=name, **case)
            return made
        if self.pronouns is not None:
            return features.pronouns(self.pronouns, name=name)
        if self.length is not None:
            return features.length(self.length, name=name)
        if (near := self.similarity) is not None:
            return features.similarity(near.text, near.above, embed=near.model, name=name)
        if self.language is not None:
            return self.language.make(name).feature
        if self.classifier is not None:
            return self.classifier.make(name)
        assert self.named is not None
        return features.NAMED[self.named].renamed(name)


class RewardSpec(Part):
    """A reward r(x): the target is the base times exp(r(x)/temperature)."""

    templates: ClassVar = {"prompt": str}

    model: Name | None = None
    python: PYTHON | None = None
    batched: bool | None = None
    temperature: Positive = 1.0
    prompt: str | None = None
    low: Finite | None = None
    high: Finite | None = None
    revision: Name | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> RewardSpec:
        if (self.model is None) == (self.python is None):
            raise ValueError("a reward is a model, or a python function of yours: give one of them")
        if given := self.given(("prompt", "revision") if self.model is None else ("batched",)):
            raise ValueError(
                f"{' and '.join(given)} means nothing to a reward that is "
                f"{'python' if self.model is None else 'a model'}"
            )
        return self

    @property
    def feature(self) -> FeatureSpec:
        """The feature whose tilt it is."""
        if self.model is None:
            own = {name: getattr(self, name) for name in ("python", "batched", "low", "high")}
            return FeatureSpec(**own)
        names = ("model", "prompt", "low", "high", "revision")
        settings = {name: getattr(self, name) for name in names}
        return FeatureSpec(classifier=ClassifierSpec(**settings, value="logit"))


class GuideSpec(Part):
    """A guide: a file that was written before, or masks and boosts."""

    mask: Annotated[list[Name], Field(min_length=1)] | None = None
    boost: Annotated[dict[Name, Positive], Field(min_length=1)] | list[Name] | None = None
    file: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("mask"), str):
            return value | {"mask": [value["mask"]]}
        return value

    @model_validator(mode="after")
    def _some(self) -> GuideSpec:
        kinds = self.given(("mask", "boost", "file"))
        if not kinds or (self.file is not None and len(kinds) > 1):
            raise ValueError("a guide is a file, or has a mask, a boost, or both")
        if self.file is not None:
            check_beside(self.file, "the guide")
        return self
