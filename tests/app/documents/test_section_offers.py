"""A question about all of a long document is asked of each part, and the notes are kept."""

import shutil
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.chat.activity import Activity, AwaitingModel, MakingNotes
from app.chat.message import MessageWidget
from app.conversations.store import Store
from app.documents.text_dialog import TextDialog
from app.window import Window
from engine.documents.by_section import NOTE_TOKENS, THINKING
from engine.documents.prompt import Sent
from engine.events import Done, Prefill, Stats, Text
from engine.request import ChatMessage, Request, Sampling
from engine.stretches import Stretch
from models.errors import Problem
from tests.support.app.attached import Reader, attach, chips, file_in, planned
from tests.support.app.window_maker import OFFSCREEN_COMPLAINTS, Open, Until, events_file
from tests.support.app.window_use import answered, send

pytestmark = pytest.mark.qt_log_ignore(*OFFSCREEN_COMPLAINTS)

QUESTION = "Summarize the lease"
LONG = "\n\n".join(f"Clause {n}. " + "Nothing is said here. " * 30 for n in range(60))
ONE_NOTE = "ready take load take text:found done"  # then the second part is asked about

Asked = list[tuple[list[ChatMessage], Request]]


class Desk:
    """A window, what its engine is asked, and a long file that is attached."""

    def __init__(self, window: Window, until: Until, seen: Asked) -> None:
        self.window, self.until, self.seen = window, until, seen
        self.composer = window.composer

    def attach(self, path: Path, question: str = QUESTION) -> None:
        self.until(lambda: self.window.loader.loaded is not None)
        self.composer.field.setPlainText(question)
        attach(self.window, self.until, path)
        self.until(lambda: planned(self.window))

    @property
    def offered(self) -> str:
        """What the button in the composer is called, with its words."""
        button = self.composer.documents.offer.button
        return button.accessibleName() if button.isVisibleTo(self.composer) else ""

    def press(self) -> None:
        self.until(lambda: self.offered)
        self.composer.documents.offer.button.click()

    def make_notes(self, path: Path) -> None:
        """Attach a file, and ask for notes on each of its parts."""
        self.attach(path)
        self.press()

    def press_below(self) -> None:
        """The button under the answer."""
        self.until(lambda: self.answer.offer.isVisibleTo(self.answer))
        self.answer.offer.button.click()

    @property
    def answer(self) -> MessageWidget:
        row = self.window.transcript.messages[-1]
        assert row.view is not None, "it is built for that"
        assert row.widget is not None
        return row.widget

    @property
    def activity(self) -> Activity | None:
        writing = self.window.conversation.writing
        return writing.activity if writing else None

    @property
    def sent(self) -> Sent:
        question = self.window.conversation.branch[-2]
        assert question.sent is not None
        return question.sent

    @property
    def stored(self) -> Sent | None:
        """What the store has of the question."""
        record = self.window.conversation.record
        assert record is not None
        return self.window.store.branch(record.id).result()[-2].sent

    @property
    def noted(self) -> tuple[int, int]:
        (document,) = self.sent.documents
        return document.notes, document.among

    def until_answered(self, count: int = 2) -> None:
        self.until(answered(self.window, count))
        self.until(
            lambda: self.window.answers.writing(self.window.conversation.branch[-1].id) is None
        )


@pytest.fixture
def desk(open_window: Open, until: Until, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Desk]:
    """Opens a window whose engine takes these steps."""

    def desk(steps: str = "ready take load serve") -> Desk:
        seen: Asked = []
        window = open_window(steps, read=Reader())
        generate = window.engine.generate

        def spy(conversation: str, lines: Any, request: Request, **options: str) -> str:
            seen.append((list(lines), request))
            return generate(conversation, lines, request, **options)

        monkeypatch.setattr(window.engine, "generate", spy)
        return Desk(window, until, seen)

    return desk


@pytest.fixture
def lease(tmp_path: Path) -> Path:
    return file_in(tmp_path, "lease.txt", LONG)


def test_only_a_question_about_all_of_it_is_offered_that(
    desk: Callable[..., Desk], until: Until, lease: Path
) -> None:
    one = desk()
    one.attach(lease, "What is said about the deposit?")
    assert one.offered == ""
    one.composer.field.setPlainText(QUESTION)
    until(lambda: one.offered)
    assert "parts" in one.offered
    one.composer.field.setPlainText("What is said about the deposit?")
    until(lambda: not one.offered)


