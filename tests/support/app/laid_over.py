"""What marks lie over a text, as the provenance of its tokens does."""

from PySide6.QtGui import QTextCharFormat

from app.markdown.formats import TOKEN


def laid_over(document):
    """Return the text and format of each marked stretch, in reading order."""
    found = []
    block = document.begin()
    while block.isValid():
        units = block.text().encode("utf-16-le")
        for laid in block.layout().formats():
            if laid.format.hasProperty(TOKEN):
                text = units[2 * laid.start : 2 * (laid.start + laid.length)].decode("utf-16-le")
                found.append((text, QTextCharFormat(laid.format)))
        block = block.next()
    return found
