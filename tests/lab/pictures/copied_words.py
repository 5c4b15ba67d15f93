"""Pictures of an answer that copies from documents: its words marked, and the page they are on."""

from collections.abc import Callable
from pathlib import Path

from app.window import Window
from engine.documents.prompt import Attached, write_message
from engine.documents.reading import read_document
from tests.support.documents.pdfs import lines, pdf

Save = Callable[[str, Callable[[str], None]], None]

_QUESTION = "Who pays for what?"
_PAGES = (
    ("1. Rent", "The tenant pays the rent of 1,150 euros on the first day of each month."),
    ("2. Heating", "The landlord has the heating looked after once a year, before November."),
)
_NOTES = "Maria Keller says that the deposit was paid in full when the keys were handed over.\n"
_ANSWER = (
    "- **Rent:** *the tenant pays the rent of 1,150 euros* on the first day of each month.\n"
    "- **Heating:** the landlord has the heating looked after once a year, by Peter Stern.\n"
    "- **Deposit:** it seems that the deposit was paid in full when the keys were handed over.\n\n"
    "Nothing is said of repairs, which may cost 300 euros."
)


def draw_words(
    window: Window, folder: Path, save: Save, until: Callable[[Callable[[], object]], None]
) -> None:
    """An answer of another time about two documents; the first of its copies is looked up."""
    lease, notes = folder / "lease.pdf", folder / "notes.md"
    lease.write_bytes(pdf(*(lines(page) for page in _PAGES)))
    notes.write_text(_NOTES, encoding="utf-8")
    store = window.store
    conversation = store.create().result().id
    attached = [
        Attached(store.attach(conversation, document, original=path).result(), document)
        for path in (lease, notes)
        for document in (read_document(path),)
    ]
    sent = write_message(_QUESTION, attached)
    asked = store.ask(conversation, _QUESTION, sent=sent, target="Example", drafter="").result()
    store.finish_answer(asked[1][-1].id, _ANSWER, (), state="complete").result()
    if not window.words.marked:
        window.menus.actions["words"].trigger()
    window.show_conversation(conversation)
    until(lambda: len(window.transcript.messages) == 2)
    row = window.transcript.messages[-1]
    until(lambda: row.words.copied and row.widget is not None)
    window.transcript.write_all()
    save("words", lambda path: window.grab().save(path))
    if row.widget is not None:
        row.widget.word_marks.asked.emit(row.words.copied[0])
    until(lambda: window.page_panel.page.picture is not None)
    save("page", lambda path: window.grab().save(path))
    window.menus.actions["document"].trigger()
