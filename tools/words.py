"""Count the words of the documents by group; fail if those for users are too many."""

import re
import sys
from pathlib import Path

NOT_READ = re.compile(
    r"\A---\n.*?\n---\n|^```(?!\{glossary\}).*?^```$|<!--.*?-->", re.DOTALL | re.MULTILINE
)
"""Front matter, code and comments: what is not read as a text."""
DOCS = Path(__file__).parents[1] / "docs"
LIMIT = 15_000
USERS = {
    "start": ("index.md", "start.md", "tonight.md", "glossary.md"),
    "tutorials": ("tutorials/*.md",),
    "how-to": ("howto/*.md", "servers.md", "proposals.md"),
    "explanation": ("explanation/*.md",),
}
OTHERS = {
    "records": ("records/*.md", "paper.md"),
    "reference": ("reference/*.md", "commands.md", "architecture.md"),
}


def count(patterns: tuple[str, ...]) -> int:
    """Return the words of the pages: prose and tables, without code."""
    pages = [page for pattern in patterns for page in DOCS.glob(pattern)]
    texts = [NOT_READ.sub("", page.read_text(encoding="utf-8")) for page in pages]
    return sum(len(text.split()) for text in texts)


def main() -> int:
    """Print a table; return 1 if the limit is passed."""
    users = {group: count(patterns) for group, patterns in USERS.items()}
    others = {group: count(patterns) for group, patterns in OTHERS.items()}
    for group, words in (users | others).items():
        print(f"{group:12} {words:7,}")
    print(f"{'for users':12} {sum(users.values()):7,} of at most {LIMIT:,}")
    return int(sum(users.values()) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
