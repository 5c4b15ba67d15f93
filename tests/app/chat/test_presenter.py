"""The open conversation in the transcript: what is fetched, and when."""

from concurrent.futures import Future

import pytest
from PySide6.QtWidgets import QApplication, QLabel

from app.chat.message_view import MessageCommands
from app.chat.presenter import ConversationPresenter
from app.chat.transcript import Transcript
from app.rounds.trace import TextTally
from engine.events import Done, Failed, Prefill, Span, Stats, Text, Verdict, WrittenToken
from engine.stretches import Stretch
from models.errors import Problem
from tests.support.app.fake_tools import READ, FakeTools, called
from tests.support.app.made_traces import made_trace
from tests.support.app.talk import Talk
from tests.support.app.window_maker import events_file

LONG = "A paragraph of some words.\n\n" * 30


class Shown:
    """A talk, and its transcript."""

    def __init__(self, talk, formats):
        self.talk = talk
        self.transcript = Transcript(formats)
        self.presenter = ConversationPresenter(talk.conversation, talk.answers, self.transcript)
        self.transcript.resize(600, 500)
        self.transcript.show()

    def stored(self, count, *, state="complete"):
        """So many long answers, each to a question, that were written before."""
        store, answers = self.talk.store, []
        conversation = store.create().result().id
        for number in range(count):
            question = store.say(conversation, f"q{number}").result()
            begun = store.begin_answer(question.id, target="t", drafter="").result()
            last = Done("g", "stop", Stats())
            if state == "failed":
                last = Failed("g", f"Reason {number}.", "Remedy.")
            events = (*made_trace(LONG)[:-1], last)
            answers.append(store.finish_answer(begun.id, LONG, events, state=state).result())
        return answers

    def open(self, conversation):
        self.talk.conversation.open(conversation)
        self.talk.until(lambda: self.transcript.messages)
        self.settle()

    def settle(self):
        for _ in range(3):
            QApplication.processEvents()
            self.transcript.write_all()

    @property
    def built(self):
        """The answers that have widgets, by number."""
        return [n for n, row in enumerate(self.transcript.messages[1::2]) if row.widget]


@pytest.fixture
def shown(tmp_path, formats, qtbot):
    path = events_file(tmp_path, made_trace("an answer"))
    talk = Talk(tmp_path, f"ready take load take play:{path} take", qtbot)
    made = Shown(talk, formats)
    qtbot.addWidget(made.transcript)
    yield made
    talk.close()


def test_only_traces_of_what_is_laid_out_are_read(shown, monkeypatch):
    answers = shown.stored(15)
    asked = []
    trace = shown.talk.store.trace
    monkeypatch.setattr(shown.talk.store, "trace", lambda id: (asked.append(id), trace(id))[1])
    shown.open(answers[0].conversation)
    assert asked == []
    shown.presenter.show_provenance(True)
    rows = shown.transcript.messages[1::2]
    shown.talk.until(lambda: all(rows[n].shown.pieces for n in shown.built))
    assert set(asked) == {answers[n].id for n in shown.built}
    assert len(asked) < 10
    shown.presenter.show_answer(answers[5].id)
    shown.settle()
    assert 5 in shown.built
    shown.talk.until(lambda: rows[5].shown.pieces)


def test_a_trace_that_cannot_be_read_does_not_stop_the_others(shown, monkeypatch):
    answers = shown.stored(3)
    trace, damaged = shown.talk.store.trace, Future()
    damaged.set_exception(Problem("The rounds cannot be shown.", "Regenerate the answer."))
    monkeypatch.setattr(
        shown.talk.store, "trace", lambda id: damaged if id == answers[-1].id else trace(id)
    )
    shown.transcript.resize(600, 3000)
    shown.open(answers[0].conversation)
    shown.presenter.show_provenance(True)
    assert shown.built == [0, 1, 2]
    rows = shown.transcript.messages[1::2]
    shown.talk.until(lambda: all(row.shown.pieces for row in rows[:2]))


