"""Guides: proposals that know what is wanted, exact and in one pass.

`regex`, `json_schema`, `grammar` and `choice` forbid tokens that lead out of a language; `boost`
makes tokens of wanted words more likely. ``base.guided(guide)`` is the proposal.
"""

from quasir.guides.boost import Boost, boost
from quasir.guides.guide import Guide
from quasir.guides.language import Language, choice, grammar, json_schema, regex
from quasir.guides.product import from_dict, load
from quasir.guides.trie import Trie

__all__ = [
    "Boost",
    "Guide",
    "Language",
    "Trie",
    "boost",
    "choice",
    "from_dict",
    "grammar",
    "json_schema",
    "load",
    "regex",
]
