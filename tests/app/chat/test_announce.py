"""Announcements: sentences, not tokens, and nothing twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QWidget

from app.chat.announce import LONGEST, Announcer


def test_sentences_are_said_when_they_end_long_ones_in_parts_and_the_rest_at_the_end():
    heard = []
    announcer = Announcer(None, heard.append)
    for token in ["It ", "is", " 3.5", " **pounds**", ". And", " so"]:
        announcer.append(token)
    assert heard == ["It is 3.5 pounds ."]
    announcer.append(" on!\n- a\n\n---\n")
    assert heard[1:] == ["And so on!", "- a"]
    announcer.append("word " * 300)
    announcer.append("\u202eend")
    announcer.finish()
    assert " ".join(heard[3:]) == " ".join(["word"] * 300) + " end"
    assert max(map(len, heard)) <= LONGEST


@given(st.text("ab. !\n\u3002*", max_size=60), st.integers(1, 9))
def test_however_it_arrives(text, step):
    once = []
    pieces = []
    for heard, size in ((once, len(text) or 1), (pieces, step)):
        announcer = Announcer(None, heard.append)
        for start in range(0, len(text), size):
            announcer.append(text[start : start + size])
        announcer.finish()
    assert "".join(once).replace(" ", "") == "".join(pieces).replace(" ", "")


@pytest.mark.parametrize("listening", [True, False])
def test_it_is_announced_politely(qtbot, monkeypatch, listening):
    widget = QWidget()
    qtbot.addWidget(widget)
    heard = []

    def hear(event):
        heard.append((event.object(), event.message(), event.politeness()))

    monkeypatch.setattr(QAccessible, "updateAccessibility", hear)
    monkeypatch.setattr(QAccessible, "isActive", lambda: listening)
    Announcer(widget).append("A sentence. And")
    polite = QAccessible.AnnouncementPoliteness.Polite
    assert heard == ([(widget, "A sentence.", polite)] if listening else [])
