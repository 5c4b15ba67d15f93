"""Answers and documents of a conversation: which words are marked, and where they lead."""

from dataclasses import replace
from threading import Event

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest

from app.conversations.store import Store
from engine.documents.copied import WordIndex
from engine.documents.prompt import Attached, write_message
from engine.documents.reading import read_document
from engine.events import Draft, Source
from engine.tools.steps import Step, StepCall
from tests.support.app.attached import text_document
from tests.support.app.made_traces import made_trace
from tests.support.documents.marked_answers import MANUAL
from tests.support.documents.pdfs import line, pdf

pytestmark = pytest.mark.qt_log_ignore("not accepted by receiving")
COPY = "The pumps are delivered in four lots of twelve"
ANSWER = f"It says: {COPY}, and “Peter Stern” agrees."


def seed(folder, *documents, answer=ANSWER, original=None, copied=False, steps=()):
    """A conversation with an answer about these documents, or with these steps; its id. `copied`:
    the answer's drafts were copied from the first document, or from the result of a call."""
    with Store.open(folder / "conversations.sqlite") as store:
        conversation = store.create().result().id
        attached = [
            Attached(store.attach(conversation, each, original=original).result(), each)
            for each in documents
        ]
        sent = write_message("What does it say?", attached) if attached else None
        _, branch = store.ask(
            conversation, "What does it say?", sent=sent, target="t", drafter="d"
        ).result()
        source = Source(0, sent.documents[0].ranges[0].start) if sent else Source(2, 0)
        events = [
            replace(event, source=source) if isinstance(event, Draft) else event
            for event in (made_trace(answer) if copied else ())
        ]
        store.finish_answer(branch[-1].id, answer, events, state="complete", steps=steps).result()
    return conversation


def opened(open_window, until, conversation):
    window = open_window()
    window.show_conversation(conversation)
    until(lambda: len(window.transcript.messages) == 2)
    return window


def words(window, place=-1):
    return window.transcript.messages[place].shown.words


def widget(window):
    return window.transcript.messages[-1].widget


def test_words_of_an_answer_are_marked_and_lead_to_their_page_until_the_document_is_deleted(
    open_window, until, tmp_path, monkeypatch
):
    path = tmp_path / "contract.pdf"
    path.write_bytes(pdf(line("A page before it."), line(f"{COPY}, in the end.")))
    document = read_document(path)
    answer = f"{ANSWER} A strong wind can change the level."
    both = seed(tmp_path, document, text_document("b.txt", f"{COPY}, too."))
    window = opened(
        open_window,
        until,
        seed(tmp_path, document, MANUAL, answer=answer, original=path, copied=True),
    )
    until(lambda: words(window).copied)
    copy = window.store.duplicate(window.conversation.record.id).result().id
    first, second = words(window).copied
    assert answer[first.start : first.end] == COPY
    assert [answer[each.start : each.end] for each in words(window).missing] == ["Peter Stern"]
    assert "copied tokens" in words(window).line
    view, panel = widget(window).view, window.page_panel
    until(lambda: len(view.extraSelections()) == 3)
    assert not panel.isVisible()
    view.setFocus()
    cursor = view.document().find("four")
    cursor.clearSelection()
    view.setTextCursor(cursor)
    QTest.keyClick(view, Qt.Key.Key_Return)
    until(lambda: panel.page.picture is not None)
    assert panel.isVisible()
    assert window.menus.actions["document"].isChecked()
    assert document.sections[document.section_at(panel.place.start)].number == 2
    assert len(panel.page.picture.boxes) == 1
    panel.close_asked.emit()
    assert not panel.isVisible()
    window.conversation.delete_document(1)
    until(lambda: len(words(window).copied) == 1)
    assert panel.place is None
    assert words(window).copied[0].places == second.places
    assert words(window).missing == (), "it may have stood in what was deleted"
    assert "not found" not in words(window).line
    widget(window).word_marks.asked.emit(second)
    assert panel.place is not None
    window.menus.actions["new"].trigger()
    until(lambda: panel.place is None)
    begun, deleted = [], Event()

    def index(*parts):
        begun.append(parts)
        return WordIndex(*parts) if len(begun) == 1 or deleted.wait() else None

    monkeypatch.setattr("app.documents.words_in_documents.WordIndex", index)
    window.show_conversation(copy)
    until(lambda: len(begun) == 2)
    window.conversation.delete_document(1)
    until(lambda: window.conversation.branch[0].sent.documents[0].deleted)
    deleted.set()
    until(lambda: len(words(window).copied) == 1)
    window.show_conversation(both)
    until(lambda: words(window).copied and len(words(window).copied[0].places) == 2)
    widget(window).place_asked.emit(words(window).copied[0])
    assert panel.place.document == 1
    window.conversation.delete_document(2)  # which is the next place in the panel
    until(lambda: window.conversation.branch[0].sent.documents[1].deleted)
    assert panel.place is None


def test_words_from_the_result_of_a_call_are_marked_too_by_a_lens_that_is_remembered(
    open_window, until, tmp_path
):
    call = StepCall("1", "read_file", '{"path": "notes.md"}', tool="read_file", state="done")
    ours = replace(call, id="2", state="refused", result="and Peter Stern agrees.")
    step = Step(2, (replace(call, result=f"1. {COPY}."), ours))
    window = opened(open_window, until, seed(tmp_path, copied=True, steps=(step,)))
    until(lambda: words(window).copied)
    (span,) = words(window).copied
    assert ANSWER[span.start : span.end] == COPY
    assert words(window).missing == (), "what no tool said may still be right"
    assert "read_file notes.md" in words(window).line
    assert "copied tokens" in words(window).line
    view, actions = widget(window).view, window.menus.actions

    def lead(word):
        """What the menu of a word has about documents."""
        point = view.cursorRect(view.document().find(word)).center() - QPoint(2, 0)
        menu = widget(window).menu(view.viewport().mapToGlobal(point))
        return next((each for each in menu.actions() if "document" in each.text()), None)

    assert lead("Stern") is None
    lead("four").trigger()
    until(lambda: COPY in window.page_panel.text.toPlainText())
    for action, marked in (("provenance", False), ("words", True), ("words", False)):
        actions[action].trigger()
        assert (window.words.marked, actions["words"].isChecked()) == (marked, marked)
        assert window.presenter.provenance == (action == "provenance")
        assert bool(view.extraSelections()) == marked
    window.close()
    assert not open_window().words.marked
