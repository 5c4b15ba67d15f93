"""The engine killed in mid-stream, and a disk that is full, as the user sees it."""

import os
import random
import signal
import subprocess
import sys

import pytest

from app.conversations.store import Store
from tests.app.conversations.test_full_disk import fill, remount, small_disk
from tests.support.app.long_texts import made_text
from tests.support.app.window_maker import make_window
from tests.support.app.window_use import let_go

__all__ = ["small_disk"]  # a fixture

CHARACTERS, SPEED = 2000, 1000
TEXT = made_text(CHARACTERS)
ENDLESS = (
    150 * CHARACTERS
)  # minutes: however slow the machine is, the engine is killed in mid-answer
ENDLESS_TEXT = made_text(ENDLESS)


@pytest.fixture
def folder(tmp_path):
    return tmp_path


@pytest.fixture
def characters():
    return CHARACTERS


@pytest.fixture
def window(plain_application, folder, characters, until):
    play = ("-m", "tests.support.app.streaming_host", str(characters), str(SPEED))
    window = make_window(plain_application, folder, (sys.executable, *play))
    window.show()
    window.begin()
    until(lambda: window.loader.loaded)
    yield window
    window.close()
    let_go(window.application, window)


def ask(window, text):
    window.composer.set_text(text)
    window.composer.send()


def written(window, characters):
    writing = window.conversation.writing
    return writing is not None and len(writing.text) > characters


def kill_engine(window, until, *, noise):
    """Kill it in mid-answer; all of the answer that there was is in the store."""
    ask(window, "Tell me.")
    least = noise.randrange(0, CHARACTERS // 2)
    until(lambda: written(window, least))
    os.kill(window.engine.pid, signal.SIGKILL)
    until(lambda: not window.answers.busy)
    answer = window.conversation.branch[-1]
    until(lambda: window.answers.writing(answer.id) is None)
    kept = window.store.message(answer.id).result()
    window.transcript.write_all()
    assert kept.state == "failed"
    assert kept.content == window.transcript.messages[-1].written
    assert len(kept.content) > least
    assert ENDLESS_TEXT.startswith(kept.content)
    until(lambda: window.loader.loaded)


def stop_an_answer(window, until):
    """One that goes well: it shows that the engine is back."""
    ask(window, "Again.")
    until(lambda: written(window, 20))
    window.conversation.stop()
    until(lambda: not window.answers.busy)
    answer = window.conversation.branch[-1]
    until(lambda: window.answers.writing(answer.id) is None)
    assert window.store.message(answer.id).result().state == "cancelled"


@pytest.mark.parametrize("characters", [ENDLESS])
def test_killed_engines_cost_nothing_that_was_written(window, until):
    noise = random.Random()
    for _ in range(2):
        kill_engine(window, until, noise=noise)
        stop_an_answer(window, until)
    assert len(window.conversation.branch) == 8


class TestFullDisk:
    """A disk of 1 MB."""

    @pytest.fixture
    def folder(self, small_disk):
        return small_disk

    def test_what_cannot_be_stored_goes_back_into_the_composer(self, window, until, folder):
        ballast = fill(folder)
        long = "precious " * 3000
        ask(window, long)
        until(lambda: "problem" in window.notices.texts)
        assert "disk is full" in window.notices.texts["problem"]
        assert "Free some space" in window.notices.texts["problem"]
        assert window.composer.text == long
        assert window.transcript.messages == ()
        ballast.unlink()
        window.composer.send()
        until(lambda: written(window, 20))
        assert window.conversation.branch[0].content == long
        window.conversation.stop()
        until(lambda: not window.answers.busy)

    def test_an_answer_is_kept_until_there_is_room(self, window, until, folder):
        ask(window, "Tell me.")
        until(lambda: written(window, 20))
        ballast = fill(folder)
        until(lambda: "disk" in window.notices.texts)
        assert "disk is full" in window.notices.texts["disk"]
        until(lambda: not window.answers.busy)
        answer = window.conversation.branch[-1]
        window.transcript.write_all()
        assert window.transcript.messages[-1].written == TEXT
        assert window.answers.writing(answer.id) is not None
        ballast.unlink()
        remount(folder, "size=16m")
        until(lambda: window.answers.writing(answer.id) is None)
        assert window.store.message(answer.id).result().content == TEXT
        assert "disk" not in window.notices.texts

    def test_closed_while_it_is_full_what_was_saved_is_there(self, window, until, folder):
        ask(window, "Tell me.")
        until(lambda: written(window, 20))
        writing = window.conversation.writing
        window.answers.flush()
        until(lambda: writing.saved)
        saved = window.store.message(writing.message.id).result().content
        ballast = fill(folder)
        window.close()
        window.answers.flush()  # as a timer may that was about to
        ballast.unlink()
        with Store.open(folder / "conversations.sqlite") as store:
            assert store.notice is None
            (conversation,) = store.conversations().result()
            question, answer = store.branch(conversation.id).result()
        assert question.content == "Tell me."
        assert answer.state == "interrupted"
        assert answer.content.startswith(saved) != (saved == "")
        assert subprocess.run(["mountpoint", "-q", str(folder)]).returncode == 0
