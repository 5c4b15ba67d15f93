"""What marks lie over a text, as the provenance of its tokens does."""

from PySide6.QtGui import QTextCharFormat

from app.markdown.formats import TOKEN


def laid_over(document):
    """Return the text and format of each marked stretch, in reading order."""
    found = []
    block = document.begin()
    while block.isValid():
        ours = [laid for laid in block.layout().formats() if laid.format.hasProperty(TOKEN)]
        units = block.text().encode("utf-16-le")
        found += [
            (
                units[2 * r.start : 2 * (r.start + r.length)].decode("utf-16-le"),
                QTextCharFormat(r.format),
            )
            for r in ours
        ]
        block = block.next()
    return found
