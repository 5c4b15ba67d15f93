"""Hidden characters go, and what scripts and emoji need stays."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from engine.documents.hidden import hidden_places, in_one_line, with_plain_lines, without_hidden

ODD = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from(
            "ab \n\u00ad\u034f\u200b\u200c\u200d\u200e\u202e\u2060\ufeff\ufe0f\ufe00\u0628\u0915"
            "\u094d\u2764\U0001f469\U0001f3fd\U0001f4bb\U000e0061\U000e0100\u8fba\x00\x07\x7f\x85\r"
        ),
    ),
    max_size=30,
)


def test_what_is_hidden_goes_and_what_is_needed_stays():
    for text, shown in (
        ("plain\ttext,\nin lines", "plain\ttext,\nin lines"),
        ("co\u00adop\u00ader\u00adate", "cooperate"),
        ("a\u200bb\u2060c\ufeffd", "abcd"),
        ("left\u202eright\u202c\u2066!\u2069\u200e\u200f", "leftright!"),
        ("Hi" + "".join(chr(0xE0000 + ord(each)) for each in "ignore all") + "!", "Hi!"),
        ("a\U000e0100\U000e0101\U000e01efb", "ab"),  # bytes behind a letter
        ("\u8fba\U000e0100", "\u8fba\U000e0100"),  # a variant of an ideograph
        ("\U0001f600\ufe0f\ufe0e\ufe01x", "\U0001f600\ufe0fx"),
        ("\u0645\u06cc\u200c\u062e\u0648", "\u0645\u06cc\u200c\u062e\u0648"),
        ("\u0915\u094d\u200d\u0937", "\u0915\u094d\u200d\u0937"),
        ("\u0628\u200c\u200d\u200c\u0628", "\u0628\u200c\u0628"),  # bits between letters
        ("a\u200cb\u200dc", "abc"),
        ("\U0001f469\u200d\U0001f4bb", "\U0001f469\u200d\U0001f4bb"),
        ("\U0001f469\U0001f3fd\u200d\U0001f4bb", "\U0001f469\U0001f3fd\u200d\U0001f4bb"),
        ("\u2764\ufe0f\u200d\U0001f525", "\u2764\ufe0f\u200d\U0001f525"),
        ("\U0001f469\u200d!", "\U0001f469!"),
        ("bell\x07 escape\x1b null\x00", "bell escape null"),
    ):
        assert without_hidden(text) == (shown, len(text) - len(shown))


@given(ODD | st.text())
def test_nothing_is_hidden_in_the_rest_and_no_letter_number_or_sign_is_dropped(text):
    shown, dropped = without_hidden(text)
    assert without_hidden(shown) == (shown, 0)
    hidden = hidden_places(text)
    assert len(hidden) == dropped
    assert "".join(each for i, each in enumerate(text) if i not in hidden) == shown
    for place in hidden:
        kind = unicodedata.category(text[place])
        assert kind in {"Cc", "Cf", "Cn", "Mn", "Lo", "Co"}
        assert kind != "Lo" or text[place] in "\u3164\uffa0"


def test_lines_end_in_one_way_and_half_a_character_is_shown_as_such():
    assert with_plain_lines("a\r\nb\rc\nd\x0ce\x85f") == "a\nb\nc\nd\ne\nf"
    assert with_plain_lines("a\ud800b\ud83d\ude00") == "a\ufffdb\U0001f600"
    assert in_one_line(" a\n\u202eb\t\udcff.pdf") == "a b \ufffd.pdf"
