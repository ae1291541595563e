"""What a site must keep: links that lead somewhere, and names that exist."""

import inspect
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import quasir

NAME = re.compile(r"\bqr((?:\.[A-Za-z_]\w*)+)")
MARKDOWN_LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
MENTION = re.compile(r"\bdocs/[\w/-]+\.md\b")


class _Page(HTMLParser):
    """The anchors of a page, and what it refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.without_alt: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {given[key] or "" for key in ("id", "name") if key in given}
        self.links += [given[key] or "" for key in ("href", "src") if key in given]
        if tag == "img" and not given.get("alt"):
            self.without_alt.append(given.get("src") or "")


def pages_of(site: Path) -> dict[Path, _Page]:
    """Return every page of a built site; the report of a run is tested elsewhere."""
    found = sorted(
        path
        for path in site.rglob("*.html")
        if path.name != "report.html" and "_static" not in path.parts  # the theme's own templates
    )
    return {path: _Page(path.read_text(encoding="utf-8")) for path in found}


def broken_links(site: Path) -> list[str]:
    """Return links within the site to a file or an anchor that does not exist."""
    pages = pages_of(site)
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link == "#":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[target].anchors if target in pages else None
            wanted = unquote(parts.fragment)
            if not target.exists() or (wanted and anchors is not None and wanted not in anchors):
                broken.append(f"{path.relative_to(site)}: {link}")
    return broken


def loaded_from_elsewhere(site: Path) -> list[str]:
    """Return scripts, styles, images and frames that need a network."""
    tag = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"(https?:)?//[^>]*>")
    return [
        f"{path.relative_to(site)}: {found.group(0)[:120]}"
        for path in sorted(site.rglob("*.html"))
        for found in tag.finditer(path.read_text(encoding="utf-8"))
    ]


def images_without_alt(site: Path) -> list[str]:
    """Return images whose content nobody describes."""
    return [
        f"{path.relative_to(site)}: {image}"
        for path, page in pages_of(site).items()
        for image in page.without_alt
    ]


def unknown_names(text: str) -> list[str]:
    """Return names such as qr.x.y, in code, that quasir does not have."""
    unknown = []
    for code in CODE.findall(text):
        for dotted in NAME.findall(code):
            if not _exists(dotted[1:].split(".")):
                unknown.append(f"qr{dotted}")
    return unknown


def _exists(parts: list[str]) -> bool:
    """Return whether quasir has this name: public in a module, anything of a class."""
    thing: object = quasir
    for part in parts:
        if inspect.ismodule(thing) and part not in thing.__all__:
            return False
        if not hasattr(thing, part):
            return part in getattr(thing, "__annotations__", {})
        thing = getattr(thing, part)
    return True


def broken_markdown_links(page: Path) -> list[str]:
    """Return links of a Markdown file to files that do not exist."""
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    links = [link for link in MARKDOWN_LINK.findall(text) if not urlsplit(link).scheme]
    files = [link.partition("#")[0] for link in links]
    return [file for file in files if file and not (page.parent / file).exists()]


def absent_pages(text: str, root: Path) -> list[str]:
    """Return pages that a text mentions as docs/page.md and that do not exist."""
    return [page for page in MENTION.findall(text) if not (root / page).exists()]
