"""White space can be seen, and nothing in a token's text can disturb its surroundings."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from app.rounds.marks import marked


def test_what_is_shown():
    table = {
        " the": "·the",
        "\n\n": "⏎⏎",
        "\tx\r\n": "⇥x␍⏎",
        "a\u2028b": "a⏎b",
        "": "∅",
        "\x1b[31m\u202ered": "[31mred",
        "é😀": "é😀",
    }
    assert {text: marked(text) for text in table} == table


@given(text=st.text() | st.text(" \t\n\r\x00\u202e\u2066\ud800x"))
def test_one_line_without_controls(text):
    shown = marked(text)
    assert shown
    assert len(shown.splitlines()) == 1
    assert not {unicodedata.category(letter) for letter in shown} & {"Cc", "Cs"}
