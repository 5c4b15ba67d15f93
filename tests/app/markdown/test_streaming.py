"""A growing text: bounded work, every character at its place, rejected tokens among its runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversations.think_tags import stretches_in
from app.markdown.page import (
    BlockStyle,
    RejectedSpan,
    SourceMap,
    Style,
    TextLine,
    TextRun,
    all_runs,
    shown,
    with_rejected,
)
from app.markdown.streaming import (
    LONGEST_BLOCK,
    ReadingPlace,
    StreamingMarkdown,
    StreamingPlainText,
)
from engine.stretches import Stretch
from models.in_words import clean
from tests.support.app.markdown_texts import cut_places, markdown, split


def read(pieces, stream):
    """The page of a text that came in pieces, the size of each part, and the place of reading."""
    place, items, sizes = ReadingPlace(), [], []
    stream.set_stretches(stretches_in("".join(pieces)))
    for piece in pieces:
        stream.append(piece)
        if stream.reread() is not None:
            place = ReadingPlace()
            items.clear()
        while part := stream.finished(place):
            assert part.next.source > place.source or part.next.reasoning != place.reasoning
            assert len(part.items) <= LONGEST_BLOCK // 2
            sizes.append(part.next.source - place.source)
            items += part.items
            place = part.next
        tail = stream.tail(place)
    return [*items, *tail], sizes, place


def test_reasoning_is_told_from_the_answer():
    mark, thought = Stretch("mark", 2), Stretch("reasoning", 1)
    for text, stretches, place, closed, answer in (
        ("##a##b", (mark, thought, mark), (2, 3), True, "b"),
        ("a##b", (thought, mark), (0, 1), True, "b"),
        ("a\r\n##b\r\n", (Stretch("reasoning", 3), mark), (0, 3), True, "b\r\n"),
        ("##a", (mark, thought), (2, 3), False, ""),
        ("##a##a##b", (mark, thought) * 2 + (mark,), (2, 6), True, "b"),
        ("b##a##", (Stretch("content", 1), mark, thought, mark), (3, 4), True, "b"),
    ):
        stream = StreamingMarkdown()
        stream.set_stretches(stretches)
        stream.append(text)
        span = stream.reasoning
        assert span is not None, text
        assert ((span.start, span.end), span.closed, stream.answer) == (place, closed, answer)
        place_in, shown = ReadingPlace(), []
        while part := stream.finished(place_in):
            shown += part.items
            place_in = part.next
        shown += stream.tail(place_in)
        thoughts = [item.block.shape for item in shown if item.block.reasoning]
        assert thoughts == ["reasoning", *("text" for _ in thoughts[1:])], text
        assert "#" not in "".join(run.text for run in all_runs(shown))


LONG = {
    "one line": "a" * 15_000,
    "words": "word **bold** " * 900,
    "sentences": "It is **bold**, or 3.14 of it. " * 450,
    "a list": "- an item of a list, *long*\n" * 450,
    "a loose list": "1. an item\n\n   and more\n\n" * 300,
    "nested": "\n".join("  " * (n % 9) + "- x" for n in range(900)),
    "a fence": "```py\n" + "x = 1  # y\n" * 600 + "```\nend\n",
    "a fence of one line": "```\n" + "x" * 13_000 + "\n```\n",
    "a table": "|a|b|\n|-|-|\n" + "|1|2|\n" * 900,
    "quotes": "> > quoted\n" * 600,
    "an empty quote above": ">\n\n" + "a" * 9_000,
    "quotes too deep": "> " * 30 + "x\n> y\n" * 1_100,
    "headings": "# h\n" * 900,
    "marks": "*a_ [" * 1_500,
    "lists on a line": "- " * 4_000 + "x",
}


@pytest.mark.quick(4)
@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("step", [997, 83])
def test_long_blocks_are_the_same_however_they_arrive(name, step):
    text = LONG[name][: 4_000 if step == 83 else 9_000]
    whole = read([text], StreamingMarkdown())
    assert (
        read(split(text, list(range(0, len(text), step))), StreamingMarkdown())[::2] == whole[::2]
    )


def test_the_work_for_a_part_and_the_tail_is_limited_and_a_line_is_cut_after_a_sentence():
    for name, text in ((name, long[: LONGEST_BLOCK + 200]) for name, long in LONG.items()):
        items, sizes, end = read([text], StreamingMarkdown())
        assert max(*sizes, len(text) - end.source) <= LONGEST_BLOCK, name
        lines = [len(item.runs) for item in items if isinstance(item, TextLine)]
        assert max(lines, default=0) < LONGEST_BLOCK, name
    items, _, _ = read([LONG["sentences"]], StreamingMarkdown())
    assert [(item.block.shape, item.block.joined) for item in items] == [
        *(("text", False), ("text", True), ("text", True))
    ]
    assert all(item.runs[-1].text.endswith(".") for item in items)
    items, _, _ = read(["word salad again " * 700], StreamingPlainText())
    ends = {item.runs[-1].text[-1] for item in items}
    assert (len(items) > 2, ends) == (True, {" "}), "or between words"


@given(markdown)
def test_runs_are_in_order_exact_and_without_control_characters(text):
    stream = StreamingMarkdown()
    items, _, _ = read([text], stream)
    end = 0
    for run in all_runs(items):
        assert run.source >= end or not run.length
        assert run.end <= len(stream.text)
        end = max(end, run.end)
        if run.style.role == "text" and run.exact and run.text != "\u2028":
            written = stream.text[run.source : run.end]
            # A code span's line end is a space.
            assert run.text == (written.replace("\n", " ") if run.style.code else written)
        for character in run.text:
            assert character in "\t\u2028" or character.isprintable() or ord(character) > 0x9F
            assert not 0x202A <= ord(character) <= 0x202E
            assert not 0xD800 <= ord(character) <= 0xDFFF


@given(st.text(), cut_places)
def test_plain_text_is_shown_as_it_is(text, cuts):
    stream = StreamingPlainText()
    items, _, _ = read(split(text, cuts) or [""], stream)
    rows = []
    for item in items:
        row = "".join(stream.text[run.source : run.end] for run in item.runs)
        if item.block.joined:
            rows[-1] += row
        else:
            rows.append(row)
    assert "\n".join(rows) == stream.text.removesuffix("\n")


@given(st.text("ab\r\n", max_size=30), cut_places)
def test_places_in_the_given_text_which_is_the_sum_of_its_parts_whenever_it_is_read(text, cuts):
    stream, whole = StreamingMarkdown(), ""
    for piece in split(text, cuts):
        stream.append(piece)
        whole += piece
        assert stream.given == whole
        if len(piece) % 2:  # the last one may be the first half of a line end
            read = whole.removesuffix("\r")
            assert stream.text == read.replace("\r\n", "\n").replace("\r", "\n")
    stream.append("!")  # a last carriage return waited for it
    assert stream.text == (text + "!").replace("\r\n", "\n").replace("\r", "\n")
    for given_place, character in enumerate(text):
        if text[given_place : given_place + 2] != "\r\n":
            place = stream.place_of(given_place)
            assert stream.text[place] == character.replace("\r", "\n")
            assert stream.given_at(place) == given_place


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


def test_rejected_tokens_are_after_what_they_followed():
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


@given(st.text(st.characters()))  # halves of characters, too
def test_shown_text_is_neutral_and_whole(text):
    runs = list(shown(text, PLAIN, 3, len(text)))
    assert all(clean(run.text) == run.text for run in runs)
    assert sum(run.length for run in runs) == len(text)
    assert "".join(run.text for run in runs if run.style.role == "text") == clean(text)
