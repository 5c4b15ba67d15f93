"""Colours code: Pygments reads a code block once, when it is finished, in slices of time.

The colours are layout formats, as QSyntaxHighlighter uses them: the text and its own formats do not
change. Knows documents and code blocks; no Markdown.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
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

Part = tuple[QTextBlock, int, str]
"""A piece of code: its block, its place in the block in UTF-16 units, and its text. Rejected tokens
and marks of control characters may be between two parts of a line."""


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
    lexer = lexer_of(language)
    parts = [part for block in panel_blocks(document, position) for part in _parts(block)]
    starts = list(accumulate((len(text) for _, _, text in parts), initial=0))
    if lexer is None or starts[-1] > LONGEST:
        return
    formats = {syntax: _format(syntax, colour) for syntax, colour in colours.items()}
    ranges: dict[int, list[QTextLayout.FormatRange]] = defaultdict(list)  # by the block's number
    tokens = lexer.get_tokens_unprocessed("".join(text for _, _, text in parts))
    for count, (start, kind, code) in enumerate(tokens):
        if syntax := _syntax(kind):
            end = start + len(code)
            for number in range(bisect_right(starts, start) - 1, bisect_left(starts, end)):
                block, offset, text = parts[number]
                if text == "\n":
                    continue
                found = QTextLayout.FormatRange()
                before = text[: max(0, start - starts[number])]
                coloured = text[len(before) : end - starts[number]]
                found.start, found.length = offset + utf16(before), utf16(coloured)
                found.format = formats[syntax]
                ranges[block.blockNumber()].append(found)
        if count % _SLICE == _SLICE - 1:
            yield
    paint(document, ranges)


def paint(document: QTextDocument, ranges: Mapping[int, list[QTextLayout.FormatRange]]) -> None:
    """Show all colours at once. `ranges` belong to blocks, by their numbers."""
    for number, new in ranges.items():
        block = document.findBlockByNumber(number)
        # The marks of a token's kind lie over the colours.
        marks = [old for old in block.layout().formats() if old.format.hasProperty(TOKEN)]
        block.layout().setFormats(new + marks)
        document.markContentsDirty(block.position(), block.length())


def get_ready(language: str) -> None:
    """Load what this language's colours need: tens of milliseconds, the first time."""
    lexer = lexer_of(language)
    if lexer is not None:
        for _ in lexer.get_tokens_unprocessed("a"):
            pass


def _parts(block: QTextBlock) -> Iterator[Part]:
    for part in fragments(block):
        if part.charFormat().property(ROLE) == "text":
            yield block, part.position() - block.position(), part.text()
    yield block, block.length() - 1, "\n"  # lexers of lines want each line to end


def _format(syntax: Syntax, colour: str) -> QTextCharFormat:
    made = QTextCharFormat()
    made.setForeground(QColor(colour))
    made.setFontItalic(syntax == "comment")
    return made


def lexer_of(language: str) -> Lexer | None:
    """Return the lexer of a language, by its name after a fence; None if it is unknown."""
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False) if language else None
    except ClassNotFound:
        return None


def _syntax(kind: _TokenType) -> Syntax | None:
    return next((syntax for parent, syntax in _KINDS if parent.__contains__(kind)), None)