def test_each_part_is_asked_about_and_then_the_notes(
    desk: Callable[..., Desk], lease: Path
) -> None:
    one = desk()
    one.make_notes(lease)
    one.until_answered()
    *parts, (last, request) = one.seen
    assert len(parts) > 2
    assert all(part.max_tokens == NOTE_TOKENS for _, part in parts)
    assert [part.thinking for _, part in parts] == [THINKING] * len(parts)
    assert request.thinking == ""
    assert request.max_tokens == one.window.conversation.settings.max_tokens
    clauses = [f"Clause {n}." for n in range(60)]
    for clause in clauses:
        assert sum(clause in lines[-1].content for lines, _ in parts) == 1
    assert one.noted == (len(parts), len(parts))
    assert last[-1].content == one.sent.text == one.stored.text  # type: ignore[union-attr]
    assert last[-1].attached == one.sent.attached
    assert last[-1].content.count("served") == len(parts)
    assert one.window.conversation.branch[-1].content == "served"
    assert chips(one.window) == []
    assert one.composer.text == ""
    assert one.window.transcript.messages[0].written == QUESTION
    answer = one.window.conversation.branch[-1]
    events = one.window.store.trace(answer.id).result()
    assert "".join(event.delta for event in events if isinstance(event, Text)) == answer.content


def test_the_notes_stand_with_the_answer_folded_and_with_the_question(
    desk: Callable[..., Desk], lease: Path
) -> None:
    one = desk()
    one.make_notes(lease)
    one.until_answered()
    answer = one.answer
    assert answer.notes.isVisibleTo(answer)
    low = answer.height_at(600)
    answer.notes.button.click()
    assert "served" in answer.notes.text
    assert answer.height_at(600) > low
    question = one.window.transcript.messages[0].widget
    assert question is not None
    question.documents.view_asked.emit(0)
    dialog = one.window.findChild(TextDialog)
    assert dialog is not None
    assert dialog.text == one.sent.given(1)
    dialog.close()
    send(one.window, "Thanks")
    one.until_answered(4)
    assert "served" in one.seen[-1][0][0].content, "the notes stay in the conversation"


@pytest.mark.slow
def test_progress_is_told(
    desk: Callable[..., Desk], until: Until, lease: Path, tmp_path: Path
) -> None:
    go_on = tmp_path / "go_on"
    one = desk(f"{ONE_NOTE} take wait:{go_on} reading:10:40 rest")
    one.make_notes(lease)
    until(lambda: isinstance(one.activity, MakingNotes) and one.activity.number == 2)
    asked = one.activity
    go_on.touch()
    until(lambda: isinstance(one.activity, MakingNotes) and one.activity.part_share)
    made = one.activity
    assert isinstance(asked, MakingNotes)
    assert isinstance(made, MakingNotes)
    assert (made.number, made.among) == (2, one.noted[1])
    assert made.part_share == 0.25
    assert made.seconds == asked.seconds, "of the parts before it, however long this one takes"
    assert made.place.startswith("lease.txt, line ")
    row = one.window.transcript.streaming
    assert row is not None
    assert made.place in str(row.ahead)
    assert "found" in one.answer.notes.text


@pytest.mark.quick(1)
@pytest.mark.parametrize("late", [False, True], ids=["in the middle of a note", "at its end"])
def test_what_was_noted_when_it_is_stopped_is_kept_and_can_be_answered_from(
    desk: Callable[..., Desk], until: Until, lease: Path, tmp_path: Path, late: bool
) -> None:
    stopped = tmp_path / "stopped"
    cancelled = events_file(tmp_path, [Done("", "cancelled", Stats())])
    end = "done" if late else f"play:{cancelled}"
    one = desk(f"{ONE_NOTE} take reading:10:40 text:late wait:{stopped} {end} serve")
    one.make_notes(lease)
    until(lambda: isinstance(one.activity, MakingNotes) and one.activity.number == 2)
    one.window.conversation.stop()
    stopped.touch()
    one.until_answered()
    assert [len(one.seen), one.window.conversation.branch[-1].state] == [2, "cancelled"]
    assert one.noted == (1 + late, one.noted[1])
    assert one.stored == one.sent
    assert "found" in one.sent.text
    assert ("late" in one.sent.text) == late
    one.press_below()
    until(lambda: len(one.seen) == 3)
    one.until_answered()
    assert one.seen[-1][0][-1].content == one.sent.text
    assert one.window.conversation.branch[-1].content == "served"
    assert not one.answer.offer.isVisibleTo(one.answer)