def test_why_an_answer_failed_is_read_when_it_is_laid_out(shown):
    answers = shown.stored(10, state="failed")
    shown.open(answers[0].conversation)
    rows = shown.transcript.messages[1::2]
    shown.talk.until(lambda: rows[-1].shown.ending and rows[-1].shown.ending.message)
    assert rows[0].shown.ending.message == ""
    shown.presenter.reveal(answers[0].id)
    shown.talk.until(lambda: rows[0].shown.ending and rows[0].shown.ending.message == "Reason 0.")
    shown.settle()
    assert shown.transcript.first_in_sight() <= 1


def reasoned(*parts):
    """The events of an answer that reasons in these parts, a round each, without its end."""
    events = [Prefill("g", 5, 5, 0, 0.1)]
    for number, part in enumerate(parts, start=1):
        own = WrittenToken(number, part, 0.5, "plain")
        events.append(Verdict("g", number, 0, (), own, 0.0, 1.5, 1.5, "plain"))
        kind = "mark" if "think" in part else "content" if part == "Yes." else "reasoning"
        spans, stretches = (Span(number, 0, len(part)),), (Stretch(kind, len(part)),)
        events.append(Text("g", part, spans, stretches))
    return events


def words_in(widget):
    return [label.text() for label in widget.findChildren(QLabel) if not label.isHidden()]


@pytest.fixture
def play(begin, formats, qtbot, tmp_path):
    """Begin a talk whose engine plays these steps, and show it."""

    def played(*steps, then="take", tools=None):
        files = (events_file(tmp_path, step, name=f"{n}.jsonl") for n, step in enumerate(steps))
        played = " ".join(f"take play:{file}" for file in files)
        shown = Shown(begin(f"ready take load {played} {then}", tools), formats)
        qtbot.addWidget(shown.transcript)
        return shown

    return played


def test_reasoning_is_counted_while_it_is_written(play):
    shown = play(reasoned("<think>", "so", " it", " is"), then="take rest")
    shown.talk.conversation.say("go")
    shown.talk.until_told("begun")
    shown.talk.until(lambda: "3 tokens" in shown.transcript.messages[-1].view.toPlainText())
    assert shown.transcript.messages[-1].shown.reasoning is None, "it goes on"


def test_what_reasoning_took_is_told_when_it_ends_and_when_it_is_opened_again(play):
    events = reasoned("<think>", "so", " it", " is", "</think>", "Yes.", "Yes.")
    shown = play([*events, Done("g", "stop", Stats())])
    talk, took = shown.talk, TextTally(3, 4.5)
    talk.ask("go")
    assert shown.transcript.messages[-1].shown.reasoning == took
    shown.settle()
    told = shown.transcript.messages[-1].view.toPlainText()
    assert "3 tokens" in told
    talk.until(lambda: talk.conversation.record and not talk.conversation.busy)
    conversation = talk.conversation.record.id
    talk.conversation.new()
    shown.open(conversation)
    talk.until(lambda: shown.transcript.messages[-1].shown.reasoning)
    shown.settle()
    assert shown.transcript.messages[-1].shown.reasoning == took
    assert shown.transcript.messages[-1].view.toPlainText() == told


def test_an_answer_gets_its_figures_when_it_is_saved(shown):
    shown.talk.ask("go")
    (row,) = shown.transcript.messages[1:]
    assert row.shown.figures == shown.talk.conversation.branch[1].figures
    assert str(row.shown.figures.tokens) in row.widget.figures_line.text()
    number = shown.talk.conversation.branch[0].conversation
    shown.talk.conversation.new()
    shown.open(number)
    assert shown.transcript.messages[1].shown.figures == row.shown.figures


def test_the_answer_with_the_focus_is_selected(shown):
    answers = shown.stored(3)
    selected = []
    shown.presenter.selected.connect(selected.append)
    shown.open(answers[0].conversation)
    assert selected == [answers[-1].id]
    shown.talk.until(lambda: shown.transcript.isActiveWindow())
    shown.presenter.reveal(answers[0].id)
    shown.talk.until(lambda: selected[-1] == answers[0].id)


