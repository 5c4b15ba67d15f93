"""Text in a Qt document: formats of each construct, growing as at once, copying, places."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QFont, QTextCursor, QTextDocument, QTextFormat

from app.conversations.think_tags import stretches_in
from app.markdown.copying import fragments, written_text
from app.markdown.document import REASONING, TextDocument
from app.markdown.formats import PANEL, ROLE, SHAPE, Formats
from app.markdown.page import RejectedSpan
from app.markdown.streaming import StreamingMarkdown, StreamingPlainText
from app.theme.palette import DARK, LIGHT
from tests.support.app.markdown_samples import samples
from tests.support.app.markdown_texts import cut_places, markdown, reasoning, split
from tests.support.mostly_slow import examples

reusing = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60)
)


def blocks(document):
    found, block = [], document.begin()
    while block.isValid():
        found.append(block)
        block = block.next()
    return found


def cell_format(block):
    """How the cell that a block is in looks, whichever table it is of."""
    table = QTextCursor(block).currentTable()
    if table is None:
        return None
    properties = table.cellAt(block.position()).format().properties()
    return {key: value for key, value in properties.items() if key != QTextFormat.ObjectIndex}


def content(document):
    """All that can be seen: each stretch with its format, each block with its own."""
    return [
        (
            block.blockFormat(),
            cell_format(block),
            [(part.text(), part.charFormat()) for part in fragments(block)],
        )
        for block in blocks(document)
    ]


def at_once(text, formats, rejected=None):
    made = TextDocument(QTextDocument(), formats, StreamingMarkdown())
    made.set_stretches(stretches_in(text))
    made.append(text)
    made.set_rejected(rejected or [])
    made.settle()
    return made


def characters(view, text):
    """The font of this text, where it first stands."""
    return view.document().find(text).charFormat().font()


def test_each_style_has_its_format(show):
    view = show("plain **bold** *it* ~~gone~~ `code`\n# big\n")
    assert characters(view, "bold").bold()
    assert characters(view, "it").italic()
    assert characters(view, "gone").strikeOut()
    assert characters(view, "code").fixedPitch() or characters(view, "code").family() != (
        characters(view, "plain").family()
    )
    assert characters(view, "big").pointSizeF() > characters(view, "plain").pointSizeF()
    assert not characters(view, "plain").bold()


def test_plain_text_of_a_page(show):
    view = show(
        "# H\n\npara\nline\n\n- a\n- b\n\n> q\n\n```py\nx = 1\n```\n\n|a|b|\n|-|-|\n|1|2|\n"
    )
    assert view.toPlainText().split("\n") == [
        *("H", "para", "line", "\u2022\ta", "\u2022\tb", "q", "py", "x = 1", "a", "b", "1", "2", "")
    ]


def test_links_and_tables_and_code(show):
    view = show("[a](https://b.c)\n\n|x|\n|-|\n|y|\n\n```\ncode\n```\n")
    link = view.document().find("a").charFormat()
    assert link.isAnchor()
    assert link.anchorHref() == "https://b.c"
    table = view.document().find("y").currentTable()
    assert (table.rows(), table.columns()) == (2, 1)
    panel = [b.blockFormat().property(PANEL) for b in blocks(view.document())]
    assert sum(n is not None for n in panel) == 2


def grown(formats, text, cuts, *, steps):
    """The document of a text that came piece by piece, each shown in steps or at once."""
    growing = TextDocument(QTextDocument(), formats, StreamingMarkdown())
    growing.set_stretches(stretches_in(text))
    for piece in split(text, cuts):
        growing.append(piece)
        if steps:
            growing.step()
        else:
            growing.settle()
    growing.settle()
    return growing


@reusing
@given(text=markdown, cuts=cut_places, steps=st.booleans())
def test_growing_as_at_once(formats, text, cuts, steps):
    growing = grown(formats, text, cuts, steps=steps)
    whole = at_once(text, formats)
    assert content(growing.document) == content(whole.document)
    assert growing.panels() == whole.panels()
    for place in range(len(text)):
        assert growing.ranges(place, place + 1) == whole.ranges(place, place + 1)


@reusing
@given(text=markdown, places=st.lists(st.integers(0, 120), max_size=5), cuts=cut_places)
def test_rejected_tokens_come_and_go(formats, text, places, cuts):
    rejected = [RejectedSpan(place, " no", number) for number, place in enumerate(sorted(places))]
    growing = TextDocument(QTextDocument(), formats, StreamingMarkdown())
    for piece in split(text, cuts):
        growing.append(piece)
        here = [span for span in rejected if span.source <= len(growing.given)]
        growing.set_rejected(here)
        growing.settle()
    growing.set_rejected(rejected)
    growing.settle()
    bare = at_once(text, formats)
    assert content(growing.document) == content(at_once(text, formats, rejected).document)
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
    made = at_once(text, formats, rejected)
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
    made = TextDocument(QTextDocument(), formats, StreamingMarkdown())
    made.document.documentLayout()  # without one, no changes are told
    made.append("first\n\nsecond\n\nthird *par")
    made.settle()
    changes = []
    made.document.contentsChange.connect(lambda position, *_: changes.append(position))
    made.append("a* more")
    made.settle()
    assert min(changes) >= len("first second ")
    changes.clear()
    made.append(" and more")
    made.settle()
    assert min(changes) >= len("first second third para more")


def test_a_table_grows_by_its_rows(formats):
    text = (
        "before\n\n| a | *b* |\n|---|:-:|\n| 1 | two wide |\n"
        "| 3 | `four` |\n| 5 | \U0001f600 |\n\nafter"
    )
    made = TextDocument(QTextDocument(), formats, StreamingMarkdown())
    made.document.documentLayout()
    made.append(text[: text.index("| 3")])
    made.settle()
    table = made.document.find("two").currentTable()
    changes = []
    made.document.contentsChange.connect(lambda position, *_: changes.append(position))
    for end in range(text.index("| 3"), text.index("after")):
        made.append(text[end])
        made.settle()
        assert content(made.document) == content(at_once(text[: end + 1], formats).document)
    assert made.document.find("four").currentTable() == table
    assert min(changes) >= made.document.find("two").selectionStart()
    for place in range(len(text) - len("after")):
        found = made.ranges(place, place + 1)
        assert found == at_once(text, formats).ranges(place, place + 1)


def test_other_colours_and_fonts(formats, show):
    view = show("a **b**\n\n```py\ndef f(): pass\n```\n")
    before = view.toPlainText()
    view.set_formats(Formats(formats.font, DARK))
    view.text.settle()
    assert view.toPlainText() == before
    assert view.document().find("b").charFormat().foreground().color().name() == DARK.text


def colours(block):
    return {found.format.foreground().color().name() for found in block.layout().formats()}


def code_block(document):
    return next(b for b in blocks(document) if b.blockFormat().property(SHAPE) == "code")


def test_code_is_coloured_when_it_closes(formats, show):
    growing = at_once("```python\ndef f():\n", formats)
    assert not colours(code_block(growing.document))
    growing.append("    pass\n```\n")
    growing.settle()
    assert len(colours(code_block(growing.document))) > 1
    assert colours(
        code_block(show("```python\ndef f(): pass").document())
    )  # never closed, but over
    assert not colours(code_block(show("```nonsense\ndef f(): pass\n```\n").document()))


def coloured_lines(document):
    return [colours(b) for b in blocks(document) if b.blockFormat().property(SHAPE) == "code"]


LONG_CODE = "```python\n" + "value = other(1, 2)  # why\n" * 120 + "```\n"


def test_code_is_coloured_to_its_end_while_a_second_block_is_written(formats):
    """A tail that was written anew used to end the colouring of the block before."""
    growing = TextDocument(QTextDocument(), formats, StreamingMarkdown())
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


def test_code_that_is_written_anew_in_part_is_coloured_again(formats):
    """Rejected tokens in a long block rewind it to its middle."""
    made = at_once(LONG_CODE, formats)
    assert all(coloured_lines(made.document))
    made.set_rejected([RejectedSpan(len(LONG_CODE) - 30, "no", 0)])
    made.settle()
    assert all(coloured_lines(made.document))


def test_the_last_line_of_code_is_coloured_as_the_others(show):
    """The lexer of diffs knows only lines that end."""
    view = show("```diff\n+ a\n- b\n```\n")
    syntax = LIGHT.syntax
    assert coloured_lines(view.document()) == [{syntax["inserted"]}, {syntax["deleted"]}]


def test_colours_lie_on_their_words(show):
    view = show('```python\nx = "\U0001f600" # y\n```\n')
    block = code_block(view.document())
    text = block.text().encode("utf-16-le")
    found = {
        text[2 * f.start : 2 * (f.start + f.length)].decode("utf-16-le")
        for f in block.layout().formats()
    }
    assert "# y" in found


@pytest.mark.parametrize("text", ["", "\n", "\n\n"])
def test_nothing_is_nothing(show, text):
    assert show(text).toPlainText() == ""


def test_no_line_of_code_covers_what_hangs_down_from_the_one_above(show):
    """Qt paints a line's background over the line before: underscores were lost."""
    view = show("```python\nis_prime\nit_is\n```\n`in_line`\n")

    def background(text):
        return view.document().find(text).charFormat().background().style()

    assert background("is_prime") == background("it_is") == Qt.BrushStyle.NoBrush
    assert background("in_line") == Qt.BrushStyle.SolidPattern


