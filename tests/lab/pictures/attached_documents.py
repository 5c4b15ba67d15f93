"""Pictures of documents that are attached to a message: read by the real reader, never sent."""

from collections.abc import Callable
from pathlib import Path

from app.documents.text_dialog import TextDialog
from app.window import Window
from tests.support.app.attached import attach
from tests.support.documents.pdfs import lines, pdf

Save = Callable[[str, Callable[[str], None]], None]

_CLAUSE = "The tenant pays the rent of clause {} on the first day of each month."
_NOTES = "Ask about the deposit, and who pays for the heating.\n"


def draw_documents(
    window: Window, folder: Path, save: Save, until: Callable[[Callable[[], object]], None]
) -> None:
    """Attach a long PDF, a short text and a file that has none, and look at what is sent."""
    pages = (lines([_CLAUSE.format(f"{page}.{n}") for n in range(1, 17)]) for page in range(1, 31))
    lease, notes, empty = (folder / name for name in ("lease.pdf", "notes.md", "scan.txt"))
    lease.write_bytes(pdf(*pages))
    notes.write_text(_NOTES, encoding="utf-8")
    empty.write_text("", encoding="utf-8")
    window.menus.actions["new"].trigger()
    window.composer.set_text("What does clause 7.3 say about the rent?")
    attach(window, until, lease, notes, empty)
    save("attached", lambda path: window.grab().save(path))
    window.composer.documents.chips[0].view.click()
    dialog = window.findChild(TextDialog)
    assert dialog is not None
    save("what-is-sent", lambda path: dialog.grab().save(path))
    dialog.close()
