"""Tokens are counted as the model counts them, in the background; only the last count is sent."""

from pathlib import Path
from threading import Event

import pytest
from PySide6.QtCore import QTimer
from tokenizers import Tokenizer

from app.engine_client.token_counter import AROUND_A_MESSAGE, TokenCounter, load_count
from models.errors import Problem

MODEL = Path(__file__).parents[2] / "data" / "stories260K"


@pytest.fixture
def counter(qtbot):
    """One that waits less than the user would notice."""
    counter = TokenCounter()
    counter.findChild(QTimer).setInterval(20)
    return counter


@pytest.fixture
def counted(counter):
    told = []
    counter.counted.connect(told.append)
    return told


def real(*texts):
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    return sum(
        len(tokenizer.encode(text, add_special_tokens=False).ids) + AROUND_A_MESSAGE
        for text in texts
    )


def test_texts_are_counted_also_while_an_answer_grows(
    qtbot, counter, counted, tmp_path, monkeypatch
):
    counter.use(MODEL)
    counter.count(("Once upon a time", "", "there was"))
    counter.count(("Once upon a time", "", "there was a girl"))
    expected = real("Once upon a time", "there was a girl")
    qtbot.waitUntil(lambda: bool(counted))
    assert counted == [expected], "only the last"
    counter.count(("Once upon a time",))
    qtbot.waitUntil(lambda: len(counted) == 2)
    assert counted[1] == real("Once upon a time")
    monkeypatch.setattr("app.engine_client.token_counter.load_count", lambda _: len)
    counter.use(tmp_path)
    qtbot.waitUntil(lambda: len(counted) == 3)
    assert counted[2] == len("Once upon a time") + AROUND_A_MESSAGE, "as another model counts"
    counted.clear()
    written = 0

    def write():
        # Far more often than the counter waits before it counts the typed text.
        nonlocal written
        written += 1
        counter.count(("Once upon a time",), written=written)
        return len(counted) >= 3

    qtbot.waitUntil(write)
    least = len("Once upon a time") + AROUND_A_MESSAGE
    assert least <= counted[0] < counted[1] < counted[2] <= least + written


def test_a_model_without_a_tokenizer_is_passed_over(qtbot, counter, counted, tmp_path, monkeypatch):
    counter.count(("a",))
    qtbot.wait(50)
    counter.use(tmp_path)
    qtbot.wait(50)
    assert counted == []
    counter.use(MODEL)
    qtbot.waitUntil(lambda: counted == [real("a")])
    with pytest.raises(Problem, match="no tokenizer"):
        load_count(tmp_path)
    looks, other = [], Event()

    def load_later(target):
        looks.append(target)
        return load_count(target) if target == MODEL or other.wait() else None

    monkeypatch.setattr("app.engine_client.token_counter.load_count", load_later)
    counter.use(tmp_path)
    qtbot.waitUntil(lambda: looks == [tmp_path])
    counter.use(MODEL)  # before the other's is read
    timer = counter.findChild(QTimer)
    qtbot.waitUntil(lambda: not timer.isActive())
    other.set()
    qtbot.waitUntil(lambda: len(counted) == 2)