@pytest.mark.slow
def test_where_nothing_was_noted_the_parts_are_offered_again(
    desk: Callable[..., Desk], until: Until, lease: Path, tmp_path: Path
) -> None:
    stopped = tmp_path / "stopped"
    cancelled = events_file(tmp_path, [Done("", "cancelled", Stats())])
    one = desk(f"ready take load take reading:10:40 wait:{stopped} play:{cancelled} serve")
    one.make_notes(lease)
    until(lambda: isinstance(one.activity, MakingNotes) and one.activity.part_share)
    one.window.conversation.stop()
    stopped.touch()
    one.until_answered()
    assert one.noted[0] == 0
    one.press_below()
    until(lambda: len(one.seen) > 2)
    one.until_answered()
    assert one.noted[0] == one.noted[1] == len(one.seen) - 2


def test_a_fault_of_the_engine_keeps_the_notes_so_far(
    desk: Callable[..., Desk], lease: Path
) -> None:
    one = desk(f"{ONE_NOTE} take kill -- ready take load serve")
    one.make_notes(lease)
    one.until_answered()
    assert one.window.conversation.branch[-1].state == "failed"
    assert (one.noted[0], one.stored) == (1, one.sent)


def test_after_a_crash_the_conversation_is_whole(
    desk: Callable[..., Desk], until: Until, lease: Path, tmp_path: Path
) -> None:
    one = desk(f"{ONE_NOTE} take rest")
    one.make_notes(lease)
    until(lambda: isinstance(one.activity, MakingNotes) and one.activity.number == 2)
    assert one.stored == one.sent, "it is on the disk"
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for file in one.window.store.path.parent.glob("conversations.sqlite*"):
        shutil.copy(file, crashed)
    with Store.open(crashed / "conversations.sqlite") as store:
        (conversation,) = store.conversations().result()
        question, answer = store.branch(conversation.id).result()
        assert (answer.state, answer.content) == ("interrupted", "")
        assert question.content == QUESTION
        assert question.sent == one.sent
        assert "found" in one.sent.text


@pytest.mark.slow
def test_the_same_is_offered_under_an_answer_from_passages(
    desk: Callable[..., Desk], until: Until, lease: Path
) -> None:
    one = desk()
    one.attach(lease)
    one.composer.send()
    one.until_answered()
    assert "passages" in one.sent.documents[0].in_words
    until(lambda: one.answer.offer.isVisibleTo(one.answer))
    assert "parts" in one.answer.offer.words
    one.answer.offer.button.click()
    until(lambda: len(one.seen) > 2)
    one.until_answered()
    question = one.window.conversation.branch[-2]
    assert (question.content, question.place, question.siblings) == (QUESTION, 2, 2)
    assert one.noted[0] == one.noted[1] == len(one.seen) - 2
    assert not one.answer.offer.isVisibleTo(one.answer)
    one.window.conversation.switch(question.id, 1)
    until(lambda: one.answer.offer.isVisibleTo(one.answer))
    assert not one.answer.notes.isVisibleTo(one.answer)


@pytest.mark.slow
def test_another_version_has_the_notes_and_says_what_they_were_made_for(
    desk: Callable[..., Desk], until: Until, lease: Path
) -> None:
    one = desk()
    one.make_notes(lease)
    one.until_answered()
    before = one.sent
    one.window.menus.actions["edit"].trigger()
    assert one.composer.documents.remark
    assert one.offered == ""
    one.composer.set_text("Is it long?")
    one.composer.send()
    until(lambda: one.window.conversation.branch[-2].siblings == 2)
    one.until_answered()
    assert one.sent == before.asked("Is it long?")
    assert one.composer.documents.remark == ""


@pytest.mark.slow
def test_without_a_model_the_notes_wait_for_one(
    desk: Callable[..., Desk], until: Until, lease: Path
) -> None:
    one = desk()
    one.attach(lease)
    one.window.answers.hold()
    one.press()
    until(lambda: one.window.conversation.writing)
    assert one.seen == []
    assert one.stored is not None
    assert one.noted[0] == 0
    one.window.answers.release()
    one.until_answered()
    assert one.noted[0] == one.noted[1] == len(one.seen) - 1


@pytest.mark.slow
def test_while_another_model_is_loaded_the_next_note_waits(
    desk: Callable[..., Desk], until: Until, lease: Path, tmp_path: Path
) -> None:
    go_on = tmp_path / "go_on"
    one = desk(f"ready take load take wait:{go_on} text:found done serve")
    one.make_notes(lease)
    until(lambda: len(one.seen) == 1)
    one.window.answers.hold()
    go_on.touch()
    until(lambda: one.noted[0] == 1)
    assert len(one.seen) == 1
    assert isinstance(one.activity, AwaitingModel)
    one.window.answers.release()
    one.until_answered()
    assert one.noted[0] == one.noted[1] == len(one.seen) - 1


