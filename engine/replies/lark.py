"""Writes Lark in llguidance's dialect: rules with generated names, texts, marks and JSON."""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import count

from engine.replies.syntax import ReplySyntax
from models.errors import Problem

_TERMINALS = r"""
TEXT: /(.|\n)*/
GAP: /\n{1,2}/
WORD: /[A-Za-z_][A-Za-z0-9_]*/
TAGGED: /[^<>\n"]+/
ID: /[A-Za-z0-9_.:-]+/
SPACE: /[ \n]/
QUOTED: /'[^'\\]*'/
"""
_PLACES = {
    "{gap}": "SPACE?", "{id}": "ID", "{type}": "WORD", "{text}": '("true" | "false")',
}  # fmt: skip


class Rules:
    """The rules of one grammar, with the terminals above.

    In a grammar `<name>` is the special token `name` or `<name>`, which no text contains. A mark of
    the syntax that is not a special token is text: the first place of it ends the text before it.
    """

    def __init__(self, syntax: ReplySyntax) -> None:
        self.syntax = syntax
        self._lines: list[str] = []
        self._numbers = count()
        longest_first = sorted(syntax.special, key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        self._parts = re.compile(f"({'|'.join(map(re.escape, [*longest_first, *_PLACES]))})")

    def grammar(self, start: str) -> str:
        return "\n".join([f"start: {start}", *self._lines]) + _TERMINALS

    def name(self, *, terminal: bool = False) -> str:
        """A new name."""
        return f"{'T' if terminal else 'r'}{next(self._numbers)}"

    def add(self, body: str, *, name: str = "", options: str = "", terminal: bool = False) -> str:
        """Add a rule; return its name."""
        name = name or self.name(terminal=terminal)
        self._lines.append(f"{name}{options}: {body}")
        return name

    def json(self, schema: object) -> str:
        if not isinstance(schema, Mapping):
            raise Problem("The JSON schema is not an object.", "Send an object, such as {}.")
        return self.add(f"%json {json.dumps(schema)}")

    def regex(self, pattern: str) -> str:
        """A terminal for the texts that a regular expression matches."""
        line = re.sub(
            r"\\?(\n)|\\.|/",
            lambda found: r"\n" if found[1] else r"\/" if found[0] == "/" else found[0],
            pattern,
        )
        return self.add(f"/{line}/", terminal=True)

    def mark(self, mark: str) -> str:
        """A mark as grammar: special tokens as tokens, its places as rules, the rest as text."""
        found = []
        for part in filter(None, self._parts.split(mark)):
            if part in _PLACES:
                found.append(_PLACES[part])
            elif part not in self.syntax.special:
                found.append(text(part))
            else:
                found.append(part if part.startswith("<") else f"<{part}>")
        return " ".join(found)

    def up_to(self, terminal: str, mark: str) -> str:
        """Text of `terminal` up to the first `mark`, and the mark."""
        if self.begins_special(mark):
            return f"{terminal} {self.mark(mark)}"
        return self.add(f"{terminal} {text(mark)}", options="[lazy]")

    def prose(
        self, beginnings: Sequence[str], *, without: Sequence[str] = (), empty: bool = True
    ) -> str:
        """A terminal for text that begins with none of `beginnings`, nor after white space, and has
        none of the marks `without` in it, with any white space in them. `empty`: it may be."""
        begun = [rf"\s*{spaced(mark)}" for mark in beginnings if mark]
        inside = [f".*{spaced(mark)}" for mark in without if not self.begins_special(mark)]
        barred = "|".join([*inside, *begun])
        if empty and not barred:
            return "TEXT"
        otherwise = rf" & ~/(?s:({barred}).*)/" if barred else ""
        return self.add(rf"/(?s:.*{'' if empty else r'\S.*'})/{otherwise}", terminal=True)

    def begins_special(self, mark: str) -> bool:
        return self._special.match(mark) is not None


def spaced(mark: str) -> str:
    """A regular expression for a mark, with any white space where JSON and the mark may have it."""
    words = re.findall(r'"\w+"|[\w`<>|/]+|\S', mark)
    return r"\s*".join(re.escape(word).replace("/", r"\/") for word in words)


def text(words: str) -> str:
    """A text as a Lark string: 'say "hi"' gives '"say \\\\"hi\\\\""'; "" for an empty text."""
    return json.dumps(words, ensure_ascii=False) if words else ""


def either(choices: Sequence[str]) -> str:
    return f"({' | '.join(choices)})"


def members(rules: Rules, parts: Sequence[tuple[str, bool]], *, comma: str = "") -> str:
    """A rule for `parts` (body, whether it is required) in order, with `comma` between parts that
    are there."""
    first = later = ""  # the rest: if no part is before it, and if one is
    for part, must in reversed(parts):
        whole = f"{part} {later}"
        if must:
            first, later = whole, f"{comma} {whole}"
        else:
            first = f"({whole} | {first})" if first else f"({whole})?"
            later = f"({comma} {part})? {later}"
        first, later = rules.add(first), rules.add(later)
    return first
