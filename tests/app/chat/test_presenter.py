"""The open conversation in the transcript: what is fetched, and when."""

import pytest
from PySide6.QtWidgets import QApplication, QLabel

from app.chat.message_view import MessageCommands
from app.chat.presenter import ConversationPresenter
from app.chat.rounds_side import RoundsSide
from app.chat.transcript import Transcript
from app.rounds.trace import TextTally
from engine.events import Done, Failed, Prefill, Span, Stats, Text, Verdict, WrittenToken
from engine.stretches import Stretch
from tests.support.app.fake_tools import READ, FakeTools, called
from tests.support.app.made_traces import made_trace
from tests.support.app.talk import Talk, refused
from tests.support.app.window_maker import events_file
from tests.support.app.window_use import settle

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
        settle(self.transcript)

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


def test_only_traces_of_what_is_laid_out_are_read_and_one_that_cannot_be_stops_no_other(
    shown, qtbot, monkeypatch
):
    answers = shown.stored(15)
    asked, trace = [], shown.talk.store.trace

    def read(answer):
        asked.append(answer)
        return refused() if answer == answers[5].id else trace(answer)

    monkeypatch.setattr(shown.talk.store, "trace", read)
    shown.open(answers[0].conversation)
    assert asked == []
    shown.presenter.show_provenance(True)
    rows = shown.transcript.messages[1::2]
    shown.talk.until(lambda: all(rows[n].shown.pieces for n in shown.built))
    assert set(asked) == {answers[n].id for n in shown.built}
    assert len(asked) < 10
    shown.transcript.resize(600, 3000)
    shown.presenter.show_answer(answers[5].id)
    shown.settle()
    assert {4, 5, 6} <= set(shown.built)
    shown.talk.until(lambda: rows[4].shown.pieces and rows[6].shown.pieces)
    side = RoundsSide(shown.talk.conversation, shown.talk.answers)
    qtbot.addWidget(side)
    for answer, hidden in ((answers[6], True), (answers[5], False)):
        side.show_answer(answer.id)
        shown.talk.until(lambda hidden=hidden: side.hint.isVisibleTo(side) != hidden)


def test_why_an_answer_failed_is_read_when_it_is_laid_out_and_the_focus_selects_it(
    shown,
):
    answers = shown.stored(10, state="failed")
    selected = []
    shown.presenter.selected.connect(selected.append)
    shown.open(answers[0].conversation)
    assert selected == [answers[-1].id]
    rows = shown.transcript.messages[1::2]
    shown.talk.until(lambda: rows[-1].shown.ending and rows[-1].shown.ending.message)
    assert rows[0].shown.ending.message == ""
    shown.talk.until(lambda: shown.transcript.isActiveWindow())
    shown.presenter.reveal(answers[0].id)
    shown.talk.until(lambda: selected[-1] == answers[0].id)
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


def test_reasoning_is_counted_and_what_an_answer_took_is_told_at_its_end_and_when_opened_again(
    play, tmp_path
):
    events = reasoned("<think>", "so", " it", " is", "</think>", "Yes.", "Yes.")
    go_on, done = tmp_path / "go_on", Done("g", "stop", Stats())
    rest = events_file(tmp_path, [*events[9:], done], name="rest.jsonl")
    shown = play(events[:9], then=f"wait:{go_on} play:{rest} take")
    talk, took = shown.talk, TextTally(3, 4.5)
    talk.conversation.say("go")
    talk.until_told("begun")
    talk.until(lambda: "3 tokens" in shown.transcript.messages[-1].view.toPlainText())
    assert shown.transcript.messages[-1].shown.reasoning is None, "it goes on"
    go_on.touch()
    talk.until_told("saved")
    shown.settle()
    first = shown.transcript.messages[-1]
    told = first.view.toPlainText()
    assert (first.shown.reasoning, "3 tokens" in told) == (took, True)
    assert first.shown.figures == talk.conversation.branch[1].figures
    assert str(first.shown.figures.tokens) in first.widget.figures_line.text()
    talk.until(lambda: talk.conversation.record and not talk.conversation.busy)
    conversation = talk.conversation.record.id
    talk.conversation.new()
    shown.open(conversation)
    talk.until(lambda: shown.transcript.messages[-1].shown.reasoning)
    shown.settle()
    again = shown.transcript.messages[-1]
    assert (again.shown.reasoning, again.shown.figures) == (took, first.shown.figures)
    assert again.view.toPlainText() == told


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
    labels = rows[5].widget.findChildren(QLabel)
    assert rows[5].shown.note in [label.text() for label in labels if not label.isHidden()]
    shown.talk.conversation.edit(question.id, "shorter")
    shown.talk.until(lambda: not shown.talk.conversation.busy)
    assert not any(row.shown.note for row in shown.transcript.messages)


def test_a_call_is_asked_about_until_the_answer_ends_runs_and_is_a_line(play):
    call, tools = ("read_file", '{"path": "a.md"}'), FakeTools(READ)
    steps = called("I look.\n", call), made_trace("All is well."), called("", call)
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
    shown.talk.conversation.say("And now?")
    shown.talk.until(lambda: shown.transcript.messages[3:])
    row = shown.transcript.messages[3]
    shown.talk.until(lambda: row.shown.approval is not None)
    shown.talk.conversation.stop()
    shown.talk.until_told("saved", 2)
    shown.settle()
    assert row.shown.approval is None
    assert row.view.toPlainText() == "▸ read_file a.md, cancelled"
    assert not row.widget.go_on.isHidden()
