"""Asides are at their places, folded, in any order of events; nothing in their texts is active."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QUrl
from PySide6.QtGui import QTextDocument

from app.markdown.asides import Aside, number_of
from app.markdown.copying import fragments
from app.markdown.document import TextDocument
from app.markdown.page import RejectedSpan
from app.markdown.streaming import StreamingMarkdown
from engine.stretches import Stretch
from tests.support.app.markdown_texts import cut_places, markdown, split
from tests.support.mostly_slow import examples

CALL = '<tool_call>{"path": "notes.md"}</tool_call>'
ASIDE = Aside(0, "read_file notes.md, 2 kB, 0.1 s", (("Arguments", '{"path": "notes.md"}'),))
reusing = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(40)
)


def answer(*parts):
    """An answer of these parts, with a call and an aside between any two of them."""
    text, stretches, asides = parts[0], [Stretch("content", len(parts[0]))], list[Aside]()
    for number, part in enumerate(parts[1:]):
        text += CALL
        asides.append(Aside(len(text), f"read_file {number}", ASIDE.texts))
        text += part
        stretches += [Stretch("call", len(CALL)), Stretch("content", len(part))]
    return text, tuple(one for one in stretches if one.length), tuple(asides)


def at_once(formats, text, stretches, asides):
    made = TextDocument(QTextDocument(), formats, StreamingMarkdown())
    made.set_stretches(stretches)
    made.set_asides(asides)
    made.append(text)
    made.settle()
    return made


def content(document):
    found, block = list[tuple[object, ...]](), document.begin()
    while block.isValid():
        parts = [(part.text(), part.charFormat()) for part in fragments(block)]
        found.append((block.blockFormat(), parts))
        block = block.next()
    return found


def lines(made):
    return [line for line in made.document.toPlainText().split("\n") if line]


@reusing
@given(first=markdown, second=markdown, cuts=cut_places, late=st.booleans())
def test_growing_as_at_once(formats, first, second, cuts, late):
    text, stretches, asides = answer(f"a{first}", "", second)
    whole = at_once(formats, text, stretches, asides)
    growing = TextDocument(QTextDocument(), formats, StreamingMarkdown())
    growing.set_stretches(stretches)
    for piece in split(text, cuts):
        growing.append(piece)
        if not late:
            here = [one for one in asides if one.place <= len(growing.given)]
            growing.set_asides(tuple(Aside(one.place, "runs") for one in here))
        growing.settle()
    growing.set_asides(asides)
    growing.settle()
    assert content(growing.document) == content(whole.document)
    assert growing.given == text
    for place in range(len(text)):
        assert growing.ranges(place, place + 1) == whole.ranges(place, place + 1)


def test_a_call_is_a_line_in_its_place_that_unfolds(formats):
    made = at_once(formats, *answer("Before.", "Between.", ""))
    folded = ["Before.", "▸ read_file 0", "Between.", "▸ read_file 1"]
    assert lines(made) == folded
    for number, opened in (
        (1, [*folded[:3], "▾ read_file 1", "Arguments", ASIDE.texts[0][1]]),
        (1, folded),
        (0, ["Before.", "▾ read_file 0", "Arguments", ASIDE.texts[0][1], *folded[2:]]),
    ):
        made.fold(number_of(number))
        made.settle()
        assert lines(made) == opened
        assert len(made.panels()) == (opened != folded)


def test_asides_divide_the_text_in_which_they_are(formats):
    text, stretches, asides = answer("Before.", "After.")
    made = at_once(formats, text, stretches, (*asides, Aside(asides[0].place, "add 1, 2")))
    assert lines(made) == ["Before.", "▸ read_file 0", "▸ add 1, 2", "After."]
    made = at_once(formats, *answer("```py\nx = 1", "- *a", "b*\n"))
    assert lines(made)[1:] == ["x = 1", "▸ read_file 0", "\u2022\t*a", "▸ read_file 1", "b*"]


def test_reasoning_behind_an_aside_has_a_header_without_figures(formats):
    text = f"<think>One.</think>{CALL}<think>Two.</think>The end."
    think, call = [Stretch("mark", 7), Stretch("reasoning", 4), Stretch("mark", 8)], len(CALL)
    made = TextDocument(QTextDocument(), formats, StreamingMarkdown())
    made.set_stretches((*think, Stretch("call", call), *think))
    made.set_asides((Aside(19 + call, "add"),))
    made.append(text)
    made.set_reasoning_figures(tokens=3, seconds=0.5)
    made.settle()
    expected = ["▸ Thinking, 3 tokens, 0.5 s", "▸ add", "▸ Thinking", "The end."]
    assert lines(made) == expected
    assert (made.reasoning.start, made.reasoning.end) == (7, 11)


def test_rejected_tokens_of_a_call_are_not_shown(formats):
    text, stretches, asides = answer("Before.", "After.")
    made = at_once(formats, text, stretches, asides)
    made.set_rejected([RejectedSpan(3, " no", 0), RejectedSpan(20, " never", 1)])
    made.settle()
    assert "no" in lines(made)[0]
    assert "never" not in made.document.toPlainText()


@pytest.mark.parametrize(
    "nasty", ["\u202eevil", "\x1b[31m", "<b>bold</b> ![x](https://a.b/c.png) [l](https://d.e)"]
)
def test_a_text_is_shown_as_it_is(formats, nasty):
    aside = Aside(0, f"read {nasty}\nmore", (("Result", nasty),))
    made = at_once(formats, "", (), (aside,))
    made.fold(number_of(0))
    made.settle()
    links, block = [], made.document.begin()
    while block.isValid():
        links += [part.charFormat().anchorHref() for part in fragments(block)]
        block = block.next()
    assert {link for link in links if link} == {f"fold:{number_of(0)}"}
    assert not {"\u202e", "\x1b"} & set(made.document.toPlainText())
    assert made.code(next(iter(made.panels()))) == nasty


def test_lines_of_a_text_may_end_as_on_any_system(formats):
    made = at_once(formats, "", (), (Aside(0, "read", (("Result", "one\r\n\r\ntwo\rthree\r\n"),)),))
    made.fold(number_of(0))
    made.settle()
    assert lines(made)[2:] == ["one", "two", "three"]


def test_a_long_text_is_shown_up_to_a_link_to_all_of_it(formats, show):
    long = "\n".join(f"line {number}" for number in range(500))
    view = show("")
    asked = []
    view.aside_asked.connect(asked.append)
    view.link_asked.connect(asked.append)
    view.text.set_asides((Aside(0, "read", (("Result", long), ("Other", "x" * 5000))),))
    view.text.fold(number_of(0))
    while view.step():
        pass
    assert view.document().blockCount() < 40
    view.anchorClicked.emit(QUrl("aside:0"))
    assert asked == [0]
    assert sorted(view.text.code(panel) for panel in view.text.panels()) == [long, "x" * 5000]
