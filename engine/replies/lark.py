"""Writes Lark in llguidance's dialect: rules with names of their own, texts, marks and JSON."""

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
TAGGED: /[^<>\n]+/
QUOTED: /'[^'\\]*'/
"""


class Rules:
    """The rules of one grammar. Beside those that are added it has the terminals above.

    `<name>` is the special token `name` or `<name>`, which no text contains: only what of the
    syntax's marks is none is text, and ends the text before it where it comes first.
    """

    def __init__(self, syntax: ReplySyntax) -> None:
        self.syntax = syntax
        self._lines: list[str] = []
        self._numbers = count()
        longest_first = sorted(syntax.special, key=len, reverse=True)
        self._special = re.compile(f"({'|'.join(map(re.escape, longest_first)) or '(?!)'})")

    def grammar(self, start: str) -> str:
        return "\n".join([f"start: {start}", *self._lines]) + _TERMINALS

    def name(self, *, terminal: bool = False) -> str:
        """One that no rule has."""
        return f"{'T' if terminal else 'r'}{next(self._numbers)}"

    def add(self, body: str, *, name: str = "", options: str = "", terminal: bool = False) -> str:
        """A rule for this; returns its name."""
        name = name or self.name(terminal=terminal)
        self._lines.append(f"{name}{options}: {body}")
        return name

    def json(self, schema: object) -> str:
        if not isinstance(schema, Mapping):
            raise Problem("The JSON schema is no object.", "Write one, as {}.")
        return self.add(f"%json {json.dumps(schema)}")

    def mark(self, mark: str) -> str:
        """A mark, in which special tokens stand as such."""
        found = []
        for part in filter(None, self._special.split(mark)):
            if part not in self.syntax.special:
                found.append(text(part))
            else:
                found.append(part if part.startswith("<") else f"<{part}>")
        return " ".join(found)

    def up_to(self, terminal: str, mark: str) -> str:
        """Text of this terminal up to the first of these marks, and the mark."""
        if self.begins_special(mark):
            return f"{terminal} {self.mark(mark)}"
        return self.add(f"{terminal} {text(mark)}", options="[lazy]")

    def text_beginning_otherwise(self, beginnings: Sequence[str]) -> str:
        """A terminal for any text that begins with none of these, white space left aside."""
        told = [one for one in beginnings if one and not self.begins_special(one)]
        if not told:
            return "TEXT"
        begun = "|".join(map(_literally, told))
        return self.add(rf"/(.|\n)*/ & ~/(?s:\s*({begun}).*)/", terminal=True)

    def begins_special(self, mark: str) -> bool:
        return self._special.match(mark) is not None


def _literally(words: str) -> str:
    """The expression of just these words, in one line."""
    return re.escape(words).replace("/", r"\/").replace("\\\n", r"\n")


def text(words: str) -> str:
    """A text as Lark has them; nothing of none."""
    return json.dumps(words, ensure_ascii=False) if words else ""


def either(choices: Sequence[str]) -> str:
    return f"({' | '.join(choices)})"


def members(rules: Rules, parts: Sequence[tuple[str, bool]], *, comma: str = "") -> str:
    """These in their order, with a comma before each that is not the first. With each is told
    whether it must be there."""
    first = later = ""  # the rest, where it comes first; and behind another
    for part, must in reversed(parts):
        whole = f"{part} {later}"
        if must:
            first, later = whole, f"{comma} {whole}"
        else:
            first = f"({whole} | {first})" if first else f"({whole})?"
            later = f"({comma} {part})? {later}"
        first, later = rules.add(first), rules.add(later)
    return first
