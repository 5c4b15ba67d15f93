"""Converts inline Markdown to runs that know their characters in the paragraph.

markdown-it does not record the places of its tokens, so its rules are watched here: the begin and
end of each rule are the places of its tokens. Knows no blocks and no Qt.

Only http and https become links. An image becomes its description and a link: nothing is ever
loaded. What CommonMark lacks is in `app.markdown.rules`.
"""

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

from markdown_it import MarkdownIt
from markdown_it.common.utils import isMdAsciiPunct, isPunctChar, isWhiteSpace
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Scanned
from markdown_it.token import Token
from markdown_it.utils import EnvType

from app.markdown import rules
from app.markdown.cuts import NESTING
from app.markdown.page import BREAK, OBJECT, Script, Style, TextRun, shown

_Rule = Callable[[StateInline, bool], bool]
_STYLES: dict[str, str] = {
    **dict.fromkeys(("strong", "b", "summary", *(f"h{n}" for n in range(1, 7))), "bold"),
    **dict.fromkeys(("em", "i"), "italic"),
    **dict.fromkeys(("s", "strike", "del"), "struck"),
    **dict.fromkeys(("u", "ins"), "underlined"),
    **{"kbd": "code", "mark": "marked", "small": "small", "code": "code"},
}


def is_web(address: str) -> bool:
    """Whether an address may be offered to the browser."""
    return address.lower().startswith(("http://", "https://"))


def parser() -> MarkdownIt:
    """Return the parser of Markdown, for the screen, the clipboard and exports."""
    md = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": NESTING})
    md.inline = WatchedInline()
    md.enable(["table", "strikethrough"])
    md.disable(["html_block", "html_inline", "fragments_join"])
    interrupts: Any = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    for rule in (rules.formula_block, rules.details, rules.html_table, rules.html_rule):
        md.block.ruler.before("table", rule.__name__, rule, interrupts)
    md.validateLink = is_web  # type: ignore[assignment]
    return md


def inline_runs(md: MarkdownIt, content: str, style: Style, env: EnvType) -> list[TextRun]:
    """Return the runs of a paragraph's text. Their sources are places in `content`. `env` has the
    `references` of links, as markdown-it has them."""
    tokens: list[Token] = []
    md.inline.parse(content, md, env, tokens)
    return list(_runs(tokens, style, base=0))


def _is_cjk(character: str) -> bool:
    """Whether a character is Chinese, Japanese or Korean, punctuation included; no emoji."""
    wide = unicodedata.east_asian_width(character) in "WFH"
    return wide and unicodedata.category(character) != "So"


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

    def scanDelims(self, start: int, canSplitWord: bool) -> Scanned:
        """Measure a row of marks of emphasis. CommonMark expects spaces between words; Chinese and
        Japanese have none, so there the rules of markdown-it-cjk-friendly are followed: in
        "**\u6ce8\u610f\uff1a**\u8bf7" the first three characters are bold."""
        end = start
        while end < self.posMax and self.src[end] == self.src[start]:
            end += 1
        before = self.src[start - 1] if start > 0 else " "
        following = self.src[end] if end < self.posMax else " "
        spaces = tuple(isWhiteSpace(ord(c)) for c in (before, following))
        cjk = tuple(map(_is_cjk, (before, following)))
        marks = tuple(isMdAsciiPunct(ord(c)) or isPunctChar(c) for c in (before, following))
        foreign = tuple(mark and not wide for mark, wide in zip(marks, cjk, strict=True))
        opens = not spaces[1] and (not foreign[1] or spaces[0] or marks[0] or cjk[0])
        closes = not spaces[0] and (not foreign[0] or spaces[1] or marks[1] or cjk[1])
        return Scanned(
            opens and (canSplitWord or not closes or marks[0]),
            closes and (canSplitWord or not opens or marks[1]),
            end - start,
        )


class WatchedInline(ParserInline):
    """markdown-it's inline parser, whose tokens have their places in `meta`."""

    def __init__(self) -> None:
        super().__init__()
        self.ruler.before("escape", "formula", rules.formula)
        self.ruler.before("link", "footnote", rules.footnote)
        self.ruler.before("link", "marked", rules.marked)
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
    styled: dict[str, int] = {}
    scripts: list[Script] = [style.script]
    href = style.href
    is_shown = is_tagged = False
    for token in tokens:
        begin, end = base + token.meta["from"], base + token.meta["to"]
        match token.type:
            case "sub_open" | "sup_open":
                scripts.append("below" if token.tag == "sub" else "above")
            case "sub_close" | "sup_close":
                scripts.pop()
            case "link_open":
                href = str(token.attrGet("href") or "")
            case "link_close":
                href = style.href
            case _ if token.tag in _STYLES:
                name = _STYLES[token.tag]
                styled[name] = styled.get(name, 0) + token.nesting
        now = replace(style, href=href, script=scripts[-1])
        for name in (name for name, depth in styled.items() if depth > 0):
            now = replace(now, **cast(Any, {name: True}))
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
            case "item":
                yield TextRun("\u2022 ", now, begin, end - begin)
            case "footnote":
                yield from shown(token.content, replace(now, script="above"), begin, end - begin)
            case "softbreak" | "hardbreak":
                if is_shown or not is_tagged:
                    yield TextRun(BREAK, replace(now, href=""), begin, end - begin)
                is_shown = is_tagged = False
                continue
            case "image":
                linked = replace(now, href=str(token.attrGet("src") or ""))
                yield TextRun("image ", replace(linked, role="label"), begin, 0)
                if token.children:
                    yield from _runs(token.children, linked, base=begin + 2)
                else:
                    yield from shown(token.content or linked.href, linked, begin, end - begin)
            case _:  # a tag shows nothing, nor does a line of tags
                is_tagged = True
                continue
        is_shown = True
