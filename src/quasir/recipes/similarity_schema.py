"""The field `similarity` of a feature in a recipe."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from quasir.recipes.numbers import Finite
from quasir.recipes.parts import Name, Part

__all__ = ["SimilaritySpec"]

Cosine = Annotated[Finite, Field(ge=-1, le=1)]


class SimilaritySpec(Part):
    """The similarity of a text to a given one, by sentence embeddings.

    `instead` names an installed package that carries a better model, and its own threshold:
    cosines of two models have different scales. A recipe that is read takes the package where it
    is installed, so a run keeps the model that was used.
    """

    text: str
    above: Cosine | None = None
    model: Name | None = None
    instead: Annotated[dict[Name, Cosine], Field(max_length=1)] | None = None

    @model_validator(mode="after")
    def _a_threshold_each(self) -> SimilaritySpec:
        if self.instead is not None and self.above is None:
            raise ValueError("instead gives a package and its threshold, so above is needed too")
        return self
