"""Documents of a Markdown text, written at once or piece by piece, and all that is seen of them."""

from PySide6.QtGui import QTextCursor, QTextDocument, QTextFormat

from app.conversations.think_tags import stretches_in
from app.markdown.copying import fragments
from app.markdown.document import TextDocument
from app.markdown.streaming import StreamingMarkdown
from tests.support.app.markdown_texts import split


def empty(formats, text="", *, stretches=None, stream=None):
    """A document without text, which knows the stretches of the text that it will have."""
    made = TextDocument(QTextDocument(), formats, stream or StreamingMarkdown())
    made.set_stretches(stretches_in(text) if stretches is None else stretches)
    return made


def write(made, *pieces):
    """Append pieces of text, and show each."""
    for piece in pieces:
        made.append(piece)
        made.settle()


def at_once(text, formats, *, stretches=None, rejected=(), asides=()):
    made = empty(formats, text, stretches=stretches)
    made.set_asides(asides)
    made.append(text)
    made.set_rejected(list(rejected))
    made.settle()
    return made


def grown(formats, text, cuts, *, steps):
    """The document of a text that came piece by piece, each shown in steps or at once."""
    growing = empty(formats, text)
    for piece in split(text, cuts):
        growing.append(piece)
        growing.step() if steps else growing.settle()
    growing.settle()
    return growing


def lines(made):
    """What is shown once all is written, by lines, without empty ones."""
    made.settle()
    return [line for line in made.document.toPlainText().split("\n") if line]


def blocks(document):
    found, block = [], document.begin()
    while block.isValid():
        found.append(block)
        block = block.next()
    return found


def cell_format(block):
    """How the cell that a block is in looks, whichever table it is of."""
    table = QTextCursor(block).currentTable()
    if table is None:
        return None
    properties = table.cellAt(block.position()).format().properties()
    return {key: value for key, value in properties.items() if key != QTextFormat.ObjectIndex}


def content(document):
    """All that can be seen: each stretch with its format, each block with its own."""
    return [
        (
            block.blockFormat(),
            cell_format(block),
            [(part.text(), part.charFormat()) for part in fragments(block)],
        )
        for block in blocks(document)
    ]
