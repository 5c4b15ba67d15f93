"""Asides are at their places, folded, in any order of events; nothing in their texts is active."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QUrl

from app.markdown.asides import Aside, number_of
from app.markdown.copying import fragments
from app.markdown.page import RejectedSpan
from engine.stretches import Stretch
from tests.support.app.markdown_texts import cut_places, markdown, split
from tests.support.app.text_documents import at_once, blocks, content, empty, lines
from tests.support.mostly_slow import examples

CALL = '<tool_call>{"path": "notes.md"}</tool_call>'
ASIDE = Aside(0, "read_file notes.md, 2 kB, 0.1 s", (("Arguments", '{"path": "notes.md"}'),))
reusing = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(40)
)


def answer(*parts):
    """The text, stretches and asides of these parts, with a call between any two of them."""
    text, stretches, asides = parts[0], [Stretch("content", len(parts[0]))], []
    for number, part in enumerate(parts[1:]):
        text += CALL
        asides.append(Aside(len(text), f"read_file {number}", ASIDE.texts))
        text += part
        stretches += [Stretch("call", len(CALL)), Stretch("content", len(part))]
    stretches = tuple(one for one in stretches if one.length)
    return text, {"stretches": stretches, "asides": tuple(asides)}


@reusing
@given(first=markdown, second=markdown, cuts=cut_places, late=st.booleans())
def test_growing_as_at_once(formats, first, second, cuts, late):
    text, given = answer(f"a{first}", "", second)
    whole, asides = at_once(text, formats, **given), given["asides"]
    growing = empty(formats, stretches=given["stretches"])
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
    text, given = answer("Before.", "Between.", "")
    made = at_once(text, formats, **given)
    folded = ["Before.", "▸ read_file 0", "Between.", "▸ read_file 1"]
    assert lines(made) == folded
    for number, opened in (
        (1, [*folded[:3], "▾ read_file 1", "Arguments", ASIDE.texts[0][1]]),
        (1, folded),
        (0, ["Before.", "▾ read_file 0", "Arguments", ASIDE.texts[0][1], *folded[2:]]),
    ):
        made.fold(number_of(number))
        assert lines(made) == opened
        assert len(made.panels()) == (opened != folded)


def test_asides_divide_the_text_in_which_they_are_and_hide_what_was_rejected_in_it(formats):
    text, given = answer("Before.", "After.")
    asides = (*given["asides"], Aside(given["asides"][0].place, "add 1, 2"))
    made = at_once(text, formats, stretches=given["stretches"], asides=asides)
    assert lines(made) == ["Before.", "▸ read_file 0", "▸ add 1, 2", "After."]
    made.set_rejected([RejectedSpan(3, " no", 0), RejectedSpan(20, " never", 1)])
    assert "no" in lines(made)[0]
    assert "never" not in made.document.toPlainText()
    text, given = answer("```py\nx = 1", "- *a", "b*\n")
    made = at_once(text, formats, **given)
    assert lines(made)[1:] == ["x = 1", "▸ read_file 0", "\u2022\t*a", "▸ read_file 1", "b*"]


def test_reasoning_after_an_aside_has_a_header_without_figures(formats):
    text = f"<think>One.</think>{CALL}<think>Two.</think>The end."
    think, call = [Stretch("mark", 7), Stretch("reasoning", 4), Stretch("mark", 8)], len(CALL)
    made = empty(formats, stretches=(*think, Stretch("call", call), *think))
    made.set_asides((Aside(19 + call, "add"),))
    made.append(text)
    made.set_reasoning_figures(tokens=3, seconds=0.5)
    expected = ["▸ Thinking, 3 tokens, 0.5 s", "▸ add", "▸ Thinking", "The end."]
    assert lines(made) == expected
    assert (made.reasoning.start, made.reasoning.end) == (7, 11)


def test_a_text_is_shown_as_it_is_by_its_lines(formats):
    nasty = "\u202eevil\r\n\r\n\x1b[31m\r<b>bold</b> ![x](https://a.b/c.png) [l](https://d.e)\r\n"
    aside = Aside(0, f"read {nasty}\nmore", (("Result", nasty),))
    made = at_once("", formats, asides=(aside,))
    made.fold(number_of(0))
    assert lines(made)[2:] == ["[U+202E]evil", "[U+001B][31m", nasty.splitlines()[-1]]
    parts = (part for block in blocks(made.document) for part in fragments(block))
    links = [part.charFormat().anchorHref() for part in parts]
    assert {link for link in links if link} == {f"fold:{number_of(0)}"}
    assert made.code(next(iter(made.panels()))) == nasty


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
