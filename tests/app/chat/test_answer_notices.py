"""Notices on the answer in sight come once, and leave when they no longer hold."""

import pytest

from app.chat.answer_notices import AnswerNotices
from app.notices import Notice, Notices
from engine.events import Done, Prefill, Span, Stats, Text, Verdict, WrittenToken
from tests.support.app.window_maker import events_file


def answer(ids):
    """An answer of these tokens, without its end."""
    events = [Prefill("g", 5, 5, 0, 0.1)]
    for number, id in enumerate(ids, start=1):
        own = WrittenToken(id, "x", 0.5, "plain")
        events.append(Verdict("g", number, 0, (), own, 0.0, 0.01, 0.01, "plain"))
        events.append(Text("g", "x", (Span(number, 0, 1),)))
    return events


@pytest.mark.parametrize(
    ("ids", "loops", "pressed"),
    [([1, 2, 3] * 40, True, True), ([1, 2] * 60, True, False), (range(120), False, False)],
)
def test_a_loop_is_told_while_it_is_written(begin, qtbot, tmp_path, ids, loops, pressed):
    file = events_file(tmp_path, [*answer(ids), Done("g", "stop", Stats())])
    talk = begin(f"ready take load take play:{file} take")
    notices = Notices()
    qtbot.addWidget(notices)
    told = []  # after so many tokens

    def watch(writing, happening):
        if notices.texts and (pressed or not told):
            told.append(len(writing.text))
            stop, go_on = notices.findChildren(Notice)[0].buttons
            assert (stop.text(), go_on.text()) == ("Stop", "Continue")
            if pressed:
                go_on.click()
                assert notices.texts == {}

    AnswerNotices(talk.conversation, talk.answers, notices)
    talk.answers.happened.connect(watch)
    talk.ask("go")
    assert len(told) == loops
    assert not told or 50 < told[0] < 100
    assert notices.texts == {}, "it leaves with the answer"


@pytest.mark.parametrize(
    ("gap", "told"),
    [((0, 0, 0), ""), ((3, 12, 8192), "12 messages in"), ((3, 1, 8192), "1 message in")],
)
def test_messages_that_are_not_read_are_told_once(begin, qtbot, tmp_path, monkeypatch, gap, told):
    prefills = [Prefill("g", read, 5, 0, 0.1, *gap) for read in range(6)]
    file = events_file(tmp_path, prefills)
    talk = begin(f"ready take load take part:6:{file} text:one done take")
    notices = Notices()
    qtbot.addWidget(notices)
    AnswerNotices(talk.conversation, talk.answers, notices)
    said = []
    say = notices.say
    monkeypatch.setattr(notices, "say", lambda matter, text: (said.append(text), say(matter, text)))
    talk.ask("go")
    assert len(said) == len(notices.texts) == bool(told)
    assert all(told in text and "8,192" in text for text in said)
    talk.conversation.new()
    assert notices.texts == {}


AGAIN = {
    "a question": lambda open, place: open.edit(open.branch[place].id, "other"),
    "an answer": lambda open, place: open.edit_answer(open.branch[place].id, "other"),
    "an answer, written again": lambda open, place: open.regenerate(open.branch[place].id),
}


@pytest.mark.parametrize(
    ("what", "place", "hidden"),
    [
        ("an answer", 1, "The 2 later messages belong to the earlier version."),
        ("a question", 0, "The 3 later messages belong to the earlier version."),
        ("a question", 2, None),  # only its own answer
        ("an answer, written again", 3, None),
    ],
)
def test_what_another_version_hides_is_said_and_can_be_shown(begin, qtbot, what, place, hidden):
    talk = begin("ready take load serve")
    notices = Notices()
    qtbot.addWidget(notices)
    open = talk.conversation
    AnswerNotices(open, talk.answers, notices)
    talk.ask("one")
    talk.ask("two")
    before = [message.id for message in open.branch]
    AGAIN[what](open, place)
    talk.until(lambda: open.branch[place].id != before[place] and not open.busy)
    assert notices.texts.get("hidden") == hidden
    if hidden is None:
        return
    talk.ask("more")
    assert "hidden" in notices.texts, "it still holds"
    notices.press("hidden")
    talk.until(lambda: [message.id for message in open.branch] == before)
    open.switch(before[place], 2)
    talk.until(lambda: open.branch[place].id != before[place])
    assert "hidden" not in notices.texts, "that is what was asked for"