@pytest.mark.slow
def test_notes_that_wait_for_a_model_can_be_stopped(
    desk: Callable[..., Desk], until: Until, lease: Path
) -> None:
    one = desk()
    one.attach(lease)
    one.window.answers.hold()
    one.press()
    until(lambda: one.window.conversation.writing)
    one.window.conversation.stop()
    one.until_answered()
    one.window.answers.release()
    assert one.window.conversation.branch[-1].state == "cancelled"
    assert one.seen == []


@pytest.mark.slow
def test_a_later_question_finds_passages_of_what_there_are_notes_on(
    desk: Callable[..., Desk], lease: Path
) -> None:
    one = desk()
    one.make_notes(lease)
    one.until_answered()
    send(one.window, "What does clause 41 say?")
    one.until_answered(4)
    assert "Clause 41." in one.sent.text
    assert one.sent.documents[0].passages


def test_a_deleted_document_takes_its_notes_along(
    desk: Callable[..., Desk], until: Until, lease: Path
) -> None:
    one = desk()
    one.make_notes(lease)
    one.until_answered()
    one.window.conversation.delete_document(1)
    until(lambda: one.sent.documents[0].deleted)
    assert "served" not in one.sent.text
    assert one.stored == one.sent
    assert not one.answer.notes.isVisibleTo(one.answer)


@pytest.mark.slow
def test_while_notes_are_made_for_a_version_no_document_is_deleted(
    desk: Callable[..., Desk], until: Until, lease: Path, tmp_path: Path
) -> None:
    go_on = tmp_path / "go_on"
    steps = "ready take load take text:short done take text:found done"
    one = desk(f"{steps} take wait:{go_on} done serve")
    one.attach(lease)
    one.composer.send()
    one.until_answered()
    one.press_below()
    until(lambda: isinstance(one.activity, MakingNotes) and one.activity.number == 2)
    conversation, question = one.window.conversation, one.window.conversation.branch[-2]
    conversation.switch(question.id, 1)
    until(lambda: conversation.writing is None)
    remarks: list[str] = []
    conversation.remarked.connect(remarks.append)
    conversation.delete_document(1)
    assert len(remarks) == 1
    go_on.touch()
    until(lambda: not one.window.answers.busy)
    stored = one.window.store.message(question.id).result().sent
    assert stored is not None
    (document,) = stored.documents
    assert (document.notes, document.deleted) == (document.among, False)


def test_reasoning_is_no_note(
    desk: Callable[..., Desk], until: Until, lease: Path, tmp_path: Path
) -> None:
    begun, length = Prefill("", 40, 40, 0, 0.1), Done("", "length", Stats())
    thought = Text("", "Hm", stretches=(Stretch("reasoning", 2),))
    behind = Text("", "</think>\n\nA ", stretches=(Stretch("mark", 10), Stretch("content", 2)))
    cut = events_file(tmp_path, [begun, thought, length], name="cut")
    whole = [begun, thought, behind, Text("", "deposit."), length]
    first = f"take play:{cut} take play:{events_file(tmp_path, whole)}"
    one = desk(f"ready take load {first} serve")
    one.make_notes(lease)
    one.until_answered()
    (short, few), (long, more), *_ = one.seen
    assert short == long
    assert few.max_tokens == NOTE_TOKENS < more.max_tokens
    assert few.thinking == THINKING
    assert "A deposit." in one.sent.text
    assert "Hm" not in one.sent.text
    assert one.noted[0] == one.noted[1] == len(one.seen) - 2


