"""Describes a document for people: its size, and the parts of it that are not read."""

from engine.documents import LABELS_APART, Document
from models.in_words import one_line

_COUNTED = ("slide", "chapter", "cell")


def size_in_words(document: Document) -> str:
    """The number of pages, sheets, slides or files: "12 pages"; "" if there is none to count."""
    sections = document.sections
    kind = sections[0].kind if sections else "lines"
    numbers = {*(section.number for section in sections), *document.without_text}
    if document.format == "folder":
        return _counted(len({each.label.partition(LABELS_APART)[0] for each in sections}), "file")
    if kind == "page":
        return _counted(max(numbers), "page")
    if kind == "sheet":
        return _counted(len({section.label for section in sections}), kind)
    return _counted(len(numbers), kind) if kind in _COUNTED else ""


def lacks(document: Document) -> tuple[str, ...]:
    """Remarks on the text that was read, a line each: pages without text, hidden characters, ..."""
    lines = []
    if pages := document.without_text:
        of_all = f"{len(pages)} of {size_in_words(document)}"
        have = "has" if len(pages) == 1 else "have"
        lines.append(f"{of_all} {have} no text: {', '.join(map(str, pages))}.")
    if document.hidden:
        was = "was" if document.hidden == 1 else "were"
        lines.append(f"{_counted(document.hidden, 'hidden character')} {was} left out.")
    if document.faint:
        are = "is" if document.faint == 1 else "are"
        lines.append(
            f"{_counted(document.faint, 'character')} {are} tiny: "
            "easy to overlook, but the model reads them."
        )
    if document.left_out:
        each = (line.strip().removesuffix(".") for line in document.left_out)
        lines.append(f"Left out: {'; '.join(each)}.")
    return tuple(map(one_line, lines))


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
