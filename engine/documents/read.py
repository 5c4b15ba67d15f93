"""The readers, by format, and the result of one, before it becomes a `Document`.

A reader is a function `read_x(data: bytes) -> Read`, one per format, in a file of its own next
to this one. It raises `Problem` if it cannot read the file. It need not drop hidden characters, nor
limit long texts, nor know the file's name: `child` does that for all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

from engine.documents import Format, Section

_NAMED = 10
_READERS: dict[Format, tuple[str, str]] = {  # (module next to this one, its function)
    "csv": ("plain", "read_csv"),
    "docx": ("word", "read_docx"),
    "eml": ("mail", "read_mail"),
    "epub": ("books", "read_epub"),
    "html": ("web", "read_html"),
    "markdown": ("plain", "read_markdown"),
    "notebook": ("notebook", "read_notebook"),
    "pdf": ("pdf", "read_pdf"),
    "pptx": ("slides", "read_pptx"),
    "text": ("plain", "read_text"),
    "webarchive": ("web", "read_webarchive"),
    "xlsx": ("sheets", "read_xlsx"),
}


@dataclass(frozen=True, slots=True)
class Read:
    """The fields of a `Document` that a reader fills."""

    sections: tuple[Section, ...]
    without_text: tuple[int, ...] = ()
    faint: int = 0
    left_out: tuple[str, ...] = ()


def counted_line(kind: str, count: int) -> tuple[str, ...]:
    """A line for `Read.left_out`: ("Pictures: 2.",); () for 0."""
    return (f"{kind}: {count:,}.",) if count else ()


def left_out_line(kind: str, names: Sequence[str]) -> tuple[str, ...]:
    """A line for `Read.left_out`: ("Hidden sheets: Old, Older.",); () without names."""
    if not names:
        return ()
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return (f"{kind}: {', '.join(names[:_NAMED])}{more}.",)


def unseen_line(count: int) -> tuple[str, ...]:
    """The same of characters that no one sees who looks at the document; () for 0."""
    return (f"Hidden text: {count:,} character{'s' * (count > 1)}.",) if count else ()


def reader_of(kind: Format) -> Callable[[bytes], Read]:
    """Import the reader of a format. Some take longer to import than to read a file."""
    module, name = _READERS[kind]
    reader: Callable[[bytes], Read] = getattr(import_module(f"{__package__}.{module}"), name)
    return reader
