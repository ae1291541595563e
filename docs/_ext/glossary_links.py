"""Link each term of the glossary where it first appears on a page."""

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

TERMS = {
    "base": r"base model|the base",
    "constraint": r"constraints?",
    "target": r"target",
    "proposal": r"proposals?",
    "beta": r"beta|β",
    "trade-off": r"trade-off",
    "certificate": r"certificates?",
    "TVD": r"TVD",
    "truncated mass": r"truncated mass",
    "ceiling": r"ceilings?",
    "share": r"share (?:s )?of the base",
    "guarantee": r"guarantees?|guaranteed",
    "warning": r"warnings?",
    "feature": r"features?",
    "guide": r"guides?",
    "screened boost": r"screened boosts?|boosts?",
    "head": r"a head|heads",
    "context": r"contexts?",
    "stream": r"random streams?",
}
"""How each term looks in a text. Words that also mean something else are linked in a phrase."""
LINK = re.compile(
    r"(?<![\w-])(?:"
    + "|".join(f"(?P<t{i}>{pattern})" for i, pattern in enumerate(TERMS.values()))
    + r")(?![\w-])",
    re.IGNORECASE,
)
CLOSED = (
    *(nodes.reference, nodes.literal, nodes.literal_block, nodes.title, nodes.raw, nodes.math),
    *(addnodes.pending_xref, addnodes.toctree, nodes.comment, nodes.image, nodes.thead),
)
WITHOUT = ("glossary", "commands", "architecture", "paper")


class GlossaryLinks(SphinxTransform):
    """Turn the first appearance of each term into a reference."""

    default_priority = 500

    def apply(self, **_: Any) -> None:
        """Go through the texts of a page, in order."""
        page = self.env.docname
        if page in WITHOUT or page.startswith("reference/"):
            return
        names, seen = list(TERMS), set()
        for text in list(self.document.findall(nodes.Text)):
            if _inside(text, CLOSED):
                continue
            parts: list[nodes.Node] = []
            end, written = 0, text.astext()
            for found in LINK.finditer(written):
                name = names[int(str(found.lastgroup)[1:])]
                if name in seen:
                    continue
                seen.add(name)
                link = addnodes.pending_xref(
                    "",
                    nodes.inline("", found[0], classes=["term"]),
                    refdomain="std",
                    reftype="term",
                    reftarget=name,
                    refdoc=page,
                    refexplicit=True,
                    refwarn=True,
                )
                parts += [nodes.Text(written[end : found.start()]), link]
                end = found.end()
            if parts:
                text.parent.replace(text, [*parts, nodes.Text(written[end:])])


def _inside(node: nodes.Node, kinds: tuple[type, ...]) -> bool:
    """Return whether a node stands in one of these, or in a card, which is a link as a whole."""
    while node.parent is not None:
        node = node.parent
        if isinstance(node, kinds) or "sd-card" in node.get("classes", ()):
            return True
    return False


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx about the transform."""
    app.add_transform(GlossaryLinks)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
