"""Guides with a language: regular expressions, JSON schemas, grammars and lists of choices."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quasir.core.arguments import check_bool, is_iterable
from quasir.core.formatting import short_repr
from quasir.errors import InputError
from quasir.guides.guide import Guide, Machine
from quasir.guides.vocabulary import Vocabulary
from quasir.targets.feature import Feature

PLAIN = '\n%llguidance {"no_forcing": true}\n'
"""Without this, a mask allows only one spelling of bytes that are certain, and q = 0 on others."""


@dataclass(frozen=True)
class Language(Guide):
    """A language of texts; a token that leads out of it has weight 0.

    Attributes
    ----------
    kind : {"regex", "json_schema", "grammar", "choice"}
    source : str
        The pattern, the schema as JSON, the grammar, or the choices as JSON.
    complete : bool
        Whether a text that was cut at max_tokens must be a whole text of the language. If False,
        a cut text counts as long as it could still be completed.
    name : str
        The name of its feature.

    Examples
    --------
    >>> import quasir as qr
    >>> language = qr.guides.choice(["yes", "no"])
    >>> language.kind, language.complete
    ('choice', True)
    """

    kind: str
    source: str
    complete: bool
    name: str

    forbids = True

    @property
    def feature(self) -> Feature:
        """The feature b(x): the whole text is in the language, by the tokens it was drawn as."""
        from quasir.guides.matcher import LanguageFeature

        return LanguageFeature((self,))

    @property
    def lark(self) -> str:
        """The language as llguidance reads it."""
        if self.kind == "grammar":
            return self.source + PLAIN
        if self.kind == "json_schema":
            rule = f"%json {self.source}"
        elif self.kind == "choice":
            rule = " | ".join(json.dumps(option) for option in json.loads(self.source))
        else:
            from llguidance import regex_to_lark

            rule = f"/{regex_to_lark(self.source, '')}/"
        return f"start: {rule}{PLAIN}"

    def compile(self, vocabulary: Vocabulary) -> Machine:
        """Return the matcher of this language for a model's tokens."""
        from quasir.guides.matcher import MatcherMachine

        return MatcherMachine(self, vocabulary)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        return {"guide": "language", **vars(self)}

    def __repr__(self) -> str:
        whole = "" if self.complete else ", complete=False"
        return f"{self.kind}({short_repr(self.source)}{whole})"


def regex(pattern: str, complete: bool = True, name: str | None = None) -> Language:
    r"""Return the guide of texts that a regular expression matches as a whole.

    The syntax is that of Rust's ``regex`` crate: no look-around, no back-references.

    Parameters
    ----------
    pattern : str
    complete : bool
        Whether a text that was cut at max_tokens must be whole. If False, a cut text counts as
        long as it could still be completed.
    name : str, optional
        The name of the guide's feature.

    Examples
    --------
    >>> regex(r"[A-Z][a-z]+ [0-9]{4}")
    regex('[A-Z][a-z]+ [0-9]{4}')
    """
    return _checked("regex", pattern, complete, name)


def json_schema(
    schema: Mapping[str, Any] | str, complete: bool = True, name: str | None = None
) -> Language:
    """Return the guide of JSON texts of a schema.

    The language is llguidance's: properties come in the schema's order, and whitespace is free.

    Parameters
    ----------
    schema : dict or str
        A JSON schema, or its JSON.
    complete, name
        See `regex`.

    Examples
    --------
    >>> json_schema({"type": "boolean"})
    json_schema('{"type": "boolean"}')
    """
    try:
        parsed = json.loads(schema) if isinstance(schema, str) else dict(schema)
        source = json.dumps(parsed, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"{short_repr(schema)} is not a JSON schema: {error}.") from error
    return _checked("json_schema", source, complete, name)


def grammar(lark: str, complete: bool = True, name: str | None = None) -> Language:
    """Return the guide of texts of a context-free grammar, in llguidance's dialect of Lark.

    Parameters
    ----------
    lark : str
        The grammar; its rule ``start`` is the text.
    complete, name
        See `regex`.

    Examples
    --------
    >>> grammar('start: "(" start ")" | "x"')
    grammar('start: "(" start ")" | "x"')
    """
    return _checked("grammar", lark, complete, name)


def choice(options: Any, complete: bool = True, name: str | None = None) -> Language:
    """Return the guide of texts that are one of some strings.

    Parameters
    ----------
    options : sequence of str
    complete, name
        See `regex`.

    Examples
    --------
    >>> choice(["yes", "no"])
    choice('["yes", "no"]')
    """
    listed = list(options) if is_iterable(options) and not isinstance(options, str) else []
    right = all(isinstance(option, str) and option for option in listed)
    if not listed or not right or len(set(listed)) < len(listed):
        raise InputError(
            f"options are {short_repr(options)}, but must be a list of different strings, none "
            "empty."
        )
    return _checked("choice", json.dumps(listed, ensure_ascii=False), complete, name)


def _checked(kind: str, source: str, complete: bool, name: str | None) -> Language:
    """Return the language; what llguidance cannot compile is refused with its own message."""
    check_bool("complete", complete)
    if not isinstance(source, str) or not (name is None or (name and isinstance(name, str))):
        raise InputError(
            f"the source and the name of a {kind} are {short_repr(source)} and {short_repr(name)}, "
            "but must be strings."
        )
    short = source if len(source) <= 40 else source[:37] + "..."
    title = f"{kind.removeprefix('json_')} {short}"
    language = Language(kind, source, bool(complete), name or title)
    try:
        from llguidance import LLMatcher
    except ModuleNotFoundError as error:
        raise InputError(
            f"a guide with a language needs {error.name}: pip install '.[text]' in a clone."
        ) from error
    try:
        wrong, messages = LLMatcher.validate_grammar_with_warnings(language.lark)
    except ValueError as error:
        wrong, messages = True, [str(error)]
    if wrong:
        raise InputError(
            f"the guide {language!r} cannot be compiled: {_message(kind, messages)} "
            "(llguidance's words). Correct it."
        )
    return language


def _message(kind: str, messages: list[str]) -> str:
    """Return the library's message; places in a text that it was wrapped in are left out."""
    lines = [line.strip() for line in "\n".join(messages).splitlines() if line.strip()]
    if kind != "grammar":
        lines = [line for line in lines if not line[0].isdigit() and set(line) != {"^"}]
        lines[0] = lines[0].split(": ", 1)[-1] if lines[0].startswith("at ") else lines[0]
    return " ".join(lines)
