"""What is being done for an answer is found from its own events, whatever is done for others."""

from app.chat.activity import (
    AwaitingModel,
    AwaitingTurn,
    BeingWritten,
    Reading,
    Stopping,
    long_status,
    progress,
    short_status,
    status_of_several,
)
from app.chat.rounds_side import RoundsSide
from engine.events import Prefill

READING = Prefill("", 1920, 5447, 128, 26.0)


def test_the_time_left_follows_the_rate_of_what_was_read():
    assert Reading(128, 5447, 128, 0.0).left_seconds is None, "there is no rate yet"
    reading = progress(READING)
    assert reading.left_seconds == (5447 - 1920) * 26.0 / (1920 - 128)
    assert reading.share == 1920 / 5447
    assert progress(Prefill("", 5447, 5447, 128, 80.0)) == BeingWritten()


def test_the_words_have_the_figures():
    reading = progress(READING)
    assert all(part in long_status(reading) for part in ("1,920", "5,447", "50 s"))
    assert "35%" in short_status(reading)
    assert "3" in long_status(AwaitingTurn(3))
    assert len({long_status(AwaitingTurn(ahead)) for ahead in (None, 0, 1, 2)}) == 4
    assert "40%" in long_status(AwaitingModel(0.4))
    assert status_of_several(()) == ""
    assert status_of_several((BeingWritten(),)) == short_status(BeingWritten())
    several = status_of_several((BeingWritten(), AwaitingTurn(1), BeingWritten(), reading))
    assert [word.split()[0] for word in several.split(", ")] == ["2", "1", "1"]


def ask_in_each(talk, titles):
    """Ask in so many conversations; returns their answers once all are begun."""
    begun = []
    talk.answers.begun.connect(begun.append)
    for number, title in enumerate(titles, start=1):
        talk.conversation.new()
        talk.conversation.say(title)
        talk.until(lambda number=number: len(begun) == number)
    return begun


ALL_AT_ONCE = (
    "ready take load take take take as:2 text:ab as:3 reading:5:20 as:4 waiting:1 waiting:0"
)


def test_each_answer_is_told_of_by_its_own_events(begin, qtbot):
    talk = begin(f"{ALL_AT_ONCE} take rest")
    first, second, third = ask_in_each(talk, ["Summarize this", "And this", "Last"])
    talk.until(lambda: third.activity == AwaitingTurn(0))
    assert first.activity == BeingWritten()
    assert second.activity == Reading(5, 20, 0, 0.1)
    panel = RoundsSide(talk.conversation, talk.answers)
    qtbot.addWidget(panel)
    panel.show_answer(second.message.id)
    assert panel.hint.isVisibleTo(panel)  # there are no figures yet
    assert len(talk.answers.unfinished) == 3
    assert talk.answers.activities() == {
        writing.message.conversation: writing.activity for writing in (first, second, third)
    }


def test_one_that_waits_can_be_stopped_at_once(begin):
    talk = begin(f"{ALL_AT_ONCE} take rest")
    first, second, third = ask_in_each(talk, ["one", "two", "three"])
    talk.until(lambda: third.activity == AwaitingTurn(0))
    changed = []
    talk.answers.activity_changed.connect(changed.append)
    talk.answers.cancel(third.message.id)
    assert (third.state, third.activity) == ("cancelled", None)
    assert changed == [third], "the others go on as they were"
    talk.answers.cancel(second.message.id)
    assert second.activity == Stopping(), "its prompt is being read"
    assert first.activity == BeingWritten()
