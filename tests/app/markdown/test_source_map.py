"""Where characters are: marks for controls, rejected tokens among runs, the map to a document."""

from hypothesis import given
from hypothesis import strategies as st

from app.markdown.page import (
    BlockStyle,
    RejectedSpan,
    SourceMap,
    Style,
    TextLine,
    TextRun,
    shown,
    utf16,
    with_rejected,
)
from models.in_words import clean

PLAIN = Style()


def line(*runs):
    return TextLine(BlockStyle(), runs)


def text_with_rejected(items, rejected):
    placed = with_rejected(items, rejected)
    return [
        "".join(
            f"<{run.text}>" if run.style.role == "rejected" else run.text
            for run in item.runs
            if run.style.role != "label"
        )
        for item in placed
        if isinstance(item, TextLine)
    ]


def test_rejected_tokens_are_behind_what_they_followed():
    marker = Style(role="marker")
    entry = line(TextRun("-", marker, 2, 1), TextRun("\t", marker, 3, 0), TextRun("a", PLAIN, 4, 1))
    for items, rejected, expected in (
        (
            [line(TextRun("abc", PLAIN, 0, 3)), line(TextRun("de", PLAIN, 5, 2))],
            ((0, "v"), (2, "w"), (3, "x"), (4, "y"), (7, "z")),
            ["<v>ab<w>c<x>", "<y>de<z>"],
        ),
        ([TextLine(BlockStyle("rule"), ())], ((0, "a"),), ["", "<a>"]),
        ([], ((9, "a\nb"),), ["<a\u21b5b>"]),
        ([], ((9, ""),), ["<\u2205>"]),
        ([entry], ((1, "x"), (3, "y")), ["-\t<x><y>a"]),
    ):
        spans = [RejectedSpan(*token, number) for number, token in enumerate(rejected)]
        assert text_with_rejected(items, spans) == expected


@given(st.text("ab\n😀", min_size=1, max_size=20), st.lists(st.integers(0, 25), max_size=6))
def test_every_rejected_token_is_placed_once_and_nothing_lost(text, places):
    rows, start = [], 0
    for row in text.split("\n"):
        rows.append(line(TextRun(row, PLAIN, start, len(row))) if row else line())
        start += len(row) + 1
    rejected = [RejectedSpan(place, "x", number) for number, place in enumerate(sorted(places))]
    runs = [
        run
        for item in with_rejected(rows, rejected)
        if isinstance(item, TextLine)
        for run in item.runs
    ]
    assert [run.style.rejected for run in runs if run.style.role == "rejected"] == list(
        range(len(places))
    )
    assert "".join(run.text for run in runs if run.length) == text.replace("\n", "")


@given(st.lists(st.tuples(st.text("a😀é", min_size=1, max_size=5), st.integers(0, 3)), max_size=8))
def test_every_character_is_found(parts):
    spans, document, source = SourceMap(), "", 0
    for text, hidden in parts:
        source += hidden  # marks that are not shown
        spans.append(TextRun(text, PLAIN, source, len(text)), utf16(document))
        for place, character in enumerate(text):
            (found,) = spans.ranges(source + place, source + place + 1)
            start = utf16(document + text[:place])
            assert found == (start, start + utf16(character))
            assert spans.source_at(start) == source + place
        document += text
        source += len(text)
    assert spans.source_at(utf16(document)) is None


def test_what_is_one_for_several_is_found_whole():
    spans = SourceMap()
    spans.append(TextRun("&", PLAIN, 0, 5), 10)
    spans.append(TextRun("a", PLAIN, 5, 1), 11)
    assert spans.ranges(2, 3) == [(10, 11)]
    assert spans.ranges(4, 6) == [(10, 12)]
    assert spans.source_at(10) == 0
    assert [spans.source_before(place) for place in (9, 10, 11, 12, 99)] == [0, 0, 5, 6, 6]
    assert spans.ranges(6, 9) == []
    spans.drop(1)
    assert len(spans) == 1
    assert spans.ranges(0, 9) == [(10, 11)]


@given(st.text())
def test_shown_text_is_neutral_and_whole(text):
    runs = list(shown(text, PLAIN, 3, len(text)))
    assert all(clean(run.text) == run.text for run in runs)
    assert sum(run.length for run in runs) == len(text)
    assert "".join(run.text for run in runs if run.style.role == "text") == clean(text)