@pytest.mark.slow
def test_reasoning_without_an_end_is_told(
    desk: Callable[..., Desk], lease: Path, tmp_path: Path
) -> None:
    cut = events_file(
        tmp_path,
        [Text("", "Hm", stretches=(Stretch("reasoning", 2),)), Done("", "length", Stats())],
    )
    one = desk(f"{ONE_NOTE} take play:{cut} take play:{cut} serve")
    one.make_notes(lease)
    one.until_answered()
    assert one.window.conversation.branch[-1].state == "failed"
    assert (one.noted[0], one.stored) == (1, one.sent)


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has the store refuse notes of which `refuses` says so."""

    def refusing(one: Desk, refuses: Callable[[Sent], bool]) -> None:
        keep_notes = one.window.store.keep_notes

        def keep(message: int, sent: Sent) -> Future[Sent]:
            if not refuses(sent):
                return keep_notes(message, sent)
            refused: Future[Sent] = Future()
            refused.set_exception(Problem("The disk is full.", "Make room on it."))
            return refused

        monkeypatch.setattr(one.window.store, "keep_notes", keep)

    return refusing


def test_a_note_that_cannot_be_saved_is_saved_with_the_next(
    desk: Callable[..., Desk], lease: Path, refusing: Callable[..., None]
) -> None:
    one = desk()
    refusing(one, lambda sent: sent.documents[0].notes == 1)
    one.make_notes(lease)
    one.until_answered()
    assert one.window.conversation.branch[-1].content == "served"
    assert one.noted[0] == one.noted[1] == len(one.seen) - 1
    assert one.stored == one.sent


@pytest.mark.slow
def test_without_the_last_note_on_the_disk_nothing_is_answered_and_nothing_lost(
    desk: Callable[..., Desk], until: Until, lease: Path, refusing: Callable[..., None]
) -> None:
    one, full = desk(), [True]
    refusing(one, lambda sent: full[0] and sent.documents[0].notes == sent.documents[0].among)
    one.make_notes(lease)
    until(lambda: one.window.conversation.branch and not one.window.answers.busy)
    assert len(one.seen) == one.noted[1]
    full.clear()
    full.append(False)
    one.window.answers.flush()
    one.until_answered()
    assert one.window.conversation.branch[-1].state == "failed"
    assert one.noted[0] == one.noted[1]
    assert one.stored == one.sent


@pytest.mark.slow
def test_what_could_not_be_saved_when_it_is_stopped_is_saved_with_the_end(
    desk: Callable[..., Desk],
    until: Until,
    lease: Path,
    tmp_path: Path,
    refusing: Callable[..., None],
) -> None:
    stopped, refused = tmp_path / "stopped", list[Sent]()
    cancelled = events_file(tmp_path, [Done("", "cancelled", Stats())])
    one = desk(f"{ONE_NOTE} take reading:10:40 wait:{stopped} play:{cancelled}")

    def refuses(sent: Sent) -> bool:
        refused.append(sent)
        return len(refused) == 1

    refusing(one, refuses)
    one.make_notes(lease)
    until(lambda: isinstance(one.activity, MakingNotes) and one.activity.number == 2)
    assert len(refused) == 1
    one.window.conversation.stop()
    stopped.touch()
    one.until_answered()
    assert (one.noted[0], one.stored) == (1, one.sent)


@pytest.mark.slow
def test_what_another_model_has_no_room_for_is_offered_no_more(
    desk: Callable[..., Desk], until: Until, lease: Path
) -> None:
    one = desk()
    one.attach(lease)
    one.composer.send()
    one.until_answered()
    until(lambda: one.answer.offer.isVisibleTo(one.answer))
    loaded = one.window.loader.loaded
    assert loaded is not None
    one.window.loader.loaded_now.emit(replace(loaded, context_length=400))
    until(lambda: not one.answer.offer.isVisibleTo(one.answer))
    one.window.loader.loaded_now.emit(loaded)
    until(lambda: one.answer.offer.isVisibleTo(one.answer))


@pytest.mark.slow
def test_what_was_estimated_is_told_anew_once_tokens_are_counted(
    desk: Callable[..., Desk], until: Until, lease: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = desk()
    one.attach(lease)
    one.composer.send()
    one.until_answered()
    until(lambda: one.answer.offer.isVisibleTo(one.answer))
    estimated = one.answer.offer.words
    known = "app.engine_client.token_counter.load_count"
    monkeypatch.setattr(known, lambda target: lambda text: 2 * len(text) // 3)
    one.composer.field.setPlainText("And now?")  # is counted
    until(lambda: one.answer.offer.words != estimated)


@pytest.mark.slow
def test_from_the_notes_so_far_it_is_answered_with_the_same_seed(
    desk: Callable[..., Desk], until: Until, lease: Path
) -> None:
    one = desk(f"{ONE_NOTE} take failed serve")
    one.attach(lease)
    conversation = one.window.conversation
    seeded = replace(conversation.settings, sampling=Sampling(seed=7))
    conversation.configure(system_prompt="", settings=seeded)
    until(lambda: conversation.settings == seeded)
    one.press()
    one.until_answered()
    remarks: list[str] = []
    conversation.remarked.connect(remarks.append)
    one.press_below()
    until(lambda: len(one.seen) == 3)
    one.until_answered()
    assert one.seen[-1][1].sampling == seeded.sampling
    assert remarks == []
