"""Features: named functions of an item, to constrain, to tilt, and to measure.

`science`, `sports` and `female` are the paper's own (section 3.2.2), with the word lists of
Khalifa et al. (2021).
"""

from quasir.core.items import text_of
from quasir.features.classifier import classifier
from quasir.features.patterns import PRONOUNS, contains, length, pronouns, search, words
from quasir.features.similarity import similarity
from quasir.targets.feature import Feature

__all__ = [
    "NAMED",
    "PRONOUNS",
    "SCIENCE",
    "SPORTS",
    "Feature",
    "classifier",
    "contains",
    "female",
    "length",
    "pronouns",
    "science",
    "search",
    "similarity",
    "sports",
    "text_of",
    "words",
]

SCIENCE = (
    "scientist", "sociologist", "philosopher", "inventor", "student", "astronomer", "historian",
    "academic", "researcher", "chemist",
)  # fmt: skip
SPORTS = (
    "footballer", "trainer", "player", "swimmer", "cyclist", "athlete", "wrestler", "golfer",
    "cricketer",
)  # fmt: skip

science = words(SCIENCE, name="science")
sports = words(SPORTS, name="sports")
female = pronouns("female")

NAMED = {feature.name: feature for feature in (science, sports, female)}
"""The features that a recipe can name."""
