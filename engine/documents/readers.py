"""Knows the reader of each format."""

from collections.abc import Callable
from importlib import import_module

from engine.documents import Format
from engine.documents.read import Read

_READERS: dict[Format, tuple[str, str]] = {  # (module beside this one, its function)
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


def reader_of(kind: Format) -> Callable[[bytes], Read]:
    """Import the reader of a format. Some take longer to import than to read a file."""
    module, name = _READERS[kind]
    reader: Callable[[bytes], Read] = getattr(import_module(f"{__package__}.{module}"), name)
    return reader
