"""White space can be seen, and nothing in a token's text can disturb what is around it."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.rounds.marks import marked, runs


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" the", "·the"),
        ("\n\n", "⏎⏎"),
        ("\tx\r\n", "⇥x␍⏎"),
        ("a\u2028b", "a⏎b"),
        ("", "∅"),
        ("\x1b[31m\u202ered", "[31mred"),
        ("é😀", "é😀"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    assert marked(text) == shown


@given(text=st.text() | st.text(" \t\n\r\x00\u202e\u2066\ud800x"))
def test_one_line_without_controls(text: str) -> None:
    shown = marked(text)
    assert shown
    assert len(shown.splitlines()) == 1
    assert not {unicodedata.category(letter) for letter in shown} & {"Cc", "Cs"}
    assert "".join(run for run, _ in runs(text)) == shown


def test_signs_are_told_from_the_same_letters() -> None:
    assert runs(" ·") == [("·", True), ("·", False)]
    assert runs("") == [("∅", True)]