def test_copying_code(show):
    view = show("- ```py\n  a\n\n    b\u202e\n  ```\n\n```\n" + "x" * 2_500 + "\ny\n```\n")
    first, second = view.text.panels()
    assert view.text.code(first) == "a\n\n  b"
    assert view.text.code(second) == "x" * 2_500 + "\ny"


def test_copying_a_selection(show):
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


@pytest.mark.parametrize("text", ["```py\nx = 1\n```\n", "Words\n\n```py\nx = 1\n```\n"])
def test_code_has_the_same_room_on_top_of_a_page(formats, text):
    made = TextDocument(QTextDocument(), formats, StreamingMarkdown())
    for character in text:
        made.append(character)
        made.settle()
    (panel,) = made.panels().values()
    label = made.document.findBlock(panel)
    top = made.document.documentLayout().blockBoundingRect(label).top()
    before = made.document.documentLayout().blockBoundingRect(label.previous()).bottom()
    assert top - before >= label.blockFormat().topMargin() > 0


REASONED = "<think>\nfirst *this*\n\n```py\nx = 1\n```\n</think>\n\nThe **answer**"


def test_reasoning_is_open_while_it_is_written_and_folded_when_it_ends(formats):
    made = TextDocument(QTextDocument(), formats, StreamingMarkdown())
    made.set_stretches(stretches_in(REASONED))
    made.append(REASONED[: REASONED.index("\n</think>")])
    made.settle()
    assert made.document.toPlainText().split("\n") == [
        *("\u25be Thinking\u2026", "first this", "py", "x = 1")
    ]
    made.append(REASONED[REASONED.index("\n</think>") :])
    made.settle()
    made.set_reasoning_figures(tokens=1_212, seconds=9.4)
    made.settle()
    assert made.document.toPlainText().split("\n") == [
        *("\u25b8 Thinking, 1,212 tokens, 9.4 s", "The answer")
    ]
    assert made.panels() == {}


