"""A growing text: the same page however it arrives, every character at its place, bounded work."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversations.think_tags import stretches_in
from app.markdown.page import Item, TextLine, all_runs
from app.markdown.streaming import (
    LONGEST_BLOCK,
    ReadingPlace,
    StreamingMarkdown,
    StreamingPlainText,
)
from engine.stretches import Stretch
from tests.support.app.markdown_texts import cut_places, markdown, reasoning, split
from tests.support.mostly_slow import mostly_slow


def read(pieces, stream):
    """The page of a text that came in pieces, the size of each part, and the place of reading."""
    place, items, sizes = ReadingPlace(), list[Item](), list[int]()
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


@given(markdown | reasoning, cut_places)
def test_a_text_is_the_same_however_it_arrives(text, cuts):
    whole, _, end = read([text], StreamingMarkdown())
    pieces, _, same_end = read(split(text, cuts) or [""], StreamingMarkdown())
    assert pieces == whole
    assert same_end == end


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
        place_in, shown = ReadingPlace(), list[Item]()
        while part := stream.finished(place_in):
            shown += part.items
            place_in = part.next
        shown += stream.tail(place_in)
        thoughts = [item.block.shape for item in shown if item.block.reasoning]
        assert thoughts == ["reasoning", *("text" for _ in thoughts[1:])], text
        assert "#" not in "".join(run.text for run in all_runs(shown))


def test_a_line_that_becomes_something_else():
    for start, rest in (
        ("para\n#", "tag\n"),  # a heading, then none
        ("para\n| a |\n|-", "x\n"),  # a table, then none
        ("para\n| a |\n|-", "|\n"),
        ("para\n-", "--\n"),
        ("- a\n-", "--\n"),
        ("- a\n\n\n ", " b\n"),
        ("> a\n`", "``\ncode\n"),
        ("para\r", "\n\nnext\n\n\n"),
    ):
        whole, _, _ = read([start + rest], StreamingMarkdown())
        assert read([start, rest], StreamingMarkdown())[0] == whole, start


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
@pytest.mark.parametrize(
    ("name", "step"),
    mostly_slow(product(LONG, [83, 997]), quick=[("a fence", 83), *product(LONG, [997])]),
)
def test_long_blocks_are_the_same_however_they_arrive(name, step):
    text = LONG[name][: 4_000 if step == 83 else 9_000]
    whole = read([text], StreamingMarkdown())
    assert (
        read(split(text, list(range(0, len(text), step))), StreamingMarkdown())[::2] == whole[::2]
    )


def test_the_work_for_a_part_and_for_the_tail_is_limited():
    for name, text in ((name, long[: LONGEST_BLOCK + 1_000]) for name, long in LONG.items()):
        items, sizes, end = read([text], StreamingMarkdown())
        assert max(*sizes, len(text) - end.source) <= LONGEST_BLOCK, name
        lines = [len(item.runs) for item in items if isinstance(item, TextLine)]
        assert max(lines, default=0) < LONGEST_BLOCK, name


def test_a_long_line_is_cut_after_a_sentence():
    items, _, _ = read([LONG["sentences"]], StreamingMarkdown())
    assert [(item.block.shape, item.block.joined) for item in items] == [
        *(("text", False), ("text", True), ("text", True))
    ]
    assert all(item.runs[-1].text.endswith(".") for item in items)


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
        assert isinstance(item, TextLine)
        row = "".join(stream.text[run.source : run.end] for run in item.runs)
        if item.block.joined:
            rows[-1] += row
        else:
            rows.append(row)
    assert "\n".join(rows) == stream.text.removesuffix("\n")


@given(st.text("ab\r\n", max_size=30), cut_places)
def test_places_in_the_given_text(text, cuts):
    stream = StreamingMarkdown()
    for piece in split(text, cuts):
        stream.append(piece)
    stream.append("!")  # a last carriage return waited for it
    assert stream.text == (text + "!").replace("\r\n", "\n").replace("\r", "\n")
    for given_place, character in enumerate(text):
        if text[given_place : given_place + 2] != "\r\n":
            place = stream.place_of(given_place)
            assert stream.text[place] == character.replace("\r", "\n")
            assert stream.given_at(place) == given_place


@given(st.lists(st.one_of(st.none(), st.text(), st.text("a\r\n"))))
def test_the_text_is_the_sum_of_its_parts_whenever_it_is_read(parts):
    stream, whole = StreamingPlainText(), ""
    for part in parts:
        if part is not None:
            stream.append(part)
            whole += part
        assert stream.given == whole
        given = whole.removesuffix("\r")  # the last one may be the first half of a line end
        assert stream.text == given.replace("\r\n", "\n").replace("\r", "\n")
