"""Text in a Qt document: formats of each construct, growing as at once, copying, places; asides in
their places, folded, with nothing active in their texts."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QTextCursor

from app.markdown.asides import Aside, number_of
from app.markdown.copying import fragments, written_text
from app.markdown.document import REASONING
from app.markdown.formats import PANEL, ROLE, SHAPE, Formats
from app.markdown.page import RejectedSpan
from app.theme.palette import DARK, LIGHT
from engine.stretches import Stretch
from tests.support.app.markdown_texts import cut_places, markdown, reasoning, split
from tests.support.app.text_documents import at_once, blocks, content, empty, grown, lines, write
from tests.support.mostly_slow import examples

reusing = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60)
)


def test_a_page_has_its_lines_and_each_construct_its_format(show):
    view = show(
        "# big\n\nplain **bold** *it* ~~gone~~ `code`\nline\n\n- a\n- b\n\n> q\n\n"
        "```py\nx = 1\n```\n\n|c|d|\n|-|-|\n|[link](https://b.c)|2|\n"
    )
    document = view.document()
    assert view.toPlainText().split("\n") == [
        *("big", "plain bold it gone code", "line", "\u2022\ta", "\u2022\tb", "q", "py", "x = 1"),
        *("c", "d", "link", "2", ""),
    ]
    fonts = {
        text: document.find(text).charFormat().font()
        for text in ("big", "plain", "bold", "it", "gone", "code")
    }
    assert fonts["bold"].bold()
    assert fonts["it"].italic()
    assert fonts["gone"].strikeOut()
    assert fonts["code"].fixedPitch() or fonts["code"].family() != fonts["plain"].family()
    assert fonts["big"].pointSizeF() > fonts["plain"].pointSizeF()
    assert not fonts["plain"].bold()
    link = document.find("link")
    assert (link.charFormat().isAnchor(), link.charFormat().anchorHref()) == (True, "https://b.c")
    table = link.currentTable()
    assert (table.rows(), table.columns()) == (2, 2)
    panel = [b.blockFormat().property(PANEL) for b in blocks(document)]
    assert sum(n is not None for n in panel) == 2
    # Qt paints a line's background over what hangs down from the line before: underscores.
    fills = {text: document.find(text).charFormat().background().style() for text in ("x =", "co")}
    assert fills == {"x =": Qt.BrushStyle.NoBrush, "co": Qt.BrushStyle.SolidPattern}
    # Qt paints no table whose width is less than the room that it may use at its right.
    view.resize(1_600, 400)
    assert document.documentLayout().frameBoundingRect(table).width() > 0
    assert [show(text).toPlainText() for text in ("", "\n", "\n\n")] == [""] * 3


def test_a_line_that_becomes_something_else(formats):
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
        text = start + rest
        growing = grown(formats, text, [len(start)], steps=False)
        assert content(growing.document) == content(at_once(text, formats).document), start


@reusing
@given(text=markdown | reasoning, cuts=cut_places, steps=st.booleans())
@example(text="\n</think>\n\n", cuts=[1], steps=False)  # it is empty, so that nothing else is seen
def test_growing_as_at_once(formats, text, cuts, steps):
    growing = grown(formats, text, cuts, steps=steps)
    whole = at_once(text, formats)
    assert content(growing.document) == content(whole.document)
    assert growing.panels() == whole.panels()
    for place in range(len(text)):
        assert growing.ranges(place, place + 1) == whole.ranges(place, place + 1)


@reusing
@given(text=markdown, cut=st.integers(0, 10_000), finished=st.booleans())
def test_a_cut_text_is_a_shorter_one_and_goes_on(formats, text, cut, finished):
    cut = cut % (len(text) + 1)
    made = at_once(text, formats, stretches=())
    whole = content(made.document)
    if finished:
        made.finish()
        made.settle()
    made.cut(cut)
    made.settle()
    assert made.given == text[:cut]
    assert content(made.document) == content(at_once(text[:cut], formats, stretches=()).document)
    write(made, text[cut:])
    assert content(made.document) == whole


@reusing
@given(text=markdown, places=st.lists(st.integers(0, 120), max_size=5), cuts=cut_places)
def test_rejected_tokens_come_and_go(formats, text, places, cuts):
    rejected = [RejectedSpan(place, " no", number) for number, place in enumerate(sorted(places))]
    growing = empty(formats)
    for piece in split(text, cuts):
        growing.append(piece)
        here = [span for span in rejected if span.source <= len(growing.given)]
        growing.set_rejected(here)
        growing.settle()
    growing.set_rejected(rejected)
    growing.settle()
    bare = at_once(text, formats)
    whole = at_once(text, formats, rejected=rejected)
    assert content(growing.document) == content(whole.document)
    written = written_text(growing.document, 0, growing.document.characterCount())
    assert (
        written.rstrip() == written_text(bare.document, 0, bare.document.characterCount()).rstrip()
    )
    growing.set_rejected([])
    growing.settle()
    assert content(growing.document) == content(bare.document)


@reusing
@given(text=markdown, places=st.lists(st.integers(0, 120), max_size=3))
def test_every_character_stands_where_the_map_says(formats, text, places):
    rejected = [RejectedSpan(place, "no", number) for number, place in enumerate(sorted(places))]
    made = at_once(text, formats, rejected=rejected)
    end = 0
    for place, character in enumerate(text):
        for start, stop in made.ranges(place, place + 1):
            cursor = QTextCursor(made.document)
            cursor.setPosition(start)
            cursor.setPosition(stop, QTextCursor.MoveMode.KeepAnchor)
            assert cursor.charFormat().property(ROLE) != "rejected"
            exact = character.isalpha() and character.isascii() and stop - start == 1
            whole = "&" in text or "<br>" in text  # several characters are shown as one
            if exact and cursor.charFormat().property(ROLE) == "text" and not whole:
                assert cursor.selectedText() == character
            assert start >= end or character in " \n\t"
            end = start


def test_the_front_stays_while_the_end_grows(formats):
    made = empty(formats)
    made.document.documentLayout()  # without one, no changes are told
    write(made, "first\n\nsecond\n\nthird *par")
    changes = []
    made.document.contentsChange.connect(lambda position, *_: changes.append(position))
    write(made, "a* more")
    assert min(changes) >= len("first second ")
    changes.clear()
    write(made, " and more")
    assert min(changes) >= len("first second third para more")


def test_a_table_grows_by_its_rows(formats):
    text = (
        "before\n\n| a | *b* |\n|---|:-:|\n| 1 | two wide |\n"
        "| 3 | `four` |\n| 5 | \U0001f600 |\n\nafter"
    )
    made = empty(formats)
    made.document.documentLayout()
    write(made, text[: text.index("| 3")])
    table = made.document.find("two").currentTable()
    changes = []
    made.document.contentsChange.connect(lambda position, *_: changes.append(position))
    for end in range(text.index("| 3"), text.index("after")):
        write(made, text[end])
        assert content(made.document) == content(at_once(text[: end + 1], formats).document)
    assert made.document.find("four").currentTable() == table
    assert min(changes) >= made.document.find("two").selectionStart()


def test_what_later_text_decides_is_shown_then_and_undone_when_it_is_cut(formats):
    begin = "See [it][a].\n\n<details>\n<summary>More</summary>\n\nhidden\n"
    end = "\n</details>\n\nafter\n\n[a]: https://b.c/d\n\n[a]: https://no.no\n"
    made, at_first = empty(formats), ["See [it][a].", "\u25be More", "hidden"]
    defined = ("a: https://b.c/d", "a: https://no.no")  # the first counts
    write(made, *begin)
    assert lines(made) == at_first
    for _ in range(2):
        write(made, *end)
        assert lines(made) == ["See it.", "\u25b8 More", "after", *defined]
        assert made.document.find("it").charFormat().anchorHref() == "https://b.c/d"
        assert content(made.document) == content(at_once(begin + end, formats).document)
        made.cut(len(begin))
        assert lines(made) == at_first
        assert content(made.document) == content(at_once(begin, formats).document)
    long = begin + f"\n{'more ' * 200}\n" * 6  # in several parts, and without a definition
    ended = at_once(f"{long}\n</details>\n{'\nafter\n' * 9}", formats)
    ended.cut(len(long))
    assert lines(ended)[1:3] == at_first[1:]
    write(made, end)
    assert made.hides(begin.index("hidden"))
    made.reveal(begin.index("hidden"))
    assert lines(made)[:4] == ["See it.", "\u25be More", "hidden", "after"]


def colours(block):
    return {found.format.foreground().color().name() for found in block.layout().formats()}


def code_lines(document):
    return [b for b in blocks(document) if b.blockFormat().property(SHAPE) == "code"]


def coloured_lines(document):
    return [colours(line) for line in code_lines(document)]


def test_code_is_coloured_on_its_words_when_it_closes_or_is_over_however_it_arrives(formats, show):
    text = "```python\ndef count(word):\n    return len(word)\n```\n\nThat is all.\n"
    for size in (1, 3, 7):
        growing = grown(formats, text, range(0, len(text), size), steps=False)
        assert all(coloured_lines(growing.document)), size
    growing.set_formats(Formats(formats.font, DARK))
    growing.settle()
    found = growing.document.find("That").charFormat()
    assert found.foreground().color().name() == DARK.text
    growing = at_once("```python\ndef f():\n", formats)
    assert not any(coloured_lines(growing.document))
    write(growing, '    x = "\U0001f600" # y\n```\n')
    first, last = code_lines(growing.document)
    assert len(colours(first)) > 1
    text = last.text().encode("utf-16-le")
    words = {
        text[2 * f.start : 2 * (f.start + f.length)].decode("utf-16-le")
        for f in last.layout().formats()
    }
    assert "# y" in words
    assert all(coloured_lines(show("```python\ndef f(): pass").document()))  # it is over
    assert not any(coloured_lines(show("```nonsense\ndef f(): pass\n```\n").document()))
    # The lexer of diffs knows only lines that end.
    view = show("```diff\n+ a\n- b\n```\n")
    syntax = LIGHT.syntax
    assert coloured_lines(view.document()) == [{syntax["inserted"]}, {syntax["deleted"]}]


LONG_CODE = "```python\n" + "value = other(1, 2)  # why\n" * 120 + "```\n"


def test_code_is_coloured_to_its_end_while_a_second_block_is_written_and_when_written_anew(formats):
    """A tail that was written again used to end the colouring of the block before; rejected tokens
    in a long block rewind it to its middle."""
    growing = empty(formats)
    growing.append(LONG_CODE)
    while growing._colouring is None:
        assert growing.step()
    for piece in ("text\n```py", "thon\na = 1\n", "b = 2\n```\n"):
        growing.append(piece)
        growing.step()
    growing.finish()
    growing.settle()
    wanted = at_once(growing.given, formats)
    wanted.finish()
    wanted.settle()
    assert all(coloured_lines(growing.document))
    assert coloured_lines(growing.document) == coloured_lines(wanted.document)
    growing.set_rejected([RejectedSpan(len(LONG_CODE) - 30, "no", 0)])
    growing.settle()
    assert all(coloured_lines(growing.document))


def test_copying_code_and_a_selection(show):
    view = show("- ```py\n  a\n\n    b\u202e\n  ```\n\n```\n" + "x" * 2_500 + "\ny\n```\n")
    first, second = view.text.panels()
    assert view.text.code(first) == "a\n\n  b"
    assert view.text.code(second) == "x" * 2_500 + "\ny"
    long = "It is long. " * 900
    view = show("# H\n- **a** b\n\n|x|y|\n|-|-|\n|1|2|\n\n" + "w" * 9_000 + "\n\n" + long)
    view.text.set_rejected([RejectedSpan(3, "no", 0), RejectedSpan(9, "no", 1)])
    view.text.settle()
    view.selectAll()
    text = view.createMimeDataFromSelection().text()
    assert text == "H\n\u2022 a b\nx\ty\n1\t2\n" + "w" * 9_000 + "\n" + long.rstrip()
    assert view.createMimeDataFromSelection().formats() == ["text/plain"]
    cursor = view.document().find("b")
    view.setTextCursor(cursor)
    assert view.createMimeDataFromSelection().text() == "b"


THOUGHT = "<think>\nfirst *this*\n\n```py\nx = 1\n```"
THOUGHTS = ["first this", "py", "x = 1"]
REASONED = f"{THOUGHT}\n</think>\n\nThe **answer**"


def test_reasoning_is_counted_while_it_is_written_and_nothing_moves(formats):
    made = empty(formats, REASONED)
    made.append(THOUGHT)
    assert lines(made) == ["\u25be Thinking\u2026", *THOUGHTS]
    made.set_reasoning_figures(tokens=7)
    made.settle()
    place = REASONED.index("this")
    before, written = made.ranges(place, place + 4), made.rewritten
    for tokens in (8, 212, 1_000_000):
        made.set_reasoning_figures(tokens=tokens)
        header, *rest = lines(made)
        assert header.rstrip() == f"\u25be Thinking, {tokens:,} tokens\u2026"
        assert rest == THOUGHTS
        assert (made.ranges(place, place + 4), made.rewritten) == (before, written)
    made.fold(REASONING)
    assert [line.rstrip() for line in lines(made)] == ["\u25b8 Thinking, 1,000,000 tokens\u2026"]
    made.append(REASONED.removeprefix(THOUGHT))
    made.set_reasoning_figures(tokens=1_212, seconds=9.4)
    assert lines(made) == ["\u25b8 Thinking, 1,212 tokens, 9.4 s", "The answer"]
    assert made.panels() == {}


def test_reasoning_opens_and_closes_with_what_was_rejected_in_it(formats):
    place = REASONED.index("this")
    places = (place, REASONED.index("</think>") + 3, REASONED.index("answer"))
    rejected = [RejectedSpan(place, " no", number) for number, place in enumerate(places)]
    made = grown(formats, REASONED, [len(THOUGHT)], steps=False)
    assert (lines(made), made.panels()) == (["\u25b8 Thinking", "The answer"], {})
    made.set_rejected(rejected)
    assert lines(made)[1:] == ["The  no\u200aanswer"]
    folded = content(made.document)
    made.fold(REASONING)
    assert "".join(lines(made)).count(" no") == len(rejected)
    made.set_rejected([])
    assert lines(made)[1:4] == THOUGHTS
    ((start, _),) = made.ranges(place, place + 4)
    assert made.source_at(start) == place
    made.set_rejected(rejected)
    made.fold(REASONING)
    made.settle()
    assert content(made.document) == folded
    assert made.ranges(place, place + 4) == []


def test_reasoning_has_a_header_that_is_a_link_and_stays_in_sight_where_it_was_cut(show, until):
    view = show(REASONED)
    asked = []
    view.link_asked.connect(asked.append)
    address = view.document().find("Thinking").charFormat().anchorHref()
    view.anchorClicked.emit(QUrl(address))
    until(lambda: "first this" in view.toPlainText())
    assert asked == []
    whole = written_text(view.document(), 0, view.document().characterCount())
    assert "Thinking" not in whole  # which no one wrote
    assert "first this" in show(THOUGHT).toPlainText()


MARK = "@@@ "
SAMPLES = Path(__file__).parents[1] / "data" / "markdown_samples.txt"
QUOTED = "> " + "quoted words " * 8 + "\n"
LETTER = "> Paragraph **{}** of the letter, which goes on and on, as letters did.\n>\n"
ROW = "| {0} | Item *{0}* | `code-{0}` | {0} | a remark about item {0} |\n"
TOO_LONG = {
    "huge table": "All items:\n\n| No. | Name | Code | Count | Remark |\n|--:|---|---|:-:|---|\n"
    + "".join(map(ROW.format, range(1, 121))),
    "one quoted paragraph": f"> [!TIP]\n{QUOTED * 110}\nThe end.\n",
    "long quotation": "They wrote:\n\n"
    + "".join(map(LETTER.format, range(1, 131)))
    + "> The end.\n",
    "long list": "".join(f"{n}. **Entry {n}:** its text\n" for n in range(1, 121)),
}


def samples():
    """Return Markdown as models write it, by name."""
    parts = SAMPLES.read_text(encoding="utf-8").split(MARK)[1:]
    found = {name: text for name, _, text in (part.partition("\n") for part in parts)}
    return found | TOO_LONG


@pytest.mark.parametrize("name", samples())
def test_samples_grow_as_at_once(formats, name):
    text = samples()[name]
    start = text[:2_500]
    growing = grown(formats, start, range(0, len(start), 61), steps=True)
    assert content(growing.document) == content(at_once(start, formats).document)
    if name in TOO_LONG:
        shapes = {b.blockFormat().property(SHAPE) for b in blocks(at_once(text, formats).document)}
        assert "plain" not in shapes


CALL = '<tool_call>{"path": "notes.md"}</tool_call>'
ASIDE = Aside(0, "read_file notes.md, 2 kB, 0.1 s", (("Arguments", '{"path": "notes.md"}'),))


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
def test_asides_grow_as_at_once(formats, first, second, cuts, late):
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