def test_reasoning_is_counted_while_it_is_written_and_nothing_moves(formats):
    made = TextDocument(QTextDocument(), formats, StreamingMarkdown())
    made.set_stretches(stretches_in(REASONED))
    made.append(REASONED[: REASONED.index("\n</think>")])
    made.set_reasoning_figures(tokens=7)
    made.settle()
    place = REASONED.index("this")
    before, written = made.ranges(place, place + 4), made.rewritten
    for tokens in (8, 212, 1_000_000):
        made.set_reasoning_figures(tokens=tokens)
        made.settle()
        header, *rest = made.document.toPlainText().split("\n")
        assert header.rstrip() == f"\u25be Thinking, {tokens:,} tokens\u2026"
        assert rest == ["first this", "py", "x = 1"]
        assert (made.ranges(place, place + 4), made.rewritten) == (before, written)
    made.fold(REASONING)
    made.settle()
    assert made.document.toPlainText().rstrip() == "\u25b8 Thinking, 1,000,000 tokens\u2026"
    made.append(REASONED[REASONED.index("\n</think>") :])
    made.set_reasoning_figures(tokens=9, seconds=1.0)
    made.settle()
    assert made.document.toPlainText().split("\n") == [
        *("\u25b8 Thinking, 9 tokens, 1.0 s", "The answer")
    ]


