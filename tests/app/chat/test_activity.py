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

READING = (Prefill("", 128, 5447, 128, 0.0), Prefill("", 1920, 5447, 128, 26.0))


def test_the_time_left_follows_the_rate_of_what_was_read():
    assert Reading(128, 5447, 128, 0.0).left_seconds is None, "there is no rate yet"
    reading = progress(READING[1])
    assert isinstance(reading, Reading)
    assert reading.left_seconds == (5447 - 1920) * 26.0 / (1920 - 128)
    assert reading.share == 1920 / 5447
    assert progress(Prefill("", 5447, 5447, 128, 80.0)) == BeingWritten()


def test_the_words_have_the_figures():
    line = long_status(progress(READING[1]))
    assert all(part in line for part in ("1,920", "5,447", "50 s"))
    assert "35%" in short_status(progress(READING[1]))
    assert "3" in long_status(AwaitingTurn(3))
    assert len({long_status(AwaitingTurn(ahead)) for ahead in (None, 0, 1, 2)}) == 4
    assert "40%" in long_status(AwaitingModel(0.4))


def test_several_are_told_in_a_few_words():
    assert status_of_several(()) == ""
    assert status_of_several((BeingWritten(),)) == short_status(BeingWritten())
    doing = (BeingWritten(), AwaitingTurn(1), BeingWritten(), progress(READING[1]))
    several = status_of_several(doing)
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


def test_an_engine_that_does_not_say_who_waits_is_waited_for(begin):
    talk = begin("ready take load take text:ab take rest")
    first, second = ask_in_each(talk, ["one", "two"])
    talk.until(lambda: first.activity == BeingWritten())
    assert second.activity == AwaitingTurn()


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


def test_until_there_is_a_model_it_is_waited_for(begin):
    talk = begin("ready take load serve")
    seen = []
    talk.answers.activity_changed.connect(lambda writing: seen.append(writing.activity))
    talk.answers.hold()
    talk.conversation.say("hello")
    talk.until_told("begun")
    assert seen == [AwaitingModel()]
    talk.answers.release()
    talk.until_told("saved")
    assert seen[-2:] == [BeingWritten(), None]
    assert talk.answers.activities() == {}
