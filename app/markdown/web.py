"""Markdown as HTML for other programs: clipboards, web pages, printed pages.

Reads Markdown as the window does. What it returns loads nothing: a picture becomes a link, and a
formula stays as it was written. Knows no Qt and no conversation.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from app.markdown import rules
from app.markdown.highlight import LONGEST
from app.markdown.inline import WatchedInline, is_web
from models.in_words import clean

_NESTING = 24  # levels; a list has two
_INTERRUPTS = {"alt": ["paragraph", "reference", "blockquote", "list"]}


def html_of(text: str) -> str:
    """Return Markdown as a fragment of HTML; its code is coloured by styles in the fragment."""
    text = clean(text)
    return str(_parser().render(text, {"lines": text.count("\n") + 1}))


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTING})
    parser.enable(["table", "strikethrough"])
    parser.validateLink = is_web  # type: ignore[assignment]
    before: Any = parser.block.ruler.before
    before("table", "formula_block", rules.formula_block, _INTERRUPTS)
    parser.inline = WatchedInline()
    for kind, rule in (
        ("formula", _formula),
        ("formula_block", _formula_block),
        ("footnote", _footnote),
        ("image", _image),
        ("fence", _code),
        ("code_block", _code),
    ):
        parser.add_render_rule(kind, rule)
    for tag in ("sub", "sup", "kbd", "details", "summary"):
        parser.add_render_rule(f"{tag}_open", _tag)
        parser.add_render_rule(f"{tag}_close", _tag)
    return parser


def _formula(renderer: Any, tokens: Sequence[Token], place: int, *_: Any) -> str:
    return f'<code class="formula">{escape(tokens[place].content)}</code>'


def _formula_block(renderer: Any, tokens: Sequence[Token], place: int, *_: Any) -> str:
    return f'<pre class="formula">{escape(tokens[place].content)}</pre>\n'


def _footnote(renderer: Any, tokens: Sequence[Token], place: int, *_: Any) -> str:
    return f"<sup>[{escape(tokens[place].content)}]</sup>"


def _tag(renderer: Any, tokens: Sequence[Token], place: int, *_: Any) -> str:
    token = tokens[place]
    return f"<{'/' * token.type.endswith('_close')}{token.tag}>"


def _image(renderer: Any, tokens: Sequence[Token], place: int, *_: Any) -> str:
    token = tokens[place]
    address = str(token.attrs.get("src", ""))
    return f'<a href="{escape(address)}">{escape(token.content or address)}</a>'


def _code(renderer: Any, tokens: Sequence[Token], place: int, *_: Any) -> str:
    token = tokens[place]
    language, code = token.info.strip().partition(" ")[0], token.content
    inner = escape(code)
    if language and len(code) <= LONGEST:
        try:
            lexer = get_lexer_by_name(language, stripnl=False)
            inner = highlight(code, lexer, HtmlFormatter(nowrap=True, noclasses=True))
        except ClassNotFound:
            pass
    return f"<pre><code>{inner.rstrip()}</code></pre>\n"
