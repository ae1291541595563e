"""Cutting a text into pieces, each with the features whose words it contains."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

__all__ = ["pieces"]

Piece = tuple[str, tuple[int, ...]]
"""A piece of text, and the indices of the features whose places cover it."""


def pieces(text: str, places: Sequence[Sequence[tuple[int, int]]]) -> list[Piece]:
    """Cut a text where a place begins or ends; joined, the pieces are the text again.

    Parameters
    ----------
    text : str
    places : sequence of lists of (start, end)
        A list for each feature; places may overlap, touch, repeat, or exceed the text.

    Examples
    --------
    >>> pieces("a chemist, she", [[(2, 9)], [(11, 14)]])
    [('a ', ()), ('chemist', (0,)), (', ', ()), ('she', (1,))]
    >>> pieces("abcd", [[(0, 3)], [(2, 4)]])
    [('ab', (0,)), ('c', (0, 1)), ('d', (1,))]
    """
    cuts = {0, len(text)}
    for spans in places:
        cuts.update(min(max(end, 0), len(text)) for span in spans for end in span)
    out: list[Piece] = []
    for start, end in pairwise(sorted(cuts)):
        on = tuple(
            j
            for j, spans in enumerate(places)
            if any(first <= start and end <= last for first, last in spans)
        )
        if out and out[-1][1] == on:
            out[-1] = (out[-1][0] + text[start:end], on)
        else:
            out.append((text[start:end], on))
    return out
