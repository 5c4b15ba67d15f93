"""Announcements: sentences, not tokens, and nothing twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QWidget

from app.chat.announce import LONGEST, Announcer


def said(pieces):
    heard = []
    announcer = Announcer(QWidget(), heard.append)
    for piece in pieces:
        announcer.append(piece)
    announcer.finish()
    return heard


def test_sentences(qtbot):
    heard = []
    widget = QWidget()
    qtbot.addWidget(widget)
    announcer = Announcer(widget, heard.append)
    for token in ["It ", "is", " 3.5", " **pounds**", ". And", " so"]:
        announcer.append(token)
    assert heard == ["It is 3.5 pounds ."]
    announcer.append(" on!\n- a\n\n---\n")
    assert heard[1:] == ["And so on!", "- a"]
    announcer.finish()
    assert len(heard) == 3


def test_the_rest_is_said_at_the_end(qtbot):
    assert said(["no ", "end\u202e"]) == ["no end"]
    assert said([]) == []


def test_long_sentences_in_parts(qtbot):
    heard = said(["word " * 300])
    assert " ".join(heard) == " ".join(["word"] * 300)
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
