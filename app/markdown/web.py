"""Markdown as HTML for other programs: clipboards, web pages, printed pages.

Reads Markdown as the window does. Its pages load nothing: a picture becomes a link, and a
formula stays as it was written until `with_formulas` draws it. Knows no Qt and no conversation.
"""

import re
from collections.abc import Callable, Sequence
from html import escape, unescape
from typing import Any

from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter

from app.markdown import rules
from app.markdown.blocks import BOXES, admonition
from app.markdown.highlight import LONGEST, lexer_of
from app.markdown.inline import parser
from models.in_words import clean

_FORMULA = re.compile(r'<(code|pre) class="formula">(.*?)</\1>', re.DOTALL)
_BOLD = ("summary", *(f"h{level}" for level in range(1, 7)))


def html_of(text: str) -> str:
    """Return Markdown as a fragment of HTML; its code is coloured by styles in the fragment."""
    text, md = clean(text), parser()
    md.core.ruler.before("inline", "marks", _read_marks)
    env = {"lines": text.count("\n") + 1, "folds": 0}
    body = _Renderer(md).render(md.parse(text, env), md.options, env)
    return body + "</details>" * env["folds"]


def formulas_in(page: str) -> list[str]:
    """Return the formulas of a page, as they were written."""
    return [unescape(found[2]) for found in _FORMULA.finditer(page)]


def with_formulas(page: str, draw: Callable[[str], str]) -> str:
    """Return a page with each formula as `draw` returns it; as it was written if that is empty."""

    def drawn(found: re.Match[str]) -> str:
        made = draw(unescape(found[2]))
        return (
            (f'<p align="center">{made}</p>' if found[1] == "pre" else made) if made else found[0]
        )

    return _FORMULA.sub(drawn, page)


def _read_marks(state: StateCore) -> None:
    """Write the boxes of tasks and the titles of admonitions, which are text in Markdown."""
    for place, token in enumerate(state.tokens):
        if token.type != "inline" or place < 2:
            continue
        around = state.tokens[place - 2].type
        if around == "list_item_open" and (box := BOXES.get(token.content[:4])):
            token.content = f"{box} {token.content[4:]}"
        found = admonition(state.tokens[place - 1 : place + 1])
        if around == "blockquote_open" and found:
            length, _, kind, title = found
            token.content = f"**{title or kind.capitalize()}**\n{token.content[length:]}".rstrip()


class _Renderer(RendererHTML):
    """Each method whose name begins with a letter writes the tokens of this name."""

    def renderToken(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
        tag, _, end = tokens[place].type.rpartition("_")
        if tag in _BOLD:
            return "<b>" if end == "open" else "</b>"
        return "" if tag in rules.ON_LINES else super().renderToken(tokens, place, options, env)

    def item(self, *_: Any) -> str:
        return "\u2022 "

    def hr(self, *_: Any) -> str:
        return "<hr />\n"

    def formula(self, tokens: Sequence[Token], place: int, *_: Any) -> str:
        return f'<code class="formula">{escape(tokens[place].content)}</code>'

    def formula_block(self, tokens: Sequence[Token], place: int, *_: Any) -> str:
        return f'<pre class="formula">{escape(tokens[place].content)}</pre>\n'

    def footnote(self, tokens: Sequence[Token], place: int, *_: Any) -> str:
        return f"<sup>[{escape(tokens[place].content)}]</sup>"

    def image(self, tokens: Sequence[Token], place: int, *_: Any) -> str:
        token = tokens[place]
        address = str(token.attrs.get("src", ""))
        return f'<a href="{escape(address)}">{escape(token.content or address)}</a>'

    def details_open(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
        token = tokens[place]
        if not token.map:  # in a line
            return ""
        summary, inside = (
            self._inline(token.content[slice(*token.meta[part])].strip(), env)
            for part in ("summary", "rest")
        )
        inside = f"<p>{inside}</p>" if inside else ""
        if token.level:  # within a list or a quote, nothing folds
            return f"<p><b>{summary or 'Details'}</b></p>{inside}"
        env["folds"] += 1
        end = self.details_close(tokens, place, options, env) if token.meta["closed"] else ""
        return f"<details><summary>{summary or 'Details'}</summary>{inside}{end}"

    def details_close(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
        if not env["folds"] or tokens[place].level or not tokens[place].map:
            return ""
        env["folds"] -= 1
        return "</details>\n"

    def html_table(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
        text, rows = tokens[place].content, ""
        for cells in rules.html_cells(text):
            rows += "<tr>"
            for begin, end, tag, side in cells:
                style = f' style="text-align:{side}"' if side else ""
                rows += f"<{tag}{style}>{self._inline(text[begin:end], env)}</{tag}>"
            rows += "</tr>\n"
        return f"<table>\n{rows}</table>\n" if rows else f"<p>{self._inline(text, env)}</p>\n"

    def fence(self, tokens: Sequence[Token], place: int, *_: Any) -> str:
        code, info, marks = (getattr(tokens[place], name) for name in ("content", "info", "markup"))
        if info.strip() == "math" and rules.can_be_formula(code):
            return f'<pre class="formula">{escape(f"{marks}math\n{code}{marks}")}</pre>\n'
        lexer = lexer_of(info.strip().partition(" ")[0])
        inner = escape(code)
        if lexer and len(code) <= LONGEST:
            inner = highlight(code, lexer, HtmlFormatter(nowrap=True, noclasses=True))
        return f"<pre><code>{inner.rstrip()}</code></pre>\n"

    code_block = fence  # type: ignore[assignment]

    def _inline(self, text: str, env: Any) -> str:
        tokens: list[Token] = []
        self._md.inline.parse(text, self._md, env, tokens)
        return self.renderInline(tokens, self._md.options, env)

    def __init__(self, md: Any) -> None:
        super().__init__(md)
        self._md = md
