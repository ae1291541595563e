"""Boosts: tokens that begin or go on with a wanted word get a factor until the word is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from quasir.core.arguments import is_iterable, number, show
from quasir.errors import InputError
from quasir.guides.guide import Guide
from quasir.guides.machine import Machine
from quasir.guides.vocabulary import Vocabulary
from quasir.targets.feature import Feature
from quasir.targets.word_group import WordGroup

__all__ = ["Boost", "boost"]

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

    Examples
    --------
    >>> import quasir as qr
    >>> qr.guides.boost({"poet": 10.0}).factors
    (10.0,)
    """

    groups: tuple[WordGroup, ...]
    factors: tuple[float | None, ...]
    fitted: tuple[tuple[str, float], ...] = ()

    def compiled(self, vocabulary: Vocabulary) -> Machine:
        """Return the automata of these words for a model's tokens."""
        from quasir.guides.boost_machine import BoostMachine

        return BoostMachine(self, vocabulary)

    def with_factors(self, factors: Mapping[str, float]) -> Boost:
        """Return the same words with fitted factors, by name."""
        return replace(self, fitted=tuple(sorted(factors.items())))

    def joined(self, other: Boost) -> Boost:
        """Return the boost of both; factors that were fitted are kept if both have some."""
        groups, factors = self.groups + other.groups, self.factors + other.factors
        if bool(self.fitted) != bool(other.fitted):
            raise InputError(
                f"{self!r} and {other!r} cannot be multiplied: one is fitted and the other is not. "
                "Multiply them first, then fit the product."
            )
        moved = []
        for name, factor in other.fitted:
            group, rest = name.split(" ", 1)
            moved.append((f"{int(group) + len(self.groups)} {rest}", factor))
        return Boost(groups, factors, tuple(sorted((*self.fitted, *moved))))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        return {
            "guide": "boost",
            "groups": [
                {"words": list(g.words), "whole": g.whole, "case": g.case} for g in self.groups
            ],
            "factors": list(self.factors),
            "fitted": [list(pair) for pair in self.fitted],
        }

    def __repr__(self) -> str:
        pairs = zip(self.groups, self.factors, strict=True)
        known = {
            " or ".join(group.words): "fitted" if self.fitted else factor for group, factor in pairs
        }
        return f"boost({show(known)})"


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
    elif isinstance(wanted, (Feature, str)):
        pairs = [(wanted, None)]
    elif is_iterable(wanted):
        pairs = [(each, None) for each in wanted]
    else:
        raise InputError(f"{show(wanted)} cannot be boosted: give words, or features of words.")
    groups: dict[WordGroup, float | None] = {}
    for what, factor in pairs:
        for group in _groups_of(what):
            groups[group] = None if factor is None else _factor(what, factor)
    if not groups:
        raise InputError("there is nothing to boost: give one word or more.")
    return Boost(tuple(groups), tuple(groups.values()))


def _groups_of(what: Any) -> tuple[WordGroup, ...]:
    if isinstance(what, str):
        if not what.strip():
            raise InputError("a word to boost is empty: give a word.")
        return (WordGroup((what.strip(),)),)
    if not isinstance(what, Feature):
        raise InputError(f"{show(what)} cannot be boosted: give a word, or a feature of words.")
    found = _groups_in(what)
    if not found:
        raise InputError(
            f"the feature {what.name!r} does not say which words it looks for, so there is nothing "
            "to boost: give the words themselves, as in qr.guides.boost(['word'])."
        )
    return found


def _groups_in(feature: Feature) -> tuple[WordGroup, ...]:
    if feature.word_groups:
        return feature.word_groups
    parts = [part for part in feature._made_of if isinstance(part, Feature)]
    return tuple(dict.fromkeys(group for part in parts for group in _groups_in(part)))


def _factor(what: Any, factor: Any) -> float:
    value = number(f"the factor of {show(what)}", factor)
    if not 0 < value <= LARGEST:
        raise InputError(
            f"the factor of {show(what)} is {value:g}, but must be above 0 and at most "
            f"{LARGEST:g}: above 1 makes the word more likely, below 1 less."
        )
    return value