def test_reasoning_opens_and_closes(formats):
    made = at_once(REASONED, formats)
    folded = content(made.document)
    made.fold(REASONING)
    made.settle()
    assert made.document.toPlainText().split("\n")[1:4] == ["first this", "py", "x = 1"]
    place = REASONED.index("this")
    ((start, _),) = made.ranges(place, place + 4)
    assert made.source_at(start) == place
    made.fold(REASONING)
    made.settle()
    assert content(made.document) == folded
    assert made.ranges(place, place + 4) == []


def test_what_was_rejected_in_the_reasoning_is_folded_with_it(formats):
    places = (REASONED.index("this"), REASONED.index("</think>") + 3, REASONED.index("answer"))
    rejected = [RejectedSpan(place, " no", number) for number, place in enumerate(places)]
    made = at_once(REASONED, formats, rejected)
    assert made.document.toPlainText().split("\n")[1:] == ["The  no\u200aanswer"]
    made.fold(REASONING)
    made.settle()
    assert made.document.toPlainText().count(" no") == len(rejected)
    made.fold(REASONING)
    made.settle()
    assert made.document.toPlainText().split("\n")[1:] == ["The  no\u200aanswer"]


def test_the_header_of_the_reasoning_is_a_link_that_leaves_nothing(show, until):
    view = show(REASONED)
    asked = []
    view.link_asked.connect(asked.append)
    address = view.document().find("Thinking").charFormat().anchorHref()
    view.anchorClicked.emit(QUrl(address))
    until(lambda: "first this" in view.toPlainText())
    assert asked == []
    whole = written_text(view.document(), 0, view.document().characterCount())
    assert "Thinking" not in whole  # which nobody wrote


def test_reasoning_that_was_cut_stays_in_sight(show):
    assert "first this" in show(REASONED[: REASONED.index("\n</think>")]).toPlainText()


@reusing
@given(text=reasoning, cuts=cut_places, steps=st.booleans())
@example(text="\n</think>\n\n", cuts=[1], steps=False)  # it is empty, so that nothing else is seen
def test_reasoning_grows_as_at_once(formats, text, cuts, steps):
    growing = grown(formats, text, cuts, steps=steps)
    whole = at_once(text, formats)
    assert content(growing.document) == content(whole.document)
    for place in range(len(text)):
        assert growing.ranges(place, place + 1) == whole.ranges(place, place + 1)


@pytest.mark.parametrize("points", [9.0, 14.0, 36.0])
def test_the_lines_of_an_entry_begin_below_each_other(show, points):
    view = show("1. first " + "and more " * 40)
    font = QFont(view.font())
    font.setPointSizeF(points)
    view.set_formats(Formats(font, LIGHT))
    view.text.settle()
    block = view.document().find("first").block()
    layout = block.layout()
    text = layout.lineAt(0).cursorToX(block.text().index("first"))[0]
    assert text == pytest.approx(layout.lineAt(1).x(), abs=1)


