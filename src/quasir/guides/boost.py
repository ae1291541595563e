"""Boosts: tokens that begin or go on with a wanted word get a factor until the word is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from quasir.core.arguments import is_iterable, number
from quasir.core.formatting import short_repr
from quasir.errors import InputError
from quasir.guides.guide import Guide, Machine, Setting
from quasir.guides.vocabulary import Vocabulary
from quasir.targets.feature import Feature, WordGroup

LARGEST = 1e12
"""Largest factor: more than any model's precision can use."""


@dataclass(frozen=True)
class Boost(Guide):
    """Factors for the tokens that spell wanted words.

    Attributes
    ----------
    groups : tuple of WordGroup
        Of each group one word is enough; then its boost ends.
    factors : tuple of float or None
        The factor of each group, for spellings with the fewest tokens; None until it is fitted.
    fitted : tuple of (str, float)
        Factors of single words, by name, as `Guided.fit` found them.
    setting : Setting or None
        Where they were fitted. With the same tokenizer they may be used elsewhere: q is then
        farther from p, but every ceiling still holds.

    Examples
    --------
    >>> import quasir as qr
    >>> qr.guides.boost({"poet": 10.0}).factors
    (10.0,)
    """

    groups: tuple[WordGroup, ...]
    factors: tuple[float | None, ...]
    fitted: tuple[tuple[str, float], ...] = ()
    setting: Setting | None = None

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The tokenizer, where a fit recorded it: factors are those of its tokens."""
        return () if self.setting is None else ("tokenizer",)

    def compile(self, vocabulary: Vocabulary) -> Machine:
        """Return the automata of these words for a model's tokens."""
        from quasir.guides.automaton import BoostMachine

        return BoostMachine(self, vocabulary)

    def with_factors(self, factors: Mapping[str, float], setting: Setting | None = None) -> Boost:
        """Return the same words with factors, by name, that were fitted in this setting."""
        return replace(self, fitted=tuple(sorted(factors.items())), setting=setting)

    def join(self, other: Boost) -> Boost:
        """Return the boost of both; factors that were fitted are kept if both have some."""
        groups, factors = self.groups + other.groups, self.factors + other.factors
        if bool(self.fitted) != bool(other.fitted):
            raise InputError(
                f"{self!r} and {other!r} cannot be multiplied: one is fitted and the other is not. "
                "Multiply them first, then fit the product."
            )
        moved, n = [], len(self.groups)
        for name, factor in other.fitted:
            group, rest = name.split(" ", 1)
            moved.append((f"{int(group) + n} {rest}", factor))
        setting = self.setting or other.setting
        if self.setting and other.setting:
            setting = self.setting.common(other.setting)
        return Boost(groups, factors, tuple(sorted((*self.fitted, *moved))), setting)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        groups = [{"words": list(g.words), "whole": g.whole, "case": g.case} for g in self.groups]
        fitted = [list(pair) for pair in self.fitted]
        setting = {} if self.setting is None else {"setting": self.setting.to_dict()}
        facts = {"guide": "boost", "groups": groups, "factors": list(self.factors)}
        return facts | {"fitted": fitted} | setting

    def __repr__(self) -> str:
        names = [" or ".join(group.words) for group in self.groups]
        factors = ["fitted"] * len(names) if self.fitted else self.factors
        return f"boost({short_repr(dict(zip(names, factors, strict=True)))})"


def boost(wanted: Any) -> Boost:
    """Return the guide that makes words more likely until they are there.

    Parameters
    ----------
    wanted : dict, Feature, str, or list of those
        Words, or features that look for words (`qr.features.words`, `contains`, `pronouns`, and
        what ``&`` and ``|`` make of them). A dictionary gives their factors; a factor of None, or
        no dictionary, leaves them to `Guided.fit`.

    Examples
    --------
    >>> boost({"scientist": 20.0, "she": 8.0})
    boost({'scientist': 20.0, 'she': 8.0})
    >>> import quasir as qr
    >>> boost(qr.features.words(["geologist"]))
    boost({'geologist': None})
    """
    pairs: Iterable[tuple[Any, Any]]
    if isinstance(wanted, Mapping):
        pairs = wanted.items()
    elif is_iterable(wanted) and not isinstance(wanted, (Feature, str)):
        pairs = [(each, None) for each in wanted]
    else:
        pairs = [(wanted, None)]
    groups: dict[WordGroup, float | None] = {}
    for what, factor in pairs:
        for group in _word_groups(what):
            groups[group] = None if factor is None else _factor(what, factor)
    if not groups:
        raise InputError("there is nothing to boost: give one word or more.")
    return Boost(tuple(groups), tuple(groups.values()))


def _word_groups(what: Any) -> tuple[WordGroup, ...]:
    if isinstance(what, str) and what.strip():
        return (WordGroup((what.strip(),)),)
    found = feature_words(what) if isinstance(what, Feature) else ()
    if not found:
        name = f"the feature {what.name!r}" if isinstance(what, Feature) else short_repr(what)
        raise InputError(
            f"{name} cannot be boosted, because it names no word: give words, as in "
            "qr.guides.boost(['word']), or features that look for words."
        )
    return found


def feature_words(feature: Feature) -> tuple[WordGroup, ...]:
    """Return the words that a feature, or what it is made of, looks for."""
    if feature.word_groups:
        return feature.word_groups
    parts = [part for part in feature._made_of if isinstance(part, Feature)]
    return tuple(dict.fromkeys(group for part in parts for group in feature_words(part)))


def _factor(what: Any, factor: Any) -> float:
    value = number(f"the factor of {short_repr(what)}", factor)
    if not 0 < value <= LARGEST:
        raise InputError(
            f"the factor of {short_repr(what)} is {value:g}, but must be above 0 and at most "
            f"{LARGEST:g}: above 1 makes the word more likely, below 1 less."
        )
    return value
