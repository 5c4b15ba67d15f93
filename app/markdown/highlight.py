"""Colours code: Pygments reads a code block once, when it is finished, in slices of time.

The colours are layout formats, as QSyntaxHighlighter uses them: the text and its own formats do not
change. Knows documents and code blocks; no Markdown.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Token, _TokenType
from pygments.util import ClassNotFound
from PySide6.QtGui import QColor, QTextBlock, QTextCharFormat, QTextDocument, QTextLayout

from app.markdown.copying import fragments
from app.markdown.formats import PANEL, ROLE, SHAPE, TOKEN
from app.markdown.page import utf16
from app.theme.palette import Syntax

USUAL = ("python", "bash", "json", "javascript", "html", "c", "yaml", "sql", "java", "rust", "go")
LONGEST = 60_000  # characters; longer code stays plain
_SLICE = 200  # tokens

_KINDS: tuple[tuple[_TokenType, Syntax], ...] = (
    (Token.Comment, "comment"),
    (Token.Keyword, "keyword"),
    (Token.Operator.Word, "keyword"),
    (Token.Name.Function, "name"),
    (Token.Name.Class, "name"),
    (Token.Name.Builtin, "name"),
    (Token.Name.Tag, "name"),
    (Token.Name.Attribute, "number"),
    (Token.Name.Decorator, "number"),
    (Token.Literal.String, "text"),
    (Token.Literal.Number, "number"),
    (Token.Operator, "operator"),
    (Token.Generic.Inserted, "inserted"),
    (Token.Generic.Deleted, "deleted"),
    (Token.Generic.Heading, "heading"),
    (Token.Generic.Subheading, "heading"),
    (Token.Generic.Prompt, "comment"),
)


@dataclass(frozen=True, slots=True)
class _CodeLine:
    """A line of code: its block, and the place of its text in the block, in UTF-16 units. Rejected
    tokens and marks of control characters may interrupt the text."""

    block: QTextBlock
    parts: tuple[tuple[int, str], ...]

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.parts)


def panel_blocks(document: QTextDocument, position: int) -> Iterator[QTextBlock]:
    """Iterate over the lines of the code block whose label is at `position`, without the label."""
    block = document.findBlock(position)
    panel = block.blockFormat().property(PANEL)
    block = block.next()
    while block.isValid() and block.blockFormat().property(PANEL) == panel:
        if block.blockFormat().property(SHAPE) != "code":
            return
        yield block
        block = block.next()


def highlight(
    document: QTextDocument, position: int, *, language: str, colours: Mapping[Syntax, str]
) -> Iterator[None]:
    """Colour the code block whose label is at `position`; each step is a slice of the work.

    Until the last step, the document may only change after the code block.
    """
    lexer = _lexer(language)
    lines = [_code_line(block) for block in panel_blocks(document, position)]
    code = "".join(f"{line.text}\n" for line in lines)  # lexers of lines want each to end
    if lexer is None or len(code) > LONGEST:
        return
    painter = _Painter(lines, colours)
    for count, (start, kind, text) in enumerate(lexer.get_tokens_unprocessed(code)):
        if syntax := _syntax(kind):
            painter.add(start, start + len(text), syntax)
        if count % _SLICE == _SLICE - 1:
            yield
    painter.paint(document)


def get_ready(language: str) -> None:
    """Load what this language's colours need: tens of milliseconds, the first time."""
    lexer = _lexer(language)
    if lexer is not None:
        for _ in lexer.get_tokens_unprocessed("a"):
            pass


class _Painter:
    """Collects the coloured ranges of each line."""

    def __init__(self, lines: Sequence[_CodeLine], colours: Mapping[Syntax, str]) -> None:
        self._lines = lines
        self._ranges: list[list[QTextLayout.FormatRange]] = [[] for _ in lines]
        self._starts = list(accumulate((len(line.text) + 1 for line in lines), initial=0))
        self._formats: dict[Syntax, QTextCharFormat] = {}
        for syntax, colour in colours.items():
            made = self._formats[syntax] = QTextCharFormat()
            made.setForeground(QColor(colour))
            made.setFontItalic(syntax == "comment")

    def add(self, start: int, end: int, syntax: Syntax) -> None:
        """Colour the code from `start` to `end`."""
        line = bisect_right(self._starts, start) - 1
        while line < len(self._lines) and self._starts[line] < end:
            begin = self._starts[line]
            for offset, text in self._lines[line].parts:
                first, last = max(start - begin, 0), min(end - begin, len(text))
                if first < last:
                    found = QTextLayout.FormatRange()
                    found.start = offset + utf16(text[:first])
                    found.length = utf16(text[first:last])
                    found.format = self._formats[syntax]
                    self._ranges[line].append(found)
                begin += len(text)
            line += 1

    def paint(self, document: QTextDocument) -> None:
        """Show all colours at once."""
        for line, ranges in zip(self._lines, self._ranges, strict=True):
            if ranges:
                layout = line.block.layout()
                # The marks of a token's kind lie over the colours.
                tokens = [found for found in layout.formats() if found.format.hasProperty(TOKEN)]
                layout.setFormats(ranges + tokens)
                document.markContentsDirty(line.block.position(), line.block.length())


def _code_line(block: QTextBlock) -> _CodeLine:
    parts = (
        (fragment.position() - block.position(), fragment.text())
        for fragment in fragments(block)
        if fragment.charFormat().property(ROLE) == "text"
    )
    return _CodeLine(block, tuple(parts))


def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False) if language else None
    except ClassNotFound:
        return None


def _syntax(kind: _TokenType) -> Syntax | None:
    return next((syntax for parent, syntax in _KINDS if parent.__contains__(kind)), None)
