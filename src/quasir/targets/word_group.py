"""Words that a feature looks for: a guide can make them more likely."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WordGroup"]


@dataclass(frozen=True)
class WordGroup:
    """Words of which one is enough.

    Attributes
    ----------
    words : tuple of str
    whole : bool
        Whether they count as whole words only.
    case : bool
        Whether their case matters.
    """

    words: tuple[str, ...]
    whole: bool = True
    case: bool = False
