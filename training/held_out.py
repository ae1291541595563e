"""Print held-out questions, a line each: contexts for `quasir run paraphrase --contexts FILE`.

No built-in model has learnt from them. They are the first questions of held-out pairs with the same
meaning, by a hash, so that the choice depends on no order of the file.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

from splitting import Questions, key_of, split_questions


def held_out(split: Questions, count: int, words: int) -> list[str]:
    """Return questions of `words` words at most, one a group."""
    found: dict[str, str] = {}
    for pair in split.pairs.judgement:
        if pair.same and len(pair.first.split()) <= words and "\n" not in pair.first:
            found.setdefault(split.group[key_of(pair.first)], pair.first)
    return sorted(found.values(), key=lambda text: hashlib.sha256(text.encode()).digest())[:count]


def main() -> None:
    """Print the questions."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="questions, gzipped")
    parser.add_argument("--pairs", type=Path, required=True, help="pairs of questions, gzipped")
    parser.add_argument("--count", type=int, default=50, help="how many (default 50)")
    parser.add_argument("--words", type=int, default=14, help="words at most (default 14)")
    arguments = parser.parse_args()
    split = split_questions(arguments.data, arguments.pairs)
    print("\n".join(held_out(split, arguments.count, arguments.words)))


if __name__ == "__main__":
    main()
