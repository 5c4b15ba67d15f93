"""Converts inline Markdown to runs that know their characters in the paragraph.

markdown-it does not record the places of its tokens, so its rules are watched here: the begin and
end of each rule are the places of its tokens. Knows no blocks and no Qt.

Only http and https become links. An image becomes its description and a link: nothing is ever
loaded. What CommonMark lacks is in `app.markdown.rules`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType

from app.markdown import rules
from app.markdown.page import BREAK, OBJECT, Script, Style, TextRun, shown

_Rule = Callable[[StateInline, bool], bool]


def is_web(address: str) -> bool:
    """Whether an address may be offered to the browser."""
    return address.lower().startswith(("http://", "https://"))


def inline_runs(md: MarkdownIt, content: str, style: Style) -> list[TextRun]:
    """Return the runs of a paragraph's text. Their sources are places in `content`."""
    tokens: list[Token] = []
    md.inline.parse(content, md, {}, tokens)
    return list(_runs(tokens, style, base=0))


class _State(StateInline):
    """Knows the beginning of the text that is not a token yet."""

    since: int | None = None

    def append_pending(self, text: str) -> None:
        if self.since is None:
            self.since = self.pos
        super().append_pending(text)

    def pushPending(self) -> Token:
        since = self.since or 0
        token = super().pushPending()
        token.meta["from"], token.meta["to"] = since, since + len(token.content)
        self.since = None
        return token

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        token = super().push(ttype, tag, nesting)
        self.since = None  # spaces before a line end are removed from the pending text
        return token


class WatchedInline(ParserInline):
    """markdown-it's inline parser, whose tokens have their places in `meta`."""

    def __init__(self) -> None:
        super().__init__()
        self.ruler.before("escape", "formula", rules.formula)
        self.ruler.before("link", "footnote", rules.footnote)
        self.ruler.before("autolink", "safe_tag", rules.safe_tag)
        self.ruler.after("autolink", "address", rules.address)
        for rule in list(self.ruler.__rules__):
            self.ruler.at(rule.name, _watched(rule.fn))

    def parse(self, src: str, md: MarkdownIt, env: EnvType, tokens: list[Token]) -> list[Token]:
        state = _State(src, md, env, tokens)
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        return state.tokens


def _watched(rule: _Rule) -> _Rule:
    def watch(state: StateInline, silent: bool) -> bool:
        begin, count = state.pos, len(state.tokens)
        done = rule(state, silent)
        if done and not silent:
            _place(state.tokens[count:], begin, state.pos)
        return done

    return watch


def _place(tokens: Sequence[Token], begin: int, end: int) -> None:
    """Give each new token without a place this place."""
    place = begin
    automatic = any(token.markup == "autolink" for token in tokens)
    for token in tokens:
        if "from" in token.meta:
            continue
        if token.type != "text":
            token.meta["from"], token.meta["to"] = begin, end
        elif automatic:
            exact = len(token.content) == end - begin - 2
            token.meta["from"] = begin + 1 if exact else begin
            token.meta["to"] = end - 1 if exact else end
        else:  # one of a row of marks that may have no effect
            token.meta["from"], token.meta["to"] = place, place + len(token.content)
            place += len(token.content)


def _runs(tokens: Sequence[Token], style: Style, *, base: int) -> Iterator[TextRun]:
    bold = italic = struck = key = 0
    scripts: list[Script] = [style.script]
    href = style.href
    for token in tokens:
        begin, end = base + token.meta["from"], base + token.meta["to"]
        match token.type:
            case "strong_open" | "strong_close":
                bold += token.nesting
            case "em_open" | "em_close":
                italic += token.nesting
            case "s_open" | "s_close":
                struck += token.nesting
            case "summary_open":
                bold += 1
            case "summary_close":
                bold -= 1
            case "kbd_open":
                key += 1
            case "kbd_close":
                key -= 1
            case "sub_open" | "sup_open":
                scripts.append("below" if token.tag == "sub" else "above")
            case "sub_close" | "sup_close":
                scripts.pop()
            case "link_open":
                href = str(token.attrGet("href") or "")
            case "link_close":
                href = style.href
        now = replace(
            style,
            bold=style.bold or bold > 0,
            italic=style.italic or italic > 0,
            struck=style.struck or struck > 0,
            href=href,
            script=scripts[-1],
            key=key > 0,
        )
        match token.type:
            case "text" | "text_special" if token.content:
                yield from shown(token.content, now, begin, end - begin)
            case "code_inline" if token.content:
                mark = len(token.markup)
                spare = end - begin - 2 * mark - len(token.content)  # spaces that were removed
                start = begin + mark + spare // 2
                yield from shown(token.content, replace(now, code=True), start, len(token.content))
            case "formula":
                yield TextRun(OBJECT, replace(now, formula=token.content), begin, end - begin)
            case "footnote":
                yield from shown(token.content, replace(now, script="above"), begin, end - begin)
            case "softbreak" | "hardbreak":
                yield TextRun(BREAK, replace(now, href=""), begin, end - begin)
            case "image":
                yield from _image(token, now, begin=begin)


def _image(token: Token, style: Style, *, begin: int) -> Iterator[TextRun]:
    linked = replace(style, href=str(token.attrGet("src") or ""))
    yield TextRun("image ", replace(linked, role="label"), begin, 0)
    if token.children:
        yield from _runs(token.children, linked, base=begin + 2)
    else:
        yield from shown(linked.href, linked, begin, 0)
