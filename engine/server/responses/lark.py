"""Converts a Lark grammar without recursive rules into one regular expression.

Clients give Lark grammars for a custom tool's input. Calls are JSON, in which a text can follow a
regular expression, but not a grammar. Most grammars of tools repeat and choose, without recursion.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

LONGEST = 20_000  # characters of an expression

_TOKEN = re.compile(
    r"""
      (?P<space>  [ \t\r]+ | (?://|\#)[^\n]* )
    | (?P<end>    \n )
    | (?P<text>   "(?:\\.|[^"\\\n])*"i? )
    | (?P<regex>  /(?:\\.|[^/\\\n])+/[a-z]* )
    | (?P<import> %import\ +common\.(?P<common>\w+) )
    | (?P<head>   (?<![^\n])[ \t]*[?!]*(?P<name>\w+)(?:\.\d+)?[ \t]*: )
    | (?P<mark>   -> | \.\. | [|()\[\]?*+~] )
    | (?P<word>   \w+ )
    """,
    re.VERBOSE,
)
_COMMON = {
    "CNAME": "[A-Za-z_][A-Za-z_0-9]*",
    "CR": r"\r",
    "DIGIT": "[0-9]",
    "INT": "[0-9]+",
    "LETTER": "[A-Za-z]",
    "LF": r"\n",
    "NEWLINE": r"(?:\r?\n)+",
    "WORD": "[A-Za-z]+",
    "WS": r"[ \t\f\r\n]+",
    "WS_INLINE": r"[ \t]+",
}


class NotRegular(ValueError):
    """The grammar is recursive, or uses notation that is not known here."""


def expression_of(grammar: str) -> str:
    """A regular expression that matches the texts of the rule "start". Raises NotRegular."""
    try:
        return _Writer(_rules(grammar)).rule("start")
    except RecursionError:
        raise NotRegular("it is nested too deeply") from None


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str


def _rules(grammar: str) -> dict[str, list[_Token]]:
    """The tokens of each rule, by its name. A rule continues in the next line with a "|"."""
    rules: dict[str, list[_Token]] = {}
    rule: list[_Token] | None = None
    place = 0
    while place < len(grammar):
        found = _TOKEN.match(grammar, place)
        if found is None:
            raise NotRegular(f"unknown: {grammar[place : place + 20]!r}")
        place = found.end()
        match found.lastgroup:
            case "space" | "end":
                continue
            case "import":
                name = found["common"]
                if name not in _COMMON:
                    raise NotRegular(f"unknown: common.{name}")
                rules[name], rule = [_Token("regex", f"/{_COMMON[name]}/")], None
            case "head":
                rule = rules[found["name"]] = []
            case kind if rule is not None:
                rule.append(_Token(kind or "", found[0]))
            case _:
                raise NotRegular(f"outside of a rule: {found[0]!r}")
    return rules


@dataclass(slots=True)
class _Writer:
    """Writes rules as expressions; a rule's expression stands wherever the rule is named."""

    rules: dict[str, list[_Token]]
    within: list[str] = field(default_factory=list)  # the rules that are being written

    def rule(self, name: str) -> str:
        if name in self.within or name not in self.rules:
            raise NotRegular(f"{name} needs itself, or is not there")
        self.within.append(name)
        tokens = _Tokens(self.rules[name])
        expression = self._choices(tokens)
        if tokens.now is not None:
            raise NotRegular(f"unknown: {tokens.now.text!r}")
        self.within.pop()
        if len(expression) > LONGEST:
            raise NotRegular("it is too long")
        return expression

    def _choices(self, tokens: "_Tokens") -> str:
        choices = [self._sequence(tokens)]
        while tokens.take("|"):
            choices.append(self._sequence(tokens))
        return f"(?:{'|'.join(choices)})"

    def _sequence(self, tokens: "_Tokens") -> str:
        written = ""
        while tokens.now is not None and tokens.now.text not in ("|", ")", "]", "->"):
            written += self._item(tokens)
        if tokens.take("->"):
            tokens.next()  # an alias
        return written

    def _item(self, tokens: "_Tokens") -> str:
        expression = self._atom(tokens)
        if tokens.now is not None and tokens.now.text in ("?", "*", "+"):
            return expression + tokens.next().text
        if tokens.take("~"):
            least = tokens.number()
            most = tokens.number() if tokens.take("..") else least
            return f"{expression}{{{least},{most}}}"
        return expression

    def _atom(self, tokens: "_Tokens") -> str:
        token = tokens.next()
        match token.kind:
            case "text":
                return _literal(token.text)
            case "regex":
                return _flagged(token.text)
            case "word":
                return self.rule(token.text)
        if token.text in ("(", "["):
            expression = self._choices(tokens)
            if not tokens.take(")" if token.text == "(" else "]"):
                raise NotRegular("a bracket is not closed")
            return expression + ("?" if token.text == "[" else "")
        raise NotRegular(f"unknown: {token.text!r}")


class _Tokens:
    """Tokens in order. Attribute: `now`, the next token, or None at the end."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._rest: Iterator[_Token] = iter(tokens)
        self.now = next(self._rest, None)

    def next(self) -> _Token:
        token = self.now
        if token is None:
            raise NotRegular("it ends too soon")
        self.now = next(self._rest, None)
        return token

    def take(self, text: str) -> bool:
        """Pass the next token if it is this mark. Returns whether it was."""
        found = self.now is not None and self.now.kind == "mark" and self.now.text == text
        if found:
            self.next()
        return found

    def number(self) -> int:
        token = self.next()
        if not token.text.isdecimal():
            raise NotRegular(f"no number: {token.text!r}")
        return int(token.text)


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", '"': '"', "\\": "\\", "/": "/"}
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
_BLANKS = {"\n": r"\n", "\t": r"\t", "\r": r"\r", "\f": r"\f"}


def _literal(quoted: str) -> str:
    """The expression of a text that Lark quotes: '"a.b"i' gives '(?i:a\\\\.b)'."""
    any_case = quoted.endswith("i")
    text = re.sub(r"\\(.)", _unescaped, quoted.removesuffix("i")[1:-1])
    expression = _SPECIAL.sub(r"\\\g<0>", text)
    expression = "".join(_BLANKS.get(character, character) for character in expression)
    return f"(?{'i' if any_case else ''}:{expression})"


def _unescaped(escape: re.Match[str]) -> str:
    if escape[1] not in _ESCAPES:
        raise NotRegular(f"unknown: {escape[0]}")
    return _ESCAPES[escape[1]]


def _flagged(slashed: str) -> str:
    """The expression of Lark's "/body/flags"."""
    body, _, flags = slashed[1:].rpartition("/")
    if set(flags) - {"i", "s"}:
        raise NotRegular(f"unknown flags: {flags}")
    return f"(?{flags}:{body.replace(r'\/', '/')})"