@pytest.mark.parametrize("system_prompt", ["", "Be brief."])
def test_what_the_latest_answer_left_out_is_marked_when_it_is_opened_again(shown, system_prompt):
    conversation = shown.stored(3)[0].conversation
    store = shown.talk.store
    store.configure(conversation, system_prompt=system_prompt, settings=None).result()
    question = store.say(conversation, "q").result()
    begun = store.begin_answer(question.id, target="t", drafter="").result()
    gap = Prefill("g", 9, 9, 0, 0.1, 2 + bool(system_prompt), 4, 512)
    events = (gap, *made_trace("short")[2:])
    store.finish_answer(begun.id, "short", events, state="complete").result()
    shown.open(conversation)
    rows = shown.transcript.messages
    assert [place for place, row in enumerate(rows) if row.shown.note] == [5]
    shown.transcript.reveal(rows[5])
    shown.settle()
    assert rows[5].height == rows[5].widget.height_at(rows[5].widget.width())
    assert rows[5].shown.note in words_in(rows[5].widget)
    shown.talk.conversation.edit(question.id, "shorter")
    shown.talk.until(lambda: not shown.talk.conversation.busy)
    assert not any(row.shown.note for row in shown.transcript.messages)


def test_a_call_is_asked_about_runs_and_is_a_line(play):
    steps = (called("I look.\n", ("read_file", '{"path": "a.md"}')), made_trace("All is well."))
    tools = FakeTools(READ)
    shown = play(*steps, then="serve", tools=tools)
    whole = []
    left = []
    shown.transcript.commands = MessageCommands(
        decide=shown.talk.answers.decide,
        leave=lambda: left.append(True),
        show_call=lambda message, place: whole.append(shown.talk.conversation.call(message, place)),
    )
    shown.talk.conversation.say("How are things?")
    shown.talk.until(lambda: shown.transcript.messages[1:])
    row = shown.transcript.messages[1]
    shown.talk.until(lambda: row.shown.approval is not None)
    shown.settle()
    assert row.view.toPlainText().split("\n") == ["I look.", "▸ read_file a.md, waits for you"]
    row.widget.approval.buttons["once"].setFocus()
    row.widget.approval.buttons["once"].click()
    shown.talk.until(lambda: tools.calls)
    assert (row.widget.approval, left) == (None, [True])  # the card had the focus
    tools.progress(1, 2, "half\u202e")
    shown.settle()
    assert row.view.toPlainText().endswith("running, 50%, half")
    tools.end("Well.")
    shown.talk.until_told("saved")
    shown.settle()
    lines = row.view.toPlainText().split("\n")
    assert lines == ["I look.", "▸ read_file a.md, 5 bytes, 0.1 s", "All is well."]
    row.copy()
    assert QApplication.clipboard().text() == "I look.\n\n\nAll is well."
    row.view.aside_asked.emit(0)
    assert [call.result for call in whole] == ["Well."]
    shown.talk.conversation.open(shown.talk.conversation.branch[0].conversation)
    shown.talk.until(
        lambda: shown.transcript.messages[1:] and shown.transcript.messages[1] is not row
    )
    shown.settle()
    assert shown.transcript.messages[1].view.toPlainText().split("\n") == lines


def test_a_call_that_was_not_decided_is_asked_about_no_more_when_the_answer_ends(play):
    step = called("", ("read_file", '{"path": "a.md"}'))
    shown = play(step, then="serve", tools=FakeTools(READ))
    shown.talk.conversation.say("How are things?")
    shown.talk.until(lambda: shown.transcript.messages[1:])
    row = shown.transcript.messages[1]
    shown.talk.until(lambda: row.shown.approval is not None)
    shown.talk.conversation.stop()
    shown.talk.until_told("saved")
    shown.settle()
    assert row.shown.approval is None
    assert row.view.toPlainText() == "▸ read_file a.md, cancelled"
    assert not row.widget.go_on.isHidden()
