"""What is being done for an answer is found from events and from the order of the answers."""

from pathlib import Path

from app.chat.activity import (
    AwaitingModel,
    AwaitingTurn,
    BeingWritten,
    Reading,
    in_a_line,
    in_a_word,
    progress,
)
from app.chat.answers import Writing
from engine.events import Prefill, Text
from tests.support.app.talk import Begin, Talk
from tests.support.app.window_maker import events_file

READING = (Prefill("", 128, 5447, 128, 0.0), Prefill("", 1920, 5447, 128, 26.0))


def test_the_time_left_follows_the_rate_of_what_was_read() -> None:
    assert Reading(128, 5447, 128, 0.0).left_seconds is None, "there is no rate yet"
    reading = progress(READING[1])
    assert isinstance(reading, Reading)
    assert reading.left_seconds == (5447 - 1920) * 26.0 / (1920 - 128)
    assert reading.share == 1920 / 5447
    assert progress(Prefill("", 5447, 5447, 128, 80.0)) == BeingWritten()


def test_the_words_have_the_figures() -> None:
    line = in_a_line(progress(READING[1]))
    assert all(part in line for part in ("1,920", "5,447", "50 s"))
    assert "35%" in in_a_word(progress(READING[1]))
    assert "\u201cA\nB\u201d".replace("\n", " ") in in_a_line(AwaitingTurn(("A\nB",)))
    three = in_a_line(AwaitingTurn(("x" * 90, "B", "C")))
    assert "2 more" in three
    assert len(three) < 80
    assert "40%" in in_a_line(AwaitingModel(0.4))


def wait_for_turns(talk: Talk, titles: list[str]) -> list[Writing]:
    """Ask in so many conversations; returns their answers once all are begun."""
    begun: list[Writing] = []
    talk.answers.begun.connect(begun.append)
    for number, title in enumerate(titles, start=1):
        talk.conversation.new()
        talk.conversation.say(title)
        talk.until(lambda number=number: len(begun) == number)
    return begun


def test_answers_wait_for_each_other_by_name(begin: Begin, tmp_path: Path) -> None:
    path = events_file(tmp_path, [*READING, Text("", "all")])
    talk = begin(f"ready take load take part:2:{path} take hang")
    first, second, third = wait_for_turns(talk, ["Summarize this", "And this", "Last"])
    talk.until(lambda: first.activity == progress(READING[1]))
    assert second.activity == AwaitingTurn(("Summarize this",))
    assert third.activity == AwaitingTurn(("Summarize this", "And this"))
    assert talk.answers.current is first
    assert talk.answers.activities() == {
        writing.message.conversation: writing.activity for writing in (first, second, third)
    }


def test_one_that_waits_can_be_stopped_at_once(begin: Begin, tmp_path: Path) -> None:
    path = events_file(tmp_path, READING)
    talk = begin(f"ready take load take part:2:{path} take hang")
    first, second, third = wait_for_turns(talk, ["one", "two", "three"])
    changed: list[Writing] = []
    talk.answers.activity_changed.connect(changed.append)
    talk.answers.cancel(second.message.id)
    assert (second.state, second.activity) == ("cancelled", None)
    assert third.activity == AwaitingTurn(("one",))
    assert changed == [second, third]
    assert first.state == "streaming"


def test_until_there_is_a_model_it_is_waited_for(begin: Begin) -> None:
    talk = begin("ready take load serve")
    seen: list[object] = []
    talk.answers.activity_changed.connect(lambda writing: seen.append(writing.activity))
    talk.answers.hold()
    talk.conversation.say("hello")
    talk.until_told("begun")
    assert seen == [AwaitingModel()]
    talk.answers.release()
    talk.until_told("saved")
    assert seen[-2:] == [BeingWritten(), None]
    assert talk.answers.activities() == {}