def test_a_long_line_is_cut_between_words(formats):
    words = "word salad again " * 700
    made = TextDocument(QTextDocument(), formats, StreamingPlainText())
    made.append(words)
    made.settle()
    lines = made.document.toPlainText().split("\n")
    assert len(lines) > 2
    assert "".join(lines) == words
    assert all(line.endswith(" ") and not line.startswith(" ") for line in lines)


@pytest.mark.parametrize("size", [1, 3, 7])
def test_code_is_coloured_however_its_language_arrives(formats, size):
    text = "```python\ndef count(word):\n    return len(word)\n```\n\nThat is all.\n"
    growing = TextDocument(QTextDocument(), formats, StreamingMarkdown())
    for begin in range(0, len(text), size):
        growing.append(text[begin : begin + size])
        growing.settle()
    assert all(coloured_lines(growing.document))


def test_there_is_room_between_a_table_and_code(formats):
    made = at_once("| a |\n|---|\n| one |\n\n```python\ntwo\n```\n", formats)
    made.document.setTextWidth(500)
    layout = made.document.documentLayout()
    cell, label = (made.document.find(text).block() for text in ("one", "python"))
    between = layout.blockBoundingRect(label).top() - layout.blockBoundingRect(cell).bottom()
    assert between > 6 + 12  # the cell's own room, and that of the code's paper


def test_a_table_is_painted_beside_short_lines_of_prose(show):
    """Qt paints no table whose width is less than the room that it may use at its right."""
    view = show("|a|\n|-|\n|b|\n")
    view.resize(1_600, 400)
    table = view.document().find("b").currentTable()
    assert view.document().documentLayout().frameBoundingRect(table).width() > 0


def test_colours_of_code_go_with_it_when_all_is_written_anew(formats):
    made = at_once("first words\n\n```python\ndef f(): return 1", formats)
    made.finish()
    made.settle()
    made.set_formats(Formats(formats.font, DARK))
    made.settle()
    assert not colours(made.document.firstBlock())


def test_details_fold_when_they_end(formats):
    text = "<details>\n<summary>More</summary>\n\nhidden\n\n</details>\n\nafter\n"
    made = at_once(text[: text.index("</details>")], formats)
    assert made.document.toPlainText().split("\n") == ["\u25be More", "hidden"]
    made.append(text[text.index("</details>") :])
    made.settle()
    assert made.document.toPlainText().split("\n") == ["\u25b8 More", "after"]
    assert made.hides(text.index("hidden"))
    made.reveal(text.index("hidden"))
    made.settle()
    assert made.document.toPlainText().split("\n") == ["\u25be More", "hidden", "after"]


def test_a_definition_that_comes_later_makes_links(formats):
    text = "See [it][a].\n\nMore.\n\nAnd more.\n\n[a]: https://b.c/d\n"
    made = TextDocument(QTextDocument(), formats, StreamingMarkdown())
    for character in text:
        made.append(character)
        made.settle()
    assert made.document.find("it").charFormat().anchorHref() == "https://b.c/d"
    assert content(made.document) == content(at_once(text, formats).document)


def test_long_tables_and_quotes_are_shown_as_such(formats):
    for name in ("huge table", "long quotation", "one quoted paragraph"):
        made = at_once(samples()[name], formats)
        shapes = {b.blockFormat().property(SHAPE) for b in blocks(made.document)}
        assert "plain" not in shapes, name


@pytest.mark.parametrize("name", samples())
def test_samples_grow_as_at_once(formats, name):
    text = samples()[name][:2_500]
    growing = grown(formats, text, list(range(0, len(text), 61)), steps=True)
    assert content(growing.document) == content(at_once(text, formats).document)
